/*
 * ngx_chat_resume.c: chat_resume, the content handler of clients that come
 * back for an answer: GET continues it, DELETE stops it.
 *
 * The conversation's index names the stream. While a continuation is held the
 * client waits for its answer. Before the first event the client gets the
 * preamble: the message that the answer goes on with, and the results that
 * calls of the stream have by now. Then it follows the stream.
 * Promises: another tenant's conversation is as one that has no streams;
 * nothing goes upstream from here; no event fires once the client has left;
 * nothing is sent before it is known whether the client lacks something.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "endpoint/ngx_chat_endpoint.h"
#include "facts/chat_conversation.h"
#include "record/ngx_chat_follow.h"
#include "record/ngx_chat_index.h"
#include "store/ngx_chat_ask.h"

#define NGX_CHAT_RESUME_TICK 2000  /* ms between looks, while it waits */
#define NGX_CHAT_RESUME_GRACE 2000 /* ms for a page to send again */

struct ngx_chat_resume_s {
    ngx_chat_ask_t  ask;
    chat_key_t      index;                /* of the conversation */
    chat_key_t      recording;            /* of the stream */
    chat_key_t      batch;                /* that the stream has opened */
    chat_position_t place;                /* where the client goes on */
    char            seen[CHAT_LISTED_ID]; /* the stream of the last look */

    /* while it waits for a request that is held */
    chat_store_watch_t watch;
    ngx_chat_timer_t   timer;
    ngx_msec_t         until; /* of the wait, if no request is held by then */
    char               before[CHAT_LISTED_ID]; /* the newest stream when the
                                                  wait began */
    unsigned           named : 1;   /* the client has named the stream */
    unsigned           running : 1; /* it wants none that has ended */
    unsigned           waits : 1;   /* for a request that is held */
    unsigned           again : 1;   /* notified while asking */
    unsigned           unsure : 1;  /* the next look may find another stream */
    unsigned           opened : 1;  /* batch is set */
};


static void ask_index(ngx_chat_ctx_t *ctx);
static void on_index(ngx_chat_ask_t *ask, chat_rc_e rc,
                     const chat_fact_t *facts, size_t n);


static void
send_nothing(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    r->headers_out.status = NGX_HTTP_NO_CONTENT;
    r->headers_out.content_length_n = 0;
    r->header_only = 1;
    ngx_chat_follow_end(ctx, ngx_http_send_header(r));
}


/* What a content handler returns, or a request is finalized with. */
static ngx_int_t
refuse(ngx_http_request_t *r, ngx_uint_t status, const char *code,
       const char *field, const char *message)
{
    chat_external_refusal_t refusal = { 0 };

    refusal.status = (unsigned) status;
    refusal.code = code;
    refusal.field = field;
    refusal.message = message;
    return ngx_chat_endpoint_refuse(r, &refusal);
}


static void
store_failed(ngx_chat_ctx_t *ctx)
{
    ngx_chat_follow_end(ctx, ngx_chat_endpoint_away(ctx->request));
}


/* 404 to a client that has named a stream, else 204. */
static void
no_stream(ngx_chat_ctx_t *ctx)
{
    if (!ctx->resume->named) {
        send_nothing(ctx);
        return;
    }

    ngx_chat_follow_end(ctx, refuse(ctx->request, NGX_HTTP_NOT_FOUND,
                                    "unknown_stream", NULL,
                                    "this conversation has no such stream"));
}


/* Reads the index now, or after the reply in flight. */
static void
look_again(ngx_chat_ctx_t *ctx)
{
    ngx_chat_resume_t *resume = ctx->resume;

    resume->again = ngx_chat_ask_is_due(&resume->ask);

    if (!resume->again) {
        ask_index(ctx);
    }
}


static void
on_notify(chat_store_watch_t *watch)
{
    look_again(watch->data);
}


