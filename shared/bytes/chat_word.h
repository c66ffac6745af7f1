/*
 * chat_word.h: eight bytes at a time.
 *
 * A mask has the high bit of each byte that was looked for. Up to the first
 * such byte in memory it is exact.
 */

#ifndef CHAT_WORD_H
#define CHAT_WORD_H

#include "bytes/chat_str.h"

#define CHAT_WORD(c) ((c) *0x0101010101010101u) /* a word of this byte */
#define CHAT_WORD_HIGH CHAT_WORD(0x80u)


/* A word as it is in memory, of or to one with the first byte as lowest. */
static inline uint64_t
chat_word_lowest_first(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return word;
#else
    return __builtin_bswap64(word);
#endif
}


static inline uint64_t
chat_word_at(const unsigned char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return chat_word_lowest_first(word);
}


/* The mask of the bytes that are zero. */
static inline uint64_t
chat_word_zeros(uint64_t word)
{
    return (word - CHAT_WORD(1u)) & ~word & CHAT_WORD_HIGH;
}


/* The mask of the bytes that a JSON string has only in escapes. */
static inline uint64_t
chat_word_escaped(uint64_t word)
{
    return ((word - CHAT_WORD(0x20u))
            | ((word ^ CHAT_WORD('"')) - CHAT_WORD(1u))
            | ((word ^ CHAT_WORD('\\')) - CHAT_WORD(1u)))
           & ~word & CHAT_WORD_HIGH;
}


/* How many bytes precede the first one of which a bit is set; not of 0. */
static inline size_t
chat_word_first(uint64_t word)
{
    return (size_t) __builtin_ctzll(word) / 8;
}


/* 1 if n bytes are the same. Of few bytes memcmp() would take longer. */
static inline int
chat_word_same(const unsigned char *a, const unsigned char *b, size_t n)
{
    if (n < 8) {
        return n >= 4 ? memcmp(a, b, 4) == 0
                            && memcmp(a + n - 4, b + n - 4, 4) == 0
                      : n == 0
                            || (a[0] == b[0] && a[n / 2] == b[n / 2]
                                && a[n - 1] == b[n - 1]);
    }

    for (/* void */; n > 8 && memcmp(a, b, 8) == 0; n -= 8) {
        a += 8;
        b += 8;
    }

    return n <= 8 && memcmp(a + n - 8, b + n - 8, 8) == 0;
}


#endif /* CHAT_WORD_H */
