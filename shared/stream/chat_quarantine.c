/*
 * chat_quarantine.c: frames that wait for a verdict, in their order.
 *
 * A frame in it is one block: the list's node, the events, the marks, then
 * all bytes that they point to. It counts for at least CHAT_QUARANTINE_LEAST
 * bytes, so that the bound on bytes is a bound on memory too.
 */

#include "stream/chat_quarantine.h"

#include <stdlib.h>

#define CHAT_QUARANTINE_LEAST 128


/* Copies s to *end and moves *end behind it. */
static chat_str_t
put(unsigned char **end, chat_str_t s)
{
    chat_str_t copy = chat_str(*end, s.len);

    *end = chat_str_copy(*end, s);
    return copy;
}


static size_t
chat_quarantined_size(const chat_parsed_t *parsed)
{
    size_t               i, size;
    const chat_events_t *events = &parsed->events;

    size = sizeof(chat_quarantined_t) + events->count * sizeof(chat_event_t)
           + events->nmarks * sizeof(chat_mark_t) + parsed->frame.raw.len
           + parsed->frame.event.len + parsed->frame.data.len;

    for (i = 0; i < events->count; i++) {
        size += events->items[i].id.len + events->items[i].name.len;
        if (events->items[i].has_payload) {
            size += events->items[i].text.len;
        }
    }

    return size;
}


chat_rc_e
chat_quarantine_add(chat_quarantine_t *quarantine, const chat_parsed_t *parsed)
{
    size_t              i;
    chat_parsed_t      *copy;
    chat_event_t       *event;
    unsigned char      *end;
    chat_quarantined_t *entry = malloc(chat_quarantined_size(parsed));

    if (entry == NULL) {
        return CHAT_ERROR;
    }

    entry->next = NULL;
    copy = &entry->parsed;
    *copy = *parsed;
    copy->events.items = (chat_event_t *) (entry + 1);
    copy->events.marks =
        (chat_mark_t *) (copy->events.items + copy->events.count);
    end = (unsigned char *) (copy->events.marks + copy->events.nmarks);

    copy->frame.raw = put(&end, parsed->frame.raw);
    copy->frame.event = put(&end, parsed->frame.event);
    copy->frame.data = put(&end, parsed->frame.data);
    copy->frame.in_input = 0;
    copy->frame.events = parsed->frame.events == 1; /* ends are not kept */

    for (i = 0; i < copy->events.nmarks; i++) {
        copy->events.marks[i] = parsed->events.marks[i];
    }

    for (i = 0; i < copy->events.count; i++) {
        event = &copy->events.items[i];
        *event = parsed->events.items[i];
        event->id = put(&end, event->id);
        event->name = put(&end, event->name);
        event->text =
            event->has_payload ? put(&end, event->text) : chat_str(NULL, 0);
    }

    if (quarantine->last != NULL) {
        quarantine->last->next = entry;
    } else {
        quarantine->first = entry;
    }
    quarantine->last = entry;

    quarantine->bytes += parsed->frame.raw.len > CHAT_QUARANTINE_LEAST
                             ? parsed->frame.raw.len
                             : CHAT_QUARANTINE_LEAST;
    return CHAT_OK;
}


void
chat_quarantine_pop(chat_quarantine_t *quarantine)
{
    chat_quarantined_t *entry = quarantine->first;
    size_t              len = entry->parsed.frame.raw.len;

    quarantine->first = entry->next;
    if (entry->next == NULL) {
        quarantine->last = NULL;
    }

    quarantine->bytes -=
        len > CHAT_QUARANTINE_LEAST ? len : CHAT_QUARANTINE_LEAST;
    free(entry);
}


void
chat_quarantine_free(chat_quarantine_t *quarantine)
{
    while (quarantine->first != NULL) {
        chat_quarantine_pop(quarantine);
    }
}
