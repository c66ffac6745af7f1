/*
 * chat_dialect_gemini_step.c: the steps of a Gemini transcript.
 *
 * A step is an answer of the model with functionCall parts; its results are
 * the functionResponse parts of the contents that follow at once. Where ids
 * are missing a result is of the first call of its name that has none yet, as
 * the provider reads it. A chat that keeps its history itself keeps the chunks
 * of an answer, so a call may stand there in the pieces in which it came.
 * Promises: a result is that of one call; a call's node is its functionCall,
 * its place the part behind which its result belongs, NULL for the front.
 * Must not know: the stream, what a store has.
 */

#include "dialect/gemini/chat_dialect_gemini.h"


/* Notes one more call of the step that is being read. */
static chat_rc_e
chat_gemini_note(chat_gemini_body_t *r, const chat_json_t *function)
{
    chat_gemini_call_t *note;

    if (r->count == CHAT_GEMINI_CALLS) {
        return CHAT_LIMIT;
    }

    note =
        chat_arena_grow(r->arena, r->calls, r->count, &r->size, sizeof(*note));
    if (note == NULL) {
        return CHAT_ERROR;
    }

    r->calls = note;
    note = &r->calls[r->count];

    note->function = function;
    note->own_id = chat_json_text(r->doc, function, "id").len != 0;
    note->call.id = chat_gemini_id(r->doc, r->arena, function, r->turn.since,
                                   (uint32_t) r->count);
    note->call.name = chat_json_text(r->doc, function, "name");
    note->call.kind = CHAT_KIND_CLIENT;
    note->call.ready = 1;
    note->call.node = function;

    r->count++;

    return note->call.id.data ? CHAT_OK : CHAT_ERROR;
}


/*
 * The pieces of the last noted call that this part has; with the last of them
 * it is ready.
 */
static chat_rc_e
chat_gemini_pieces(chat_gemini_body_t *r, const chat_json_t *function)
{
    chat_rc_e           rc;
    chat_gemini_call_t *note = &r->calls[r->count - 1];
    const chat_json_t  *pieces;

    pieces = chat_json_get(r->doc, function, "partialArgs");

    if (chat_gemini_args_add(r->args, r->doc, pieces) != CHAT_OK) {
        return CHAT_ERROR;
    }

    if (chat_gemini_goes_on(r->doc, function)) {
        return CHAT_OK;
    }

    r->in_call = 0;
    note->call.ready = 1;

    rc = chat_gemini_args_text(r->args, r->arena, &note->args);

    return rc == CHAT_ERROR ? rc : CHAT_OK;
}


/* A functionCall part: a call, or more of the last one. */
static chat_rc_e
chat_gemini_call(chat_gemini_body_t *r, const chat_json_t *function)
{
    chat_rc_e rc;

    if (chat_json_text(r->doc, function, "name").len) {
        rc = chat_gemini_note(r, function);

        if (rc != CHAT_OK
            || !(chat_gemini_goes_on(r->doc, function)
                 || chat_json_get(r->doc, function, "partialArgs")))
        {
            r->in_call = 0;
            return rc;
        }

        if (r->args == NULL) {
            r->args = chat_gemini_args_create(r->arena);
            if (r->args == NULL) {
                return CHAT_ERROR;
            }
        }

        chat_gemini_args_begin(r->args);
        r->calls[r->count - 1].call.ready = 0;
        r->in_call = 1;
    }

    return r->in_call ? chat_gemini_pieces(r, function) : CHAT_OK;
}


/* Notes the calls of an answer; *behind becomes the content behind it. */
static chat_rc_e
chat_gemini_calls(chat_gemini_body_t *r, const chat_json_t *content,
                  const chat_json_t **behind)
{
    chat_rc_e          rc;
    const chat_json_t *parts, *part, *function;

    r->count = 0;
    r->in_call = 0;

    for (/* void */; content && chat_gemini_is_model(r->doc, content);
         content = chat_gemini_next(r->contents, content))
    {
        parts = chat_gemini_parts(r->doc, content);

        for (part = chat_gemini_first(parts); part;
             part = chat_gemini_next(parts, part))
        {
            function = chat_gemini_function(r->doc, part);
            if (function == NULL) {
                continue;
            }

            rc = chat_gemini_call(r, function);
            if (rc != CHAT_OK) {
                return rc;
            }
        }
    }

    *behind = content;

    return CHAT_OK;
}


