/*
 * ngx_chat_feed.c: see ngx_chat_feed.h.
 *
 * Order: watch first, then read, then wait to be notified; so nothing is
 * missed, and positions see to it that nothing comes twice. The producer
 * learns from the facts that somebody follows, and that nobody does any more.
 * A producer that dies, or ends without a last word, is noticed by a timer.
 * Must not know: requests, verdicts.
 */

#include "ngx_chat_feed.h"

#define NGX_CHAT_FEED_TICK 1000 /* ms */
#define NGX_CHAT_FEED_PROBE 5   /* ticks without a piece */


static void ngx_chat_feed_read(ngx_chat_feed_t *feed);
static void ngx_chat_feed_ask(ngx_chat_feed_t *feed);
static void ngx_chat_feed_tick(ngx_event_t *ev);
static void ngx_chat_feed_facts(chat_store_op_t *op, chat_rc_e rc,
                                const chat_fact_t *facts, size_t n);


static void
ngx_chat_feed_wake(ngx_chat_feed_t *feed)
{
    ngx_queue_t         *q;
    ngx_chat_follower_t *follower;

    for (q = ngx_queue_head(&feed->followers);
         q != ngx_queue_sentinel(&feed->followers); q = ngx_queue_next(q))
    {
        follower = ngx_queue_data(q, ngx_chat_follower_t, queue);
        ngx_post_event(&follower->event, &ngx_posted_events);
    }
}


/* Ends all dealings with the store. */
static void
ngx_chat_feed_stop(ngx_chat_feed_t *feed)
{
    chat_store_t *store = feed->main->store;

    store->cancel(&feed->op);
    store->cancel(&feed->probe);
    store->unwatch(&feed->watch);

    if (feed->timer.timer_set) {
        ngx_del_timer(&feed->timer);
    }
}


static void
ngx_chat_feed_done(ngx_chat_feed_t *feed, ngx_chat_feed_state_e state)
{
    feed->state = state;
    ngx_chat_feed_stop(feed);
    ngx_chat_feed_wake(feed);
}


static void
ngx_chat_feed_broken(ngx_chat_feed_t *feed, const char *reason)
{
    feed->reason = reason;
    feed->end = ngx_chat_blocks_break(&feed->blocks, reason);

    /* a stream that has said that it is over needs no other end */
    ngx_chat_feed_done(feed, feed->end == CHAT_END_INTERRUPTED
                                 ? NGX_CHAT_FEED_BROKEN
                                 : NGX_CHAT_FEED_COMPLETE);
}


/* A question came back without an answer. */
static void
ngx_chat_feed_failed(ngx_chat_feed_t *feed, chat_rc_e rc)
{
    if (rc == CHAT_ERROR && feed->main->store->state != CHAT_STORE_AWAY) {
        return; /* it is asked again when the store is there, or with time */
    }

    if (feed->state == NGX_CHAT_FEED_ASKING) {
        ngx_chat_feed_done(feed, NGX_CHAT_FEED_NONE);
    } else {
        ngx_chat_feed_broken(feed, "store_unavailable");
    }
}


/* There is nothing to be read at the moment. */
static void
ngx_chat_feed_empty(ngx_chat_feed_t *feed)
{
    chat_store_t *store = feed->main->store;

    if (feed->again) {
        ngx_chat_feed_read(feed);

    } else if (feed->news) {
        /* a record that lacks something is cleared */
        feed->news = 0;
        feed->op.done = ngx_chat_feed_facts;
        store->join(store, &feed->op, &feed->key, NULL, 0, 0);

    } else if (!feed->blocks.has_head && feed->late
               && feed->attempt.end != CHAT_END_NONE)
    {
        ngx_chat_feed_done(feed, NGX_CHAT_FEED_NONE);

    } else if (feed->final) {
        ngx_chat_feed_broken(feed, feed->over);
    }
}


