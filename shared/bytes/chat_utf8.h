/*
 * chat_utf8.h: well-formed UTF-8 (RFC 3629).
 *
 * No overlong forms, no surrogates, nothing above U+10FFFF.
 */

#ifndef CHAT_UTF8_H
#define CHAT_UTF8_H

#include "bytes/chat_str.h"

/*
 * The bytes of the character that s, which is not empty, begins with. 0: it
 * begins with none.
 */
static inline size_t
chat_utf8_len(chat_str_t s)
{
    size_t               i, n;
    const unsigned char *p = s.data;
    unsigned char        low = 0x80, high = 0xbf;

    if (p[0] < 0xc2 || p[0] > 0xf4) {
        return p[0] < 0x80;
    }

    n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    /* what would be overlong, a surrogate, or above U+10FFFF */
    low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : low;
    high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : high;

    if (s.len < n || p[1] < low || p[1] > high) {
        return 0;
    }

    for (i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }

    return n;
}


/* 1 if s is UTF-8. */
int chat_utf8_is_valid(chat_str_t s);

/* Encodes ch, a valid code point; returns the number of bytes. */
size_t chat_utf8_put(uint32_t ch, unsigned char out[4]);

#endif /* CHAT_UTF8_H */
