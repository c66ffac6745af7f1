/*
 * ngx_chat_status.h: chat_status, a content handler that returns the counters
 * and the state of this node.
 *
 * It reads shared memory alone, and asks no store.
 */

#ifndef NGX_CHAT_STATUS_H
#define NGX_CHAT_STATUS_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_module.h"

#define NGX_CHAT_VERSION "0.1.0"

/* The directive. */
char *ngx_chat_conf_status(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* A worker begins, its store is open. */
void ngx_chat_status_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle);

#endif /* NGX_CHAT_STATUS_H */
