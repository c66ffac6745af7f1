/*
 * ngx_chat_resume.c: chat_resume, the content handler of clients that come
 * back for an answer: GET goes on with it, DELETE stops it.
 *
 * Promises: another tenant's conversation is as one that has no streams;
 * nothing goes upstream from here; nothing fires once the client has left.
 * Must not know: wire formats, how a record is read.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "endpoint/ngx_chat_endpoint.h"
#include "facts/chat_conversation.h"
#include "record/ngx_chat_follow.h"
#include "record/ngx_chat_index.h"
#include "endpoint/ngx_chat_resume.h"


#define NGX_CHAT_RESUME_TICK 5000  /* ms between looks, while it waits */
#define NGX_CHAT_RESUME_GRACE 2000 /* ms for a page to send again */


static void ngx_chat_resume_asked(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                                  const chat_fact_t *facts, size_t n);


/* The store has answered. */
static void
ngx_chat_resume_done(chat_store_op_t *op, chat_rc_e rc,
                     const chat_fact_t *facts, size_t n)
{
    ngx_chat_ctx_t   *ctx = op->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);
    ctx->resume->next(ctx, rc, facts, n);
    ngx_http_run_posted_requests(c);
}


void
ngx_chat_resume_asks(ngx_chat_ctx_t *ctx, ngx_chat_resume_next_pt next)
{
    ctx->resume->op.done = ngx_chat_resume_done;
    ctx->resume->op.data = ctx;
    ctx->resume->next = next;
}


void
ngx_chat_resume_nothing(ngx_chat_ctx_t *ctx)
{
    ngx_chat_follow_leave(ctx);
    ctx->state = NGX_CHAT_ANSWERED;
    ngx_http_finalize_request(ctx->request,
                              ngx_chat_endpoint_nothing(ctx->request));
}


/* What a content handler returns, or a request is finalized with. */
static ngx_int_t
ngx_chat_resume_refuse(ngx_http_request_t *r, ngx_uint_t status,
                       const char *code, const char *field,
                       const char *message)
{
    chat_external_refusal_t refusal = { 0 };

    refusal.status = (unsigned) status;
    refusal.code = code;
    refusal.field = field;
    refusal.message = message;
    return ngx_chat_endpoint_refuse(r, &refusal);
}


static void
ngx_chat_resume_away(ngx_chat_ctx_t *ctx)
{
    ngx_http_finalize_request(ctx->request,
                              ngx_chat_endpoint_away(ctx->request));
}


/* Who names a stream is told that there is none; else there is nothing. */
static void
ngx_chat_resume_none(ngx_chat_ctx_t *ctx)
{
    if (!ctx->resume->named) {
        ngx_chat_resume_nothing(ctx);
        return;
    }

    ngx_http_finalize_request(
        ctx->request, ngx_chat_resume_refuse(
                          ctx->request, NGX_HTTP_NOT_FOUND, "unknown_stream",
                          NULL, "this conversation has no such stream"));
}


/* 1 if a page that keeps what has ended has this. */
static ngx_uint_t
ngx_chat_resume_unwanted(const chat_listed_t *listed)
{
    return listed->stopped
           || (listed->end != CHAT_END_NONE
               && listed->end != CHAT_END_INTERRUPTED);
}


/* Looks at the record now, or after the answer under way. */
static void
ngx_chat_resume_again(ngx_chat_ctx_t *ctx)
{
    ngx_chat_resume_t *resume = ctx->resume;

    resume->again = resume->op.store != NULL;

    if (!resume->again) {
        ngx_chat_resume_ask(ctx);
    }
}


static void
ngx_chat_resume_notify(chat_store_watch_t *watch)
{
    ngx_chat_resume_again(watch->data);
}


/* No store tells of a worker that was killed. */
static void
ngx_chat_resume_timer(ngx_event_t *ev)
{
    ngx_chat_ctx_t   *ctx = ev->data;
    ngx_connection_t *c = ctx->request->connection;

    ngx_http_set_log_request(c->log, ctx->request);
    ngx_add_timer(ev, NGX_CHAT_RESUME_TICK);
    ngx_chat_resume_again(ctx);
    ngx_http_run_posted_requests(c);
}


/* A request is held: its answer is what the client came for. */
static void
ngx_chat_resume_wait(ngx_chat_ctx_t *ctx, const chat_listed_t *newest)
{
    chat_store_t      *store = ctx->main->store;
    ngx_chat_resume_t *resume = ctx->resume;

    if (resume->waits) {
        if (resume->again) {
            ngx_chat_resume_again(ctx);
        }
        return;
    }

    resume->waits = 1;
    if (newest != NULL) {
        ngx_memcpy(resume->before, newest->id.data, CHAT_LISTED_ID);
    }

    resume->timer.handler = ngx_chat_resume_timer;
    resume->timer.data = ctx;
    resume->timer.log = ctx->request->connection->log;
    ngx_add_timer(&resume->timer, NGX_CHAT_RESUME_TICK);

    resume->watch.notify = ngx_chat_resume_notify;
    resume->watch.data = ctx;
    ngx_chat_resume_asks(ctx, ngx_chat_resume_asked);
    store->watch(store, &resume->watch, &resume->op, &resume->conversation,
                 NULL, 0, (uint32_t) ctx->conf->ttl);
}


void
ngx_chat_resume_unwait(ngx_chat_resume_t *resume)
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
ngx_chat_resume_bounced(ngx_chat_resume_t *resume)
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
ngx_chat_resume_holds(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n,
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

    return ngx_chat_resume_bounced(resume);
}


