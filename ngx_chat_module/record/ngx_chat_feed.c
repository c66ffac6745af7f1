/*
 * ngx_chat_feed.c: see ngx_chat_feed.h.
 *
 * Who follows what: the feeds of this worker by their keys, and the followers
 * of each, which are woken one by one from the event loop. When the last one
 * has left, the producer is told.
 * Must not know: requests, verdicts, how a record is read.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "record/ngx_chat_feed.h"
#include "metrics/ngx_chat_metrics.h"


void
ngx_chat_feed_wake(ngx_chat_feed_t *feed)
{
    ngx_queue_t         *q;
    ngx_chat_follower_t *follower;

    for (q = ngx_queue_head(&feed->followers);
         q != ngx_queue_sentinel(&feed->followers); q = ngx_queue_next(q))
    {
        follower = ngx_queue_data(q, ngx_chat_follower_t, queue);
        ngx_post_event(&follower->event, &ngx_posted_events);
    }
}


static ngx_chat_feed_t *
ngx_chat_feed_find(ngx_chat_main_conf_t *mcf, chat_key_t *key)
{
    ngx_str_t name;

    name.data = (u_char *) key;
    name.len = sizeof(*key);

    return (ngx_chat_feed_t *) ngx_str_rbtree_lookup(
        &mcf->feeds, &name, ngx_crc32_short(name.data, name.len));
}


/* A copy of the attempt, whose strings are in the memory behind the feed. */
static void
ngx_chat_feed_attempt(ngx_chat_feed_t *feed, const chat_attempt_t *attempt)
{
    u_char *p = (u_char *) (feed + 1);

    feed->attempt = *attempt;
    feed->attempt.worker = chat_str(p, attempt->worker.len);
    p = ngx_cpymem(p, attempt->worker.data, attempt->worker.len);
    feed->attempt.request = chat_str(p, attempt->request.len);
    ngx_memcpy(p, attempt->request.data, attempt->request.len);
}


static ngx_chat_feed_t *
ngx_chat_feed_create(ngx_chat_ctx_t *ctx, const ngx_chat_source_t *source)
{
    ngx_chat_feed_t      *feed;
    const chat_attempt_t *attempt = &source->attempt;
    ngx_chat_main_conf_t *mcf = ctx->main;

    feed =
        ngx_calloc(sizeof(*feed) + attempt->worker.len + attempt->request.len,
                   ngx_cycle->log);
    if (feed == NULL) {
        return NULL;
    }

    feed->main = mcf;
    feed->key = source->key;
    feed->batch = source->batch;
    feed->late = source->late & 1;
    feed->listed = source->listed & 1;
    feed->serial = mcf->serial++;
    feed->blocks.conf = ctx->conf;
    feed->blocks.dialect = ctx->dialect;
    ngx_chat_feed_attempt(feed, attempt);
    ngx_queue_init(&feed->followers);

    feed->node.str.data = (u_char *) &feed->key;
    feed->node.str.len = sizeof(feed->key);
    feed->node.node.key =
        ngx_crc32_short(feed->node.str.data, feed->node.str.len);
    ngx_rbtree_insert(&mcf->feeds, &feed->node.node);

    ngx_chat_feed_start(feed);
    return feed;
}


/* Nobody of this worker follows any more. */
static void
ngx_chat_feed_free(ngx_chat_feed_t *feed)
{
    chat_arena_t *arena;
    chat_facts_t  facts;
    chat_store_t *store = feed->main->store;

    ngx_chat_feed_stop(feed);

    if (feed->state != NGX_CHAT_FEED_COMPLETE
        && feed->state != NGX_CHAT_FEED_NONE) {
        arena = chat_arena_create(0);
        if (arena != NULL) {
            chat_facts_init(&facts, arena);
            chat_facts_gone(&facts, store->worker, feed->serial);
            store->join(store, NULL, &feed->key, facts.items, facts.count,
                        (uint32_t) feed->blocks.conf->record_ttl);
        }
        chat_arena_destroy(arena);
    }

    ngx_rbtree_delete(&feed->main->feeds, &feed->node.node);
    ngx_chat_blocks_free(&feed->blocks);
    ngx_free(feed);
}


