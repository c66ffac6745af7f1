/*
 * ngx_chat_share.c: see ngx_chat_share.h.
 *
 * An entry is in two trees: one by tenant, one by what the tenant uses.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "base/ngx_chat_share.h"


void
ngx_chat_shares_init(ngx_chat_shares_t *shares)
{
    shares->used = 0;
    ngx_rbtree_init(&shares->tenants, &shares->tenants_sentinel,
                    ngx_rbtree_insert_value);
    ngx_rbtree_init(&shares->uses, &shares->uses_sentinel,
                    ngx_rbtree_insert_value);
}


ngx_chat_share_t *
ngx_chat_shares_find(ngx_chat_shares_t *shares, uint64_t tenant)
{
    ngx_rbtree_key_t   key = (ngx_rbtree_key_t) tenant;
    ngx_rbtree_node_t *node = shares->tenants.root;

    while (node != shares->tenants.sentinel && node->key != key) {
        node = key < node->key ? node->left : node->right;
    }

    return node != shares->tenants.sentinel ? (ngx_chat_share_t *) node : NULL;
}


void
ngx_chat_shares_insert(ngx_chat_shares_t *shares, ngx_chat_share_t *share,
                       uint64_t tenant)
{
    share->used = 0;
    share->use.key = 0;
    share->node.key = (ngx_rbtree_key_t) tenant;
    ngx_rbtree_insert(&shares->tenants, &share->node);
    ngx_rbtree_insert(&shares->uses, &share->use);
}


void
ngx_chat_shares_remove(ngx_chat_shares_t *shares, ngx_chat_share_t *share)
{
    shares->used -= share->used;
    ngx_rbtree_delete(&shares->uses, &share->use);
    ngx_rbtree_delete(&shares->tenants, &share->node);
}


void
ngx_chat_shares_set(ngx_chat_shares_t *shares, ngx_chat_share_t *share,
                    size_t used)
{
    shares->used += used - share->used;
    ngx_rbtree_delete(&shares->uses, &share->use);
    share->used = used;
    share->use.key = used;
    ngx_rbtree_insert(&shares->uses, &share->use);
}


ngx_chat_share_t *
ngx_chat_shares_largest(ngx_chat_shares_t *shares)
{
    ngx_rbtree_node_t *node = shares->uses.root;

    if (node == shares->uses.sentinel) {
        return NULL;
    }

    while (node->right != shares->uses.sentinel) {
        node = node->right;
    }

    return ngx_rbtree_data(node, ngx_chat_share_t, use);
}
