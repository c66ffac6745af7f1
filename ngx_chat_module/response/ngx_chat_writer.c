/*
 * ngx_chat_writer.c: writes what a client is sent into the store, so that
 * other clients can follow.
 *
 * An answer is recorded if it is in the stream index, if its batch is answered
 * in parts, or if a follower has asked for it before its header came. One fact
 * decides, which the writer puts with those of the answer, or the follower
 * before that; until the store has replied, the bytes wait here. What comes in
 * one turn of the event loop is appended at its end, in entries that end where
 * events end. In a Redis Cluster one append is under way at a time, because
 * the server may reorder those of a slot that moves. A recording that lacks
 * something is cleared, so that no follower takes a part for the whole.
 * Promises: the client's own answer neither waits for its recording nor
 * depends on it; the memory of what waits is bounded.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "response/ngx_chat_filter.h"
#include "metrics/ngx_chat_metrics.h"
#include "facts/chat_conversation.h"
#include "facts/chat_recording.h"
#include "sse/chat_position.h"
#include "store/ngx_chat_store.h"

#define NGX_CHAT_WRITER_BULK (256 * 1024)   /* of one, where many wait */
#define NGX_CHAT_WRITER_FIRST 2048          /* bytes that wait, at first */
#define NGX_CHAT_WRITER_ENTRY (32 * 1024)   /* bytes of an entry at most */
#define NGX_CHAT_WRITER_WAITS (1024 * 1024) /* bytes that wait at most */

/* An answer on its way into the store. It may outlive its request. */
struct ngx_chat_writer_s {
    ngx_chat_ctx_t            *ctx; /* NULL: the request is over */
    ngx_chat_worker_t         *worker;
    chat_store_t              *store;
    const ngx_chat_loc_conf_t *conf;
    chat_store_op_t            op;    /* the decision, then each append */
    chat_key_t                 batch; /* with the decision, and these facts: */
    chat_facts_t               facts;
    chat_str_t                 request; /* of the claim, in facts */
    chat_key_t                 key;
    ngx_event_t                turn;    /* the end of this turn of the loop */
    ngx_event_t                silence; /* half of ttl without bytes */
    chat_buf_t                 head;    /* status and headers, for the facts */
    chat_buf_t                 bytes; /* what waits, behind room for a count */
    size_t                     used;  /* of bytes, what is appended */
    chat_count_t               count; /* of the events that were written */
    chat_count_t               after; /* and with those that wait, if known */
    uint64_t                   position; /* of the next entry */
    uint64_t                   keep; /* entries before it may be forgotten */
    uint64_t                   next_keep;
    size_t                     since_keep; /* bytes written since next_keep */
    size_t                     written;    /* bytes */
    size_t                     most;       /* bytes of an entry */
    uint32_t                   ttl;
    unsigned                   kept : 1;    /* whatever followers want */
    unsigned                   decided : 1; /* it is recorded */
    unsigned                   over : 1;    /* no more bytes come */
    unsigned                   ended : 1;   /* the last entry is appended */
    unsigned                   counted : 1; /* after is known */
};


ngx_uint_t
ngx_chat_writer_is_possible(ngx_chat_ctx_t *ctx)
{
    return ctx->worker->store != NULL && ctx->dialect != NULL
           && !ctx->conf->dry_run
           && ((ctx->attempt.k != 0
                && ctx->conf->record != NGX_CHAT_RECORD_OFF)
               || ctx->indexed != NULL);
}


void
ngx_chat_recording_key(ngx_chat_ctx_t *ctx, chat_key_t *key)
{
    chat_key_t       index;
    chat_question_t *q = &ctx->barrier.q;

    if (q->request.len == 0) {
        ngx_chat_name(ctx);
        q->key.tenant = chat_scope_tenant(&ctx->scope);

        if (chat_conversation_index_key(&ctx->scope, &index) == CHAT_OK) {
            q->key.tag = index.tag;
        }
    }

    chat_recording_key(&q->key, q->worker, q->request, key);
}


void
ngx_chat_recording_over(ngx_chat_worker_t         *worker,
                        const ngx_chat_loc_conf_t *conf, const chat_key_t *key)
{
    chat_fact_t fact = { .field = chat_cstr(CHAT_RECORDING_OVER),
                         .value = chat_cstr("1") };

    worker->store->join(worker->store, NULL, key, &fact, 1,
                        (uint32_t) conf->record_ttl, NULL);
}