static void
ngx_chat_feed_pieces(chat_store_op_t *op, chat_rc_e rc,
                     const chat_fact_t *pieces, size_t n)
{
    ngx_int_t        added;
    ngx_chat_feed_t *feed = op->data;

    if (rc != CHAT_OK) {
        ngx_chat_feed_failed(feed, rc);
        return;
    }

    if (n == 0) {
        ngx_chat_feed_empty(feed);
        return;
    }

    feed->silent = 0;
    feed->news = 0;
    added = ngx_chat_blocks_add(&feed->blocks, pieces, n);

    switch (added) {
    case NGX_OK:
        ngx_chat_feed_wake(feed);
        ngx_chat_feed_read(feed);
        return;

    case NGX_DONE:
        feed->end = ngx_chat_blocks_end(&feed->blocks);
        ngx_chat_feed_done(feed, NGX_CHAT_FEED_COMPLETE);
        return;

    default:
        ngx_chat_feed_broken(feed, "incomplete_record");
    }
}


static void
ngx_chat_feed_read(ngx_chat_feed_t *feed)
{
    chat_store_t *store = feed->main->store;

    if (feed->op.store != NULL) {
        feed->again = 1;
        return;
    }

    feed->again = 0;
    feed->final = feed->over != NULL;
    feed->op.done = ngx_chat_feed_pieces;
    store->read(store, &feed->op, &feed->key, feed->blocks.position);
}


static int
ngx_chat_feed_alive(void *data, chat_str_t worker)
{
    chat_store_t *store = data;

    return store->alive(store, worker);
}


/* The facts of the record: is there one? */
static void
ngx_chat_feed_facts(chat_store_op_t *op, chat_rc_e rc,
                    const chat_fact_t *facts, size_t n)
{
    chat_record_t    record;
    ngx_chat_feed_t *feed = op->data;

    if (rc != CHAT_OK) {
        ngx_chat_feed_failed(feed, rc);
        return;
    }

    chat_record_read(facts, n, ngx_chat_feed_alive, feed->main->store,
                     &record);

    if (feed->state == NGX_CHAT_FEED_ASKING
        && (record.cleared || record.mode == CHAT_RECORD_UNKNOWN
            || record.mode == CHAT_RECORD_NONE))
    {
        ngx_chat_feed_done(feed, NGX_CHAT_FEED_NONE);
        return;
    }

    if (record.cleared) {
        ngx_chat_feed_broken(feed, "incomplete_record");
        return;
    }

    feed->state = NGX_CHAT_FEED_RUNNING;
    ngx_chat_feed_read(feed);
}


/* Nothing more comes from a worker that is dead. */
static void
ngx_chat_feed_look(ngx_chat_feed_t *feed)
{
    if (feed->over == NULL
        && !ngx_chat_feed_alive(feed->main->store, feed->attempt.worker))
    {
        feed->over = "producer_lost";
    }
}


static void
ngx_chat_feed_notify(chat_store_watch_t *watch)
{
    ngx_chat_feed_t *feed = watch->data;

    if (feed->state == NGX_CHAT_FEED_ASKING) {
        if (feed->op.store == NULL) {
            ngx_chat_feed_ask(feed);
        }
        return;
    }

    feed->news = 1;
    ngx_chat_feed_look(feed);
    ngx_chat_feed_read(feed);
}


/* Says that this worker follows, and hears of all that is added from now on.
 */
static void
ngx_chat_feed_ask(ngx_chat_feed_t *feed)
{
    chat_arena_t *arena;
    chat_facts_t  facts;
    chat_store_t *store = feed->main->store;

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return; /* once more with the next tick */
    }

    chat_facts_init(&facts, arena);
    if (!feed->late) {
        chat_facts_record(&facts, CHAT_RECORD_WANTED);
    }
    chat_facts_feed(&facts, store->worker, feed->serial);

    if (!facts.failed) {
        store->unwatch(&feed->watch);
        feed->watch.notify = ngx_chat_feed_notify;
        feed->watch.data = feed;
        feed->op.done = ngx_chat_feed_facts;
        feed->op.data = feed;
        store->watch(store, &feed->watch, &feed->op, &feed->key, facts.items,
                     facts.count, (uint32_t) feed->blocks.conf->record_ttl);
    }

    chat_arena_destroy(arena);
}


