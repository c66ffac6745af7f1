/*
 * chat_dialect_gemini.c: Gemini's generateContent, of Google AI and Vertex.
 *
 * Here: requests, the answers that the module makes itself, and the table;
 * _stream.c reads answers, and _args.c joins arguments that come in pieces.
 *
 * A step is an answer of the model: contents of it in a row, as some clients
 * keep each chunk of a stream as a content of its own. A call may then stand
 * there in the pieces in which it came. A result without an id is of the
 * first call of its name that has none yet, as the provider reads it.
 * Promises: an inserted result has an id exactly if its call has one; no part
 * of the model changes, so that its thoughtSignature stays valid. An answer
 * made here is one that Google's libraries take: an event is one data line,
 * with neither a name nor an id; an interruption never looks like an ending.
 */

#include "dialect/gemini/chat_dialect_gemini.h"


/* A request may spell the key of a member in either way. */
static inline __attribute__((always_inline)) const chat_json_t *
either(chat_json_doc_t *doc, const chat_json_t *part, const char *key,
       const char *other)
{
    const chat_json_t *node, *second;

    chat_json_pick(doc, part, key, &node, other, &second, NULL, NULL);
    node = node ? node : second;
    return node != NULL && node->type == CHAT_JSON_OBJECT ? node : NULL;
}


const chat_json_t *
chat_gemini_function(chat_json_doc_t *doc, const chat_json_t *part)
{
    return either(doc, part, "functionCall", "function_call");
}


/* The object of a part that is a result; NULL if it is none. */
static const chat_json_t *
find_response(chat_json_doc_t *doc, const chat_json_t *part)
{
    return either(doc, part, "functionResponse", "function_response");
}


chat_str_t
chat_gemini_id(chat_str_t id, chat_arena_t *arena, uint32_t since,
               uint32_t position)
{
    chat_buf_t place = { 0 };

    if (id.len == 0) {
        chat_buf_format(&place, "part:%u.%u", since, position);
        if (chat_buf_move(&place, arena, &id) != CHAT_OK) {
            return chat_str(NULL, 0);
        }
    }

    return id;
}


/* 1 if one of the query's arguments is that the answer be SSE. */
static int
asks_sse(chat_str_t query)
{
    chat_str_t one;

    while (query.len != 0) {
        one = chat_str_cut(&query, '&');

        if (chat_str_is(one, "alt=sse") || chat_str_is(one, "$alt=sse")
            || chat_str_is(one, "%24alt=sse"))
        {
            return 1;
        }
    }

    return 0;
}


/* How an answer comes, which the URI says. */
typedef enum {
    FORM_EVENTS, /* SSE */
    FORM_ARRAY,  /* the chunks of a stream as one JSON array */
    FORM_OBJECT  /* no stream */
} form_e;

static form_e
answer_form(chat_str_t uri)
{
    chat_str_t path = chat_str_cut(&uri, '?'), query = uri;

    if (chat_str_ends(path, ":generateContent")) {
        return FORM_OBJECT;
    }

    return chat_str_ends(path, ":streamGenerateContent") && !asks_sse(query)
               ? FORM_ARRAY
               : FORM_EVENTS;
}


/* ---- requests ---- */


/* A result of the present step. */
typedef struct {
    const chat_json_t *result, *place;
} result_t;

/* Items of a step, two for each call, by a key. */
typedef struct {
    chat_table_t keys; /* number: the first item from 1 on; 0: none is left */
    uint32_t    *next; /* of each item: the next of its key, likewise */
} index_t;

typedef struct {
    chat_gemini_args_t *args; /* of the present call, which come in pieces */
    chat_buf_t          text; /* of them, so far */
    int                 in_call; /* of the last call more pieces may come */

    result_t *results;
    size_t    nresults, results_size;

    int     has_ids; /* one of the present step's calls has */
    index_t ids;     /* of these */
    index_t names;   /* of the ready ones */
} body_t;


