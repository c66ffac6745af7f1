/*
 * chat_dialect_gemini_request.c: request bodies of Gemini.
 *
 * A step is an answer of the model: contents of it in a row, as some clients
 * keep each chunk of a stream as a content of its own. A call may then stand
 * there in the pieces in which it came. A result without an id is of the
 * first call of its name that has none yet, as the provider reads it.
 * Promises: an inserted result has an id exactly if its call has one; no part
 * of the model changes, so that its thoughtSignature stays valid.
 */

#include "dialect/gemini/chat_dialect_gemini.h"


/* A result that no id has given to a call. */
typedef struct {
    const chat_json_t *result;
    const chat_json_t *place;
} chat_gemini_result_t;

typedef struct {
    chat_gemini_args_t *args;    /* the pieces of the present call */
    int                 in_call; /* of the last call more pieces may come */

    chat_gemini_result_t *results; /* of the present step */
    size_t                nresults;
    size_t                results_size;

    chat_twins_t ids;    /* of the present step's calls: the provider's */
    chat_twins_t names;  /* of the ready ones */
    chat_twins_t no_ids; /* names of those without an id */
} chat_gemini_body_t;


static chat_part_e
part_is(chat_json_doc_t *doc, const chat_json_t *part, chat_str_t *text)
{
    const chat_json_t *string;

    if (chat_gemini_response(doc, part) != NULL) {
        return CHAT_PART_RESULT;
    }

    string = chat_json_get(doc, part, "text");
    if (string == NULL || string->type != CHAT_JSON_STRING) {
        return CHAT_PART_WORDS;
    }

    *text = chat_json_string(doc, string);
    return CHAT_PART_TEXT;
}


static chat_role_e
content_role(chat_json_doc_t *doc, const chat_json_t *content)
{
    if (chat_gemini_is_model(doc, content)) {
        return CHAT_ROLE_ASSISTANT;
    }

    return chat_transcript_has_words(doc, chat_gemini_parts(doc, content),
                                     part_is)
               ? CHAT_ROLE_USER
               : CHAT_ROLE_RESULTS;
}


/* ---- calls ---- */


/* A part with a name begins a call. */
static chat_rc_e
begin_call(chat_transcript_t *t, const chat_json_t *function)
{
    uint32_t            position = 0;
    chat_call_t         call = { .node = function, .ready = 1 };
    chat_gemini_body_t *body = t->data;

    if (t->has_step) {
        position = (uint32_t) t->rq->steps[t->rq->nsteps - 1].count;
    }

    body->in_call = chat_gemini_goes_on(t->doc, function)
                    || chat_json_get(t->doc, function, "partialArgs") != NULL;

    call.id =
        chat_gemini_id(t->doc, t->arena, function, t->since - 1, position);
    call.name = chat_json_text(t->doc, function, "name");
    call.ready = !body->in_call;

    if (call.id.data == NULL) {
        return CHAT_ERROR;
    }

    if (body->in_call) {
        if (body->args == NULL) {
            body->args = chat_gemini_args_create(t->arena);
        }
        if (body->args == NULL) {
            return CHAT_ERROR;
        }
        chat_gemini_args_begin(body->args);
    }

    return chat_transcript_call(t, &call, 0);
}


