/*
 * ngx_chat_directives.h: what the root's files share: directives, variables.
 *
 * The setters of chat_results, chat_resume and chat_status are in endpoint/.
 */

#ifndef NGX_CHAT_DIRECTIVES_H
#define NGX_CHAT_DIRECTIVES_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_ctx.h"

/* ngx_chat_conf.c */
extern ngx_command_t ngx_chat_commands[];

void     *ngx_chat_create_main_conf(ngx_conf_t *cf);
void     *ngx_chat_create_loc_conf(ngx_conf_t *cf);
char     *ngx_chat_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child);
ngx_int_t ngx_chat_conf_store_init(ngx_conf_t *cf);

/* ngx_chat_variables.c */
ngx_int_t ngx_chat_add_variables(ngx_conf_t *cf);

#endif /* NGX_CHAT_DIRECTIVES_H */
