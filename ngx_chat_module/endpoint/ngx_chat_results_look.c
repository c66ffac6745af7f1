/*
 * ngx_chat_results_look.c: asks the store for chat_results.
 *
 * The record of the conversation names its newest batch, under one name or
 * two; the facts of both are read, and what is brought is joined into both.
 * Promises: another tenant's conversation is as unknown as one that does not
 * exist.
 * Must not know: what is done with the batch.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "endpoint/ngx_chat_results.h"


void
ngx_chat_results_send(ngx_chat_results_t *rs, ngx_uint_t status,
                      chat_buf_t *out)
{
    ngx_http_request_t *r = rs->request;

    ngx_http_finalize_request(
        r, ngx_chat_answer_text(r, status, "application/json", out));
}


void
ngx_chat_results_refuse(ngx_chat_results_t            *rs,
                        const chat_external_refusal_t *refusal)
{
    ngx_http_finalize_request(rs->request,
                              ngx_chat_endpoint_refuse(rs->request, refusal));
}


void
ngx_chat_results_away(ngx_chat_results_t *rs, chat_rc_e rc)
{
    chat_external_refusal_t refusal = { 0 };

    if (rc != CHAT_LIMIT) {
        ngx_http_finalize_request(rs->request,
                                  ngx_chat_endpoint_away(rs->request));
        return;
    }

    refusal.status = NGX_HTTP_SERVICE_UNAVAILABLE;
    refusal.code = "store_full";
    refusal.message = "there is no room for these results";
    ngx_chat_results_refuse(rs, &refusal);
}


static void
ngx_chat_results_late(ngx_event_t *ev)
{
    ngx_chat_results_t *rs = ev->data;
    ngx_connection_t   *c = rs->request->connection;

    ngx_http_set_log_request(c->log, rs->request);
    ngx_chat_results_look(rs);
    ngx_http_run_posted_requests(c);
}


void
ngx_chat_results_unknown(ngx_chat_results_t            *rs,
                         const chat_external_refusal_t *refusal)
{
    ngx_msec_t pause = ngx_chat_decide_pause(rs->store, &rs->looks);

    if (pause == 0) {
        ngx_chat_results_refuse(rs, refusal);
        return;
    }

    rs->timer.handler = ngx_chat_results_late;
    rs->timer.data = rs;
    rs->timer.log = rs->request->connection->log;
    ngx_add_timer(&rs->timer, pause);
}


static void
ngx_chat_results_no_conversation(ngx_chat_results_t *rs)
{
    chat_external_refusal_t refusal;

    ngx_memzero(&refusal, sizeof(refusal));
    refusal.status = NGX_HTTP_NOT_FOUND;
    refusal.code = "unknown_conversation";
    refusal.field = "conversation";
    refusal.message = "no batch of such a conversation is known";
    ngx_chat_results_unknown(rs, &refusal);
}


/* Puts an answer behind those that are there. */
static chat_rc_e
ngx_chat_results_keep(ngx_chat_results_t *rs, const chat_fact_t *facts,
                      size_t n)
{
    size_t       i;
    chat_fact_t *all, *fact;

    all = chat_arena_alloc(rs->arena,
                           (rs->nfacts + n + 1) * sizeof(chat_fact_t));
    if (all == NULL) {
        return CHAT_ERROR;
    }

    if (rs->nfacts != 0) {
        ngx_memcpy(all, rs->facts, rs->nfacts * sizeof(chat_fact_t));
    }

    for (i = 0; i < n; i++) {
        fact = &all[rs->nfacts + i];
        *fact = facts[i];

        if (chat_arena_dup(rs->arena, facts[i].field, &fact->field) != CHAT_OK
            || chat_arena_dup(rs->arena, facts[i].value, &fact->value)
                   != CHAT_OK)
        {
            return CHAT_ERROR;
        }
    }

    rs->facts = all;
    rs->nfacts += n;
    return CHAT_OK;
}


static void
ngx_chat_results_done(chat_store_op_t *op, chat_rc_e rc,
                      const chat_fact_t *facts, size_t n)
{
    ngx_chat_results_t *rs = op->data;
    ngx_connection_t   *c = rs->request->connection;

    ngx_http_set_log_request(c->log, rs->request);

    if (rc == CHAT_OK) {
        rc = ngx_chat_results_keep(rs, facts, n);
    }

    if (rc != CHAT_OK) {
        rs->rc = rc;
    }

    if (--rs->due == 0) {
        if (rs->rc != CHAT_OK) {
            ngx_chat_results_away(rs, rs->rc);
        } else {
            rs->next(rs);
        }
    }

    ngx_http_run_posted_requests(c);
}


void
ngx_chat_results_join(ngx_chat_results_t *rs, const chat_facts_t *facts,
                      void (*next)(ngx_chat_results_t *rs))
{
    size_t        i;
    chat_store_t *store = rs->store;

    rs->next = next;
    rs->rc = CHAT_OK;
    rs->facts = NULL;
    rs->nfacts = 0;
    rs->due = rs->nkeys;

    for (i = 0; i < rs->nkeys; i++) {
        rs->ops[i].done = ngx_chat_results_done;
        rs->ops[i].data = rs;
        store->join(store, &rs->ops[i], &rs->keys[i],
                    facts ? facts->items : NULL, facts ? facts->count : 0,
                    (uint32_t) rs->conf->ttl);
    }
}


/* The record of the conversation is there. */
static void
ngx_chat_results_found(ngx_chat_results_t *rs)
{
    size_t i;

    ngx_chat_decide_trim(rs->store, &rs->keys[0], rs->facts, rs->nfacts);

    if (chat_batch_newest(rs->facts, rs->nfacts, &rs->recorded) == CHAT_OK) {
        rs->dialect = chat_dialect_find(rs->recorded.dialect);
    }

    if (rs->dialect == NULL) {
        ngx_chat_results_no_conversation(rs);
        return;
    }

    rs->nkeys = rs->recorded.nnames;

    for (i = 0; i < rs->nkeys; i++) {
        rs->keys[i].tag = rs->keys[0].tag;
        rs->keys[i].tenant = rs->keys[0].tenant;
        rs->keys[i].name = rs->recorded.names[i];
    }

    ngx_chat_results_join(rs, NULL, rs->act);
}


void
ngx_chat_results_look(ngx_chat_results_t *rs)
{
    ngx_http_request_t *r = rs->request;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    rs->nkeys = 1;
    rs->dialect = NULL;
    (void) chat_batch_record_key(&rs->scope, &rs->keys[0]);
    ngx_chat_results_join(rs, NULL, ngx_chat_results_found);
}
