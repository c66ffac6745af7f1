/*
 * ngx_chat_writer.c: writes what a client is sent into the store, for other
 * clients to follow.
 *
 * Whether an answer is recorded is decided when its header passes. It is if
 * it is in the stream index, if its batch is answered in parts, or if a
 * follower has asked for it by then: one fact decides, which the writer or the
 * follower puts first. Until the store has replied, the bytes wait here.
 * A recording that lacks something is cleared, so no follower takes a part for
 * the whole. Promises: the client's own answer never waits for its recording
 * and does not depend on it; what waits is bounded.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_writer.h"
#include "record/ngx_chat_index.h"
#include "metrics/ngx_chat_metrics.h"
#include "facts/chat_conversation.h"

#define NGX_CHAT_WRITER_ENTRY (16 * 1024)   /* bytes of an entry at most */
#define NGX_CHAT_WRITER_WAITS (1024 * 1024) /* until the store has replied */


/* 1 if there may be a recording of the request's answer. */
static ngx_uint_t
ngx_chat_recording_possible(ngx_chat_ctx_t *ctx)
{
    ngx_chat_loc_conf_t *conf = ctx->conf;

    return ctx->main->store != NULL && ctx->dialect != NULL && !conf->dry_run
           && ((ctx->attempt.k != 0 && conf->record != NGX_CHAT_RECORD_OFF)
               || ctx->indexed != NULL);
}


void
ngx_chat_recording_key(ngx_chat_ctx_t *ctx, chat_key_t *key)
{
    u_char          *end;
    chat_key_t       of;
    chat_question_t *q = &ctx->barrier.q;

    if (q->request.len == 0) {
        end = ngx_sprintf(ctx->barrier.id, "%ui", ctx->main->serial++);
        q->request =
            chat_str(ctx->barrier.id, (size_t) (end - ctx->barrier.id));
        q->worker = ctx->main->store->worker;

        q->key.tenant = chat_scope_tenant(&ctx->scope);

        if (chat_batch_record_key(&ctx->scope, &of) == CHAT_OK) {
            q->key.tag = of.tag;
        }
    }

    chat_record_key(&q->key, q->worker, q->request, key);
}


void
ngx_chat_recording_over(chat_store_t *store, const chat_key_t *key,
                        uint32_t ttl)
{
    chat_arena_t *arena;
    chat_facts_t  facts;

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return;
    }

    chat_facts_init(&facts, arena);
    chat_facts_written(&facts);
    store->join(store, NULL, key, facts.items, facts.count, ttl);
    chat_arena_destroy(arena);
}


/* The header lines, as the client gets them. */
static void
ngx_chat_writer_lines(ngx_chat_ctx_t *ctx, chat_buf_t *lines)
{
    chat_buf_t              type = { 0 };
    ngx_table_elt_t        *h;
    ngx_http_request_t     *r = ctx->request;
    ngx_chat_headers_walk_t walk = { &r->headers_out.headers.part, 0 };

    chat_buf_add(&type, chat_str(r->headers_out.content_type.data,
                                 r->headers_out.content_type.len));

    if (r->headers_out.charset.len != 0
        && r->headers_out.content_type_len == r->headers_out.content_type.len)
    {
        chat_buf_puts(&type, "; charset=");
        chat_buf_add(&type, chat_str(r->headers_out.charset.data,
                                     r->headers_out.charset.len));
    }

    if (type.len != 0) {
        chat_record_header(lines, chat_cstr("Content-Type"),
                           chat_buf_str(&type));
    }

    chat_buf_free(&type);

    while ((h = ngx_chat_headers_next(&walk)) != NULL) {
        if (ctx->response.early
                ? ngx_chat_headers_counts(&r->headers_out.headers, h)
                : h->hash != 0)
        {
            chat_record_header(lines, chat_str(h->key.data, h->key.len),
                               chat_str(h->value.data, h->value.len));
        }
    }
}


