/*
 * ngx_chat_reader_read.c: how a reader comes by its pieces.
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

#include "record/ngx_chat_reader.h"

#define NGX_CHAT_READER_TICK 1000      /* ms */
#define NGX_CHAT_READER_PROBE 5        /* ticks without a piece */
#define NGX_CHAT_READER_RECENT 60000   /* ms since the claim */
#define NGX_CHAT_READER_PATIENCE 10000 /* ms without an answer of the store */


static void ngx_chat_reader_read(ngx_chat_reader_t *reader);
static void ngx_chat_reader_tick(ngx_event_t *ev);
static void ngx_chat_reader_facts(chat_store_op_t *op, chat_rc_e rc,
                                  const chat_fact_t *facts, size_t n);


void
ngx_chat_reader_stop(ngx_chat_reader_t *reader)
{
    chat_store_t *store = reader->main->store;

    store->cancel(&reader->op);
    store->cancel(&reader->probe);
    store->unwatch(&reader->watch);

    if (reader->timer.timer_set) {
        ngx_del_timer(&reader->timer);
    }
}


static void
ngx_chat_reader_done(ngx_chat_reader_t *reader, ngx_chat_reader_state_e state)
{
    reader->state = state;
    ngx_chat_reader_stop(reader);
    ngx_chat_reader_wake(reader);
}


static void
ngx_chat_reader_broken(ngx_chat_reader_t *reader, const char *reason)
{
    reader->over = reason;
    reader->end = ngx_chat_chunks_break(&reader->chunks, reason);

    /* a stream that has said that it is over needs no other end, unless it
       is known that there was more */
    ngx_chat_reader_done(reader,
                         reader->end == CHAT_END_INTERRUPTED || reader->written
                             ? NGX_CHAT_READER_BROKEN
                             : NGX_CHAT_READER_COMPLETE);
}


/* 1 if the store has not been silent on this record for long. */
static ngx_uint_t
ngx_chat_reader_waits(ngx_chat_reader_t *reader)
{
    if (!reader->unheard) {
        reader->unheard = 1;
        reader->failed = ngx_current_msec;
    }

    return ngx_current_msec - reader->failed < NGX_CHAT_READER_PATIENCE;
}


/* A question came back without an answer. */
static void
ngx_chat_reader_failed(ngx_chat_reader_t *reader, chat_rc_e rc)
{
    if (rc == CHAT_ERROR
        && !chat_store_is_unavailable(reader->main->store, &reader->key)
        && ngx_chat_reader_waits(reader))
    {
        return; /* it is asked again when the store is there, or with time */
    }

    if (reader->state == NGX_CHAT_READER_ASKING) {
        ngx_chat_reader_done(reader, NGX_CHAT_READER_NONE);
    } else {
        ngx_chat_reader_broken(reader, "store_unavailable");
    }
}


/* All that there was has been read, and more is to come. */
static void
ngx_chat_reader_live(ngx_chat_reader_t *reader)
{
    if (!reader->live) {
        reader->live = 1;
        ngx_chat_reader_wake(reader);
    }
}


/* Nothing more will come. */
static void
ngx_chat_reader_final(ngx_chat_reader_t *reader)
{
    /* it never began, or its log has ended since; nobody was told otherwise */
    if (reader->chunks.position == 0 && reader->written
        && !(reader->live && reader->chunks.has_head))
    {
        ngx_chat_reader_done(reader, NGX_CHAT_READER_NONE);
    } else {
        ngx_chat_reader_broken(reader, reader->over);
    }
}


/* 1 if the answer has ended, and nothing of it is there. */
static ngx_uint_t
ngx_chat_reader_missed(const ngx_chat_reader_t *reader)
{
    return !reader->chunks.has_head && reader->late
           && reader->attempt.end != CHAT_END_NONE;
}


/*
 * 1 if its producer may still look who wants it, and has not said no as yet:
 * it does so for longer than a short answer takes.
 */
static ngx_uint_t
ngx_chat_reader_hopes(const ngx_chat_reader_t *reader)
{
    return !reader->listed
           && (!reader->late || reader->attempt.end == CHAT_END_NONE
               || ngx_chat_now() - reader->attempt.ms
                      < NGX_CHAT_READER_RECENT);
}


