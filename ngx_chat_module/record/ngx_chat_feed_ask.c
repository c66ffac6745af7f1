/*
 * ngx_chat_feed_ask.c: how a feed comes by its pieces.
 *
 * Order: watch first, then read, then wait to be notified; so nothing is
 * missed, and positions see to it that nothing comes twice. The producer
 * learns from the facts that somebody follows. A producer that dies, or ends
 * without a last word, is noticed by a timer.
 * Must not know: requests, verdicts, who follows.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "record/ngx_chat_feed.h"

#define NGX_CHAT_FEED_TICK 1000      /* ms */
#define NGX_CHAT_FEED_PROBE 5        /* ticks without a piece */
#define NGX_CHAT_FEED_RECENT 60000   /* ms since the claim */
#define NGX_CHAT_FEED_PATIENCE 10000 /* ms without an answer of the store */


static void ngx_chat_feed_read(ngx_chat_feed_t *feed);
static void ngx_chat_feed_tick(ngx_event_t *ev);
static void ngx_chat_feed_facts(chat_store_op_t *op, chat_rc_e rc,
                                const chat_fact_t *facts, size_t n);


void
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
    feed->over = reason;
    feed->end = ngx_chat_blocks_break(&feed->blocks, reason);

    /* a stream that has said that it is over needs no other end, unless it
       is known that there was more */
    ngx_chat_feed_done(feed, feed->end == CHAT_END_INTERRUPTED || feed->written
                                 ? NGX_CHAT_FEED_BROKEN
                                 : NGX_CHAT_FEED_COMPLETE);
}


/* 1 if the store has not been silent on this record for long. */
static ngx_uint_t
ngx_chat_feed_waits(ngx_chat_feed_t *feed)
{
    if (!feed->unheard) {
        feed->unheard = 1;
        feed->failed = ngx_current_msec;
    }

    return ngx_current_msec - feed->failed < NGX_CHAT_FEED_PATIENCE;
}


/* A question came back without an answer. */
static void
ngx_chat_feed_failed(ngx_chat_feed_t *feed, chat_rc_e rc)
{
    if (rc == CHAT_ERROR && !chat_store_is_away(feed->main->store, &feed->key)
        && ngx_chat_feed_waits(feed))
    {
        return; /* it is asked again when the store is there, or with time */
    }

    if (feed->state == NGX_CHAT_FEED_ASKING) {
        ngx_chat_feed_done(feed, NGX_CHAT_FEED_NONE);
    } else {
        ngx_chat_feed_broken(feed, "store_unavailable");
    }
}


/* All that there was has been read, and more is to come. */
static void
ngx_chat_feed_live(ngx_chat_feed_t *feed)
{
    if (!feed->live) {
        feed->live = 1;
        ngx_chat_feed_wake(feed);
    }
}


/* Nothing more will come. */
static void
ngx_chat_feed_final(ngx_chat_feed_t *feed)
{
    /* it never began, or its log has ended since; nobody was told otherwise */
    if (feed->blocks.position == 0 && feed->written
        && !(feed->live && feed->blocks.has_head))
    {
        ngx_chat_feed_done(feed, NGX_CHAT_FEED_NONE);
    } else {
        ngx_chat_feed_broken(feed, feed->over);
    }
}


/* 1 if the answer has ended, and nothing of it is there. */
static ngx_uint_t
ngx_chat_feed_missed(const ngx_chat_feed_t *feed)
{
    return !feed->blocks.has_head && feed->late
           && feed->attempt.end != CHAT_END_NONE;
}


/*
 * 1 if its producer may still look who wants it, and has not said no as yet:
 * it does so for longer than a short answer takes.
 */
