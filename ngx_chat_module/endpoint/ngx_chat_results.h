/*
 * ngx_chat_results.h: what the two files of chat_results share: a request
 * that brings results from outside, or asks for the batch or its end.
 *
 * ngx_chat_results.c reads it and does what it says, in
 * ngx_chat_results_look.c the store is asked for it.
 * Must not know: wire formats, how a store stores.
 */

#ifndef NGX_CHAT_RESULTS_H
#define NGX_CHAT_RESULTS_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "endpoint/ngx_chat_endpoint.h"
#include "facts/chat_conversation.h"

typedef struct ngx_chat_results_s ngx_chat_results_t;

struct ngx_chat_results_s {
    ngx_http_request_t   *request;
    ngx_chat_loc_conf_t  *conf;
    chat_store_t         *store;
    chat_arena_t         *arena;
    chat_scope_t          scope;
    chat_external_t       outside; /* POST: what is brought */
    chat_batch_t         *cleared; /* by a DELETE; NULL: nothing was */
    chat_recorded_t       recorded;
    const chat_dialect_t *dialect; /* of the batch */
    chat_facts_t          put;     /* what is joined */

    /* questions under way: one for each key */
    chat_key_t      keys[CHAT_NAMES_MAX];
    size_t          nkeys;
    chat_store_op_t ops[CHAT_NAMES_MAX];
    size_t          due;
    chat_rc_e       rc;    /* of them all */
    chat_fact_t    *facts; /* their answers, one behind the other */
    size_t          nfacts;
    void (*next)(ngx_chat_results_t *rs);

    void (*act)(ngx_chat_results_t *rs); /* the facts of the batch are there */

    ngx_event_t timer;
    ngx_uint_t  looks; /* that have found nothing */
};

/*
 * Looks for the conversation's batch and calls act(); where there is none it
 * answers.
 */
void ngx_chat_results_look(ngx_chat_results_t *rs);

/*
 * Joins the facts (NULL: none) under all keys, and calls next() when the store
 * has answered, with all facts in rs->facts; where it fails it answers.
 */
void ngx_chat_results_join(ngx_chat_results_t *rs, const chat_facts_t *facts,
                           void (*next)(ngx_chat_results_t *rs));

/*
 * Nothing is known of what was asked for: looks once more, or answers.
 */
void ngx_chat_results_unknown(ngx_chat_results_t            *rs,
                              const chat_external_refusal_t *refusal);

/* The store has failed: what was brought may stand or not. */
void ngx_chat_results_away(ngx_chat_results_t *rs, chat_rc_e rc);

/* Ends the request with this JSON; frees out. */
void ngx_chat_results_send(ngx_chat_results_t *rs, ngx_uint_t status,
                           chat_buf_t *out);

/* The same with a refusal. */
void ngx_chat_results_refuse(ngx_chat_results_t            *rs,
                             const chat_external_refusal_t *refusal);

#endif /* NGX_CHAT_RESULTS_H */
