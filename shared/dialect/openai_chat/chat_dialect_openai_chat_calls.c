/*
 * chat_dialect_openai_chat_calls.c: the calls in a Chat Completions stream.
 *
 * A call comes in pieces, told apart by choice and index, and its end is not
 * said: it is complete when a higher index opens in its choice and its
 * arguments are a whole value by then (calls may come in turns), or with the
 * choice's finish_reason. Promises: each entry of tool_calls that is not
 * skipped gives exactly one CALL_ARGS, in the order of the frame.
 * Must not know: frames, which calls are dropped.
 */

#include "dialect/openai_chat/chat_dialect_openai_chat.h"

#define CHAT_COMPLETIONS_OPEN_MAX 4096 /* calls of a stream that are read */


/* An event of one call; the id and name are those known by now. */
static chat_event_t *
chat_completions_event(chat_completions_stream_t     *state,
                       const chat_completions_call_t *call, chat_event_e type)
{
    chat_event_t *event = chat_events_add(state->events, type);

    if (event) {
        event->slot = call->slot;
        event->kind = call->kind;
        event->id = call->id;
        event->name = call->name;
    }

    return event;
}


static chat_rc_e
chat_completions_ready(chat_completions_stream_t *state,
                       chat_completions_call_t   *call)
{
    chat_event_t *event;

    event = chat_completions_event(state, call, CHAT_EVENT_CALL_READY);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->implied = 1;
    call->ready = 1;

    return CHAT_OK;
}


/*
 * CALL_READY of the calls of the slot's choice that are complete, now that it
 * opens: the one that had the slot, and those before it whose arguments are
 * whole; over: all, as the choice has come to its end.
 */
