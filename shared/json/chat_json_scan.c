/*
 * chat_json_scan.c: see chat_json_scan.h.
 *
 * With AVX2 64 bytes at a time, escapes included; else, and at the end of a
 * text, eight bytes of ASCII without escapes. The unit tests compare them.
 */

#include "json/chat_json_scan.h"
#include "bytes/chat_utf8.h"
#include "bytes/chat_word.h"

#include <ctype.h>

#define CHAT_JSON_DIGITS 15 /* of an integer that is its own form */

#ifdef CHAT_SCAN_SHORT
#include <immintrin.h>
#define CHAT_SCAN_BLOCK 64
#endif


const unsigned char chat_json_letters[256] = {
    ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
    ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
};


/* Where ASCII text ends that is neither quote nor escape. */
static __attribute__((noinline)) const unsigned char *
plain_end(const unsigned char *p, const unsigned char *end)
{
    uint64_t word, special = 0;

    while ((size_t) (end - p) >= sizeof(word) && special == 0) {
        word = chat_word_at(p);
        special = chat_word_escaped(word) | (word & CHAT_WORD_HIGH);
        p += special == 0 ? sizeof(word) : chat_word_first(special);
    }

    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\') {
        p++;
    }

    return p;
}


/* p: a backslash. Returns the end of its escape; NULL: it is invalid. */
static const unsigned char *
escape_end(const unsigned char *p, const unsigned char *end, unsigned *has)
{
    *has |= CHAT_JSON_ESCAPED;

    if (end - p >= 2 && chat_json_letters[p[1]]) {
        *has |= p[1] == '/' ? CHAT_JSON_VARIED : 0u;
        return p + 2;
    }

    *has |= CHAT_JSON_VARIED;

    return end - p >= 6 && p[1] == 'u' && isxdigit(p[2]) && isxdigit(p[3])
                   && isxdigit(p[4]) && isxdigit(p[5])
               ? p + 6
               : NULL;
}


/* Behind the character at p, which is no escape; NULL: it is not valid. */
static const unsigned char *
character_end(const unsigned char *p, const unsigned char *end)
{
    size_t n = *p < 0x20 ? 0 : chat_utf8_len(chat_str(p, (size_t) (end - p)));

    return n != 0 ? p + n : NULL;
}


#ifdef CHAT_SCAN_BLOCK

#define CHAT_AVX2 __attribute__((target("avx2,bmi")))

/* The high bits of the bytes in the two halves of a block. */
static inline CHAT_AVX2 uint64_t
bits_of(__m256i low, __m256i high)
{
    return (uint32_t) _mm256_movemask_epi8(low)
           | (uint64_t) (uint32_t) _mm256_movemask_epi8(high) << 32;
}


/* The bytes that are this one. */
static inline CHAT_AVX2 __m256i
equal(__m256i bytes, char byte)
{
    return _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte));
}


/* The high bits of quotes, control characters and those not of ASCII. */
static inline CHAT_AVX2 __m256i
special(__m256i bytes)
{
    return _mm256_or_si256(equal(bytes, '"'),
                           _mm256_subs_epi8(bytes, _mm256_set1_epi8(0x20)));
}


/*
 * The usual letters behind a backslash. The four low bits of a byte select
 * that which it can be. b, which shares them with r, and the slash are left to
 * other code.
 */
static inline CHAT_AVX2 __m256i
letter(__m256i bytes)
{
    __m256i letters = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        -1, 0, 'r', 0, 't', 0, 'f', 0, 0, 0, 0, 0, '\\', 0, 'n', 0));

    return _mm256_or_si256(
        equal(bytes, '"'),
        _mm256_cmpeq_epi8(bytes, _mm256_shuffle_epi8(letters, bytes)));
}


/*
 * The bits of the bytes that are not usual; of an escape its second byte. Of a
 * row of backslashes each second one is escaped: the subtraction carries along
 * the row. *odd: the first byte of this block is escaped; then of the next.
 */
