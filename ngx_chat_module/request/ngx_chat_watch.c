/*
 * ngx_chat_watch.c: requests that wait keep looking at their batch.
 *
 * Those of one worker that wait for the same batch are a group: it watches
 * the batch once, and after a change one look at the store serves them all.
 * Promises: a member may end, or free other members, during a look.
 * Must not know: what the facts of a batch mean.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "metrics/ngx_chat_metrics.h"
#include "store/ngx_chat_ask.h"

struct ngx_chat_group_s {
    ngx_rbtree_node_t     node; /* key: the beginning of the batch's name */
    ngx_chat_main_conf_t *main;
    chat_key_t            key;
    chat_store_watch_t    watch;
    chat_store_op_t       op;
    uint32_t              ttl;     /* seconds */
    uint64_t              asked;   /* when, us */
    ngx_queue_t           members; /* contexts */
    ngx_uint_t            count;
    unsigned              again : 1; /* something changed while asking */
    unsigned              busy : 1;  /* its members are being told */
};


static void ngx_chat_group_look(ngx_chat_group_t *group);


void
ngx_chat_watch_init(ngx_chat_main_conf_t *mcf)
{
    ngx_rbtree_init(&mcf->groups, &mcf->groups_sentinel,
                    ngx_rbtree_insert_value);
}


static ngx_rbtree_key_t
ngx_chat_group_key(const chat_key_t *key)
{
    ngx_rbtree_key_t prefix;

    ngx_memcpy(&prefix, key->name.bytes, sizeof(prefix));
    return prefix;
}


static ngx_chat_group_t *
ngx_chat_group_find(ngx_chat_main_conf_t *mcf, const chat_key_t *key)
{
    ngx_rbtree_key_t   prefix = ngx_chat_group_key(key);
    ngx_rbtree_node_t *node = mcf->groups.root;

    while (node != mcf->groups.sentinel) {
        if (prefix == node->key
            && chat_digest_eq(&((ngx_chat_group_t *) node)->key.name,
                              &key->name))
        {
            return (ngx_chat_group_t *) node;
        }

        node = prefix < node->key ? node->left : node->right;
    }

    return NULL;
}


static void
ngx_chat_group_notify(chat_store_watch_t *watch)
{
    ngx_chat_group_look(watch->data);
}


/* Puts the request into the group of its batch; NGX_ERROR: no memory. */
static ngx_int_t
ngx_chat_group_enter(ngx_chat_ctx_t *ctx)
{
    ngx_chat_group_t *group =
        ngx_chat_group_find(ctx->main, &ctx->barrier.q.key);

    if (group == NULL) {
        group = ngx_calloc(sizeof(*group), ctx->request->connection->log);
        if (group == NULL) {
            return NGX_ERROR;
        }

        group->main = ctx->main;
        group->key = ctx->barrier.q.key;
        group->ttl = (uint32_t) ctx->conf->ttl;
        group->node.key = ngx_chat_group_key(&ctx->barrier.q.key);
        group->watch.notify = ngx_chat_group_notify;
        group->watch.data = group;
        ngx_queue_init(&group->members);
        ngx_rbtree_insert(&ctx->main->groups, &group->node);
    }

    group->count++;
    ngx_queue_insert_tail(&group->members, &ctx->barrier.mates);
    ctx->barrier.group = group;
    return NGX_OK;
}


/* No request is left in the group, or its watch failed with a member's. */
static void
ngx_chat_group_settle(ngx_chat_group_t *group)
{
    chat_store_t *store = group->main->store;

    if (group->busy) {
        return;
    }

    if (group->count == 0) {
        store->cancel(&group->op);
        store->unwatch(&group->watch);
        ngx_rbtree_delete(&group->main->groups, &group->node);
        ngx_free(group);

    } else if (group->again || group->watch.store == NULL) {
        ngx_chat_group_look(group);
    }
}


static void
ngx_chat_group_leave(ngx_chat_ctx_t *ctx)
{
    ngx_chat_group_t *group = ctx->barrier.group;

    if (group == NULL) {
        return;
    }

    ctx->barrier.group = NULL;
    ngx_queue_remove(&ctx->barrier.mates);
    group->count--;
    ngx_chat_group_settle(group);
}


