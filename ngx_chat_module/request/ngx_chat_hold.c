/*
 * ngx_chat_hold.c: requests that wait.
 *
 * A waiting request costs its memory and one timer: silent for the grace, then
 * a comment with each heartbeat; at its bound it reports a timeout.
 * Requests of one worker that wait for the same batch are a group: it watches
 * the batch once, and after a change one look at the store serves them all.
 * The timer is never cancelable, so that an exiting worker does not drop its
 * clients; a watchdog shortens the bounds when the worker is to exit.
 * A tenant's share is a quarter of the limits held= and held_bytes=. It may
 * have more while no other tenant needs it; then its oldest requests end.
 * Promises: a member may end, or free other members, during a look.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_nginx_internals.h"
#include "base/ngx_chat_share.h"
#include "metrics/ngx_chat_metrics.h"
#include "record/ngx_chat_index.h"
#include "request/ngx_chat_request.h"
#include "store/ngx_chat_ask.h"
#include "store/ngx_chat_store.h"

#define NGX_CHAT_HOLD_SHORTEST 500 /* ms, of a one-by-one client */
#define NGX_CHAT_HOLD_LONGEST 5000
#define NGX_CHAT_HOLD_STREAM 300000 /* ms, of others */
#define NGX_CHAT_HOLD_JSON 30000
#define NGX_CHAT_HOLD_EXITING 60000
#define NGX_CHAT_WATCH_EXIT 500
#define NGX_CHAT_HOLD_ASKING 20  /* ms: the store will have answered */
#define NGX_CHAT_HOLD_HEAD 15000 /* ms: a reader of errors ends before */
#define NGX_CHAT_QUOTA_SHARE 4
#define NGX_CHAT_QUOTA_HOLD (11 * 1024) /* bytes, of every hold */

struct ngx_chat_group_s {
    ngx_str_node_t     node; /* in worker->groups, by the name of its key */
    ngx_chat_worker_t *worker;
    chat_key_t         key;
    chat_store_watch_t watch;
    chat_store_watch_t index; /* of the conversation: a full zone keeps it */
    chat_store_op_t    op;
    uint64_t           asked;   /* when, us */
    ngx_queue_t        members; /* contexts */
    ngx_uint_t         count;
    unsigned           again : 1; /* something changed while asking */
    unsigned           busy : 1;  /* its members decide by a look */
};


/* A tenant with requests that wait. */
struct ngx_chat_holder_s {
    ngx_chat_share_t shares[NGX_CHAT_QUOTAS]; /* first */
    ngx_queue_t      holds;                   /* contexts, the oldest first */
};


static void look(chat_store_watch_t *watch);
static void on_timer(ngx_chat_ctx_t *ctx);


static ngx_chat_holder_t *
find_holder(ngx_chat_ctx_t *ctx)
{
    return (ngx_chat_holder_t *) ngx_chat_shares_find(
        ctx->worker->quotas, ctx->barrier.q.key.tenant);
}


/* Adds what the request uses to its tenant's part, or with sign -1 removes. */
static void
charge(ngx_chat_ctx_t *ctx, ngx_int_t sign)
{
    size_t            amount[NGX_CHAT_QUOTAS] = { 1, ctx->wait.weight };
    ngx_uint_t        i;
    ngx_chat_share_t *share = ctx->wait.holder->shares;

    for (i = 0; i < NGX_CHAT_QUOTAS; i++) {
        ngx_chat_shares_set(&ctx->worker->quotas[i], &share[i],
                            share[i].used + (size_t) sign * amount[i]);
    }
}


/* The bytes that the request takes while it waits. */
static size_t
weight_of(ngx_chat_ctx_t *ctx)
{
    size_t       weight = ctx->body.text.len + NGX_CHAT_QUOTA_HOLD;
    ngx_chain_t *cl = ctx->request->http_connection->busy;

    /* the buffers of a long header */
    for (; cl != NULL; cl = cl->next) {
        weight += (size_t) (cl->buf->end - cl->buf->start);
    }

    return weight + chat_arena_used(ctx->kept);
}


static void
enter_quota(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t         i;
    ngx_chat_holder_t *holder = find_holder(ctx);

    if (holder == NULL) {
        holder = ngx_calloc(sizeof(*holder), ctx->request->connection->log);
        if (holder == NULL) {
            return; /* it waits, and is not counted */
        }

        ngx_queue_init(&holder->holds);

        for (i = 0; i < NGX_CHAT_QUOTAS; i++) {
            ngx_chat_shares_insert(&ctx->worker->quotas[i], &holder->shares[i],
                                   ctx->barrier.q.key.tenant);
        }
    }

    ctx->wait.holder = holder;
    ctx->wait.weight = weight_of(ctx);
    ngx_queue_insert_tail(&holder->holds, &ctx->wait.tenant);
    charge(ctx, 1);
}


