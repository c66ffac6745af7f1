/*
 * chat_slot.c: see chat_slot.h.
 *
 * The CRC goes bit by bit: a key of a hundred bytes takes less than a
 * microsecond, little beside a request to the network.
 */

#include "bytes/chat_slot.h"

#define CHAT_SLOT_POLYNOMIAL 0x1021


static unsigned
chat_slot_crc(chat_str_t text)
{
    int      bit;
    size_t   i;
    unsigned crc = 0;

    for (i = 0; i < text.len; i++) {
        crc ^= (unsigned) text.data[i] << 8;

        for (bit = 0; bit < 8; bit++) {
            crc <<= 1;
            if (crc & 0x10000) {
                crc ^= 0x10000 | CHAT_SLOT_POLYNOMIAL;
            }
        }
    }

    return crc;
}


unsigned
chat_slot(chat_str_t key)
{
    size_t               left;
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

    return chat_slot_crc(key) % CHAT_SLOTS;
}