static inline CHAT_AVX2 uint64_t
stops_of(const unsigned char *p, uint64_t *row, uint64_t *escaped,
         uint64_t *odd)
{
    __m256i  low = _mm256_loadu_si256((const __m256i *) p);
    __m256i  high = _mm256_loadu_si256((const __m256i *) (p + 32));
    uint64_t stops = bits_of(special(low), special(high));
    uint64_t first, ends, alternate = 0xaaaaaaaaaaaaaaaa;

    *row = bits_of(equal(low, '\\'), equal(high, '\\'));
    *escaped = 0;

    if ((*row | *odd) != 0) {
        first = *row & ~*odd;
        ends = ((first << 1 | alternate) - first) ^ alternate;
        *escaped = ends ^ (*row | *odd);
        *odd = (ends & *row) >> (CHAT_SCAN_BLOCK - 1);
        stops = (stops & ~*escaped)
                | (*escaped & ~bits_of(letter(low), letter(high)));
    }

    return stops;
}


/* The first of these bytes of the block at p that is in no character. */
static __attribute__((noinline)) unsigned
stop_of(const unsigned char *p, uint64_t stop, uint64_t escaped)
{
    size_t   n;
    unsigned bit;

    for (/* void */; stop != 0; stop &= -(uint64_t) 2 << (bit + n - 1)) {
        bit = (unsigned) __builtin_ctzll(stop);
        n = chat_utf8_len(chat_str(p + bit, CHAT_SCAN_BLOCK - bit));
        if (n < 2 || (escaped >> bit & 1) != 0) {
            return bit;
        }
    }

    return CHAT_SCAN_BLOCK;
}


/*
 * Moves over blocks, one at least, of characters and the usual escapes.
 * Returns where it stops: at the closing quote, or where other code has to
 * look: at an escape, a control character, a character that is invalid or goes
 * on in the next block, or in the last bytes.
 */
static CHAT_AVX2 const unsigned char *
blocks_end(const unsigned char *p, const unsigned char *end, unsigned *has)
{
    unsigned             bit;
    uint64_t             stops, row, escaped, odd = 0, escapes = 0;
    const unsigned char *last = end - CHAT_SCAN_BLOCK;

    for (/* void */; p <= last; p += CHAT_SCAN_BLOCK) {
        stops = stops_of(p, &row, &escaped, &odd);

        if (stops != 0) {
            bit = (unsigned) __builtin_ctzll(stops);
            bit = p[bit] == '"' ? bit : stop_of(p, stops, escaped);
            if (bit < CHAT_SCAN_BLOCK) {
                escapes |= row & (((uint64_t) 1 << bit) - 1);
                odd = escaped >> bit & 1;
                p += bit;
                break;
            }
        }

        escapes |= row;
    }

    _mm256_zeroupper(); /* GCC 12 forgets it behind stop_of() */
    *has |= escapes ? CHAT_JSON_ESCAPED : 0u;
    return p - odd;
}


#endif

const unsigned char *
chat_json_any_string_end(const unsigned char *p, const unsigned char *end,
                         unsigned *has)
{
    do {
#ifdef CHAT_SCAN_BLOCK
        p = end - p >= CHAT_SCAN_BLOCK && __builtin_cpu_supports("avx2")
                    && __builtin_cpu_supports("bmi")
                ? blocks_end(p, end, has)
                : plain_end(p, end);
#else
        p = plain_end(p, end);
#endif

        if (p == end || *p == '"') {
            break;
        }

        p = *p == '\\' ? escape_end(p, end, has) : character_end(p, end);
    } while (p != NULL);

    return p;
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
chat_json_number_end(const unsigned char *p, const unsigned char *end,
                     unsigned *has)
{
    const unsigned char *integer, *start = p;

    p += p < end && *p == '-';
    p = p < end && *p == '0' ? p + 1 : digits_end(p, end);
    integer = p;

    if (p != NULL && p < end && *p == '.') {
        p = digits_end(p + 1, end);
    }

    if (p != NULL && p < end && (*p | 0x20) == 'e') {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        p = digits_end(p, end);
    }

    if (p != NULL
        && (p != integer || *start == '-' || p - start > CHAT_JSON_DIGITS))
    {
        *has |= CHAT_JSON_VARIED;
    }

    return p;
}
