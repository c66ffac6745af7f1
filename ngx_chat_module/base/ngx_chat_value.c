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


ngx_conf_t *
ngx_chat_conf_here(const ngx_conf_t *cf)
{
    struct {
        ngx_conf_t      conf;
        ngx_conf_file_t file;
    } * here;

    here = ngx_palloc(cf->pool, sizeof(*here));
    if (here == NULL) {
        return NULL;
    }

    here->conf = *cf;
    here->file = *cf->conf_file;
    here->conf.conf_file = &here->file;
    return &here->conf;
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


/*
 * Reads the value behind a name of len bytes as NGINX reads that of a
 * directive. The value lives as long as the configuration.
 */
static char *
read_word(ngx_conf_t *cf, const ngx_str_t *word, size_t len,
          const ngx_chat_parameter_t *p, void *conf)
{
    char         *rc;
    ngx_str_t     words[2], *args = cf->args->elts;
    ngx_conf_t    one = *cf;
    ngx_array_t   both = { .elts = words, .nelts = 2 };
    ngx_command_t command = { .name = args[0],
                              .offset = p->offset,
                              .post = p->post };

    words[0] = args[0];
    words[1].data = word->data + len;
    words[1].len = word->len - len;
    one.args = &both;

    rc = p->set(&one, &command, conf);

    if (rc == NGX_CONF_ERROR) {
        return rc; /* it has said why */
    }

    if (rc != NGX_CONF_OK && ngx_strcmp(rc, "is duplicate") == 0) {
        return len == 0 ? rc
                        : ngx_chat_conf_invalid(cf, word, "given only once");
    }

    return rc != NGX_CONF_OK
                   || (p->least > 0
                       && *(ngx_int_t *) ((char *) conf + p->offset)
                              < p->least)
               ? ngx_chat_conf_invalid(cf, word, p->text)
               : NGX_CONF_OK;
}


char *
ngx_chat_conf_parameters(ngx_conf_t *cf, ngx_uint_t i,
                         const ngx_chat_parameter_t *table, void *conf)
{
    char                       *rc = NGX_CONF_OK;
    size_t                      len;
    ngx_str_t                   name, *word = cf->args->elts;
    const ngx_chat_parameter_t *p;

    for (/* void */; i < cf->args->nelts && rc == NGX_CONF_OK; i++) {
        name.data = word[i].data;
        name.len = strcspn((char *) name.data, "=:");
        len = i == 1 && *table->text == '\0' ? 0 : name.len + 1;

        for (p = table;
             p->text != NULL && ngx_strncmp(p->text, name.data, len) != 0; p++)
        {
            /* void */
        }

        if (p->text == NULL) {
            /* its value may be a password */
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "unknown parameter \"%V\" in \"%V\"", &name,
                               &word[0]);
            return NGX_CONF_ERROR;
        }

        rc = read_word(cf, &word[i], len, p, conf);
    }

    return rc;
}


ngx_int_t
ngx_chat_conf_dialect(const ngx_str_t *value, const chat_dialect_t **dialect)
{
    chat_str_t name = ngx_chat_str(value);

    *dialect = chat_dialect_find(name);

    return chat_str_is(name, "off")                        ? NGX_DECLINED
           : *dialect != NULL || chat_str_is(name, "auto") ? NGX_OK
                                                           : NGX_ERROR;
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
