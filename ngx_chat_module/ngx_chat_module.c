/*
 * ngx_chat_module.c: the directives, and the setup of module and workers.
 *
 * A configuration without a directive of this module installs no handler, no
 * filter and no zone.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_chat_directives.h"
#include "record/ngx_chat_reader.h"
#include "metrics/ngx_chat_metrics.h"
#include "endpoint/ngx_chat_endpoint.h"
#include "store/redis/ngx_chat_store_redis.h"
#include "store/shm/ngx_chat_shm.h"

#include "bytes/chat_table.h"

#define NGX_CHAT_KEPT_MEMORY (2 * 1024 * 1024) /* of the heap, if it is free */


/* 1 once the only process of "master_process off" works with the module. */
static ngx_uint_t ngx_chat_is_single;


static ngx_int_t
ngx_chat_postconfiguration(ngx_conf_t *cf)
{
    ngx_http_handler_pt       *handler;
    ngx_http_core_main_conf_t *cmcf;
    ngx_chat_main_conf_t      *mcf =
        ngx_http_conf_get_module_main_conf(cf, ngx_chat_module);

    /* such a reload calls no init_process, and frees what is in use */
    if (ngx_chat_is_single
        || (mcf->used && ngx_process == NGX_PROCESS_SINGLE
            && !ngx_is_init_cycle(cf->cycle->old_cycle)))
    {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "the chat module cannot be reloaded with "
                           "\"master_process off\", restart NGINX");
        return NGX_ERROR;
    }

    if (!mcf->used) {
        return NGX_OK;
    }

    if (mcf->resume_at != NULL && !mcf->recorded) {
        ngx_conf_log_error(NGX_LOG_WARN, mcf->resume_at, 0,
                           "\"chat_resume\" finds no recordings: set "
                           "\"chat_record on\" in the location of the chat");
    }

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);

    handler =
        ngx_array_push(&cmcf->phases[NGX_HTTP_PRECONTENT_PHASE].handlers);
    if (handler == NULL) {
        return NGX_ERROR;
    }

    *handler = ngx_chat_handler;

    if (ngx_chat_filter_init(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    mcf->worker.metrics = ngx_chat_metrics_create(cf, &ngx_chat_module);
    return mcf->worker.metrics ? ngx_chat_conf_store_init(cf) : NGX_ERROR;
}


static ngx_chat_main_conf_t *
ngx_chat_main_conf(ngx_cycle_t *cycle)
{
    if (ngx_get_conf(cycle->conf_ctx, ngx_http_module) == NULL) {
        return NULL;
    }

    return ngx_http_cycle_get_module_main_conf(cycle, ngx_chat_module);
}


/* Logs that a reload begins with an empty store. */
static ngx_int_t
ngx_chat_init_module(ngx_cycle_t *cycle)
{
    ngx_cycle_t          *old = cycle->old_cycle;
    ngx_module_t        **module = old->modules;
    chat_status_t         status;
    ngx_shm_zone_t       *zone, *former;
    ngx_chat_main_conf_t *mcf, *before;

    /* the module, as loaded now, may not have been in the old cycle */
    while (module != NULL && *module != NULL && *module != &ngx_chat_module) {
        module++;
    }

    if (ngx_is_init_cycle(old) || module == NULL || *module == NULL) {
        return NGX_OK;
    }

    mcf = ngx_chat_main_conf(cycle);
    before = ngx_chat_main_conf(old);
    if (mcf == NULL || before == NULL || !mcf->used) {
        return NGX_OK;
    }

    zone = mcf->zone;
    former = before->zone;

    if (former != NULL && (zone == NULL || zone->shm.size != former->shm.size))
    {
        ngx_memzero(&status, sizeof(status));
        ngx_chat_metrics_read(mcf->worker.metrics, &status);
        ngx_log_error(NGX_LOG_WARN, cycle->log, 0,
                      "chat: \"chat_store\" has changed: stored results are "
                      "lost, and %uL requests that wait in old workers do not "
                      "see later results; change it while no request waits",
                      status.metrics.now.holds);
    }

    return NGX_OK;
}


/*
 * Two facts for each of twice as many calls as a step may have, and as many
 * again for approvals, attempts, and a conversation's streams.
 */
static uint32_t
ngx_chat_most_facts(const ngx_chat_main_conf_t *mcf)
{
    return (uint32_t) ngx_min(CHAT_STORE_FACTS / 2
                                  + 4 * (ngx_uint_t) mcf->max_calls,
                              CHAT_STORE_FACTS_MAX);
}


/*
 * glibc returns free memory at the end of the heap to the system when it is
 * more than 128 KB, and each request would get its pages anew; but once a
 * larger block has been freed, it keeps twice that size.
 */
static void
keep_free_memory(void)
{
    void *volatile block = malloc(NGX_CHAT_KEPT_MEMORY / 2);

    free(block);
}


static ngx_int_t
ngx_chat_init_process(ngx_cycle_t *cycle)
{
    chat_digest_t         seed;
    chat_store_t         *store;
    ngx_chat_worker_t    *worker;
    ngx_chat_main_conf_t *mcf;

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK; /* a cache manager handles no requests */
    }

    mcf = ngx_chat_main_conf(cycle);
    if (mcf == NULL || !mcf->used) {
        return NGX_OK;
    }

    ngx_chat_is_single = ngx_process == NGX_PROCESS_SINGLE;

    if (ngx_chat_random(&seed, sizeof(seed), cycle->log) != NGX_OK) {
        return NGX_ERROR;
    }

    chat_table_seed(&seed);
    keep_free_memory();

    worker = &mcf->worker;
    ngx_chat_metrics_join(worker->metrics, cycle->log);

    store = mcf->redis ? ngx_chat_store_redis_open(mcf->redis, cycle)
                       : ngx_chat_store_shm_open(mcf->zone, cycle);
    worker->store = store;
    worker->ttl =
        (uint32_t) ngx_min((mcf->ttl + 999) / 1000, NGX_MAX_INT32_VALUE);
    ngx_queue_init(&worker->attempts);
    ngx_rbtree_init(&worker->readers, &worker->readers_sentinel,
                    ngx_str_rbtree_insert_value);

    if (store != NULL) {
        store->lost = ngx_chat_attempts_rejoin;
        store->data = worker;
        store->most_facts = ngx_chat_most_facts(mcf);
    }

    ngx_chat_status_init(mcf, cycle);
    return ngx_chat_hold_init(worker, cycle);
}


