/*
 * chat_json_scan.h: where a string or a number of JSON ends.
 *
 * Shared by the parser and by what reads frames without it. The functions take
 * RFC 8259 literally, and read nothing at or behind end.
 */

#ifndef CHAT_JSON_SCAN_H
#define CHAT_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__SSE2__) && !defined(CHAT_SCAN_PORTABLE)
#include <emmintrin.h>
#define CHAT_SCAN_SHORT 16
#endif

/* What a string has, by bits; in a tree what any value has, and KEYS. */
#define CHAT_JSON_ESCAPED 1 /* an escape */
#define CHAT_JSON_VARIED 2  /* its canonical form may be another text */
#define CHAT_JSON_OWN 8     /* VARIED by itself, not by its children alone */

/* The character of an escape of this letter; 0: there is none. */
extern const unsigned char chat_json_letters[256];

/*
 * Returns the closing quote of a string; its text begins at p. Returns end if
 * the string has no closing quote, NULL if the text has a control character,
 * an invalid escape or an invalid character. Adds to *has.
 */
const unsigned char *chat_json_any_string_end(const unsigned char *p,
                                              const unsigned char *end,
                                              unsigned            *has);

/*
 * Most strings are short, and of usual characters: this looks at up to so many
 * blocks of SSE2, inline. 1: *at is the closing quote; 0: it is where
 * chat_json_any_string_end() goes on.
 */
static inline int
chat_json_is_short(const unsigned char *text, size_t *at, size_t end,
                   int blocks)
{
#ifdef CHAT_SCAN_SHORT
    __m128i  block;
    unsigned stops;

    while (*at + CHAT_SCAN_SHORT <= end && blocks-- != 0) {
        block = _mm_loadu_si128((const __m128i *) (text + *at));
        stops = (unsigned) _mm_movemask_epi8(_mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
                         _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'))),
            _mm_subs_epi8(block, _mm_set1_epi8(0x20))));
        if (stops != 0) {
            *at += (unsigned) __builtin_ctz(stops);
            return text[*at] == '"';
        }

        *at += CHAT_SCAN_SHORT;
    }
#endif

    return *at != end && text[*at] == '"';
}


/* The same as chat_json_any_string_end(). */
static inline const unsigned char *
chat_json_string_end(const unsigned char *p, const unsigned char *end,
                     unsigned *has, int blocks)
{
    size_t at = 0;

    return chat_json_is_short(p, &at, (size_t) (end - p), blocks)
               ? p + at
               : chat_json_any_string_end(p + at, end, has);
}


/* Behind the number at p; NULL: there is none. Adds to *has. */
const unsigned char *chat_json_number_end(const unsigned char *p,
                                          const unsigned char *end,
                                          unsigned            *has);

/*
 * In the canonical form members are in order of this number of their key, with
 * quotes. So those of most messages are as clients write them: that is what
 * its factors were chosen for.
 */
static inline uint32_t
chat_json_rank(const unsigned char *key, size_t len)
{
    return key[1] * 2117387440u + key[len - 2] * 3770565694u
           + (uint32_t) len * 3700332479u;
}


#endif /* CHAT_JSON_SCAN_H */
