/*
 * ngx_chat_resume.c: chat_resume, the content handler of clients that come
 * back for an answer: GET goes on with it, DELETE stops it.
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

#define NGX_CHAT_RESUME_TICK 5000  /* ms between looks, while it waits */
#define NGX_CHAT_RESUME_GRACE 2000 /* ms for a page to send again */

/* Takes a reply of the store. */
typedef void (*ngx_chat_resume_next_pt)(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                                        const chat_fact_t *facts, size_t n);

struct ngx_chat_resume_s {
    chat_store_op_t         op;
    ngx_chat_resume_next_pt next;
    chat_key_t              conversation; /* its record */
    chat_position_t         place;        /* where it goes on */
    ngx_uint_t              named;        /* it has said of which stream */
    ngx_uint_t              running;      /* it wants none that has ended */
    ngx_uint_t              looks;        /* at what is listed, so far */
    chat_store_watch_t      watch;        /* of the record, while it waits */
    ngx_event_t             timer;        /* likewise */
    ngx_uint_t              waits;        /* for a request that is held */
    ngx_uint_t              over;         /* none is held any more */
    ngx_msec_t              until;        /* so long it may be held again */
    ngx_uint_t              again; /* it changed while being asked for */
    char                    before[CHAT_LISTED_ID]; /* the newest stream, when
                                                       the wait began */
    ngx_uint_t              unsure; /* the next look may find another */
    chat_key_t              record; /* of that stream */
    ngx_uint_t              ended;  /* it had when the client came */
    chat_key_t              batch;  /* that the stream has opened */
    ngx_uint_t              opened; /* it has */
};


static void ask_index(ngx_chat_ctx_t *ctx);
static void on_index(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                     const chat_fact_t *facts, size_t n);


static void
on_reply(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    ngx_chat_ctx_t   *ctx = op->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);
    ctx->resume->next(ctx, rc, facts, n);
    ngx_http_run_posted_requests(c);
}


static void
expect(ngx_chat_ctx_t *ctx, ngx_chat_resume_next_pt next)
{
    ctx->resume->op.done = on_reply;
    ctx->resume->op.data = ctx;
    ctx->resume->next = next;
}


static void
send_nothing(ngx_chat_ctx_t *ctx)
{
    ngx_chat_follow_leave(ctx);
    ctx->state = NGX_CHAT_ANSWERED;
    ngx_http_finalize_request(ctx->request,
                              ngx_chat_endpoint_nothing(ctx->request));
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
    ngx_http_finalize_request(ctx->request,
                              ngx_chat_endpoint_away(ctx->request));
}


/* 404 to a client that has named a stream, else 204. */
static void
no_stream(ngx_chat_ctx_t *ctx)
{
    if (!ctx->resume->named) {
        send_nothing(ctx);
        return;
    }

    ngx_http_finalize_request(ctx->request,
                              refuse(ctx->request, NGX_HTTP_NOT_FOUND,
                                     "unknown_stream", NULL,
                                     "this conversation has no such stream"));
}


/* 1 if a page that keeps ended answers has this one. */
static ngx_uint_t
is_kept_by_page(const chat_listed_t *listed)
{
    return listed->stopped
           || (listed->end != CHAT_END_NONE
               && listed->end != CHAT_END_INTERRUPTED);
}


/* Reads the index now, or after the reply in flight. */
static void
look_again(ngx_chat_ctx_t *ctx)
{
    ngx_chat_resume_t *resume = ctx->resume;

    resume->again = resume->op.store != NULL;

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
on_timer(ngx_event_t *ev)
{
    ngx_chat_ctx_t   *ctx = ev->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);
    ngx_add_timer(ev, NGX_CHAT_RESUME_TICK);
    look_again(ctx);
    ngx_http_run_posted_requests(c);
}


/* A request is held: the client waits for its answer. */
static void
wait_for_held(ngx_chat_ctx_t *ctx, const chat_listed_t *newest)
{
    chat_store_t      *store = ctx->main->store;
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

    resume->timer.handler = on_timer;
    resume->timer.data = ctx;
    resume->timer.log = ctx->request->connection->log;
    ngx_add_timer(&resume->timer, NGX_CHAT_RESUME_TICK);

    resume->watch.notify = on_notify;
    resume->watch.data = ctx;
    expect(ctx, on_index);
    store->watch(store, &resume->watch, &resume->op, &resume->conversation,
                 NULL, 0, (uint32_t) ctx->conf->ttl);
}


static void
stop_waiting(ngx_chat_resume_t *resume)
{
    if (resume->watch.store != NULL) {
        resume->watch.store->unwatch(&resume->watch);
    }

    if (resume->timer.timer_set) {
        ngx_del_timer(&resume->timer);
    }
}


