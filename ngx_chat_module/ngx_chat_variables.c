/*
 * ngx_chat_variables.c: the variables, for access logs and headers.
 *
 * All are computed from the context of the main request when they are read.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_chat_directives.h"
#include "request/ngx_chat_request.h"

#define NGX_CHAT_VAR_TEXT (NGX_INT_T_LEN + 33) /* a number, or hex digits */

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


static ngx_str_t ngx_chat_variables[NGX_CHAT_VARS] = {
    ngx_string("chat_dialect"),     ngx_string("chat_conversation"),
    ngx_string("chat_batch"),       ngx_string("chat_stream"),
    ngx_string("chat_verdict"),     ngx_string("chat_reason"),
    ngx_string("chat_turn_status"), ngx_string("chat_calls"),
    ngx_string("chat_settled"),     ngx_string("chat_replays_dropped"),
    ngx_string("chat_hold_time"),   ngx_string("chat_store_time"),
    ngx_string("chat_attempt")
};


static chat_str_t
number(u_char *text, ngx_uint_t n)
{
    return chat_str(text, (size_t) (ngx_sprintf(text, "%ui", n) - text));
}


/* Milliseconds as seconds with three digits, as $request_time has it. */
static chat_str_t
seconds(u_char *text, ngx_msec_t ms)
{
    u_char *end = ngx_sprintf(text, "%M.%03M", ms / 1000, ms % 1000);

    return chat_str(text, (size_t) (end - text));
}


/*
 * The number of calls of the stream, or else of the request's batch; settled:
 * only those with a result.
 */
static ngx_uint_t
calls(ngx_chat_ctx_t *ctx, ngx_uint_t settled)
{
    size_t n = ctx->barrier.q.nmembers;

    if (ctx->response.stream != NULL) {
        return settled ? chat_stream_info(ctx->response.stream)->settled
                       : chat_stream_info(ctx->response.stream)->replay.opened;
    }

    if (ctx->barrier.q.chained) {
        n = ngx_max(n, ctx->barrier.nknown);
    }

    return settled ? n - ngx_min(n, ctx->barrier.needs.nmissing) : n;
}


/*
 * The value for a request with a recognised body, or empty: the variable is
 * not found. text: room of NGX_CHAT_VAR_TEXT bytes.
 */
static chat_str_t
value_of(ngx_chat_ctx_t *ctx, uintptr_t which, u_char *text)
{
    const chat_replay_count_t *count;
    chat_str_t                 none = { NULL, 0 };
    chat_stream_t             *stream = ctx->response.stream;

    switch (which) {
    case NGX_CHAT_VAR_DIALECT:
        return chat_cstr(ctx->dialect->name);

    case NGX_CHAT_VAR_CONVERSATION:
        return ctx->scope.conversation;

    case NGX_CHAT_VAR_BATCH:
        chat_hex(ctx->barrier.q.key.name.bytes, 16, (char *) text);
        return ctx->barrier.q.dialect ? chat_cstr((char *) text) : none;

    case NGX_CHAT_VAR_STREAM:
        return ctx->stream_id   ? chat_cstr(ctx->stream_id)
               : stream != NULL ? chat_stream_info(stream)->id
                                : none;

    case NGX_CHAT_VAR_TURN_STATUS:
        return ctx->response.answered && ctx->response.finished
                   ? chat_cstr(chat_end_names[ctx->response.end])
                   : none;

    case NGX_CHAT_VAR_CALLS:
    case NGX_CHAT_VAR_SETTLED:
        return number(text, calls(ctx, which == NGX_CHAT_VAR_SETTLED));

    case NGX_CHAT_VAR_REPLAYS_DROPPED:
        count = stream != NULL ? &chat_stream_info(stream)->replay : NULL;
        return number(text, count ? count->replays + count->results : 0);

    case NGX_CHAT_VAR_HOLD_TIME:
        return seconds(text, ctx->wait.held
                                 ? ngx_current_msec - ctx->wait.started
                                 : ctx->wait.total);

    case NGX_CHAT_VAR_STORE_TIME:
        return seconds(text, (ngx_msec_t) (ctx->barrier.asking / 1000));

    default: /* NGX_CHAT_VAR_ATTEMPT */
        return number(text, ctx->attempt.k);
    }
}


static ngx_int_t
ngx_chat_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                  uintptr_t which)
{
    u_char               text[NGX_CHAT_VAR_TEXT];
    chat_str_t           value = { NULL, 0 };
    ngx_chat_ctx_t      *ctx = ngx_chat_get_ctx(r->main);
    const chat_reason_t *reason;

    if (which == NGX_CHAT_VAR_VERDICT || which == NGX_CHAT_VAR_REASON) {
        reason = &chat_reasons[ctx ? ctx->reason
                                   : ngx_chat_request_unread(r->main)];
        value = chat_cstr(which == NGX_CHAT_VAR_REASON
                              ? reason->word
                              : chat_verdict_names[reason->verdict]);

    } else if (ctx != NULL && ctx->dialect != NULL) {
        value = value_of(ctx, which, text);
    }

    if (value.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = ngx_pnalloc(r->pool, value.len);
    if (v->data == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(v->data, value.data, value.len);
    v->len = (unsigned) value.len;
    v->valid = 1;
    v->no_cacheable = 1;
    v->not_found = 0;
    return NGX_OK;
}


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
