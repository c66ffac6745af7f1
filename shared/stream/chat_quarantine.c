/*
 * chat_quarantine.c: frames that wait for a verdict, in their order.
 *
 * A frame counts for at least CHAT_QUARANTINE_LEAST bytes. Once more have left
 * than wait, those that wait are copied, so that the bound on bytes is one on
 * memory too; all copies take linear time.
 */

#include "stream/chat_quarantine.h"

#define CHAT_QUARANTINE_LEAST 128


/* A copy of the frame with all that it points to; NULL without memory. */
static chat_parsed_t *
copy_frame(chat_arena_t *arena, const chat_parsed_t *parsed)
{
    int            failed = 0;
    size_t         i;
    chat_event_t  *event;
    chat_frame_t  *frame;
    chat_events_t *events;
    chat_parsed_t *entry = chat_arena_alloc(arena, sizeof(*entry));

    if (entry == NULL) {
        return NULL;
    }

    *entry = *parsed;
    entry->next = NULL;
    frame = &entry->frame;
    events = &entry->events;

    failed |= chat_arena_dup(arena, frame->raw, &frame->raw) != CHAT_OK;
    failed |= chat_arena_dup(arena, frame->data, &frame->data) != CHAT_OK;
    frame->in_input = 0;
    frame->events = frame->events == 1; /* the ends of several are not kept */

    events->items = chat_arena_copy(arena, events->items,
                                    events->count * sizeof(*events->items));
    events->marks = chat_arena_copy(arena, events->marks,
                                    events->nmarks * sizeof(*events->marks));
    if (events->items == NULL || events->marks == NULL) {
        return NULL;
    }

    for (i = 0; i < events->count; i++) {
        event = &events->items[i];
        event->text = event->has_payload ? event->text : chat_str(NULL, 0);

        failed |= chat_arena_dup(arena, event->id, &event->id) != CHAT_OK;
        failed |= chat_arena_dup(arena, event->name, &event->name) != CHAT_OK;
        failed |= chat_arena_dup(arena, event->text, &event->text) != CHAT_OK;
    }

    return failed ? NULL : entry;
}


/* What the frame counts for. */
static size_t
weight(const chat_parsed_t *parsed)
{
    size_t len = parsed->frame.raw.len;

    return len > CHAT_QUARANTINE_LEAST ? len : CHAT_QUARANTINE_LEAST;
}


chat_rc_e
chat_quarantine_add(chat_quarantine_t *quarantine, const chat_parsed_t *parsed)
{
    chat_parsed_t *entry;

    if (quarantine->arena == NULL) {
        quarantine->arena = chat_arena_create(0);
    }

    entry = quarantine->arena ? copy_frame(quarantine->arena, parsed) : NULL;
    if (entry == NULL) {
        return CHAT_ERROR;
    }

    *(quarantine->first ? &quarantine->last->next : &quarantine->first) =
        entry;
    quarantine->last = entry;
    quarantine->bytes += weight(parsed);
    return CHAT_OK;
}


/* Frees what frames that have left took; without memory it stays. */
static void
compact(chat_quarantine_t *quarantine)
{
    chat_parsed_t    *each;
    chat_quarantine_t copy = { 0 };

    for (each = quarantine->first; each != NULL; each = each->next) {
        if (chat_quarantine_add(&copy, each) != CHAT_OK) {
            chat_arena_destroy(copy.arena);
            return;
        }
    }

    chat_arena_destroy(quarantine->arena);
    *quarantine = copy;
}


void
chat_quarantine_pop(chat_quarantine_t *quarantine)
{
    size_t len = weight(quarantine->first);

    quarantine->bytes -= len;
    quarantine->left += len;
    quarantine->first = quarantine->first->next;

    if (quarantine->first == NULL) {
        chat_arena_reset(quarantine->arena);
        quarantine->left = 0;
    } else if (quarantine->left > quarantine->bytes) {
        compact(quarantine);
    }
}