/*
 * 1 if the client waits on although no request is held any more: a page whose
 * hold ended by a bounce sends its request again at once.
 */
static ngx_uint_t
may_be_sent_again(ngx_chat_resume_t *resume)
{
    if (!resume->waits) {
        return 0;
    }

    if (!resume->over) {
        resume->over = 1;
        resume->until = ngx_current_msec + NGX_CHAT_RESUME_GRACE;

        if (resume->timer.timer_set) {
            ngx_del_timer(&resume->timer);
        }
        ngx_add_timer(&resume->timer, NGX_CHAT_RESUME_GRACE);
    }

    return (ngx_msec_int_t) (resume->until - ngx_current_msec) > 0;
}


/*
 * 1 if the client waits for the answer of a request that is held: it has not
 * said what it has, and no stream runs that could be meant.
 */
static ngx_uint_t
must_wait(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n,
          const chat_listed_t *newest)
{
    chat_store_t      *store = ctx->main->store;
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

    if (newest != NULL && newest->end == CHAT_END_NONE && !newest->stopped
        && chat_store_alive(store, newest->worker))
    {
        return 0;
    }

    if (ngx_exiting) {
        return 0;
    }

    if (chat_listed_held(facts, n, chat_store_alive, store, &held) == CHAT_OK)
    {
        resume->over = 0;
        return 1;
    }

    return may_be_sent_again(resume);
}


static void
note_batch(ngx_chat_resume_t *resume, const chat_fact_t *facts, size_t n,
           const chat_listed_t *listed)
{
    chat_recorded_t newest;

    /* an older batch is of a step before, and ids may repeat */
    if (chat_batch_newest(facts, n, &newest) == CHAT_OK
        && newest.ms >= listed->ms) {
        resume->batch.tag = resume->conversation.tag;
        resume->batch.name = newest.names[0];
        resume->opened = 1;
    }
}


/* The results of the batch have been read. */
static void
on_results(ngx_chat_ctx_t *ctx, chat_rc_e rc, const chat_fact_t *facts,
           size_t n)
{
    size_t         count = 0;
    chat_result_t *results = NULL;

    if (rc == CHAT_OK) {
        results = chat_follow_results(facts, n, ctx->kept, &count);
    }

    ngx_chat_follow_answer(ctx, chat_str(NULL, 0), results, count);
}


/* The facts of the batch have been read. */
static void
on_batch(ngx_chat_ctx_t *ctx, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
    size_t             count = 0;
    chat_str_t        *fields = NULL;
    chat_store_t      *store = ctx->main->store;
    ngx_chat_resume_t *resume = ctx->resume;

    if (rc == CHAT_OK) {
        fields = chat_follow_fields(facts, n, ctx->kept, &count);
    }

    if (fields != NULL) {
        expect(ctx, on_results);
        store->payloads(store, &resume->op, &resume->batch, fields, count);
    } else {
        ngx_chat_follow_answer(ctx, chat_str(NULL, 0), NULL, 0);
    }
}


static void
ask_results(ngx_chat_ctx_t *ctx)
{
    chat_store_t      *store = ctx->main->store;
    ngx_chat_resume_t *resume = ctx->resume;

    if (resume->opened && ctx->dialect->resolve_pending != NULL) {
        expect(ctx, on_batch);
        store->join(store, &resume->op, &resume->batch, NULL, 0, 0);
    } else {
        ngx_chat_follow_answer(ctx, chat_str(NULL, 0), NULL, 0);
    }
}


/* The message that the answer goes on with has been read, if any. */
static void
on_preamble(ngx_chat_ctx_t *ctx, chat_rc_e rc, const chat_fact_t *facts,
            size_t n)
{
    chat_str_t told = { NULL, 0 };

    if (rc != CHAT_OK
        || (n != 0
            && (facts[0].payload.len == 0
                || chat_arena_dup(ctx->kept, facts[0].payload, &told)
                       != CHAT_OK)))
    {
        send_nothing(ctx);

    } else {
        ctx->response.injected.data = (u_char *) told.data;
        ctx->response.injected.len = told.len;
        ask_results(ctx);
    }
}


static void
ask_preamble(ngx_chat_ctx_t *ctx)
{
    chat_str_t         field = CHAT_STR(CHAT_RECORD_BEFORE);
    chat_store_t      *store = ctx->main->store;
    ngx_chat_resume_t *resume = ctx->resume;

    ctx->follow->gathering = 1;
    ctx->response.injected.len = 0;

    if (ctx->dialect->history != NULL && !resume->place.given) {
        expect(ctx, on_preamble);
        store->payloads(store, &resume->op, &resume->record, &field, 1);
    } else {
        ask_results(ctx);
    }
}