static void
leave_quota(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t         i;
    ngx_chat_holder_t *holder = ctx->wait.holder;

    if (holder == NULL) {
        return;
    }

    charge(ctx, -1);
    ctx->wait.holder = NULL;
    ngx_queue_remove(&ctx->wait.tenant);

    if (ngx_queue_empty(&holder->holds)) {
        for (i = 0; i < NGX_CHAT_QUOTAS; i++) {
            ngx_chat_shares_remove(&ctx->worker->quotas[i],
                                   &holder->shares[i]);
        }

        ngx_free(holder);
    }
}


/*
 * The oldest request of the tenant that uses most of quota i; NULL: that is
 * within its share, or the request's own.
 */
static ngx_chat_ctx_t *
oldest_of_largest(ngx_chat_ctx_t *ctx, ngx_uint_t i, size_t share)
{
    ngx_chat_share_t *largest =
        ngx_chat_shares_largest(&ctx->worker->quotas[i]);
    ngx_chat_holder_t *holder;

    if (largest == NULL || largest->used <= share
        || largest->node.key == (ngx_rbtree_key_t) ctx->barrier.q.key.tenant)
    {
        return NULL;
    }

    holder = (ngx_chat_holder_t *) (largest - i);
    return ngx_queue_data(ngx_queue_head(&holder->holds), ngx_chat_ctx_t,
                          wait.tenant);
}


static ngx_chat_group_t *
group_find(ngx_chat_worker_t *worker, const chat_key_t *key)
{
    ngx_str_t name = { sizeof(key->name.bytes), (u_char *) key->name.bytes };

    return (ngx_chat_group_t *) ngx_str_rbtree_lookup(
        &worker->groups, &name, (uint32_t) chat_word_at(key->name.bytes));
}


/*
 * Frees an empty group. Looks again if the batch has changed meanwhile, or if
 * the query that should watch it has failed.
 */
static void
group_check(ngx_chat_group_t *group)
{
    chat_store_t *store = group->worker->store;

    if (group->busy) {
        return;
    }

    if (group->count == 0) {
        store->cancel(&group->op);
        store->unwatch(&group->watch);
        store->unwatch(&group->index);
        ngx_rbtree_delete(&group->worker->groups, &group->node.node);
        ngx_free(group);

    } else if (group->again || group->watch.store == NULL) {
        look(&group->watch);
    }
}


/* Passes the batch to each request of the group. */
static void
on_look(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    ngx_queue_t       due, *q;
    chat_batch_t      batch;
    ngx_chat_ctx_t   *ctx;
    ngx_connection_t *c;
    ngx_chat_group_t *group = op->data;

    rc = rc ? rc : chat_batch_read(facts, n, op->arena, &batch);
    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, ngx_cycle->log, 0,
                   "chat wake-up: rc %d, requests %ui", rc, group->count);

    group->busy = 1;
    ngx_queue_init(&due);

    if (!ngx_queue_empty(&group->members)) {
        ngx_queue_add(&due, &group->members);
        ngx_queue_init(&group->members);
    }

    while (!ngx_queue_empty(&due)) {
        q = ngx_queue_head(&due);
        ngx_queue_remove(q);
        ngx_queue_insert_tail(&group->members, q);
        ctx = ngx_queue_data(q, ngx_chat_ctx_t, barrier.mates);

        if (ngx_chat_ask_is_due(&ctx->barrier.ask)) {
            ctx->barrier.again = 1; /* it has a query of its own */
            continue;
        }

        ctx->barrier.again = 0;
        ctx->barrier.asked = group->asked;
        c = ctx->request->connection;
        ngx_http_set_log_request(c->log, ctx->request);
        ngx_chat_decide_looked(ctx, rc, &batch);
        ngx_http_run_posted_requests(c);
    }

    group->busy = 0;
    group_check(group);
}


/* The batch has changed: looks at it, now or after the look under way. */
static void
look(chat_store_watch_t *watch)
{
    ngx_chat_group_t *group = watch->data;
    chat_store_t     *store = group->worker->store;

    if (group->op.store != NULL || group->busy) {
        group->again = 1;
        return;
    }

    group->again = 0;
    group->asked = ngx_chat_metrics_clock();
    group->op.done = on_look;
    group->op.data = group;

    store->join(store, &group->op, &group->key, NULL, 0, group->worker->ttl,
                watch->store == NULL ? watch : NULL);
}