static void
end_writer(ngx_chat_writer_t *writer)
{
    chat_metrics_now_t *now = &ngx_chat_metrics_of(writer->worker)->now;

    if (writer->ctx != NULL) {
        writer->ctx->writer = NULL;
    }

    writer->store->cancel(&writer->op);

    if (writer->decided) {
        ngx_chat_recording_over(writer->worker, writer->conf, &writer->key);
    }

    ngx_chat_event_cancel(&writer->turn);
    ngx_chat_event_cancel(&writer->silence);

    if (writer->position != 0) {
        now->streams--;
        now->bytes -= writer->written;
    }

    chat_buf_free(&writer->head);
    chat_buf_free(&writer->bytes);
    chat_arena_destroy(writer->facts.arena);
}


/* Late: a digest that most answers do not need. */
static void
set_key(ngx_chat_writer_t *writer)
{
    if (writer->ctx != NULL) {
        ngx_chat_recording_key(writer->ctx, &writer->key);
    } else {
        chat_recording_key(&writer->batch, writer->store->worker,
                           writer->request, &writer->key);
    }
}


/* What is in the store is not the whole. */
static void
clear(ngx_chat_writer_t *writer)
{
    if (!writer->decided) {
        set_key(writer);
    }

    writer->store->clear(writer->store, &writer->key, writer->ttl);
    end_writer(writer);
}


static void
append(ngx_chat_writer_t *writer, chat_str_t entry, int last)
{
    chat_metrics_now_t *now = &ngx_chat_metrics_of(writer->worker)->now;

    writer->store->append(writer->store, &writer->op, &writer->key,
                          writer->position, entry, last, writer->keep,
                          writer->ttl);

    now->streams += writer->position == 0;
    now->bytes += entry.len;
    writer->position++;
    writer->written += entry.len;
    writer->since_keep += entry.len;

    /* at least the last half of max is always there */
    if (writer->since_keep >= writer->conf->record_max / 2) {
        writer->keep = writer->next_keep;
        writer->next_keep = writer->position;
        writer->since_keep = 0;
    }
}


/* Adds to the bytes that wait, with room for a count in front of them. */
static void
add_bytes(ngx_chat_writer_t *writer, chat_str_t bytes)
{
    static const u_char room[CHAT_COUNT_ROOM];

    if (writer->bytes.len == 0) {
        chat_buf_add(&writer->bytes, chat_str(room, sizeof(room)));
    }

    chat_buf_add(&writer->bytes, bytes);
}


/* The bytes that wait; the count of an entry is written in front of them. */
static chat_str_t
waiting(const ngx_chat_writer_t *writer)
{
    size_t past = CHAT_COUNT_ROOM + writer->used;

    return writer->bytes.len < past
               ? chat_str(NULL, 0)
               : chat_str(writer->bytes.data + past, writer->bytes.len - past);
}


/* Frees the room of what has been appended. */
static void
compact(ngx_chat_writer_t *writer)
{
    chat_str_t rest = waiting(writer);

    if (rest.len > writer->used) {
        return;
    }

    ngx_memmove(writer->bytes.data + CHAT_COUNT_ROOM, rest.data, rest.len);
    writer->bytes.len = rest.len != 0 ? CHAT_COUNT_ROOM + rest.len : 0;
    writer->used = 0;

    if (rest.len == 0 && writer->bytes.size > 2 * NGX_CHAT_WRITER_ENTRY) {
        chat_buf_free(&writer->bytes);
    }
}


/*
 * Appends what waits, until an append is under way, in entries that begin with
 * the count of the events before them. Where nothing waits, an empty entry if
 * it is the last one, or silent: so that a long silence does not let the
 * recording expire.
 */