/* The store does not notify of a worker that was killed. */
static void
on_timer(ngx_chat_ctx_t *ctx)
{
    ngx_chat_timer(ctx, &ctx->resume->timer, NGX_CHAT_RESUME_TICK, on_timer);
    look_again(ctx);
}


/* A request is held: the client waits for its answer. */
static void
wait_for_held(ngx_chat_ctx_t *ctx, const chat_listed_t *newest)
{
    ngx_chat_resume_t *resume = ctx->resume;

    if (resume->waits) {
        if (resume->again) {
            look_again(ctx);
        }
        return;
    }

    resume->waits = 1;
    if (newest != NULL) {
        ngx_memcpy(resume->before, newest->id.data, CHAT_LISTED_ID);
    }

    ngx_chat_timer(ctx, &resume->timer, NGX_CHAT_RESUME_TICK, on_timer);

    resume->watch.notify = on_notify;
    resume->watch.data = ctx;
    ngx_chat_ask(ctx, &resume->ask, &resume->watch, &resume->index, NULL,
                 on_index);
}


static void
stop_waiting(ngx_chat_resume_t *resume)
{
    if (resume->watch.store != NULL) {
        resume->watch.store->unwatch(&resume->watch);
    }

    ngx_chat_event_cancel(&resume->timer.event);
    resume->waits = 0;
}


/*
 * 1 if the client waits for the answer of a request that is held: it has not
 * said what it has, and no stream runs that could be meant.
 */
static ngx_uint_t
must_wait(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n,
          const chat_listed_t *newest)
{
    chat_store_t      *store = ctx->worker->store;
    chat_listed_t      held;
    ngx_chat_resume_t *resume = ctx->resume;

    if (resume->named || resume->place.given) {
        return 0;
    }

    if (resume->waits && newest != NULL
        && ngx_memcmp(newest->id.data, resume->before, CHAT_LISTED_ID) != 0)
    {
        /* that answer: it is given even if it has ended by now */
        resume->running = 0;
        return 0;
    }

    if (ngx_exiting
        || (newest != NULL && newest->end == CHAT_END_NONE && !newest->stopped
            && chat_store_alive(store, newest->worker)))
    {
        return 0;
    }

    if (chat_listed_running(facts, n, CHAT_LISTED_HOLD, chat_str(NULL, 0),
                            chat_store_alive, store, &held)
        == CHAT_OK)
    {
        resume->until =
            ngx_current_msec + NGX_CHAT_RESUME_TICK + NGX_CHAT_RESUME_GRACE;
        return 1;
    }

    /* after a bounce a page sends its request again at once */
    return resume->waits
           && (ngx_msec_int_t) (resume->until - ngx_current_msec) > 0;
}


/* The results of the batch have been read. */
static void
on_results(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
           size_t n)
{
    size_t          count = 0;
    chat_result_t  *results = NULL;
    ngx_chat_ctx_t *ctx = ask->ctx;

    if (rc == CHAT_OK) {
        results = chat_follow_results(facts, n, ctx->kept, &count);
    }

    ngx_chat_follow_answer(ctx, chat_str(NULL, 0), results, count);
}


/* The facts of the batch have been read. */
static void
on_batch(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    size_t          count = 0;
    ngx_chat_ctx_t *ctx = ask->ctx;
    chat_str_t     *fields =
        rc == CHAT_OK ? chat_follow_fields(facts, n, ctx->kept, &count) : NULL;

    if (fields != NULL) {
        ngx_chat_ask_payloads(ctx, ask, &ctx->resume->batch, fields, count,
                              on_results);
    } else {
        ngx_chat_follow_answer(ctx, chat_str(NULL, 0), NULL, 0);
    }
}


static void
ask_results(ngx_chat_ctx_t *ctx)
{
    ngx_chat_resume_t *resume = ctx->resume;

    if (resume->opened && ctx->dialect->resolve_pending != NULL) {
        ngx_chat_ask(ctx, &resume->ask, NULL, &resume->batch, NULL, on_batch);
    } else {
        ngx_chat_follow_answer(ctx, chat_str(NULL, 0), NULL, 0);
    }
}