static ngx_int_t
ngx_chat_writer_head(ngx_chat_ctx_t *ctx, chat_buf_t *out)
{
    chat_rc_e          rc;
    chat_buf_t         lines = { 0 };
    chat_record_head_t head;

    ngx_chat_writer_lines(ctx, &lines);

    head.status = (uint32_t) ctx->request->headers_out.status;
    head.message = ctx->body.rq.last_message.len <= CHAT_ID_MAX
                       ? ctx->body.rq.last_message
                       : chat_str(NULL, 0);
    head.headers = chat_buf_str(&lines);
    rc = lines.failed ? CHAT_ERROR : chat_record_head_write(&head, out);
    chat_buf_free(&lines);

    return rc == CHAT_OK && out->len <= NGX_CHAT_WRITER_ENTRY ? NGX_OK
                                                              : NGX_DECLINED;
}


/* The message as events. CHAT_DECLINED: the answer goes on with none. */
static chat_rc_e
ngx_chat_writer_history(ngx_chat_ctx_t *ctx, chat_buf_t *told)
{
    chat_rc_e       rc = CHAT_ERROR;
    chat_str_t      body = ctx->body.merged;
    chat_arena_t   *arena;
    chat_json_doc_t doc;

    if (body.len == 0) {
        body = chat_str(ctx->body.text.data, ctx->body.text.len);
    }

    arena = chat_arena_create(0);

    if (arena != NULL && chat_json_parse(&doc, arena, body) == CHAT_OK) {
        rc = ctx->dialect->history(&doc, told);
    }

    chat_arena_destroy(arena);
    return rc;
}


static void
ngx_chat_writer_preamble(ngx_chat_ctx_t *ctx, chat_facts_t *facts,
                         chat_buf_t *told)
{
    chat_rc_e rc;

    if (ctx->dialect->history == NULL
        || ctx->body.rq.class == CHAT_CLASS_FRESH) {
        return;
    }

    rc = ngx_chat_writer_history(ctx, told);

    if (rc == CHAT_DECLINED) {
        return;
    }

    if (rc != CHAT_OK || told->len > ctx->conf->max_result) {
        ngx_log_error(NGX_LOG_INFO, ctx->request->connection->log, 0,
                      "chat: the message that the answer goes on with is too "
                      "long to be kept, the answer cannot be resumed");
        told->len = 0;
    }

    chat_facts_before(facts, chat_buf_str(told));
}


static void
ngx_chat_writer_free(ngx_chat_writer_t *writer)
{
    if (writer->ctx != NULL) {
        writer->ctx->writer = NULL;
    }

    writer->store->cancel(&writer->op);

    if (writer->indexed) {
        ngx_chat_recording_over(writer->store, &writer->key, writer->ttl);
    }

    if (writer->timer.timer_set) {
        ngx_del_timer(&writer->timer);
    }

    if (writer->position != 0) {
        ngx_chat_metrics_record(writer->main, -1, -(ngx_int_t) writer->written,
                                0);
    }

    chat_buf_free(&writer->head);
    chat_buf_free(&writer->bytes);
    ngx_free(writer);
}


/* What is in the store is not the whole. */
static void
ngx_chat_writer_clear(ngx_chat_writer_t *writer)
{
    writer->store->clear(writer->store, &writer->key, writer->ttl);
    ngx_chat_writer_free(writer);
}


static void
ngx_chat_writer_put(ngx_chat_writer_t *writer, chat_str_t bytes, int last)
{
    chat_store_t *store = writer->store;

    store->append(store, &writer->key, writer->position, bytes, last,
                  writer->keep, writer->ttl);

    ngx_chat_metrics_record(writer->main, writer->position == 0,
                            (ngx_int_t) bytes.len, 0);

    writer->position++;
    writer->written += bytes.len;
    writer->since += bytes.len;

    /* at least the last half of max is always there */
    if (writer->since >= writer->max / 2) {
        writer->keep = writer->later;
        writer->later = writer->position;
        writer->since = 0;
    }
}