static chat_part_e
part_is(chat_json_doc_t *doc, const chat_json_t *part, chat_str_t *text)
{
    const chat_json_t *string =
        chat_json_typed(doc, part, "text", CHAT_JSON_STRING);

    if (find_response(doc, part) != NULL) {
        return CHAT_PART_RESULT;
    }

    *text = chat_json_string(doc, string);
    return string != NULL ? CHAT_PART_TEXT : CHAT_PART_WORDS;
}


static chat_role_e
content_role(chat_transcript_t *t)
{
    const chat_json_t *role;

    chat_json_pick(t->doc, t->message, "role", &role, "parts", &t->member,
                   NULL, NULL);
    return chat_str_is(chat_json_string(&t->brief, role), "model")
               ? CHAT_ROLE_ASSISTANT
               : CHAT_ROLE_USER;
}


/* ---- calls ---- */


/* A part with a name begins a call. */
static void
begin_call(chat_transcript_t *t, const chat_json_t *function)
{
    body_t            *body = t->data;
    uint32_t           position = 0;
    chat_str_t         own, id;
    chat_call_t       *call;
    const chat_json_t *node, *more, *pieces;

    if (t->has_step) {
        position = (uint32_t) t->rq->steps[t->rq->nsteps - 1].count;
    }

    chat_json_pick(t->doc, function, "id", &node, "willContinue", &more,
                   "partialArgs", &pieces);
    own = chat_json_string(t->doc, node);
    id = chat_gemini_id(own, t->arena, t->rq->next.since - 1, position);
    body->has_ids = own.len != 0 || (body->has_ids && position != 0);
    body->in_call = chat_json_true(more) || pieces != NULL;

    if (body->in_call) {
        body->text.len = 0;
        body->args =
            chat_gemini_args_begin(body->args, t->scratch, &body->text);
    }

    if (id.data == NULL || body->text.failed) {
        chat_transcript_fail(t, CHAT_ERROR);
    }

    call = chat_transcript_call(t, function, id);
    if (call != NULL) {
        call->ready = !body->in_call;
        call->awaits = own.len != 0; /* by its id */
    }
}


/* Adds the pieces that this part has; with the last one the call is ready. */
static void
add_pieces(chat_transcript_t *t, const chat_json_t *function)
{
    body_t      *body = t->data;
    chat_buf_t   text = { 0 };
    chat_call_t *call = &t->rq->calls[t->rq->ncalls - 1];

    (void) chat_gemini_args_add(body->args, t->doc, function, &body->text);

    if (!chat_json_flag(t->doc, function, "willContinue")) {
        body->in_call = 0;
        call->ready = 1;

        if (chat_gemini_args_end(body->args, &body->text)) {
            chat_buf_format(&text, "{\"name\":%j,\"args\":%j}",
                            chat_json_text(t->doc, call->node, "name"),
                            chat_buf_str(&body->text));
            text.failed |= body->text.failed;
            chat_transcript_fail(t,
                                 chat_buf_move(&text, t->arena, &call->text));
            call->joined = call->quoted = 1;
        }
    }
}


static void
content_calls(chat_transcript_t *t)
{
    body_t            *body = t->data;
    const chat_json_t *part, *function, *parts = t->member;

    body->in_call &= t->has_step;
    body->nresults = 0;

    for (part = chat_list_first(parts); part != NULL;
         part = chat_list_next(parts, part))
    {
        function = chat_gemini_function(t->doc, part);

        if (chat_json_text(t->doc, function, "name").len != 0) {
            begin_call(t, function);
        }

        if (t->rc == CHAT_OK && function != NULL && body->in_call) {
            add_pieces(t, function);
        }
    }
}


/* ---- results ---- */


