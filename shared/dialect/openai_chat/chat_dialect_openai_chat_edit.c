/*
 * chat_dialect_openai_chat_edit.c: takes dropped calls out of a chunk.
 *
 * One chunk may carry a call to drop and one to keep: entries go singly, and
 * the indexes of those behind are closed up, for clients use them as places
 * in an array. Promises: only the digits of an index, the word of a
 * finish_reason and the dropped entries change.
 * Must not know: why a call is dropped.
 */

#include "dialect/openai_chat/chat_dialect_openai_chat.h"

#include <stdio.h>

typedef struct {
    chat_json_doc_t     *doc;
    const chat_events_t *events; /* a CALL_ARGS for every entry, in order */
    size_t               next;   /* event to look at */
    const chat_slots_t  *slots;
    chat_edits_t        *edits;
    unsigned             cut : 1;  /* something went */
    unsigned             left : 1; /* something worth a chunk stays */
    unsigned             failed : 1;
} chat_completions_edit_t;


/* The slot of the next entry of the frame. */
static uint32_t
chat_completions_next(chat_completions_edit_t *e)
{
    const chat_event_t *event;

    while (e->next < e->events->count) {
        event = &e->events->items[e->next++];

        if (event->type == CHAT_EVENT_CALL_ARGS) {
            return event->slot;
        }
    }

    return UINT32_MAX;
}


static void
chat_completions_change(chat_completions_edit_t *e, uint32_t start,
                        uint32_t end, const char *text)
{
    if (chat_edits_add(e->edits, start, end - start, chat_cstr(text))) {
        e->failed = 1;
    }
}


/* Cuts the marked ones out of a list. */
static void
chat_completions_cut(chat_completions_edit_t *e, const chat_json_t *head,
                     const unsigned char *gone)
{
    size_t before = e->edits->count;

    if (chat_edits_cut(e->edits, head, gone) != CHAT_OK) {
        e->failed = 1;
    }

    e->cut |= e->edits->count > before;
}


/* Closes up the index of an entry that stays. */
static void
chat_completions_renumber(chat_completions_edit_t *e, const chat_json_t *entry,
                          uint32_t slot)
{
    char               digits[16];
    int32_t            index;
    uint32_t           below;
    const chat_json_t *node = chat_json_get(e->doc, entry, "index");

    index = chat_json_index(e->doc, node);
    below = chat_slots_below(e->slots, slot & 0xffff0000, slot);

    if (index < 0 || below == 0 || below > (uint32_t) index) {
        return;
    }

    (void) snprintf(digits, sizeof(digits), "%u",
                    (unsigned) index - (unsigned) below);
    chat_completions_change(e, node->start, node->end, digits);
}


/* The entries of tool_calls; 1 if none is left. */
static int
chat_completions_entries(chat_completions_edit_t *e, const chat_json_t *calls)
{
    size_t             i = 0, stay = 0, n = chat_json_count(calls);
    uint32_t           slot;
    unsigned char     *gone = chat_arena_alloc(e->edits->arena, n + 1);
    const chat_json_t *node;

    if (gone == NULL) {
        e->failed = 1;
        return 0;
    }

    for (node = calls->child; node; node = node->next, i++) {
        if (!chat_openai_chat_entry(e->doc, node)) {
            stay++;
            continue;
        }

        slot = chat_completions_next(e);

        if (chat_slots_dropped(e->slots, slot)) {
            gone[i] = 1;
            continue;
        }

        stay++;
        chat_completions_renumber(e, node, slot);
    }

    if (stay == 0 && n) {
        return 1;
    }

    chat_completions_cut(e, calls->child, gone);

    return 0;
}


/* One delta: calls in it, and what else there is. */
static void
chat_completions_delta(chat_completions_edit_t *e, const chat_json_t *delta)
{
    size_t             i = 0;
    unsigned char     *gone;
    const chat_json_t *node, *calls, *legacy;

    calls = chat_json_get(e->doc, delta, "tool_calls");
    legacy = chat_json_get(e->doc, delta, "function_call");

    gone = chat_arena_alloc(e->edits->arena, chat_json_count(delta) + 1);
    if (gone == NULL) {
        e->failed = 1;
        return;
    }

    /* Entries are numbered before the older form, as the reader has it. */
    if (calls && calls->type == CHAT_JSON_ARRAY
        && chat_completions_entries(e, calls))
    {
        for (i = 0, node = delta->child; node != calls; node = node->next) {
            i++;
        }
        gone[i] = 1;
    }

    if (legacy && legacy->type == CHAT_JSON_OBJECT
        && chat_slots_dropped(e->slots, chat_completions_next(e)))
    {
        for (i = 0, node = delta->child; node != legacy; node = node->next) {
            i++;
        }
        gone[i] = 1;
    }

    for (i = 0, node = delta ? delta->child : NULL; node; node = node->next) {
        if (!gone[i++] && node->type != CHAT_JSON_NULL) {
            e->left = 1;
        }
    }

    chat_completions_cut(e, delta ? delta->child : NULL, gone);
}


static void
chat_completions_finish(chat_completions_edit_t *e, const chat_json_t *reason)
{
    if (reason == NULL || reason->type == CHAT_JSON_NULL) {
        return;
    }

    e->left = 1;

    if (e->slots->all
        && (chat_json_is(e->doc, reason, "tool_calls")
            || chat_json_is(e->doc, reason, "function_call")))
    {
        chat_completions_change(e, reason->start, reason->end, "\"stop\"");
    }
}


chat_edit_rc_e
chat_openai_chat_edit(chat_json_doc_t *doc, const chat_events_t *events,
                      const chat_slots_t *slots, chat_edits_t *edits)
{
    size_t                  before = edits->count;
    const chat_json_t      *node;
    chat_completions_edit_t e = { 0 };

    if (doc == NULL) {
        return CHAT_EDIT_KEEP;
    }

    e.doc = doc;
    e.events = events;
    e.slots = slots;
    e.edits = edits;

    node = chat_json_get(doc, doc->root, "usage");
    e.left = node && node->type != CHAT_JSON_NULL;

    node = chat_json_get(doc, doc->root, "choices");
    node = node && node->type == CHAT_JSON_ARRAY ? node->child : NULL;

    for (/* void */; node; node = node->next) {
        if (chat_openai_chat_choice(doc, node) < 0) {
            e.left = 1;
            continue;
        }

        chat_completions_delta(&e, chat_json_get(doc, node, "delta"));
        chat_completions_finish(&e, chat_json_get(doc, node, "finish_reason"));
    }

    if (e.failed) {
        return CHAT_EDIT_ERROR;
    }

    if (e.cut && !e.left) {
        return CHAT_EDIT_DROP;
    }

    return edits->count > before ? CHAT_EDIT_CHANGED : CHAT_EDIT_KEEP;
}
