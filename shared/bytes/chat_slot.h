/*
 * chat_slot.h: which of the 16384 slots of a Redis cluster a key is in.
 *
 * CRC16 (XMODEM) of the key. Where it has a part in braces, only what is
 * between the first { and the first } behind it counts, if that is not empty:
 * keys that have it in common are in one slot. Any bytes are a key.
 */

#ifndef CHAT_SLOT_H
#define CHAT_SLOT_H

#include "bytes/chat_str.h"

#define CHAT_SLOTS 16384

/* The slot of a key. */
unsigned chat_slot(chat_str_t key);

#endif /* CHAT_SLOT_H */
