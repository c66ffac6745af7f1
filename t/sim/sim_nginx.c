/*
 * sim_nginx.c: what the module calls of NGINX, and of the files of the module
 * that are not simulated.
 *
 * Memory, timers, posted events, the end of a request and the hand-over to
 * the content handler do what NGINX does. A function that no schedule may
 * reach ends the program.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include <stdlib.h>

#include "sim.h"
#include "endpoint/ngx_chat_endpoint.h"
#include "metrics/ngx_chat_metrics.h"
#include "record/ngx_chat_follow.h"
#include "record/ngx_chat_index.h"

ngx_module_t          ngx_chat_module;
ngx_module_t          ngx_core_module;
ngx_module_t          ngx_http_core_module;
ngx_queue_t           ngx_posted_next_events;
ngx_uint_t            ngx_http_max_module = 1;
ngx_uint_t            ngx_exiting;
volatile ngx_msec_t   ngx_current_msec;
volatile ngx_time_t  *ngx_cached_time;
volatile ngx_cycle_t *ngx_cycle;
ngx_rbtree_t          ngx_event_timer_rbtree;
ngx_queue_t           ngx_posted_events;
ngx_uint_t            ngx_event_flags;
ngx_uint_t            ngx_use_epoll_rdhup;
uint32_t              ngx_crc32_table256[256];

static ngx_time_t      now;
static ngx_cycle_t     cycle;
static ngx_log_t       no_log;
static ngx_core_conf_t core_conf;
static void           *core_confs[1];
static void         ***conf_ctx = (void ***) core_confs;

static ngx_http_core_loc_conf_t results; /* the location of chat_results */

static ngx_http_upstream_conf_t proxy_conf;
static ngx_module_t             proxy = { .name = "ngx_http_proxy_module",
                                          .ctx_index = 1 };
static ngx_module_t            *modules[] = { &proxy, NULL };


void
sim_clock(uint64_t ms)
{
    now.sec = (time_t) (ms / 1000);
    now.msec = ms % 1000;
    ngx_cached_time = &now;
    ngx_current_msec = (ngx_msec_t) (ms - sim.start + 1000);
}


/* The directive chat_results sets the content handler of its location. */
static void
set_results(void)
{
    static ngx_chat_loc_conf_t  conf;
    static ngx_chat_main_conf_t main_conf;
    static ngx_conf_file_t      file;
    static ngx_command_t        command;
    static void                *locs[] = { &conf, &results };
    static void                *mains[] = { &main_conf, NULL };
    static ngx_http_conf_ctx_t  ctx = { mains, NULL, locs };
    ngx_conf_t                  cf;

    ngx_memzero(&cf, sizeof(cf));
    ngx_http_core_module.ctx_index = 1;
    cf.ctx = &ctx;
    cf.conf_file = &file;
    cf.pool = cycle.pool;
    conf.endpoint = NULL;
    (void) ngx_chat_conf_results(&cf, &command, &conf);
}


void
sim_nginx_begin(void)
{
    core_conf.shutdown_timeout = 10000;
    core_confs[0] = &core_conf;
    cycle.conf_ctx = (void ****) conf_ctx;
    cycle.log = &no_log;
    cycle.modules = modules;
    proxy_conf.read_timeout = SIM_UPSTREAM_LONGEST;
    cycle.pool = ngx_create_pool(0, NULL);
    set_results();
    ngx_cycle = &cycle;
    ngx_exiting = 0;
    ngx_queue_init(&ngx_posted_events);
}


void
sim_nginx_end(void)
{
    ngx_destroy_pool(cycle.pool);
}


void
sim_posted(void)
{
    ngx_queue_t *q;
    ngx_event_t *ev;

    while (!ngx_queue_empty(&ngx_posted_events)) {
        q = ngx_queue_head(&ngx_posted_events);
        ev = ngx_queue_data(q, ngx_event_t, queue);
        ngx_delete_posted_event(ev);

        if (!sim.current->dead) {
            ev->handler(ev);
        }
    }
}


/* A tree without colours: it is small. */

void
ngx_rbtree_insert_value(ngx_rbtree_node_t *root, ngx_rbtree_node_t *node,
                        ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_node_t **p;

    for (;;) {
        p = (ngx_rbtree_key_int_t) (node->key - root->key) < 0 ? &root->left
                                                               : &root->right;
        if (*p == sentinel) {
            break;
        }
        root = *p;
    }

    *p = node;
    node->parent = root;
    node->left = sentinel;
    node->right = sentinel;
}


