/*
 * chat_dialect_openai_responses_slots.c: what a stream's reader keeps of the
 * calls among the output items of a response, by output_index.
 *
 * Promises: at most CHAT_RESPONSES_ITEMS of them; a call is found by its ids,
 * wherever response.output has it.
 * Must not know: frames, events.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"


void *
chat_responses_open(chat_arena_t *arena, const chat_request_t *rq)
{
    chat_responses_reader_t *reader;

    reader = chat_arena_alloc(arena, sizeof(*reader));
    if (reader != NULL) {
        reader->arena = arena;
    }

    return reader;
}


chat_rc_e
chat_responses_slot(chat_responses_reader_t *reader, size_t index,
                    chat_responses_slot_t **out)
{
    size_t                 n;
    chat_responses_slot_t *slots;

    *out = NULL;
    if (index >= CHAT_RESPONSES_ITEMS) {
        return CHAT_OK;
    }

    if (index >= reader->nslots) {
        n = index < 4 ? 8 : index * 2;
        slots = chat_arena_alloc(reader->arena, n * sizeof(*slots));
        if (slots == NULL) {
            return CHAT_ERROR;
        }

        if (reader->nslots != 0) {
            memcpy(slots, reader->slots, reader->nslots * sizeof(*slots));
        }
        reader->slots = slots;
        reader->nslots = n;
    }

    if (reader->base + index >= reader->top) {
        reader->top = reader->base + (uint32_t) index + 1;
    }

    *out = &reader->slots[index];
    return CHAT_OK;
}


chat_rc_e
chat_responses_note(chat_responses_reader_t     *reader,
                    chat_responses_slot_t       *slot,
                    const chat_responses_call_t *call)
{
    slot->kind = call->kind;

    if (!chat_str_eq(slot->id, call->id)
        && chat_arena_dup(reader->arena, call->id, &slot->id) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    if (!chat_str_eq(slot->item, call->item)
        && chat_arena_dup(reader->arena, call->item, &slot->item) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    return CHAT_OK;
}


size_t
chat_responses_find(const chat_responses_reader_t *reader,
                    const chat_responses_call_t *call, size_t index)
{
    size_t                       i, k;
    const chat_responses_slot_t *slot;

    /* the same index first: a stream may carry one id twice */
    for (i = 0; i <= reader->nslots; i++) {
        k = i == 0 ? index : i - 1;
        if (k >= reader->nslots) {
            continue;
        }

        slot = &reader->slots[k];

        if (slot->state != CHAT_RESPONSES_OTHER
            && ((call->id.len != 0 && chat_str_eq(slot->id, call->id))
                || (call->item.len != 0
                    && chat_str_eq(slot->item, call->item))))
        {
            return k;
        }
    }

    return CHAT_RESPONSES_ITEMS;
}


int
chat_responses_whole(const chat_responses_reader_t *reader)
{
    size_t                       i;
    const chat_responses_slot_t *slot;

    for (i = 0; i < reader->nslots; i++) {
        slot = &reader->slots[i];

        if (slot->kind != CHAT_KIND_PROVIDER
            && (slot->state == CHAT_RESPONSES_OPEN
                || slot->state == CHAT_RESPONSES_CUT))
        {
            return 0;
        }
    }

    return !reader->lost;
}
