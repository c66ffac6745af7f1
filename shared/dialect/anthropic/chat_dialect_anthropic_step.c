/*
 * chat_dialect_anthropic_step.c: the steps of an Anthropic transcript.
 *
 * A step is an assistant message with tool_use blocks; its results are the
 * tool_result blocks of the user messages that follow at once.
 * Promises: every duplicate of an id is an entry of its own; a call's place is
 * the block behind which its result belongs, NULL for the front.
 * Must not know: the stream, what a store has.
 */

#include "dialect/anthropic/chat_dialect_anthropic.h"


/* Notes one more call of the message that is being read. */
static chat_rc_e
chat_anthropic_note(chat_anthropic_body_t *r, const chat_json_t *block,
                    chat_kind_e kind)
{
    chat_anthropic_call_t *note;

    if (r->count == CHAT_ANTHROPIC_CALLS) {
        return CHAT_LIMIT;
    }

    note =
        chat_arena_grow(r->arena, r->calls, r->count, &r->size, sizeof(*note));
    if (note == NULL) {
        return CHAT_ERROR;
    }

    r->calls = note;
    note = &r->calls[r->count++];

    note->block = block;
    note->call.id = chat_json_text(r->doc, block, "id");
    note->call.kind = kind;
    note->call.ready = 1;

    return chat_twins_add(&r->ids, note->call.id,
                          !chat_call_is_member(&note->call));
}


/* Notes the calls of an assistant message. */
static chat_rc_e
chat_anthropic_calls(chat_anthropic_body_t *r, const chat_json_t *message)
{
    chat_rc_e          rc;
    chat_kind_e        kind;
    const chat_json_t *block = chat_anthropic_blocks(r->doc, message);

    r->count = 0;
    chat_twins_reset(&r->ids);

    for (/* void */; block; block = block->next) {
        if (!chat_anthropic_call(r->doc, block, &kind)) {
            continue;
        }

        rc = chat_anthropic_note(r, block, kind);
        if (rc != CHAT_OK) {
            return rc;
        }
    }

    return CHAT_OK;
}


/*
 * Gives one tool_result to the noted calls of its id. first: it is one of
 * those that open the message behind the calls, where others may join it.
 */
static void
chat_anthropic_settle(chat_anthropic_body_t *r, const chat_json_t *block,
                      int first)
{
    size_t i;

    i = chat_twins_first(&r->ids,
                         chat_json_text(r->doc, block, "tool_use_id"));

    /* twins have their result all at once */
    for (; i != CHAT_TWINS_NONE && r->calls[i].result == NULL;
         i = chat_twins_next(&r->ids, i))
    {
        r->calls[i].result = block;

        if (first) {
            r->calls[i].call.place = block;
        }
    }
}


/*
 * Finds the results of the noted calls in the user messages that follow;
 * consecutive ones are one to the provider. node becomes the calls' message;
 * place the block behind which the call's result stands or would have to,
 * NULL for the front.
 */
static void
chat_anthropic_match(chat_anthropic_body_t *r, const chat_json_t *message)
{
    int                first = 1;
    size_t             i;
    const chat_json_t *block, *node, *place = NULL;

    for (node = message->next;
         node && chat_anthropic_role(r->doc, node, "user"); node = node->next)
    {
        block = chat_anthropic_blocks(r->doc, node);

        for (/* void */; block; block = block->next) {
            if (chat_anthropic_type(r->doc, block, "tool_result")) {
                chat_anthropic_settle(r, block, first);

            } else {
                first = 0;
            }
        }

        first = 0;
    }

    for (i = 0; i < r->count; i++) {
        if (r->calls[i].call.place == NULL) {
            r->calls[i].call.place = place;
        }

        place = r->calls[i].call.place;
        r->calls[i].call.node = message;
    }
}


/* 1 if the transcript can do without the noted calls. */
static int
chat_anthropic_past(const chat_anthropic_body_t *r, const chat_json_t *message)
{
    size_t i;

    if (r->current || message == r->answered) {
        return 0;
    }

    for (i = 0; i < r->count; i++) {
        if (chat_call_is_member(&r->calls[i].call)
            && r->calls[i].result == NULL) {
            return 0;
        }
    }

    return 1;
}


chat_rc_e
chat_anthropic_result(chat_anthropic_body_t *r, const chat_json_t *result,
                      chat_call_t *call)
{
    const chat_json_t      *node = chat_json_get(r->doc, result, "content");
    static const chat_str_t nothing = CHAT_STR("\"\"");

    call->outcome = chat_json_true(chat_json_get(r->doc, result, "is_error"))
                        ? CHAT_OUTCOME_ERROR
                        : CHAT_OUTCOME_OK;

    if (node == NULL) {
        call->payload = nothing;
        chat_digest(nothing, &call->digest);
        return CHAT_OK;
    }

    call->payload = chat_json_raw(r->doc, node);

    return chat_json_digest(r->doc, node, &call->digest);
}


/* What is costly to know of a call: its fingerprint, and its result. */
static chat_rc_e
chat_anthropic_detail(chat_anthropic_body_t *r, chat_anthropic_call_t *note)
{
    size_t             first;
    chat_str_t         input;
    chat_call_t       *call = &note->call;
    const chat_call_t *twin;

    call->name = chat_json_text(r->doc, note->block, "name");
    input = chat_json_raw(r->doc, chat_json_get(r->doc, note->block, "input"));

    if (chat_fingerprint(call->name, input, &call->fingerprint) != CHAT_OK) {
        return CHAT_ERROR;
    }

    if (note->result == NULL) {
        return CHAT_OK;
    }

    first = chat_twins_first(&r->ids, call->id);
    if (&r->calls[first] == note) {
        return chat_anthropic_result(r, note->result, call);
    }

    /* its twin before it has been given the same result */
    twin = &r->calls[first].call;
    call->outcome = twin->outcome;
    call->payload = twin->payload;
    call->digest = twin->digest;

    return CHAT_OK;
}


chat_rc_e
chat_anthropic_step(chat_anthropic_body_t *r, const chat_json_t *message)
{
    size_t             i;
    chat_rc_e          rc;
    chat_step_t       *step;
    const chat_call_t *call;

    rc = chat_anthropic_calls(r, message);
    if (rc != CHAT_OK || r->count == 0) {
        return rc;
    }

    chat_anthropic_match(r, message);

    if (chat_anthropic_past(r, message)) {
        return CHAT_OK;
    }

    step = chat_request_add_step(r->rq, r->arena);
    if (step == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < r->count; i++) {
        call = &r->calls[i].call;

        rc = chat_anthropic_detail(r, &r->calls[i]);

        if (rc == CHAT_OK) {
            rc = chat_request_put_call(r->rq, r->arena, call);
        }

        if (rc != CHAT_OK) {
            return rc;
        }

        /* A step of the server's calls alone is nothing to answer. */
        if (message == r->answered && chat_call_is_member(call)) {
            r->rq->answers = 1;
        }
    }

    step->first_id = r->calls[0].call.id;

    return CHAT_OK;
}
