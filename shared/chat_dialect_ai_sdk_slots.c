/*
 * chat_dialect_ai_sdk_slots.c: what the reader of an AI SDK stream keeps: its
 * calls by their ids, and which call a question of approval was about.
 *
 * Promises: at most CHAT_AI_SDK_SLOTS_MAX of either.
 * Must not know: frames, events.
 */

#include "chat_dialect_ai_sdk.h"


void *
chat_ai_sdk_open(chat_arena_t *arena, const chat_request_t *rq)
{
    return chat_arena_alloc(arena, sizeof(chat_ai_sdk_reader_t));
}


/* From the newest on: the events of a call come close together. */
chat_ai_sdk_slot_t *
chat_ai_sdk_find(const chat_ai_sdk_reader_t *reader, chat_str_t id)
{
    uint32_t i;

    for (i = reader->count; i > 0; i--) {
        if (chat_str_eq(reader->slots[i - 1].id, id)) {
            return &reader->slots[i - 1];
        }
    }

    return NULL;
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
    chat_ai_sdk_slot_t *slots;

    slots = chat_arena_grow(arena, reader->slots, reader->count, &reader->size,
                            sizeof(*slots));
    if (slots == NULL) {
        return NULL;
    }

    reader->slots = slots;

    if (chat_arena_dup(arena, id, &reader->slots[reader->count].id) != CHAT_OK)
    {
        return NULL;
    }

    return &reader->slots[reader->count++];
}


chat_rc_e
chat_ai_sdk_note_ask(chat_ai_sdk_reader_t *reader, chat_arena_t *arena,
                     chat_str_t question, chat_str_t call)
{
    chat_ai_sdk_ask_t *ask;

    if (question.len == 0 || question.len > CHAT_AI_SDK_NAME_MAX
        || call.len > CHAT_AI_SDK_NAME_MAX
        || reader->nasks == CHAT_AI_SDK_SLOTS_MAX
        || chat_str_eq(chat_ai_sdk_asked(reader, question), call))
    {
        return CHAT_OK;
    }

    ask = chat_arena_alloc(arena, sizeof(*ask));
    if (ask == NULL
        || chat_arena_dup(arena, question, &ask->question) != CHAT_OK
        || chat_arena_dup(arena, call, &ask->call) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    ask->next = reader->asks;
    reader->asks = ask;
    reader->nasks++;
    return CHAT_OK;
}


chat_str_t
chat_ai_sdk_asked(const chat_ai_sdk_reader_t *reader, chat_str_t question)
{
    const chat_ai_sdk_ask_t *ask;

    for (ask = reader->asks; ask != NULL; ask = ask->next) {
        if (chat_str_eq(ask->question, question)) {
            return ask->call;
        }
    }

    return chat_str(NULL, 0);
}
