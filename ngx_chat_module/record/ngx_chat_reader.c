/*
 * ngx_chat_reader.c: see ngx_chat_reader.h.
 *
 * A reader watches first, then reads, then waits to be notified; so it misses
 * nothing, and positions keep it from taking an entry twice. The producer
 * learns from the facts that a worker follows, and when it no longer does. A
 * producer that dies, or ends without a last entry, is noticed by a timer.
 * Followers are woken one by one from the event loop.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "record/ngx_chat_reader.h"
#include "metrics/ngx_chat_metrics.h"

#define NGX_CHAT_READER_TICK 1000      /* ms */
#define NGX_CHAT_READER_PROBE 5        /* ticks without a piece */
#define NGX_CHAT_READER_PATIENCE 10000 /* ms without an answer of the store */


static void ngx_chat_reader_ask(ngx_chat_reader_t *reader);
static void ngx_chat_reader_read(ngx_chat_reader_t *reader);
static void ngx_chat_reader_tick(ngx_event_t *ev);
static void ngx_chat_reader_facts(chat_store_op_t *op, chat_rc_e rc,
                                  const chat_fact_t *facts, size_t n);


/* All followers look. */
static void
ngx_chat_reader_wake(ngx_chat_reader_t *reader)
{
    ngx_queue_t         *q;
    ngx_chat_follower_t *follower;

    for (q = ngx_queue_head(&reader->followers);
         q != ngx_queue_sentinel(&reader->followers); q = ngx_queue_next(q))
    {
        follower = ngx_queue_data(q, ngx_chat_follower_t, queue);
        ngx_post_event(&follower->event, &ngx_posted_events);
    }
}


static void
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
    /* it never began, or its log has expired since; nothing was sent */
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


