/*
 * ngx_chat_shm_wakes.c: see ngx_chat_shm_workers.h.
 *
 * A worker is marked once, however often it is named. Must not know: requests,
 * what a worker does then.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "store/shm/ngx_chat_shm_workers.h"


static void
ngx_chat_shm_wakes_add(ngx_chat_shm_ctx_t *ctx, chat_str_t worker,
                       const chat_key_t *key, ngx_chat_shm_wakes_t *wakes)
{
    ngx_int_t  slot;
    ngx_uint_t i;

    slot = ngx_chat_shm_wake_mark(ctx, worker, ngx_chat_store_prefix(key));
    if (slot == -1) {
        return;
    }

    for (i = 0; i < wakes->n; i++) {
        if (wakes->slots[i] == slot) {
            return;
        }
    }

    wakes->slots[wakes->n++] = slot;
}


void
ngx_chat_shm_wakes_mark(ngx_chat_shm_ctx_t         *ctx,
                        const ngx_chat_shm_batch_t *batch,
                        const chat_key_t *key, ngx_chat_shm_wakes_t *wakes)
{
    u_char                    *space;
    chat_str_t                 value;
    const ngx_chat_shm_fact_t *fact, *claim = batch->claim;

    for (fact = batch->first; fact != NULL && ngx_chat_shm_fact_is_wait(fact);
         fact = fact->next)
    {
        ngx_chat_shm_wakes_add(
            ctx, chat_str(fact->data + 5, fact->field_len - 5u), key, wakes);
    }

    if (claim != NULL) {
        value = chat_str(claim->data + claim->field_len, claim->value_len);
        space = ngx_strlchr((u_char *) value.data,
                            (u_char *) value.data + value.len, ' ');
        if (space != NULL) {
            value.len = (size_t) (space - value.data);
        }
        ngx_chat_shm_wakes_add(ctx, value, key, wakes);
    }
}


void
ngx_chat_shm_wakes_send(ngx_chat_shm_ctx_t         *ctx,
                        const ngx_chat_shm_wakes_t *wakes)
{
    ngx_uint_t i;

    for (i = 0; i < wakes->n; i++) {
        ngx_chat_shm_wake(ctx, wakes->slots[i]);
    }
}
