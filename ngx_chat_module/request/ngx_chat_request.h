/*
 * ngx_chat_request.h: what the files of request/ share.
 *
 * ngx_chat_phase.c receives the events of a request and performs its actions.
 * ngx_chat_decide.c queries the store and decides on an action.
 * ngx_chat_hold.c holds requests, ngx_chat_complete.c completes bodies,
 * ngx_chat_attempt.c stores the facts of an answer.
 */

#ifndef NGX_CHAT_REQUEST_H
#define NGX_CHAT_REQUEST_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "response/ngx_chat_response.h"

/* ngx_chat_phase.c */

/* The phase handler (PRECONTENT). */
ngx_int_t ngx_chat_handler(ngx_http_request_t *r);

/* The reason of a request that the module does not read. */
chat_reason_e ngx_chat_request_unread(ngx_http_request_t *r);

/* A context that reports its events to step(); NULL: no memory. */
ngx_chat_ctx_t *ngx_chat_request_create(ngx_http_request_t  *r,
                                        ngx_chat_loc_conf_t *conf);

/* ngx_chat_body.c */

/*
 * The whole body of the request as one run of bytes. NGX_DECLINED: it is
 * longer than max.
 */
ngx_int_t ngx_chat_read_body(ngx_http_request_t *r, size_t max,
                             ngx_str_t *body);

/*
 * Reads and parses the body, and finds the scope. NGX_DECLINED: the request
 * passes for ctx->act.reason.
 */
ngx_int_t ngx_chat_body_read(ngx_chat_ctx_t *ctx);

/*
 * Frees the tree of a body, if it has one; what reading the answer needs
 * stays.
 */
void ngx_chat_body_free_tree(ngx_chat_ctx_t *ctx);

/* Parses the body again if the request was held. NGX_ERROR: no memory. */
ngx_int_t ngx_chat_body_restore(ngx_chat_ctx_t *ctx);

/*
 * The digest of scope and tenant that every name of the request begins with.
 * NGX_DECLINED: the tenant is empty; NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_tenant(ngx_http_request_t        *r,
                          const ngx_chat_loc_conf_t *conf,
                          chat_digest_t             *tenant);

/* ngx_chat_decide.c */

/*
 * Calls poll() after a pause, when a remote store may show what another worker
 * has joined. 0: there were enough polls.
 */
ngx_uint_t ngx_chat_decide_later(ngx_chat_ctx_t *ctx,
                                 void (*poll)(ngx_chat_ctx_t *ctx));

/* These set ctx->act and report DECIDED, now or later, or let it wait on. */

/* Queries the store for a request with a recognised body. */
void ngx_chat_decide_begin(ngx_chat_ctx_t *ctx);

/*
 * Puts the facts (NULL: none) and looks at the batch; watch: watches it from
 * now on, too, or NULL. With needs (NULL: none) the last fact is a claim: it
 * is put only if the store has these results; their payloads come with it.
 */
void ngx_chat_decide_look(ngx_chat_ctx_t *ctx, const chat_facts_t *facts,
                          const chat_needs_t *needs,
                          chat_store_watch_t *watch);

/* The reply to a look at its batch; batch is valid if rc is CHAT_OK. */
void ngx_chat_decide_looked(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                            const chat_batch_t *batch);

/* The store has returned rc instead of facts. */
void ngx_chat_decide_failed(ngx_chat_ctx_t *ctx, chat_rc_e rc);

/* The request must not go on without the store. */
void ngx_chat_decide_refuse(ngx_chat_ctx_t *ctx);

/* Sets ctx->act by the last look; unrecorded: there is no recording. */
void ngx_chat_decide_act(ngx_chat_ctx_t *ctx, ngx_uint_t unrecorded);

/* Called before each query: the request waits for the store. */
void ngx_chat_decide_ask(ngx_chat_ctx_t *ctx);

/* Schedules another look at an unknown chain; 0: there were enough. */
ngx_uint_t ngx_chat_decide_poll(ngx_chat_ctx_t *ctx);

/*
 * Adds the batch of a waiting request to the conversation index, if no stream
 * has: external results find it there.
 */
void ngx_chat_decide_index(ngx_chat_ctx_t *ctx);

/* ngx_chat_complete.c */

/*
 * Keeps the payloads that the answer to a claim ends with, if it has them;
 * returns how many facts are before them.
 */
size_t ngx_chat_payloads_early(ngx_chat_ctx_t *ctx, const chat_fact_t *facts,
                               size_t n);

/* Frees them. */
void ngx_chat_payloads_forget(ngx_chat_ctx_t *ctx);

/*
 * Fetches the payloads of what the body lacks and the store has; the action GO
 * puts them into the body. Reports PAYLOADS, now or later, with payloads.rc
 * NGX_OK, NGX_DECLINED (the body cannot take them), NGX_ERROR (store failed).
 */
void ngx_chat_payloads(ngx_chat_ctx_t *ctx);

/* Appends copies, payloads too, in the list's arena. CHAT_ERROR: no memory. */
chat_rc_e ngx_chat_keep_facts(chat_facts_t *kept, const chat_fact_t *facts,
                              size_t n);

/* ngx_chat_hold.c */

void ngx_chat_hold_init(ngx_chat_worker_t *worker, ngx_cycle_t *cycle);

/*
 * Begins or continues to wait, as ctx->act says: a hold, for the outcome of an
 * attempt, or, as long as that takes, for its recorded answer. Each of the
 * first two has a bound of its own.
 */
void ngx_chat_hold(ngx_chat_ctx_t *ctx);

/* The wait is over (also where there was none). */
void ngx_chat_hold_end(ngx_chat_ctx_t *ctx);

/* 1 if no more requests may wait; *limit is a reason of a refusal. */
ngx_uint_t ngx_chat_hold_limit(ngx_chat_ctx_t *ctx, chat_reason_e *limit);

/*
 * Puts the facts, and looks whenever something changes from now on.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_watch_begin(ngx_chat_ctx_t *ctx, const chat_facts_t *facts);

/* Looks at the batch once more, now or after the answer under way. */
void ngx_chat_watch_look(ngx_chat_ctx_t *ctx);

/* Ends all queries and watches; safe at any time. */
void ngx_chat_watch_end(ngx_chat_ctx_t *ctx);

/* ngx_chat_attempt.c */

/*
 * Stores the payloads of a complete body's results, for other requests: those
 * lack them, or the body's own attempt failed.
 */
void ngx_chat_attempt_keep_results(ngx_chat_ctx_t *ctx);

/* Its claim, if it has one, becomes its attempt. */
void ngx_chat_attempt_begin(ngx_chat_ctx_t *ctx);

/*
 * Notes the results in the body of a request without an attempt, if the
 * provider keeps the conversation: a 2xx answer delivers them.
 */
void ngx_chat_attempt_deliver(ngx_chat_ctx_t *ctx);

/* Voids claim/k of this request, which has sent nothing; k 0: none. */
void ngx_chat_attempt_void(ngx_chat_ctx_t *ctx, uint32_t k);

/* chat_store_t's lost(): live attempts join again what they have put. */
void ngx_chat_attempts_rejoin(chat_store_t *store, int all);

/* The answer's header is known: answer/k or void/k; a stream's may wait. */
void ngx_chat_attempt_answer(ngx_chat_ctx_t *ctx);

/* Puts what the stream has come up with, and answer/k, if that waits. */
void ngx_chat_attempt_facts(ngx_chat_ctx_t *ctx);

/* The answer is over, or the request: end/k, and one line in the log. */
void ngx_chat_attempt_end(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_REQUEST_H */
