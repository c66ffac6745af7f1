/*
 * ngx_chat_tenant.c: notices that one conversation comes under two tenants.
 *
 * Its requests do not find one another then. Mostly the tenant is a token that
 * was renewed in the middle, which the operator can mend and would not guess.
 * Promises: one line in the log per worker; a table of a fixed size, which
 * forgets the older of two conversations that fall on one place.
 * Must not know: what a tenant is.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_module.h"

#define NGX_CHAT_TENANTS 1024
#define NGX_CHAT_TENANT_PRINT 8 /* bytes of a digest: enough for a hint */


struct ngx_chat_tenants_s {
    u_char conversation[NGX_CHAT_TENANTS][NGX_CHAT_TENANT_PRINT];
    u_char tenant[NGX_CHAT_TENANTS][NGX_CHAT_TENANT_PRINT];
};


void
ngx_chat_tenant_note(ngx_chat_ctx_t *ctx)
{
    u_char               *conversation, *tenant;
    ngx_uint_t            place;
    chat_digest_t         digest;
    ngx_chat_tenants_t   *seen;
    ngx_chat_main_conf_t *mcf = ctx->main;

    if (ctx->scope.conversation.len == 0 || mcf->tenants_warned) {
        return;
    }

    if (mcf->tenants == NULL) {
        mcf->tenants = ngx_pcalloc(ngx_cycle->pool, sizeof(*seen));
        if (mcf->tenants == NULL) {
            return;
        }
    }

    seen = mcf->tenants;
    chat_digest(ctx->scope.conversation, &digest);
    place = (digest.bytes[30] << 8 | digest.bytes[31]) % NGX_CHAT_TENANTS;
    conversation = seen->conversation[place];
    tenant = seen->tenant[place];

    if (ngx_memcmp(conversation, digest.bytes, NGX_CHAT_TENANT_PRINT) == 0
        && ngx_memcmp(tenant, ctx->scope.tenant.bytes, NGX_CHAT_TENANT_PRINT)
               != 0)
    {
        mcf->tenants_warned = 1;
        ngx_log_error(NGX_LOG_WARN, ctx->request->connection->log, 0,
                      "chat: a conversation comes under two tenants, which "
                      "are kept apart: if \"chat_tenant\" is a token that is "
                      "renewed, take who it is of");
    }

    ngx_memcpy(conversation, digest.bytes, NGX_CHAT_TENANT_PRINT);
    ngx_memcpy(tenant, ctx->scope.tenant.bytes, NGX_CHAT_TENANT_PRINT);
}
