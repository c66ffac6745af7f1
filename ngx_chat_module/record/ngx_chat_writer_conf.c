/*
 * ngx_chat_writer_conf.c: reads chat_record.
 *
 * Promises: nonsense is refused with the name of the directive and the value
 * that is wrong. Must not know: what the values do.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_writer.h"

#define NGX_CHAT_RECORD_LEAST (64 * 1024)
#define NGX_CHAT_RECORD_MAX (4 * 1024 * 1024)
#define NGX_CHAT_RECORD_TTL (10 * 60)


static ngx_int_t
ngx_chat_conf_record_mode(const ngx_str_t *value, ngx_chat_loc_conf_t *conf)
{
    if (ngx_strcmp(value->data, "off") == 0) {
        conf->record = NGX_CHAT_RECORD_OFF;

    } else if (ngx_strcmp(value->data, "auto") == 0) {
        conf->record = NGX_CHAT_RECORD_AUTO;

    } else if (ngx_strcmp(value->data, "on") == 0) {
        conf->record = NGX_CHAT_RECORD_ON;

    } else {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* max=SIZE or ttl=TIME */
static ngx_int_t
ngx_chat_conf_record_bound(const ngx_str_t *value, ngx_chat_loc_conf_t *conf)
{
    ngx_str_t text;

    if (value->len < 4) {
        return NGX_ERROR;
    }

    text.data = value->data + 4;
    text.len = value->len - 4;

    if (ngx_strncmp(value->data, "max=", 4) == 0) {
        ssize_t size = ngx_parse_size(&text);

        conf->record_max = (size_t) size;
        return size >= NGX_CHAT_RECORD_LEAST ? NGX_OK : NGX_ERROR;
    }

    if (ngx_strncmp(value->data, "ttl=", 4) == 0) {
        conf->record_ttl = ngx_parse_time(&text, 1);
        return conf->record_ttl > 0 ? NGX_OK : NGX_ERROR;
    }

    return NGX_ERROR;
}


char *
ngx_chat_conf_record(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_uint_t            i;
    ngx_str_t            *value = cf->args->elts;
    ngx_chat_loc_conf_t  *lcf = conf;
    ngx_chat_main_conf_t *mcf;

    if (lcf->record != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    lcf->record_max = NGX_CHAT_RECORD_MAX;
    lcf->record_ttl = NGX_CHAT_RECORD_TTL;

    for (i = 1; i < cf->args->nelts; i++) {
        if ((i == 1 ? ngx_chat_conf_record_mode(&value[i], lcf)
                    : ngx_chat_conf_record_bound(&value[i], lcf))
            != NGX_OK)
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid value \"%V\" in \"%V\", it must be "
                               "off, auto or on, and then max=SIZE of at "
                               "least 64k, ttl=TIME of at least 1s",
                               &value[i], &cmd->name);
            return NGX_CONF_ERROR;
        }
    }

    if (lcf->record == NGX_CHAT_RECORD_ON) {
        mcf = ngx_http_conf_get_module_main_conf(cf, ngx_chat_module);
        mcf->recorded = 1;
    }

    return NGX_CONF_OK;
}


void
ngx_chat_writer_merge(ngx_chat_loc_conf_t *prev, ngx_chat_loc_conf_t *conf)
{
    if (conf->record != NGX_CONF_UNSET_UINT) {
        return;
    }

    conf->record = prev->record;
    conf->record_max = prev->record_max;
    conf->record_ttl = prev->record_ttl;

    if (conf->record == NGX_CONF_UNSET_UINT) {
        conf->record = NGX_CHAT_RECORD_AUTO;
        conf->record_max = NGX_CHAT_RECORD_MAX;
        conf->record_ttl = NGX_CHAT_RECORD_TTL;
    }
}
