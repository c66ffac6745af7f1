/*
 * chat_dialect_openai_chat_stream.c: reads answers of Chat Completions.
 *
 * The frames, the choices in them and the end; their calls are read by
 * chat_dialect_openai_chat_calls.c. Promises: one end per stream, when no
 * choice is awaited any more; a call that was cut off by a limit is never
 * ready.
 * Must not know: which calls are dropped.
 */

#include "dialect/openai_chat/chat_dialect_openai_chat.h"


void *
chat_openai_chat_open(chat_arena_t *arena, const chat_request_t *rq)
{
    return chat_arena_alloc(arena, sizeof(chat_completions_stream_t));
}


/* What follows needle in s; NULL where it is not there exactly once. */
static const unsigned char *
chat_completions_once(chat_str_t s, const char *needle)
{
    const unsigned char *at, *end = s.data + s.len;

    at = chat_str_find(s, needle);
    if (at == NULL) {
        return NULL;
    }

    at += strlen(needle);
    s = chat_str(at, (size_t) (end - at));

    return chat_str_has(s, needle) ? NULL : at;
}


/* 1 if s holds the characters of word from at on. */
static int
chat_completions_at(chat_str_t s, const unsigned char *at, const char *word)
{
    return chat_str_starts(chat_str(at, (size_t) (s.data + s.len - at)), word);
}


int
chat_openai_chat_idle(const chat_frame_t *frame)
{
    return chat_str_has(frame->data, "\"choices\":[]")
           || chat_str_has(frame->data, "\"choices\": []");
}


int
chat_openai_chat_boring(void *data, const chat_frame_t *frame)
{
    size_t                     i;
    chat_str_t                 s = frame->data;
    const unsigned char       *at;
    chat_completions_stream_t *state = data;
    static const char *const   words[] = { "tool_calls", "function_call",
                                           "\"error\"" };

    if (!state->open || s.len == 0 || s.data[0] != '{') {
        return 0;
    }

    if (chat_str_has(s, "\"finish_reason\"")) {
        at = chat_completions_once(s, "\"finish_reason\":");
        if (at == NULL || !chat_completions_at(s, at, "null")) {
            return 0;
        }
    }

    /* Another choice than the first must be noted: it is awaited. */
    at = chat_completions_once(s, "\"index\":");
    if (at == NULL
        || !(chat_completions_at(s, at, "0,")
             || chat_completions_at(s, at, "0}")))
    {
        return 0;
    }

    for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (chat_str_has(s, words[i])) {
            return 0;
        }
    }

    if (state->choices[0] == CHAT_CHOICE_UNSEEN) {
        state->choices[0] = CHAT_CHOICE_OPEN;
    }

    return 1;
}


static chat_rc_e
chat_completions_choice(chat_completions_stream_t *state, uint32_t choice,
                        const chat_json_t *node)
{
    chat_str_t reason;

    if (state->choices[choice] == CHAT_CHOICE_UNSEEN) {
        state->choices[choice] = CHAT_CHOICE_OPEN;
    }

    if (chat_openai_chat_delta(state, choice,
                               chat_json_get(state->doc, node, "delta")))
    {
        return CHAT_ERROR;
    }

    reason = chat_json_text(state->doc, node, "finish_reason");

    if (reason.len == 0) {
        return CHAT_OK;
    }

    state->choices[choice] = CHAT_CHOICE_DONE;

    if (chat_str_is(reason, "length") || chat_str_is(reason, "content_filter"))
    {
        state->cut = 1;
        return CHAT_OK;
    }

    return chat_openai_chat_ready(state, choice);
}


/* Once no choice is awaited any more: the seal, and the end. */
static chat_rc_e
chat_completions_seal(chat_completions_stream_t *state)
{
    size_t i, done = 0;

    for (i = 0; i < CHAT_COMPLETIONS_CHOICES; i++) {
        if (state->choices[i] == CHAT_CHOICE_OPEN) {
            return CHAT_OK;
        }

        done += state->choices[i] == CHAT_CHOICE_DONE;
    }

    if (done == 0 || state->ended) {
        return CHAT_OK;
    }

    if (!state->cut
        && chat_events_put(state->events, CHAT_EVENT_STEP_SEAL) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    return chat_events_end(state->events, CHAT_END_FINISHED, &state->ended);
}


static chat_rc_e
chat_completions_chunk(chat_completions_stream_t *state,
                       const chat_json_t         *choices)
{
    int32_t            index;
    chat_event_t      *event;
    const chat_json_t *node;

    if (!state->open) {
        event = chat_events_add(state->events, CHAT_EVENT_TURN_OPEN);
        if (event == NULL) {
            return CHAT_ERROR;
        }

        event->id = chat_json_text(state->doc, state->doc->root, "id");
        state->open = 1;
    }

    for (node = choices->child; node; node = node->next) {
        index = chat_openai_chat_choice(state->doc, node);

        if (index >= 0
            && chat_completions_choice(state, (uint32_t) index, node)) {
            return CHAT_ERROR;
        }
    }

    return chat_completions_seal(state);
}


/* 1 if a client would take the member error for an error. */
static int
chat_completions_failed(const chat_json_doc_t *doc, const chat_json_t *error)
{
    if (error == NULL) {
        return 0;
    }

    switch (error->type) {
    case CHAT_JSON_NULL:
    case CHAT_JSON_FALSE:
        return 0;

    case CHAT_JSON_NUMBER:
        return chat_json_index(doc, error) != 0;

    case CHAT_JSON_STRING:
        return error->end - error->start > 2;

    default:
        return 1;
    }
}


chat_rc_e
chat_openai_chat_read(void *data, chat_arena_t *arena,
                      const chat_frame_t *frame, chat_json_doc_t *doc,
                      chat_events_t *events)
{
    size_t                     before = events->count;
    chat_rc_e                  rc;
    const chat_json_t         *choices = NULL, *error = NULL;
    chat_completions_stream_t *state = data;

    if (!frame->has_data) {
        return CHAT_OK;
    }

    state->arena = arena;
    state->events = events;
    state->doc = doc;

    if (doc) {
        choices = chat_json_get(doc, doc->root, "choices");
        error = chat_json_get(doc, doc->root, "error");
    }

    if (chat_str_starts(frame->data, "[DONE]")) {
        rc = chat_events_end(state->events, CHAT_END_FINISHED, &state->ended);

    } else if (doc && chat_completions_failed(doc, error)) {
        rc = chat_events_end(state->events, CHAT_END_FAILED, &state->ended);

    } else if (choices && choices->type == CHAT_JSON_ARRAY) {
        rc = chat_completions_chunk(state, choices);

    } else {
        rc = state->open || frame->data.len == 0 ? CHAT_OK : CHAT_DECLINED;
    }

    return rc == CHAT_OK && events->count == before
               ? chat_events_put(events, CHAT_EVENT_OPAQUE)
               : rc;
}