void
ngx_chat_watch_look(ngx_chat_ctx_t *ctx)
{
    if (ngx_chat_ask_is_due(&ctx->barrier.ask)) {
        ctx->barrier.again = 1;

    } else if (ctx->barrier.group != NULL) {
        look(&ctx->barrier.group->watch);
    }
}


/*
 * External results find the batch by the conversation's index: it stays as
 * long as requests wait. What is added to it does not matter.
 */
static void
watch_index(ngx_chat_ctx_t *ctx, ngx_chat_group_t *group)
{
    chat_key_t    key;
    chat_store_t *store = ctx->worker->store;

    if (chat_conversation_index_key(&ctx->scope, &key) == CHAT_OK) {
        store->join(store, NULL, &key, NULL, 0, ctx->worker->ttl,
                    &group->index);
    }
}


ngx_int_t
ngx_chat_watch_begin(ngx_chat_ctx_t *ctx, const chat_facts_t *facts)
{
    chat_key_t       *key = &ctx->barrier.q.key;
    ngx_chat_group_t *group =
        ctx->barrier.group ? ctx->barrier.group : group_find(ctx->worker, key);

    if (group == NULL) {
        group = ngx_calloc(sizeof(*group), ctx->request->connection->log);
        if (group == NULL) {
            return NGX_ERROR;
        }

        group->worker = ctx->worker;
        group->key = *key;
        group->watch.notify = look;
        group->watch.data = group;
        ngx_queue_init(&group->members);
        group->node.str.data = group->key.name.bytes;
        group->node.str.len = sizeof(group->key.name.bytes);
        group->node.node.key = (uint32_t) chat_word_at(key->name.bytes);
        ngx_rbtree_insert(&ctx->worker->groups, &group->node.node);
        watch_index(ctx, group);
    }

    if (ctx->barrier.group == NULL) {
        ctx->barrier.group = group;
        ngx_queue_insert_tail(&group->members, &ctx->barrier.mates);
        group->count++;
    }

    ctx->barrier.watching = 1;

    ngx_chat_decide_look(ctx, facts, NULL,
                         group->watch.store == NULL || ctx->barrier.rejoined
                             ? &group->watch
                             : NULL);
    return NGX_OK;
}


void
ngx_chat_watch_end(ngx_chat_ctx_t *ctx)
{
    ngx_chat_group_t  *group = ctx->barrier.group;
    ngx_chat_lookup_t *lookup;

    if (ctx->worker->store == NULL) {
        return;
    }

    ngx_chat_ask_cancel(&ctx->barrier.ask);
    leave_quota(ctx);

    if (group != NULL) {
        ctx->barrier.group = NULL;
        ngx_queue_remove(&ctx->barrier.mates);
        group->count--;
        group_check(group);
    }

    if (!ctx->wait.held) {
        ngx_chat_event_cancel(&ctx->wait.timer.event);
    }

    for (lookup = ctx->payloads.items; lookup; lookup = lookup->next) {
        ngx_chat_ask_cancel(&lookup->ask);
    }

    ctx->payloads.items = NULL;
    ctx->payloads.due = 0;
}


/* How long the hold of this request may last, ms. */
static ngx_msec_t
hold_bound(ngx_chat_ctx_t *ctx)
{
    uint64_t now = ngx_chat_now(), age;

    if (ctx->conf->hold != NGX_CHAT_HOLD_AUTO) {
        return ctx->conf->hold;
    }

    if (!ctx->dialect->one_by_one) {
        return ctx->body.rq.stream ? NGX_CHAT_HOLD_STREAM : NGX_CHAT_HOLD_JSON;
    }

    /* The client cannot send a late answer of its user before the bounce. */
    age = now > ctx->barrier.since ? now - ctx->barrier.since : 0;
    age = ngx_min(age / 10, NGX_CHAT_HOLD_LONGEST);
    return (ngx_msec_t) ngx_max(age, NGX_CHAT_HOLD_SHORTEST);
}


/* How long a hold may last in a worker that exits, ms. */
static ngx_msec_t
exit_bound(void)
{
    ngx_msec_t timeout = ngx_chat_shutdown_timeout();

    return timeout == 0
               ? NGX_CHAT_HOLD_EXITING
               : ngx_min(ngx_max(timeout, 1000) - 1000, NGX_CHAT_HOLD_EXITING);
}


