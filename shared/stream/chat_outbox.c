/*
 * chat_outbox.c: facts of a stream that its owner has not taken yet.
 *
 * Everything is in one arena that is emptied after each taking.
 * Promises: facts that there is no memory for are missing, nothing else.
 * Must not know: what the facts say.
 */

#include "stream/chat_outbox.h"

struct chat_put_s {
    chat_put_t  *next;
    chat_key_t   key;
    chat_facts_t facts;
};


chat_rc_e
chat_outbox_init(chat_outbox_t *outbox)
{
    memset(outbox, 0, sizeof(*outbox));
    outbox->arena = chat_arena_create(0);
    return outbox->arena ? CHAT_OK : CHAT_ERROR;
}


void
chat_outbox_free(chat_outbox_t *outbox)
{
    chat_arena_destroy(outbox->arena);
}


chat_facts_t *
chat_outbox_list(chat_outbox_t *outbox, const chat_key_t *key)
{
    chat_put_t *put;

    for (put = outbox->puts; put != NULL; put = put->next) {
        if (chat_digest_eq(&put->key.name, &key->name)
            && chat_digest_eq(&put->key.tag, &key->tag))
        {
            return &put->facts;
        }
    }

    put = chat_arena_alloc(outbox->arena, sizeof(*put));
    if (put == NULL) {
        return NULL;
    }

    put->key = *key;
    put->next = outbox->puts;
    chat_facts_init(&put->facts, outbox->arena);
    outbox->puts = put;
    return &put->facts;
}


size_t
chat_outbox_take(chat_outbox_t *outbox, const chat_stream_facts_t **facts)
{
    size_t               i, n = 0;
    chat_put_t          *put;
    chat_stream_facts_t *list;

    for (put = outbox->puts; put != NULL; put = put->next) {
        n++;
    }

    if (n == 0) {
        return 0;
    }

    list = chat_arena_alloc(outbox->arena, n * sizeof(*list));
    if (list == NULL) {
        return 0;
    }

    /* The oldest batch first. */
    for (i = n, put = outbox->puts; put != NULL; put = put->next) {
        i--;
        list[i].key = put->key;
        list[i].facts = put->facts.items;
        list[i].count = put->facts.count;
    }

    outbox->taken = 1;
    *facts = list;
    return n;
}


void
chat_outbox_forget(chat_outbox_t *outbox)
{
    if (outbox->taken) {
        chat_arena_reset(outbox->arena);
        outbox->puts = NULL;
        outbox->taken = 0;
    }
}
