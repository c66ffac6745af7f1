/*
 * ngx_chat_results.c: chat_results, the content handler of external results:
 * those of a person in another program, a webhook, a worker.
 *
 * The conversation's index names its newest batch, under one name or two. The
 * handler reads the facts of both, and joins the results into both.
 * Promises: a result is acknowledged only when the store has it; a list is
 * taken whole or not at all; no event fires once the client has left; another
 * tenant's conversation is as unknown as one that does not exist.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "endpoint/ngx_chat_endpoint.h"
#include "store/ngx_chat_ask.h"
#include "facts/chat_conversation.h"
#include "metrics/ngx_chat_metrics.h"

struct ngx_chat_results_s {
    chat_external_t       external; /* POST: the results of the body */
    chat_buf_t            cleared;  /* the answer to a DELETE */
    chat_indexed_batch_t  recorded;
    const chat_dialect_t *dialect; /* of the batch */
    chat_facts_t          put;     /* what is joined */

    /* store requests in flight: one a key */
    chat_key_t     keys[CHAT_NAMES_MAX];
    size_t         nkeys;
    ngx_chat_ask_t asks[CHAT_NAMES_MAX];
    size_t         due;
    chat_rc_e      rc;    /* of them all */
    chat_facts_t   facts; /* of all replies */
    void (*next)(ngx_chat_ctx_t *ctx);
};


static const chat_external_refusal_t unknown_conversation = {
    .status = NGX_HTTP_NOT_FOUND,
    .code = "unknown_conversation",
    .field = "conversation",
    .message = "no batch of such a conversation is known",
};

static const chat_external_refusal_t missing_argument = {
    .status = NGX_HTTP_BAD_REQUEST,
    .code = "invalid",
    .field = "conversation",
    .message = "this argument is missing",
};

static const chat_external_refusal_t store_full = {
    .status = NGX_HTTP_SERVICE_UNAVAILABLE,
    .code = "store_full",
    .message = "there is no room for these results",
};

static void find_batch(ngx_chat_ctx_t *ctx);
static void act_on_batch(ngx_chat_ctx_t *ctx);


static void
send_json(ngx_chat_ctx_t *ctx, chat_buf_t *out)
{
    ngx_http_finalize_request(ctx->request,
                              ngx_chat_answer_text(ctx->request, NGX_HTTP_OK,
                                                   "application/json", out));
}


static void
refuse(ngx_chat_ctx_t *ctx, const chat_external_refusal_t *refusal)
{
    ngx_http_finalize_request(ctx->request,
                              ngx_chat_endpoint_refuse(ctx->request, refusal));
}


