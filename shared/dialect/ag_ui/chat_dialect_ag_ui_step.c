/*
 * chat_dialect_ag_ui_step.c: the calls of one answer in an AG-UI transcript.
 *
 * A client may keep the parallel calls of one answer in a message each: the
 * assistant's messages in a row are one step, and the tool messages up to the
 * assistant's next are its results.
 * Promises: a call's place is the message after which its result belongs;
 * arguments that broke off leave a call that is not ready.
 * Must not know: what becomes of a step.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"

#define CHAT_AG_UI_CALLS 1024 /* of one step; bounds the matching */


chat_ag_ui_role_e
chat_ag_ui_role(chat_json_doc_t *doc, const chat_json_t *message)
{
    const chat_json_t *role = chat_json_get(doc, message, "role");

    if (chat_json_is(doc, role, "user")) {
        return CHAT_AG_UI_USER;
    }

    if (chat_json_is(doc, role, "assistant")) {
        return CHAT_AG_UI_ASSISTANT;
    }

    return chat_json_is(doc, role, "tool") ? CHAT_AG_UI_TOOL
                                           : CHAT_AG_UI_ASIDE;
}


static chat_call_t *
chat_ag_ui_step_push(chat_ag_ui_body_t *body)
{
    chat_call_t *calls;

    calls = chat_arena_grow(body->arena, body->calls, body->count, &body->size,
                            sizeof(*calls));
    if (calls == NULL) {
        return NULL;
    }

    body->calls = calls;

    return &body->calls[body->count++];
}


/* Notes the calls of one message. */
static chat_rc_e
chat_ag_ui_step_calls(chat_ag_ui_body_t *body, const chat_json_t *message)
{
    chat_call_t       *call;
    const chat_json_t *list, *node;

    list = chat_json_get(body->doc, message, "toolCalls");
    if (list == NULL || list->type != CHAT_JSON_ARRAY) {
        return CHAT_OK;
    }

    for (node = list->child; node != NULL; node = node->next) {
        if (node->type != CHAT_JSON_OBJECT) {
            continue;
        }

        if (body->count == CHAT_AG_UI_CALLS) {
            return CHAT_LIMIT;
        }

        call = chat_ag_ui_step_push(body);
        if (call == NULL) {
            return CHAT_ERROR;
        }

        call->id = chat_json_text(body->doc, node, "id");
        call->name = chat_ag_ui_call_name(body->doc, node);
        call->kind = chat_ag_ui_kind(body->own, call->name);
        call->in_last_message = 1;
        call->node = node;

        if (chat_twins_add(&body->ids, call->id, 0) != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* Marks the calls that a tool message from here on answers. */
static void
chat_ag_ui_step_match(chat_ag_ui_body_t *body, const chat_json_t *node)
{
    size_t            i;
    chat_ag_ui_role_e role;

    for (/* void */; node != NULL; node = node->next) {
        role = chat_ag_ui_role(body->doc, node);

        if (role == CHAT_AG_UI_ASSISTANT) {
            return;
        }

        if (role != CHAT_AG_UI_TOOL) {
            continue;
        }

        i = chat_twins_first(&body->ids,
                             chat_json_text(body->doc, node, "toolCallId"));

        /* twins have their result all at once */
        for (; i != CHAT_TWINS_NONE && body->calls[i].place == NULL;
             i = chat_twins_next(&body->ids, i))
        {
            body->calls[i].place = node;
            body->calls[i].outcome = CHAT_OUTCOME_OK;
        }
    }
}


/* 1 if the arguments are whole: nobody awaits a result of others. */
static int
chat_ag_ui_step_ready(chat_str_t args)
{
    chat_rc_e       rc;
    chat_arena_t   *arena;
    chat_json_doc_t doc;

    if (args.len == 0) {
        return 1;
    }

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return 0;
    }

    rc = chat_json_parse(&doc, arena, args);
    chat_arena_destroy(arena);
    return rc == CHAT_OK || rc == CHAT_LIMIT;
}


/* What is costly to know of a call: its fingerprint, and its result. */
static chat_rc_e
chat_ag_ui_step_detail(chat_ag_ui_body_t *body, chat_call_t *call)
{
    chat_str_t         args = chat_ag_ui_call_args(body->doc, call->node);
    const chat_call_t *twin;

    if (chat_fingerprint(call->name, args, &call->fingerprint) != CHAT_OK) {
        return CHAT_ERROR;
    }

    call->ready = 1;

    if (call->outcome == CHAT_OUTCOME_NONE) {
        call->ready = chat_ag_ui_step_ready(args) & 1;
        return CHAT_OK;
    }

    call->payload = chat_json_raw(body->doc, call->place);

    /* its twin before it has been given the same result */
    twin = &body->calls[chat_twins_first(&body->ids, call->id)];
    if (twin != call) {
        call->outcome = twin->outcome;
        call->digest = twin->digest;
        return CHAT_OK;
    }

    return chat_ag_ui_tool_result(body->doc, call->place, &call->outcome,
                                  &call->digest);
}


chat_rc_e
chat_ag_ui_step_read(chat_ag_ui_body_t *body, const chat_json_t *run,
                     const chat_json_t *end)
{
    size_t             i;
    chat_rc_e          rc;
    const chat_json_t *last = run;

    body->count = 0;
    chat_twins_reset(&body->ids);

    for (/* void */; run != end; run = run->next) {
        if (chat_ag_ui_role(body->doc, run) != CHAT_AG_UI_ASSISTANT) {
            continue;
        }

        last = run;
        rc = chat_ag_ui_step_calls(body, run);
        if (rc != CHAT_OK) {
            return rc;
        }
    }

    if (body->count != 0) {
        chat_ag_ui_step_match(body, end);
    }

    for (i = 0; i < body->count; i++) {
        if (body->calls[i].place == NULL) {
            body->calls[i].place = last;
        }

        last = body->calls[i].place;
    }

    return CHAT_OK;
}


int
chat_ag_ui_step_is_open(const chat_ag_ui_body_t *body)
{
    size_t i;

    for (i = 0; i < body->count; i++) {
        if (body->calls[i].kind != CHAT_KIND_PROVIDER
            && body->calls[i].id.len != 0
            && body->calls[i].outcome == CHAT_OUTCOME_NONE)
        {
            return 1;
        }
    }

    return 0;
}


chat_rc_e
chat_ag_ui_step_add(chat_ag_ui_body_t *body)
{
    size_t       i;
    chat_rc_e    rc;
    chat_step_t *step = chat_request_add_step(body->rq, body->arena);

    if (step == NULL) {
        return CHAT_ERROR;
    }

    step->first_id = body->calls[0].id;

    for (i = 0; i < body->count; i++) {
        rc = chat_ag_ui_step_detail(body, &body->calls[i]);

        if (rc == CHAT_OK) {
            rc = chat_request_put_call(body->rq, body->arena, &body->calls[i]);
        }

        if (rc != CHAT_OK) {
            return rc;
        }
    }

    return CHAT_OK;
}
