/*
 * sim_never.c: functions that the module is linked with, and that no schedule
 * reaches.
 *
 * No header of NGINX is included here: the types do not matter.
 */

#include <stdio.h>
#include <stdlib.h>

#define NEVER(name)                               \
    void name(void);                              \
    void name(void)                               \
    {                                             \
        printf("unexpected call of " #name "\n"); \
        abort();                                  \
    }

NEVER(ngx_atoi)
NEVER(ngx_atotm)
NEVER(ngx_conf_log_error)
NEVER(ngx_http_arg)
NEVER(ngx_log_error_core)
NEVER(ngx_parse_http_time)
NEVER(ngx_parse_size)
NEVER(ngx_parse_time)
NEVER(ngx_read_file)
NEVER(ngx_regex_exec)
NEVER(ngx_unescape_uri)
