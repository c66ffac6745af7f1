/*
 * ngx_chat_conf.h: what the directives say.
 *
 * The settings of a location, and what belongs to the whole of a worker.
 * A location's are merged when nginx has read its configuration and are not
 * changed after that.
 */

#ifndef NGX_CHAT_CONF_H
#define NGX_CHAT_CONF_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "dialect/chat_dialect.h"
#include "facts/chat_store.h"

#include "base/ngx_chat_share.h"

/* In place of a time of chat_hold. */
#define NGX_CHAT_HOLD_OFF ((ngx_msec_t) -2)
#define NGX_CHAT_HOLD_AUTO ((ngx_msec_t) -3)

#define NGX_CHAT_RECORD_OFF 0
#define NGX_CHAT_RECORD_AUTO 1
#define NGX_CHAT_RECORD_ON 2

#define NGX_CHAT_FAILURE_PASS 0
#define NGX_CHAT_FAILURE_DENY 1

#define NGX_CHAT_REPAIR_OFF 0
#define NGX_CHAT_REPAIR_SETTLED 1
#define NGX_CHAT_REPAIR_ALL 2


#define NGX_CHAT_QUOTAS 2 /* of waiting requests: places, and bytes */

/* The state of this worker; all of it but metrics is set up at its start. */
typedef struct {
    chat_store_t              *store; /* NULL: there is none */
    struct ngx_chat_metrics_s *metrics;
    uint32_t                   ttl;    /* of batches, s */
    ngx_uint_t                 serial; /* of requests, for their names */
    ngx_uint_t                 held;   /* requests that wait */
    ngx_queue_t                holds;  /* their contexts */
    ngx_chat_shares_t          quotas[NGX_CHAT_QUOTAS]; /* of their tenants */
    ngx_queue_t                attempts; /* contexts of those without an end */
    ngx_event_t                watchdog; /* notices the worker's exit */
    ngx_event_t                tick;     /* of chat_status */
    ngx_rbtree_t               groups;   /* of requests that wait */
    ngx_rbtree_node_t          groups_sentinel;
    ngx_rbtree_t               readers; /* recordings that it follows */
    ngx_rbtree_node_t          readers_sentinel;
    chat_store_op_t            trim;    /* of a conversation index */
    chat_key_t                 trimmed; /* that index */
    unsigned                   unknown_warned : 1; /* a value of "chat" */
    unsigned                   anonymous_warned : 1;
    unsigned                   tenants_warned : 1;
} ngx_chat_worker_t;

typedef struct {
    ngx_uint_t        used;     /* chat is on somewhere */
    ngx_conf_t       *store_at; /* chat_store, or NULL */
    size_t            shm_size;
    ngx_msec_t        ttl;       /* of batches */
    ngx_int_t         max_calls; /* the largest of all locations */
    void             *zone;
    void             *redis; /* ngx_chat_redis_conf_t; NULL: shared memory */
    ngx_conf_t       *resume_at; /* the last chat_resume, or NULL */
    ngx_uint_t        recorded;  /* chat_record on is */
    ngx_uint_t        status;    /* chat_status is */
    ngx_chat_worker_t worker;
} ngx_chat_main_conf_t;

/* A word of a directive; the text of the last row of a table is NULL. */
typedef struct {
    const char *text; /* NAME=VALUE, as a refusal has it; "": the first word */
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
    ngx_int_t least; /* if above 0; of a text: its length */
    size_t    offset;
    void     *post; /* of set() */
} ngx_chat_parameter_t;

typedef struct {
#if (NGX_PCRE)
    ngx_regex_t *regex;
#endif
    chat_kind_e kind;
} ngx_chat_tool_t;

typedef struct {
    ngx_flag_t                chat;
    const chat_dialect_t     *dialect;  /* NULL: any */
    ngx_http_complex_value_t *variable; /* chat for each request, or NULL */
    ngx_conf_t               *chat_at;  /* "chat", or NULL */
    ngx_http_complex_value_t *conversation;
    ngx_http_complex_value_t *tenant;
    ngx_http_complex_value_t *scope;          /* of the same chat_tenant */
    ngx_uint_t                default_tenant; /* without chat_tenant: */
    ngx_http_complex_value_t  credentials;
    ngx_http_complex_value_t  server; /* without a scope: its name */
    ngx_str_t  *endpoint; /* chat_results, chat_resume, chat_status; or NULL */
    ngx_conf_t *endpoint_at;           /* that directive, or NULL */
    ngx_uint_t  needs_tenant;          /* the endpoint does */
    ngx_http_complex_value_t *resume;  /* chat_resume: conversation */
    ngx_uint_t                running; /* chat_resume: only running streams */
    ngx_flag_t                replay_filter;
    ngx_msec_t                hold;
    ngx_msec_t                grace;
    ngx_msec_t                heartbeat;
    ngx_uint_t                repair;
    ngx_uint_t                record;
    size_t                    record_max;
    ngx_int_t                 record_ttl; /* s */
    ngx_uint_t                failure;
    ngx_msec_t                stall; /* 0: off */
    ngx_array_t              *tools; /* ngx_chat_tool_t; or NULL */
    size_t                    max_body;
    size_t                    max_event;
    ngx_int_t                 max_calls;
    size_t                    max_result;
    ngx_int_t                 max_held;
    size_t                    max_held_bytes;
    ngx_flag_t                dry_run;
} ngx_chat_loc_conf_t;


/* The worker's state, from a request. */
#define ngx_chat_worker(r)                                     \
    (&((ngx_chat_main_conf_t *) ngx_http_get_module_main_conf( \
           (r), ngx_chat_module))                              \
          ->worker)

/* ngx_chat_value.c */

/*
 * Remembers the directive that is being read: a copy of cf, in its pool, with
 * which ngx_conf_log_error() names that file and line later. NULL: no memory.
 */
ngx_conf_t *ngx_chat_conf_here(const ngx_conf_t *cf);

/*
 * Refuses a value of the directive that is being read, with "must" as what it
 * must be. Returns NGX_CONF_ERROR.
 */
char *ngx_chat_conf_invalid(ngx_conf_t *cf, const ngx_str_t *value,
                            const char *must);

/*
 * Reads the directive's words from the i-th on, each NAME=VALUE of the table,
 * into fields of conf. A word that is none of them is not printed: in
 * chat_store it may be a password. Returns NGX_CONF_OK or NGX_CONF_ERROR.
 */
char *ngx_chat_conf_parameters(ngx_conf_t *cf, ngx_uint_t i,
                               const ngx_chat_parameter_t *table, void *conf);

/*
 * Reads a value of "chat" without variables. *dialect NULL: any; NGX_DECLINED:
 * off; NGX_ERROR: the value is unknown.
 */
ngx_int_t ngx_chat_conf_dialect(const ngx_str_t       *value,
                                const chat_dialect_t **dialect);

/* chat_tool: the first expression that matches the name decides. */
chat_kind_e ngx_chat_kind(void *conf, chat_str_t name, chat_kind_e kind);

#endif /* NGX_CHAT_CONF_H */
