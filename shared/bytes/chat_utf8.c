/*
 * chat_utf8.c: see chat_utf8.h.
 *
 * A text is validated eight ASCII characters at a time.
 */

#include "bytes/chat_utf8.h"


int
chat_utf8_is_valid(chat_str_t s)
{
    size_t   i, n;
    uint64_t word;

    for (i = 0; i < s.len; i += n) {
        if (s.len - i >= 8) {
            memcpy(&word, s.data + i, 8);

            if ((word & UINT64_C(0x8080808080808080)) == 0) {
                n = 8;
                continue;
            }
        }

        n = chat_utf8_len(chat_str(s.data + i, s.len - i));
        if (n == 0) {
            return 0;
        }
    }

    return 1;
}


size_t
chat_utf8_put(uint32_t ch, unsigned char out[4])
{
    if (ch < 0x80) {
        out[0] = (unsigned char) ch;
        return 1;
    }

    if (ch < 0x800) {
        out[0] = (unsigned char) (0xc0 | ch >> 6);
        out[1] = (unsigned char) (0x80 | (ch & 0x3f));
        return 2;
    }

    if (ch < 0x10000) {
        out[0] = (unsigned char) (0xe0 | ch >> 12);
        out[1] = (unsigned char) (0x80 | (ch >> 6 & 0x3f));
        out[2] = (unsigned char) (0x80 | (ch & 0x3f));
        return 3;
    }

    out[0] = (unsigned char) (0xf0 | ch >> 18);
    out[1] = (unsigned char) (0x80 | (ch >> 12 & 0x3f));
    out[2] = (unsigned char) (0x80 | (ch >> 6 & 0x3f));
    out[3] = (unsigned char) (0x80 | (ch & 0x3f));

    return 4;
}
