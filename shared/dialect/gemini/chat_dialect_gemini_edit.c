/*
 * chat_dialect_gemini_edit.c: takes dropped calls out of a chunk.
 *
 * Nothing is numbered: a part goes, and with it the thoughtSignature that is
 * its own; the chunk goes where nothing else was in it, and else has a part of
 * no words where it had only those.
 * Promises: no byte changes but those of dropped parts and their commas.
 * Must not know: why a call is dropped.
 */

#include "dialect/gemini/chat_dialect_gemini.h"

/* Walks the events of a frame beside its functionCall parts. */
typedef struct {
    const chat_events_t *events;
    size_t               next;
} chat_gemini_walk_t;


/* 1 if the next functionCall part is of a dropped call. */
static int
chat_gemini_dropped(chat_gemini_walk_t *walk, const chat_slots_t *slots)
{
    const chat_event_t *event;

    while (walk->next < walk->events->count) {
        event = &walk->events->items[walk->next++];

        if (event->type == CHAT_EVENT_OPAQUE) {
            return 0;
        }

        if (event->type == CHAT_EVENT_CALL_ARGS) {
            return chat_slots_dropped(slots, event->slot);
        }
    }

    return 0;
}


/* 1 if an object has other members than these. */
static int
chat_gemini_has_other(chat_json_doc_t *doc, const chat_json_t *object,
                      const char *const *keys)
{
    const char *const *key;
    const chat_json_t *member;

    for (member = object->child; member; member = member->next) {
        for (key = keys; *key; key++) {
            if (chat_json_key_is(doc, member, *key)) {
                break;
            }
        }

        if (*key == NULL) {
            return 1;
        }
    }

    return 0;
}


/* The dropped parts of one content; *left: some parts stay. */
static chat_edit_rc_e
chat_gemini_edit_parts(chat_json_doc_t *doc, const chat_json_t *parts,
                       chat_gemini_walk_t *walk, const chat_slots_t *slots,
                       chat_edits_t *edits, int *left)
{
    size_t             i = 0, n = 0;
    unsigned char     *gone;
    const chat_json_t *part;

    if (parts == NULL || parts->type != CHAT_JSON_ARRAY) {
        *left = 1;
        return CHAT_EDIT_KEEP;
    }

    gone = chat_arena_alloc(edits->arena, chat_json_count(parts) + 1);
    if (gone == NULL) {
        return CHAT_EDIT_ERROR;
    }

    for (part = parts->child; part; part = part->next, i++) {
        if (chat_gemini_function(doc, part)
            && chat_gemini_dropped(walk, slots)) {
            gone[i] = 1;
            n++;
        }
    }

    *left |= n < i || i == 0;

    if (n == 0) {
        return CHAT_EDIT_KEEP;
    }

    /* Google's chat takes a content without parts for a failed answer. */
    if (n == i) {
        return chat_edits_add(edits, parts->start, parts->end - parts->start,
                              chat_cstr("[{\"text\":\"\"}]"))
                       == CHAT_OK
                   ? CHAT_EDIT_CHANGED
                   : CHAT_EDIT_ERROR;
    }

    return chat_edits_cut(edits, parts->child, gone) == CHAT_OK
               ? CHAT_EDIT_CHANGED
               : CHAT_EDIT_ERROR;
}


chat_edit_rc_e
chat_gemini_edit(chat_json_doc_t *doc, const chat_events_t *events,
                 const chat_slots_t *slots, chat_edits_t *edits)
{
    int                      left = 0;
    chat_edit_rc_e           rc, what = CHAT_EDIT_KEEP;
    const chat_json_t       *candidates, *node, *parts;
    chat_gemini_walk_t       walk = { events, 0 };
    static const char *const ours[] = { "candidates", "modelVersion",
                                        "responseId", "createTime", NULL };
    static const char *const its[] = { "content", "index", NULL };

    if (doc == NULL) {
        return CHAT_EDIT_KEEP;
    }

    candidates = chat_json_get(doc, doc->root, "candidates");
    left = chat_gemini_has_other(doc, doc->root, ours);

    for (node = chat_gemini_first(candidates); node;
         node = chat_gemini_next(candidates, node))
    {
        if (chat_gemini_candidate(doc, node) != 0) {
            left = 1;
            continue;
        }

        left |= chat_gemini_has_other(doc, node, its);
        parts = chat_gemini_parts(doc, chat_json_get(doc, node, "content"));

        rc = chat_gemini_edit_parts(doc, parts, &walk, slots, edits, &left);

        if (rc == CHAT_EDIT_ERROR) {
            return rc;
        }

        what = rc == CHAT_EDIT_CHANGED ? rc : what;
    }

    return what == CHAT_EDIT_CHANGED && !left ? CHAT_EDIT_DROP : what;
}