/* A piece of what the client is sent, behind the count of what was before. */
static void
ngx_chat_writer_entry(ngx_chat_writer_t *writer, chat_str_t bytes, int last)
{
    int        ended;
    size_t     n;
    chat_buf_t piece = { 0 };

    chat_count_write(&writer->count, &piece);
    chat_buf_add(&piece, bytes);

    if (!piece.failed) {
        ngx_chat_writer_put(writer, chat_buf_str(&piece), last);
    } else {
        writer->position++; /* a hole, which its readers see */
    }

    chat_buf_free(&piece);

    while (bytes.len != 0) {
        n = chat_count_frame(&writer->count, bytes, &ended);
        bytes = chat_str(bytes.data + n, bytes.len - n);
    }
}


/* Nothing has come for long: what is there is not to run out meanwhile. */
static void
ngx_chat_writer_silent(ngx_event_t *ev)
{
    ngx_chat_writer_t *writer = ev->data;

    if (!writer->over) {
        ngx_chat_writer_entry(writer, chat_str(NULL, 0), 0);
        ngx_add_timer(ev, (ngx_msec_t) writer->ttl * 500);
    }
}


/* Writes what there is, in pieces that end where events end. */
static void
ngx_chat_writer_write(ngx_chat_writer_t *writer)
{
    int        last;
    size_t     n;
    chat_str_t rest = chat_buf_str(&writer->bytes);

    if (writer->position == 0) {
        ngx_chat_writer_put(writer, chat_buf_str(&writer->head), 0);
        chat_buf_free(&writer->head);
        ngx_memzero(&writer->head, sizeof(writer->head));
    }

    while (rest.len != 0 || writer->over) {
        n = chat_record_cut(rest, NGX_CHAT_WRITER_ENTRY);
        last = writer->over && n == rest.len;
        ngx_chat_writer_entry(writer, chat_str(rest.data, n), last);

        if (last) {
            break;
        }

        rest = chat_str(rest.data + n, rest.len - n);
    }

    writer->bytes.len = 0;
    writer->timer.handler = ngx_chat_writer_silent;
    ngx_add_timer(&writer->timer, (ngx_msec_t) writer->ttl * 500);

    if (writer->bytes.size > NGX_CHAT_WRITER_ENTRY) {
        chat_buf_free(&writer->bytes);
        ngx_memzero(&writer->bytes, sizeof(writer->bytes));
    }
}


/* 1 if what has come is in good order, and the store is there for it. */
static ngx_uint_t
ngx_chat_writer_sound(const ngx_chat_writer_t *writer)
{
    return !writer->bytes.failed
           && writer->store->state != CHAT_STORE_UNAVAILABLE
           && (writer->mode != CHAT_RECORD_UNKNOWN
               || writer->bytes.len <= NGX_CHAT_WRITER_WAITS);
}


/* Puts the fact that decides, unless another one stands, and asks. */
static void
ngx_chat_writer_ask(ngx_chat_writer_t *writer, chat_record_mode_e mode)
{
    chat_buf_t    told = { 0 };
    chat_arena_t *arena;
    chat_facts_t  facts;
    chat_store_t *store = writer->store;

    arena = chat_arena_create(0);
    chat_facts_init(&facts, arena);

    if (arena != NULL) {
        chat_facts_record(&facts, mode);
    }

    if (writer->indexed) {
        chat_facts_head(&facts, chat_buf_str(&writer->head));
        ngx_chat_writer_preamble(writer->ctx, &facts, &told);
    }

    store->join(store, &writer->op, &writer->key, facts.items, facts.count,
                writer->ttl);
    chat_buf_free(&told);
    chat_arena_destroy(arena);
}


static void
ngx_chat_writer_answered(chat_store_op_t *op, chat_rc_e rc,
                         const chat_fact_t *facts, size_t n)
{
    chat_record_t      said;
    ngx_chat_writer_t *writer = op->data;

    if (rc != CHAT_OK) {
        ngx_chat_writer_clear(writer);
        return;
    }

    chat_record_read(facts, n, chat_store_alive, writer->store, &said);

    if (said.cleared || said.mode == CHAT_RECORD_NONE) {
        ngx_chat_writer_free(writer);
        return;
    }

    writer->mode = said.mode;

    if (!ngx_chat_writer_sound(writer)) {
        ngx_chat_writer_clear(writer);
        return;
    }

    ngx_chat_writer_write(writer);

    if (writer->ctx == NULL) {
        ngx_chat_writer_free(writer);
    }
}