static void
write_entries(ngx_chat_writer_t *writer, ngx_uint_t silent)
{
    size_t     n;
    u_char    *entry, *p;
    chat_str_t rest;

    add_bytes(writer, chat_str(NULL, 0));

    if (writer->bytes.failed) {
        return; /* flush() gives the recording up */
    }

    while (writer->op.store == NULL) {
        rest = waiting(writer);
        if (rest.len == 0 && (!writer->over || writer->ended) && !silent) {
            break;
        }

        n = chat_recording_cut(rest, writer->most);
        writer->ended = writer->over && n == rest.len;

        /* over the end of the entry before */
        p = writer->bytes.data + CHAT_COUNT_ROOM + writer->used;
        entry = chat_count_write(&writer->count, p);

        if (writer->counted && n == rest.len) {
            writer->count = writer->after;
        } else {
            (void) chat_count_to(&writer->count, chat_str(p, n), UINT64_MAX);
        }

        append(writer, chat_str(entry, (size_t) (p - entry) + n),
               writer->ended);

        writer->used += n;
        silent = 0;
    }

    compact(writer);
    ngx_add_timer(&writer->silence, (ngx_msec_t) writer->ttl * 500);
}


/* Writes what waits. NGX_DECLINED: it has given up, and freed the writer. */
static ngx_int_t
flush(ngx_chat_writer_t *writer)
{
    ngx_uint_t failed =
        writer->head.failed || writer->store->state == CHAT_STORE_UNAVAILABLE;

    if (writer->decided && !failed) {
        write_entries(writer, 0);
    }

    if (failed || writer->bytes.failed
        || waiting(writer).len > NGX_CHAT_WRITER_WAITS)
    {
        clear(writer);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


/* Ends the writer, once its request is over and all is in the store. */
static void
end_if_written(ngx_chat_writer_t *writer)
{
    if (writer->ctx == NULL && writer->decided && writer->op.store == NULL) {
        end_writer(writer);
    }
}


/* The last append has ended. */
static void
on_appended(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts,
            size_t n)
{
    ngx_chat_writer_t *writer = op->data;

    if (rc != CHAT_OK) {
        clear(writer);
        return;
    }

    /* the more waits for a reply, the larger the next entry is */
    writer->most = ngx_min(NGX_CHAT_WRITER_BULK, writer->conf->record_max / 4);

    if (flush(writer) == NGX_OK) {
        end_if_written(writer);
    }
}


static void
on_turn(ngx_event_t *ev)
{
    ngx_chat_writer_t *writer = ev->data;

    if (waiting(writer).len != 0) {
        (void) flush(writer);
    }
}


static void
on_silence(ngx_event_t *ev)
{
    ngx_chat_writer_t *writer = ev->data;

    if (writer->ctx != NULL && !writer->over) {
        write_entries(writer, 1);
    }
}


/* Makes the head: status and header lines, as the client gets them. */
static void
make_head(ngx_chat_writer_t *writer)
{
    chat_buf_t            type = { 0 }, lines = { 0 };
    ngx_chat_ctx_t       *ctx = writer->ctx;
    ngx_http_request_t   *r = ctx->request;
    chat_recording_head_t head;

    chat_buf_add(&type, ngx_chat_str(&r->headers_out.content_type));

    if (r->headers_out.charset.len != 0
        && r->headers_out.content_type_len == r->headers_out.content_type.len)
    {
        chat_buf_format(&type, "; charset=%v",
                        ngx_chat_str(&r->headers_out.charset));
    }

    if (type.len != 0) {
        chat_recording_header(&lines, chat_cstr("Content-Type"),
                              chat_buf_str(&type));
    }

    chat_buf_free(&type);
    ngx_chat_answer_lines(r, 0, &lines);

    head.status = (uint32_t) r->headers_out.status;
    head.message = ctx->body.rq.last_message.len <= CHAT_ID_MAX
                       ? ctx->body.rq.last_message
                       : chat_str(NULL, 0);
    head.headers = chat_buf_str(&lines);
    writer->head.failed |=
        lines.failed
        || chat_recording_head_write(&head, &writer->head) != CHAT_OK
        || writer->head.len > NGX_CHAT_WRITER_ENTRY;
    chat_buf_free(&lines);
}


/*
 * Adds what a client that resumes gets before the first event: the message
 * that the answer goes on with.
 */
static void
add_preamble(ngx_chat_ctx_t *ctx, chat_facts_t *facts)
{
    chat_rc_e       rc = CHAT_ERROR;
    chat_buf_t      events = { 0 };
    chat_str_t      body = ctx->body.merged, preamble = { NULL, 0 };
    chat_json_doc_t doc;

    if (ctx->dialect->history == NULL
        || ctx->body.rq.class == CHAT_CLASS_FRESH) {
        return;
    }

    if (body.len == 0) {
        body = ngx_chat_str(&ctx->body.text);
    }

    if (chat_json_parse(&doc, facts->arena, body) == CHAT_OK) {
        rc = ctx->dialect->history(&doc, &events);
    }

    if (rc == CHAT_DECLINED) {
        chat_buf_free(&events);
        return; /* it goes on with none */
    }

    if (rc != CHAT_OK || events.len > ctx->conf->max_result) {
        ngx_log_error(NGX_LOG_INFO, ctx->request->connection->log, 0,
                      "chat: the message that the answer continues exceeds "
                      "\"result=\" of \"chat_limits\", the answer cannot be "
                      "resumed");
        chat_buf_free(&events);
    }

    facts->failed |=
        chat_buf_move(&events, facts->arena, &preamble) != CHAT_OK;
    chat_facts_put(facts, CHAT_RECORDING_BEFORE, "1");
    chat_facts_payload(facts, preamble);
}


/* Begins the recording with its head. The writer may be freed. */
static void
begin(ngx_chat_writer_t *writer)
{
    chat_facts_t  facts;
    chat_arena_t *arena = chat_arena_create(0);
    chat_store_t *store = writer->store;

    if (writer->ctx != NULL && writer->head.len == 0) {
        make_head(writer);
    }

    chat_facts_init(&facts, arena);
    chat_facts_add(&facts, CHAT_RECORDING_HEAD, chat_buf_str(&writer->head));

    if (writer->kept && writer->ctx->indexed != NULL && !facts.failed) {
        add_preamble(writer->ctx, &facts);
    }

    set_key(writer);
    writer->decided = 1;
    writer->op.done = on_appended;
    writer->head.failed |= facts.failed;

    if (!writer->head.failed) {
        /* where a follower waits, the first entry does not */
        store->join(store, writer->kept ? &writer->op : NULL, &writer->key,
                    facts.items, facts.count, writer->ttl, NULL);
    }

    chat_arena_destroy(arena);

    if (flush(writer) == NGX_OK) {
        end_if_written(writer);
    }
}


/* If another value stands for the fact, a follower has put it first. */
static void
on_decided(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts,
           size_t n)
{
    ngx_chat_writer_t  *writer = op->data;
    const chat_facts_t *put = &writer->facts;
    const chat_fact_t  *own = &put->items[0];

    while (n > 0
           && (!chat_str_eq(facts[n - 1].field, own->field)
               || chat_str_eq(facts[n - 1].value, own->value)))
    {
        n--;
    }

    if (rc == CHAT_OK && n == 0) {
        end_writer(writer);
        return;
    }

    if (rc != CHAT_OK) {
        /* the answer must stand: a join that nothing awaits is kept */
        writer->store->join(writer->store, NULL, &writer->batch, put->items,
                            put->count, writer->worker->ttl, NULL);
        writer->head.failed = 1;
    }

    begin(writer);
}


/* The request is over. */
static void
close_writer(ngx_chat_ctx_t *ctx)
{
    ngx_chat_writer_t *writer = ctx->writer;

    if (writer == NULL) {
        return;
    }

    if (!writer->over && ctx->indexed == NULL) {
        clear(writer);
        return;
    }

    if (!writer->over) {
        /* a client that resumes gets what there is */
        writer->over =
            ctx->response.stream != NULL
            && chat_stream_info(ctx->response.stream)->end != CHAT_END_NONE;

        if (flush(writer) != NGX_OK) {
            return;
        }
    }

    writer->ctx = NULL;
    ctx->writer = NULL;
    end_if_written(writer);
}


void
ngx_chat_writer_begin(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t    indexed = ctx->indexed != NULL;
    ngx_uint_t    encoded = ctx->request->headers_out.content_encoding != NULL;
    chat_arena_t *arena = NULL;
    ngx_chat_writer_t *writer;

    /* it is cleared, so that clients that resume learn at once of that */
    if (ngx_chat_writer_is_possible(ctx) && (indexed || !encoded)) {
        arena = chat_arena_create(0);
    }

    writer = arena ? chat_arena_alloc(arena, sizeof(*writer)) : NULL;
    if (writer == NULL) {
        chat_arena_destroy(arena);
        return;
    }

    chat_facts_init(&writer->facts, arena);
    (void) chat_buf_reserve(&writer->bytes, NGX_CHAT_WRITER_FIRST);
    writer->ctx = ctx;
    writer->worker = ctx->worker;
    writer->store = ctx->worker->store;
    writer->conf = ctx->conf;

    if (writer->store->expect != NULL) { /* it joins its decision soon */
        writer->store->expect(writer->store, &ctx->barrier.q.key);
    }

    writer->most = NGX_CHAT_WRITER_ENTRY;
    writer->ttl = (uint32_t) ctx->conf->record_ttl;
    writer->head.failed = encoded & 1;
    writer->op.done = on_decided;
    writer->op.data = writer;
    writer->op.brief = 1;
    ngx_chat_event_set(&writer->turn, on_turn, writer, ngx_cycle->log);
    ngx_chat_event_set(&writer->silence, on_silence, writer, ngx_cycle->log);

    ctx->response.recorded = 1;
    ctx->writer = writer;
    ctx->cleanups[NGX_CHAT_CLEANUP_WRITER] = close_writer;

    /* its client may resume it, or other requests have carried results of its
       batch and may be about to learn of the claim */
    writer->kept = (indexed || ctx->barrier.partial) & 1;

    if (writer->kept) {
        begin(writer);
    }
}


ngx_uint_t
ngx_chat_writer_decide(ngx_chat_ctx_t *ctx, chat_attempt_t *attempt)
{
    chat_facts_t      *facts;
    ngx_chat_writer_t *writer = ctx->writer;

    attempt->recording = writer == NULL ? CHAT_RECORDING_IMPOSSIBLE
                         : writer->kept ? CHAT_RECORDING_KEPT
                                        : CHAT_RECORDING_NONE;
    if (attempt->recording != CHAT_RECORDING_NONE) {
        return 0;
    }

    facts = &writer->facts;
    writer->batch = ctx->barrier.q.key;
    chat_facts_attempt(facts, attempt);

    if (facts->failed
        || chat_arena_dup(facts->arena, ctx->barrier.q.request,
                          &writer->request)
               != CHAT_OK)
    {
        /* a follower that has asked must not wait for it */
        clear(writer);
        attempt->recording = CHAT_RECORDING_IMPOSSIBLE;
        return 0;
    }

    writer->store->join(writer->store, &writer->op, &writer->batch,
                        facts->items, facts->count, writer->worker->ttl, NULL);

    if (!ngx_chat_store_deliver(&writer->op)) {
        make_head(writer); /* the request may end before the reply */
    }

    return 1;
}


void
ngx_chat_writer_add(ngx_chat_ctx_t *ctx, const chat_piece_t *pieces, size_t n)
{
    size_t             i, len = 0;
    ngx_chat_writer_t *writer = ctx->writer;

    if (writer == NULL || writer->over) {
        return;
    }

    for (i = 0; i < n; i++) {
        len += pieces[i].bytes.len;
    }

    if (writer->bytes.len + len
            > (writer->decided ? NGX_CHAT_WRITER_ENTRY : NGX_CHAT_WRITER_WAITS)
        && flush(writer) != NGX_OK)
    {
        return;
    }

    for (i = 0; i < n; i++) {
        add_bytes(writer, pieces[i].bytes);
    }

    writer->counted =
        ctx->response.stream != NULL
        && chat_stream_sent(ctx->response.stream, &writer->after);
    ngx_post_event(&writer->turn, &ngx_posted_events);
}


void
ngx_chat_writer_end(ngx_chat_ctx_t *ctx, ngx_uint_t is_complete)
{
    ngx_chat_writer_t *writer = ctx->writer;

    if (writer != NULL && !is_complete) {
        clear(writer);

    } else if (writer != NULL && !writer->over) {
        writer->over = 1;
        (void) flush(writer);
    }
}


ngx_uint_t
ngx_chat_writer_outlives(ngx_chat_ctx_t *ctx)
{
    return ctx->indexed != NULL
           && (ctx->writer == NULL
               || ctx->writer->written < ctx->writer->conf->record_max);
}
