/*
 * ngx_chat_status.c: chat_status, a content handler that returns the counters
 * and the state of this node.
 *
 * It reads shared memory without a lock, and never queries the store. Each
 * worker puts the state of its store there once a second.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "endpoint/ngx_chat_endpoint.h"
#include "metrics/ngx_chat_metrics.h"

#define NGX_CHAT_VERSION "0.1.0"
#define NGX_CHAT_STATUS_TICK 1000 /* ms */


/* Publishes the state that this worker sees of its store. */
static void
note_store(ngx_chat_worker_t *worker)
{
    uint64_t *stores = ngx_chat_metrics_of(worker)->now.stores;

    ngx_memzero(stores, CHAT_METRICS_STORES * sizeof(*stores));
    stores[worker->store ? worker->store->state : CHAT_STORE_UNAVAILABLE] = 1;
}


static void
on_tick(ngx_event_t *ev)
{
    ngx_chat_worker_t *worker = ev->data;

    ngx_add_timer(ev, NGX_CHAT_STATUS_TICK);
    note_store(worker);

    if (worker->store != NULL && worker->store->state == CHAT_STORE_UP) {
        ngx_chat_metrics_relist(worker, ngx_chat_watch_look);
    }
}


void
ngx_chat_status_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle)
{
    note_store(&mcf->worker);

    if (!mcf->status) {
        return;
    }

    ngx_chat_event_set(&mcf->worker.tick, on_tick, &mcf->worker, cycle->log);
    mcf->worker.tick.cancelable = 1;
    ngx_add_timer(&mcf->worker.tick, NGX_CHAT_STATUS_TICK);
}


/* 1 if the client wants plain text and not JSON. */
static ngx_uint_t
wants_text(ngx_http_request_t *r)
{
    chat_str_t       format = ngx_chat_endpoint_arg(r, "format");
    ngx_table_elt_t *h;

    if (chat_str_is(format, "prometheus")) {
        return 1;
    }

    if (chat_str_is(format, "json")) {
        return 0;
    }

    h = ngx_chat_headers_find(&r->headers_in.headers, "accept");

    return h != NULL && ngx_strcasestrn(h->value.data, "text/plain", 9) != NULL
           && ngx_strcasestrn(h->value.data, "application/json", 15) == NULL;
}


/*
 * Reads ?batch= (16 hex digits, more are ignored) or ?conversation= into the
 * members of an event. NGX_DECLINED: neither; NGX_ERROR: bad value, no memory.
 */
static ngx_int_t
read_wanted(ngx_http_request_t *r, chat_log_event_t *wanted)
{
    ngx_int_t  rc;
    chat_str_t id, batch = ngx_chat_endpoint_arg(r, "batch");

    if (batch.len != 0) {
        wanted->has_batch = 1;
        batch.len = ngx_min(batch.len, 2 * sizeof(wanted->batch));
        return chat_hex_read(batch, wanted->batch, sizeof(wanted->batch))
                   ? NGX_OK
                   : NGX_ERROR;
    }

    rc = ngx_chat_endpoint_conversation(r, &id);

    if (rc == NGX_OK) {
        chat_short(&wanted->conversation, id);
        wanted->hash = ngx_crc32_long((u_char *) id.data, id.len);
    }

    return rc;
}


/* Sets the zeroed status to what is known of this node, but for the tables. */
static void
init_status(ngx_chat_main_conf_t *mcf, chat_status_t *status)
{
    ngx_shm_zone_t        *zone = mcf->zone;
    ngx_chat_metrics_t    *metrics = mcf->worker.metrics;
    const ngx_slab_pool_t *shpool;

    note_store(&mcf->worker);
    ngx_chat_metrics_read(metrics, status);

    status->version = chat_cstr(NGX_CHAT_VERSION);
    status->nginx = chat_cstr(NGINX_VERSION);
    status->time = ngx_chat_now();
    status->store = mcf->redis ? "redis" : "shm";
    status->node = chat_cstr((char *) metrics->sh->name);

    if (zone != NULL) {
        shpool = (ngx_slab_pool_t *) zone->shm.addr;
        status->zone_size = zone->shm.size;
        status->zone_used = zone->shm.size - shpool->pfree * ngx_pagesize;
    }
}


static ngx_int_t
status_handler(ngx_http_request_t *r)
{
    ngx_int_t             rc, timeline;
    chat_buf_t            text = { 0 };
    const char           *type = "application/json";
    chat_status_t         status;
    chat_log_event_t      wanted;
    ngx_chat_metrics_t   *metrics;
    ngx_chat_main_conf_t *mcf;

    if (!(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_memzero(&wanted, sizeof(wanted));
    timeline = read_wanted(r, &wanted);
    if (timeline == NGX_ERROR) {
        return NGX_HTTP_BAD_REQUEST;
    }

    mcf = ngx_http_get_module_main_conf(r, ngx_chat_module);
    metrics = mcf->worker.metrics;
    ngx_memzero(&status, sizeof(status));
    init_status(mcf, &status);

    if (timeline == NGX_OK) {
        rc = ngx_chat_metrics_events(metrics, r->pool, &wanted, &status);
        chat_status_timeline(&status, &text);

    } else if (wants_text(r)) {
        type = "text/plain; version=0.0.4; charset=utf-8";
        chat_status_prometheus(&status, &text);

    } else {
        rc = ngx_chat_metrics_events(metrics, r->pool, NULL, &status);
        if (rc == NGX_OK) {
            rc = ngx_chat_metrics_batches(metrics, r->pool, &status);
        }
        chat_status_json(&status, &text);
    }

    if (rc != NGX_OK || text.failed
        || ngx_chat_answer_add_header(r, chat_cstr("Cache-Control"),
                                      chat_cstr("no-store"))
               != NGX_OK)
    {
        chat_buf_free(&text);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_chat_answer_text(r, NGX_HTTP_OK, type, &text);
}


char *
ngx_chat_conf_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_chat_main_conf_t *mcf;

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_chat_module);
    mcf->status = 1;
    return ngx_chat_endpoint_set(cf, cmd, conf, status_handler);
}