/* 1 if others can be given this answer as it is. */
static ngx_uint_t
ngx_chat_writer_plain(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    return !r->header_only && !ctx->response.suppressed
           && r->headers_out.content_encoding == NULL
           && ctx->main->store->state != CHAT_STORE_UNAVAILABLE;
}


static ngx_chat_writer_t *
ngx_chat_writer_create(ngx_chat_ctx_t *ctx, const chat_key_t *key)
{
    ngx_chat_writer_t *writer;

    writer = ngx_calloc(sizeof(*writer), ctx->request->connection->log);
    if (writer == NULL) {
        return NULL;
    }

    writer->ctx = ctx;
    writer->key = *key;
    writer->main = ctx->main;
    writer->store = ctx->main->store;
    writer->max = ctx->conf->record_max;
    writer->ttl = (uint32_t) ctx->conf->record_ttl;
    writer->op.done = ngx_chat_writer_answered;
    writer->op.data = writer;
    writer->timer.data = writer;
    writer->timer.log = ngx_cycle->log;

    if (ngx_chat_writer_head(ctx, &writer->head) != NGX_OK) {
        ngx_chat_writer_free(writer);
        return NULL;
    }

    if (ctx->indexed != NULL) {
        writer->indexed = 1;
        ctx->indexed->recorded = 1;
    }

    ctx->writer = writer;
    ctx->ends[NGX_CHAT_END_WRITER] = ngx_chat_writer_close;
    return writer;
}


/*
 * 1 if it is recorded whether or not a client follows: the client may come
 * back for it, or other requests have brought results of its batch and may be
 * about to hear of the claim.
 */
static ngx_uint_t
ngx_chat_writer_keeps(ngx_chat_ctx_t *ctx)
{
    return ctx->indexed != NULL
           || (ctx->barrier.partial
               && ctx->conf->siblings == NGX_CHAT_SIBLINGS_ATTACH);
}


static void
ngx_chat_writer_begin(ngx_chat_ctx_t *ctx)
{
    chat_key_t         key;
    chat_facts_t       facts;
    chat_store_t      *store = ctx->main->store;
    ngx_chat_writer_t *writer = NULL;

    if (store == NULL || ctx->conf->dry_run || ctx->response.status >= 300
        || (ctx->attempt.k == 0 && !ngx_chat_recording_possible(ctx)))
    {
        return;
    }

    ngx_chat_recording_key(ctx, &key);

    if (ngx_chat_recording_possible(ctx) && ngx_chat_writer_plain(ctx)) {
        writer = ngx_chat_writer_create(ctx, &key);
    }

    if (writer != NULL) {
        ngx_chat_writer_ask(writer, ngx_chat_writer_keeps(ctx)
                                        ? CHAT_RECORD_KEPT
                                        : CHAT_RECORD_NONE);
        return;
    }

    /* followers that wait for a recording learn at once that there is none */
    chat_facts_init(&facts, ctx->kept);
    chat_facts_unrecorded(&facts);
    store->join(store, NULL, &key, facts.items, facts.count,
                (uint32_t) ctx->conf->record_ttl);
}


static void
ngx_chat_writer_add(ngx_chat_writer_t *writer, chat_str_t bytes)
{
    chat_buf_add(&writer->bytes, bytes);
    writer->total += bytes.len;
}


static void
ngx_chat_writer_pieces(ngx_chat_ctx_t *ctx, const chat_piece_t *pieces,
                       size_t n)
{
    size_t i;

    for (i = 0; ctx->writer != NULL && i < n; i++) {
        ngx_chat_writer_add(ctx->writer, pieces[i].bytes);
    }
}


void
ngx_chat_writer_stop(ngx_chat_ctx_t *ctx)
{
    if (ctx->writer != NULL) {
        ngx_chat_writer_clear(ctx->writer);
    }
}


