/*
 * ngx_chat_value.c: values of directives.
 *
 * A variable may be a "map" with regular expressions, and their captures
 * replace those of the request. Promises: the location's $1 keeps its value,
 * for the other directives of the module and for proxy_pass.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_ctx.h"


ngx_int_t
ngx_chat_value(ngx_http_request_t *r, ngx_http_complex_value_t *of,
               ngx_str_t *value)
{
#if (NGX_PCRE)
    int       *captures = r->captures;
    u_char    *data = r->captures_data;
    ngx_int_t  rc;
    ngx_uint_t n = r->ncaptures, shared = r->realloc_captures;

    /* an expression that captures then takes an array of its own */
    r->realloc_captures = 1;

    rc = ngx_http_complex_value(r, of, value);

    r->captures = captures;
    r->captures_data = data;
    r->ncaptures = n;
    r->realloc_captures = shared;
    return rc;
#else
    return ngx_http_complex_value(r, of, value);
#endif
}


char *
ngx_chat_conf_invalid(ngx_conf_t *cf, const ngx_str_t *value, const char *must)
{
    ngx_str_t *directive = cf->args->elts;

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid value \"%V\" in \"%V\", it must be %s", value,
                       directive, must);
    return NGX_CONF_ERROR;
}


ngx_int_t
ngx_chat_conf_dialect(const ngx_str_t *value, const chat_dialect_t **dialect)
{
    chat_str_t name = chat_str(value->data, value->len);

    *dialect = NULL;

    if (chat_str_is(name, "off")) {
        return NGX_DECLINED;
    }

    if (chat_str_is(name, "auto")) {
        return NGX_OK;
    }

    *dialect = chat_dialect_find(name);
    return *dialect ? NGX_OK : NGX_ERROR;
}


chat_kind_e
ngx_chat_kind(void *data, chat_str_t name, chat_kind_e kind)
{
#if (NGX_PCRE)
    ngx_str_t            text;
    ngx_uint_t           i;
    ngx_chat_tool_t     *tool;
    ngx_chat_loc_conf_t *conf = data;

    if (conf->tools == NULL) {
        return kind;
    }

    text.data = (u_char *) name.data;
    text.len = name.len;
    tool = conf->tools->elts;

    for (i = 0; i < conf->tools->nelts; i++) {
        if (ngx_regex_exec(tool[i].regex, &text, NULL, 0) >= 0) {
            return tool[i].kind == CHAT_KIND_CLIENT
                           && kind == CHAT_KIND_APPROVAL
                       ? kind
                       : tool[i].kind;
        }
    }
#endif

    return kind;
}