/* 1 if more must be known before anything is sent. */
static ngx_uint_t
is_undecided(ngx_chat_ctx_t *ctx, const ngx_chat_reader_t *reader)
{
    if (reader->state != NGX_CHAT_READER_ASKING
        && reader->state != NGX_CHAT_READER_RUNNING)
    {
        return 0;
    }

    if (!reader->chunks.has_head) {
        return 1;
    }

    /* is there more to come, or is what it has all that there is? */
    return !reader->live
           && (ctx->resume->running
               || ngx_chat_reader_ready(&ctx->follow->follower) == NGX_AGAIN);
}


/*
 * 1 if a client that asks for "running" has it elsewhere. What ran then is
 * given, though it may have ended since.
 */
static ngx_uint_t
is_elsewhere(const ngx_chat_ctx_t *ctx, const ngx_chat_reader_t *reader)
{
    return ctx->resume->running && (ctx->resume->ended || !reader->live)
           && reader->end != CHAT_END_INTERRUPTED;
}


/* 1 if the client has all of the stream. */
static ngx_uint_t
lacks_nothing(ngx_chat_ctx_t *ctx, const ngx_chat_reader_t *reader)
{
    switch (reader->state) {
    case NGX_CHAT_READER_NONE:
        return 1;

    case NGX_CHAT_READER_COMPLETE:
        return is_elsewhere(ctx, reader)
               || (ctx->resume->place.after != 0
                   && ngx_chat_reader_ready(&ctx->follow->follower)
                          == NGX_AGAIN);

    default:
        return 0;
    }
}


/* The reader has news. */
static void
on_reader(ngx_chat_ctx_t *ctx)
{
    const ngx_chat_reader_t *reader = ctx->follow->follower.reader;

    if (is_undecided(ctx, reader)) {
        return;
    }

    if (reader->state == NGX_CHAT_READER_NONE && ctx->resume->unsure) {
        /* it never went upstream: the answer before it counts */
        ngx_chat_follow_leave(ctx);
        ask_index(ctx);

    } else if (lacks_nothing(ctx, reader)) {
        send_nothing(ctx);

    } else if (!reader->chunks.has_head) {
        ngx_chat_reply_broken(ctx, reader->over ? reader->over : "upstream");

    } else {
        ask_preamble(ctx);
    }
}


