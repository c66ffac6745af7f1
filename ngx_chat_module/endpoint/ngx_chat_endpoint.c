/*
 * ngx_chat_endpoint.c: see ngx_chat_endpoint.h.
 *
 * Nothing here depends on one of the content handlers.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "endpoint/ngx_chat_endpoint.h"


char *
ngx_chat_endpoint_set(ngx_conf_t *cf, ngx_command_t *cmd,
                      ngx_chat_loc_conf_t *conf, ngx_http_handler_pt handler)
{
    ngx_chat_main_conf_t     *mcf;
    ngx_http_core_loc_conf_t *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    mcf = ngx_http_conf_get_module_main_conf(cf, ngx_chat_module);

    if (conf->endpoint == &cmd->name) {
        return "is duplicate";
    }

    if (conf->endpoint != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" and \"%V\" in location \"%V\": each "
                           "requires a location of its own",
                           conf->endpoint, &cmd->name, &clcf->name);
        return NGX_CONF_ERROR;
    }

    conf->endpoint = &cmd->name;
    conf->endpoint_at = ngx_chat_conf_here(cf);
    clcf->handler = handler;
    mcf->used = 1;
    return conf->endpoint_at ? NGX_CONF_OK : NGX_CONF_ERROR;
}


chat_str_t
ngx_chat_endpoint_arg(ngx_http_request_t *r, const char *name)
{
    ngx_str_t value;

    return ngx_http_arg(r, (u_char *) name, ngx_strlen(name), &value) == NGX_OK
               ? ngx_chat_str(&value)
               : chat_str(NULL, 0);
}


ngx_int_t
ngx_chat_endpoint_conversation(ngx_http_request_t *r, chat_str_t *id)
{
    u_char    *from, *to, *start;
    chat_str_t value = ngx_chat_endpoint_arg(r, "conversation");

    if (value.len == 0) {
        return NGX_DECLINED;
    }

    from = (u_char *) value.data;
    to = start = ngx_pnalloc(r->pool, value.len);
    if (to == NULL) {
        return NGX_ERROR;
    }

    ngx_unescape_uri(&to, &from, value.len, 0);
    *id = chat_str(start, (size_t) (to - start));
    return NGX_OK;
}


ngx_int_t
ngx_chat_endpoint_allow(ngx_http_request_t *r, ngx_uint_t methods,
                        const char *names)
{
    if (r->method & methods) {
        return NGX_OK;
    }

    return ngx_chat_answer_add_header(r, chat_cstr("Allow"), chat_cstr(names))
                   == NGX_OK
               ? NGX_HTTP_NOT_ALLOWED
               : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


ngx_int_t
ngx_chat_endpoint_tenant(ngx_http_request_t        *r,
                         const ngx_chat_loc_conf_t *conf, const char *what,
                         chat_digest_t *tenant)
{
    ngx_int_t rc = ngx_chat_tenant(r, conf, tenant);

    if (rc == NGX_DECLINED) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "chat: %s refused: \"chat_tenant\" is empty", what);
        return NGX_HTTP_FORBIDDEN;
    }

    return rc == NGX_OK ? NGX_OK : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


ngx_int_t
ngx_chat_endpoint_refuse(ngx_http_request_t            *r,
                         const chat_external_refusal_t *refusal)
{
    chat_buf_t out = { 0 };

    chat_external_refuse(refusal, &out);

    out.failed |= refusal->status == NGX_HTTP_SERVICE_UNAVAILABLE
                  && ngx_chat_answer_add_header(r, chat_cstr("Retry-After"),
                                                chat_cstr("1"))
                         != NGX_OK;

    return ngx_chat_answer_text(r, refusal->status, "application/json", &out);
}


ngx_int_t
ngx_chat_endpoint_away(ngx_http_request_t *r)
{
    static const chat_external_refusal_t refusal = {
        .status = NGX_HTTP_SERVICE_UNAVAILABLE,
        .code = "store_unavailable",
        .message = "the state of conversations cannot be read or written at "
                   "the moment",
    };

    return ngx_chat_endpoint_refuse(r, &refusal);
}