static void
ngx_chat_resume_get(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n)
{
    chat_rc_e          rc;
    chat_listed_t      listed;
    ngx_chat_resume_t *resume = ctx->resume;

    rc = chat_listed_find(facts, n, resume->place.stream, &listed);

    if (ngx_chat_resume_holds(ctx, facts, n, rc == CHAT_OK ? &listed : NULL)) {
        ngx_chat_resume_wait(ctx, rc == CHAT_OK ? &listed : NULL);
        return;
    }

    ngx_chat_resume_unwait(resume);
    resume->looks++;

    if (rc != CHAT_OK) {
        ngx_chat_resume_none(ctx);
        return;
    }

    ctx->dialect = chat_dialect_find(listed.dialect);

    if (ctx->dialect == NULL
        || (resume->running && ngx_chat_resume_unwanted(&listed)))
    {
        ngx_chat_resume_nothing(ctx);
        return;
    }

    resume->running &= listed.end == CHAT_END_NONE;
    resume->unsure =
        listed.end == CHAT_END_NONE && !resume->named && resume->looks == 1;

    ngx_chat_resume_opened(resume, facts, n, &listed);
    ngx_chat_resume_follow(ctx, &listed);
}


/* The wish to stop it is with the store. */
static void
ngx_chat_resume_stopped(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                        const chat_fact_t *facts, size_t n)
{
    (void) facts;
    (void) n;

    if (rc == CHAT_OK) {
        ngx_chat_resume_nothing(ctx);
    } else {
        ngx_chat_resume_away(ctx);
    }
}


static void
ngx_chat_resume_delete(ngx_chat_ctx_t *ctx, const chat_fact_t *facts, size_t n)
{
    chat_facts_t       put;
    chat_store_t      *store = ctx->main->store;
    chat_listed_t      listed;
    ngx_chat_resume_t *resume = ctx->resume;
    chat_str_t         id = resume->place.stream;

    if (id.len != 0 && chat_listed_find(facts, n, id, &listed) != CHAT_OK) {
        ngx_chat_resume_none(ctx);
        return;
    }

    if (chat_listed_running(facts, n, id, chat_store_alive, store, &listed)
        != CHAT_OK)
    {
        ngx_chat_resume_nothing(ctx);
        return;
    }

    chat_facts_init(&put, ctx->kept);
    chat_facts_stop(&put, listed.id);
    ngx_chat_resume_asks(ctx, ngx_chat_resume_stopped);
    store->join(store, &resume->op, &resume->conversation, put.items,
                put.count, (uint32_t) ctx->conf->ttl);
}


/* The record of the conversation is there. */
static void
ngx_chat_resume_asked(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                      const chat_fact_t *facts, size_t n)
{
    if (rc != CHAT_OK) {
        ngx_chat_resume_away(ctx);

    } else if (ctx->request->method == NGX_HTTP_DELETE) {
        ngx_chat_resume_delete(ctx, facts, n);

    } else {
        ngx_chat_resume_get(ctx, facts, n);
    }
}


void
ngx_chat_resume_ask(ngx_chat_ctx_t *ctx)
{
    chat_store_t *store = ctx->main->store;

    ctx->resume->again = 0;
    ngx_chat_resume_asks(ctx, ngx_chat_resume_asked);
    store->join(store, &ctx->resume->op, &ctx->resume->conversation, NULL, 0,
                0);
}


/*
 * Where the client goes on: Last-Event-ID, which a client that connects again
 * by itself renews, before the arguments, which it does not. NGX_DECLINED:
 * that is no place.
 */
static ngx_int_t
ngx_chat_resume_place(ngx_http_request_t *r, chat_position_t *place)
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
ngx_chat_resume_check(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf,
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


/* What the request is worked on with; NULL: no memory. */
static ngx_chat_ctx_t *
ngx_chat_resume_create(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf,
                       const chat_position_t *place)
{
    ngx_chat_ctx_t    *ctx;
    ngx_chat_resume_t *resume;

    ctx = ngx_chat_get_ctx(r);
    if (ctx != NULL) {
        /* a request that has become this one: of its answer comes nothing */
        ngx_chat_index_end(ctx);
    }

    ctx = ngx_chat_create_ctx(r, conf);
    resume = ngx_pcalloc(r->pool, sizeof(*resume));
    if (ctx == NULL || resume == NULL) {
        return NULL;
    }

    ngx_chat_headers_scan(r, &ctx->headers, 0);
    ctx->resume = resume;
    ctx->ends[NGX_CHAT_END_RESUME] = ngx_chat_resume_leave;
    ctx->state = NGX_CHAT_ASKING;
    resume->place = *place;
    resume->named = place->stream.len != 0;
    resume->running = conf->running && !resume->named;
    return ctx;
}


static ngx_int_t
ngx_chat_resume_handler(ngx_http_request_t *r)
{
    ngx_int_t            rc;
    ngx_str_t            conversation;
    chat_position_t      place = { 0 };
    chat_digest_t        tenant;
    ngx_chat_ctx_t      *ctx;
    ngx_chat_loc_conf_t *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_chat_module);

    rc = ngx_chat_resume_check(r, conf, &tenant, &conversation);
    if (rc != NGX_OK) {
        return rc;
    }

    if (conversation.len == 0) {
        return ngx_chat_resume_refuse(r, NGX_HTTP_BAD_REQUEST, "invalid",
                                      "conversation",
                                      "the conversation is not named");
    }

    if (ngx_chat_resume_place(r, &place) != NGX_OK) {
        return ngx_chat_resume_refuse(r, NGX_HTTP_BAD_REQUEST, "invalid",
                                      "after", "this is no place in a stream");
    }

    ctx = ngx_chat_resume_create(r, conf, &place);
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
        ngx_chat_resume_away(ctx);
    } else {
        ngx_chat_resume_ask(ctx);
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
    ngx_chat_endpoint_set(cf, ngx_chat_resume_handler)->resumes = 1;
    return NGX_CONF_OK;
}
