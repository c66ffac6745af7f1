/*
 * ngx_chat_resume.h: what the files of chat_resume share: a client that comes
 * back for an answer.
 *
 * ngx_chat_resume.c reads what is wanted and finds the stream in the record of
 * the conversation; ngx_chat_resume_follow.c gives it, behind what
 * ngx_chat_resume_before.c finds that it must be told.
 * Must not know: wire formats, how a store stores.
 */

#ifndef NGX_CHAT_RESUME_H
#define NGX_CHAT_RESUME_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_module.h"

#include "facts/chat_conversation.h"

/* What is done with an answer of the store. */
typedef void (*ngx_chat_resume_next_pt)(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                                        const chat_fact_t *facts, size_t n);

struct ngx_chat_resume_s {
    chat_store_op_t         op;
    ngx_chat_resume_next_pt next;
    chat_key_t              conversation; /* its record */
    chat_position_t         place;        /* where it goes on */
    ngx_uint_t              named;        /* it has said of which stream */
    ngx_uint_t              running;      /* it wants none that has ended */
    ngx_uint_t              looks;        /* at what is listed, so far */
    chat_store_watch_t      watch;        /* of the record, while it waits */
    ngx_event_t             timer;        /* likewise */
    ngx_uint_t              waits;        /* for a request that is held */
    ngx_uint_t              over;         /* none is held any more */
    ngx_msec_t              until;        /* so long it may be held again */
    ngx_uint_t              again; /* it changed while being asked for */
    char                    before[CHAT_LISTED_ID]; /* the newest stream, when
                                                       the wait began */
    ngx_uint_t              unsure; /* the next look may find another */
    chat_key_t              record; /* of that stream */
    ngx_uint_t              ended;  /* it had when the client came */
    chat_key_t              batch;  /* that the stream has opened */
    ngx_uint_t              opened; /* it has */
};

/* Before a question of resume->op: next(ctx, ...) gets the answer. */
void ngx_chat_resume_asks(ngx_chat_ctx_t *ctx, ngx_chat_resume_next_pt next);

/* Asks for the record of the conversation, and goes on with what it lists. */
void ngx_chat_resume_ask(ngx_chat_ctx_t *ctx);

/* It waits no longer for a request that is held; safe at any time. */
void ngx_chat_resume_unwait(ngx_chat_resume_t *resume);

/* Ends the request: 204. */
void ngx_chat_resume_nothing(ngx_chat_ctx_t *ctx);

/* ngx_chat_resume_before.c */

/* Looks for the batch that the stream has opened. */
void ngx_chat_resume_opened(ngx_chat_resume_t *resume,
                            const chat_fact_t *facts, size_t n,
                            const chat_listed_t *listed);

/*
 * Finds what the client is to be told before the first event, and which calls
 * of the stream have their results; then starts, now or later. It may end the
 * request instead.
 */
void ngx_chat_resume_before(ngx_chat_ctx_t *ctx);

/* ngx_chat_resume_follow.c */

/* Gives the client the rest of the stream, as it is listed. */
void ngx_chat_resume_follow(ngx_chat_ctx_t *ctx, const chat_listed_t *listed);

/* The request is over; safe at any time. */
void ngx_chat_resume_leave(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_RESUME_H */
