/*
 * chat_quarantine.c: frames that wait for a verdict, in their order.
 *
 * A held frame is one block: the list's node, the events, the marks, then all
 * bytes that they point to. It counts for at least CHAT_HELD_LEAST bytes, so
 * that the bound on bytes is a bound on memory too.
 */

#include "stream/chat_quarantine.h"

#include <stdlib.h>

#define CHAT_HELD_LEAST 128


/* Copies s to *end and moves *end behind it. */
static chat_str_t
chat_held_put(unsigned char **end, chat_str_t s)
{
    chat_str_t copy = chat_str(*end, s.len);

    if (s.len != 0) {
        memcpy(*end, s.data, s.len);
        *end += s.len;
    }

    return copy;
}


static size_t
chat_held_size(const chat_heard_t *heard)
{
    size_t               i, size;
    const chat_events_t *events = &heard->events;

    size = sizeof(chat_held_t) + events->count * sizeof(chat_event_t)
           + events->nmarks * sizeof(chat_mark_t) + heard->frame.raw.len
           + heard->frame.event.len + heard->frame.data.len;

    for (i = 0; i < events->count; i++) {
        size += events->items[i].id.len + events->items[i].name.len;
        if (events->items[i].has_payload) {
            size += events->items[i].text.len;
        }
    }

    return size;
}


chat_rc_e
chat_quarantine_add(chat_quarantine_t *quarantine, const chat_heard_t *heard)
{
    size_t         i;
    chat_held_t   *held;
    chat_heard_t  *copy;
    chat_event_t  *event;
    unsigned char *end;

    held = malloc(chat_held_size(heard));
    if (held == NULL) {
        return CHAT_ERROR;
    }

    held->next = NULL;
    copy = &held->heard;
    *copy = *heard;
    copy->events.items = (chat_event_t *) (held + 1);
    copy->events.marks =
        (chat_mark_t *) (copy->events.items + copy->events.count);
    end = (unsigned char *) (copy->events.marks + copy->events.nmarks);

    copy->frame.raw = chat_held_put(&end, heard->frame.raw);
    copy->frame.event = chat_held_put(&end, heard->frame.event);
    copy->frame.data = chat_held_put(&end, heard->frame.data);
    copy->frame.in_input = 0;

    for (i = 0; i < copy->events.nmarks; i++) {
        copy->events.marks[i] = heard->events.marks[i];
    }

    for (i = 0; i < copy->events.count; i++) {
        event = &copy->events.items[i];
        *event = heard->events.items[i];
        event->id = chat_held_put(&end, event->id);
        event->name = chat_held_put(&end, event->name);
        event->text = event->has_payload ? chat_held_put(&end, event->text)
                                         : chat_str(NULL, 0);
    }

    if (quarantine->last != NULL) {
        quarantine->last->next = held;
    } else {
        quarantine->first = held;
    }
    quarantine->last = held;

    quarantine->bytes += heard->frame.raw.len > CHAT_HELD_LEAST
                             ? heard->frame.raw.len
                             : CHAT_HELD_LEAST;
    return CHAT_OK;
}


void
chat_quarantine_pop(chat_quarantine_t *quarantine)
{
    chat_held_t *held = quarantine->first;
    size_t       len = held->heard.frame.raw.len;

    quarantine->first = held->next;
    if (held->next == NULL) {
        quarantine->last = NULL;
    }

    quarantine->bytes -= len > CHAT_HELD_LEAST ? len : CHAT_HELD_LEAST;
    free(held);
}


void
chat_quarantine_free(chat_quarantine_t *quarantine)
{
    while (quarantine->first != NULL) {
        chat_quarantine_pop(quarantine);
    }
}
