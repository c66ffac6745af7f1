/*
 * chat_utf8.c: see chat_utf8.h.
 *
 * A text is validated eight ASCII characters at a time.
 */

#include "bytes/chat_utf8.h"
#include "bytes/chat_word.h"


int
chat_utf8_is_valid(chat_str_t s)
{
    size_t i, n;

    for (i = 0; i < s.len; i += n) {
        if (s.len - i >= 8 && (chat_word_at(s.data + i) & CHAT_WORD_HIGH) == 0)
        {
            n = 8;
            continue;
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
    size_t i, n = ch < 0x80 ? 1 : ch < 0x800 ? 2 : ch < 0x10000 ? 3 : 4;

    static const unsigned char leads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

    for (i = n - 1; i > 0; i--) {
        out[i] = (unsigned char) (0x80 | (ch & 0x3f));
        ch >>= 6;
    }

    out[0] = (unsigned char) (leads[n] | ch);
    return n;
}
