/*
 * chat_dropped.h: which slots of a stream are dropped, for renumbering.
 *
 * It is told each opening as its frame leaves, so that it is always the truth
 * of that place in the stream, even where a slot is used more than once.
 * Must not know: why a call is dropped, wire formats.
 */

#ifndef CHAT_DROPPED_H
#define CHAT_DROPPED_H

#include "bytes/chat_str.h"
#include "dialect/chat_dialect.h"

/* All zero: nothing was opened. */
typedef struct {
    chat_slots_t view; /* as dialects take it */
    uint32_t    *list; /* of view; ascending */
    size_t       size;
    uint32_t     opened;
    uint32_t     dropped;
} chat_dropped_t;

/* A call was opened in this slot. CHAT_ERROR without memory. */
chat_rc_e chat_dropped_note(chat_dropped_t *dropped, uint32_t slot,
                            int is_dropped);

void chat_dropped_free(chat_dropped_t *dropped);

#endif /* CHAT_DROPPED_H */
