/*
 * ngx_chat_phase.c: the phase handler: is this chat, and what does it say?
 *
 * Runs in PRECONTENT, after access control and before the content handler.
 * Promises: a body is read only where it may be chat; whatever is not, goes
 * on untouched. Must not know: the store, wire formats.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_index.h"
#include "metrics/ngx_chat_metrics.h"
#include "record/ngx_chat_writer.h"
#include "endpoint/ngx_chat_resume.h"


static void ngx_chat_body_ready(ngx_http_request_t *r);
static void ngx_chat_leave(void *data);
static void ngx_chat_cleanup(void *data);


uint64_t
ngx_chat_now(void)
{
    ngx_time_t *tp = ngx_timeofday();

    return (uint64_t) tp->sec * 1000 + tp->msec;
}


ngx_chat_ctx_t *
ngx_chat_get_ctx(ngx_http_request_t *r)
{
    ngx_chat_ctx_t     *ctx;
    ngx_pool_cleanup_t *cln;

    ctx = ngx_http_get_module_ctx(r, ngx_chat_module);
    if (ctx != NULL || !(r->internal || r->filter_finalize)) {
        return ctx;
    }

    /* an internal redirect has wiped the contexts */

    for (cln = r->pool->cleanup; cln != NULL; cln = cln->next) {
        if (cln->handler == ngx_chat_cleanup) {
            ctx = cln->data;
            if (ctx->request == r) {
                ngx_http_set_ctx(r, ctx, ngx_chat_module);
                return ctx;
            }
        }
    }

    return NULL;
}


ngx_chat_ctx_t *
ngx_chat_create_ctx(ngx_http_request_t *r, ngx_chat_loc_conf_t *conf)
{
    ngx_chat_ctx_t     *ctx;
    ngx_pool_cleanup_t *cln;
    ngx_http_cleanup_t *end;

    cln = ngx_pool_cleanup_add(r->pool, 0);
    end = ngx_http_cleanup_add(r, 0);
    if (cln == NULL || end == NULL) {
        return NULL;
    }

    /* in the pool it would cost a request that waits a whole block more */
    ctx = ngx_calloc(sizeof(*ctx), r->connection->log);
    if (ctx == NULL) {
        return NULL;
    }

    cln->data = ctx;
    ctx->request = r;
    ctx->conf = conf;
    ctx->main = ngx_http_get_module_main_conf(r, ngx_chat_module);
    cln->handler = ngx_chat_cleanup;

    /* before the request is logged, and its pool's end after that */
    end->handler = ngx_chat_leave;
    end->data = ctx;

    ctx->kept = chat_arena_create(0);
    ctx->barrier.look = chat_arena_create(0);
    if (ctx->kept == NULL || ctx->barrier.look == NULL) {
        return NULL;
    }

    ngx_http_set_ctx(r, ctx, ngx_chat_module);
    return ctx;
}


/* The request is over, whatever has ended it. */
static void
ngx_chat_leave(void *data)
{
    ngx_chat_ctx_t *ctx = data;

    ngx_chat_watch_end(ctx);
    ngx_chat_follow_leave(ctx);
    ngx_chat_hold_end(ctx);
    ngx_chat_index_unhold(ctx);
    ngx_chat_resume_leave(ctx);
    ngx_chat_keep_close(ctx);
    ngx_chat_writer_close(ctx);
    ngx_chat_index_end(ctx);

    /* a claim that stands is ended, even if its body could not be read anew */
    if (ctx->kept != NULL && (ctx->dialect != NULL || ctx->attempt.k != 0)) {
        ngx_chat_attempt_end(ctx, CHAT_END_NONE);
    }

    ngx_chat_metrics_request(ctx);
}


static void
ngx_chat_cleanup(void *data)
{
    ngx_chat_ctx_t *ctx = data;

    ngx_chat_leave(ctx);

    ngx_chat_follow_free(ctx);
    if (ctx->freed != NULL) {
        *ctx->freed = 1;
    }

    chat_stream_destroy(ctx->response.stream);
    chat_follow_free(&ctx->response.injector);
    chat_arena_destroy(ctx->body.arena);
    chat_arena_destroy(ctx->barrier.look);
    chat_arena_destroy(ctx->kept);
    ngx_free(ctx);
}


ngx_int_t
ngx_chat_handler(ngx_http_request_t *r)
{
    ngx_int_t            rc;
    ngx_chat_ctx_t      *ctx;
    ngx_chat_headers_t   headers;
    ngx_chat_loc_conf_t *conf;

    if (r != r->main) {
        return NGX_DECLINED;
    }

    ctx = ngx_chat_get_ctx(r);
    if (ctx != NULL) {
        /* gone on already, or on the way to an error page */
        return ctx->state == NGX_CHAT_ASKING || ctx->state == NGX_CHAT_WAITING
                       || ctx->state == NGX_CHAT_FOLLOWING
                   ? NGX_DONE
                   : NGX_DECLINED;
    }

    conf = ngx_http_get_module_loc_conf(r, ngx_chat_module);
    if (conf->mode == NGX_CHAT_OFF || conf->results || conf->resume != NULL) {
        return NGX_DECLINED;
    }

    ngx_chat_headers_scan(r, &headers, !conf->dry_run);

    if (r->method != NGX_HTTP_POST || !headers.json) {
        return NGX_DECLINED;
    }

    ctx = ngx_chat_create_ctx(r, conf);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (headers.encoded
        || r->headers_in.content_length_n > (off_t) conf->max_body) {
        ctx->verdict = headers.encoded ? NGX_CHAT_VERDICT_UNMANAGED
                                       : NGX_CHAT_VERDICT_REFUSED;
        ctx->state = NGX_CHAT_GONE_ON;
        return NGX_DECLINED;
    }

    ctx->headers = headers;
    ctx->managed = 1;

    rc = ngx_http_read_client_request_body(r, ngx_chat_body_ready);
    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }

    ngx_http_finalize_request(r, NGX_DONE);
    return NGX_DONE;
}