static void
content_results(chat_transcript_t *t)
{
    const chat_json_t *part, *response, *parts = t->member;
    body_t            *body = t->data;
    result_t          *result;

    for (part = chat_list_first(parts); part != NULL;
         part = chat_list_next(parts, part))
    {
        response = find_response(t->doc, part);
        t->has_words |= response == NULL;
        if (response == NULL || !t->has_step) {
            continue;
        }

        result = chat_arena_push(t->scratch, &body->results, &body->nresults,
                                 &body->results_size, sizeof(*result));
        if (result == NULL) {
            chat_transcript_fail(t, CHAT_ERROR);
            return;
        }

        result->result = response;
        result->place = parts->type == CHAT_JSON_ARRAY ? part : NULL;
    }
}


/*
 * Most results stand in the order of their calls: as long as they do, they
 * need no index. Returns how many do.
 */
static size_t
give_in_order(chat_transcript_t *t, const chat_step_t *step)
{
    size_t             i;
    chat_str_t         key, said;
    const body_t      *body = t->data;
    chat_call_t       *call = &t->rq->calls[step->first];
    const chat_json_t *id, *name, *more = NULL;

    for (i = 0; i < step->count && i < body->nresults && call->ready
                && !chat_json_true(more);
         i++, call++)
    {
        chat_json_pick(t->doc, body->results[i].result, "id", &id, "name",
                       &name, "willContinue", &more);
        said = chat_json_string(&t->brief, body->has_ids ? id : name);
        key = body->has_ids ? call->id
                            : chat_json_text(&t->brief, call->node, "name");
        if (call->awaits != body->has_ids || !chat_str_eq(key, said)) {
            break;
        }

        call->result = body->results[i].result;
        call->place = body->results[i].place;
    }

    return i;
}


/*
 * Indexes the calls of the step by id and by name, in two rounds: ready calls
 * come first. Only its id gives a result to a call that is cut off, and only
 * if no ready call has that id: the model has repeated the call then.
 */
static void
index_calls(chat_transcript_t *t, const chat_step_t *step)
{
    body_t            *body = t->data;
    size_t             i, n = 2 * step->count;
    uint32_t          *next;
    const chat_call_t *call;

    chat_table_init(&body->ids.keys, t->scratch);
    chat_table_init(&body->names.keys, t->scratch);

    next = chat_arena_alloc(t->scratch, 2 * n * sizeof(*next));
    if (next == NULL) {
        chat_transcript_fail(t, CHAT_ERROR);
        return;
    }

    body->ids.next = next;
    body->names.next = next + n;

    for (i = n; i-- > 0; /* void */) {
        call = &t->rq->calls[step->first + i % step->count];

        if (call->ready == (i < step->count)
            && ((call->awaits
                 && chat_table_chain(&body->ids.keys, body->ids.next, call->id,
                                     i))
                || (call->ready
                    && chat_table_chain(
                        &body->names.keys, body->names.next,
                        chat_json_text(t->doc, call->node, "name"), i))))
        {
            chat_transcript_fail(t, CHAT_ERROR);
        }
    }
}


/*
 * Gives the result to the first call of its id, or else of its name, that
 * awaits one, or more.
 */
static void
give_result(chat_transcript_t *t, const chat_step_t *step,
            const result_t *result, int by_id)
{
    body_t             *body = t->data;
    index_t            *index = by_id ? &body->ids : &body->names;
    chat_str_t          key, id = chat_json_text(t->doc, result->result, "id");
    chat_call_t        *call;
    chat_table_entry_t *entry = chat_table_find(&body->ids.keys, id);

    if (by_id != (entry != NULL)) {
        return;
    }

    if (!by_id) {
        key = chat_json_text(t->doc, result->result, "name");
        entry = chat_table_find(&index->keys, key);
    }

    while (entry != NULL && entry->number != 0) {
        call = &t->rq->calls[step->first + (entry->number - 1) % step->count];

        if (call->result == NULL
            || chat_json_flag(t->doc, call->result, "willContinue"))
        {
            call->result = result->result;
            call->place = result->place;
            return;
        }

        entry->number = index->next[entry->number - 1];
    }
}


