/*
 * chat_json_scan.h: where a string or a number of JSON ends.
 *
 * Shared by the parser and by what reads frames without it. The functions take
 * RFC 8259 literally, and read nothing at or behind end.
 */

#ifndef CHAT_JSON_SCAN_H
#define CHAT_JSON_SCAN_H

#if defined(__SSE2__) && !defined(CHAT_SCAN_PORTABLE)
#include <emmintrin.h>
#include <stdint.h>
#define CHAT_SCAN_SHORT 16
#endif

/* What a string has, by bits; in a tree what any value has, and KEYS. */
#define CHAT_JSON_ESCAPED 1 /* an escape */
#define CHAT_JSON_VARIED 2  /* its canonical form may be another text */

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
chat_json_is_short(const unsigned char **at, const unsigned char *end,
                   int blocks)
{
#ifdef CHAT_SCAN_SHORT
    __m128i block;
    size_t  stops;

    do {
        if ((uintptr_t) *at > (uintptr_t) end - CHAT_SCAN_SHORT) {
            return 0;
        }

        block = _mm_loadu_si128((const __m128i *) *at);
        stops = (unsigned) _mm_movemask_epi8(_mm_or_si128(
            _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('"')),
                         _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'))),
            _mm_subs_epi8(block, _mm_set1_epi8(0x20))));
        *at += stops ? (unsigned) __builtin_ctzll(stops) : CHAT_SCAN_SHORT;
        if (stops != 0) {
            return **at == '"';
        }
    } while (--blocks != 0);
#endif

    return *at != end && **at == '"';
}


/* The same as chat_json_any_string_end(). */
static inline const unsigned char *
chat_json_string_end(const unsigned char *p, const unsigned char *end,
                     unsigned *has, int blocks)
{
    return chat_json_is_short(&p, end, blocks)
               ? p
               : chat_json_any_string_end(p, end, has);
}


/* Behind the number at p; NULL: there is none. Adds to *has. */
const unsigned char *chat_json_number_end(const unsigned char *p,
                                          const unsigned char *end,
                                          unsigned            *has);

#endif /* CHAT_JSON_SCAN_H */