ngx_int_t
ngx_chat_read_body(ngx_http_request_t *r, size_t max, ngx_str_t *body)
{
    off_t        len = 0;
    u_char      *p;
    ssize_t      n;
    ngx_buf_t   *b;
    ngx_chain_t *cl;

    if (r->request_body == NULL || r->request_body->bufs == NULL) {
        return NGX_OK;
    }

    for (cl = r->request_body->bufs; cl != NULL; cl = cl->next) {
        len += ngx_buf_size(cl->buf);
    }

    if (len > (off_t) max) {
        return NGX_DECLINED;
    }

    cl = r->request_body->bufs;
    body->len = (size_t) len;

    if (cl->next == NULL && ngx_buf_in_memory(cl->buf)) {
        body->data = cl->buf->pos;
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, (size_t) len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    body->data = p;

    for (; cl != NULL; cl = cl->next) {
        b = cl->buf;

        if (ngx_buf_in_memory(b)) {
            p = ngx_cpymem(p, b->pos, b->last - b->pos);
            continue;
        }

        if (!b->in_file) {
            continue; /* the end of an empty body */
        }

        n = ngx_read_file(b->file, p, (size_t) (b->file_last - b->file_pos),
                          b->file_pos);
        if (n != b->file_last - b->file_pos) {
            return NGX_ERROR;
        }
        p += n;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_chat_parse_failed(chat_rc_e rc)
{
    return rc == CHAT_ERROR   ? NGX_ERROR
           : rc == CHAT_LIMIT ? NGX_ABORT
                              : NGX_DECLINED;
}


/* The path as nginx has it by now, and the query behind it. */
static ngx_int_t
ngx_chat_uri(ngx_http_request_t *r, chat_str_t *uri)
{
    u_char *p;

    *uri = chat_str(r->uri.data, r->uri.len);

    if (r->args.len == 0) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, r->uri.len + 1 + r->args.len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    *uri = chat_str(p, r->uri.len + 1 + r->args.len);

    p = ngx_cpymem(p, r->uri.data, r->uri.len);
    *p++ = '?';
    ngx_memcpy(p, r->args.data, r->args.len);

    return NGX_OK;
}


ngx_int_t
ngx_chat_parse(ngx_chat_ctx_t *ctx)
{
    size_t              i;
    chat_rc_e           rc;
    chat_str_t          method, uri;
    ngx_http_request_t *r = ctx->request;

    chat_arena_destroy(ctx->body.arena);
    ngx_memzero(&ctx->body.doc, sizeof(ctx->body.doc));
    ngx_memzero(&ctx->body.rq, sizeof(ctx->body.rq));

    ctx->body.arena = chat_arena_create(0);
    if (ctx->body.arena == NULL) {
        return NGX_ERROR;
    }

    rc = chat_json_parse(&ctx->body.doc, ctx->body.arena,
                         chat_str(ctx->body.text.data, ctx->body.text.len));
    if (rc != CHAT_OK) {
        return ngx_chat_parse_failed(rc);
    }

    method = chat_str(r->method_name.data, r->method_name.len);

    if (ngx_chat_uri(r, &uri) != NGX_OK) {
        return NGX_ERROR;
    }

    ctx->dialect =
        chat_dialect_request(ctx->conf->dialect, method, uri, &ctx->body.doc,
                             ctx->body.arena, &ctx->body.rq, &rc);
    if (ctx->dialect == NULL) {
        return ngx_chat_parse_failed(rc);
    }

    if (ctx->barrier.external && ctx->body.rq.class == CHAT_CLASS_PENDING) {
        ctx->body.rq.class = CHAT_CLASS_CONTINUATION;
    }

    for (i = 0; i < ctx->body.rq.ncalls; i++) {
        ctx->body.rq.calls[i].kind = ngx_chat_kind(
            ctx->conf, ctx->body.rq.calls[i].name, ctx->body.rq.calls[i].kind);
    }

    return NGX_OK;
}


/*
 * Tenant and conversation, and so what all names of it begin with. NGX_ABORT:
 * the conversation's id is past CHAT_ID_MAX.
 */
static ngx_int_t
ngx_chat_find_scope(ngx_chat_ctx_t *ctx)
{
    ngx_str_t           value;
    ngx_http_request_t *r = ctx->request;

    ctx->scope.dialect = chat_cstr(ctx->dialect->name);
    ctx->scope.by_message = ctx->dialect->weak_by_message;
    ctx->scope.conversation = ctx->body.rq.conversation;

    if (ctx->conf->conversation != NULL) {
        if (ngx_chat_value(r, ctx->conf->conversation, &value) != NGX_OK) {
            return NGX_ERROR;
        }

        if (value.len != 0) {
            ctx->scope.conversation = chat_str(value.data, value.len);
        }
    }

    /* it goes into variables, logs and the store */
    if (ctx->scope.conversation.len > CHAT_ID_MAX) {
        ctx->scope.conversation = chat_str(NULL, 0);
        return NGX_ABORT;
    }

    if (chat_arena_dup(ctx->kept, ctx->scope.conversation,
                       &ctx->scope.conversation)
        != CHAT_OK)
    {
        return NGX_ERROR;
    }

    return ngx_chat_tenant_find(ctx);
}


static void
ngx_chat_body_ready(ngx_http_request_t *r)
{
    ngx_int_t       rc;
    ngx_chat_ctx_t *ctx;

    ctx = ngx_chat_get_ctx(r);

    rc = ngx_chat_read_body(r, ctx->conf->max_body, &ctx->body.text);
    if (rc == NGX_DECLINED) {
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_REFUSED);
        return;
    }

    if (rc == NGX_OK) {
        rc = ngx_chat_parse(ctx);
    }

    if (rc == NGX_OK) {
        rc = ngx_chat_find_scope(ctx);
    }

    if (rc != NGX_OK) {
        ctx->dialect = NULL;
        ngx_chat_go_on(ctx, rc == NGX_ABORT ? NGX_CHAT_VERDICT_REFUSED
                                            : NGX_CHAT_VERDICT_NONE);
        return;
    }

    if (ctx->headers.digested) {
        /* a header vouches for the very bytes of the body */
        ngx_chat_go_on(ctx, NGX_CHAT_VERDICT_UNMANAGED);
        return;
    }

#if (NGX_HTTP_GZIP)
    /* a compressed answer could not be read */
    if (r->headers_in.accept_encoding != NULL && !ctx->conf->dry_run) {
        ngx_str_set(&r->headers_in.accept_encoding->value, "identity");
    }
#endif

    ngx_chat_gate(ctx);
}


/*
 * The tree of the body is many times as large as the body, and its answer may
 * take minutes: all that reading it needs is copied, and the tree freed.
 */
static void
ngx_chat_free_tree(ngx_chat_ctx_t *ctx)
{
    chat_arena_t  *arena;
    chat_request_t rq;

    if (ctx->body.arena == NULL) {
        return;
    }

    if (ctx->dialect == NULL) {
        chat_arena_destroy(ctx->body.arena);
        ctx->body.arena = NULL;
        ctx->payloads.items = NULL;
        ctx->payloads.count = 0;
        return;
    }

    arena = chat_arena_create(0);

    if (arena == NULL
        || chat_request_copy(&ctx->body.rq, ctx->body.doc.text, arena, &rq)
               != CHAT_OK)
    {
        chat_arena_destroy(arena);
        return;
    }

    if (ctx->body.rq.own != NULL) {
        rq.own = ctx->dialect->own(&ctx->body.rq, arena);
        if (rq.own == NULL) {
            chat_arena_destroy(arena);
            return;
        }
    }

    chat_arena_destroy(ctx->body.arena);
    ctx->body.arena = arena;
    ctx->body.rq = rq;
    ngx_memzero(&ctx->body.doc, sizeof(ctx->body.doc));
    chat_results_init(&ctx->body.results, NULL);
    ctx->payloads.items = NULL;
    ctx->payloads.count = 0;
}


/* Hands the request over to its content handler. */
static void
ngx_chat_hand_over(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    ngx_uint_t          freed = 0;
    ngx_http_request_t *r = ctx->request;

    (void) rc;

    if (ctx->dialect != NULL && ctx->body.arena == NULL
        && ngx_chat_parse(ctx) != NGX_OK)
    {
        ctx->dialect = NULL; /* its answer cannot be read */
    }

    ngx_chat_free_tree(ctx);

    ctx->state = NGX_CHAT_GONE_ON;
    ngx_chat_index_unhold(ctx);

    if (ctx->response.early) {
        /* the content handler is to send a header once more */
        r->header_sent = 0;
    }

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ctx->freed = &freed;
    ngx_http_core_run_phases(r);

    if (!freed) {
        ctx->freed = NULL;
        ngx_chat_keep_hook(ctx);
    }
}


void
ngx_chat_go_on(ngx_chat_ctx_t *ctx, ngx_chat_verdict_e verdict)
{
    ngx_chat_follow_leave(ctx);
    ngx_chat_hold_end(ctx);

    ctx->verdict = verdict;
    ngx_chat_metrics_verdict(ctx);

    if (verdict == NGX_CHAT_VERDICT_BYPASS
        || !ngx_chat_index_begin(ctx, ngx_chat_hand_over))
    {
        ngx_chat_hand_over(ctx, NGX_OK);
    }
}
