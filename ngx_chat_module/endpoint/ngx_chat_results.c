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

typedef struct ngx_chat_results_s ngx_chat_results_t;

struct ngx_chat_results_s {
    ngx_http_request_t   *request;
    ngx_chat_loc_conf_t  *conf;
    chat_store_t         *store;
    chat_arena_t         *arena;
    chat_scope_t          scope;
    chat_external_t       external; /* POST: the results of the body */
    chat_batch_t         *cleared;  /* by a DELETE; or NULL */
    chat_recorded_t       recorded;
    const chat_dialect_t *dialect; /* of the batch */
    chat_facts_t          put;     /* what is joined */

    /* store requests in flight: one a key */
    chat_key_t      keys[CHAT_NAMES_MAX];
    size_t          nkeys;
    chat_store_op_t ops[CHAT_NAMES_MAX];
    size_t          due;
    chat_rc_e       rc;    /* of them all */
    chat_fact_t    *facts; /* of all replies */
    size_t          nfacts;
    void (*next)(ngx_chat_results_t *rs);

    ngx_event_t timer;
    ngx_uint_t  looks; /* that found nothing */
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

static void find_batch(ngx_chat_results_t *rs);
static void act_on_batch(ngx_chat_results_t *rs);


static void
send_json(ngx_chat_results_t *rs, ngx_uint_t status, chat_buf_t *out)
{
    ngx_http_request_t *r = rs->request;

    ngx_http_finalize_request(
        r, ngx_chat_answer_text(r, status, "application/json", out));
}


static void
refuse(ngx_chat_results_t *rs, const chat_external_refusal_t *refusal)
{
    ngx_http_finalize_request(rs->request,
                              ngx_chat_endpoint_refuse(rs->request, refusal));
}


static void
store_failed(ngx_chat_results_t *rs, chat_rc_e rc)
{
    if (rc == CHAT_LIMIT) {
        refuse(rs, &store_full);
    } else {
        ngx_http_finalize_request(rs->request,
                                  ngx_chat_endpoint_away(rs->request));
    }
}


static void
on_timer(ngx_event_t *ev)
{
    ngx_chat_results_t *rs = ev->data;
    ngx_connection_t   *c = rs->request->connection;

    ngx_http_set_log_request(c->log, rs->request);
    find_batch(rs);
    ngx_http_run_posted_requests(c);
}


static void
look_later(ngx_chat_results_t *rs, const chat_external_refusal_t *refusal)
{
    ngx_msec_t pause = ngx_chat_decide_pause(rs->store, &rs->looks);

    if (pause == 0) {
        refuse(rs, refusal);
        return;
    }

    rs->timer.handler = on_timer;
    rs->timer.data = rs;
    rs->timer.log = rs->request->connection->log;
    ngx_add_timer(&rs->timer, pause);
}


/* Appends a copy of a reply's facts to rs->facts. */
static chat_rc_e
append_facts(ngx_chat_results_t *rs, const chat_fact_t *facts, size_t n)
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
on_joined(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts,
          size_t n)
{
    ngx_chat_results_t *rs = op->data;
    ngx_connection_t   *c = rs->request->connection;

    ngx_http_set_log_request(c->log, rs->request);

    if (rc == CHAT_OK) {
        rc = append_facts(rs, facts, n);
    }

    if (rc != CHAT_OK) {
        rs->rc = rc;
    }

    if (--rs->due == 0) {
        if (rs->rc != CHAT_OK) {
            store_failed(rs, rs->rc);
        } else {
            rs->next(rs);
        }
    }

    ngx_http_run_posted_requests(c);
}


static void
join_all(ngx_chat_results_t *rs, const chat_facts_t *facts,
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
        rs->ops[i].done = on_joined;
        rs->ops[i].data = rs;
        store->join(store, &rs->ops[i], &rs->keys[i],
                    facts ? facts->items : NULL, facts ? facts->count : 0,
                    (uint32_t) rs->conf->ttl);
    }
}


