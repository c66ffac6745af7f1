/*
 * chat_json_scan.c: see chat_json_scan.h.
 *
 * Eight bytes at a time, where they are ASCII without escapes.
 */

#include "json/chat_json_scan.h"
#include "bytes/chat_utf8.h"
#include "bytes/chat_word.h"


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


const unsigned char *
chat_json_string_end(const unsigned char *p, const unsigned char *end,
                     unsigned *has)
{
    while (p != NULL) {
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
