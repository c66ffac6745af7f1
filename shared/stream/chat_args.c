/*
 * chat_args.c: the arguments of calls that are being written.
 *
 * A chained hash table by slot; each call owns its buffer and goes with it.
 * Promises: what is past a bound is forgotten at once, so that it takes no
 * room from the others.
 * Must not know: replays, frames, wire formats.
 */

#include "stream/chat_args.h"

#include "bytes/chat_buf.h"
#include "bytes/chat_table.h"

#include <stdlib.h>

struct chat_args_call_s {
    chat_args_call_t *next;
    uint32_t          slot;
    uint32_t          generation;
    size_t            name;  /* length; the text begins behind it */
    chat_buf_t        bytes; /* the name, then the arguments */
    int               lost;  /* past the bound, or without memory */
};


static size_t
chat_args_bucket(uint32_t slot)
{
    return chat_table_number(slot) % CHAT_ARGS_BUCKETS;
}


void
chat_args_init(chat_args_t *args, size_t max)
{
    memset(args, 0, sizeof(*args));
    args->max = max;
}


void
chat_args_free(chat_args_t *args)
{
    size_t            i;
    chat_args_call_t *call;

    for (i = 0; i < CHAT_ARGS_BUCKETS; i++) {
        while ((call = args->buckets[i]) != NULL) {
            args->buckets[i] = call->next;
            chat_buf_free(&call->bytes);
            free(call);
        }
    }
}


static chat_args_call_t *
chat_args_find(const chat_args_t *args, uint32_t slot)
{
    chat_args_call_t *call = args->buckets[chat_args_bucket(slot)];

    while (call != NULL && call->slot != slot) {
        call = call->next;
    }

    return call;
}


static void
chat_args_append(chat_args_t *args, chat_args_call_t *call, chat_str_t text)
{
    if (!call->lost && text.len <= args->max - args->bytes) {
        chat_buf_add(&call->bytes, text);
        if (!call->bytes.failed) {
            args->bytes += text.len;
            return;
        }
    }

    args->bytes -= call->bytes.len;
    chat_buf_free(&call->bytes);
    memset(&call->bytes, 0, sizeof(call->bytes));
    call->name = 0;
    call->lost = 1;
}


void
chat_args_open(chat_args_t *args, uint32_t slot, uint32_t generation,
               chat_str_t name)
{
    chat_args_call_t *call = chat_args_find(args, slot);

    if (call != NULL && call->generation == generation) {
        return;
    }

    if (call != NULL) {
        chat_args_close(args, slot);
    }

    if (args->count == CHAT_ARGS_CALLS) {
        return;
    }

    call = calloc(1, sizeof(*call));
    if (call == NULL) {
        return;
    }

    call->slot = slot;
    call->generation = generation;
    call->next = args->buckets[chat_args_bucket(slot)];
    args->buckets[chat_args_bucket(slot)] = call;
    args->count++;

    chat_args_append(args, call, name);
    call->name = call->bytes.len;
}


void
chat_args_add(chat_args_t *args, uint32_t slot, chat_str_t text)
{
    chat_args_call_t *call = chat_args_find(args, slot);

    if (call != NULL) {
        chat_args_append(args, call, text);
    }
}


chat_rc_e
chat_args_ready(const chat_args_t *args, chat_event_t *event,
                chat_digest_t *fingerprint)
{
    chat_str_t              text = event->text;
    const chat_args_call_t *call = chat_args_find(args, event->slot);

    if (event->unreadable
        || (call == NULL && !event->whole && args->count == CHAT_ARGS_CALLS))
    {
        return CHAT_LIMIT;
    }

    if (call != NULL) {
        if (call->lost && (!event->whole || event->name.len == 0)) {
            return CHAT_LIMIT;
        }

        if (event->name.len == 0) {
            event->name = chat_str(call->bytes.data, call->name);
        }

        if (!event->whole && call->bytes.len != 0) {
            text = chat_str(call->bytes.data + call->name,
                            call->bytes.len - call->name);
        }
    }

    return chat_fingerprint(event->name, text, fingerprint);
}


void
chat_args_close(chat_args_t *args, uint32_t slot)
{
    chat_args_call_t *call, **link;

    link = &args->buckets[chat_args_bucket(slot)];
    while (*link != NULL && (*link)->slot != slot) {
        link = &(*link)->next;
    }

    call = *link;
    if (call == NULL) {
        return;
    }

    *link = call->next;
    args->count--;
    args->bytes -= call->bytes.len;
    chat_buf_free(&call->bytes);
    free(call);
}
