/*
 * ngx_chat_variables.c: the variables, for access logs and headers.
 *
 * Must not know: how what they say came about.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_index.h"
#include "metrics/ngx_chat_metrics.h"


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
    NGX_CHAT_VAR_ATTEMPT
} ngx_chat_variable_e;


static ngx_int_t ngx_chat_variable(ngx_http_request_t        *r,
                                   ngx_http_variable_value_t *v,
                                   uintptr_t                  data);


static const struct {
    ngx_str_t           name;
    ngx_chat_variable_e which;
} ngx_chat_variables[] = {
    { ngx_string("chat_dialect"), NGX_CHAT_VAR_DIALECT },
    { ngx_string("chat_conversation"), NGX_CHAT_VAR_CONVERSATION },
    { ngx_string("chat_batch"), NGX_CHAT_VAR_BATCH },
    { ngx_string("chat_stream"), NGX_CHAT_VAR_STREAM },
    { ngx_string("chat_verdict"), NGX_CHAT_VAR_VERDICT },
    { ngx_string("chat_reason"), NGX_CHAT_VAR_REASON },
    { ngx_string("chat_turn_status"), NGX_CHAT_VAR_TURN_STATUS },
    { ngx_string("chat_calls"), NGX_CHAT_VAR_CALLS },
    { ngx_string("chat_settled"), NGX_CHAT_VAR_SETTLED },
    { ngx_string("chat_replays_dropped"), NGX_CHAT_VAR_REPLAYS_DROPPED },
    { ngx_string("chat_hold_time"), NGX_CHAT_VAR_HOLD_TIME },
    { ngx_string("chat_store_time"), NGX_CHAT_VAR_STORE_TIME },
    { ngx_string("chat_attempt"), NGX_CHAT_VAR_ATTEMPT },
};


ngx_int_t
ngx_chat_add_variables(ngx_conf_t *cf)
{
    ngx_str_t            name;
    ngx_uint_t           i;
    ngx_http_variable_t *var;

    for (i = 0; i < sizeof(ngx_chat_variables) / sizeof(ngx_chat_variables[0]);
         i++)
    {
        name = ngx_chat_variables[i].name;
        var = ngx_http_add_variable(cf, &name, NGX_HTTP_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_chat_variable;
        var->data = ngx_chat_variables[i].which;
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


static ngx_int_t
ngx_chat_variable_name(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                       const char *name)
{
    return ngx_chat_variable_text(r, v, name, ngx_strlen(name));
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


/* Members of the request's own batch, and how many of them are settled. */
static ngx_uint_t
ngx_chat_variable_members(ngx_chat_ctx_t *ctx, ngx_uint_t settled)
{
    size_t n = ctx->barrier.q.nmembers;

    if (ctx->barrier.q.chained && ctx->barrier.nknown > n) {
        n = ctx->barrier.nknown;
    }

    return settled ? n - ngx_min(n, ctx->barrier.nmissing) : n;
}


static ngx_int_t
ngx_chat_variable_count(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                        ngx_chat_ctx_t *ctx, ngx_uint_t settled)
{
    const chat_stream_info_t *info;

    if (ctx->response.stream == NULL) {
        return ngx_chat_variable_number(
            r, v, ngx_chat_variable_members(ctx, settled));
    }

    info = chat_stream_info(ctx->response.stream);
    return ngx_chat_variable_number(
        r, v,
        settled ? info->settled
                : chat_stream_count(ctx->response.stream)->opened);
}


static ngx_int_t
ngx_chat_variable_ids(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                      ngx_chat_ctx_t *ctx, ngx_chat_variable_e which)
{
    char       hex[33];
    chat_str_t id;

    if (which == NGX_CHAT_VAR_BATCH) {
        if (ctx->barrier.q.dialect == NULL) {
            return ngx_chat_variable_text(r, v, NULL, 0);
        }
        chat_digest_hex(&ctx->barrier.q.key.name, 16, hex);
        return ngx_chat_variable_text(r, v, hex, 32);
    }

    if (which == NGX_CHAT_VAR_STREAM && ctx->stream_id != NULL) {
        return ngx_chat_variable_text(r, v, ctx->stream_id, CHAT_LISTED_ID);
    }

    id = which == NGX_CHAT_VAR_CONVERSATION ? ctx->scope.conversation
         : ctx->response.stream ? chat_stream_info(ctx->response.stream)->id
                                : chat_str(NULL, 0);
    return ngx_chat_variable_text(r, v, id.data, id.len);
}


static ngx_int_t
ngx_chat_variable_status(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                         ngx_chat_ctx_t *ctx)
{
    return ctx->response.answered && ctx->response.finished
               ? ngx_chat_variable_name(r, v, chat_end_name(ctx->response.end))
               : ngx_chat_variable_text(r, v, NULL, 0);
}


static ngx_int_t
ngx_chat_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
                  uintptr_t data)
{
    ngx_chat_ctx_t            *ctx;
    const chat_replay_count_t *count;

    ctx = ngx_chat_get_ctx(r->main);

    if (ctx == NULL) {
        return data == NGX_CHAT_VAR_VERDICT
                   ? ngx_chat_variable_name(r, v, "none")
                   : ngx_chat_variable_text(r, v, NULL, 0);
    }

    if (data == NGX_CHAT_VAR_VERDICT) {
        return ngx_chat_variable_name(r, v, chat_verdict_names[ctx->verdict]);
    }

    if (data == NGX_CHAT_VAR_REASON) {
        return ctx->reason != NULL ? ngx_chat_variable_name(r, v, ctx->reason)
                                   : ngx_chat_variable_text(r, v, NULL, 0);
    }

    if (ctx->dialect == NULL) {
        return ngx_chat_variable_text(r, v, NULL, 0);
    }

    switch (data) {
    case NGX_CHAT_VAR_DIALECT:
        return ngx_chat_variable_name(r, v, ctx->dialect->name);

    case NGX_CHAT_VAR_TURN_STATUS:
        return ngx_chat_variable_status(r, v, ctx);

    case NGX_CHAT_VAR_CALLS:
        return ngx_chat_variable_count(r, v, ctx, 0);

    case NGX_CHAT_VAR_SETTLED:
        return ngx_chat_variable_count(r, v, ctx, 1);

    case NGX_CHAT_VAR_REPLAYS_DROPPED:
        count = ctx->response.stream ? chat_stream_count(ctx->response.stream)
                                     : NULL;
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

    case NGX_CHAT_VAR_ATTEMPT:
        return ngx_chat_variable_number(r, v, ctx->attempt.k);

    default:
        return ngx_chat_variable_ids(r, v, ctx, (ngx_chat_variable_e) data);
    }
}