void
ngx_str_rbtree_insert_value(ngx_rbtree_node_t *root, ngx_rbtree_node_t *node,
                            ngx_rbtree_node_t *sentinel)
{
    ngx_rbtree_insert_value(root, node, sentinel);
}


ngx_str_node_t *
ngx_str_rbtree_lookup(ngx_rbtree_t *tree, ngx_str_t *text, uint32_t hash)
{
    ngx_str_node_t    *found;
    ngx_rbtree_node_t *node = tree->root;

    while (node != tree->sentinel) {
        found = (ngx_str_node_t *) node;

        if (node->key == hash && found->str.len == text->len
            && ngx_memcmp(found->str.data, text->data, text->len) == 0)
        {
            return found;
        }

        node = hash < node->key ? node->left : node->right;
    }

    return NULL;
}


void
ngx_rbtree_insert(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    if (tree->root == tree->sentinel) {
        node->parent = NULL;
        node->left = tree->sentinel;
        node->right = tree->sentinel;
        tree->root = node;
        return;
    }

    tree->insert(tree->root, node, tree->sentinel);
}


static void
put_in_place(ngx_rbtree_t *tree, ngx_rbtree_node_t *node,
             ngx_rbtree_node_t *other)
{
    if (node->parent == NULL) {
        tree->root = other;
    } else if (node->parent->left == node) {
        node->parent->left = other;
    } else {
        node->parent->right = other;
    }

    if (other != tree->sentinel) {
        other->parent = node->parent;
    }
}


void
ngx_rbtree_delete(ngx_rbtree_t *tree, ngx_rbtree_node_t *node)
{
    ngx_rbtree_node_t *next;

    if (node->left == tree->sentinel) {
        put_in_place(tree, node, node->right);
        return;
    }

    if (node->right == tree->sentinel) {
        put_in_place(tree, node, node->left);
        return;
    }

    next = ngx_rbtree_min(node->right, tree->sentinel);
    if (next->parent != node) {
        put_in_place(tree, next, next->right);
        next->right = node->right;
        next->right->parent = next;
    }

    put_in_place(tree, node, next);
    next->left = node->left;
    next->left->parent = next;
}


ngx_msec_t
sim_first_timer(sim_worker_t *worker, ngx_event_t **event)
{
    ngx_rbtree_node_t *node = worker->timers.root;

    if (node == worker->timers.sentinel) {
        *event = NULL;
        return 0;
    }

    node = ngx_rbtree_min(node, worker->timers.sentinel);
    *event = ngx_rbtree_data(node, ngx_event_t, timer);
    return node->key;
}


/* Memory. */

typedef struct block_s {
    struct block_s *next;
    void           *padding;
} block_t;


void *
ngx_alloc(size_t size, ngx_log_t *log)
{
    return malloc(size);
}


void *
ngx_calloc(size_t size, ngx_log_t *log)
{
    return calloc(1, size);
}


ngx_pool_t *
ngx_create_pool(size_t size, ngx_log_t *log)
{
    return calloc(1, sizeof(ngx_pool_t));
}


void
ngx_destroy_pool(ngx_pool_t *pool)
{
    block_t            *block, *next;
    ngx_pool_cleanup_t *cln;

    for (cln = pool->cleanup; cln != NULL; cln = cln->next) {
        cln->handler(cln->data);
    }

    for (block = (block_t *) pool->large; block != NULL; block = next) {
        next = block->next;
        free(block);
    }

    free(pool);
}


void *
ngx_palloc(ngx_pool_t *pool, size_t size)
{
    block_t *block = malloc(sizeof(block_t) + size);

    block->next = (block_t *) pool->large;
    pool->large = (ngx_pool_large_t *) block;
    return block + 1;
}


void *
ngx_pnalloc(ngx_pool_t *pool, size_t size)
{
    return ngx_palloc(pool, size);
}


void *
ngx_pmemalign(ngx_pool_t *pool, size_t size, size_t alignment)
{
    return ngx_palloc(pool, size);
}


void *
ngx_pcalloc(ngx_pool_t *pool, size_t size)
{
    return memset(ngx_palloc(pool, size), 0, size);
}


ngx_pool_cleanup_t *
ngx_pool_cleanup_add(ngx_pool_t *pool, size_t size)
{
    ngx_pool_cleanup_t *cln = ngx_pcalloc(pool, sizeof(*cln));

    cln->next = pool->cleanup;
    pool->cleanup = cln;
    return cln;
}


