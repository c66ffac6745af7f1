/*
 * ngx_chat_value.c: the value of a directive with variables.
 *
 * A variable may be a "map" of regular expressions, and what one of them
 * captures takes the place of the request's captures.
 * Promises: $1 of the location is after it what it was before, for the other
 * directives of the module and for proxy_pass.
 * Must not know: what the value is for.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_module.h"


ngx_int_t
ngx_chat_value(ngx_http_request_t *r, ngx_http_complex_value_t *of,
               ngx_str_t *value)
{
#if (NGX_PCRE)
    int       *captures = r->captures;
    u_char    *data = r->captures_data;
    ngx_int_t  rc;
    ngx_uint_t n = r->ncaptures, shared = r->realloc_captures;

    /* whoever captures takes an array of his own */
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
