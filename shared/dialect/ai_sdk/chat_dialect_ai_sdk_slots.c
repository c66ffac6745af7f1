/*
 * chat_dialect_ai_sdk_slots.c: what the reader of an AI SDK stream keeps: its
 * calls by their ids, and which call a question of approval was about.
 *
 * Promises: at most CHAT_AI_SDK_SLOTS_MAX of either.
 * Must not know: frames, events.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"


void *
chat_ai_sdk_open(chat_arena_t *arena, const chat_request_t *rq)
{
    chat_ai_sdk_reader_t *reader = chat_arena_alloc(arena, sizeof(*reader));

    (void) rq;

    if (reader != NULL) {
        chat_table_init(&reader->ids, arena);
        chat_table_init(&reader->questions, arena);
    }

    return reader;
}


chat_ai_sdk_slot_t *
chat_ai_sdk_find(const chat_ai_sdk_reader_t *reader, chat_str_t id)
{
    const chat_table_entry_t *entry = chat_table_find(&reader->ids, id);

    return entry != NULL ? &reader->slots[entry->number - 1] : NULL;
}


int
chat_ai_sdk_opened(const void *state, chat_str_t id, chat_str_t *name,
                   int *dynamic)
{
    const chat_ai_sdk_reader_t *reader = state;
    const chat_ai_sdk_slot_t   *slot;

    slot = reader != NULL ? chat_ai_sdk_find(reader, id) : NULL;
    if (slot == NULL) {
        return 0;
    }

    *name = slot->name;
    *dynamic = slot->dynamic;

    return 1;
}


chat_ai_sdk_slot_t *
chat_ai_sdk_add(chat_ai_sdk_reader_t *reader, chat_arena_t *arena,
                chat_str_t id)
{
    chat_ai_sdk_slot_t *slots, *slot;
    chat_table_entry_t *entry;

    slots = chat_arena_grow(arena, reader->slots, reader->count, &reader->size,
                            sizeof(*slots));
    if (slots == NULL) {
        return NULL;
    }

    reader->slots = slots;
    slot = &slots[reader->count];

    if (chat_arena_dup(arena, id, &slot->id) != CHAT_OK) {
        return NULL;
    }

    entry = chat_table_put(&reader->ids, slot->id);
    if (entry == NULL) {
        return NULL;
    }

    entry->number = ++reader->count;
    return slot;
}


chat_rc_e
chat_ai_sdk_note_ask(chat_ai_sdk_reader_t *reader, chat_arena_t *arena,
                     chat_str_t question, chat_str_t call)
{
    chat_str_t         *asked;
    chat_table_entry_t *entry;

    if (question.len == 0 || question.len > CHAT_AI_SDK_NAME_MAX
        || call.len > CHAT_AI_SDK_NAME_MAX
        || reader->nasks == CHAT_AI_SDK_SLOTS_MAX
        || chat_str_eq(chat_ai_sdk_asked(reader, question), call))
    {
        return CHAT_OK;
    }

    entry = chat_table_find(&reader->questions, question);

    if (entry == NULL) {
        if (chat_arena_dup(arena, question, &question) != CHAT_OK) {
            return CHAT_ERROR;
        }

        entry = chat_table_put(&reader->questions, question);
    }

    asked = chat_arena_alloc(arena, sizeof(*asked));
    if (entry == NULL || asked == NULL
        || chat_arena_dup(arena, call, asked) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    entry->item = asked;
    reader->nasks++;
    return CHAT_OK;
}


chat_str_t
chat_ai_sdk_asked(const chat_ai_sdk_reader_t *reader, chat_str_t question)
{
    const chat_table_entry_t *entry;

    entry = chat_table_find(&reader->questions, question);
    return entry != NULL && entry->item != NULL
               ? *(const chat_str_t *) entry->item
               : chat_str(NULL, 0);
}