ngx_http_cleanup_t *
ngx_http_cleanup_add(ngx_http_request_t *r, size_t size)
{
    ngx_http_cleanup_t *cln = ngx_pcalloc(r->pool, sizeof(*cln));

    cln->next = r->cleanup;
    r->cleanup = cln;
    return cln;
}


ngx_buf_t *
ngx_create_temp_buf(ngx_pool_t *pool, size_t size)
{
    ngx_buf_t *b = ngx_pcalloc(pool, sizeof(*b));

    b->start = ngx_palloc(pool, size);
    b->pos = b->start;
    b->last = b->start;
    b->end = b->start + size;
    b->temporary = 1;
    return b;
}


ngx_chain_t *
ngx_alloc_chain_link(ngx_pool_t *pool)
{
    return ngx_palloc(pool, sizeof(ngx_chain_t));
}


void *
ngx_list_push(ngx_list_t *list)
{
    return ngx_pcalloc(list->pool, list->size);
}


ngx_uint_t
ngx_hash_key(u_char *data, size_t len)
{
    return len; /* only the proxy module looks a header up by it */
}


/* Text: the formats that the module uses here. */

static u_char *
format(u_char *p, u_char *end, const char *f, va_list args)
{
    char        text[24];
    size_t      len;
    ngx_str_t  *v;
    const char *s;

    for (; *f != '\0' && p < end; f++) {
        if (*f != '%') {
            *p++ = (u_char) *f;
            continue;
        }

        f++;
        s = text;

        if (*f == 'V') {
            v = va_arg(args, ngx_str_t *);
            s = (const char *) v->data;
            len = v->len;

        } else if (*f == '*') {
            len = va_arg(args, size_t);
            s = va_arg(args, const char *);
            f++;

        } else if (*f == 's') {
            s = va_arg(args, const char *);
            len = strlen(s);

        } else if (*f == 'Z') {
            text[0] = '\0';
            len = 1;

        } else if (*f == 'u' && f[1] == 'D') {
            len = (size_t) sprintf(text, "%u", va_arg(args, uint32_t));
            f++;

        } else if (*f == 'O') {
            len = (size_t) sprintf(text, "%ld", (long) va_arg(args, off_t));

        } else {
            len = (size_t) sprintf(text, "%lu", va_arg(args, unsigned long));
            f++;
        }

        len = ngx_min(len, (size_t) (end - p));
        memcpy(p, s, len);
        p += len;
    }

    return p;
}


u_char *
ngx_sprintf(u_char *buf, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    buf = format(buf, (u_char *) -1, fmt, args);
    va_end(args);
    return buf;
}


u_char *
ngx_snprintf(u_char *buf, size_t max, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    buf = format(buf, buf + max, fmt, args);
    va_end(args);
    return buf;
}


ngx_int_t
ngx_strncasecmp(u_char *s1, u_char *s2, size_t n)
{
    return strncasecmp((char *) s1, (char *) s2, n);
}


/* Requests. */

void
sim_request_open(sim_request_t *request)
{
    static void                 *confs[2];
    ngx_http_request_t          *r = &request->r;
    static ngx_http_connection_t http_connection;

    request->log.data = &request->log_ctx;
    request->connection.log = &request->log;
    request->connection.read = &request->read;
    request->connection.write = &request->write;
    request->read.log = &request->log;
    request->write.log = &request->log;

    request->buf.pos = (u_char *) request->text.data;
    request->buf.last = request->buf.pos + request->text.len;
    request->buf.memory = 1;
    request->buf.last_buf = 1;
    request->chain.buf = &request->buf;
    request->request_body.bufs = &request->chain;

    confs[0] = &sim.conf;
    confs[1] = &proxy_conf;
    r->connection = &request->connection;
    r->http_connection = &http_connection;
    r->main = r;
    r->count = 1;
    r->ctx = request->contexts;
    r->main_conf = request->worker->main_conf;
    r->loc_conf = confs;
    r->pool = ngx_create_pool(0, NULL);
    r->request_body = &request->request_body;
    r->headers_in.content_length_n = (off_t) request->text.len;
    r->headers_in.headers.pool = r->pool;
    r->headers_in.headers.size = sizeof(ngx_table_elt_t);
    r->headers_in.headers.last = &r->headers_in.headers.part;
    r->headers_out.headers.pool = r->pool;
    r->headers_out.headers.size = sizeof(ngx_table_elt_t);
    r->headers_out.headers.last = &r->headers_out.headers.part;
    ngx_str_set(&r->method_name, "POST");
    r->uri.data = (u_char *) sim_uri();
    r->uri.len = strlen(sim_uri());
    ngx_str_set(&r->args, "alt=sse"); /* of Gemini */
}