/* Sets the timer to the bound, or the next comment before it. */
static void
arm(ngx_chat_ctx_t *ctx)
{
    ngx_msec_int_t left;
    ngx_msec_t     next = ctx->response.early || !ctx->body.rq.stream
                              ? ctx->conf->heartbeat
                              : ctx->conf->grace;

    if (ctx->wait.bound != 0) {
        left = (ngx_msec_int_t) (ctx->wait.bound - ngx_current_msec);
        next = left <= 0 ? 1 : ngx_min(next, (ngx_msec_t) left);
    }

    ngx_chat_timer(ctx, &ctx->wait.timer, ngx_max(next, 1), on_timer);
}


/* Ends the hold after bound ms at the latest. */
static void
shorten(ngx_chat_ctx_t *ctx, ngx_msec_t bound)
{
    ngx_msec_t end = ngx_current_msec + bound;

    if (ctx->wait.bound == 0 || (ngx_msec_int_t) (ctx->wait.bound - end) > 0) {
        ctx->wait.bound = end ? end : 1;
        arm(ctx);
    }
}


/* Adds the request to the waiting ones. */
static void
begin(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    ngx_connection_t   *c = r->connection;
    ngx_chat_worker_t  *worker = ctx->worker;

    ctx->wait.held = 1;
    ctx->wait.started = ngx_current_msec;

    ngx_queue_insert_tail(&worker->holds, &ctx->wait.queue);

    if (ctx->barrier.group != NULL) {
        enter_quota(ctx);
    }

    if (worker->held++ == 0 && !worker->watchdog.timer_set) {
        ngx_add_timer(&worker->watchdog, NGX_CHAT_WATCH_EXIT);
    }

    /* otherwise a FIN that came with the body would go unnoticed */
    if (r->stream == NULL && c->read->ready) {
        ngx_post_event(c->read, &ngx_posted_events);
    }

    ngx_chat_metrics_held(ctx);
    ngx_chat_index_hold(ctx);

    /* the body is parsed again when the request goes on */
    ngx_chat_ctx_free_body(ctx);
}


/* Sends the rest of an early answer. */
static void
on_write(ngx_http_request_t *r)
{
    if (r->connection->buffered
        && ngx_http_output_filter(r, NULL) == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
    }
}


void
ngx_chat_hold(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;
    ngx_uint_t          first = !ctx->wait.held;
    ngx_uint_t          bounded = (ngx_uint_t) ctx->act.bounded;
    uint32_t            k = bounded ? 0 : ctx->barrier.decision.k;

    ctx->state = NGX_CHAT_WAITING;
    ctx->reason = bounded ? ctx->act.reason : CHAT_REASON_HELD_SIBLING;
    ctx->wait.found = 0;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = on_write;

    if (first) {
        begin(ctx);
    }

    if (ctx->wait.yields) {
        /* another request has displaced it: its bound stays */

    } else if (ctx->act.action == CHAT_ACT_FOLLOW) {
        ctx->wait.bound = 0;
        shorten(ctx, NGX_CHAT_HOLD_HEAD);

    } else if (first || ctx->wait.bound == 0 || ctx->wait.k != k) {
        ctx->wait.bound = 0;
        shorten(ctx, bounded ? hold_bound(ctx)
                             : ngx_chat_nginx_upstream_longest(r));
    }

    ctx->wait.k = k;

    if (ngx_exiting) {
        shorten(ctx, exit_bound());
    }

    if (first || !ctx->wait.timer.event.timer_set) {
        arm(ctx);
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "chat hold: %s, ends in %M ms (0: with the answer)",
                   chat_reasons[ctx->reason].word,
                   ctx->wait.bound ? ctx->wait.bound - ngx_current_msec : 0);
}


void
ngx_chat_hold_end(ngx_chat_ctx_t *ctx)
{
    ngx_chat_metrics_unlist(ctx);
    leave_quota(ctx);
    ctx->wait.yields = 0;

    if (!ctx->wait.held) {
        return;
    }

    ctx->wait.held = 0;
    ctx->wait.total = ngx_current_msec - ctx->wait.started;
    ngx_queue_remove(&ctx->wait.queue);
    ctx->worker->held--;
    ngx_chat_metrics_unheld(ctx);
    ngx_chat_event_cancel(&ctx->wait.timer.event);
}