/* rc is an error; BAD: the results are refused. */
static void
fail(ngx_chat_ctx_t *ctx, chat_rc_e rc)
{
    if (rc == CHAT_BAD) {
        refuse(ctx, &ctx->results->external.refusal);
    } else {
        ngx_http_finalize_request(ctx->request,
                                  NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


static void
look_later(ngx_chat_ctx_t *ctx, const chat_external_refusal_t *refusal)
{
    if (!ngx_chat_decide_later(ctx, find_batch)) {
        refuse(ctx, refusal);
    }
}


static void
on_joined(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
          size_t n)
{
    ngx_chat_ctx_t     *ctx = ask->ctx;
    ngx_chat_results_t *rs = ctx->results;

    if (rc == CHAT_OK) {
        rc = ngx_chat_keep_facts(&rs->facts, facts, n);
    }

    if (rc != CHAT_OK) {
        rs->rc = rc;
    }

    if (--rs->due != 0) {
        return;
    }

    if (rs->rc == CHAT_OK) {
        rs->next(ctx);

    } else if (rs->rc == CHAT_LIMIT) {
        refuse(ctx, &store_full);

    } else {
        ngx_http_finalize_request(ctx->request,
                                  ngx_chat_endpoint_away(ctx->request));
    }
}


/* Joins the facts (NULL: none) under all keys, then calls next. */
static void
join_all(ngx_chat_ctx_t *ctx, const chat_facts_t *facts,
         void (*next)(ngx_chat_ctx_t *ctx))
{
    size_t              i;
    ngx_chat_results_t *rs = ctx->results;

    rs->next = next;
    rs->rc = CHAT_OK;
    rs->due = rs->nkeys;
    chat_facts_init(&rs->facts, ctx->kept);

    for (i = 0; i < rs->nkeys; i++) {
        ngx_chat_ask(ctx, &rs->asks[i], NULL, &rs->keys[i], facts, on_joined);
    }
}


/* The index of the conversation has been read. */
static void
on_index(ngx_chat_ctx_t *ctx)
{
    size_t              i;
    ngx_chat_results_t *rs = ctx->results;
    const chat_facts_t *facts = &rs->facts;

    if (chat_batch_newest(facts->items, facts->count, &rs->recorded)
        == CHAT_OK) {
        rs->dialect = chat_dialect_find(rs->recorded.dialect);
    }

    if (rs->dialect == NULL) {
        look_later(ctx, &unknown_conversation);
        return;
    }

    rs->nkeys = rs->recorded.nnames;

    for (i = 0; i < rs->nkeys; i++) {
        rs->keys[i].tag = rs->keys[0].tag;
        rs->keys[i].tenant = rs->keys[0].tenant;
        rs->keys[i].name = rs->recorded.names[i];
    }

    join_all(ctx, NULL, act_on_batch);
}


static void
find_batch(ngx_chat_ctx_t *ctx)
{
    ngx_chat_results_t *rs = ctx->results;
    ngx_http_request_t *r = ctx->request;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    rs->nkeys = 1;
    rs->dialect = NULL;
    (void) chat_conversation_index_key(&ctx->scope, &rs->keys[0]);
    join_all(ctx, NULL, on_index);
}


static void
on_results_joined(ngx_chat_ctx_t *ctx)
{
    size_t              applied, repeated;
    u_char              id[NGX_CHAT_LOG_ID], *end;
    chat_buf_t          out = { 0 };
    ngx_chat_results_t *rs = ctx->results;

    applied =
        chat_external_applied(&rs->put, rs->facts.items, rs->facts.count);
    repeated = rs->external.count - applied;
    end = ngx_chat_log_id(id, ctx->scope.conversation);

    ngx_log_error(NGX_LOG_INFO, ctx->request->connection->log, 0,
                  "chat: external results: conversation %*s, applied %uz, "
                  "repeated %uz",
                  (size_t) (end - id), id, applied, repeated);
    ngx_chat_metrics_of(ctx->worker)->counts[CHAT_COUNT_EXTERNAL] += applied;
    ctx->barrier.q.key = rs->keys[0];
    ctx->barrier.q.dialect = rs->dialect;
    ngx_chat_metrics_external(ctx, rs->external.items, rs->external.count);

    chat_buf_format(&out, "{\"applied\":%d,\"repeated\":%d}\n",
                    (uint64_t) applied, (uint64_t) repeated);
    send_json(ctx, &out);
}


static void
post_results(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
    chat_rc_e           rc;
    ngx_chat_results_t *rs = ctx->results;

    chat_facts_init(&rs->put, ctx->kept);
    rs->external.tenant = &ctx->scope.tenant;
    rc = chat_external_facts(&rs->external, rs->dialect, batch, &rs->put);

    if (rc == CHAT_BAD && rs->external.refusal.status == NGX_HTTP_NOT_FOUND) {
        look_later(ctx, &rs->external.refusal);

    } else if (rc != CHAT_OK) {
        fail(ctx, rc);

    } else {
        join_all(ctx, &rs->put, on_results_joined);
    }
}


static void
send_cleared(ngx_chat_ctx_t *ctx)
{
    send_json(ctx, &ctx->results->cleared);
}


/* The join behind the clear is replied to when the clear is done. */
static void
clear_batch(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
    size_t              i;
    chat_store_t       *store = ctx->worker->store;
    ngx_chat_results_t *rs = ctx->results;

    if (!chat_external_is_open(batch)) {
        chat_external_cleared(NULL, &rs->cleared);
        send_cleared(ctx);
        return;
    }

    chat_external_cleared(batch, &rs->cleared);

    for (i = 0; i < rs->nkeys; i++) {
        store->clear(store, &rs->keys[i], ctx->worker->ttl);
    }

    join_all(ctx, NULL, send_cleared);
}


/* The facts of the batch have been read. */
static void
act_on_batch(ngx_chat_ctx_t *ctx)
{
    chat_buf_t          out = { 0 };
    chat_batch_t        batch;
    ngx_chat_results_t *rs = ctx->results;

    if (chat_batch_read(rs->facts.items, rs->facts.count, ctx->kept, &batch)
        != CHAT_OK)
    {
        fail(ctx, CHAT_ERROR);
        return;
    }

    (void) chat_attempt_expire_dead(&batch.last, chat_store_alive,
                                    ctx->worker->store);

    switch (ctx->request->method) {
    case NGX_HTTP_POST:
        post_results(ctx, &batch);
        break;

    case NGX_HTTP_DELETE:
        clear_batch(ctx, &batch);
        break;

    default:
        chat_external_show(&batch, &rs->recorded, ctx->scope.conversation,
                           &out);
        send_json(ctx, &out);
    }
}


static void
leave(ngx_chat_ctx_t *ctx)
{
    size_t i;

    for (i = 0; i < CHAT_NAMES_MAX; i++) {
        ngx_chat_ask_cancel(&ctx->results->asks[i]);
    }

    ngx_chat_event_cancel(&ctx->wait.timer.event);
    chat_buf_free(&ctx->results->cleared);
}


/* The results of a POST. CHAT_LIMIT: its body is past its limit. */
static chat_rc_e
read_body(ngx_chat_ctx_t *ctx)
{
    chat_rc_e        rc;
    ngx_int_t        read;
    ngx_str_t        body = ngx_null_string;
    chat_external_t *external = &ctx->results->external;

    read = ngx_chat_read_body(ctx->request, ctx->conf->max_body, &body);
    if (read != NGX_OK) {
        return read == NGX_DECLINED ? CHAT_LIMIT : CHAT_ERROR;
    }

    rc = chat_external_read(external, ctx->kept, ngx_chat_str(&body),
                            (size_t) ctx->conf->max_calls,
                            ctx->conf->max_result);
    ctx->scope.conversation = external->conversation;
    return rc;
}


/* ?conversation=... */
static chat_rc_e
read_query(ngx_chat_ctx_t *ctx)
{
    ngx_int_t rc;

    rc =
        ngx_chat_endpoint_conversation(ctx->request, &ctx->scope.conversation);
    if (rc == NGX_DECLINED) {
        ctx->results->external.refusal = missing_argument;
        return CHAT_BAD;
    }

    return rc == NGX_OK ? CHAT_OK : CHAT_ERROR;
}


/* The request body has been read. */
static void
on_body(ngx_http_request_t *r)
{
    ngx_chat_ctx_t *ctx = ngx_chat_get_ctx(r);
    chat_rc_e       rc =
        r->method == NGX_HTTP_POST ? read_body(ctx) : read_query(ctx);

    if (rc == CHAT_LIMIT) {
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE);

    } else if (rc != CHAT_OK) {
        fail(ctx, rc);

    } else if (ctx->worker->store == NULL) {
        ngx_http_finalize_request(r, ngx_chat_endpoint_away(r));

    } else {
        find_batch(ctx);
    }
}


/* Checks the method and headers; NGX_OK, or a status. */
static ngx_int_t
check_headers(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf)
{
    ngx_int_t          rc;
    ngx_chat_headers_t headers;

    rc = ngx_chat_endpoint_allow(
        r, NGX_HTTP_GET | NGX_HTTP_HEAD | NGX_HTTP_POST | NGX_HTTP_DELETE,
        "GET, HEAD, POST, DELETE");
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_chat_headers_scan(r, &headers, 0);

    if (r->method == NGX_HTTP_POST && (!headers.json || headers.encoded)) {
        return NGX_HTTP_UNSUPPORTED_MEDIA_TYPE;
    }

    return r->headers_in.content_length_n > (off_t) conf->max_body
               ? NGX_HTTP_REQUEST_ENTITY_TOO_LARGE
               : NGX_OK;
}


static ngx_int_t
results_handler(ngx_http_request_t *r)
{
    chat_digest_t        tenant;
    ngx_chat_ctx_t      *ctx;
    ngx_chat_results_t  *results;
    ngx_chat_loc_conf_t *conf =
        ngx_http_get_module_loc_conf(r, ngx_chat_module);
    ngx_int_t rc = check_headers(r, conf);

    if (rc != NGX_OK) {
        return rc;
    }

    rc = ngx_chat_endpoint_tenant(r, conf, "external results are", &tenant);
    if (rc != NGX_OK) {
        return rc;
    }

    ctx = ngx_chat_create_ctx(r, conf);
    results = ngx_pcalloc(r->pool, sizeof(*results));
    if (ctx == NULL || results == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx->results = results;
    ctx->cleanups[NGX_CHAT_CLEANUP_ENDPOINT] = leave;
    ctx->scope.tenant = tenant;

    rc = ngx_http_read_client_request_body(r, on_body);
    return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
}


char *
ngx_chat_conf_results(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_chat_loc_conf_t *lcf = conf;

    lcf->needs_tenant = 1;
    return ngx_chat_endpoint_set(cf, cmd, lcf, results_handler);
}