void
sim_external(sim_request_t *request)
{
    static ngx_table_elt_t type;
    ngx_http_request_t    *r = &request->r;

    ngx_str_set(&type.value, "application/json");
    r->method = NGX_HTTP_POST;
    r->headers_in.content_type = &type;

    if (results.handler(r) != NGX_DONE) {
        sim_violated("model", "external results are not read");
    }
}


/* The body has been read: on_body() may free the request. */
ngx_int_t
ngx_http_read_client_request_body(ngx_http_request_t             *r,
                                  ngx_http_client_body_handler_pt on_body)
{
    sim_request_of(r)->ctx = ngx_chat_get_ctx(r);
    on_body(r);
    return NGX_OK;
}


void
sim_request_free(sim_request_t *request)
{
    ngx_http_cleanup_t *cln;
    ngx_http_request_t *r = &request->r;

    if (request->phase == SIM_OVER) {
        return;
    }

    sim_name_request(request);
    request->phase = SIM_OVER;

    for (cln = r->cleanup; cln != NULL; cln = cln->next) {
        cln->handler(cln->data);
    }

    ngx_destroy_pool(r->pool);
    r->pool = NULL;
    request->ctx = NULL;
}


void
ngx_http_finalize_request(ngx_http_request_t *r, ngx_int_t rc)
{
    sim_replied(sim_request_of(r), rc);
}


void
ngx_http_core_run_phases(ngx_http_request_t *r)
{
    sim_handed_over(sim_request_of(r));
}


ngx_int_t
ngx_http_send_header(ngx_http_request_t *r)
{
    r->header_sent = 1;
    return NGX_OK;
}


ngx_int_t
ngx_http_output_filter(ngx_http_request_t *r, ngx_chain_t *chain)
{
    return NGX_OK;
}


ngx_int_t
ngx_http_complex_value(ngx_http_request_t *r, ngx_http_complex_value_t *val,
                       ngx_str_t *value)
{
    ngx_str_set(value, SIM_USER);
    return NGX_OK;
}


void
ngx_http_run_posted_requests(ngx_connection_t *c)
{
}


void
ngx_http_test_reading(ngx_http_request_t *r)
{
}


void
ngx_http_block_reading(ngx_http_request_t *r)
{
}


void
ngx_http_request_empty_handler(ngx_http_request_t *r)
{
}


/* Files of the module that are not simulated. */

ngx_uint_t
ngx_chat_index_begin(ngx_chat_ctx_t *ctx)
{
    return 0;
}


void
ngx_chat_index_hold(ngx_chat_ctx_t *ctx)
{
}


void
ngx_chat_index_over(ngx_chat_ctx_t *ctx)
{
}


void
ngx_chat_orphan_hook(ngx_chat_ctx_t *ctx)
{
}


ngx_uint_t
ngx_chat_upstream_unsent(ngx_chat_ctx_t *ctx)
{
    return (ngx_uint_t) sim_request_of(ctx->request)->unsent;
}


uint64_t
ngx_chat_metrics_clock(void)
{
    return sim.now * 1000;
}


void
ngx_chat_metrics_request(ngx_chat_ctx_t *ctx)
{
}


void
ngx_chat_metrics_turn(ngx_chat_ctx_t *ctx, chat_end_e end)
{
}


void
ngx_chat_metrics_verdict(ngx_chat_ctx_t *ctx)
{
}


void
ngx_chat_metrics_external(ngx_chat_ctx_t             *ctx,
                          const chat_external_item_t *items, size_t n)
{
}


void
ngx_chat_metrics_asked(ngx_chat_ctx_t *ctx)
{
}


void
ngx_chat_metrics_merged(ngx_chat_ctx_t *ctx, size_t n)
{
}


void
ngx_chat_metrics_held(ngx_chat_ctx_t *ctx)
{
}


void
ngx_chat_metrics_unheld(ngx_chat_ctx_t *ctx)
{
}


void
ngx_chat_metrics_list(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
}


void
ngx_chat_metrics_unlist(ngx_chat_ctx_t *ctx)
{
}