/* What the batch says of an attempt that has been silent. */
static void
ngx_chat_feed_probed(chat_store_op_t *op, chat_rc_e rc,
                     const chat_fact_t *facts, size_t n)
{
    chat_batch_t     batch;
    chat_arena_t    *arena;
    ngx_chat_feed_t *feed = op->data;

    arena = chat_arena_create(0);

    /* its last pieces may still be on their way: the next tick asks for them
     */
    if (arena != NULL && rc == CHAT_OK
        && chat_batch_read(facts, n, arena, &batch) == CHAT_OK
        && (batch.last.k > feed->attempt.k
            || (batch.last.k == feed->attempt.k
                && batch.last.end != CHAT_END_NONE)))
    {
        feed->over = "eof";
    }

    chat_arena_destroy(arena);
}


static void
ngx_chat_feed_probe(ngx_chat_feed_t *feed)
{
    chat_store_t *store = feed->main->store;

    if (feed->probe.store == NULL) {
        feed->probe.done = ngx_chat_feed_probed;
        feed->probe.data = feed;
        store->join(store, &feed->probe, &feed->batch, NULL, 0, 0);
    }
}


static void
ngx_chat_feed_tick(ngx_event_t *ev)
{
    ngx_chat_feed_t *feed = ev->data;

    ngx_add_timer(ev, NGX_CHAT_FEED_TICK);

    if (feed->state == NGX_CHAT_FEED_ASKING) {
        ngx_chat_feed_notify(&feed->watch);
        return;
    }

    ngx_chat_feed_look(feed);
    feed->silent++;

    if (feed->over != NULL) {
        ngx_chat_feed_read(feed);

    } else if (feed->silent % NGX_CHAT_FEED_PROBE == 0) {
        ngx_chat_feed_read(feed);
        ngx_chat_feed_probe(feed);
    }
}


static ngx_chat_feed_t *
ngx_chat_feed_find(ngx_chat_main_conf_t *mcf, chat_key_t *key)
{
    ngx_str_t name;

    name.data = (u_char *) key;
    name.len = sizeof(*key);

    return (ngx_chat_feed_t *) ngx_str_rbtree_lookup(
        &mcf->feeds, &name, ngx_crc32_short(name.data, name.len));
}


/* A copy of the attempt, whose strings are in the memory behind the feed. */
static void
ngx_chat_feed_attempt(ngx_chat_feed_t *feed, const chat_attempt_t *attempt)
{
    u_char *p = (u_char *) (feed + 1);

    feed->attempt = *attempt;
    feed->attempt.worker = chat_str(p, attempt->worker.len);
    p = ngx_cpymem(p, attempt->worker.data, attempt->worker.len);
    feed->attempt.request = chat_str(p, attempt->request.len);
    ngx_memcpy(p, attempt->request.data, attempt->request.len);
}


static ngx_chat_feed_t *
ngx_chat_feed_create(ngx_chat_ctx_t *ctx, const chat_attempt_t *attempt,
                     const chat_key_t *key, ngx_uint_t late)
{
    ngx_chat_feed_t      *feed;
    ngx_chat_main_conf_t *mcf = ctx->main;

    feed =
        ngx_calloc(sizeof(*feed) + attempt->worker.len + attempt->request.len,
                   ngx_cycle->log);
    if (feed == NULL) {
        return NULL;
    }

    feed->main = mcf;
    feed->key = *key;
    feed->batch = ctx->q.key;
    feed->late = late & 1;
    feed->serial = mcf->serial++;
    feed->blocks.conf = ctx->conf;
    feed->blocks.dialect = ctx->dialect;
    ngx_chat_feed_attempt(feed, attempt);
    ngx_queue_init(&feed->followers);

    feed->node.str.data = (u_char *) &feed->key;
    feed->node.str.len = sizeof(feed->key);
    feed->node.node.key =
        ngx_crc32_short(feed->node.str.data, feed->node.str.len);
    ngx_rbtree_insert(&mcf->feeds, &feed->node.node);

    /* not cancelable: a worker that exits serves those who follow */
    feed->timer.handler = ngx_chat_feed_tick;
    feed->timer.data = feed;
    feed->timer.log = ngx_cycle->log;
    ngx_add_timer(&feed->timer, NGX_CHAT_FEED_TICK);

    ngx_chat_feed_ask(feed);
    return feed;
}