/* Tells each member what the look has shown. */
static void
ngx_chat_group_tell(ngx_chat_group_t *group, chat_rc_e rc,
                    const chat_batch_t *batch)
{
    ngx_queue_t       due, *q;
    ngx_chat_ctx_t   *ctx;
    ngx_connection_t *c;

    if (ngx_queue_empty(&group->members)) {
        return;
    }

    ngx_queue_init(&due);
    ngx_queue_add(&due, &group->members);
    ngx_queue_init(&group->members);

    while (!ngx_queue_empty(&due)) {
        q = ngx_queue_head(&due);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&group->members, q);
        ctx = ngx_queue_data(q, ngx_chat_ctx_t, barrier.mates);

        if (ngx_chat_ask_is_due(&ctx->barrier.ask)) {
            ctx->barrier.again = 1; /* it has asked something itself */
            continue;
        }

        ctx->barrier.again = 0;
        ctx->barrier.asked = group->asked;
        c = ctx->request->connection;
        ngx_http_set_log_request(c->log, ctx->request);
        ngx_chat_gate_looked(ctx, rc, batch);
        ngx_http_run_posted_requests(c);
    }
}


static void
ngx_chat_group_done(chat_store_op_t *op, chat_rc_e rc,
                    const chat_fact_t *facts, size_t n)
{
    chat_batch_t      batch;
    chat_arena_t     *scratch = NULL;
    ngx_chat_group_t *group = op->data;

    if (rc == CHAT_OK) {
        scratch = chat_arena_create(0);
        rc = scratch != NULL ? chat_batch_read(facts, n, scratch, &batch)
                             : CHAT_ERROR;
    }

    group->busy = 1;
    ngx_chat_group_tell(group, rc, &batch);
    group->busy = 0;

    chat_arena_destroy(scratch);
    ngx_chat_group_settle(group);
}


static void
ngx_chat_group_look(ngx_chat_group_t *group)
{
    chat_store_t *store = group->main->store;

    if (group->op.store != NULL || group->busy) {
        group->again = 1;
        return;
    }

    group->again = 0;
    group->asked = ngx_chat_metrics_clock();
    group->op.done = ngx_chat_group_done;
    group->op.data = group;

    if (group->watch.store == NULL) {
        store->watch(store, &group->watch, &group->op, &group->key, NULL, 0,
                     group->ttl);
    } else {
        store->join(store, &group->op, &group->key, NULL, 0, group->ttl);
    }
}


void
ngx_chat_watch_look(ngx_chat_ctx_t *ctx)
{
    if (ngx_chat_ask_is_due(&ctx->barrier.ask)) {
        ctx->barrier.again = 1;

    } else if (ctx->barrier.group != NULL) {
        ngx_chat_group_look(ctx->barrier.group);
    }
}


ngx_uint_t
ngx_chat_watch_mates(ngx_chat_ctx_t *ctx)
{
    ngx_chat_group_t *group =
        ngx_chat_group_find(ctx->main, &ctx->barrier.q.key);

    return group != NULL ? group->count : 0;
}


ngx_int_t
ngx_chat_watch_begin(ngx_chat_ctx_t *ctx, const chat_facts_t *facts)
{
    ngx_chat_group_t *group;

    if (ctx->barrier.group == NULL && ngx_chat_group_enter(ctx) != NGX_OK) {
        return NGX_ERROR;
    }

    group = ctx->barrier.group;
    ctx->barrier.watching = 1;

    if (group->watch.store == NULL || ctx->barrier.rejoined) {
        ngx_chat_gate_waits(ctx);
        ngx_chat_ask_watch(ctx, &ctx->barrier.ask, &group->watch, &group->key,
                           facts, ngx_chat_gate_done);
    } else {
        ngx_chat_gate_look(ctx, facts);
    }

    return NGX_OK;
}


void
ngx_chat_watch_end(ngx_chat_ctx_t *ctx)
{
    size_t        i;
    chat_store_t *store = ctx->main->store;

    if (store == NULL) {
        return;
    }

    ngx_chat_ask_cancel(&ctx->barrier.ask);
    ngx_chat_quota_leave(ctx);
    ngx_chat_group_leave(ctx);

    if (ctx->wait.timer.timer_set && !ctx->wait.held) {
        ngx_del_timer(&ctx->wait.timer);
    }

    for (i = 0; i < ctx->payloads.count; i++) {
        ngx_chat_ask_cancel(&ctx->payloads.items[i].ask);
    }

    ctx->payloads.count = 0;
    ctx->payloads.due = 0;
}