static ngx_uint_t
ngx_chat_feed_hopes(const ngx_chat_feed_t *feed)
{
    return !feed->listed
           && (!feed->late || feed->attempt.end == CHAT_END_NONE
               || ngx_chat_now() - feed->attempt.ms < NGX_CHAT_FEED_RECENT);
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

    } else if (ngx_chat_feed_missed(feed)
               && (feed->silent != 0 || !ngx_chat_feed_hopes(feed)))
    {
        ngx_chat_feed_done(feed, NGX_CHAT_FEED_NONE);

    } else if (feed->final) {
        ngx_chat_feed_final(feed);

    } else if (feed->over == NULL) {
        ngx_chat_feed_live(feed);

    } else {
        ngx_chat_feed_read(feed);
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

    feed->unheard = 0;

    if (n == 0) {
        ngx_chat_feed_empty(feed);
        return;
    }

    feed->silent = 0;
    feed->news = feed->again; /* what came since may be no piece */
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


/* 1 if there is no record, and will not be. */
static ngx_uint_t
ngx_chat_feed_unrecorded(const ngx_chat_feed_t *feed,
                         const chat_record_t   *record)
{
    if (record->mode == CHAT_RECORD_NONE) {
        return feed->blocks.position == 0;
    }

    if (feed->state != NGX_CHAT_FEED_ASKING) {
        return 0;
    }

    if (record->mode == CHAT_RECORD_UNKNOWN && feed->listed) {
        /* its answer has not begun, or its record is gone */
        return record->over || feed->attempt.end != CHAT_END_NONE
               || !chat_store_alive(feed->main->store, feed->attempt.worker);
    }

    return record->cleared || record->mode == CHAT_RECORD_UNKNOWN;
}


/* The facts of the record: is there one? */
static void
ngx_chat_feed_facts(chat_store_op_t *op, chat_rc_e rc,
                    const chat_fact_t *facts, size_t n)
{
    ngx_uint_t       had;
    chat_record_t    record;
    ngx_chat_feed_t *feed = op->data;

    if (rc != CHAT_OK) {
        ngx_chat_feed_failed(feed, rc);
        return;
    }

    chat_record_read(facts, n, chat_store_alive, feed->main->store, &record);
    had = feed->blocks.has_head;
    ngx_chat_blocks_know(&feed->blocks, record.head);

    if (feed->blocks.has_head != had) {
        ngx_chat_feed_wake(feed);
    }

    if (ngx_chat_feed_unrecorded(feed, &record)) {
        ngx_chat_feed_done(feed, NGX_CHAT_FEED_NONE);
        return;
    }

    if (record.cleared
        || (record.mode == CHAT_RECORD_UNKNOWN && feed->blocks.position != 0))
    {
        ngx_chat_feed_broken(feed, "incomplete_record");
        return;
    }

    if (record.over) {
        /* what is not there by now is lost */
        feed->written = 1;
        feed->over = "incomplete_record";
    }

    feed->state = NGX_CHAT_FEED_RUNNING;
    ngx_chat_feed_read(feed);
}


/* Nothing more comes from a worker that is dead. */
static void
ngx_chat_feed_look(ngx_chat_feed_t *feed)
{
    if (feed->over == NULL
        && !chat_store_alive(feed->main->store, feed->attempt.worker))
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
        } else {
            feed->news = 1; /* the answer under way may not have it */
        }
        return;
    }

    feed->news = 1;
    ngx_chat_feed_look(feed);
    ngx_chat_feed_read(feed);
}


void
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
    if (ngx_chat_feed_hopes(feed)) {
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

    if (feed->listed) {
        feed->news = 1;

    } else if (feed->probe.store == NULL) {
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

    if (feed->over != NULL || ngx_chat_feed_missed(feed)) {
        ngx_chat_feed_read(feed);

    } else if (feed->silent % NGX_CHAT_FEED_PROBE == 0) {
        ngx_chat_feed_probe(feed);
        ngx_chat_feed_read(feed);
    }
}


void
ngx_chat_feed_start(ngx_chat_feed_t *feed)
{
    /* not cancelable: a worker that exits serves those who follow */
    feed->timer.handler = ngx_chat_feed_tick;
    feed->timer.data = feed;
    feed->timer.log = ngx_cycle->log;
    ngx_add_timer(&feed->timer, NGX_CHAT_FEED_TICK);

    ngx_chat_feed_ask(feed);
}
