/*
 * ngx_chat_status.c: see ngx_chat_status.h.
 *
 * The answer is made of what lies in shared memory: no lock but a short one
 * for what other nodes have told, no question to the store. Each second a
 * worker notes what it knows of its store; every other second one worker of a
 * node, whichever is first, exchanges the node's numbers with the others.
 * Must not know: how the numbers came about.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "endpoint/ngx_chat_content.h"
#include "metrics/ngx_chat_metrics.h"
#include "store/redis/ngx_chat_redis_nodes.h"
#include "endpoint/ngx_chat_status.h"

#define NGX_CHAT_STATUS_TICK 1000 /* ms */
#define NGX_CHAT_STATUS_TELL 2000
#define NGX_CHAT_STATUS_FRESH 15000 /* what the others told is forgotten */

/* Of this worker. */
static ngx_chat_redis_nodes_t ngx_chat_status_others;


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
    chat_node_t   *node;
    chat_status_t *status;

    status = ngx_pcalloc(pool, sizeof(chat_status_t));
    node = ngx_pcalloc(pool, CHAT_STATUS_NODES * sizeof(chat_node_t));
    if (status == NULL || node == NULL) {
        return NULL;
    }

    ngx_chat_status_note(mcf);
    ngx_chat_status_sum(mcf->metrics, status);

    status->version = chat_cstr(NGX_CHAT_VERSION);
    status->nginx = chat_cstr(NGINX_VERSION);
    status->time = ngx_chat_now();
    status->store = mcf->redis ? "redis" : "shm";
    status->nodes = node;
    status->nnodes = 1;

    if (mcf->zone != NULL) {
        ngx_chat_status_zone(mcf->zone, status);
    }

    node->len = (unsigned char) mcf->metrics->sh->name_len;
    ngx_memcpy(node->name, mcf->metrics->sh->name, node->len);
    node->state = chat_status_store(&status->metrics);
    node->workers = (uint32_t) status->metrics.workers;
    node->holds = status->metrics.holds;
    return status;
}


/* Adds what the other nodes have told lately. */
static void
ngx_chat_status_add_others(ngx_chat_metrics_t *metrics, chat_status_t *status)
{
    ngx_uint_t                i;
    ngx_chat_metrics_nodes_t *nodes = &metrics->sh->nodes;

    ngx_shmtx_lock(&metrics->shpool->mutex);

    if (nodes->count != 0
        && ngx_current_msec - nodes->heard < NGX_CHAT_STATUS_FRESH)
    {
        chat_metrics_add(&status->metrics, &nodes->sum);

        for (i = 0; i < nodes->count && i < CHAT_STATUS_NODES - 1; i++) {
            status->nodes[status->nnodes++] = nodes->list[i];
            status->oldest = ngx_max(status->oldest, nodes->list[i].oldest);
        }
    }

    ngx_shmtx_unlock(&metrics->shpool->mutex);
}


static void
ngx_chat_status_heard(void *data, const chat_str_t *texts, size_t n)
{
    size_t                   i;
    chat_arena_t            *arena;
    chat_metrics_t           one;
    ngx_chat_metrics_t      *metrics = data;
    ngx_chat_metrics_nodes_t nodes;

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return;
    }

    ngx_memzero(&nodes, sizeof(nodes));
    nodes.heard = ngx_current_msec;

    for (i = 0; i < n && nodes.count < CHAT_STATUS_NODES - 1; i++) {
        chat_arena_reset(arena);

        if (chat_status_read(texts[i], arena, &one, &nodes.list[nodes.count])
            == CHAT_OK)
        {
            nodes.count++;
            chat_metrics_add(&nodes.sum, &one);
        }
    }

    chat_arena_destroy(arena);

    ngx_shmtx_lock(&metrics->shpool->mutex);
    metrics->sh->nodes = nodes;
    ngx_shmtx_unlock(&metrics->shpool->mutex);
}


/* Tells the other nodes of this one. */
static void
ngx_chat_status_tell(ngx_chat_main_conf_t *mcf, ngx_log_t *log)
{
    chat_buf_t     text;
    ngx_pool_t    *pool;
    chat_status_t *status;

    pool = ngx_create_pool(4096, log);
    if (pool == NULL) {
        return;
    }

    ngx_memzero(&text, sizeof(text));
    status = ngx_chat_status_node(mcf, pool);

    if (status != NULL) {
        chat_status_json(status, &text);

        if (!text.failed) {
            ngx_chat_redis_nodes_tell(&ngx_chat_status_others,
                                      chat_buf_str(&text));
        }
    }

    chat_buf_free(&text);
    ngx_destroy_pool(pool);
}


static void
ngx_chat_status_tick(ngx_event_t *ev)
{
    ngx_atomic_uint_t     last;
    ngx_chat_main_conf_t *mcf = ev->data;
    ngx_atomic_t         *published = &mcf->metrics->sh->published;

    ngx_add_timer(ev, NGX_CHAT_STATUS_TICK);
    ngx_chat_status_note(mcf);

    if (mcf->store == NULL || mcf->store->state != CHAT_STORE_UP) {
        return;
    }

    ngx_chat_metrics_relist(mcf);

    if (mcf->redis == NULL) {
        return;
    }

    last = *published;

    if (ngx_current_msec - last >= NGX_CHAT_STATUS_TELL
        && ngx_atomic_cmp_set(published, last, ngx_current_msec))
    {
        ngx_chat_status_tell(mcf, ev->log);
    }
}


void
ngx_chat_status_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle)
{
    ngx_chat_redis_nodes_t *others = &ngx_chat_status_others;

    ngx_chat_status_note(mcf);

    if (!mcf->status) {
        return;
    }

    ngx_memzero(others, sizeof(*others));
    others->store = mcf->store;
    others->name =
        chat_str(mcf->metrics->sh->name, mcf->metrics->sh->name_len);
    others->data = mcf->metrics;
    others->heard = ngx_chat_status_heard;

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
    chat_str_t              format = ngx_chat_content_arg(r, "format");
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
        return out->failed ? NGX_ERROR : NGX_OK;
    }

    status->batches =
        ngx_palloc(r->pool, CHAT_STATUS_BATCHES * sizeof(chat_held_t));
    status->events =
        ngx_palloc(r->pool, CHAT_STATUS_EVENTS * sizeof(chat_happening_t));
    if (status->batches == NULL || status->events == NULL) {
        return NGX_ERROR;
    }

    if (!chat_str_is(ngx_chat_content_arg(r, "scope"), "node")) {
        ngx_chat_status_add_others(mcf->metrics, status);
    }

    ngx_chat_metrics_batches(mcf->metrics, status);
    ngx_chat_metrics_events(mcf->metrics, status);
    chat_status_json(status, out);
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

    ngx_chat_content_set(cf, ngx_chat_status_handler)->status = 1;
    return NGX_CONF_OK;
}