/* The message that the answer goes on with has been read, if any. */
static void
on_preamble(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
            size_t n)
{
    chat_str_t      events = { NULL, 0 };
    ngx_chat_ctx_t *ctx = ask->ctx;

    if (rc != CHAT_OK) {
        store_failed(ctx);

    } else if (n != 0
               && (facts[0].payload.len == 0
                   || chat_arena_dup(ctx->kept, facts[0].payload, &events)
                          != CHAT_OK))
    {
        send_nothing(ctx);

    } else {
        ctx->response.injected = events;
        ask_results(ctx);
    }
}


static void
ask_preamble(ngx_chat_ctx_t *ctx)
{
    chat_str_t         field = CHAT_STR(CHAT_RECORDING_BEFORE);
    ngx_chat_resume_t *resume = ctx->resume;

    ctx->follow->on_reader = NULL;
    ctx->response.injected.len = 0;

    if (ctx->dialect->history != NULL && !resume->place.given) {
        ngx_chat_ask_payloads(ctx, &resume->ask, &resume->recording, &field, 1,
                              on_preamble);
    } else {
        ask_results(ctx);
    }
}


/* More is known of the recording. */
static void
on_reader(ngx_chat_ctx_t *ctx)
{
    ngx_uint_t               is_empty;
    ngx_chat_chunk_t        *chunk;
    ngx_chat_resume_t       *resume = ctx->resume;
    const ngx_chat_reader_t *reader = ctx->follow->follower.reader;

    is_empty = ngx_chat_cursor_next(&ctx->follow->follower.cursor,
                                    &reader->chunks, &chunk)
               == NGX_AGAIN;

    /* is there more to come, or is what it has all that there is? */
    if (ngx_chat_reader_is_open(reader) && !reader->is_live && is_empty) {
        return;
    }

    if (reader->has_failed) {
        store_failed(ctx);

    } else if (reader->state == NGX_CHAT_READER_NONE && resume->unsure) {
        /* it never went upstream: the answer before it counts */
        ngx_chat_follow_leave(ctx);
        ask_index(ctx);

    } else if (reader->state == NGX_CHAT_READER_NONE
               || (reader->state == NGX_CHAT_READER_COMPLETE
                   && resume->place.after != 0 && is_empty))
    {
        send_nothing(ctx);

    } else {
        ask_preamble(ctx);
    }
}


