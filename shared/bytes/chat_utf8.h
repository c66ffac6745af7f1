/*
 * chat_utf8.h: well-formed UTF-8 (RFC 3629).
 *
 * No overlong forms, no surrogates, nothing above U+10FFFF.
 */

#ifndef CHAT_UTF8_H
#define CHAT_UTF8_H

#include "bytes/chat_str.h"

static inline int
chat_utf8_follows(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}


/*
 * The bytes of the character that s, which is not empty, begins with. 0: it
 * begins with none.
 */
static inline size_t
chat_utf8_len(chat_str_t s)
{
    size_t               n;
    unsigned char        low, high;
    const unsigned char *p = s.data;

    if (p[0] < 0xe0) {
        return p[0] < 0x80                                             ? 1
               : p[0] >= 0xc2 && s.len >= 2 && chat_utf8_follows(p[1]) ? 2
                                                                       : 0;
    }

    /* what would be overlong, a surrogate, or above U+10FFFF */
    low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    n = p[0] < 0xf0 ? 3 : 4;

    return p[0] <= 0xf4 && s.len >= n && p[1] >= low && p[1] <= high
                   && chat_utf8_follows(p[2])
                   && (n == 3 || chat_utf8_follows(p[3]))
               ? n
               : 0;
}


/* 1 if s is UTF-8. */
int chat_utf8_is_valid(chat_str_t s);

/* Encodes ch, a valid code point; returns the number of bytes. */
size_t chat_utf8_put(uint32_t ch, unsigned char out[4]);

#endif /* CHAT_UTF8_H */
