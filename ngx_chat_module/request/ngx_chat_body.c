/*
 * ngx_chat_body.c: the body of a request: reads it, parses it, frees it, and
 * finds conversation and tenant.
 *
 * The tree of a body is many times as large as the body. It has an arena of
 * its own, which ends when the store is asked, if nothing can go into the
 * body, or else while the request is held; then the body is parsed again. An
 * empty tenant may be any client, so its batches get no name. Promises: a body
 * past its limit is never read into memory.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "bytes/chat_table.h"
#include "request/ngx_chat_request.h"

#define NGX_CHAT_TENANTS 1024 /* conversations that a worker remembers */


/* Copies a body that may lie in files. */
static ngx_int_t
copy_body(ngx_chain_t *cl, u_char *p)
{
    ssize_t    n;
    ngx_buf_t *b;

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


ngx_int_t
ngx_chat_read_body(ngx_http_request_t *r, size_t max, ngx_str_t *body)
{
    off_t        len = 0;
    ngx_uint_t   is_one_run = 1;
    ngx_chain_t *cl;

    if (r->request_body == NULL || r->request_body->bufs == NULL) {
        return NGX_OK;
    }

    for (cl = r->request_body->bufs; cl != NULL; cl = cl->next) {
        len += ngx_buf_size(cl->buf);
        is_one_run &=
            ngx_buf_in_memory(cl->buf)
            && (cl->next == NULL || cl->next->buf->pos == cl->buf->last);
    }

    if (len > (off_t) max) {
        return NGX_DECLINED;
    }

    cl = r->request_body->bufs;
    body->len = (size_t) len;

    if (is_one_run) {
        body->data = cl->buf->pos;
        return NGX_OK;
    }

    body->data = ngx_pnalloc(r->pool, (size_t) len + 1);

    return body->data != NULL ? copy_body(cl, body->data) : NGX_ERROR;
}


/* The current path and the query; data NULL: no memory. */
static chat_str_t
uri_of(ngx_http_request_t *r)
{
    size_t  len = r->uri.len + 1 + r->args.len;
    u_char *p, *uri;

    if (r->args.len == 0) {
        return ngx_chat_str(&r->uri);
    }

    uri = ngx_pnalloc(r->pool, len);
    if (uri != NULL) {
        p = chat_str_copy(uri, ngx_chat_str(&r->uri));
        *p++ = '?';
        (void) chat_str_copy(p, ngx_chat_str(&r->args));
    }

    return chat_str(uri, len);
}


/* Sets the kinds of the calls by "chat_tool". */
static chat_rc_e
set_kinds(ngx_chat_ctx_t *ctx)
{
    size_t       i;
    chat_rc_e    rc = CHAT_OK;
    chat_str_t   name, args;
    chat_call_t *call;

    for (i = 0; ctx->conf->tools && rc == CHAT_OK && i < ctx->body.rq.ncalls;
         i++) {
        call = &ctx->body.rq.calls[i];
        rc = chat_call_read(call, chat_arena_scratch(), &name, &args);
        call->kind = ngx_chat_kind(ctx->conf, name, call->kind);
    }

    return rc;
}


/*
 * Parses ctx->body.text into ctx->body.rq. NGX_ERROR: it cannot be read, for
 * ctx->act.reason.
 */
static ngx_int_t
parse(ngx_chat_ctx_t *ctx)
{
    chat_rc_e             rc;
    ngx_http_request_t   *r = ctx->request;
    chat_str_t            uri = uri_of(r);
    chat_class_e          before = ctx->body.rq.class;
    chat_reason_e         limit;
    const chat_dialect_t *dialect = NULL;

    ngx_chat_ctx_free_body(ctx);
    ngx_memzero(&ctx->body.doc, sizeof(ctx->body.doc));
    ngx_memzero(&ctx->body.rq, sizeof(ctx->body.rq));
    ctx->body.rq.tenant = &ctx->scope.tenant;
    ctx->body.rq.named = ctx->conf->conversation != NULL;

    ctx->body.arena = chat_arena_create(0);
    ctx->body.kept = chat_arena_create(0);
    if (ctx->body.arena == NULL || ctx->body.kept == NULL || uri.data == NULL)
    {
        return NGX_ERROR;
    }

    rc = chat_json_parse(&ctx->body.doc, ctx->body.arena,
                         ngx_chat_str(&ctx->body.text));
    limit = rc == CHAT_LIMIT ? CHAT_REASON_REFUSED_VALUES_LIMIT
                             : CHAT_REASON_REFUSED_CALLS_LIMIT;

    if (rc == CHAT_OK) {
        dialect = chat_dialect_request(ctx->expected, uri, &ctx->body.doc,
                                       ctx->body.kept, &ctx->body.rq, &rc);
    }

    rc = rc == CHAT_OK ? set_kinds(ctx) : rc;

    if (rc != CHAT_OK) {
        ctx->act.reason = rc == CHAT_LIMIT      ? limit
                          : rc == CHAT_BAD      ? CHAT_REASON_NONE_MALFORMED
                          : rc == CHAT_DECLINED ? CHAT_REASON_NONE_NOT_CHAT
                                                : CHAT_REASON_NONE_ERROR;
        return NGX_ERROR;
    }

    ctx->body.lacks = chat_request_lacks(&ctx->body.rq) & 1;
    ctx->dialect = dialect; /* one that waits keeps its own without memory */

    if (before == CHAT_CLASS_CONTINUATION
        && ctx->body.rq.class == CHAT_CLASS_PENDING)
    {
        ctx->body.rq.class = before; /* its results are external */
    }

    return NGX_OK;
}


ngx_int_t
ngx_chat_tenant(ngx_http_request_t *r, const ngx_chat_loc_conf_t *conf,
                chat_digest_t *tenant)
{
    ngx_str_t scope, value;

    if (ngx_chat_value(r, conf->tenant, &value) != NGX_OK
        || ngx_chat_value(r, conf->scope, &scope) != NGX_OK)
    {
        return NGX_ERROR;
    }

    chat_digest_of(tenant, ngx_chat_str(&scope), ngx_chat_str(&value));

    return value.len != 0 ? NGX_OK : NGX_DECLINED;
}


/* Warns once if the conversation was last seen under another tenant. */
static void
note_tenant(ngx_chat_ctx_t *ctx)
{
    uint64_t           conversation, tenant;
    ngx_str_t          scope;
    ngx_chat_worker_t *worker = ctx->worker;

    /* by hashes of 64 bits; of two with one index the older is forgotten */
    static struct {
        uint64_t conversation;
        uint64_t tenant;
    } seen[NGX_CHAT_TENANTS], *last;

    if (ctx->scope.conversation.len == 0
        || ngx_chat_value(ctx->request, ctx->conf->scope, &scope) != NGX_OK)
    {
        return;
    }

    conversation = chat_table_hash(ctx->scope.conversation)
                   + 3 * chat_table_hash(ngx_chat_str(&scope));
    ngx_memcpy(&tenant, ctx->scope.tenant.bytes, sizeof(tenant));
    last = &seen[conversation % NGX_CHAT_TENANTS];

    if (last->conversation == conversation && last->tenant != tenant
        && !worker->tenants_warned)
    {
        worker->tenants_warned = 1;
        ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                      "chat: a conversation has two tenants and is split: if "
                      "\"chat_tenant\" is a renewed token, use the user that "
                      "it identifies");
    }

    last->conversation = conversation;
    last->tenant = tenant;
}