static chat_rc_e
chat_completions_pass(chat_completions_stream_t *state, uint32_t slot,
                      int over)
{
    size_t                   i;
    chat_completions_call_t *call;

    for (i = 0; i < state->count; i++) {
        call = &state->calls[i];

        if (call->ready || call->slot >> 16 != slot >> 16) {
            continue;
        }

        if ((over || call->slot == slot || (call->slot < slot && call->whole))
            && chat_completions_ready(state, call))
        {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


chat_rc_e
chat_openai_chat_ready(chat_completions_stream_t *state, uint32_t choice)
{
    return chat_completions_pass(state, choice << 16, 1);
}


/* Follows the arguments of a call: where is the end of their value? */
static void
chat_completions_follow(chat_completions_call_t *call, chat_str_t text)
{
    size_t i;

    for (i = 0; i < text.len; i++) {
        if (call->escaped) {
            call->escaped = 0;
            continue;
        }

        switch (text.data[i]) {
        case '"':
            call->string = !call->string;
            break;

        case '\\':
            call->escaped = call->string;
            break;

        case '{':
        case '[':
            call->depth += !call->string;
            break;

        case '}':
        case ']':
            if (!call->string && call->depth && --call->depth == 0) {
                call->whole = 1;
            }
            break;

        default:
            break;
        }
    }
}


/* The slot of an entry: by its index, or by what it looks like. */
static uint32_t
chat_completions_slot(chat_completions_stream_t *state, uint32_t choice,
                      const chat_json_t *entry, chat_str_t id)
{
    size_t                          number;
    int32_t                         index;
    const chat_table_entry_t       *known;
    const chat_completions_calls_t *calls = state->of[choice];

    index =
        chat_json_index(state->doc, chat_json_get(state->doc, entry, "index"));
    if (index >= 0) {
        return choice << 16 | (uint32_t) index;
    }

    if (calls == NULL) {
        return choice << 16;
    }

    number = calls->newest;

    if (id.len != 0) {
        known = chat_table_find(&calls->ids, id);
        number = known != NULL ? known->number : 0;
    }

    /* its slot may have been opened anew for another id */
    if (number != 0
        && (id.len == 0 || chat_str_eq(id, state->calls[number - 1].id)))
    {
        return state->calls[number - 1].slot;
    }

    /* The last slot is the older form's; only a flood of calls gets there. */
    return (calls->next & 0xffff) < CHAT_COMPLETIONS_INDEXES ? calls->next
                                                             : calls->next - 1;
}


static chat_completions_call_t *
chat_completions_find(chat_completions_stream_t *state, uint32_t slot)
{
    size_t i;

    for (i = state->count; i > 0; i--) {
        if (state->calls[i - 1].slot == slot) {
            return &state->calls[i - 1];
        }
    }

    return NULL;
}


/* What is known of the choice's calls; NULL without memory. */
static chat_completions_calls_t *
chat_completions_of(chat_completions_stream_t *state, uint32_t choice)
{
    chat_completions_calls_t *calls = state->of[choice];

    if (calls == NULL) {
        calls = chat_arena_alloc(state->arena, sizeof(*calls));
        if (calls != NULL) {
            chat_table_init(&calls->ids, state->arena);
            calls->next = choice << 16;
            state->of[choice] = calls;
        }
    }

    return calls;
}


/* One more call, of this slot; NULL without memory. */
static chat_completions_call_t *
chat_completions_push(chat_completions_stream_t *state, uint32_t slot)
{
    chat_completions_call_t  *calls;
    chat_completions_calls_t *of;

    of = chat_completions_of(state, slot >> 16);
    calls = chat_arena_grow(state->arena, state->calls, state->count,
                            &state->size, sizeof(*calls));
    if (of == NULL || calls == NULL) {
        return NULL;
    }

    state->calls = calls;
    state->count++;

    if ((slot & 0xffff) != CHAT_COMPLETIONS_LEGACY) {
        of->newest = state->count;
        of->next = slot >= of->next ? slot + 1 : of->next;
    }

    return &calls[state->count - 1];
}


/*
 * Opens a call, or opens its slot anew for another (some servers give every
 * call the same index); what stands before it in its choice is complete.
 */
static chat_rc_e
chat_completions_begin(chat_completions_stream_t *state, uint32_t slot,
                       chat_kind_e kind, chat_completions_call_t **call)
{
    if (chat_completions_pass(state, slot, 0)) {
        return CHAT_ERROR;
    }

    if (*call == NULL) {
        *call = chat_completions_push(state, slot);
        if (*call == NULL) {
            return CHAT_ERROR;
        }
    }

    state->opened++;
    memset(*call, 0, sizeof(chat_completions_call_t));
    (*call)->slot = slot;
    (*call)->kind = kind;

    return CHAT_OK;
}


/* The first id and name that say something stand. */
static chat_rc_e
chat_completions_learn(chat_completions_stream_t *state, chat_str_t s,
                       chat_str_t *known)
{
    if (s.len == 0 || known->len) {
        return CHAT_OK;
    }

    return chat_arena_dup(state->arena, s, known);
}


/* As chat_completions_learn() of its id, by which it is found then. */
static chat_rc_e
chat_completions_identify(chat_completions_stream_t *state,
                          chat_completions_call_t *call, chat_str_t id)
{
    size_t              number = (size_t) (call - state->calls) + 1;
    chat_table_entry_t *entry;

    if (id.len == 0 || call->id.len != 0
        || (call->slot & 0xffff) == CHAT_COMPLETIONS_LEGACY)
    {
        return chat_completions_learn(state, id, &call->id);
    }

    if (chat_completions_learn(state, id, &call->id) != CHAT_OK) {
        return CHAT_ERROR;
    }

    entry = chat_table_put(&state->of[call->slot >> 16]->ids, call->id);
    if (entry == NULL) {
        return CHAT_ERROR;
    }

    /* of twins the newer one; not what had the id in an earlier life */
    if (entry->number < number
        || !chat_str_eq(state->calls[entry->number - 1].id, id))
    {
        entry->number = number;
    }

    return CHAT_OK;
}


/* One entry of tool_calls, or the older function_call. */
static chat_rc_e
chat_completions_entry(chat_completions_stream_t *state, uint32_t slot,
                       const chat_json_t *entry, chat_str_t id)
{
    int                      opens;
    chat_str_t               name;
    chat_event_t            *event;
    const chat_json_t       *function;
    chat_completions_call_t *call;

    function = chat_openai_chat_function(state->doc, entry);
    name = chat_json_text(state->doc, function, "name");

    call = chat_completions_find(state, slot);
    opens = state->opened < CHAT_COMPLETIONS_OPEN_MAX
            && (call == NULL
                || (name.len && id.len && call->id.len
                    && !chat_str_eq(id, call->id)));

    if (opens
        && chat_completions_begin(
            state, slot, chat_openai_chat_kind(state->doc, entry), &call))
    {
        return CHAT_ERROR;
    }

    if (call
        && (chat_completions_identify(state, call, id)
            || chat_completions_learn(state, name, &call->name)))
    {
        return CHAT_ERROR;
    }

    if (opens && !chat_completions_event(state, call, CHAT_EVENT_CALL_OPEN)) {
        return CHAT_ERROR;
    }

    event = chat_events_add(state->events, CHAT_EVENT_CALL_ARGS);
    if (event == NULL) {
        return CHAT_ERROR;
    }

    event->slot = slot;
    event->text = chat_openai_chat_arguments(state->doc, function);

    if (call) {
        chat_completions_follow(call, event->text);
    }

    return CHAT_OK;
}


chat_rc_e
chat_openai_chat_delta(chat_completions_stream_t *state, uint32_t choice,
                       const chat_json_t *delta)
{
    chat_str_t         id;
    const chat_json_t *node;

    node = chat_json_get(state->doc, delta, "tool_calls");
    node = node && node->type == CHAT_JSON_ARRAY ? node->child : NULL;

    for (/* void */; node; node = node->next) {
        if (!chat_openai_chat_entry(state->doc, node)) {
            continue;
        }

        id = chat_json_text(state->doc, node, "id");

        if (chat_completions_entry(
                state, chat_completions_slot(state, choice, node, id), node,
                id))
        {
            return CHAT_ERROR;
        }
    }

    node = chat_json_get(state->doc, delta, "function_call");

    if (node && node->type == CHAT_JSON_OBJECT) {
        return chat_completions_entry(state,
                                      choice << 16 | CHAT_COMPLETIONS_LEGACY,
                                      node, chat_str(NULL, 0));
    }

    return CHAT_OK;
}
