/*
 * ngx_chat_request.h: what the files of request/ share.
 *
 * ngx_chat_phase.c takes the events of a request and carries out actions;
 * ngx_chat_decide.c asks the store and decides on them; ngx_chat_hold.c keeps
 * requests waiting, ngx_chat_complete.c completes bodies, ngx_chat_attempt.c
 * puts what becomes of an answer into the store.
 */

#ifndef NGX_CHAT_REQUEST_H
#define NGX_CHAT_REQUEST_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "response/ngx_chat_response.h"

/* ngx_chat_phase.c */

/* The phase handler (PRECONTENT). */
ngx_int_t ngx_chat_handler(ngx_http_request_t *r);

/* A context whose events come to the state machine; NULL: no memory. */
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
 * passes as ctx->passes_as.
 */
ngx_int_t ngx_chat_body_read(ngx_chat_ctx_t *ctx);

/*
 * Parses ctx->body.text into ctx->body.rq. NGX_DECLINED: it is not chat;
 * NGX_ABORT: it is past a bound.
 */
ngx_int_t ngx_chat_body_parse(ngx_chat_ctx_t *ctx);

/* Frees the tree of a body; what reading the answer needs is copied. */
void ngx_chat_body_free_tree(ngx_chat_ctx_t *ctx);

/* ngx_chat_decide.c */

/*
 * ms until a remote store may show what another worker has put, counted in
 * *polls; 0: there is no point in another look.
 */
ngx_msec_t ngx_chat_decide_pause(const chat_store_t *store, ngx_uint_t *polls);

/*
 * These set ctx->act and report DECIDED, at once or later, or let the request
 * wait on.
 */

/* Asks the store about a request whose body was recognised. */
void ngx_chat_decide_begin(ngx_chat_ctx_t *ctx);

/*
 * Puts the facts (NULL: none) and looks at the batch; watch: watches it from
 * now on, too, or NULL.
 */
void ngx_chat_decide_look(ngx_chat_ctx_t *ctx, const chat_facts_t *facts,
                          chat_store_watch_t *watch);

/* A look at its batch was answered; batch is valid where rc is CHAT_OK. */
void ngx_chat_decide_looked(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                            const chat_batch_t *batch);

/* The store did not answer. */
void ngx_chat_decide_failed(ngx_chat_ctx_t *ctx, chat_rc_e rc);

/* The request must not go on without the store. */
void ngx_chat_decide_refuse(ngx_chat_ctx_t *ctx);

/* Sets ctx->act by the last look; followed: there is no recording. */
void ngx_chat_decide_act(ngx_chat_ctx_t *ctx, ngx_uint_t followed);

/* Before a question: the request waits for the store. */
void ngx_chat_decide_ask(ngx_chat_ctx_t *ctx);

/* Polls a chain that nothing is known of. 1: it will look once more. */
ngx_uint_t ngx_chat_decide_poll(ngx_chat_ctx_t *ctx);

/*
 * Writes the batch of a request that waits into the conversation's index,
 * where no stream has: external results find it then.
 */
void ngx_chat_decide_index(ngx_chat_ctx_t *ctx);

/* ngx_chat_tenant.c */

/*
 * The value of the scope, and the digest of scope and tenant that every name
 * of the request begins with.
 * NGX_DECLINED: the tenant is empty; NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_tenant(ngx_http_request_t        *r,
                          const ngx_chat_loc_conf_t *conf, ngx_str_t *scope,
                          chat_digest_t *tenant);

/*
 * Fills in the tenant of ctx->scope, whose conversation is known. Warns, once
 * per worker, of an empty one, and of a conversation that was seen under
 * another tenant before. NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_tenant_find(ngx_chat_ctx_t *ctx);

/* ngx_chat_complete.c */

/*
 * Fetches the payloads of what the body lacks and the store has. merging: puts
 * them into the body. Reports PAYLOADS, now or later, with payloads.rc NGX_OK,
 * NGX_DECLINED (the body cannot take them), or NGX_ERROR (the store failed).
 */
