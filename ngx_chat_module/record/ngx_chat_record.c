/*
 * ngx_chat_record.c: what the client is sent, written into the store while
 * somebody wants it.
 *
 * When the answer begins the store is asked; until it has answered the bytes
 * wait here, and then they are written, or forgotten. One fact decides, which
 * follower or producer puts first. A record that lacks something is cleared,
 * so that nobody takes a part for the whole.
 * Promises: the client's own answer never waits for the record and does not
 * depend on it; what waits is bounded.
 * Must not know: wire formats, how a store stores, who follows.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_record.h"
#include "record/ngx_chat_listing.h"
#include "metrics/ngx_chat_metrics.h"

#define NGX_CHAT_RECORD_WAITS (1024 * 1024) /* until the store has answered */
#define NGX_CHAT_RECORD_LOOK 100 /* ms between two looks who wants it */
#define NGX_CHAT_RECORD_LOOKS 20 /* by then siblings have heard of the claim */


static void
ngx_chat_record_free(ngx_chat_record_t *record)
{
    if (record->ctx != NULL) {
        record->ctx->record = NULL;
    }

    record->store->cancel(&record->op);

    if (record->listed) {
        ngx_chat_record_over(record->store, &record->key, record->ttl);
    }

    if (record->timer.timer_set) {
        ngx_del_timer(&record->timer);
    }

    if (record->position != 0) {
        ngx_chat_metrics_record(record->main, -1, -(ngx_int_t) record->written,
                                0);
    }

    chat_buf_free(&record->head);
    chat_buf_free(&record->bytes);
    ngx_free(record);
}


/* What is in the store is not the whole. */
static void
ngx_chat_record_clear(ngx_chat_record_t *record)
{
    record->store->clear(record->store, &record->key, record->ttl);
    ngx_chat_record_free(record);
}


static void
ngx_chat_record_put(ngx_chat_record_t *record, chat_str_t bytes, int last)
{
    chat_store_t *store = record->store;

    store->append(store, &record->key, record->position, bytes, last,
                  record->keep, record->ttl);

    ngx_chat_metrics_record(record->main, record->position == 0,
                            (ngx_int_t) bytes.len, 0);

    record->position++;
    record->written += bytes.len;
    record->since += bytes.len;

    /* at least the last half of max is always there */
    if (record->since >= record->max / 2) {
        record->keep = record->later;
        record->later = record->position;
        record->since = 0;
    }
}


/* A piece of what the client is sent, behind the count of what was before. */
static void
ngx_chat_record_piece(ngx_chat_record_t *record, chat_str_t bytes, int last)
{
    int        ended;
    size_t     n;
    chat_buf_t piece = { 0 };

    chat_count_write(&record->count, &piece);
    chat_buf_add(&piece, bytes);

    if (!piece.failed) {
        ngx_chat_record_put(record, chat_buf_str(&piece), last);
    } else {
        record->position++; /* a hole, which its readers see */
    }

    chat_buf_free(&piece);

    while (bytes.len != 0) {
        n = chat_count_frame(&record->count, bytes, &ended);
        bytes = chat_str(bytes.data + n, bytes.len - n);
    }
}


/* Nothing has come for long: what is there is not to run out meanwhile. */
static void
ngx_chat_record_silent(ngx_event_t *ev)
{
    ngx_chat_record_t *record = ev->data;

    if (!record->over) {
        ngx_chat_record_piece(record, chat_str(NULL, 0), 0);
        ngx_add_timer(ev, (ngx_msec_t) record->ttl * 500);
    }
}


/* Writes what there is, in pieces that end where events end. */
static void
ngx_chat_record_write(ngx_chat_record_t *record)
{
    int        last;
    size_t     n;
    chat_str_t rest = chat_buf_str(&record->bytes);

    if (record->position == 0) {
        ngx_chat_record_put(record, chat_buf_str(&record->head), 0);
        chat_buf_free(&record->head);
        ngx_memzero(&record->head, sizeof(record->head));
    }

    while (rest.len != 0 || record->over) {
        n = chat_record_cut(rest, NGX_CHAT_RECORD_PIECE);
        last = record->over && n == rest.len;
        ngx_chat_record_piece(record, chat_str(rest.data, n), last);

        if (last) {
            break;
        }

        rest = chat_str(rest.data + n, rest.len - n);
    }

    record->bytes.len = 0;
    record->timer.handler = ngx_chat_record_silent;
    ngx_add_timer(&record->timer, (ngx_msec_t) record->ttl * 500);

    if (record->bytes.size > NGX_CHAT_RECORD_PIECE) {
        chat_buf_free(&record->bytes);
        ngx_memzero(&record->bytes, sizeof(record->bytes));
    }
}


