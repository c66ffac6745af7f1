/*
 * ngx_chat_share.c: see ngx_chat_share.h.
 *
 * Entries with about the same use are in one queue, four queues to a power of
 * two, so that the largest is found without a scan.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_share.h"


void
ngx_chat_shares_init(ngx_chat_shares_t *shares)
{
    ngx_uint_t i;

    ngx_rbtree_init(&shares->rbtree, &shares->sentinel,
                    ngx_rbtree_insert_value);

    for (i = 0; i < NGX_CHAT_SHARE_LEVELS; i++) {
        ngx_queue_init(&shares->levels[i]);
    }
}


ngx_chat_share_t *
ngx_chat_shares_find(ngx_chat_shares_t *shares, uint64_t tenant)
{
    ngx_rbtree_key_t   key = (ngx_rbtree_key_t) tenant;
    ngx_rbtree_node_t *node = shares->rbtree.root;

    while (node != shares->rbtree.sentinel) {
        if (key == node->key) {
            return (ngx_chat_share_t *) node;
        }

        node = key < node->key ? node->left : node->right;
    }

    return NULL;
}


static ngx_uint_t
ngx_chat_shares_level(size_t used)
{
    ngx_uint_t power = 0;

    if (used < NGX_CHAT_SHARE_STEPS) {
        return 0;
    }

    while (used >= 2 * NGX_CHAT_SHARE_STEPS) {
        used /= 2;
        power++;
    }

    return ngx_min(power * NGX_CHAT_SHARE_STEPS + used - NGX_CHAT_SHARE_STEPS
                       + 1,
                   NGX_CHAT_SHARE_LEVELS - 1);
}


void
ngx_chat_shares_insert(ngx_chat_shares_t *shares, ngx_chat_share_t *share,
                       uint64_t tenant)
{
    share->used = 0;
    share->node.key = (ngx_rbtree_key_t) tenant;
    ngx_rbtree_insert(&shares->rbtree, &share->node);
    ngx_queue_insert_tail(&shares->levels[0], &share->queue);
}


void
ngx_chat_shares_remove(ngx_chat_shares_t *shares, ngx_chat_share_t *share)
{
    ngx_queue_remove(&share->queue);
    ngx_rbtree_delete(&shares->rbtree, &share->node);
}


void
ngx_chat_shares_set(ngx_chat_shares_t *shares, ngx_chat_share_t *share,
                    size_t used)
{
    ngx_uint_t level = ngx_chat_shares_level(used);

    if (level != ngx_chat_shares_level(share->used)) {
        ngx_queue_remove(&share->queue);
        ngx_queue_insert_tail(&shares->levels[level], &share->queue);
    }

    share->used = used;
}


ngx_chat_share_t *
ngx_chat_shares_largest(ngx_chat_shares_t *shares)
{
    ngx_uint_t i;

    for (i = NGX_CHAT_SHARE_LEVELS; i-- > 0;) {
        if (!ngx_queue_empty(&shares->levels[i])) {
            return ngx_queue_data(ngx_queue_head(&shares->levels[i]),
                                  ngx_chat_share_t, queue);
        }
    }

    return NULL;
}
