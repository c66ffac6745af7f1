/*
 * ngx_chat_results.c: chat_results, the content handler of results from
 * outside: of a person in another program, a webhook, a worker.
 *
 * Promises: a result is acknowledged only when the store has it; a list is
 * taken whole or not at all; nothing fires once the client has left.
 * Must not know: wire formats, how a batch is found, who waits for a result.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "metrics/ngx_chat_metrics.h"
#include "endpoint/ngx_chat_results.h"


/* What the store has answered, as a batch. */
static chat_rc_e
ngx_chat_results_batch(ngx_chat_results_t *rs, chat_batch_t *batch)
{
    chat_rc_e rc;

    rc = chat_batch_read(rs->facts, rs->nfacts, rs->arena, batch);

    if (rc == CHAT_OK) {
        (void) chat_attempt_expire_dead(&batch->last, chat_store_alive,
                                        rs->store);
    }

    return rc;
}


static void
ngx_chat_results_log(ngx_chat_results_t *rs, size_t applied)
{
    u_char id[NGX_CHAT_LOG_ID], *end;

    end = ngx_chat_log_id(id, rs->scope.conversation);

    ngx_log_error(NGX_LOG_INFO, rs->request->connection->log, 0,
                  "chat: results from outside: conversation %*s, applied %uz, "
                  "repeated %uz",
                  (size_t) (end - id), id, applied,
                  rs->outside.count - applied);
}


static void
ngx_chat_results_joined(ngx_chat_results_t *rs)
{
    size_t     applied;
    chat_buf_t out;

    applied =
        chat_external_applied(&rs->outside, &rs->put, rs->facts, rs->nfacts);
    ngx_chat_results_log(rs, applied);
    ngx_chat_metrics_count(
        ngx_http_get_module_main_conf(rs->request, ngx_chat_module),
        CHAT_COUNT_OUTSIDE, applied);

    ngx_memzero(&out, sizeof(out));
    chat_buf_printf(&out, "{\"applied\":%zu,\"repeated\":%zu}\n", applied,
                    rs->outside.count - applied);
    ngx_chat_results_send(rs, NGX_HTTP_OK, &out);
}


static void
ngx_chat_results_post(ngx_chat_results_t *rs, const chat_batch_t *batch)
{
    chat_rc_e rc;

    chat_facts_init(&rs->put, rs->arena);
    rc = chat_external_facts(&rs->outside, rs->dialect, batch, &rs->put);

    if (rc == CHAT_BAD && rs->outside.refusal.status == NGX_HTTP_NOT_FOUND) {
        ngx_chat_results_unknown(rs, &rs->outside.refusal);

    } else if (rc == CHAT_BAD) {
        ngx_chat_results_refuse(rs, &rs->outside.refusal);

    } else if (rc != CHAT_OK) {
        ngx_http_finalize_request(rs->request, NGX_HTTP_INTERNAL_SERVER_ERROR);

    } else {
        ngx_chat_results_join(rs, &rs->put, ngx_chat_results_joined);
    }
}


static void
ngx_chat_results_get(ngx_chat_results_t *rs, const chat_batch_t *batch)
{
    chat_buf_t out;

    ngx_memzero(&out, sizeof(out));
    chat_external_show(batch, &rs->recorded, rs->scope.conversation, &out);
    ngx_chat_results_send(rs, NGX_HTTP_OK, &out);
}


static void
ngx_chat_results_cleared(ngx_chat_results_t *rs)
{
    chat_buf_t out;

    ngx_memzero(&out, sizeof(out));
    chat_external_cleared(rs->cleared, &out);
    ngx_chat_results_send(rs, NGX_HTTP_OK, &out);
}


