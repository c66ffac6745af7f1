/*
 * ngx_chat_conf_check.c: what a location with chat, chat_results or
 * chat_resume needs.
 *
 * Settings that only cost time are warned of; settings that could not work
 * are refused.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_module.h"

#define NGX_CHAT_BODY_HINT (64 * 1024)


static void
ngx_chat_check_others(ngx_conf_t *cf, ngx_chat_loc_conf_t *conf)
{
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