/* 1 if what has come is in good order, and the store is there for it. */
static ngx_uint_t
ngx_chat_record_sound(const ngx_chat_record_t *record)
{
    return !record->bytes.failed && record->store->state != CHAT_STORE_AWAY
           && (record->mode != CHAT_RECORD_UNKNOWN
               || record->bytes.len <= NGX_CHAT_RECORD_WAITS);
}


/* Puts the fact that decides, unless another one stands, and asks. */
static void
ngx_chat_record_ask(ngx_chat_record_t *record, chat_record_mode_e mode)
{
    chat_buf_t    told = { 0 };
    chat_arena_t *arena;
    chat_facts_t  facts;
    chat_store_t *store = record->store;

    arena = chat_arena_create(0);
    chat_facts_init(&facts, arena);

    if (arena != NULL && mode != CHAT_RECORD_UNKNOWN) {
        chat_facts_record(&facts, mode);
    }

    if (record->listed) {
        chat_facts_head(&facts, chat_buf_str(&record->head));
        ngx_chat_record_before(record->ctx, &facts, &told);
    }

    store->join(store, &record->op, &record->key, facts.items, facts.count,
                record->ttl);
    chat_buf_free(&told);
    chat_arena_destroy(arena);
}


/* Is it wanted by now? In the end who waited has had the time to say so. */
static void
ngx_chat_record_again(ngx_event_t *ev)
{
    ngx_chat_record_t *record = ev->data;

    record->looks = ngx_exiting ? 0 : record->looks - 1;
    ngx_chat_record_ask(record, record->looks ? CHAT_RECORD_UNKNOWN
                                              : CHAT_RECORD_NONE);
}


/*
 * Nobody wants it as yet. A sibling that was held until a moment ago may not
 * have heard of the claim.
 */
static void
ngx_chat_record_unwanted(ngx_chat_record_t *record)
{
    if (record->looks == 0) {
        ngx_chat_record_free(record);
        return;
    }

    record->timer.handler = ngx_chat_record_again;
    ngx_add_timer(&record->timer, NGX_CHAT_RECORD_LOOK);
}


static void
ngx_chat_record_answered(chat_store_op_t *op, chat_rc_e rc,
                         const chat_fact_t *facts, size_t n)
{
    chat_record_t      said;
    ngx_chat_record_t *record = op->data;

    if (rc != CHAT_OK) {
        ngx_chat_record_clear(record);
        return;
    }

    chat_record_read(facts, n, chat_store_alive, record->store, &said);

    if (said.cleared || said.mode == CHAT_RECORD_NONE) {
        ngx_chat_record_free(record);
        return;
    }

    if (said.mode == CHAT_RECORD_UNKNOWN) {
        ngx_chat_record_unwanted(record);
        return;
    }

    record->mode = said.mode;

    if (!ngx_chat_record_sound(record)) {
        ngx_chat_record_clear(record);
        return;
    }

    ngx_chat_record_write(record);

    if (record->ctx == NULL) {
        ngx_chat_record_free(record);
    }
}


/* 1 if others can be given this answer as it is. */
static ngx_uint_t
ngx_chat_record_plain(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    return !r->header_only && !ctx->swallow
           && r->headers_out.content_encoding == NULL
           && ctx->main->store->state != CHAT_STORE_AWAY;
}


static ngx_chat_record_t *
ngx_chat_record_create(ngx_chat_ctx_t *ctx)
{
    ngx_chat_record_t *record;

    record = ngx_calloc(sizeof(*record), ctx->request->connection->log);
    if (record == NULL) {
        return NULL;
    }

    record->ctx = ctx;
    record->main = ctx->main;
    record->store = ctx->main->store;
    record->max = ctx->conf->record_max;
    record->ttl = (uint32_t) ctx->conf->record_ttl;
    record->op.done = ngx_chat_record_answered;
    record->op.data = record;
    record->timer.data = record;
    record->timer.log = ngx_cycle->log;
    ctx->record = record;

    if (ngx_chat_record_head(ctx, &record->head) != NGX_OK) {
        ngx_chat_record_free(record);
    }

    return ctx->record;
}