/* Adds the pieces that this part has; with the last one the call is ready. */
static chat_rc_e
add_pieces(chat_transcript_t *t, const chat_json_t *function)
{
    chat_rc_e           rc;
    chat_call_t        *call = &t->rq->calls[t->rq->ncalls - 1];
    chat_gemini_body_t *body = t->data;

    if (chat_gemini_args_add(body->args, t->doc,
                             chat_json_get(t->doc, function, "partialArgs"))
        != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    if (chat_gemini_goes_on(t->doc, function)) {
        return CHAT_OK;
    }

    body->in_call = 0;
    call->ready = 1;

    /* the arguments wait there until call_args() */
    rc = chat_gemini_args_text(body->args, t->arena, &call->payload);

    return rc == CHAT_ERROR ? rc : CHAT_OK;
}


static chat_rc_e
content_calls(chat_transcript_t *t, const chat_json_t *content)
{
    chat_rc_e           rc = CHAT_OK;
    const chat_json_t  *part, *function;
    const chat_json_t  *parts = chat_gemini_parts(t->doc, content);
    chat_gemini_body_t *body = t->data;

    body->in_call &= t->has_step;
    body->nresults = 0;

    for (part = chat_list_first(parts); part != NULL && rc == CHAT_OK;
         part = chat_list_next(parts, part))
    {
        function = chat_gemini_function(t->doc, part);
        if (function == NULL) {
            continue;
        }

        if (chat_json_text(t->doc, function, "name").len != 0) {
            rc = begin_call(t, function);
        }

        if (rc == CHAT_OK && body->in_call) {
            rc = add_pieces(t, function);
        }
    }

    return rc;
}


/* ---- results ---- */


static chat_rc_e
content_results(chat_transcript_t *t, const chat_json_t *content)
{
    const chat_json_t    *part, *response;
    const chat_json_t    *parts = chat_gemini_parts(t->doc, content);
    chat_gemini_body_t   *body = t->data;
    chat_gemini_result_t *results;

    for (part = chat_list_first(parts); part != NULL && t->has_step;
         part = chat_list_next(parts, part))
    {
        response = chat_gemini_response(t->doc, part);
        if (response == NULL) {
            continue;
        }

        results = chat_arena_grow(t->arena, body->results, body->nresults,
                                  &body->results_size, sizeof(*results));
        if (results == NULL) {
            return CHAT_ERROR;
        }

        body->results = results;
        results = &body->results[body->nresults++];
        results->result = response;
        results->place = parts->type == CHAT_JSON_ARRAY ? part : NULL;
    }

    return CHAT_OK;
}


/*
 * Indexes the calls of the step by id and by name, in two rounds: ready calls
 * come first. Only its id gives a result to a call that is cut off, and only
 * if no ready call has that id: the model has repeated the call then.
 */
static chat_rc_e
index_calls(chat_transcript_t *t, const chat_step_t *step)
{
    int                 own_id, ready;
    size_t              i;
    const chat_call_t  *call;
    chat_gemini_body_t *body = t->data;

    chat_twins_reset(&body->ids);
    chat_twins_reset(&body->names);
    chat_twins_reset(&body->no_ids);

    for (i = 0; i < 2 * step->count; i++) {
        call = &t->rq->calls[step->first + i % step->count];
        own_id = chat_json_text(t->doc, call->node, "id").len != 0;
        ready = call->ready && i < step->count;

        if (chat_twins_add(&body->ids, call->id,
                           !own_id || (call->ready != (i < step->count)))
            || chat_twins_add(&body->names, call->name, !ready)
            || chat_twins_add(&body->no_ids, call->name, !ready || own_id))
        {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* Gives the result to the first of these calls that awaits one, or more. */
static int
give_result(chat_transcript_t *t, const chat_step_t *step, chat_twins_t *twins,
            chat_str_t key, const chat_gemini_result_t *result)
{
    size_t       i;
    chat_call_t *call;

    for (;;) {
        i = chat_twins_first(twins, key);
        if (i == CHAT_TWINS_NONE) {
            return 0;
        }

        call = &t->rq->calls[step->first + i % step->count];

        if (call->result == NULL || chat_gemini_goes_on(t->doc, call->result))
        {
            call->result = result->result;
            call->place = result->place;
            return 1;
        }

        chat_twins_drop(twins, key);
    }
}


/* Ids first: a name is for what they leave. */
static chat_rc_e
match_results(chat_transcript_t *t)
{
    size_t                i;
    chat_str_t            id, name;
    const chat_step_t    *step = &t->rq->steps[t->rq->nsteps - 1];
    chat_gemini_body_t   *body = t->data;
    chat_gemini_result_t *result;

    if (index_calls(t, step) != CHAT_OK) {
        return CHAT_ERROR;
    }

    for (i = 0; i < body->nresults; i++) {
        id = chat_json_text(t->doc, body->results[i].result, "id");

        if (id.len != 0) {
            (void) give_result(t, step, &body->ids, id, &body->results[i]);
        }
    }

    for (i = 0; i < body->nresults; i++) {
        result = &body->results[i];
        id = chat_json_text(t->doc, result->result, "id");
        name = chat_json_text(t->doc, result->result, "name");

        if (id.len == 0) {
            (void) give_result(t, step, &body->names, name, result);

        } else if (!chat_twins_has(&body->ids, id)) {
            (void) give_result(t, step, &body->no_ids, name, result);
        }
    }

    return CHAT_OK;
}


static chat_str_t
call_args(chat_transcript_t *t, chat_call_t *call)
{
    chat_str_t args = call->payload;

    call->payload = chat_str(NULL, 0);

    return args.len != 0
               ? args
               : chat_json_raw(t->doc,
                               chat_json_get(t->doc, call->node, "args"));
}


/* The payload is the response alone, or all of it where it has media. */
static chat_rc_e
call_result(chat_transcript_t *t, chat_call_t *call)
{
    const chat_json_t *node = chat_json_get(t->doc, call->result, "response");

    call->outcome = CHAT_OUTCOME_OK;

    if (chat_gemini_goes_on(t->doc, call->result)) {
        call->outcome = CHAT_OUTCOME_PARTIAL;

    } else if (chat_json_get(t->doc, node, "error") != NULL
               && chat_json_get(t->doc, node, "output") == NULL)
    {
        call->outcome = CHAT_OUTCOME_ERROR;
    }

    if (node == NULL || node->type != CHAT_JSON_OBJECT) {
        node = NULL;

    } else if (chat_json_get(t->doc, call->result, "parts") != NULL) {
        node = call->result;
    }

    return chat_transcript_value(t, node, "{}", call);
}


/* ---- inserting results ---- */


/* 1 if the payload is all of a functionResponse; see call_result(). */
static int
is_whole(chat_json_doc_t *payload, chat_str_t name)
{
    const chat_json_t *root = payload->root;
    const chat_json_t *response = chat_json_get(payload, root, "response");

    return response != NULL && response->type == CHAT_JSON_OBJECT
           && chat_json_get(payload, root, "parts") != NULL
           && chat_str_eq(chat_json_text(payload, root, "name"), name);
}


static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_arena_t *arena, chat_buf_t *out)
{
    chat_rc_e       rc;
    chat_str_t      id;
    const char     *wrap;
    chat_json_doc_t payload;

    rc = chat_json_parse(&payload, arena, result->payload);
    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_BAD;
    }

    chat_buf_puts(out, "{\"functionResponse\":");

    if (is_whole(&payload, result->call->name)) {
        chat_buf_add(out, result->payload);
        chat_buf_puts(out, "}");
        return CHAT_OK;
    }

    id = chat_json_text(doc, result->call->node, "id");

    if (id.len != 0) {
        chat_buf_puts(out, "{\"id\":");
        chat_buf_json(out, id);
        chat_buf_puts(out, ",\"name\":");
    } else {
        chat_buf_puts(out, "{\"name\":");
    }

    /* The provider takes objects alone. */
    wrap = payload.root->type == CHAT_JSON_OBJECT ? ""
           : result->outcome == CHAT_OUTCOME_OK   ? "{\"output\":"
                                                  : "{\"error\":";

    chat_buf_json(out, result->call->name);
    chat_buf_puts(out, ",\"response\":");
    chat_buf_puts(out, wrap);
    chat_buf_add(out, result->payload);
    chat_buf_puts(out, wrap[0] != '\0' ? "}}}" : "}}");

    return CHAT_OK;
}


/* The first result behind this content, in a list; NULL: there is none. */
static const chat_json_t *
find_result(chat_json_doc_t *doc, const chat_json_t *content)
{
    const chat_json_t *parts, *part;

    for (/* void */; content != NULL && !chat_gemini_is_model(doc, content);
         content = content->next)
    {
        parts = chat_gemini_parts(doc, content);
        part = parts && parts->type == CHAT_JSON_ARRAY ? parts->child : NULL;

        for (/* void */; part != NULL; part = part->next) {
            if (chat_gemini_response(doc, part) != NULL) {
                return part;
            }
        }
    }

    return NULL;
}


/*
 * Before the first result behind the answer, else at the front of the content
 * behind it, or in a content of its own where that cannot take parts.
 */
static chat_rc_e
find_front(chat_json_doc_t *doc, const chat_json_t *model, chat_front_t *front)
{
    const chat_json_t *parts, *first;

    while (model->next != NULL && chat_gemini_is_model(doc, model->next)) {
        model = model->next;
    }

    first = find_result(doc, model->next);
    parts = chat_gemini_parts(doc, model->next);

    if (first == NULL && parts != NULL && parts->type == CHAT_JSON_ARRAY) {
        first = parts->child;
    }

    if (first != NULL) {
        front->pos = first->start;
        front->open = "";
        front->close = ",";

    } else if (parts != NULL && parts->type == CHAT_JSON_ARRAY) {
        front->pos = parts->start + 1;
        front->open = "";
        front->close = "";

    } else {
        front->pos = model->end;
        front->open = ",{\"role\":\"user\",\"parts\":[";
        front->close = "]}";
    }

    return CHAT_OK;
}


static const chat_transcript_form_t form = {
    .list = "contents",
    .role = content_role,
    .calls = content_calls,
    .results = content_results,
    .match = match_results,
    .args = call_args,
    .result = call_result,
    .parts = "parts",
    .part = part_is,
    .mixed = CHAT_CLASS_FRESH,
    .runs = 1,
    .each = 1,
    .write = write_result,
    .front = find_front,
};


chat_rc_e
chat_gemini_request(chat_json_doc_t *doc, chat_arena_t *arena,
                    chat_request_t *rq)
{
    chat_transcript_t  t;
    chat_gemini_body_t body = { 0 };
    const chat_json_t *contents = chat_json_get(doc, doc->root, "contents");

    if (chat_list_first(contents) == NULL) {
        return CHAT_DECLINED;
    }

    chat_twins_init(&body.ids, arena);
    chat_twins_init(&body.names, arena);
    chat_twins_init(&body.no_ids, arena);

    /* no member of the body says whether the answer is a stream */
    rq->stream = chat_gemini_form(rq->uri) == CHAT_GEMINI_EVENTS;

    chat_transcript_init(&t, &form, doc, arena, rq);
    t.data = &body;

    return chat_transcript_end(&t, chat_transcript_read(&t, contents));
}


chat_rc_e
chat_gemini_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                   const chat_result_t *results, size_t n, chat_edits_t *edits)
{
    const chat_json_t *contents = chat_json_get(doc, doc->root, "contents");

    /* a content alone has none behind it */
    if (n != 0 && (contents == NULL || contents->type != CHAT_JSON_ARRAY)) {
        return CHAT_BAD;
    }

    return chat_transcript_splice(&form, doc, rq, results, n, edits);
}
