/*
 * chat_args.h: the arguments of calls that are being written.
 *
 * Gathers the pieces of each open call of a stream until it is ready, and
 * then says the call's fingerprint.
 * Promises: at most max bytes in all and CHAT_ARGS_CALLS calls are kept; a
 * call past that has no fingerprint.
 * Must not know: replays, frames, wire formats.
 */

#ifndef CHAT_ARGS_H
#define CHAT_ARGS_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "model/chat_event.h"

#define CHAT_ARGS_CALLS 4096
#define CHAT_ARGS_BUCKETS 64

typedef struct chat_args_call_s chat_args_call_t;

typedef struct {
    chat_args_call_t *buckets[CHAT_ARGS_BUCKETS];
    size_t            count;
    size_t            bytes;
    size_t            max;
} chat_args_t;

void chat_args_init(chat_args_t *args, size_t max);
void chat_args_free(chat_args_t *args);

/*
 * A call begins in this slot. A slot that is opened again within the same
 * generation goes on as it was.
 */
void chat_args_open(chat_args_t *args, uint32_t slot, uint32_t generation,
                    chat_str_t name);

/* The next piece; nothing happens for a slot that was not opened. */
void chat_args_add(chat_args_t *args, uint32_t slot, chat_str_t text);

/*
 * The fingerprint of the call that this CALL_READY completes. Where the event
 * has no name it is given that of the opening, valid until chat_args_close().
 * CHAT_LIMIT: the arguments were not kept; CHAT_ERROR: no memory.
 */
chat_rc_e chat_args_ready(const chat_args_t *args, chat_event_t *event,
                          chat_digest_t *fingerprint);

/* Forgets the slot's call. */
void chat_args_close(chat_args_t *args, uint32_t slot);

#endif /* CHAT_ARGS_H */