/* The index of the conversation has been read. */
static void
on_index(ngx_chat_results_t *rs)
{
    size_t i;

    ngx_chat_store_trim(rs->store, &rs->keys[0], rs->facts, rs->nfacts);

    if (chat_batch_newest(rs->facts, rs->nfacts, &rs->recorded) == CHAT_OK) {
        rs->dialect = chat_dialect_find(rs->recorded.dialect);
    }

    if (rs->dialect == NULL) {
        look_later(rs, &unknown_conversation);
        return;
    }

    rs->nkeys = rs->recorded.nnames;

    for (i = 0; i < rs->nkeys; i++) {
        rs->keys[i].tag = rs->keys[0].tag;
        rs->keys[i].tenant = rs->keys[0].tenant;
        rs->keys[i].name = rs->recorded.names[i];
    }

    join_all(rs, NULL, act_on_batch);
}


static void
find_batch(ngx_chat_results_t *rs)
{
    ngx_http_request_t *r = rs->request;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    rs->nkeys = 1;
    rs->dialect = NULL;
    (void) chat_batch_record_key(&rs->scope, &rs->keys[0]);
    join_all(rs, NULL, on_index);
}


static void
on_results_joined(ngx_chat_results_t *rs)
{
    size_t     applied, repeated;
    u_char     id[NGX_CHAT_LOG_ID], *end;
    chat_buf_t out = { 0 };

    applied =
        chat_external_applied(&rs->external, &rs->put, rs->facts, rs->nfacts);
    repeated = rs->external.count - applied;
    end = ngx_chat_log_id(id, rs->scope.conversation);

    ngx_log_error(NGX_LOG_INFO, rs->request->connection->log, 0,
                  "chat: external results: conversation %*s, applied %uz, "
                  "repeated %uz",
                  (size_t) (end - id), id, applied, repeated);
    ngx_chat_metrics_count(ngx_chat_worker(rs->request), CHAT_COUNT_EXTERNAL,
                           applied);

    chat_buf_printf(&out, "{\"applied\":%zu,\"repeated\":%zu}\n", applied,
                    repeated);
    send_json(rs, NGX_HTTP_OK, &out);
}


static void
post_results(ngx_chat_results_t *rs, const chat_batch_t *batch)
{
    chat_rc_e rc;

    chat_facts_init(&rs->put, rs->arena);
    rc = chat_external_facts(&rs->external, rs->dialect, batch, &rs->put);

    if (rc == CHAT_BAD && rs->external.refusal.status == NGX_HTTP_NOT_FOUND) {
        look_later(rs, &rs->external.refusal);

    } else if (rc == CHAT_BAD) {
        refuse(rs, &rs->external.refusal);

    } else if (rc != CHAT_OK) {
        ngx_http_finalize_request(rs->request, NGX_HTTP_INTERNAL_SERVER_ERROR);

    } else {
        join_all(rs, &rs->put, on_results_joined);
    }
}


static void
send_cleared(ngx_chat_results_t *rs)
{
    chat_buf_t out = { 0 };

    chat_external_cleared(rs->cleared, &out);
    send_json(rs, NGX_HTTP_OK, &out);
}


