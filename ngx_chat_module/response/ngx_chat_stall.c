/*
 * ngx_chat_stall.c: chat_stall, the bound of a stream's silence.
 *
 * An upstream that sends signs of life only, comments and pings, never times
 * out by itself. At the bound it is ended the way nginx ends one that sends
 * nothing at all, so that what follows is as after any other break.
 * Promises: the wait for a client that reads slowly is no silence; a stream
 * that the core does not read is left alone.
 * Must not know: what is content.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "base/ngx_chat_module.h"


char *
ngx_chat_conf_stall(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_int_t            msec;
    ngx_str_t           *value = cf->args->elts;
    ngx_chat_loc_conf_t *lcf = conf;

    if (lcf->stall != NGX_CONF_UNSET_MSEC) {
        return "is duplicate";
    }

    if (ngx_strcmp(value[1].data, "off") == 0) {
        lcf->stall = 0;
        return NGX_CONF_OK;
    }

    msec = ngx_parse_time(&value[1], 0);
    if (msec == NGX_ERROR || msec == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid value \"%V\" in \"%V\", it must be off "
                           "or a time above 0",
                           &value[1], &cmd->name);
        return NGX_CONF_ERROR;
    }

    lcf->stall = (ngx_msec_t) msec;
    return NGX_CONF_OK;
}


static void
ngx_chat_stall_handler(ngx_event_t *ev)
{
    ngx_chat_ctx_t *ctx = ev->data;
    ngx_msec_t      stall = ctx->conf->stall;

    if (ngx_chat_upstream_break(ctx, "stall") == NGX_AGAIN) {
        ngx_add_timer(ev, stall);
    }
}


void
ngx_chat_stall_begin(ngx_chat_ctx_t *ctx)
{
    ngx_chat_loc_conf_t *conf = ctx->conf;

    if (conf->stall == 0 || conf->dry_run || ctx->response.stream == NULL
        || ctx->request->upstream == NULL)
    {
        return;
    }

    ctx->response.stall.handler = ngx_chat_stall_handler;
    ctx->response.stall.data = ctx;
    ctx->response.stall.log = ctx->request->connection->log;
    ngx_add_timer(&ctx->response.stall, conf->stall);
}


void
ngx_chat_stall_restart(ngx_chat_ctx_t *ctx)
{
    if (ctx->response.stall.timer_set) {
        ngx_add_timer(&ctx->response.stall, ctx->conf->stall);
    }
}


void
ngx_chat_stall_progress(ngx_chat_ctx_t *ctx)
{
    uint32_t content = chat_stream_info(ctx->response.stream)->content;

    if (content != ctx->response.content) {
        ctx->response.content = content;
        ngx_chat_stall_restart(ctx);
    }
}


void
ngx_chat_stall_end(ngx_chat_ctx_t *ctx)
{
    if (ctx->response.stall.timer_set) {
        ngx_del_timer(&ctx->response.stall);
    }
}
