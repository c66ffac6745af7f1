/*
 * chat_slot.c: see chat_slot.h.
 *
 * The CRC takes a byte at a time: the polynomial x^16 + x^12 + x^5 + 1 shows
 * in the shifts.
 */

#include "bytes/chat_slot.h"


unsigned
chat_slot(chat_str_t key)
{
    size_t               i, left;
    unsigned             x, crc = 0;
    const unsigned char *open, *close;

    open = key.len != 0 ? memchr(key.data, '{', key.len) : NULL;

    if (open != NULL) {
        open++;
        left = key.len - (size_t) (open - key.data);
        close = left != 0 ? memchr(open, '}', left) : NULL;

        if (close != NULL && close != open) {
            key = chat_str(open, (size_t) (close - open));
        }
    }

    for (i = 0; i < key.len; i++) {
        x = (crc >> 8) ^ key.data[i];
        x ^= x >> 4;
        crc = ((crc << 8) ^ (x << 12) ^ (x << 5) ^ x) & 0xffff;
    }

    return crc % CHAT_SLOTS;
}