/* There is nothing to be read at the moment. */
static void
ngx_chat_reader_empty(ngx_chat_reader_t *reader)
{
    chat_store_t *store = reader->main->store;

    if (reader->again) {
        ngx_chat_reader_read(reader);

    } else if (reader->news) {
        /* a record that lacks something is cleared */
        reader->news = 0;
        reader->op.done = ngx_chat_reader_facts;
        store->join(store, &reader->op, &reader->key, NULL, 0, 0);

    } else if (ngx_chat_reader_missed(reader)
               && (reader->silent != 0 || !ngx_chat_reader_hopes(reader)))
    {
        ngx_chat_reader_done(reader, NGX_CHAT_READER_NONE);

    } else if (reader->final) {
        ngx_chat_reader_final(reader);

    } else if (reader->over == NULL) {
        ngx_chat_reader_live(reader);

    } else {
        ngx_chat_reader_read(reader);
    }
}


static void
ngx_chat_reader_pieces(chat_store_op_t *op, chat_rc_e rc,
                       const chat_fact_t *pieces, size_t n)
{
    ngx_int_t          added;
    ngx_chat_reader_t *reader = op->data;

    if (rc != CHAT_OK) {
        ngx_chat_reader_failed(reader, rc);
        return;
    }

    reader->unheard = 0;

    if (n == 0) {
        ngx_chat_reader_empty(reader);
        return;
    }

    reader->silent = 0;
    reader->news = reader->again; /* what came since may be no piece */
    added = ngx_chat_chunks_add(&reader->chunks, pieces, n);

    switch (added) {
    case NGX_OK:
        ngx_chat_reader_wake(reader);
        ngx_chat_reader_read(reader);
        return;

    case NGX_DONE:
        reader->end = ngx_chat_chunks_end(&reader->chunks);
        ngx_chat_reader_done(reader, NGX_CHAT_READER_COMPLETE);
        return;

    default:
        ngx_chat_reader_broken(reader, "incomplete_record");
    }
}


static void
ngx_chat_reader_read(ngx_chat_reader_t *reader)
{
    chat_store_t *store = reader->main->store;

    if (reader->op.store != NULL) {
        reader->again = 1;
        return;
    }

    reader->again = 0;
    reader->final = reader->over != NULL;
    reader->op.done = ngx_chat_reader_pieces;
    store->read(store, &reader->op, &reader->key, reader->chunks.position);
}


/* 1 if there is no record, and will not be. */
static ngx_uint_t
ngx_chat_reader_unrecorded(const ngx_chat_reader_t *reader,
                           const chat_record_t     *record)
{
    if (record->mode == CHAT_RECORD_NONE) {
        return reader->chunks.position == 0;
    }

    if (reader->state != NGX_CHAT_READER_ASKING) {
        return 0;
    }

    if (record->mode == CHAT_RECORD_UNKNOWN && reader->listed) {
        /* its answer has not begun, or its record is gone */
        return record->over || reader->attempt.end != CHAT_END_NONE
               || !chat_store_alive(reader->main->store,
                                    reader->attempt.worker);
    }

    return record->cleared || record->mode == CHAT_RECORD_UNKNOWN;
}


/* The facts of the record: is there one? */
static void
ngx_chat_reader_facts(chat_store_op_t *op, chat_rc_e rc,
                      const chat_fact_t *facts, size_t n)
{
    ngx_uint_t         had;
    chat_record_t      record;
    ngx_chat_reader_t *reader = op->data;

    if (rc != CHAT_OK) {
        ngx_chat_reader_failed(reader, rc);
        return;
    }

    chat_record_read(facts, n, chat_store_alive, reader->main->store, &record);
    had = reader->chunks.has_head;
    ngx_chat_chunks_know(&reader->chunks, record.head);

    if (reader->chunks.has_head != had) {
        ngx_chat_reader_wake(reader);
    }

    if (ngx_chat_reader_unrecorded(reader, &record)) {
        ngx_chat_reader_done(reader, NGX_CHAT_READER_NONE);
        return;
    }

    if (record.cleared
        || (record.mode == CHAT_RECORD_UNKNOWN
            && reader->chunks.position != 0))
    {
        ngx_chat_reader_broken(reader, "incomplete_record");
        return;
    }

    if (record.over) {
        /* what is not there by now is lost */
        reader->written = 1;
        reader->over = "incomplete_record";
    }

    reader->state = NGX_CHAT_READER_RUNNING;
    ngx_chat_reader_read(reader);
}


