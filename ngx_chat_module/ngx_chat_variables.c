/*
 * ngx_chat_variables.c: the variables, for access logs and headers.
 *
 * All are computed from the context of the main request when they are read.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_chat_directives.h"
#include "record/ngx_chat_index.h"
#include "request/ngx_chat_request.h"


typedef enum {
    NGX_CHAT_VAR_DIALECT,
    NGX_CHAT_VAR_CONVERSATION,
    NGX_CHAT_VAR_BATCH,
    NGX_CHAT_VAR_STREAM,
    NGX_CHAT_VAR_VERDICT,
    NGX_CHAT_VAR_REASON,
    NGX_CHAT_VAR_TURN_STATUS,
    NGX_CHAT_VAR_CALLS,
    NGX_CHAT_VAR_SETTLED,
    NGX_CHAT_VAR_REPLAYS_DROPPED,
    NGX_CHAT_VAR_HOLD_TIME,
    NGX_CHAT_VAR_STORE_TIME,
    NGX_CHAT_VAR_ATTEMPT,
    NGX_CHAT_VARS
} ngx_chat_variable_e;


static ngx_int_t ngx_chat_variable(ngx_http_request_t        *r,
                                   ngx_http_variable_value_t *v,
                                   uintptr_t                  data);


static ngx_str_t ngx_chat_variables[NGX_CHAT_VARS] = {
    ngx_string("chat_dialect"),     ngx_string("chat_conversation"),
    ngx_string("chat_batch"),       ngx_string("chat_stream"),
    ngx_string("chat_verdict"),     ngx_string("chat_reason"),
    ngx_string("chat_turn_status"), ngx_string("chat_calls"),
    ngx_string("chat_settled"),     ngx_string("chat_replays_dropped"),
    ngx_string("chat_hold_time"),   ngx_string("chat_store_time"),
    ngx_string("chat_attempt")
};


ngx_int_t
ngx_chat_add_variables(ngx_conf_t *cf)
{
    ngx_uint_t           i;
    ngx_http_variable_t *var;

    for (i = 0; i < NGX_CHAT_VARS; i++) {
        var = ngx_http_add_variable(cf, &ngx_chat_variables[i],
                                    NGX_HTTP_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_chat_variable;
        var->data = i;
    }

    return NGX_OK;
}


/* Copies text into the request's pool as the variable's value. */
static ngx_int_t
ngx_chat_variable_text(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                       const void *data, size_t len)
{
    if (len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = ngx_pnalloc(r->pool, len);
    if (v->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(v->data, data, len);
    v->len = (unsigned) len;
    v->valid = 1;
    v->no_cacheable = 1;
    v->not_found = 0;
    return NGX_OK;
}


/* name NULL: there is no value. */
static ngx_int_t
ngx_chat_variable_name(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                       const char *name)
{
    return ngx_chat_variable_text(r, v, name, name ? ngx_strlen(name) : 0);
}


static ngx_int_t
ngx_chat_variable_number(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                         ngx_uint_t n)
{
    u_char text[NGX_INT_T_LEN];

    return ngx_chat_variable_text(
        r, v, text, (size_t) (ngx_sprintf(text, "%ui", n) - text));
}


/* Milliseconds as seconds with three digits, as $request_time has it. */
static ngx_int_t
ngx_chat_variable_time(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                       ngx_msec_t ms)
{
    u_char text[NGX_INT_T_LEN + 5], *end;

    end = ngx_sprintf(text, "%M.%03M", ms / 1000, ms % 1000);
    return ngx_chat_variable_text(r, v, text, (size_t) (end - text));
}


/*
 * The number of calls of the stream, or else of the request's batch; settled:
 * only those with a result.
 */
static ngx_uint_t
ngx_chat_variable_calls(ngx_chat_ctx_t *ctx, ngx_uint_t settled)
{
    size_t n = ctx->barrier.q.nmembers;

    if (ctx->response.stream != NULL) {
        return settled ? chat_stream_info(ctx->response.stream)->settled
                       : chat_stream_count(ctx->response.stream)->opened;
    }

    if (ctx->barrier.q.chained) {
        n = ngx_max(n, ctx->barrier.nknown);
    }

    return settled ? n - ngx_min(n, ctx->barrier.needs.nmissing) : n;
}


/* The variables of a request with a recognised body. */
static ngx_int_t
ngx_chat_variable_chat(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                       ngx_chat_ctx_t *ctx, uintptr_t which)
{
    char                       hex[33];
    chat_str_t                 id = { NULL, 0 };
    const chat_replay_count_t *count;
    chat_stream_t             *stream = ctx->response.stream;

    switch (which) {
    case NGX_CHAT_VAR_DIALECT:
        return ngx_chat_variable_name(r, v, ctx->dialect->name);

    case NGX_CHAT_VAR_CONVERSATION:
        id = ctx->scope.conversation;
        return ngx_chat_variable_text(r, v, id.data, id.len);

    case NGX_CHAT_VAR_BATCH:
        chat_digest_hex(&ctx->barrier.q.key.name, 16, hex);
        return ngx_chat_variable_name(
            r, v, ctx->barrier.q.dialect != NULL ? hex : NULL);

    case NGX_CHAT_VAR_STREAM:
        if (ctx->stream_id != NULL) {
            return ngx_chat_variable_name(r, v, ctx->stream_id);
        }

        id = stream != NULL ? chat_stream_info(stream)->id : id;
        return ngx_chat_variable_text(r, v, id.data, id.len);

    case NGX_CHAT_VAR_TURN_STATUS:
        return ngx_chat_variable_name(r, v,
                                      ctx->response.answered
                                              && ctx->response.finished
                                          ? chat_end_name(ctx->response.end)
                                          : NULL);

    case NGX_CHAT_VAR_CALLS:
    case NGX_CHAT_VAR_SETTLED:
        return ngx_chat_variable_number(
            r, v, ngx_chat_variable_calls(ctx, which == NGX_CHAT_VAR_SETTLED));

    case NGX_CHAT_VAR_REPLAYS_DROPPED:
        count = stream != NULL ? chat_stream_count(stream) : NULL;
        return ngx_chat_variable_number(
            r, v, count ? count->replays + count->results : 0);

    case NGX_CHAT_VAR_HOLD_TIME:
        return ngx_chat_variable_time(r, v,
                                      ctx->wait.held ? ngx_current_msec
                                                           - ctx->wait.started
                                                     : ctx->wait.total);

    case NGX_CHAT_VAR_STORE_TIME:
        return ngx_chat_variable_time(
            r, v, (ngx_msec_t) (ctx->barrier.asking / 1000));

    default: /* NGX_CHAT_VAR_ATTEMPT */
        return ngx_chat_variable_number(r, v, ctx->attempt.k);
    }
}


static ngx_int_t
ngx_chat_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                  uintptr_t which)
{
    const chat_reason_t *reason;
    ngx_chat_ctx_t      *ctx = ngx_chat_get_ctx(r->main);

    if (which == NGX_CHAT_VAR_VERDICT || which == NGX_CHAT_VAR_REASON) {
        reason = &chat_reasons[ctx ? ctx->reason
                                   : ngx_chat_request_unread(r->main)];

        return ngx_chat_variable_name(
            r, v,
            which == NGX_CHAT_VAR_REASON
                ? reason->word
                : chat_verdict_names[reason->verdict]);
    }

    return ctx != NULL && ctx->dialect != NULL
               ? ngx_chat_variable_chat(r, v, ctx, which)
               : ngx_chat_variable_name(r, v, NULL);
}