static void
ngx_chat_writer_flush(ngx_chat_ctx_t *ctx)
{
    ngx_chat_writer_t *writer = ctx->writer;

    if (writer == NULL || writer->over) {
        return;
    }

    if (!ngx_chat_writer_sound(writer)) {
        ngx_chat_writer_clear(writer);

    } else if (writer->mode != CHAT_RECORD_UNKNOWN) {
        ngx_chat_writer_write(writer);
    }
}


static void
ngx_chat_writer_end(ngx_chat_ctx_t *ctx, ngx_uint_t told)
{
    ngx_chat_writer_t *writer = ctx->writer;

    if (writer == NULL || writer->over) {
        return;
    }

    if (!told || !ngx_chat_writer_sound(writer)) {
        ngx_chat_writer_clear(writer);
        return;
    }

    writer->over = 1;

    if (writer->mode != CHAT_RECORD_UNKNOWN) {
        ngx_chat_writer_write(writer);
    }
}


static void
ngx_chat_writer_chain(ngx_chat_ctx_t *ctx, ngx_chain_t *in)
{
    ngx_buf_t *b;

    for (; ctx->writer != NULL && in != NULL; in = in->next) {
        b = in->buf;

        if (ngx_buf_in_memory(b)) {
            ngx_chat_writer_add(ctx->writer,
                                chat_str(b->pos, (size_t) (b->last - b->pos)));

        } else if (ngx_buf_size(b) != 0) {
            ngx_chat_writer_stop(ctx);
            return;
        }

        if (b->last_buf) {
            ngx_chat_writer_end(ctx, 1);
        }
    }

    ngx_chat_writer_flush(ctx);
}


/* The request is over before its answer is; a listed one says so. */
static void
ngx_chat_writer_cut_off(ngx_chat_ctx_t *ctx)
{
    ngx_chat_writer_t *writer = ctx->writer;

    if (!writer->indexed || writer->mode == CHAT_RECORD_UNKNOWN) {
        ngx_chat_writer_clear(writer);

    } else if (ctx->response.stream != NULL
               && chat_stream_info(ctx->response.stream)->end != CHAT_END_NONE)
    {
        ngx_chat_writer_end(ctx, 1); /* its last word is there */

    } else {
        ngx_chat_writer_free(writer);
    }
}


void
ngx_chat_writer_close(ngx_chat_ctx_t *ctx)
{
    if (ctx->writer != NULL && !ctx->writer->over) {
        ngx_chat_writer_cut_off(ctx);
    }

    if (ctx->writer == NULL) {
        return;
    }

    if (ctx->writer->mode != CHAT_RECORD_UNKNOWN) {
        ngx_chat_writer_free(ctx->writer);
        return;
    }

    /* the store's answer is to come */
    ctx->writer->ctx = NULL;
    ctx->writer = NULL;
}


static ngx_int_t
ngx_chat_writer_key(ngx_chat_ctx_t *ctx, chat_key_t *key)
{
    if (!ngx_chat_recording_possible(ctx)) {
        return NGX_DECLINED;
    }

    ngx_chat_recording_key(ctx, key);
    return NGX_OK;
}


static ngx_uint_t
ngx_chat_writer_outlives(ngx_chat_ctx_t *ctx)
{
    return ctx->indexed != NULL
           && (ctx->writer == NULL || ctx->writer->total < ctx->writer->max);
}


void
ngx_chat_writer_register(ngx_chat_ctx_t *ctx)
{
    static const ngx_chat_recorder_t recorder = {
        .begin = ngx_chat_writer_begin,
        .pieces = ngx_chat_writer_pieces,
        .chain = ngx_chat_writer_chain,
        .flush = ngx_chat_writer_flush,
        .end = ngx_chat_writer_end,
        .stop = ngx_chat_writer_stop,
        .key = ngx_chat_writer_key,
        .outlives = ngx_chat_writer_outlives,
    };

    ctx->recorder = &recorder;
}
