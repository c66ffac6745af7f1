/*
 * ngx_chat_contract_module.c: runs one law of chat_store.h per request, on the
 * store that ngx_chat_module opened in this worker.
 *
 * "chat_contract;" in a location. ?list names the laws, one a line; ?law=NAME
 * answers "ok" or "not ok" and the reason; ?do=NAME runs one act of a test
 * with several workers, ?in=WORKER refuses it in any other worker. Must not
 * know: what the laws say, which store it is.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_chat_law.h"
#include "base/ngx_chat_ctx.h"
#include "../buf_printf.h"


static char *ngx_chat_contract(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_chat_contract_handler(ngx_http_request_t *r);


/* clang-format off */

static ngx_command_t ngx_chat_contract_commands[] = {

    { ngx_string("chat_contract"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS,
      ngx_chat_contract, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },

    ngx_null_command
};

/* clang-format on */


static ngx_http_module_t ngx_chat_contract_module_ctx = { NULL, NULL, NULL,
                                                          NULL, NULL, NULL,
                                                          NULL, NULL };


ngx_module_t ngx_chat_contract_module = { NGX_MODULE_V1,
                                          &ngx_chat_contract_module_ctx,
                                          ngx_chat_contract_commands,
                                          NGX_HTTP_MODULE,
                                          NULL,
                                          NULL,
                                          NULL,
                                          NULL,
                                          NULL,
                                          NULL,
                                          NULL,
                                          NGX_MODULE_V1_PADDING };


static const ngx_chat_law_def_t *const ngx_chat_contract_laws[] = {
    ngx_chat_laws_of_joins,    ngx_chat_laws_of_bytes,
    ngx_chat_laws_of_payloads, ngx_chat_laws_of_ops,
    ngx_chat_laws_of_watches,  ngx_chat_laws_of_unwatching,
    ngx_chat_laws_of_workers,  ngx_chat_laws_of_logs,
    ngx_chat_laws_of_pieces,   NULL
};

static const ngx_chat_law_def_t *const ngx_chat_contract_acts[] = {
    ngx_chat_acts, NULL
};


static char *
ngx_chat_contract(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_core_loc_conf_t *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_chat_contract_handler;
    return NGX_CONF_OK;
}


static const ngx_chat_law_def_t *
ngx_chat_contract_find(const ngx_chat_law_def_t *const *lists, ngx_str_t name)
{
    const ngx_chat_law_def_t *def;

    for (; *lists != NULL; lists++) {
        for (def = *lists; def->name != NULL; def++) {
            if (ngx_strlen(def->name) == name.len
                && ngx_memcmp(def->name, name.data, name.len) == 0)
            {
                return def;
            }
        }
    }

    return NULL;
}


static ngx_int_t
ngx_chat_contract_say(ngx_http_request_t *r, const chat_buf_t *text)
{
    ngx_str_t                type = ngx_string("text/plain");
    ngx_str_t                body;
    ngx_http_complex_value_t value;

    body.len = text->len;
    body.data = ngx_pnalloc(r->pool, text->len + 1);
    if (body.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memcpy(body.data, text->data, text->len);
    ngx_memzero(&value, sizeof(value));
    value.value = body;
    return ngx_http_send_response(r, NGX_HTTP_OK, &type, &value);
}


static ngx_int_t
ngx_chat_contract_list(ngx_http_request_t *r)
{
    ngx_int_t                 rc;
    chat_buf_t                text;
    const ngx_chat_law_def_t *def, *const *lists;

    ngx_memzero(&text, sizeof(text));

    for (lists = ngx_chat_contract_laws; *lists != NULL; lists++) {
        for (def = *lists; def->name != NULL; def++) {
            chat_buf_printf(&text, "%s\n", def->name);
        }
    }

    rc = ngx_chat_contract_say(r, &text);
    chat_buf_free(&text);
    return rc;
}


static void
ngx_chat_contract_cleanup(void *data)
{
    ngx_chat_law_destroy(data);
}


static ngx_int_t
ngx_chat_contract_start(ngx_http_request_t *r, chat_store_t *store,
                        const ngx_chat_law_def_t *def)
{
    ngx_chat_law_t     *law;
    ngx_pool_cleanup_t *cln;

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_chat_law_t));
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    law = cln->data;
    ngx_chat_law_init(law, def, store, r);
    cln->handler = ngx_chat_contract_cleanup;

    /* a disconnected client ends its law */
    r->read_event_handler = ngx_http_test_reading;
    r->main->count++;
    return NGX_DONE;
}


static ngx_int_t
ngx_chat_contract_handler(ngx_http_request_t *r)
{
    ngx_str_t                 name;
    chat_store_t             *store;
    const ngx_chat_law_def_t *def = NULL;

    if (ngx_http_discard_request_body(r) != NGX_OK) {
        return NGX_HTTP_BAD_REQUEST;
    }

    if (r->args.len == 4 && ngx_memcmp(r->args.data, "list", 4) == 0) {
        return ngx_chat_contract_list(r);
    }

    store = ngx_chat_worker(r)->store;
    if (store == NULL) {
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    if (ngx_http_arg(r, (u_char *) "in", 2, &name) == NGX_OK
        && !chat_str_eq(store->worker, chat_str(name.data, name.len)))
    {
        return NGX_HTTP_CONFLICT;
    }

    if (ngx_http_arg(r, (u_char *) "law", 3, &name) == NGX_OK) {
        def = ngx_chat_contract_find(ngx_chat_contract_laws, name);

    } else if (ngx_http_arg(r, (u_char *) "do", 2, &name) == NGX_OK) {
        def = ngx_chat_contract_find(ngx_chat_contract_acts, name);
    }

    if (def == NULL) {
        return NGX_HTTP_NOT_FOUND;
    }

    return ngx_chat_contract_start(r, store, def);
}