/* Clears the batch; what is asked behind that is answered behind it. */
static void
ngx_chat_results_delete(ngx_chat_results_t *rs, const chat_batch_t *batch)
{
    size_t i;

    if (!chat_external_is_open(batch)) {
        ngx_chat_results_cleared(rs);
        return;
    }

    rs->cleared = chat_arena_alloc(rs->arena, sizeof(*batch));
    if (rs->cleared == NULL) {
        ngx_http_finalize_request(rs->request, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    /* its calls are in the arena */
    *rs->cleared = *batch;

    for (i = 0; i < rs->nkeys; i++) {
        rs->store->clear(rs->store, &rs->keys[i], (uint32_t) rs->conf->ttl);
    }

    ngx_chat_results_join(rs, NULL, ngx_chat_results_cleared);
}


/* The facts of the batch are there. */
static void
ngx_chat_results_act(ngx_chat_results_t *rs)
{
    chat_batch_t batch;

    if (ngx_chat_results_batch(rs, &batch) != CHAT_OK) {
        ngx_http_finalize_request(rs->request, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    switch (rs->request->method) {
    case NGX_HTTP_POST:
        ngx_chat_results_post(rs, &batch);
        break;

    case NGX_HTTP_DELETE:
        ngx_chat_results_delete(rs, &batch);
        break;

    default:
        ngx_chat_results_get(rs, &batch);
    }
}


/* The request is over, whatever has ended it. */
static void
ngx_chat_results_cleanup(void *data)
{
    size_t              i;
    ngx_chat_results_t *rs = data;

    for (i = 0; rs->store != NULL && i < CHAT_NAMES_MAX; i++) {
        rs->store->cancel(&rs->ops[i]);
    }

    if (rs->timer.timer_set) {
        ngx_del_timer(&rs->timer);
    }

    chat_arena_destroy(rs->arena);
}


/* What a request is worked on with; NULL: no memory. */
static ngx_chat_results_t *
ngx_chat_results_create(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf,
                        const chat_digest_t *tenant)
{
    ngx_chat_results_t   *rs;
    ngx_http_cleanup_t   *cln;
    ngx_chat_main_conf_t *mcf;

    mcf = ngx_http_get_module_main_conf(r, ngx_chat_module);
    rs = ngx_pcalloc(r->pool, sizeof(ngx_chat_results_t));
    cln = ngx_http_cleanup_add(r, 0);
    if (rs == NULL || cln == NULL) {
        return NULL;
    }

    rs->arena = chat_arena_create(0);
    if (rs->arena == NULL) {
        return NULL;
    }

    rs->request = r;
    rs->conf = conf;
    rs->store = mcf->store;
    rs->act = ngx_chat_results_act;
    rs->scope.tenant = *tenant;

    cln->handler = ngx_chat_results_cleanup;
    cln->data = rs;
    return rs;
}


/* What was created for the request. */
static ngx_chat_results_t *
ngx_chat_results_get_ctx(ngx_http_request_t *r)
{
    ngx_chat_results_t *rs;
    ngx_http_cleanup_t *cln;

    for (cln = r->main->cleanup; cln != NULL; cln = cln->next) {
        rs = cln->data;

        if (cln->handler == ngx_chat_results_cleanup && rs->request == r) {
            return rs;
        }
    }

    return NULL;
}


/* The results of a POST. CHAT_LIMIT: its body is past chat_max_body. */
static chat_rc_e
ngx_chat_results_brought(ngx_chat_results_t *rs)
{
    chat_rc_e rc;
    ngx_int_t read;
    ngx_str_t body = ngx_null_string;

    read = ngx_chat_read_body(rs->request, rs->conf->max_body, &body);
    if (read != NGX_OK) {
        return read == NGX_DECLINED ? CHAT_LIMIT : CHAT_ERROR;
    }

    rc = chat_external_read(
        &rs->outside, rs->arena, chat_str(body.data, body.len),
        (size_t) rs->conf->max_calls, rs->conf->max_result);
    rs->scope.conversation = rs->outside.conversation;
    return rc;
}


/* ?conversation=... */
static chat_rc_e
ngx_chat_results_named(ngx_chat_results_t *rs)
{
    u_char                  *from, *to;
    chat_str_t               value;
    ngx_http_request_t      *r = rs->request;
    chat_external_refusal_t *refusal = &rs->outside.refusal;

    value = ngx_chat_endpoint_arg(r, "conversation");

    if (value.len != 0) {
        from = (u_char *) value.data;
        to = ngx_pnalloc(r->pool, value.len);
        if (to == NULL) {
            return CHAT_ERROR;
        }

        rs->scope.conversation.data = to;
        ngx_unescape_uri(&to, &from, value.len, 0);
        rs->scope.conversation.len =
            (size_t) (to - rs->scope.conversation.data);
        return CHAT_OK;
    }

    refusal->status = NGX_HTTP_BAD_REQUEST;
    refusal->code = "invalid";
    refusal->field = "conversation";
    refusal->message = "this argument is missing";
    return CHAT_BAD;
}


/* The whole request is there. */
static void
ngx_chat_results_ready(ngx_http_request_t *r)
{
    chat_rc_e           rc;
    ngx_chat_results_t *rs = ngx_chat_results_get_ctx(r);

    rc = r->method == NGX_HTTP_POST ? ngx_chat_results_brought(rs)
                                    : ngx_chat_results_named(rs);

    if (rc == CHAT_BAD) {
        ngx_chat_results_refuse(rs, &rs->outside.refusal);

    } else if (rc == CHAT_LIMIT) {
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE);

    } else if (rc != CHAT_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);

    } else if (rs->store == NULL) {
        ngx_chat_results_away(rs, CHAT_ERROR);

    } else {
        ngx_chat_results_look(rs);
    }
}


/* What the header alone decides; NGX_OK: nothing. */
static ngx_int_t
ngx_chat_results_header(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf)
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
ngx_chat_results_handler(ngx_http_request_t *r)
{
    ngx_int_t            rc;
    chat_digest_t        tenant;
    ngx_chat_loc_conf_t *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_chat_module);

    rc = ngx_chat_results_header(r, conf);
    if (rc != NGX_OK) {
        return rc;
    }

    rc =
        ngx_chat_endpoint_tenant(r, conf, "results from outside are", &tenant);
    if (rc != NGX_OK) {
        return rc;
    }

    if (ngx_chat_results_create(r, conf, &tenant) == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_read_client_request_body(r, ngx_chat_results_ready);
    return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
}


char *
ngx_chat_conf_results(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_chat_loc_conf_t *lcf = conf;

    if (lcf->results) {
        return "is duplicate";
    }

    lcf->results = 1;
    (void) ngx_chat_endpoint_set(cf, ngx_chat_results_handler);
    return NGX_CONF_OK;
}