static void
follow_stream(ngx_chat_ctx_t *ctx, const chat_listed_t *stream)
{
    ngx_chat_resume_t *resume = ctx->resume;
    ngx_chat_source_t  source;

    resume->recording = resume->index;
    resume->recording.name = stream->name;

    source.key = resume->recording;
    source.worker = stream->worker;
    source.ended = stream->end != CHAT_END_NONE;

    if (ngx_chat_follow_stream(ctx, &source, resume->place.after) != NGX_OK) {
        ngx_chat_follow_end(ctx, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    ctx->follow->on_reader = on_reader;
    on_reader(ctx);
}


static void
resume_stream(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n)
{
    chat_listed_t        stream;
    chat_indexed_batch_t batch;
    ngx_chat_resume_t   *resume = ctx->resume;
    chat_rc_e rc = chat_listed_find(facts, n, resume->place.stream, &stream);

    if (must_wait(ctx, facts, n, rc == CHAT_OK ? &stream : NULL)) {
        wait_for_held(ctx, rc == CHAT_OK ? &stream : NULL);
        return;
    }

    stop_waiting(resume);

    if (rc != CHAT_OK) {
        no_stream(ctx);
        return;
    }

    ctx->dialect = chat_dialect_find(stream.dialect);

    /* a page that asks for "running" keeps answers that have ended */
    if (ctx->dialect == NULL
        || (resume->running
            && (stream.stopped
                || (stream.end != CHAT_END_NONE
                    && stream.end != CHAT_END_INTERRUPTED))))
    {
        send_nothing(ctx);
        return;
    }

    resume->unsure =
        stream.end == CHAT_END_NONE && !resume->named
        && ngx_memcmp(stream.id.data, resume->seen, CHAT_LISTED_ID) != 0;
    ngx_memcpy(resume->seen, stream.id.data, CHAT_LISTED_ID);

    /* an older batch is of a step before, and ids may repeat */
    if (chat_batch_newest(facts, n, &batch) == CHAT_OK
        && batch.ms >= stream.ms) {
        resume->batch.tag = resume->index.tag;
        resume->batch.name = batch.names[0];
        resume->opened = 1;
    }

    follow_stream(ctx, &stream);
}


/* The store has the wish to stop the stream. */
static void
on_stop_joined(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
               size_t n)
{
    if (rc == CHAT_OK) {
        send_nothing(ask->ctx);
    } else {
        store_failed(ask->ctx);
    }
}


static void
stop_stream(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n)
{
    chat_str_t         id = ctx->resume->place.stream;
    chat_facts_t       put;
    chat_listed_t      stream;
    ngx_chat_resume_t *resume = ctx->resume;

    if (id.len != 0 && chat_listed_find(facts, n, id, &stream) != CHAT_OK) {
        no_stream(ctx);

    } else if (chat_listed_running(facts, n, CHAT_LISTED_STREAM, id,
                                   chat_store_alive, ctx->worker->store,
                                   &stream)
               != CHAT_OK)
    {
        send_nothing(ctx);

    } else {
        chat_facts_init(&put, ctx->kept);
        chat_facts_stop(&put, stream.id);
        ngx_chat_ask(ctx, &resume->ask, NULL, &resume->index, &put,
                     on_stop_joined);
    }
}


/* The index of the conversation has been read. */
static void
on_index(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    ngx_chat_ctx_t *ctx = ask->ctx;

    if (rc != CHAT_OK) {
        store_failed(ctx);

    } else if (ctx->request->method == NGX_HTTP_DELETE) {
        stop_stream(ctx, facts, n);

    } else {
        resume_stream(ctx, facts, n);
    }
}


static void
ask_index(ngx_chat_ctx_t *ctx)
{
    ctx->resume->again = 0;
    ngx_chat_ask(ctx, &ctx->resume->ask, NULL, &ctx->resume->index, NULL,
                 on_index);
}


/*
 * Where the client goes on: Last-Event-ID, which a client that connects again
 * by itself renews, before the arguments, which it does not. NGX_DECLINED:
 * that is no place.
 */
static ngx_int_t
read_place(ngx_http_request_t *r, chat_position_t *place)
{
    chat_str_t       text, stream;
    ngx_table_elt_t *h = NULL;

    if (r->method != NGX_HTTP_DELETE) {
        h = ngx_chat_headers_find(&r->headers_in.headers, "last-event-id");
    }

    text = h != NULL && h->value.len != 0 ? ngx_chat_str(&h->value)
                                          : ngx_chat_endpoint_arg(r, "after");

    if (text.len != 0 && chat_position_read(text, place) != CHAT_OK) {
        return NGX_DECLINED;
    }

    stream = ngx_chat_endpoint_arg(r, "stream");

    if (stream.len == 0 || place->stream.len != 0) {
        return NGX_OK;
    }

    place->stream = stream;
    return chat_listed_is_id(stream) ? NGX_OK : NGX_DECLINED;
}


/* What the header alone decides; NGX_OK: nothing. */
static ngx_int_t
check_request(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf,
              chat_digest_t *tenant, ngx_str_t *conversation)
{
    ngx_int_t rc = ngx_chat_endpoint_allow(r, NGX_HTTP_GET | NGX_HTTP_DELETE,
                                           "GET, DELETE");

    rc = rc == NGX_OK ? ngx_http_discard_request_body(r) : rc;
    rc = rc == NGX_OK
             ? ngx_chat_endpoint_tenant(r, conf, "a resume is", tenant)
             : rc;

    return rc != NGX_OK ? rc
           : ngx_chat_value(r, conf->resume, conversation) == NGX_OK
               ? NGX_OK
               : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static void
leave(ngx_chat_ctx_t *ctx)
{
    stop_waiting(ctx->resume);
    ngx_chat_ask_cancel(&ctx->resume->ask);
}


/* The context of the request; NULL: no memory. */
static ngx_chat_ctx_t *
create(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf,
       const chat_position_t *place)
{
    ngx_chat_resume_t *resume;
    ngx_chat_ctx_t    *ctx = ngx_chat_get_ctx(r);

    if (ctx != NULL) {
        /* redirected here: its own answer will not come */
        ngx_chat_index_end(ctx);
    }

    ctx = ngx_chat_request_create(r, conf);
    resume = ngx_pcalloc(r->pool, sizeof(*resume));
    if (ctx == NULL || resume == NULL) {
        return NULL;
    }

    ngx_chat_headers_scan(r, &ctx->headers, 0);
    ctx->act.reason = CHAT_REASON_ATTACHED_RESUMED;
    ctx->resume = resume;
    ctx->cleanups[NGX_CHAT_CLEANUP_ENDPOINT] = leave;
    ctx->state = NGX_CHAT_ASKING;
    resume->place = *place;
    resume->named = place->stream.len != 0;
    resume->running = conf->running && !resume->named;
    return ctx;
}


static ngx_int_t
resume_handler(ngx_http_request_t *r)
{
    ngx_str_t            conversation;
    chat_position_t      place = { 0 };
    chat_digest_t        tenant;
    ngx_chat_ctx_t      *ctx;
    ngx_chat_loc_conf_t *conf =
        ngx_http_get_module_loc_conf(r, ngx_chat_module);
    ngx_int_t rc = check_request(r, conf, &tenant, &conversation);

    if (rc != NGX_OK) {
        return rc;
    }

    if (conversation.len == 0) {
        return refuse(r, NGX_HTTP_BAD_REQUEST, "invalid", "conversation",
                      "the conversation is not named");
    }

    if (read_place(r, &place) != NGX_OK) {
        return refuse(r, NGX_HTTP_BAD_REQUEST, "invalid", "after",
                      "this is no place in a stream");
    }

    ctx = create(r, conf, &place);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ctx->scope.tenant = tenant;
    ctx->scope.conversation = ngx_chat_str(&conversation);
    (void) chat_conversation_index_key(&ctx->scope, &ctx->resume->index);

    r->main->count++;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    if (ctx->worker->store == NULL) {
        store_failed(ctx);
    } else {
        ask_index(ctx);
    }

    return NGX_DONE;
}


char *
ngx_chat_conf_resume(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                 *rc;
    ngx_str_t            *value = cf->args->elts;
    ngx_command_t         slot = *cmd;
    ngx_chat_loc_conf_t  *lcf = conf;
    ngx_chat_main_conf_t *mcf;

    if (cf->args->nelts == 3 && ngx_strcmp(value[2].data, "running") != 0) {
        return ngx_chat_conf_invalid(cf, &value[2], "running");
    }

    rc = ngx_chat_endpoint_set(cf, cmd, lcf, resume_handler);
    if (rc != NGX_CONF_OK) {
        return rc;
    }

    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_chat_module);
    mcf->resume_at = lcf->endpoint_at;
    lcf->needs_tenant = 1;
    lcf->running = cf->args->nelts == 3;
    slot.offset = offsetof(ngx_chat_loc_conf_t, resume);
    return ngx_http_set_complex_value_slot(cf, &slot, conf);
}