void
ngx_chat_record_begin(ngx_chat_ctx_t *ctx)
{
    chat_key_t         key;
    chat_facts_t       facts;
    chat_store_t      *store = ctx->main->store;
    ngx_chat_record_t *record = NULL;

    if (store == NULL || ctx->conf->dry_run || ctx->status >= 300
        || (ctx->attempt == 0 && !ngx_chat_record_wished(ctx)))
    {
        return;
    }

    ngx_chat_record_key(ctx, &key);

    if (ngx_chat_record_wished(ctx) && ngx_chat_record_plain(ctx)) {
        record = ngx_chat_record_create(ctx);
    }

    if (record != NULL) {
        record->key = key;

        if (ctx->listing != NULL) {
            record->listed = 1;
            ctx->listing->recorded = 1;
        }

        record->looks =
            ctx->partial && !record->listed ? NGX_CHAT_RECORD_LOOKS : 0;
        ngx_chat_record_ask(record, record->looks    ? CHAT_RECORD_UNKNOWN
                                    : record->listed ? CHAT_RECORD_KEPT
                                                     : CHAT_RECORD_NONE);
        return;
    }

    /* who waits for it already is to do without, and at once */
    chat_facts_init(&facts, ctx->kept);
    chat_facts_unrecorded(&facts);
    store->join(store, NULL, &key, facts.items, facts.count,
                (uint32_t) ctx->conf->record_ttl);
}


static void
ngx_chat_record_add(ngx_chat_record_t *record, chat_str_t bytes)
{
    chat_buf_add(&record->bytes, bytes);
    record->total += bytes.len;
}


void
ngx_chat_record_pieces(ngx_chat_ctx_t *ctx, const chat_piece_t *pieces,
                       size_t n)
{
    size_t i;

    for (i = 0; ctx->record != NULL && i < n; i++) {
        ngx_chat_record_add(ctx->record, pieces[i].bytes);
    }
}


void
ngx_chat_record_chain(ngx_chat_ctx_t *ctx, ngx_chain_t *in)
{
    ngx_buf_t *b;

    for (; ctx->record != NULL && in != NULL; in = in->next) {
        b = in->buf;

        if (ngx_buf_in_memory(b)) {
            ngx_chat_record_add(ctx->record,
                                chat_str(b->pos, (size_t) (b->last - b->pos)));

        } else if (ngx_buf_size(b) != 0) {
            ngx_chat_record_stop(ctx);
            return;
        }

        if (b->last_buf) {
            ngx_chat_record_end(ctx, 1);
        }
    }

    ngx_chat_record_flush(ctx);
}


void
ngx_chat_record_flush(ngx_chat_ctx_t *ctx)
{
    ngx_chat_record_t *record = ctx->record;

    if (record == NULL || record->over) {
        return;
    }

    if (!ngx_chat_record_sound(record)) {
        ngx_chat_record_clear(record);

    } else if (record->mode != CHAT_RECORD_UNKNOWN) {
        ngx_chat_record_write(record);
    }
}


void
ngx_chat_record_end(ngx_chat_ctx_t *ctx, ngx_uint_t told)
{
    ngx_chat_record_t *record = ctx->record;

    if (record == NULL || record->over) {
        return;
    }

    if (!told || !ngx_chat_record_sound(record)) {
        ngx_chat_record_clear(record);
        return;
    }

    record->over = 1;

    if (record->mode != CHAT_RECORD_UNKNOWN) {
        ngx_chat_record_write(record);
    }
}


void
ngx_chat_record_stop(ngx_chat_ctx_t *ctx)
{
    if (ctx->record != NULL) {
        ngx_chat_record_clear(ctx->record);
    }
}


/* The request is over before its answer is; a listed one says so. */
static void
ngx_chat_record_cut_off(ngx_chat_ctx_t *ctx)
{
    ngx_chat_record_t *record = ctx->record;

    if (!record->listed || record->mode == CHAT_RECORD_UNKNOWN) {
        ngx_chat_record_clear(record);

    } else if (ctx->stream != NULL
               && chat_stream_info(ctx->stream)->end != CHAT_END_NONE)
    {
        ngx_chat_record_end(ctx, 1); /* its last word is there */

    } else {
        ngx_chat_record_free(record);
    }
}


void
ngx_chat_record_close(ngx_chat_ctx_t *ctx)
{
    if (ctx->record != NULL && !ctx->record->over) {
        ngx_chat_record_cut_off(ctx);
    }

    if (ctx->record == NULL) {
        return;
    }

    if (ctx->record->mode != CHAT_RECORD_UNKNOWN) {
        ngx_chat_record_free(ctx->record);
        return;
    }

    /* the store's answer is to come */
    ctx->record->ctx = NULL;
    ctx->record = NULL;
}