/* 1 if its producer may not have decided yet whether it is recorded. */
static ngx_uint_t
ngx_chat_reader_asks_for_it(const ngx_chat_reader_t *reader)
{
    return !reader->indexed
           && (!reader->late || reader->attempt.end == CHAT_END_NONE);
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

    } else if (ngx_chat_reader_missed(reader) && reader->silent != 0) {
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

    if (record->mode == CHAT_RECORD_UNKNOWN && reader->indexed) {
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


static void
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
    if (ngx_chat_reader_asks_for_it(reader)) {
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

    if (reader->indexed) {
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


static void
ngx_chat_reader_start(ngx_chat_reader_t *reader)
{
    /* not cancelable: a worker that exits serves its followers */
    reader->timer.handler = ngx_chat_reader_tick;
    reader->timer.data = reader;
    reader->timer.log = ngx_cycle->log;
    ngx_add_timer(&reader->timer, NGX_CHAT_READER_TICK);

    ngx_chat_reader_ask(reader);
}


static ngx_chat_reader_t *
ngx_chat_reader_find(ngx_chat_main_conf_t *mcf, chat_key_t *key)
{
    ngx_str_t name;

    name.data = (u_char *) key;
    name.len = sizeof(*key);

    return (ngx_chat_reader_t *) ngx_str_rbtree_lookup(
        &mcf->readers, &name, ngx_crc32_short(name.data, name.len));
}


/* A copy of the attempt, whose strings are in the memory behind the reader. */
static void
ngx_chat_reader_attempt(ngx_chat_reader_t    *reader,
                        const chat_attempt_t *attempt)
{
    u_char *p = (u_char *) (reader + 1);

    reader->attempt = *attempt;
    reader->attempt.worker = chat_str(p, attempt->worker.len);
    p = ngx_cpymem(p, attempt->worker.data, attempt->worker.len);
    reader->attempt.request = chat_str(p, attempt->request.len);
    ngx_memcpy(p, attempt->request.data, attempt->request.len);
}


static ngx_chat_reader_t *
ngx_chat_reader_create(ngx_chat_ctx_t *ctx, const ngx_chat_source_t *source)
{
    ngx_chat_reader_t    *reader;
    const chat_attempt_t *attempt = &source->attempt;
    ngx_chat_main_conf_t *mcf = ctx->main;

    reader = ngx_calloc(sizeof(*reader) + attempt->worker.len
                            + attempt->request.len,
                        ngx_cycle->log);
    if (reader == NULL) {
        return NULL;
    }

    reader->main = mcf;
    reader->key = source->key;
    reader->batch = source->batch;
    reader->late = source->late & 1;
    reader->indexed = source->indexed & 1;
    reader->serial = mcf->serial++;
    reader->chunks.conf = ctx->conf;
    reader->chunks.dialect = ctx->dialect;
    ngx_chat_reader_attempt(reader, attempt);
    ngx_queue_init(&reader->followers);

    reader->node.str.data = (u_char *) &reader->key;
    reader->node.str.len = sizeof(reader->key);
    reader->node.node.key =
        ngx_crc32_short(reader->node.str.data, reader->node.str.len);
    ngx_rbtree_insert(&mcf->readers, &reader->node.node);

    ngx_chat_reader_start(reader);
    return reader;
}


/* The last follower of this worker has left. */
static void
ngx_chat_reader_free(ngx_chat_reader_t *reader)
{
    chat_arena_t *arena;
    chat_facts_t  facts;
    chat_store_t *store = reader->main->store;

    ngx_chat_reader_stop(reader);

    if (reader->state != NGX_CHAT_READER_COMPLETE
        && reader->state != NGX_CHAT_READER_NONE)
    {
        arena = chat_arena_create(0);
        if (arena != NULL) {
            chat_facts_init(&facts, arena);
            chat_facts_gone(&facts, store->worker, reader->serial);
            store->join(store, NULL, &reader->key, facts.items, facts.count,
                        (uint32_t) reader->chunks.conf->record_ttl);
        }
        chat_arena_destroy(arena);
    }

    ngx_rbtree_delete(&reader->main->readers, &reader->node.node);
    ngx_chat_chunks_free(&reader->chunks);
    ngx_free(reader);
}


static void
ngx_chat_reader_woken(ngx_event_t *ev)
{
    ngx_chat_follower_t *follower = ev->data;

    follower->wake(follower->data);
}


ngx_int_t
ngx_chat_reader_join(ngx_chat_ctx_t *ctx, const ngx_chat_source_t *source,
                     ngx_chat_follower_t *follower)
{
    chat_key_t         key = source->key;
    ngx_chat_reader_t *reader;

    reader = ngx_chat_reader_find(ctx->main, &key);
    if (reader != NULL && reader == follower->reader) {
        return NGX_OK;
    }

    if (reader != NULL && reader->chunks.first_number != 0 && !source->indexed)
    {
        return NGX_DECLINED;
    }

    ngx_chat_reader_leave(follower);

    if (reader == NULL) {
        reader = ngx_chat_reader_create(ctx, source);
        if (reader == NULL) {
            return NGX_ERROR;
        }
    }

    follower->reader = reader;
    follower->at = NULL;
    follower->next = 0;
    follower->placed = 0;
    follower->event.handler = ngx_chat_reader_woken;
    follower->event.data = follower;
    follower->event.log = ngx_cycle->log;
    ngx_queue_insert_tail(&reader->followers, &follower->queue);
    ngx_chat_metrics_record(reader->main, 0, 0, 1);
    return NGX_OK;
}


void
ngx_chat_reader_leave(ngx_chat_follower_t *follower)
{
    ngx_chat_reader_t *reader = follower->reader;

    if (reader == NULL) {
        return;
    }

    follower->reader = NULL;
    ngx_queue_remove(&follower->queue);
    ngx_chat_metrics_record(reader->main, 0, 0, -1);
    ngx_chat_chunk_free(follower->at);
    follower->at = NULL;

    if (follower->event.posted) {
        ngx_delete_posted_event(&follower->event);
    }

    if (ngx_queue_empty(&reader->followers)) {
        ngx_chat_reader_free(reader);
    }
}


/* 1 if a follower that has the events up to after can begin with the chunk. */
static ngx_uint_t
ngx_chat_reader_begins(const ngx_chat_chunk_t *chunk, uint64_t after)
{
    return chunk->count.events < after
           || (chunk->count.events == after
               && !chat_count_is_inside(&chunk->count));
}


/*
 * Where a follower begins: the last chunk that has the end of what it has
 * before it, or in it.
 */
static ngx_int_t
ngx_chat_reader_place(ngx_chat_follower_t *follower)
{
    uint64_t           number, after = follower->after;
    ngx_chat_chunk_t  *chunk, *before = NULL, *at = NULL, *found = NULL;
    ngx_chat_chunks_t *chunks = &follower->reader->chunks;

    number = chunks->first_number;

    for (chunk = chunks->first; chunk != NULL; chunk = chunk->next) {
        if (!ngx_chat_reader_begins(chunk, after)) {
            break;
        }

        found = chunk;
        at = before;
        follower->next = number++;
        before = chunk;

        if (chunk->count.events == after) {
            break;
        }
    }

    if (found == NULL) {
        follower->lost = chat_buf_str(&chunks->first->lost);
        return NGX_DECLINED;
    }

    if (at != NULL) {
        at->refs++;
    }

    follower->at = at;
    follower->count = found->count;
    follower->from = 0;
    follower->placed = 1;
    follower->fresh = 1;
    follower->seeking = after != 0;
    return NGX_OK;
}


/* Moves on to the next chunk. */
static void
ngx_chat_reader_pass(ngx_chat_follower_t *follower, ngx_chat_chunk_t *chunk)
{
    ngx_chat_chunk_free(follower->at);

    /* one reference, to find the next */
    follower->at = chunk;
    chunk->refs++;
    follower->next++;
    follower->from = 0;
    follower->fresh = 0;
}


/* Looks for the end of what the follower has. */
static void
ngx_chat_reader_seek(ngx_chat_follower_t *follower, ngx_chat_chunk_t *chunk)
{
    chat_str_t rest;

    rest = chat_str(chunk->data + follower->from, chunk->len - follower->from);
    follower->from += chat_count_to(&follower->count, rest, follower->after);
    follower->seeking = follower->count.events < follower->after
                        || chat_count_is_inside(&follower->count);

    if (follower->from == chunk->len) {
        ngx_chat_reader_pass(follower, chunk);
    }
}


ngx_int_t
ngx_chat_reader_ready(ngx_chat_follower_t *follower)
{
    ngx_chat_chunk_t  *chunk;
    ngx_chat_chunks_t *chunks = &follower->reader->chunks;

    for (;;) {
        if (!follower->placed) {
            if (chunks->first == NULL) {
                return NGX_AGAIN;
            }

            if (ngx_chat_reader_place(follower) != NGX_OK) {
                return NGX_DECLINED;
            }
        }

        if (follower->next == chunks->next_number) {
            return NGX_AGAIN;
        }

        if (follower->next < chunks->first_number) {
            follower->lost = chat_str(NULL, 0);
            return NGX_DECLINED;
        }

        chunk = follower->at ? follower->at->next : chunks->first;

        if (chunk->gap && !follower->fresh) {
            if (!follower->seeking
                || !ngx_chat_reader_begins(chunk, follower->after)) {
                follower->lost = chat_buf_str(&chunk->lost);
                return NGX_DECLINED;
            }

            follower->count = chunk->count;
            follower->fresh = 1;
        }

        if (follower->seeking) {
            ngx_chat_reader_seek(follower, chunk);

        } else if (chunk->len != 0) {
            return NGX_OK;

        } else {
            ngx_chat_reader_pass(follower, chunk);
        }
    }
}


ngx_int_t
ngx_chat_reader_take(ngx_chat_follower_t *follower, ngx_chat_chunk_t **chunk,
                     size_t *from)
{
    ngx_int_t rc = ngx_chat_reader_ready(follower);

    if (rc != NGX_OK) {
        return rc;
    }

    *chunk =
        follower->at ? follower->at->next : follower->reader->chunks.first;
    *from = follower->from;

    (*chunk)->refs++;
    ngx_chat_reader_pass(follower, *chunk);
    return NGX_OK;
}


chat_end_e
ngx_chat_reader_end(ngx_chat_follower_t *follower, const char **reason)
{
    ngx_int_t                rc = ngx_chat_reader_ready(follower);
    const ngx_chat_reader_t *reader = follower->reader;

    if (rc == NGX_AGAIN && reader->state == NGX_CHAT_READER_COMPLETE) {
        return reader->end;
    }

    if (rc == NGX_AGAIN) {
        *reason = reader->over;

    } else if (rc == NGX_DECLINED) {
        *reason = follower->lost.len ? "incomplete_record" : "too_slow";
    }

    return CHAT_END_NONE;
}


void
ngx_chat_reader_init(ngx_chat_main_conf_t *mcf)
{
    ngx_rbtree_init(&mcf->readers, &mcf->readers_sentinel,
                    ngx_str_rbtree_insert_value);
}


void
ngx_chat_reader_lost(ngx_chat_main_conf_t *mcf)
{
    ngx_chat_reader_t *reader;
    ngx_rbtree_node_t *node;

    if (mcf->readers.root == mcf->readers.sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(mcf->readers.root, mcf->readers.sentinel);
         node != NULL; node = ngx_rbtree_next(&mcf->readers, node))
    {
        reader = (ngx_chat_reader_t *) node;

        if (reader->state == NGX_CHAT_READER_ASKING
            || reader->state == NGX_CHAT_READER_RUNNING)
        {
            reader->main->store->cancel(&reader->op);
            ngx_chat_reader_ask(reader);
        }
    }
}