static void
ngx_chat_exit_process(ngx_cycle_t *cycle)
{
    ngx_chat_main_conf_t *mcf = ngx_chat_main_conf(cycle);

    if (mcf == NULL || !mcf->used) {
        return;
    }

    ngx_chat_metrics_leave(mcf->worker.metrics);

    if (mcf->worker.store == NULL) {
        return;
    }

    if (mcf->redis != NULL) {
        ngx_chat_store_redis_close(mcf->worker.store);
    } else {
        ngx_chat_store_shm_close(mcf->worker.store);
    }
}


static ngx_conf_enum_t ngx_chat_hold_values[] = {
    { ngx_string("off"), NGX_CHAT_HOLD_OFF },
    { ngx_string("auto"), NGX_CHAT_HOLD_AUTO },
    { ngx_string("TIME"), 0 },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t ngx_chat_stall_values[] = {
    { ngx_string("off"), 0 },
    { ngx_string("TIME above 0"), 1 },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t ngx_chat_repair_values[] = {
    { ngx_string("off"), NGX_CHAT_REPAIR_OFF },
    { ngx_string("settled"), NGX_CHAT_REPAIR_SETTLED },
    { ngx_string("all"), NGX_CHAT_REPAIR_ALL },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t ngx_chat_record_values[] = {
    { ngx_string("off"), NGX_CHAT_RECORD_OFF },
    { ngx_string("auto"), NGX_CHAT_RECORD_AUTO },
    { ngx_string("on"), NGX_CHAT_RECORD_ON },
    { ngx_null_string, 0 }
};

static ngx_conf_enum_t ngx_chat_failure_values[] = {
    { ngx_string("pass"), NGX_CHAT_FAILURE_PASS },
    { ngx_string("deny"), NGX_CHAT_FAILURE_DENY },
    { ngx_null_string, 0 }
};


/* clang-format off */

#define NGX_CHAT_ANYWHERE                                                     \
    NGX_HTTP_MAIN_CONF | NGX_HTTP_SRV_CONF | NGX_HTTP_LOC_CONF

#define NGX_CHAT_LOC(name, args, set, field, post)                            \
    { ngx_string(name), NGX_CHAT_ANYWHERE | args, set,                        \
      NGX_HTTP_LOC_CONF_OFFSET, offsetof(ngx_chat_loc_conf_t, field), post }

static ngx_command_t ngx_chat_commands[] = {

    { ngx_string("chat_store"), NGX_HTTP_MAIN_CONF | NGX_CONF_1MORE,
      ngx_chat_conf_store, NGX_HTTP_MAIN_CONF_OFFSET, 0, NULL },

    NGX_CHAT_LOC("chat", NGX_CONF_TAKE1, ngx_chat_conf_chat, chat, NULL),
    NGX_CHAT_LOC("chat_conversation", NGX_CONF_TAKE1,
                 ngx_http_set_complex_value_slot, conversation, NULL),
    NGX_CHAT_LOC("chat_tenant", NGX_CONF_TAKE12, ngx_chat_conf_tenant, tenant,
                 NULL),
    NGX_CHAT_LOC("chat_replay_filter", NGX_CONF_FLAG, ngx_conf_set_flag_slot,
                 replay_filter, NULL),
    NGX_CHAT_LOC("chat_hold", NGX_CONF_TAKE123, ngx_chat_conf_hold, hold,
                 ngx_chat_hold_values),
    NGX_CHAT_LOC("chat_repair", NGX_CONF_TAKE1, ngx_chat_conf_enum,
                 repair, ngx_chat_repair_values),
    NGX_CHAT_LOC("chat_record", NGX_CONF_TAKE123, ngx_chat_conf_record, record,
                 ngx_chat_record_values),
    NGX_CHAT_LOC("chat_store_failure", NGX_CONF_TAKE1, ngx_chat_conf_enum,
                 failure, ngx_chat_failure_values),
    NGX_CHAT_LOC("chat_stall", NGX_CONF_TAKE1, ngx_chat_conf_enum, stall,
                 ngx_chat_stall_values),
    NGX_CHAT_LOC("chat_tool", NGX_CONF_TAKE2, ngx_chat_conf_tool, tools,
                 NULL),
    { ngx_string("chat_limits"), NGX_CHAT_ANYWHERE | NGX_CONF_1MORE,
      ngx_chat_conf_limits, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },

    { ngx_string("chat_results"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS,
      ngx_chat_conf_results, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },

    { ngx_string("chat_resume"), NGX_HTTP_LOC_CONF | NGX_CONF_TAKE12,
      ngx_chat_conf_resume, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },

    NGX_CHAT_LOC("chat_dry_run", NGX_CONF_FLAG, ngx_conf_set_flag_slot,
                 dry_run, NULL),

    { ngx_string("chat_status"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS,
      ngx_chat_conf_status, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },

    ngx_null_command
};

/* clang-format on */


static ngx_http_module_t ngx_chat_module_ctx = {
    .preconfiguration = ngx_chat_add_variables,
    .postconfiguration = ngx_chat_postconfiguration,
    .create_main_conf = ngx_chat_create_main_conf,
    .create_loc_conf = ngx_chat_create_loc_conf,
    .merge_loc_conf = ngx_chat_merge_loc_conf,
};


ngx_module_t ngx_chat_module = {
    NGX_MODULE_V1,
    .ctx = &ngx_chat_module_ctx,
    .commands = ngx_chat_commands,
    .type = NGX_HTTP_MODULE,
    .init_module = ngx_chat_init_module,
    .init_process = ngx_chat_init_process,
    .exit_process = ngx_chat_exit_process,
};