/* Nothing more comes from a worker that is dead. */
static void
ngx_chat_reader_look(ngx_chat_reader_t *reader)
{
    if (reader->over == NULL
        && !chat_store_alive(reader->main->store, reader->attempt.worker))
    {
        reader->over = "producer_lost";
    }
}


static void
ngx_chat_reader_notify(chat_store_watch_t *watch)
{
    ngx_chat_reader_t *reader = watch->data;

    if (reader->state == NGX_CHAT_READER_ASKING) {
        if (reader->op.store == NULL) {
            ngx_chat_reader_ask(reader);
        } else {
            reader->news = 1; /* the answer under way may not have it */
        }
        return;
    }

    reader->news = 1;
    ngx_chat_reader_look(reader);
    ngx_chat_reader_read(reader);
}


void
ngx_chat_reader_ask(ngx_chat_reader_t *reader)
{
    chat_arena_t *arena;
    chat_facts_t  facts;
    chat_store_t *store = reader->main->store;

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return; /* once more with the next tick */
    }

    chat_facts_init(&facts, arena);
    if (ngx_chat_reader_hopes(reader)) {
        chat_facts_record(&facts, CHAT_RECORD_WANTED);
    }
    chat_facts_feed(&facts, store->worker, reader->serial);

    if (!facts.failed) {
        store->unwatch(&reader->watch);
        reader->watch.notify = ngx_chat_reader_notify;
        reader->watch.data = reader;
        reader->op.done = ngx_chat_reader_facts;
        reader->op.data = reader;
        store->watch(store, &reader->watch, &reader->op, &reader->key,
                     facts.items, facts.count,
                     (uint32_t) reader->chunks.conf->record_ttl);
    }

    chat_arena_destroy(arena);
}


/* What the batch says of an attempt that has been silent. */
static void
ngx_chat_reader_probed(chat_store_op_t *op, chat_rc_e rc,
                       const chat_fact_t *facts, size_t n)
{
    chat_batch_t       batch;
    chat_arena_t      *arena;
    ngx_chat_reader_t *reader = op->data;

    arena = chat_arena_create(0);

    /* its last pieces may still be on their way: the next tick asks for them
     */
    if (arena != NULL && rc == CHAT_OK
        && chat_batch_read(facts, n, arena, &batch) == CHAT_OK
        && (batch.last.k > reader->attempt.k
            || (batch.last.k == reader->attempt.k
                && batch.last.end != CHAT_END_NONE)))
    {
        reader->over = "eof";
    }

    chat_arena_destroy(arena);
}


static void
ngx_chat_reader_probe(ngx_chat_reader_t *reader)
{
    chat_store_t *store = reader->main->store;

    if (reader->listed) {
        reader->news = 1;

    } else if (reader->probe.store == NULL) {
        reader->probe.done = ngx_chat_reader_probed;
        reader->probe.data = reader;
        store->join(store, &reader->probe, &reader->batch, NULL, 0, 0);
    }
}


static void
ngx_chat_reader_tick(ngx_event_t *ev)
{
    ngx_chat_reader_t *reader = ev->data;

    ngx_add_timer(ev, NGX_CHAT_READER_TICK);

    if (reader->state == NGX_CHAT_READER_ASKING) {
        ngx_chat_reader_notify(&reader->watch);
        return;
    }

    ngx_chat_reader_look(reader);
    reader->silent++;

    if (reader->over != NULL || ngx_chat_reader_missed(reader)) {
        ngx_chat_reader_read(reader);

    } else if (reader->silent % NGX_CHAT_READER_PROBE == 0) {
        ngx_chat_reader_probe(reader);
        ngx_chat_reader_read(reader);
    }
}


void
ngx_chat_reader_start(ngx_chat_reader_t *reader)
{
    /* not cancelable: a worker that exits serves those who follow */
    reader->timer.handler = ngx_chat_reader_tick;
    reader->timer.data = reader;
    reader->timer.log = ngx_cycle->log;
    ngx_add_timer(&reader->timer, NGX_CHAT_READER_TICK);

    ngx_chat_reader_ask(reader);
}
