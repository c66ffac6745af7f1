/*
 * ngx_chat_request.h: what the files of request/ share.
 *
 * ngx_chat_phase.c takes the events of a request and carries out actions;
 * ngx_chat_decide.c asks the store and decides on them; ngx_chat_hold.c keeps
 * requests waiting, ngx_chat_complete.c completes bodies, ngx_chat_attempt.c
 * tells the store what becomes of an answer, ngx_chat_reply.c answers in
 * place of an upstream.
 */

#ifndef NGX_CHAT_REQUEST_H
#define NGX_CHAT_REQUEST_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_module.h"

/* ngx_chat_body.c */

/* The body was read: parses it, and reports BODY, or FACTS where it is no
 * chat. */
void ngx_chat_body_ready(ngx_http_request_t *r);

/*
 * Parses ctx->body.text into ctx->body.rq. NGX_DECLINED: it is not chat;
 * NGX_ABORT: it is past a bound.
 */
ngx_int_t ngx_chat_body_parse(ngx_chat_ctx_t *ctx);

/* Frees the tree of a body; what reading the answer needs is copied. */
void ngx_chat_body_free_tree(ngx_chat_ctx_t *ctx);

/* ngx_chat_decide.c: these may set ctx->act and report FACTS, at once or later
   (_wait and _later only keep or poll). */

/* Asks the store about a request whose body was recognised. */
void ngx_chat_decide_begin(ngx_chat_ctx_t *ctx);

/* The request goes on as it is. */
void ngx_chat_decide_pass(ngx_chat_ctx_t *ctx, ngx_chat_verdict_e verdict);

/* Puts the facts (NULL: none) and looks at the batch. */
void ngx_chat_decide_look(ngx_chat_ctx_t *ctx, const chat_facts_t *facts);

/* The continuation of a look. */
void ngx_chat_decide_answer(ngx_chat_ask_t *ask, chat_rc_e rc,
                            const chat_fact_t *facts, size_t n);

/* A look at its batch was answered; batch is valid where rc is CHAT_OK. */
void ngx_chat_decide_looked(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                            const chat_batch_t *batch);

/* Before a question: the request waits for the store. */
void ngx_chat_decide_wait(ngx_chat_ctx_t *ctx);

/* Polls a chain that nothing is known of. 1: it will look once more. */
ngx_uint_t ngx_chat_decide_later(ngx_chat_ctx_t *ctx);

/* These set ctx->act and report nothing. */

/* By the last look; followed: the attempt has no recording. */
void ngx_chat_decide_act(ngx_chat_ctx_t *ctx, ngx_uint_t followed);

/* The store did not answer. 0: the request waits on. */
ngx_uint_t ngx_chat_decide_failed(ngx_chat_ctx_t *ctx, chat_rc_e rc);

/* The request must not go on without the store. */
void ngx_chat_decide_refuse(ngx_chat_ctx_t *ctx);

/*
 * Writes the batch of a request that waits into the conversation's index,
 * where no stream has: external results find it then.
 */
void ngx_chat_decide_index(ngx_chat_ctx_t *ctx);

/* ngx_chat_complete.c */

/*
 * Fetches the payloads of what the body lacks and the store has. merging: puts
 * them into the body. Reports PAYLOADS, now or later, with payloads.rc NGX_OK,
 * NGX_DECLINED (the body cannot take them), or NGX_ERROR (the store failed).
 */
void ngx_chat_payloads(ngx_chat_ctx_t *ctx, ngx_uint_t merging);

/* ngx_chat_hold.c */

/* Begins to wait, or goes on waiting. bounded: a hold, not a sibling. */
void ngx_chat_hold(ngx_chat_ctx_t *ctx, ngx_uint_t bounded);

/* The wait is over (also where there was none). */
void ngx_chat_hold_end(ngx_chat_ctx_t *ctx);

/* Its hold ends as at its bound, soon: another request takes its place. */
void ngx_chat_hold_yield(ngx_chat_ctx_t *ctx);

/* 1 if a limit keeps one more request from waiting; *limit is its reply. */
ngx_uint_t ngx_chat_hold_limit(ngx_chat_ctx_t *ctx, chat_reply_e *limit);

/*
 * Puts the facts, and looks whenever something changes from now on.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_watch_begin(ngx_chat_ctx_t *ctx, const chat_facts_t *facts);

/* Ends all questions and watches; safe at any time. */
void ngx_chat_watch_end(ngx_chat_ctx_t *ctx);

/* ngx_chat_quota.c */

ngx_int_t ngx_chat_quota_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle);

/*
 * 1 if a limit of chat_max_held or chat_max_held_bytes is reached; 0: there is
 * room, maybe in place of other requests, which end.
 */
ngx_uint_t ngx_chat_quota_limit(ngx_chat_ctx_t *ctx, chat_reply_e *limit);

/* The request waits, and does not any more (also where it never did). */
void ngx_chat_quota_enter(ngx_chat_ctx_t *ctx);
void ngx_chat_quota_leave(ngx_chat_ctx_t *ctx);

/* ngx_chat_reply.c */

/* Sends 200 and a comment to a client that waits. */
ngx_int_t ngx_chat_answer_early(ngx_chat_ctx_t *ctx);

/* One more comment. */
ngx_int_t ngx_chat_answer_beat(ngx_chat_ctx_t *ctx);

/* The code of a refusal. */
const char *ngx_chat_reply_code(chat_reply_e reply);

/* $chat_verdict of the reply. */
ngx_chat_verdict_e ngx_chat_reply_verdict(chat_reply_e reply);

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
void ngx_chat_attempt_carries(ngx_chat_ctx_t *ctx);

/* Our claim/k, and nothing will be sent. */
void ngx_chat_attempt_void(ngx_chat_ctx_t *ctx, uint32_t k);

/* The request is over. */
void ngx_chat_attempt_leave(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_REQUEST_H */