static void
on_timer(ngx_chat_ctx_t *ctx)
{
    ngx_int_t rc = NGX_OK;

    if (ctx->wait.bound != 0
        && (ngx_msec_int_t) (ctx->wait.bound - ngx_current_msec) <= 0)
    {
        if (ngx_chat_ask_is_due(&ctx->barrier.ask)
            || ctx->state == NGX_CHAT_ASKING) {
            /* it may have claimed by now: the reply of the store decides */
            ngx_chat_timer(ctx, &ctx->wait.timer, NGX_CHAT_HOLD_ASKING,
                           on_timer);
            return;
        }

        ctx->step(ctx, NGX_CHAT_EVENT_TIMEOUT);
        return;
    }

    arm(ctx);

    if (ctx->response.early) {
        rc = ngx_chat_answer_beat(ctx);

    } else if (ctx->body.rq.stream
               && (ctx->barrier.cors.len != 0
                   || ctx->headers.origin.data == NULL))
    {
        /* a cross-origin page without CORS headers could not read it */
        rc = ngx_chat_answer_early(ctx);
    }

    if (rc == NGX_ERROR) {
        ngx_http_finalize_request(ctx->request, NGX_ERROR);
    }
}


/* Shortens all holds once the worker is to exit. */
static void
on_watchdog(ngx_event_t *ev)
{
    ngx_queue_t       *q;
    ngx_chat_ctx_t    *ctx;
    ngx_chat_worker_t *worker = ev->data;

    if (worker->held == 0) {
        return;
    }

    if (!ngx_exiting) {
        ngx_add_timer(ev, NGX_CHAT_WATCH_EXIT);
        return;
    }

    for (q = ngx_queue_head(&worker->holds);
         q != ngx_queue_sentinel(&worker->holds); q = ngx_queue_next(q))
    {
        ctx = ngx_queue_data(q, ngx_chat_ctx_t, wait.queue);
        shorten(ctx, exit_bound());
    }
}


void
ngx_chat_hold_init(ngx_chat_worker_t *worker, ngx_cycle_t *cycle)
{
    ngx_uint_t i;

    for (i = 0; i < NGX_CHAT_QUOTAS; i++) {
        ngx_chat_shares_init(&worker->quotas[i]);
    }

    ngx_queue_init(&worker->holds);
    ngx_rbtree_init(&worker->groups, &worker->groups_sentinel,
                    ngx_str_rbtree_insert_value);
    ngx_chat_event_set(&worker->watchdog, on_watchdog, worker, cycle->log);
    worker->watchdog.cancelable = 1;
}


ngx_uint_t
ngx_chat_hold_limit(ngx_chat_ctx_t *ctx, chat_reason_e *limit)
{
    size_t                     limits[] = { (size_t) ctx->conf->max_held,
                                            ctx->conf->max_held_bytes };
    size_t                     share, amount[] = { 1, weight_of(ctx) };
    ngx_uint_t                 i = 0;
    ngx_chat_ctx_t            *oldest;
    ngx_chat_shares_t         *quota = ctx->worker->quotas;
    ngx_chat_group_t          *group;
    ngx_chat_holder_t         *own = find_holder(ctx);
    static const chat_reason_e refused[] = {
        CHAT_REASON_REFUSED_HELD_LIMIT, CHAT_REASON_REFUSED_HELD_BYTES_LIMIT
    };
    static const chat_reason_e bounced[] = {
        CHAT_REASON_BOUNCED_HELD_LIMIT, CHAT_REASON_BOUNCED_HELD_BYTES_LIMIT
    };

    /* as many as there may be results, from two tabs each */
    group = group_find(ctx->worker, &ctx->barrier.q.key);
    if (group != NULL && group->count >= 2 * (ngx_uint_t) ctx->conf->max_calls)
    {
        *limit = CHAT_REASON_REFUSED_HELD_BATCH_LIMIT;
        return 1;
    }

    while (i < NGX_CHAT_QUOTAS) {
        if (quota[i].used + amount[i] <= limits[i]) {
            i++;
            continue;
        }

        *limit = refused[i];
        share = ngx_max(limits[i] / NGX_CHAT_QUOTA_SHARE, 1);

        if ((own != NULL ? own->shares[i].used : 0) + amount[i] > share) {
            return 1;
        }

        oldest = oldest_of_largest(ctx, i, share);
        if (oldest == NULL) {
            return 1;
        }

        /* it ends soon as at its bound, and no longer counts */
        oldest->wait.yields = bounced[i];
        leave_quota(oldest);
        shorten(oldest, 0);
    }

    return 0;
}
