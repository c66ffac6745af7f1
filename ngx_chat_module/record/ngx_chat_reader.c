/*
 * ngx_chat_reader.c: see ngx_chat_reader.h.
 *
 * A reader watches first, then reads, then waits to be notified; so it misses
 * nothing, and positions keep it from taking an entry twice. The producer
 * learns from the facts that a worker follows, and when it no longer does. A
 * producer that dies is noticed by a timer. Followers are woken one by one
 * from the event loop.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "record/ngx_chat_reader.h"
#include "metrics/ngx_chat_metrics.h"

#define NGX_CHAT_READER_TICK 1000 /* ms */
#define NGX_CHAT_READER_PROBE 5   /* ticks without news */
#define NGX_CHAT_READER_ERRORS 10 /* of the store, in a row */


static void ask(ngx_chat_reader_t *reader);
static void look(ngx_chat_reader_t *reader);


static void
wake_followers(ngx_chat_reader_t *reader)
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
stop(ngx_chat_reader_t *reader)
{
    chat_store_t *store = reader->worker->store;

    store->cancel(&reader->op);
    store->unwatch(&reader->watch);
    ngx_chat_event_cancel(&reader->timer);
}


static void
finish(ngx_chat_reader_t *reader, ngx_chat_reader_state_e state)
{
    reader->state = state;
    stop(reader);
    wake_followers(reader);
}


static void
break_off(ngx_chat_reader_t *reader, const char *reason)
{
    reader->over = reason;
    reader->end = ngx_chat_chunks_end(&reader->chunks, reason);

    /* a stream that has said how it ended needs no other end, unless it is
       known that there was more */
    finish(reader, reader->end == CHAT_END_INTERRUPTED || reader->is_written
                       ? NGX_CHAT_READER_BROKEN
                       : NGX_CHAT_READER_COMPLETE);
}


/* The store returned an error: it is asked again with the next tick, or no
 * more. */
static void
on_error(ngx_chat_reader_t *reader, chat_rc_e rc)
{
    if (rc == CHAT_ERROR && ++reader->errors <= NGX_CHAT_READER_ERRORS
        && !chat_store_is_unavailable(reader->worker->store,
                                      &reader->source.key))
    {
        return;
    }

    if (reader->state == NGX_CHAT_READER_ASKING) {
        reader->has_failed = 1;
        finish(reader, NGX_CHAT_READER_NONE);
    } else {
        break_off(reader, "store_unavailable");
    }
}


/* There is nothing to be read at the moment. */
static void
on_empty(ngx_chat_reader_t *reader)
{
    if (reader->again) {
        look(reader);

    } else if (reader->dirty) {
        /* a recording that lacks something is cleared */
        reader->dirty = 0;
        ask(reader);

    } else if (reader->over == NULL) {
        if (!reader->is_live) {
            reader->is_live = 1;
            wake_followers(reader);
        }

    } else if (reader->chunks.position == 0 && reader->is_written
               && !reader->is_live)
    {
        /* its log has expired, or it never began; nothing was sent */
        reader->over = NULL;
        finish(reader, NGX_CHAT_READER_NONE);

    } else {
        break_off(reader, reader->over);
    }
}


static void
on_entries(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *entries,
           size_t n)
{
    ngx_chat_reader_t *reader = op->data;

    if (rc != CHAT_OK) {
        on_error(reader, rc);
        return;
    }

    reader->errors = 0;

    if (n == 0) {
        on_empty(reader);
        return;
    }

    reader->silent = 0;
    reader->dirty = reader->again; /* the other notifications were for these */

    switch (ngx_chat_chunks_add(&reader->chunks, entries, n)) {
    case NGX_OK:
        wake_followers(reader);
        look(reader);
        return;

    case NGX_DONE:
        reader->end = ngx_chat_chunks_end(&reader->chunks, NULL);
        finish(reader, NGX_CHAT_READER_COMPLETE);
        return;

    default:
        break_off(reader, "incomplete_record");
    }
}


/* Nothing more comes from a worker that is dead. */
static void
check_worker(ngx_chat_reader_t *reader)
{
    if (reader->over == NULL
        && !chat_store_alive(reader->worker->store, reader->source.worker))
    {
        reader->over = "producer_lost";
    }
}


/* The facts lack the head: there is no recording, yet or any more. */
static void
on_no_head(ngx_chat_reader_t *reader, const chat_recording_t *recording)
{
    if (reader->state != NGX_CHAT_READER_ASKING) {
        break_off(reader, "incomplete_record");

    } else if (recording->cleared || recording->over || reader->over != NULL
               || (reader->source.ended
                   && (!recording->followed || reader->silent != 0)))
    {
        finish(reader, NGX_CHAT_READER_NONE);

    } else if (reader->again) {
        look(reader);
    }
}


static void
on_facts(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    chat_recording_t   recording;
    ngx_chat_reader_t *reader = op->data;

    if (rc != CHAT_OK) {
        on_error(reader, rc);
        return;
    }

    if (reader->state == NGX_CHAT_READER_ASKING) {
        reader->errors = 0; /* later only an entry shows that it can read */
    }

    check_worker(reader);
    chat_recording_read(facts, n, &recording);

    if (recording.head.len == 0) {
        on_no_head(reader, &recording);
        return;
    }

    if (reader->state == NGX_CHAT_READER_ASKING
        && ngx_chat_chunks_begin(&reader->chunks, recording.head) != NGX_OK)
    {
        reader->over = "incomplete_record";
        finish(reader, NGX_CHAT_READER_NONE);
        return;
    }

    if (recording.over) {
        /* what is not there by now is lost */
        reader->is_written = 1;
        reader->over = "incomplete_record";
    }

    reader->state = NGX_CHAT_READER_RUNNING;
    look(reader);
}