/* Finds calls by id and by name, now that all of the step are noted. */
static chat_rc_e
chat_gemini_index(chat_gemini_body_t *r)
{
    size_t              i;
    chat_gemini_call_t *note;

    chat_twins_reset(&r->ids);
    chat_twins_reset(&r->names);
    chat_twins_reset(&r->no_ids);

    for (i = 0; i < r->count; i++) {
        note = &r->calls[i];
        note->awaits = 1;

        /* nobody answers a call that is cut off but by its id */
        if (chat_twins_add(&r->ids, note->call.id, !note->own_id)
            || chat_twins_add(&r->names, note->call.name, !note->call.ready)
            || chat_twins_add(&r->no_ids, note->call.name,
                              !note->call.ready || note->own_id))
        {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* The first of these calls that awaits a result, or NULL. */
static chat_gemini_call_t *
chat_gemini_first_open(chat_gemini_body_t *r, chat_twins_t *twins,
                       chat_str_t key)
{
    size_t i;

    for (;;) {
        i = chat_twins_first(twins, key);

        if (i == CHAT_TWINS_NONE) {
            return NULL;
        }

        if (r->calls[i].awaits) {
            return &r->calls[i];
        }

        /* it has all of its result, and so awaits none any more */
        chat_twins_drop(twins, key);
    }
}


/*
 * Gives one result to its call; named: those that no id has given away.
 * place is the part that another can stand behind, or NULL.
 */
static void
chat_gemini_settle(chat_gemini_body_t *r, const chat_json_t *response,
                   const chat_json_t *place, int named)
{
    chat_str_t          id, name;
    chat_gemini_call_t *note = NULL;

    id = chat_json_text(r->doc, response, "id");

    if (!named) {
        note = id.len ? chat_gemini_first_open(r, &r->ids, id) : NULL;

    } else if (id.len == 0 || !chat_twins_has(&r->ids, id)) {
        /* one of the two has no id */
        name = chat_json_text(r->doc, response, "name");
        note =
            chat_gemini_first_open(r, id.len ? &r->no_ids : &r->names, name);
    }

    if (note) {
        note->result = response;
        note->awaits = chat_gemini_goes_on(r->doc, response);
        note->call.place = place;
    }
}


/* All results from this content on, up to the model's next answer. */
static chat_rc_e
chat_gemini_results(chat_gemini_body_t *r, const chat_json_t *content,
                    int named)
{
    size_t             n = 0;
    const chat_json_t *parts, *part, *response;

    for (/* void */; content && !chat_gemini_is_model(r->doc, content);
         content = chat_gemini_next(r->contents, content))
    {
        parts = chat_gemini_parts(r->doc, content);

        for (part = chat_gemini_first(parts); part;
             part = chat_gemini_next(parts, part))
        {
            response = chat_gemini_response(r->doc, part);
            if (response == NULL) {
                continue;
            }

            if (++n > CHAT_GEMINI_CALLS) {
                return CHAT_LIMIT;
            }

            chat_gemini_settle(r, response,
                               parts->type == CHAT_JSON_ARRAY ? part : NULL,
                               named);
        }
    }

    return CHAT_OK;
}


/* Finds the results of the noted calls, and the places of those missing. */
static chat_rc_e
chat_gemini_match(chat_gemini_body_t *r, const chat_json_t *behind)
{
    size_t             i;
    chat_rc_e          rc;
    const chat_json_t *place = NULL;

    rc = chat_gemini_index(r);

    if (rc == CHAT_OK) {
        rc = chat_gemini_results(r, behind, 0);
    }

    if (rc == CHAT_OK) {
        rc = chat_gemini_results(r, behind, 1);
    }

    for (i = 0; i < r->count; i++) {
        if (r->calls[i].call.place == NULL) {
            r->calls[i].call.place = place;
        }

        place = r->calls[i].call.place;
    }

    return rc;
}


/* 1 if the transcript can do without the noted calls. */
static int
chat_gemini_past(const chat_gemini_body_t *r, const chat_json_t *content)
{
    size_t i;

    if (r->current || content == r->answered) {
        return 0;
    }

    for (i = 0; i < r->count; i++) {
        if (r->calls[i].result == NULL) {
            return 0;
        }
    }

    return 1;
}


/*
 * What a functionResponse says. Its payload is the response alone, or where
 * it has media beside that, all of it.
 */
static chat_rc_e
chat_gemini_result(chat_gemini_body_t *r, const chat_json_t *result,
                   chat_call_t *call)
{
    const chat_json_t      *node = chat_json_get(r->doc, result, "response");
    static const chat_str_t nothing = CHAT_STR("{}");

    call->outcome = CHAT_OUTCOME_OK;

    if (chat_gemini_goes_on(r->doc, result)) {
        call->outcome = CHAT_OUTCOME_PARTIAL;

    } else if (chat_json_get(r->doc, node, "error")
               && chat_json_get(r->doc, node, "output") == NULL)
    {
        call->outcome = CHAT_OUTCOME_ERROR;
    }

    if (node == NULL || node->type != CHAT_JSON_OBJECT) {
        call->payload = nothing;
        chat_digest(nothing, &call->digest);
        return CHAT_OK;
    }

    if (chat_json_get(r->doc, result, "parts")) {
        node = result;
    }

    call->payload = chat_json_raw(r->doc, node);

    return chat_json_digest(r->doc, node, &call->digest);
}


/* What is costly to know of a call: its fingerprint, and its result. */
static chat_rc_e
chat_gemini_detail(chat_gemini_body_t *r, chat_gemini_call_t *note)
{
    chat_str_t args = note->args;

    if (args.len == 0) {
        args = chat_json_raw(r->doc,
                             chat_json_get(r->doc, note->function, "args"));
    }

    if (chat_fingerprint(note->call.name, args, &note->call.fingerprint)) {
        return CHAT_ERROR;
    }

    return note->result ? chat_gemini_result(r, note->result, &note->call)
                        : CHAT_OK;
}


chat_rc_e
chat_gemini_step(chat_gemini_body_t *r, const chat_json_t *content)
{
    size_t             i;
    chat_rc_e          rc;
    chat_step_t       *step;
    const chat_json_t *behind;

    rc = chat_gemini_calls(r, content, &behind);
    if (rc != CHAT_OK || r->count == 0) {
        return rc;
    }

    rc = chat_gemini_match(r, behind);
    if (rc != CHAT_OK || chat_gemini_past(r, content)) {
        return rc;
    }

    step = chat_request_add_step(r->rq, r->arena);
    if (step == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < r->count; i++) {
        rc = chat_gemini_detail(r, &r->calls[i]);

        if (rc == CHAT_OK) {
            rc = chat_request_put_call(r->rq, r->arena, &r->calls[i].call);
        }

        if (rc != CHAT_OK) {
            return rc;
        }
    }

    step->first_id = r->calls[0].call.id;
    r->rq->answers = content == r->answered;

    return CHAT_OK;
}