/* Ids first: a name is for what they leave. */
static void
match_results(chat_transcript_t *t)
{
    const chat_step_t *step = &t->rq->steps[t->rq->nsteps - 1];
    const body_t      *body = t->data;
    size_t             i, from = give_in_order(t, step);
    size_t             n = body->nresults - from;

    if (n != 0) {
        index_calls(t, step);
    }

    for (i = 0; i < 2 * n && t->rc == CHAT_OK; i++) {
        give_result(t, step, &body->results[from + i % n], i < n);
    }
}


static chat_str_t
call_args(chat_json_doc_t *doc, const chat_json_t *call,
          const chat_json_t **args)
{
    const chat_json_t *name;

    chat_json_pick(doc, call, "name", &name, "args", args, NULL, NULL);
    return chat_json_string(doc, name);
}


/* The payload is the response alone, or all of it where it has media. */
static void
call_result(chat_transcript_t *t, chat_call_t *call)
{
    const chat_json_t *node, *more, *parts;

    chat_json_pick(t->doc, call->result, "response", &node, "willContinue",
                   &more, "parts", &parts);
    call->outcome = CHAT_OUTCOME_OK;

    if (chat_json_true(more)) {
        call->outcome = CHAT_OUTCOME_PARTIAL;

    } else if (chat_json_get(t->doc, node, "error") != NULL
               && chat_json_get(t->doc, node, "output") == NULL)
    {
        call->outcome = CHAT_OUTCOME_ERROR;
    }

    if (node == NULL || node->type != CHAT_JSON_OBJECT) {
        node = NULL;

    } else if (parts != NULL) {
        node = call->result;
    }

    chat_transcript_value(t, node, "{}", call);
}


/* ---- inserting results ---- */


static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_json_doc_t *payload, chat_buf_t *out)
{
    chat_str_t  id = chat_json_text(doc, result->call->node, "id");
    chat_str_t  name = chat_json_text(doc, result->call->node, "name");
    const char *wrap = "";

    /* it is all of a functionResponse: see call_result() */
    if (chat_json_typed(payload, payload->root, "response", CHAT_JSON_OBJECT)
        && chat_json_get(payload, payload->root, "parts") != NULL
        && chat_str_eq(chat_json_text(payload, payload->root, "name"), name))
    {
        chat_buf_format(out, "{\"functionResponse\":%v}", result->payload);
        return CHAT_OK;
    }

    chat_buf_puts(out, "{\"functionResponse\":{");

    if (id.len != 0) {
        chat_buf_format(out, "\"id\":%j,", id);
    }

    /* the provider takes objects alone */
    if (payload->root->type != CHAT_JSON_OBJECT) {
        wrap = result->outcome == CHAT_OUTCOME_OK ? "{\"output\":"
                                                  : "{\"error\":";
    }

    chat_buf_format(out, "\"name\":%j,\"response\":%s%v%s}}", name, wrap,
                    result->payload, wrap[0] != '\0' ? "}" : "");

    return CHAT_OK;
}


/*
 * At the front of the content behind the answer, or in a content of its own
 * where that cannot take parts.
 */
