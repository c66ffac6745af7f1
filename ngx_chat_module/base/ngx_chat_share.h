/*
 * ngx_chat_share.h: how much of a limited resource each tenant uses, and which
 * tenant uses the most.
 *
 * The caller owns the entries, in a worker's memory or in a zone, and holds
 * the zone's mutex. A call takes a time of O(log tenants).
 */

#ifndef NGX_CHAT_SHARE_H
#define NGX_CHAT_SHARE_H

#include <ngx_config.h>
#include <ngx_core.h>

/* One tenant's part. */
typedef struct {
    ngx_rbtree_node_t node; /* key: the tenant */
    ngx_rbtree_node_t use;  /* key: used */
    size_t            used; /* units of the caller */
} ngx_chat_share_t;

typedef struct {
    ngx_rbtree_t      tenants;
    ngx_rbtree_node_t tenants_sentinel;
    ngx_rbtree_t      uses;
    ngx_rbtree_node_t uses_sentinel;
    size_t            used; /* by all tenants */
} ngx_chat_shares_t;

void ngx_chat_shares_init(ngx_chat_shares_t *shares);

/* The tenant's entry, or NULL. */
ngx_chat_share_t *ngx_chat_shares_find(ngx_chat_shares_t *shares,
                                       uint64_t           tenant);

/* Adds an entry with no units, or removes one. */
void ngx_chat_shares_insert(ngx_chat_shares_t *shares, ngx_chat_share_t *share,
                            uint64_t tenant);
void ngx_chat_shares_remove(ngx_chat_shares_t *shares,
                            ngx_chat_share_t  *share);

/* Sets the number of units that the tenant uses. */
void ngx_chat_shares_set(ngx_chat_shares_t *shares, ngx_chat_share_t *share,
                         size_t used);

/* The entry with the most units, or NULL. */
ngx_chat_share_t *ngx_chat_shares_largest(ngx_chat_shares_t *shares);

#endif /* NGX_CHAT_SHARE_H */
