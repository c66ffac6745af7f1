/*
 * chat_slot.c: see chat_slot.h.
 *
 * The CRC goes bit by bit: a key of a hundred bytes takes less than a
 * microsecond, little beside a request to the network.
 */

#include "bytes/chat_slot.h"

#define CHAT_SLOT_POLYNOMIAL 0x1021


unsigned
chat_slot(chat_str_t key)
{
    int                  bit;
    size_t               i, left;
    unsigned             crc = 0;
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
        crc ^= (unsigned) key.data[i] << 8;

        for (bit = 0; bit < 8; bit++) {
            crc <<= 1;
            if (crc & 0x10000) {
                crc ^= 0x10000 | CHAT_SLOT_POLYNOMIAL;
            }
        }
    }

    return crc % CHAT_SLOTS;
}