void ngx_chat_payloads(ngx_chat_ctx_t *ctx, ngx_uint_t merging);

/* Appends copies, payloads too, in the list's arena. CHAT_ERROR: no memory. */
chat_rc_e ngx_chat_keep_facts(chat_facts_t *kept, const chat_fact_t *facts,
                              size_t n);

/* ngx_chat_hold.c */

ngx_int_t ngx_chat_hold_init(ngx_chat_worker_t *worker, ngx_cycle_t *cycle);

/* Begins to wait, or goes on waiting. bounded: a hold, not a sibling. */
void ngx_chat_hold(ngx_chat_ctx_t *ctx, ngx_uint_t bounded);

/* The wait is over (also where there was none). */
void ngx_chat_hold_end(ngx_chat_ctx_t *ctx);

/* 1 if a limit keeps one more request from waiting; *limit is its reply. */
ngx_uint_t ngx_chat_hold_limit(ngx_chat_ctx_t *ctx, chat_reply_e *limit);

/*
 * Puts the facts, and looks whenever something changes from now on.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_watch_begin(ngx_chat_ctx_t *ctx, const chat_facts_t *facts);

/* Looks at the batch once more, now or after the answer under way. */
void ngx_chat_watch_look(ngx_chat_ctx_t *ctx);

/* Ends all questions and watches; safe at any time. */
void ngx_chat_watch_end(ngx_chat_ctx_t *ctx);

/* ngx_chat_quota.c */

ngx_int_t ngx_chat_quota_init(ngx_chat_worker_t *worker, ngx_cycle_t *cycle);

/*
 * NGX_OK: one more request may wait; NGX_DECLINED: *limit keeps it from that;
 * NGX_AGAIN: *oldest has to leave in its place, ask again then.
 */
ngx_int_t ngx_chat_quota_room(ngx_chat_ctx_t *ctx, chat_reply_e *limit,
                              ngx_chat_ctx_t **oldest);

/* The request waits, and does not any more (also where it never did). */
void ngx_chat_quota_enter(ngx_chat_ctx_t *ctx);
void ngx_chat_quota_leave(ngx_chat_ctx_t *ctx);

/* ngx_chat_attempt.c */

/*
 * The results of a body that was complete by itself become mergeable: others
 * lack them, or its own attempt came to nothing.
 */
void ngx_chat_attempt_keep_results(ngx_chat_ctx_t *ctx);

/* Its claim is its attempt from now on, as far as it has one. */
void ngx_chat_attempt_begin(ngx_chat_ctx_t *ctx);

/*
 * Notes the results that a request without an attempt brings or got inserted,
 * where the provider keeps the conversation: a 2xx answer delivers them.
 */
void ngx_chat_attempt_deliver(ngx_chat_ctx_t *ctx);

/* Our claim/k, and nothing will be sent. */
void ngx_chat_attempt_void(ngx_chat_ctx_t *ctx, uint32_t k);

/* chat_store_t's lost(): live attempts join again what they have put. */
void ngx_chat_attempts_rejoin(chat_store_t *store, int all);

/* The request is over. */
void ngx_chat_attempt_leave(ngx_chat_ctx_t *ctx);

#define NGX_CHAT_LOG_ID 12 /* bytes of an id in a line of the log */

/*
 * Writes the first bytes of an id at p, "-" for none, and returns their end:
 * enough to find it, too little to use it.
 */
u_char *ngx_chat_log_id(u_char *p, chat_str_t id);

/* The answer's header is known: answer/k or void/k. */
void ngx_chat_attempt_answer(ngx_chat_ctx_t *ctx);

/* Puts the facts that the stream has come up with. */
void ngx_chat_attempt_facts(ngx_chat_ctx_t *ctx);

/* The answer is over: end/k, and one line in the log. */
void ngx_chat_attempt_end(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_REQUEST_H */
