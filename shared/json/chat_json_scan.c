/*
 * chat_json_scan.c: see chat_json_scan.h.
 *
 * With AVX2 32 bytes of ASCII at a time, escapes included; else, and at the
 * end of a text, eight bytes without escapes. A short string takes one block
 * of SSE2, which each x86-64 has. The unit tests compare them.
 */

#include "json/chat_json_scan.h"
#include "bytes/chat_utf8.h"
#include "bytes/chat_word.h"

#if defined(__SSE2__) && !defined(CHAT_SCAN_PORTABLE)
#include <immintrin.h>
#define CHAT_SCAN_BLOCK 32
#define CHAT_SCAN_SHORT 16
#endif


/* Where ASCII text ends that is neither quote nor escape. */
static const unsigned char *
plain_end(const unsigned char *p, const unsigned char *end)
{
    uint64_t word, special = 0;

    while ((size_t) (end - p) >= sizeof(word) && special == 0) {
        word = chat_word_at(p);
        special = ((word | (word - CHAT_WORD(0x20u))) & CHAT_WORD_HIGH)
                  | chat_word_zeros(word ^ CHAT_WORD('"'))
                  | chat_word_zeros(word ^ CHAT_WORD('\\'));
        p += special == 0 ? sizeof(word) : chat_word_first(special);
    }

    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') {
        p++;
    }

    return p;
}


static int
is_hex(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}


/* p: a backslash. Returns the end of its escape; NULL: it is invalid. */
static const unsigned char *
escape_end(const unsigned char *p, const unsigned char *end, unsigned *has)
{
    static const unsigned char letters[256] = {
        ['"'] = 1, ['\\'] = 1, ['/'] = 1, ['b'] = 1,
        ['f'] = 1, ['n'] = 1,  ['r'] = 1, ['t'] = 1,
    };

    *has |= CHAT_JSON_ESCAPED;

    if (end - p >= 2 && letters[p[1]]) {
        *has |= p[1] == '/' ? CHAT_JSON_VARIED : 0u;
        return p + 2;
    }

    *has |= CHAT_JSON_VARIED;

    return end - p >= 6 && p[1] == 'u' && is_hex(p[2]) && is_hex(p[3])
                   && is_hex(p[4]) && is_hex(p[5])
               ? p + 6
               : NULL;
}


/* Behind the characters at p that are not ASCII; NULL: one is not valid. */
static const unsigned char *
characters_end(const unsigned char *p, const unsigned char *end)
{
    size_t n;

    while (p < end && *p >= 0x80) {
        n = chat_utf8_len(chat_str(p, (size_t) (end - p)));
        if (n == 0) {
            return NULL;
        }

        p += n;
    }

    return p;
}


#ifdef CHAT_SCAN_BLOCK

/* The bits of the bytes of a block that are this one. */
static unsigned
bits_of(__m128i block, char byte)
{
    return (unsigned) _mm_movemask_epi8(
        _mm_cmpeq_epi8(block, _mm_set1_epi8(byte)));
}


/*
 * The bits of the bytes that a backslash before them escapes. *odd: the first
 * byte of this block is one; then of the next block. Of a row of backslashes
 * each second one is escaped: the subtraction carries along the row.
 */
static inline uint32_t
escaped_bits(uint32_t backslashes, uint32_t *odd)
{
    uint32_t alternate = 0xaaaaaaaa, first = backslashes & ~*odd;
    uint32_t ends = ((first << 1 | alternate) - first) ^ alternate;
    uint32_t escaped = ends ^ (backslashes | *odd);

    *odd = (ends & backslashes) >> (CHAT_SCAN_BLOCK - 1);
    return escaped;
}


/*
 * Where a block with escapes stops, NULL: not in it. stop: the bits of the
 * bytes that other code has to look at, of an escape that of its second one.
 */
static inline const unsigned char *
block_stop(const unsigned char *p, uint32_t backslashes, uint32_t escaped,
           uint32_t slashes, uint32_t stop, unsigned *has)
{
    uint32_t before = stop != 0 ? (stop & -stop) - 1 : UINT32_MAX;

    *has |= backslashes & before ? CHAT_JSON_ESCAPED : 0u;
    *has |= slashes & escaped & before ? CHAT_JSON_VARIED : 0u;

    if (stop == 0) {
        return NULL;
    }

    p += __builtin_ctz(stop);
    return escaped & stop & -stop ? p - 1 : p;
}