/* Asks for the facts, and says that this worker follows, if that matters. */
static void
ask(ngx_chat_reader_t *reader)
{
    chat_facts_t  facts;
    chat_store_t *store = reader->worker->store;

    chat_facts_init(&facts, chat_arena_scratch());
    if (!reader->source.ended) {
        chat_facts_feed(&facts, store->worker, reader->serial);
    }

    /* without memory it asks again later */
    if (!facts.failed) {
        reader->op.done = on_facts;
        store->join(store, &reader->op, &reader->source.key, facts.items,
                    facts.count, (uint32_t) reader->chunks.conf->record_ttl,
                    &reader->watch);
    }
}


/* Asks for the head, or reads on; after the reply under way, if any. */
static void
look(ngx_chat_reader_t *reader)
{
    chat_store_t *store = reader->worker->store;

    reader->again = reader->op.store != NULL;

    if (reader->again) {
        return;
    }

    if (reader->state == NGX_CHAT_READER_ASKING) {
        ask(reader);
        return;
    }

    /* where over is set by now, what this does not find is lost */
    reader->op.done = on_entries;
    store->read(store, &reader->op, &reader->source.key,
                reader->chunks.position);
}


static void
on_notify(chat_store_watch_t *watch)
{
    ngx_chat_reader_t *reader = watch->data;

    check_worker(reader);
    reader->dirty = 1; /* the reply under way may not have it */
    look(reader);
}


static void
on_tick(ngx_event_t *ev)
{
    ngx_chat_reader_t *reader = ev->data;

    ngx_add_timer(ev, NGX_CHAT_READER_TICK);
    check_worker(reader);
    reader->silent++;

    if (reader->silent % NGX_CHAT_READER_PROBE == 0
        && reader->op.store == NULL) {
        /* a notification may be lost, or the fact that asks for them */
        ask(reader);

    } else if (reader->over != NULL || reader->errors != 0
               || (reader->source.ended
                   && reader->state == NGX_CHAT_READER_ASKING))
    {
        look(reader);
    }
}


static ngx_chat_reader_t *
create(ngx_chat_ctx_t *ctx, const ngx_chat_source_t *source)
{
    u_char            *name;
    ngx_chat_reader_t *reader;
    ngx_chat_worker_t *worker = ctx->worker;

    reader = ngx_calloc(sizeof(*reader) + source->worker.len, ngx_cycle->log);
    if (reader == NULL) {
        return NULL;
    }

    name = (u_char *) (reader + 1);
    ngx_memcpy(name, source->worker.data, source->worker.len);

    reader->worker = worker;
    reader->source = *source;
    reader->source.worker = chat_str(name, source->worker.len);
    reader->serial = worker->serial++;
    reader->chunks.conf = ctx->conf;
    reader->chunks.dialect = ctx->dialect;
    reader->watch.notify = on_notify;
    reader->watch.data = reader;
    reader->op.data = reader;
    ngx_queue_init(&reader->followers);

    reader->node.str.data = (u_char *) &reader->source.key;
    reader->node.str.len = sizeof(reader->source.key);
    reader->node.node.key =
        ngx_crc32_short(reader->node.str.data, reader->node.str.len);
    ngx_rbtree_insert(&worker->readers, &reader->node.node);

    /* not cancelable: a worker that exits serves its followers */
    ngx_chat_event_set(&reader->timer, on_tick, reader, ngx_cycle->log);
    ngx_add_timer(&reader->timer, NGX_CHAT_READER_TICK);

    ask(reader);
    return reader;
}


/* The last follower of this worker has left. */
static void
end_reader(ngx_chat_reader_t *reader)
{
    chat_facts_t  facts;
    chat_store_t *store = reader->worker->store;

    stop(reader);

    if (reader->state != NGX_CHAT_READER_COMPLETE
        && reader->state != NGX_CHAT_READER_NONE)
    {
        chat_facts_init(&facts, chat_arena_scratch());
        chat_facts_gone(&facts, store->worker, reader->serial);
        store->join(store, NULL, &reader->source.key, facts.items, facts.count,
                    (uint32_t) reader->chunks.conf->record_ttl, NULL);
    }

    ngx_rbtree_delete(&reader->worker->readers, &reader->node.node);
    ngx_chat_chunks_free(&reader->chunks);
    ngx_free(reader);
}


ngx_int_t
ngx_chat_reader_join(ngx_chat_ctx_t *ctx, const ngx_chat_source_t *source,
                     ngx_chat_follower_t *follower, uint64_t after)
{
    ngx_str_t          key = { sizeof(source->key), (u_char *) &source->key };
    ngx_chat_reader_t *reader = (ngx_chat_reader_t *) ngx_str_rbtree_lookup(
        &ctx->worker->readers, &key, ngx_crc32_short(key.data, key.len));

    if (reader != NULL && reader == follower->reader) {
        return NGX_OK;
    }

    ngx_chat_reader_leave(follower);

    if (reader == NULL) {
        reader = create(ctx, source);
        if (reader == NULL) {
            return NGX_ERROR;
        }
    }

    follower->reader = reader;
    ngx_memzero(&follower->cursor, sizeof(follower->cursor));
    follower->cursor.after = after;
    ngx_queue_insert_tail(&reader->followers, &follower->queue);
    ngx_chat_metrics_of(reader->worker)->now.followers++;
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
    ngx_chat_metrics_of(reader->worker)->now.followers--;
    ngx_chat_chunk_free(follower->cursor.at);
    follower->cursor.at = NULL;
    ngx_chat_event_cancel(&follower->event);

    if (ngx_queue_empty(&reader->followers)) {
        end_reader(reader);
    }
}