/* Nobody of this worker follows any more. */
static void
ngx_chat_feed_free(ngx_chat_feed_t *feed)
{
    chat_arena_t *arena;
    chat_facts_t  facts;
    chat_store_t *store = feed->main->store;

    ngx_chat_feed_stop(feed);

    if (feed->state != NGX_CHAT_FEED_COMPLETE
        && feed->state != NGX_CHAT_FEED_NONE) {
        arena = chat_arena_create(0);
        if (arena != NULL) {
            chat_facts_init(&facts, arena);
            chat_facts_gone(&facts, store->worker, feed->serial);
            store->join(store, NULL, &feed->key, facts.items, facts.count,
                        (uint32_t) feed->blocks.conf->record_ttl);
        }
        chat_arena_destroy(arena);
    }

    ngx_rbtree_delete(&feed->main->feeds, &feed->node.node);
    ngx_chat_blocks_free(&feed->blocks);
    ngx_free(feed);
}


static void
ngx_chat_feed_woken(ngx_event_t *ev)
{
    ngx_chat_follower_t *follower = ev->data;

    follower->wake(follower->data);
}


ngx_int_t
ngx_chat_feed_join(ngx_chat_ctx_t *ctx, const chat_attempt_t *attempt,
                   ngx_uint_t late, ngx_chat_follower_t *follower)
{
    chat_key_t       key;
    ngx_chat_feed_t *feed;

    chat_record_key(&ctx->q.key.tag, attempt->worker, attempt->request, &key);

    feed = ngx_chat_feed_find(ctx->main, &key);
    if (feed != NULL && feed == follower->feed) {
        return NGX_OK;
    }

    if (feed != NULL && feed->blocks.first_number != 0) {
        return NGX_DECLINED;
    }

    ngx_chat_feed_leave(follower);

    if (feed == NULL) {
        feed = ngx_chat_feed_create(ctx, attempt, &key, late);
        if (feed == NULL) {
            return NGX_ERROR;
        }
    }

    follower->feed = feed;
    follower->at = NULL;
    follower->next = 0;
    follower->event.handler = ngx_chat_feed_woken;
    follower->event.data = follower;
    follower->event.log = ngx_cycle->log;
    ngx_queue_insert_tail(&feed->followers, &follower->queue);
    return NGX_OK;
}


void
ngx_chat_feed_leave(ngx_chat_follower_t *follower)
{
    ngx_chat_feed_t *feed = follower->feed;

    if (feed == NULL) {
        return;
    }

    follower->feed = NULL;
    ngx_queue_remove(&follower->queue);
    ngx_chat_block_free(follower->at);
    follower->at = NULL;

    if (follower->event.posted) {
        ngx_delete_posted_event(&follower->event);
    }

    if (ngx_queue_empty(&feed->followers)) {
        ngx_chat_feed_free(feed);
    }
}


ngx_uint_t
ngx_chat_feed_is_drained(const ngx_chat_follower_t *follower)
{
    return follower->next == follower->feed->blocks.next_number;
}


ngx_int_t
ngx_chat_feed_take(ngx_chat_follower_t *follower, ngx_chat_block_t **block)
{
    ngx_chat_blocks_t *blocks = &follower->feed->blocks;

    if (ngx_chat_feed_is_drained(follower)) {
        return NGX_AGAIN;
    }

    if (follower->next < blocks->first_number) {
        return NGX_DECLINED;
    }

    *block = follower->at ? follower->at->next : blocks->first;
    ngx_chat_block_free(follower->at);

    /* one reference for the caller, one to find the next */
    follower->at = *block;
    (*block)->refs += 2;
    follower->next++;
    return NGX_OK;
}


void
ngx_chat_feed_init(ngx_chat_main_conf_t *mcf)
{
    ngx_rbtree_init(&mcf->feeds, &mcf->feeds_sentinel,
                    ngx_str_rbtree_insert_value);
}


void
ngx_chat_feed_lost(ngx_chat_main_conf_t *mcf)
{
    ngx_chat_feed_t   *feed;
    ngx_rbtree_node_t *node;

    if (mcf->feeds.root == mcf->feeds.sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(mcf->feeds.root, mcf->feeds.sentinel);
         node != NULL; node = ngx_rbtree_next(&mcf->feeds, node))
    {
        feed = (ngx_chat_feed_t *) node;

        if (feed->state == NGX_CHAT_FEED_ASKING
            || feed->state == NGX_CHAT_FEED_RUNNING)
        {
            feed->main->store->cancel(&feed->op);
            ngx_chat_feed_ask(feed);
        }
    }
}
