/*
 * chat_settle.h: a recorded stream, given to a client that begins with it
 * when some of its calls have their results already.
 *
 * Such a client would work at those calls once more. Promises: the events of
 * other calls, and all else, are the bytes that were recorded; what is no
 * whole event waits for the rest of it, and nothing is lost.
 * Must not know: wire formats, NGINX, where results come from.
 */

#ifndef CHAT_SETTLE_H
#define CHAT_SETTLE_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "facts/chat_batch.h"
#include "dialect/chat_dialect.h"
#include "sse/chat_sse.h"

/*
 * The fields of the results among the facts of a batch that can be given:
 * their payloads are there. NULL: none, or no memory.
 */
chat_str_t *chat_settle_fields(const chat_fact_t *facts, size_t n,
                               chat_arena_t *arena, size_t *count);

/*
 * Those results, with their payloads; facts is what payloads() of the store
 * answers for the fields. What they are made of is in the arena. NULL: none,
 * or no memory.
 */
chat_result_t *chat_settle_results(const chat_fact_t *facts, size_t n,
                                   chat_arena_t *arena, size_t *count);

typedef struct {
    const chat_dialect_t *dialect;
    const chat_result_t  *results;
    size_t                count;
    chat_arena_t         *arena; /* NULL: there is nothing to be done */
    chat_sse_t            sse;
} chat_settle_t;

/*
 * The results must outlive it. Without any, or in a dialect that has nothing
 * of the kind, it is one that is zeroed. CHAT_ERROR: no memory.
 */
chat_rc_e chat_settle_init(chat_settle_t        *settle,
                           const chat_dialect_t *dialect,
                           const chat_result_t *results, size_t n,
                           size_t max_frame);

/* Of a zeroed one, and twice, too. */
void chat_settle_free(chat_settle_t *settle);

/*
 * Appends what goes on of the next bytes. CHAT_DECLINED: all of them, as they
 * are; CHAT_ERROR: no memory.
 */
chat_rc_e chat_settle(chat_settle_t *settle, chat_str_t bytes,
                      chat_buf_t *out);

/* Appends what still waits: no more bytes come. */
void chat_settle_end(chat_settle_t *settle, chat_buf_t *out);

#endif /* CHAT_SETTLE_H */
