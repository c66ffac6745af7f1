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
    size_t               i;
    unsigned             x, crc = 0;
    chat_str_t           tag = key;
    const unsigned char *close;

    (void) chat_str_cut(&tag, '{');
    close = tag.len != 0 ? memchr(tag.data, '}', tag.len) : NULL;

    if (close != NULL && close != tag.data) {
        key = chat_str(tag.data, (size_t) (close - tag.data));
    }

    for (i = 0; i < key.len; i++) {
        x = (crc >> 8) ^ key.data[i];
        x ^= x >> 4;
        crc = ((crc << 8) ^ (x << 12) ^ (x << 5) ^ x) & 0xffff;
    }

    return crc % CHAT_SLOTS;
}