static chat_rc_e
find_front(chat_json_doc_t *doc, const chat_json_t *model, chat_front_t *front)
{
    const chat_json_t *parts;

    /* a content alone has none behind it */
    if (chat_json_typed(doc, doc->root, "contents", CHAT_JSON_ARRAY) == NULL) {
        return CHAT_BAD;
    }

    while (chat_json_has(doc, model->next, "role", "model")) {
        model = model->next;
    }

    parts = chat_json_typed(doc, model->next, "parts", CHAT_JSON_ARRAY);

    if (parts != NULL) {
        front->pos = parts->start + 1;
        front->close = chat_cstr(chat_json_is_empty(parts) ? "" : ",");

    } else {
        front->pos = model->end;
        front->open = ",{\"role\":\"user\",\"parts\":[";
        front->close = chat_cstr("]}");
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
    .content = "parts",
    .part = part_is,
    .mixed = CHAT_CLASS_FRESH,
    .runs = 1,
    .each = 1,
    .write = write_result,
    .front = find_front,
};


static chat_rc_e
read_request(chat_transcript_t *t)
{
    body_t             body = { 0 };
    const chat_json_t *contents =
        chat_json_get(t->doc, t->doc->root, "contents");

    if (chat_list_first(contents) == NULL) {
        return CHAT_DECLINED;
    }

    /* no member of the body says whether the answer is a stream */
    t->rq->stream = answer_form(t->rq->uri) == FORM_EVENTS;
    t->data = &body;
    chat_transcript_read(t, contents);
    chat_transcript_end(t);
    chat_buf_free(&body.text);
    return CHAT_OK;
}


/* ---- what the module itself writes ---- */


/* Google's word for a status. */
static const char *
status_name(unsigned status)
{
    switch (status) {
    case 400:
        return "INVALID_ARGUMENT";
    case 401:
        return "UNAUTHENTICATED";
    case 403:
        return "PERMISSION_DENIED";
    case 404:
        return "NOT_FOUND";
    case 409:
        return "ABORTED";
    case 429:
        return "RESOURCE_EXHAUSTED";
    case 502:
    case 503:
        return "UNAVAILABLE";
    case 504:
        return "DEADLINE_EXCEEDED";
    default:
        return status < 500 ? "FAILED_PRECONDITION" : "INTERNAL";
    }
}


static chat_rc_e
empty(const chat_request_t *rq, const chat_result_t *results, size_t n,
      chat_buf_t *out)
{
    static const char *const turn =
        "{\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[]},"
        "\"finishReason\":\"STOP\",\"index\":0}]}";

    switch (answer_form(rq->uri)) {
    case FORM_EVENTS:
        chat_buf_format(out, "data: %s\n\n", turn);
        break;

    case FORM_ARRAY:
        chat_buf_format(out, "[%s]", turn);
        break;

    case FORM_OBJECT:
        chat_buf_puts(out, turn);
        break;
    }

    return CHAT_OK;
}


static void
refuse(const chat_refusal_t *refusal, int in_band, chat_buf_t *out)
{
    size_t from;

    chat_buf_format(
        out,
        "%s{\"error\":{\"code\":%u,\"message\":%j,\"status\":\"%s\","
        "\"details\":[{\"@type\":"
        "\"type.googleapis.com/google.rpc.ErrorInfo\","
        "\"reason\":%j,\"domain\":\"ngx_chat_module\","
        "\"metadata\":{",
        in_band ? "data: " : "", refusal->status, chat_cstr(refusal->message),
        status_name(refusal->status), chat_cstr(refusal->code));

    if (refusal->nids != 0) {
        /* the values of metadata are strings */
        chat_buf_puts(out, "\"calls\":");
        from = out->len;
        chat_refusal_join(refusal, "%v", " ", out);
        chat_buf_quote(out, from);
    }

    chat_buf_puts(out, in_band ? "}}]}}\n\n" : "}}]}}");
}


const chat_dialect_t chat_dialect_gemini = {
    .name = "gemini",
    .form = &form,
    .provider = 1,
    .numbered = 1,
    .raw_pieces = 1,
    .paths = CHAT_LIST(":streamGenerateContent", ":generateContent"),
    /* these take contents, but make no answer */
    .not_paths = CHAT_LIST(":countTokens", ":computeTokens", ":embedContent",
                           ":batchGenerateContent", "/cachedContents"),
    /* the model is in the path, labels name the user */
    .signature = CHAT_LIST(
        "systemInstruction", "system_instruction", "generationConfig",
        "generation_config", "tools", "toolConfig", "tool_config",
        "safetySettings", "safety_settings", "cachedContent", "cached_content",
        "modelArmorConfig", "serviceTier"),
    .request = read_request,
    .reader_size = sizeof(chat_gemini_reader_t),
    .call_size = sizeof(chat_stream_call_t),
    .read = chat_gemini_read,
    .empty = empty,
    .refuse = refuse,
};