/*
 * Moves over blocks of ASCII with the usual escapes. Returns where it stops:
 * at the closing quote, or where other code has to look: at an escape, a
 * control character, one that is not ASCII, or in the last bytes.
 * The four low bits of a byte select the letter that it can be; an escaped b,
 * which shares them with r, is left to other code.
 */
static __attribute__((target("avx2"))) const unsigned char *
blocks_end(const unsigned char *p, const unsigned char *end, unsigned *has)
{
    __m256i              block, letters;
    uint32_t             odd = 0, backslashes, quotes, slashes, escaped, stop;
    const unsigned char *at;

    letters = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        -1, 0, 'r', 0, 't', 0, 'f', 0, 0, 0, 0, 0, '\\', 0, 'n', '/'));

    for (/* void */; end - p >= CHAT_SCAN_BLOCK; p += CHAT_SCAN_BLOCK) {
        block = _mm256_loadu_si256((const __m256i *) p);
        backslashes = (uint32_t) _mm256_movemask_epi8(
            _mm256_cmpeq_epi8(block, _mm256_set1_epi8('\\')));
        quotes = (uint32_t) _mm256_movemask_epi8(
            _mm256_cmpeq_epi8(block, _mm256_set1_epi8('"')));
        stop = (uint32_t) _mm256_movemask_epi8(
            _mm256_cmpgt_epi8(_mm256_set1_epi8(0x20), block));

        if ((backslashes | odd) == 0) {
            stop |= quotes;
            if (stop != 0) {
                return p + __builtin_ctz(stop);
            }
            continue;
        }

        escaped = escaped_bits(backslashes, &odd);
        slashes = (uint32_t) _mm256_movemask_epi8(
            _mm256_cmpeq_epi8(block, _mm256_set1_epi8('/')));
        stop |= quotes & ~escaped;
        stop |= escaped & ~quotes
                & ~(uint32_t) _mm256_movemask_epi8(_mm256_cmpeq_epi8(
                    block, _mm256_shuffle_epi8(letters, block)));

        at = block_stop(p, backslashes, escaped, slashes, stop, has);
        if (at != NULL) {
            return at;
        }
    }

    return p - odd;
}


#endif

/* As chat_json_string_end(), of any string. */
static __attribute__((noinline)) const unsigned char *
string_end(const unsigned char *p, const unsigned char *end, unsigned *has)
{
#ifdef CHAT_SCAN_BLOCK
    int blocks = __builtin_cpu_supports("avx2");
#endif

    while (p != NULL) {
#ifdef CHAT_SCAN_BLOCK
        if (blocks) {
            p = blocks_end(p, end, has);
        }
#endif

        p = plain_end(p, end);

        if (p == end || *p == '"') {
            break;
        }

        p = *p == '\\'   ? escape_end(p, end, has)
            : *p >= 0x80 ? characters_end(p, end)
                         : NULL;
    }

    return p;
}


const unsigned char *
chat_json_string_end(const unsigned char *p, const unsigned char *end,
                     unsigned *has)
{
#ifdef CHAT_SCAN_BLOCK
    __m128i  block;
    unsigned stop;

    /* most strings of a stream are a few characters of ASCII */
    if (end - p >= CHAT_SCAN_SHORT) {
        block = _mm_loadu_si128((const __m128i *) p);
        stop = bits_of(block, '"') | bits_of(block, '\\')
               | (unsigned) _mm_movemask_epi8(
                   _mm_cmplt_epi8(block, _mm_set1_epi8(0x20)));

        if (stop != 0 && p[__builtin_ctz(stop)] == '"') {
            return p + __builtin_ctz(stop);
        }
    }
#endif

    return string_end(p, end, has);
}


/* Behind the digits at p; NULL: there are none. */
static const unsigned char *
digits_end(const unsigned char *p, const unsigned char *end)
{
    const unsigned char *start = p;

    while (p < end && *p >= '0' && *p <= '9') {
        p++;
    }

    return p != start ? p : NULL;
}


const unsigned char *
chat_json_number_end(const unsigned char *p, const unsigned char *end)
{
    p += p < end && *p == '-';
    p = p < end && *p == '0' ? p + 1 : digits_end(p, end);

    if (p != NULL && p < end && *p == '.') {
        p = digits_end(p + 1, end);
    }

    if (p != NULL && p < end && (*p | 0x20) == 'e') {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        p = digits_end(p, end);
    }

    return p;
}