static void
follow_stream(ngx_chat_ctx_t *ctx, const chat_listed_t *listed)
{
    ngx_chat_source_t source;

    ngx_memzero(&source, sizeof(source));
    source.key.tag = ctx->resume->conversation.tag;
    source.key.tenant = ctx->resume->conversation.tenant;
    source.key.name = listed->name;
    ctx->resume->record = source.key;
    source.attempt.worker = listed->worker;
    source.attempt.request = chat_cstr("");
    source.attempt.end = listed->end;
    source.late = 1;
    source.indexed = 1;

    if (ngx_chat_follow_stream(ctx, &source, ctx->resume->place.after)
        != NGX_OK) {
        ngx_http_finalize_request(ctx->request,
                                  NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    ctx->resume->ended =
        ctx->follow->follower.reader->state == NGX_CHAT_READER_COMPLETE;

    ctx->follow->look = on_reader;
    on_reader(ctx);
}


static void
resume_stream(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n)
{
    chat_rc_e          rc;
    chat_listed_t      listed;
    ngx_chat_resume_t *resume = ctx->resume;

    rc = chat_listed_find(facts, n, resume->place.stream, &listed);

    if (must_wait(ctx, facts, n, rc == CHAT_OK ? &listed : NULL)) {
        wait_for_held(ctx, rc == CHAT_OK ? &listed : NULL);
        return;
    }

    stop_waiting(resume);
    resume->looks++;

    if (rc != CHAT_OK) {
        no_stream(ctx);
        return;
    }

    ctx->dialect = chat_dialect_find(listed.dialect);

    if (ctx->dialect == NULL || (resume->running && is_kept_by_page(&listed)))
    {
        send_nothing(ctx);
        return;
    }

    resume->running &= listed.end == CHAT_END_NONE;
    resume->unsure =
        listed.end == CHAT_END_NONE && !resume->named && resume->looks == 1;

    note_batch(resume, facts, n, &listed);
    follow_stream(ctx, &listed);
}


/* The store has the wish to stop the stream. */
static void
on_stop_joined(ngx_chat_ctx_t *ctx, chat_rc_e rc, const chat_fact_t *facts,
               size_t n)
{
    (void) facts;
    (void) n;

    if (rc == CHAT_OK) {
        send_nothing(ctx);
    } else {
        store_failed(ctx);
    }
}


static void
stop_stream(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n)
{
    chat_facts_t       put;
    chat_store_t      *store = ctx->main->store;
    chat_listed_t      listed;
    ngx_chat_resume_t *resume = ctx->resume;
    chat_str_t         id = resume->place.stream;

    if (id.len != 0 && chat_listed_find(facts, n, id, &listed) != CHAT_OK) {
        no_stream(ctx);
        return;
    }

    if (chat_listed_running(facts, n, id, chat_store_alive, store, &listed)
        != CHAT_OK)
    {
        send_nothing(ctx);
        return;
    }

    chat_facts_init(&put, ctx->kept);
    chat_facts_stop(&put, listed.id);
    expect(ctx, on_stop_joined);
    store->join(store, &resume->op, &resume->conversation, put.items,
                put.count, (uint32_t) ctx->conf->ttl);
}


/* The index of the conversation has been read. */
static void
on_index(ngx_chat_ctx_t *ctx, chat_rc_e rc, const chat_fact_t *facts, size_t n)
{
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
    chat_store_t *store = ctx->main->store;

    ctx->resume->again = 0;
    expect(ctx, on_index);
    store->join(store, &ctx->resume->op, &ctx->resume->conversation, NULL, 0,
                0);
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

    if (h != NULL && h->value.len != 0) {
        text = chat_str(h->value.data, h->value.len);
    } else {
        text = ngx_chat_endpoint_arg(r, "after");
    }

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
    ngx_int_t rc;

    rc = ngx_chat_endpoint_allow(r, NGX_HTTP_GET | NGX_HTTP_DELETE,
                                 "GET, DELETE");
    if (rc != NGX_OK) {
        return rc;
    }

    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }

    rc = ngx_chat_endpoint_tenant(r, conf, "a resume is", tenant);
    if (rc != NGX_OK) {
        return rc;
    }

    return ngx_chat_value(r, conf->resume, conversation) == NGX_OK
               ? NGX_OK
               : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


static void
leave(ngx_chat_ctx_t *ctx)
{
    if (ctx->resume != NULL && ctx->main->store != NULL) {
        stop_waiting(ctx->resume);
        ctx->main->store->cancel(&ctx->resume->op);
    }
}


/* The context of the request; NULL: no memory. */
static ngx_chat_ctx_t *
create(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf,
       const chat_position_t *place)
{
    ngx_chat_ctx_t    *ctx;
    ngx_chat_resume_t *resume;

    ctx = ngx_chat_get_ctx(r);
    if (ctx != NULL) {
        /* redirected here: its own answer will not come */
        ngx_chat_index_end(ctx);
    }

    ctx = ngx_chat_create_ctx(r, conf);
    resume = ngx_pcalloc(r->pool, sizeof(*resume));
    if (ctx == NULL || resume == NULL) {
        return NULL;
    }

    ngx_chat_headers_scan(r, &ctx->headers, 0);
    ctx->resume = resume;
    ctx->ends[NGX_CHAT_END_RESUME] = leave;
    ctx->state = NGX_CHAT_ASKING;
    resume->place = *place;
    resume->named = place->stream.len != 0;
    resume->running = conf->running && !resume->named;
    return ctx;
}


static ngx_int_t
resume_handler(ngx_http_request_t *r)
{
    ngx_int_t            rc;
    ngx_str_t            conversation;
    chat_position_t      place = { 0 };
    chat_digest_t        tenant;
    ngx_chat_ctx_t      *ctx;
    ngx_chat_loc_conf_t *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_chat_module);

    rc = check_request(r, conf, &tenant, &conversation);
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
    ctx->scope.conversation = chat_str(conversation.data, conversation.len);
    (void) chat_batch_record_key(&ctx->scope, &ctx->resume->conversation);

    r->main->count++;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;

    if (ctx->main->store == NULL) {
        store_failed(ctx);
    } else {
        ask_index(ctx);
    }

    return NGX_DONE;
}


char *
ngx_chat_conf_resume(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char                *rc;
    ngx_str_t           *value = cf->args->elts;
    ngx_command_t        slot;
    ngx_chat_loc_conf_t *lcf = conf;

    if (cf->args->nelts == 3 && ngx_strcmp(value[2].data, "running") != 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", it must be "
                           "running",
                           &value[2], &cmd->name);
        return NGX_CONF_ERROR;
    }

    slot = *cmd;
    slot.offset = offsetof(ngx_chat_loc_conf_t, resume);

    rc = ngx_http_set_complex_value_slot(cf, &slot, conf);
    if (rc != NGX_CONF_OK) {
        return rc;
    }

    lcf->running = cf->args->nelts == 3;
    ngx_chat_endpoint_set(cf, resume_handler)->resumes = 1;
    return NGX_CONF_OK;
}
