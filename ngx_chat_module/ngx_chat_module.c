/*
 * ngx_chat_module.c: the setup of module and workers.
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

#define NGX_CHAT_KEPT_MEMORY (16 * 1024 * 1024) /* of the heap, if free */


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

        /* two for each of twice as many calls as a step may have, and as many
           again for approvals, attempts, and a conversation's streams */
        store->most_facts = (uint32_t) ngx_min(
            CHAT_STORE_FACTS / 2 + 4 * (ngx_uint_t) mcf->max_calls,
            CHAT_STORE_FACTS_MAX);
    }

    ngx_chat_status_init(mcf, cycle);
    ngx_chat_hold_init(worker, cycle);
    return NGX_OK;
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
    .init_process = ngx_chat_init_process,
    .exit_process = ngx_chat_exit_process,
};