/* The join behind the clear is replied to when the clear is done. */
static void
clear_batch(ngx_chat_results_t *rs, const chat_batch_t *batch)
{
    size_t i;

    if (!chat_external_is_open(batch)) {
        send_cleared(rs);
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

    join_all(rs, NULL, send_cleared);
}


/* The facts of the batch have been read. */
static void
act_on_batch(ngx_chat_results_t *rs)
{
    chat_buf_t   out = { 0 };
    chat_batch_t batch;

    if (chat_batch_read(rs->facts, rs->nfacts, rs->arena, &batch) != CHAT_OK) {
        ngx_http_finalize_request(rs->request, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    (void) chat_attempt_expire_dead(&batch.last, chat_store_alive, rs->store);

    switch (rs->request->method) {
    case NGX_HTTP_POST:
        post_results(rs, &batch);
        break;

    case NGX_HTTP_DELETE:
        clear_batch(rs, &batch);
        break;

    default:
        chat_external_show(&batch, &rs->recorded, rs->scope.conversation,
                           &out);
        send_json(rs, NGX_HTTP_OK, &out);
    }
}


/* Cleanup of the request. */
static void
cleanup(void *data)
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


/* The context that results_handler() has made. */
static ngx_chat_results_t *
find_results(ngx_http_request_t *r)
{
    ngx_chat_results_t *rs;
    ngx_http_cleanup_t *cln;

    for (cln = r->main->cleanup; cln != NULL; cln = cln->next) {
        rs = cln->data;

        if (cln->handler == cleanup && rs->request == r) {
            return rs;
        }
    }

    return NULL;
}


/* The results of a POST. CHAT_LIMIT: its body is past chat_max_body. */
static chat_rc_e
read_body(ngx_chat_results_t *rs)
{
    chat_rc_e rc;
    ngx_int_t read;
    ngx_str_t body = ngx_null_string;

    read = ngx_chat_read_body(rs->request, rs->conf->max_body, &body);
    if (read != NGX_OK) {
        return read == NGX_DECLINED ? CHAT_LIMIT : CHAT_ERROR;
    }

    rc = chat_external_read(
        &rs->external, rs->arena, chat_str(body.data, body.len),
        (size_t) rs->conf->max_calls, rs->conf->max_result);
    rs->scope.conversation = rs->external.conversation;
    return rc;
}


/* ?conversation=... */
static chat_rc_e
read_query(ngx_chat_results_t *rs)
{
    u_char             *from, *to;
    chat_str_t          value;
    ngx_http_request_t *r = rs->request;

    value = ngx_chat_endpoint_arg(r, "conversation");

    if (value.len == 0) {
        rs->external.refusal = missing_argument;
        return CHAT_BAD;
    }

    from = (u_char *) value.data;
    to = ngx_pnalloc(r->pool, value.len);
    if (to == NULL) {
        return CHAT_ERROR;
    }

    rs->scope.conversation.data = to;
    ngx_unescape_uri(&to, &from, value.len, 0);
    rs->scope.conversation.len = (size_t) (to - rs->scope.conversation.data);
    return CHAT_OK;
}


/* The request body has been read. */
static void
on_body(ngx_http_request_t *r)
{
    chat_rc_e           rc;
    ngx_chat_results_t *rs = find_results(r);

    rc = r->method == NGX_HTTP_POST ? read_body(rs) : read_query(rs);

    if (rc == CHAT_BAD) {
        refuse(rs, &rs->external.refusal);

    } else if (rc == CHAT_LIMIT) {
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_ENTITY_TOO_LARGE);

    } else if (rc != CHAT_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);

    } else if (rs->store == NULL) {
        store_failed(rs, CHAT_ERROR);

    } else {
        find_batch(rs);
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
    ngx_int_t            rc;
    chat_digest_t        tenant;
    ngx_chat_results_t  *rs;
    ngx_http_cleanup_t  *cln;
    ngx_chat_loc_conf_t *conf;
    ngx_chat_worker_t   *worker;

    conf = ngx_http_get_module_loc_conf(r, ngx_chat_module);

    rc = check_headers(r, conf);
    if (rc != NGX_OK) {
        return rc;
    }

    rc = ngx_chat_endpoint_tenant(r, conf, "external results are", &tenant);
    if (rc != NGX_OK) {
        return rc;
    }

    rs = ngx_pcalloc(r->pool, sizeof(ngx_chat_results_t));
    cln = ngx_http_cleanup_add(r, 0);
    if (rs == NULL || cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rs->arena = chat_arena_create(0);
    if (rs->arena == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    worker = ngx_chat_worker(r);
    rs->request = r;
    rs->conf = conf;
    rs->store = worker->store;
    rs->scope.tenant = tenant;
    cln->handler = cleanup;
    cln->data = rs;

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