/*
 * Fills in the tenant of ctx->scope; its conversation is already set. Warns of
 * an empty tenant, once per worker. NGX_ERROR: no memory.
 */
static ngx_int_t
find_tenant(ngx_chat_ctx_t *ctx)
{
    ngx_chat_worker_t *worker = ctx->worker;
    ngx_int_t          rc =
        ngx_chat_tenant(ctx->request, ctx->conf, &ctx->scope.tenant);

    if (rc == NGX_OK) {
        note_tenant(ctx);
    }

    if (rc != NGX_DECLINED) {
        return rc;
    }

    ctx->scope.anonymous = 1;

    if (!worker->anonymous_warned) {
        worker->anonymous_warned = 1;
        ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                      "chat: the tenant of a request is empty, its "
                      "conversation is not managed: set \"chat_tenant\", "
                      "for example \"chat_tenant $cookie_session\"");
    }

    return NGX_OK;
}


/*
 * Finds conversation and tenant, which all names of the request begin with.
 * NGX_ERROR, with ctx->act.reason: it has none, or no memory.
 */
static ngx_int_t
find_scope(ngx_chat_ctx_t *ctx)
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
            ctx->scope.conversation = ngx_chat_str(&value);
        }
    }

    /* it goes into variables, logs and the store */
    if (ctx->scope.conversation.len > CHAT_ID_MAX) {
        ctx->scope.conversation = chat_str(NULL, 0);
        ctx->act.reason = CHAT_REASON_REFUSED_CONVERSATION_LIMIT;
        return NGX_ERROR;
    }

    if (chat_arena_dup(ctx->kept, ctx->scope.conversation,
                       &ctx->scope.conversation)
        != CHAT_OK)
    {
        return NGX_ERROR;
    }

    return find_tenant(ctx);
}


void
ngx_chat_body_free_tree(ngx_chat_ctx_t *ctx)
{
    if (ctx->dialect == NULL) {
        ngx_chat_ctx_free_body(ctx);
    }

    if (ctx->body.kept == NULL) {
        return;
    }

    ngx_memzero(&ctx->body.doc, sizeof(ctx->body.doc));
    chat_results_init(&ctx->body.results, NULL);
    chat_request_forget(&ctx->body.rq);
    chat_arena_destroy(ctx->body.arena);
    ctx->body.arena = ctx->body.kept;
    ctx->body.kept = NULL;
}


ngx_int_t
ngx_chat_body_restore(ngx_chat_ctx_t *ctx)
{
    return ctx->body.arena == NULL ? parse(ctx) : NGX_OK;
}


ngx_int_t
ngx_chat_body_read(ngx_chat_ctx_t *ctx)
{
    ngx_int_t           rc;
    ngx_http_request_t *r = ctx->request;

    ctx->act.reason = CHAT_REASON_REFUSED_BODY_LIMIT;

    rc = ngx_chat_read_body(r, ctx->conf->max_body, &ctx->body.text);
    if (rc == NGX_DECLINED) {
        return rc;
    }

    ctx->act.reason = CHAT_REASON_NONE_ERROR;

    if (rc == NGX_OK) {
        rc = parse(ctx);
    }

    if (rc == NGX_OK) {
        rc = find_scope(ctx);
    }

    if (rc != NGX_OK) {
        ctx->dialect = NULL;
        return NGX_DECLINED;
    }

    if (ctx->headers.digested) {
        ctx->act.reason = CHAT_REASON_UNMANAGED_SIGNED_BODY;
        return NGX_DECLINED;
    }

#if (NGX_HTTP_GZIP)
    /* the module cannot read a compressed answer */
    if (r->headers_in.accept_encoding != NULL && !ctx->conf->dry_run) {
        ngx_str_set(&r->headers_in.accept_encoding->value, "identity");
    }
#endif

    return NGX_OK;
}
