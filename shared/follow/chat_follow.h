/*
 * chat_follow.h: rewrites a recorded stream for the client that follows it.
 *
 * The recording was made for another client, perhaps some time ago. So the
 * message that it continues may have another id, calls of it may have their
 * results by now, and events may be injected behind its first event.
 * Promises: every other byte stays as it was recorded; nothing is lost; each
 * event is framed and parsed once at most; memory is bounded by max_frame.
 */

#ifndef CHAT_FOLLOW_H
#define CHAT_FOLLOW_H

#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "bytes/chat_str.h"
#include "dialect/chat_dialect.h"
#include "sse/chat_sse.h"

#define CHAT_FOLLOW_RENAME (64 * 1024) /* bytes searched for the message */

/* What is to be changed. The strings and results must outlive the rewriter. */
typedef struct {
    const chat_dialect_t *dialect;
    chat_str_t            from;     /* id of the message in the recording */
    chat_str_t            to;       /* id in its place; either may be empty */
    chat_str_t            injected; /* events, behind the first event only */
    const chat_result_t  *results;
    size_t                nresults;
    size_t                max_frame; /* bytes; a longer event stays; 0: none */
} chat_follow_conf_t;

/* Members are the rewriter's own. Zeroed, it changes nothing. */
typedef struct {
    chat_follow_conf_t conf;
    chat_arena_t      *arena; /* NULL: nothing is left to change */
    chat_sse_t         sse;
    size_t             seen;         /* bytes */
    unsigned           renames : 1;  /* the message is still to come */
    unsigned           injects : 1;  /* the first event is still to come */
    unsigned           resolves : 1; /* there are results */
} chat_follow_t;

/* CHAT_ERROR: no memory. */
chat_rc_e chat_follow_init(chat_follow_t            *follow,
                           const chat_follow_conf_t *conf);

/* May be called twice, and on a zeroed one. */
void chat_follow_free(chat_follow_t *follow);

/*
 * Appends what replaces the next bytes; an event that is not complete waits
 * for its rest. CHAT_DECLINED: nothing changes, send the bytes themselves;
 * CHAT_ERROR: no memory.
 */
chat_rc_e chat_follow(chat_follow_t *follow, chat_str_t bytes,
                      chat_buf_t *out);

/* No more bytes come: appends what still waits. */
void chat_follow_end(chat_follow_t *follow, chat_buf_t *out);

/*
 * For a client's own stream: finds where the events are to be injected.
 * CHAT_OK: behind *at of these bytes; CHAT_DECLINED: not in these bytes;
 * CHAT_ERROR: no memory.
 */
chat_rc_e chat_follow_find(chat_follow_t *follow, chat_str_t bytes,
                           size_t *at);

/*
 * The fields of those results among a batch's facts that have a payload in the
 * store, in the arena. NULL: none, or no memory.
 */
chat_str_t *chat_follow_fields(const chat_fact_t *facts, size_t n,
                               chat_arena_t *arena, size_t *count);

/*
 * These results as the rewriter takes them, copied into the arena; facts is
 * what payloads() of the store returned. NULL: none, or no memory.
 */
chat_result_t *chat_follow_results(const chat_fact_t *facts, size_t n,
                                   chat_arena_t *arena, size_t *count);

#endif /* CHAT_FOLLOW_H */
