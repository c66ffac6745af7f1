/*
 * ngx_chat_status.c: see ngx_chat_status.h.
 *
 * The answer is made of shared memory, without a lock. Each second a worker
 * notes there what it knows of its store.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "endpoint/ngx_chat_endpoint.h"
#include "metrics/ngx_chat_metrics.h"
#include "endpoint/ngx_chat_status.h"

#define NGX_CHAT_STATUS_TICK 1000 /* ms */


/* What this worker knows of its store. */
static void
ngx_chat_status_note(ngx_chat_main_conf_t *mcf)
{
    uint64_t *stores = mcf->metrics->slot->metrics.stores;

    ngx_memzero(stores, 3 * sizeof(uint64_t));
    stores[mcf->store ? mcf->store->state : CHAT_STORE_UNAVAILABLE] = 1;
}


/* The sum of this node's workers. */
static void
ngx_chat_status_sum(ngx_chat_metrics_t *metrics, chat_status_t *status)
{
    size_t                   now = offsetof(chat_metrics_t, workers);
    ngx_uint_t               i;
    chat_metrics_t           one;
    ngx_msec_int_t           age;
    ngx_chat_metrics_slot_t *slot;

    for (i = 0; i < metrics->sh->used; i++) {
        slot = &metrics->sh->slots[i];
        one = slot->metrics;

        if (!ngx_chat_metrics_runs(metrics, i)) {
            ngx_memzero((u_char *) &one + now, sizeof(one) - now);
        }

        chat_metrics_add(&status->metrics, &one);

        if (one.holds != 0) {
            age = (ngx_msec_int_t) (ngx_current_msec - slot->oldest);
            status->oldest =
                ngx_max(status->oldest, (uint64_t) ngx_max(age, 0));
        }
    }
}


static void
ngx_chat_status_zone(const ngx_shm_zone_t *zone, chat_status_t *status)
{
    const ngx_slab_pool_t *shpool = (ngx_slab_pool_t *) zone->shm.addr;

    status->zone_size = zone->shm.size;
    status->zone_used = zone->shm.size - shpool->pfree * ngx_pagesize;
}


/* This node; NULL: no memory. */
static chat_status_t *
ngx_chat_status_node(ngx_chat_main_conf_t *mcf, ngx_pool_t *pool)
{
    chat_status_t *status;

    status = ngx_pcalloc(pool, sizeof(chat_status_t));
    if (status == NULL) {
        return NULL;
    }

    ngx_chat_status_note(mcf);
    ngx_chat_status_sum(mcf->metrics, status);

    status->version = chat_cstr(NGX_CHAT_VERSION);
    status->nginx = chat_cstr(NGINX_VERSION);
    status->time = ngx_chat_now();
    status->store = mcf->redis ? "redis" : "shm";
    status->node =
        chat_str(mcf->metrics->sh->name, mcf->metrics->sh->name_len);

    if (mcf->zone != NULL) {
        ngx_chat_status_zone(mcf->zone, status);
    }

    return status;
}


static void
ngx_chat_status_tick(ngx_event_t *ev)
{
    ngx_chat_main_conf_t *mcf = ev->data;

    ngx_add_timer(ev, NGX_CHAT_STATUS_TICK);
    ngx_chat_status_note(mcf);

    if (mcf->store != NULL && mcf->store->state == CHAT_STORE_UP) {
        ngx_chat_metrics_relist(mcf);
    }
}


void
ngx_chat_status_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle)
{
    ngx_chat_status_note(mcf);

    if (!mcf->status) {
        return;
    }

    mcf->tick.handler = ngx_chat_status_tick;
    mcf->tick.data = mcf;
    mcf->tick.log = cycle->log;
    mcf->tick.cancelable = 1;
    ngx_add_timer(&mcf->tick, NGX_CHAT_STATUS_TICK);
}


/* 1 if the client wants plain text and not JSON. */
static ngx_uint_t
ngx_chat_status_wants_text(ngx_http_request_t *r)
{
    chat_str_t              format = ngx_chat_endpoint_arg(r, "format");
    ngx_table_elt_t        *h;
    ngx_chat_headers_walk_t walk = { &r->headers_in.headers.part, 0 };

    if (chat_str_is(format, "prometheus")) {
        return 1;
    }

    if (chat_str_is(format, "json")) {
        return 0;
    }

    while ((h = ngx_chat_headers_next(&walk)) != NULL) {
        if (ngx_chat_headers_named(h, "accept")
            && ngx_strcasestrn(h->value.data, "text/plain", 9) != NULL
            && ngx_strcasestrn(h->value.data, "application/json", 15) == NULL)
        {
            return 1;
        }
    }

    return 0;
}


/* The whole answer's text; NGX_ERROR: no memory. */
static ngx_int_t
ngx_chat_status_text(ngx_http_request_t *r, ngx_uint_t prometheus,
                     chat_buf_t *out)
{
    chat_status_t        *status;
    ngx_chat_main_conf_t *mcf;

    mcf = ngx_http_get_module_main_conf(r, ngx_chat_module);

    status = ngx_chat_status_node(mcf, r->pool);
    if (status == NULL) {
        return NGX_ERROR;
    }

    if (prometheus) {
        chat_status_prometheus(status, out);

    } else {
        if (ngx_chat_metrics_tables(mcf->metrics, r->pool, status) != NGX_OK) {
            return NGX_ERROR;
        }

        chat_status_json(status, out);
    }

    return out->failed ? NGX_ERROR : NGX_OK;
}


static ngx_int_t
ngx_chat_status_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc;
    ngx_str_t  key = ngx_string("Cache-Control");
    ngx_str_t  value = ngx_string("no-store");
    ngx_uint_t prometheus;
    chat_buf_t text;

    if (!(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    ngx_memzero(&text, sizeof(text));
    prometheus = ngx_chat_status_wants_text(r);

    if (ngx_chat_status_text(r, prometheus, &text) != NGX_OK
        || ngx_chat_answer_add_header(r, key, value) != NGX_OK)
    {
        chat_buf_free(&text);
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    return ngx_chat_answer_text(r, NGX_HTTP_OK,
                                prometheus ? "text/plain; version=0.0.4; "
                                             "charset=utf-8"
                                           : "application/json",
                                &text);
}


char *
ngx_chat_conf_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    (void) cmd;
    (void) conf;

    ngx_chat_endpoint_set(cf, ngx_chat_status_handler)->status = 1;
    return NGX_CONF_OK;
}
