/*
 * chat_outbox.h: facts of a stream that its owner has not taken yet.
 *
 * One list per batch, in the order in which the batches came up.
 * Must not know: what the facts say.
 */

#ifndef CHAT_OUTBOX_H
#define CHAT_OUTBOX_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "facts/chat_batch.h"
#include "stream/chat_stream.h"

typedef struct chat_put_s chat_put_t;

typedef struct {
    chat_arena_t *arena; /* of all that was not taken */
    chat_put_t   *puts;  /* newest first */
    int           taken;
} chat_outbox_t;

chat_rc_e chat_outbox_init(chat_outbox_t *outbox);
void      chat_outbox_free(chat_outbox_t *outbox);

/* The list of new facts of this batch; NULL without memory. */
chat_facts_t *chat_outbox_list(chat_outbox_t *outbox, const chat_key_t *key);

/* All of them, as chat_stream_facts(); they stay until the next forget. */
size_t chat_outbox_take(chat_outbox_t              *outbox,
                        const chat_stream_facts_t **facts);

/* Frees what was taken, if it was. */
void chat_outbox_forget(chat_outbox_t *outbox);

#endif /* CHAT_OUTBOX_H */
