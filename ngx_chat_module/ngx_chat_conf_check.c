/*
 * ngx_chat_conf_check.c: warns of settings of other modules that do not go
 * together with chat.
 *
 * What lies in a public structure is looked at when the configuration is
 * read; the rest shows only in the request that the proxy module makes, and
 * is reported with the first answer, once per worker and location.
 * Promises: what only costs is warned of, what could not work is refused.
 * Must not know: what the module does with it.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_module.h"

#define NGX_CHAT_BODY_HINT (64 * 1024)


/* The upstream settings of proxy_pass, which its own begin with; or NULL. */
static ngx_http_upstream_conf_t *
ngx_chat_check_proxy(ngx_conf_t *cf)
{
    ngx_uint_t         i;
    ngx_http_module_t *module;
    void             **loc_conf = ((ngx_http_conf_ctx_t *) cf->ctx)->loc_conf;

    for (i = 0; cf->cycle->modules[i] != NULL; i++) {
        module = cf->cycle->modules[i]->ctx;

        if (cf->cycle->modules[i]->type == NGX_HTTP_MODULE
            && module->create_loc_conf != NULL
            && ngx_strcmp(cf->cycle->modules[i]->name, "ngx_http_proxy_module")
                   == 0)
        {
            return loc_conf[cf->cycle->modules[i]->ctx_index];
        }
    }

    return NULL;
}


static void
ngx_chat_check_others(ngx_conf_t *cf, ngx_chat_loc_conf_t *conf)
{
    ngx_http_upstream_conf_t *proxy;
    ngx_http_core_loc_conf_t *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (conf->mode == NGX_CHAT_OFF || clcf->handler == NULL) {
        return;
    }

    if (clcf->client_body_buffer_size < NGX_CHAT_BODY_HINT) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"chat\" in location \"%V\": bodies above "
                           "\"client_body_buffer_size\" (%uz) take a way "
                           "through a file, 1m suits chat",
                           &clcf->name, clcf->client_body_buffer_size);
    }

    proxy = ngx_chat_check_proxy(cf);
    if (proxy == NULL) {
        return;
    }

#if (NGX_HTTP_CACHE)
    if (proxy->cache > 0) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"chat\" in location \"%V\" does not go together "
                           "with \"proxy_cache\": an answer of the cache "
                           "would be taken for a model's",
                           &clcf->name);
    }
#endif

    if (proxy->store > 0) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"chat\" in location \"%V\" does not go together "
                           "with \"proxy_store\": a stream cannot be stored",
                           &clcf->name);
    }
}


char *
ngx_chat_check_location(ngx_conf_t *cf, ngx_chat_loc_conf_t *conf)
{
    ngx_http_core_loc_conf_t *clcf;

    if ((conf->results || conf->resume != NULL) && !conf->has_tenant) {
        /* what clients send as credentials is not theirs for certain */
        clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%s\" in location \"%V\" needs a "
                           "\"chat_tenant\"",
                           conf->results ? "chat_results" : "chat_resume",
                           &clcf->name);
        return NGX_CONF_ERROR;
    }

    ngx_chat_check_others(cf, conf);
    return NGX_CONF_OK;
}


/* 1 if the request line that went upstream ends so. */
static ngx_uint_t
ngx_chat_check_version(ngx_buf_t *b, const char *version)
{
    size_t  len = ngx_strlen(version);
    u_char *end;

    end = ngx_strlchr(b->start, b->last, '\r');

    return end != NULL && (size_t) (end - b->start) > len
           && ngx_memcmp(end - len, version, len) == 0;
}


void
ngx_chat_check_answer(ngx_chat_ctx_t *ctx)
{
    ngx_log_t          *log = ctx->request->connection->log;
    ngx_chain_t        *sent;
    ngx_http_request_t *r = ctx->request;

    sent = r->upstream ? r->upstream->request_bufs : NULL;

    if (ctx->conf->checked || sent == NULL || !ngx_buf_in_memory(sent->buf)) {
        return;
    }

    ctx->conf->checked = 1;

    if (ngx_chat_check_version(sent->buf, " HTTP/1.0")) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "\"chat\": with \"proxy_http_version 1.0\" a stream "
                      "that broke off cannot be told from one that ended, "
                      "set it to 1.1");
    }

    if (sent->next == NULL && ctx->body.text.len != 0
        && (ngx_chat_check_version(sent->buf, " HTTP/1.0")
            || ngx_chat_check_version(sent->buf, " HTTP/1.1")))
    {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "\"chat\" does not go together with \"proxy_set_body\": "
                      "results are completed in the body of the request, "
                      "which is not sent");
    }
}
