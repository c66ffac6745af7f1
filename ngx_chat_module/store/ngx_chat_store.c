/*
 * ngx_chat_store.c: see ngx_chat_store.h.
 *
 * Replies are a list, oldest first, which one posted event empties. Watches
 * are in a table by the first bytes of their key's name.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "store/ngx_chat_store.h"

static void on_answers(ngx_event_t *ev);


ngx_int_t
ngx_chat_store_base_init(ngx_chat_store_base_t *base, ngx_cycle_t *cycle)
{
    u_char *field, *end;

    field = ngx_pnalloc(cycle->pool, 5 + base->store.worker.len);
    if (field == NULL) {
        return NGX_ERROR;
    }

    end = chat_str_copy(ngx_cpymem(field, "wait/", 5), base->store.worker);
    base->wait.field = chat_str(field, (size_t) (end - field));
    base->wait.value = chat_cstr("1");
    base->cleared.field = chat_cstr("cleared");
    base->cleared.value = chat_cstr("1");

    base->end = &base->answered;
    ngx_chat_event_set(&base->event, on_answers, base, cycle->log);
    return NGX_OK;
}


chat_facts_t *
ngx_chat_store_reply(void)
{
    chat_facts_t *reply;
    chat_arena_t *arena = chat_arena_create(0);

    reply = arena ? chat_arena_alloc(arena, sizeof(*reply)) : NULL;
    if (reply == NULL) {
        chat_arena_destroy(arena);
        return NULL;
    }

    chat_facts_init(reply, arena);
    return reply;
}


void
ngx_chat_store_answer(ngx_chat_store_base_t *base, chat_store_op_t *op,
                      chat_rc_e rc, chat_facts_t *reply)
{
    op->store = &base->store;
    op->answer = reply;
    op->rc = rc != CHAT_OK                    ? rc
             : reply == NULL || reply->failed ? CHAT_ERROR
                                              : CHAT_OK;
    op->next = NULL;
    op->link = base->end;
    *base->end = op;
    base->end = &op->next;
    ngx_post_event(&base->event, &ngx_posted_events);
}


void
ngx_chat_store_forget(chat_store_op_t *op)
{
    chat_facts_t          *reply = op->answer;
    ngx_chat_store_base_t *base = (ngx_chat_store_base_t *) op->store;

    if (base == NULL) {
        return;
    }

    *op->link = op->next;

    if (op->next != NULL) {
        op->next->link = op->link;
    } else {
        base->end = op->link;
    }

    op->store = NULL;
    op->answer = NULL;
    op->link = NULL;

    if (reply != NULL) {
        chat_arena_destroy(reply->arena);
    }
}


ngx_uint_t
ngx_chat_store_deliver(chat_store_op_t *op)
{
    ngx_uint_t    ok = op->rc == CHAT_OK;
    chat_facts_t *reply = op->answer;

    if (op->link == NULL) {
        return 0;
    }

    op->answer = NULL;
    op->arena = ok ? reply->arena : NULL;
    ngx_chat_store_forget(op);

    /* done() may free the memory of op */
    op->done(op, op->rc, ok ? reply->items : NULL, ok ? reply->count : 0);

    if (reply != NULL) {
        chat_arena_destroy(reply->arena);
    }

    return 1;
}


void
ngx_chat_store_answers(chat_store_t *store)
{
    ngx_chat_store_base_t *base = (ngx_chat_store_base_t *) store;

    while (base != NULL && base->answered != NULL) {
        (void) ngx_chat_store_deliver(base->answered);
    }
}


static void
on_answers(ngx_event_t *ev)
{
    ngx_chat_store_answers(ev->data);
}


static chat_store_watch_t **
watch_bucket(ngx_chat_store_base_t *base, uint64_t prefix)
{
    return &base->watches[prefix % NGX_CHAT_WATCH_BUCKETS];
}


void
ngx_chat_store_watch_add(ngx_chat_store_base_t *base,
                         chat_store_watch_t *watch, const chat_key_t *key)
{
    watch->key = *key;
    watch->store = &base->store;
    watch->link = watch_bucket(base, chat_word_at(key->name.bytes));
    watch->next = *watch->link;

    if (watch->next != NULL) {
        watch->next->link = &watch->next;
    }

    *watch->link = watch;
}


void
ngx_chat_store_unwatch(chat_store_watch_t *watch)
{
    ngx_chat_store_base_t *base = (ngx_chat_store_base_t *) watch->store;

    if (base == NULL) {
        return;
    }

    if (base->walk == watch) {
        base->walk = watch->next;
    }

    *watch->link = watch->next;

    if (watch->next != NULL) {
        watch->next->link = watch->link;
    }

    watch->store = NULL;
}


ngx_uint_t
ngx_chat_store_is_watched(ngx_chat_store_base_t *base, const chat_key_t *key)
{
    chat_store_watch_t *watch =
        *watch_bucket(base, chat_word_at(key->name.bytes));

    while (watch != NULL && !chat_digest_eq(&watch->key.name, &key->name)) {
        watch = watch->next;
    }

    return watch != NULL;
}


/* notify() may end any watch, and begin new ones; these are not notified. */
void
ngx_chat_store_changed(ngx_chat_store_base_t *base, uint64_t prefix,
                       ngx_uint_t all)
{
    ngx_uint_t          i = all ? 0 : prefix % NGX_CHAT_WATCH_BUCKETS;
    ngx_uint_t          last = all ? NGX_CHAT_WATCH_BUCKETS - 1 : i;
    chat_store_watch_t *watch;

    for (; i <= last; i++) {
        for (watch = base->watches[i]; watch != NULL; watch = base->walk) {
            base->walk = watch->next;

            if (watch->notify != NULL
                && (all || chat_word_at(watch->key.name.bytes) == prefix))
            {
                watch->notify(watch);
            }
        }
    }
}
