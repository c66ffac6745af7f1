/*
 * ngx_chat_tenant.c: the tenant of a request.
 *
 * All names begin with a digest of the scope (the application) and the tenant
 * (its user). An empty tenant may be any client, so its batches get no name.
 * A tenant that changes within a conversation, such as a renewed token, splits
 * it. The log warns of both, once per worker. The table of conversations has a
 * fixed size: of two with the same index it forgets the older one.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "request/ngx_chat_request.h"

#define NGX_CHAT_TENANTS 1024
#define NGX_CHAT_TENANT_PRINT 8 /* bytes of a digest: enough for a hint */


struct ngx_chat_tenants_s {
    u_char conversation[NGX_CHAT_TENANTS][NGX_CHAT_TENANT_PRINT];
    u_char tenant[NGX_CHAT_TENANTS][NGX_CHAT_TENANT_PRINT];
};


/* Warns if the conversation was last seen under another tenant. */
static void
ngx_chat_tenant_note(ngx_chat_ctx_t *ctx, const ngx_str_t *scope)
{
    u_char             *conversation, *tenant;
    chat_str_t          parts[2];
    ngx_uint_t          index;
    chat_digest_t       digest;
    ngx_chat_tenants_t *seen;
    ngx_chat_worker_t  *worker = ctx->worker;

    if (ctx->scope.conversation.len == 0 || worker->tenants_warned) {
        return;
    }

    if (worker->tenants == NULL) {
        worker->tenants = ngx_pcalloc(ngx_cycle->pool, sizeof(*seen));
        if (worker->tenants == NULL) {
            return;
        }
    }

    seen = worker->tenants;
    parts[0] = chat_str(scope->data, scope->len);
    parts[1] = ctx->scope.conversation;
    chat_digest_parts(parts, 2, &digest);

    index = (digest.bytes[30] << 8 | digest.bytes[31]) % NGX_CHAT_TENANTS;
    conversation = seen->conversation[index];
    tenant = seen->tenant[index];

    if (ngx_memcmp(conversation, digest.bytes, NGX_CHAT_TENANT_PRINT) == 0
        && ngx_memcmp(tenant, ctx->scope.tenant.bytes, NGX_CHAT_TENANT_PRINT)
               != 0)
    {
        worker->tenants_warned = 1;
        ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                      "chat: a conversation has two tenants and is split: if "
                      "\"chat_tenant\" is a renewed token, use the user that "
                      "it identifies");
    }

    ngx_memcpy(conversation, digest.bytes, NGX_CHAT_TENANT_PRINT);
    ngx_memcpy(tenant, ctx->scope.tenant.bytes, NGX_CHAT_TENANT_PRINT);
}


ngx_int_t
ngx_chat_tenant(ngx_http_request_t *r, const ngx_chat_loc_conf_t *conf,
                ngx_str_t *scope, chat_digest_t *tenant)
{
    ngx_str_t  value;
    chat_str_t parts[2];

    if (ngx_chat_value(r, conf->tenant, &value) != NGX_OK
        || ngx_chat_value(r, conf->scope, scope) != NGX_OK)
    {
        return NGX_ERROR;
    }

    parts[0] = chat_str(scope->data, scope->len);
    parts[1] = chat_str(value.data, value.len);
    chat_digest_parts(parts, 2, tenant);

    return value.len != 0 ? NGX_OK : NGX_DECLINED;
}


ngx_int_t
ngx_chat_tenant_find(ngx_chat_ctx_t *ctx)
{
    ngx_int_t          rc;
    ngx_str_t          scope;
    ngx_chat_worker_t *worker = ctx->worker;

    rc = ngx_chat_tenant(ctx->request, ctx->conf, &scope, &ctx->scope.tenant);

    if (rc == NGX_OK) {
        ngx_chat_tenant_note(ctx, &scope);

    } else if (rc == NGX_DECLINED) {
        ctx->scope.anonymous = 1;
        rc = NGX_OK;

        if (!worker->anonymous_warned) {
            worker->anonymous_warned = 1;
            ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                          "chat: the tenant of a request is empty, its "
                          "conversation is not managed: set \"chat_tenant\", "
                          "for example \"chat_tenant $cookie_session\"");
        }
    }

    return rc;
}