static void
ngx_chat_feed_woken(ngx_event_t *ev)
{
    ngx_chat_follower_t *follower = ev->data;

    follower->wake(follower->data);
}


ngx_int_t
ngx_chat_feed_join(ngx_chat_ctx_t *ctx, const ngx_chat_source_t *source,
                   ngx_chat_follower_t *follower)
{
    chat_key_t       key = source->key;
    ngx_chat_feed_t *feed;

    feed = ngx_chat_feed_find(ctx->main, &key);
    if (feed != NULL && feed == follower->feed) {
        return NGX_OK;
    }

    if (feed != NULL && feed->blocks.first_number != 0 && !source->listed) {
        return NGX_DECLINED;
    }

    ngx_chat_feed_leave(follower);

    if (feed == NULL) {
        feed = ngx_chat_feed_create(ctx, source);
        if (feed == NULL) {
            return NGX_ERROR;
        }
    }

    follower->feed = feed;
    follower->at = NULL;
    follower->next = 0;
    follower->placed = 0;
    follower->event.handler = ngx_chat_feed_woken;
    follower->event.data = follower;
    follower->event.log = ngx_cycle->log;
    ngx_queue_insert_tail(&feed->followers, &follower->queue);
    ngx_chat_metrics_record(feed->main, 0, 0, 1);
    return NGX_OK;
}


void
ngx_chat_feed_leave(ngx_chat_follower_t *follower)
{
    ngx_chat_feed_t *feed = follower->feed;

    if (feed == NULL) {
        return;
    }

    follower->feed = NULL;
    ngx_queue_remove(&follower->queue);
    ngx_chat_metrics_record(feed->main, 0, 0, -1);
    ngx_chat_block_free(follower->at);
    follower->at = NULL;

    if (follower->event.posted) {
        ngx_delete_posted_event(&follower->event);
    }

    if (ngx_queue_empty(&feed->followers)) {
        ngx_chat_feed_free(feed);
    }
}


/* 1 if who has events up to after can begin with the block. */
static ngx_uint_t
ngx_chat_feed_begins(const ngx_chat_block_t *block, uint64_t after)
{
    return block->count.events < after
           || (block->count.events == after
               && !chat_count_is_inside(&block->count));
}


/*
 * Where a follower begins: the last block that has the end of what it has
 * before it, or in it.
 */
static ngx_int_t
ngx_chat_feed_place(ngx_chat_follower_t *follower)
{
    uint64_t           number, after = follower->after;
    ngx_chat_block_t  *block, *before = NULL, *at = NULL, *found = NULL;
    ngx_chat_blocks_t *blocks = &follower->feed->blocks;

    number = blocks->first_number;

    for (block = blocks->first; block != NULL; block = block->next) {
        if (!ngx_chat_feed_begins(block, after)) {
            break;
        }

        found = block;
        at = before;
        follower->next = number++;
        before = block;

        if (block->count.events == after) {
            break;
        }
    }

    if (found == NULL) {
        follower->lost = chat_buf_str(&blocks->first->lost);
        return NGX_DECLINED;
    }

    if (at != NULL) {
        at->refs++;
    }

    follower->at = at;
    follower->count = found->count;
    follower->from = 0;
    follower->placed = 1;
    follower->fresh = 1;
    follower->seeking = after != 0;
    return NGX_OK;
}


/* Moves on to the next block. */
static void
ngx_chat_feed_pass(ngx_chat_follower_t *follower, ngx_chat_block_t *block)
{
    ngx_chat_block_free(follower->at);

    /* one reference, to find the next */
    follower->at = block;
    block->refs++;
    follower->next++;
    follower->from = 0;
    follower->fresh = 0;
}


/* Looks for the end of what the follower has. */
static void
ngx_chat_feed_seek(ngx_chat_follower_t *follower, ngx_chat_block_t *block)
{
    chat_str_t rest;

    rest = chat_str(block->data + follower->from, block->len - follower->from);
    follower->from += chat_count_to(&follower->count, rest, follower->after);
    follower->seeking = follower->count.events < follower->after
                        || chat_count_is_inside(&follower->count);

    if (follower->from == block->len) {
        ngx_chat_feed_pass(follower, block);
    }
}


ngx_int_t
ngx_chat_feed_ready(ngx_chat_follower_t *follower)
{
    ngx_chat_block_t  *block;
    ngx_chat_blocks_t *blocks = &follower->feed->blocks;

    for (;;) {
        if (!follower->placed) {
            if (blocks->first == NULL) {
                return NGX_AGAIN;
            }

            if (ngx_chat_feed_place(follower) != NGX_OK) {
                return NGX_DECLINED;
            }
        }

        if (follower->next == blocks->next_number) {
            return NGX_AGAIN;
        }

        if (follower->next < blocks->first_number) {
            follower->lost = chat_str(NULL, 0);
            return NGX_DECLINED;
        }

        block = follower->at ? follower->at->next : blocks->first;

        if (block->gap && !follower->fresh) {
            if (!follower->seeking
                || !ngx_chat_feed_begins(block, follower->after)) {
                follower->lost = chat_buf_str(&block->lost);
                return NGX_DECLINED;
            }

            follower->count = block->count;
            follower->fresh = 1;
        }

        if (follower->seeking) {
            ngx_chat_feed_seek(follower, block);

        } else if (block->len != 0) {
            return NGX_OK;

        } else {
            ngx_chat_feed_pass(follower, block);
        }
    }
}


ngx_int_t
ngx_chat_feed_take(ngx_chat_follower_t *follower, ngx_chat_block_t **block,
                   size_t *from)
{
    ngx_int_t rc = ngx_chat_feed_ready(follower);

    if (rc != NGX_OK) {
        return rc;
    }

    *block = follower->at ? follower->at->next : follower->feed->blocks.first;
    *from = follower->from;

    (*block)->refs++;
    ngx_chat_feed_pass(follower, *block);
    return NGX_OK;
}


chat_end_e
ngx_chat_feed_end(ngx_chat_follower_t *follower, const char **reason)
{
    ngx_int_t              rc = ngx_chat_feed_ready(follower);
    const ngx_chat_feed_t *feed = follower->feed;

    if (rc == NGX_AGAIN && feed->state == NGX_CHAT_FEED_COMPLETE) {
        return feed->end;
    }

    if (rc == NGX_AGAIN) {
        *reason = feed->over;

    } else if (rc == NGX_DECLINED) {
        *reason = follower->lost.len ? "incomplete_record" : "too_slow";
    }

    return CHAT_END_NONE;
}


void
ngx_chat_feed_init(ngx_chat_main_conf_t *mcf)
{
    ngx_rbtree_init(&mcf->feeds, &mcf->feeds_sentinel,
                    ngx_str_rbtree_insert_value);
}


void
ngx_chat_feed_lost(ngx_chat_main_conf_t *mcf)
{
    ngx_chat_feed_t   *feed;
    ngx_rbtree_node_t *node;

    if (mcf->feeds.root == mcf->feeds.sentinel) {
        return;
    }

    for (node = ngx_rbtree_min(mcf->feeds.root, mcf->feeds.sentinel);
         node != NULL; node = ngx_rbtree_next(&mcf->feeds, node))
    {
        feed = (ngx_chat_feed_t *) node;

        if (feed->state == NGX_CHAT_FEED_ASKING
            || feed->state == NGX_CHAT_FEED_RUNNING)
        {
            feed->main->store->cancel(&feed->op);
            ngx_chat_feed_ask(feed);
        }
    }
}
