/*
 * chat_dialect_openai_chat.c: OpenAI's Chat Completions, which others copied.
 *
 * A step is an assistant message with tool_calls; its results are the tool
 * messages behind it, and a missing one is inserted there.
 *
 * In a stream a call comes in pieces, told apart by choice and index, and its
 * end is not said: it is complete when the next call opens in its choice and
 * its arguments so far are an object (calls may come in turns), or with the
 * choice's finish_reason. A call that was cut off by a limit is never ready.
 * The place of a call is (choice << 16) | index. The stream ends when no
 * choice is awaited any more. One chunk may carry a call to drop and one to
 * keep: each entry of tool_calls is marked, with its index.
 *
 * Promises: an answer made here is one that the OpenAI libraries take; an
 * interruption never looks like an ending.
 */

#include "dialect/chat_dialect.h"

#define CHAT_COMPLETIONS_CHOICES 128    /* higher ones are skipped, */
#define CHAT_COMPLETIONS_INDEXES 0xffff /* and so are higher indexes */


/*
 * The kind of a tool call by its type: only what is known to be answered by a
 * tool message is the client's.
 */
static chat_kind_e
call_kind(chat_str_t type)
{
    return type.len == 0 || chat_str_is(type, "function")
                   || chat_str_is(type, "custom")
               ? CHAT_KIND_CLIENT
               : CHAT_KIND_PROVIDER;
}


/* The name of a tool call, or empty, and its arguments, or NULL. */
static chat_str_t
read_function(chat_json_doc_t *doc, const chat_json_t *call,
              const chat_json_t **args)
{
    const chat_json_t *name, *input;
    const chat_json_t *function = chat_json_get(doc, call, "function");

    if (function == NULL) {
        function = chat_json_get(doc, call, "custom");
    }

    /* without one the call itself may have the name */
    function = function ? function : call;
    chat_json_pick(doc, function, "name", &name, "arguments", args, "input",
                   &input);
    *args = *args ? *args : input;
    return chat_json_string(doc, name);
}


/* ---- requests ---- */


static chat_role_e
message_role(chat_transcript_t *t)
{
    chat_str_t         role;
    const chat_json_t *node;

    chat_json_pick(t->doc, t->message, "role", &node, "tool_calls", &t->member,
                   "tool_call_id", &t->id);
    role = chat_json_string(t->doc, node);

    return chat_str_is(role, "user")        ? CHAT_ROLE_USER
           : chat_str_is(role, "assistant") ? CHAT_ROLE_ASSISTANT
           : chat_str_is(role, "tool")      ? CHAT_ROLE_RESULTS
           : chat_str_is(role, "system")    ? CHAT_ROLE_SYSTEM
           : chat_str_is(role, "developer") ? CHAT_ROLE_SYSTEM
                                            : CHAT_ROLE_OTHER;
}


static void
message_calls(chat_transcript_t *t)
{
    chat_call_t       *call;
    const chat_json_t *id, *type, *node = chat_json_first(t->member);

    for (/* void */; node != NULL; node = node->next) {
        chat_json_pick(t->doc, node, "id", &id, "type", &type, NULL, NULL);
        call = chat_transcript_call(t, node, chat_json_string(t->doc, id));
        if (call != NULL) {
            call->kind = call_kind(chat_json_string(t->doc, type));
        }
    }
}


static void
call_result(chat_transcript_t *t, chat_call_t *call)
{
    call->outcome = CHAT_OUTCOME_OK;
    chat_transcript_value(t, chat_json_get(t->doc, call->result, "content"),
                          "\"\"", call);
}


/* A tool message has no mark for errors: its text has to say it. */
static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_json_doc_t *payload, chat_buf_t *out)
{
    chat_buf_format(out, "{\"role\":\"tool\",\"tool_call_id\":%j,\"content\":",
                    result->id);

    if (result->outcome == CHAT_OUTCOME_OK) {
        chat_buf_add(out, result->payload);
    } else {
        chat_result_error_text(result, out);
    }

    chat_buf_puts(out, "}");

    return CHAT_OK;
}


static const chat_transcript_form_t form = {
    .list = "messages",
    .content = "content",
    .role = message_role,
    .calls = message_calls,
    .results = chat_transcript_message,
    .args = read_function,
    .quoted = 1,
    .result = call_result,
    .mixed = CHAT_CLASS_OTHER,
    .write = write_result,
};


static chat_rc_e
read_request(chat_transcript_t *t)
{
    chat_json_doc_t   *doc = t->doc;
    const chat_json_t *first, *list, *stream;

    chat_json_pick(doc, doc->root, "messages", &list, "stream", &stream, NULL,
                   NULL);
    first = chat_json_first(list);

    if (chat_json_text(doc, first, "role").len == 0
        || chat_json_get(doc, first, "parts") != NULL)
    {
        return CHAT_DECLINED;
    }

    t->rq->stream = chat_json_true(stream);
    chat_transcript_read(t, list);
    chat_transcript_end(t);
    return CHAT_OK;
}


/* ---- streams ---- */


/* A choice of the stream. */
typedef struct {
    unsigned            seen : 1; /* it has begun */
    unsigned            done : 1; /* it has its finish_reason */
    chat_stream_call_t *newest;   /* the call that opened last */
    uint32_t            next;     /* index behind all calls */
} choice_t;

typedef struct {
    chat_reader_t reader;
    choice_t     *choices; /* by index, up to the highest one so far */
    size_t        nchoices, size;
    uint32_t      running;  /* choices that have no finish_reason yet */
    unsigned      open : 1; /* TURN_OPEN was given */
    unsigned      cut : 1;  /* by a limit or a filter */
} reader_t;


/* The arguments of the call are complete. */
static void
end_call(reader_t *r, chat_stream_call_t *call)
{
    if (!call->ready) {
        call->ready = 1;
        chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, call)->implied = 1;
    }
}


/*
 * 1 if the arguments so far are an object: those of the entry before, if that
 * has opened the call, else those that came in earlier frames.
 */
static int
is_whole(const reader_t *r, const chat_stream_call_t *call)
{
    size_t               n = r->reader.events->count;
    chat_str_t           text = chat_buf_str(&call->args);
    chat_json_doc_t      doc;
    const chat_events_t *events = r->reader.events;

    if (n > 1 && events->items[n - 2].type == CHAT_EVENT_CALL_OPEN
        && events->items[n - 2].call == call)
    {
        text = events->items[n - 1].text;
    }

    return chat_json_parse(&doc, events->arena, text) == CHAT_OK
           && doc.root->type == CHAT_JSON_OBJECT;
}


/*
 * The index of an entry that says none: of the call with its id, or, if it has
 * no id either, of the newest call.
 */
static uint32_t
guess_index(const reader_t *r, uint32_t choice, chat_str_t id)
{
    const choice_t           *of = &r->choices[choice];
    const chat_stream_call_t *call = of->newest;

    if (call != NULL && id.len != 0 && !chat_str_eq(id, call->id)) {
        call = chat_calls_find(&r->reader.calls, id);
    }

    /* another choice may have the id, or its place another one by now */
    if (call != NULL && call->place >> 16 == choice
        && (id.len == 0 || chat_str_eq(id, call->id)))
    {
        return call->place & 0xffff;
    }

    /* Only a flood of calls reaches the last index. */
    return of->next < CHAT_COMPLETIONS_INDEXES ? of->next : of->next - 1;
}


/* A piece without an index is found by the id of its call. */
static void
index_id(reader_t *r, chat_stream_call_t *call)
{
    chat_known_t *known = chat_calls_learn(&r->reader.calls, call->id);

    if (known != NULL) {
        known->call = call;
    }
}


/*
 * Opens a call, or opens the place of own anew for another (some servers give
 * every call the same index).
 */
static chat_stream_call_t *
open_call(reader_t *r, uint32_t place, chat_stream_call_t *own,
          const chat_json_t *entry, chat_str_t id, chat_str_t name)
{
    uint32_t  index = place & 0xffff;
    choice_t *of = &r->choices[place >> 16];

    if (own == NULL && of->newest != NULL && is_whole(r, of->newest)) {
        own = of->newest;
    }

    if (own != NULL) {
        end_call(r, own);
    }

    own = chat_calls_open_at(&r->reader.calls, place, id, name);

    if (own != NULL) {
        own->kind = call_kind(chat_json_text(r->reader.doc, entry, "type"));
        of->newest = own;
        of->next = index >= of->next ? index + 1 : of->next;
    }

    return own;
}


/* One entry of tool_calls. */
static chat_mark_t *
read_entry(reader_t *r, uint32_t place, const chat_json_t *entry,
           chat_str_t id)
{
    int                 opens;
    chat_str_t          name;
    chat_event_t       *event;
    const chat_json_t  *args;
    chat_stream_call_t *call = chat_calls_at(&r->reader.calls, place);

    name = read_function(r->reader.doc, entry, &args);

    opens = r->reader.calls.opened < CHAT_OPENED_MAX
            && (call == NULL
                || (name.len && id.len && call->id.len
                    && !chat_str_eq(id, call->id)));

    if (opens) {
        call = open_call(r, place, call, entry, id, name);
    }

    if (call == NULL) {
        return chat_events_mark(r->reader.events, NULL);
    }

    /* the first id and name that say something stand */
    if (call->name.len == 0 && name.len != 0) {
        call->name = chat_reader_keep(&r->reader, name);
    }

    if (call->id.len == 0 && id.len != 0) {
        call->id = chat_reader_keep(&r->reader, id);
        index_id(r, call);
    }

    if (opens) {
        index_id(r, call);
        chat_reader_call(&r->reader, CHAT_EVENT_CALL_OPEN, call);
    }

    event = chat_reader_args(&r->reader, call, args);

    if (args != NULL && args->type != CHAT_JSON_STRING
        && args->type != CHAT_JSON_NULL)
    {
        event->text = chat_json_raw(r->reader.doc, args);
    }

    return chat_events_mark(r->reader.events, call);
}


/* The calls of a choice. 1: each entry of the list is one. */
static int
read_calls(reader_t *r, uint32_t choice, const chat_json_t *list)
{
    int                all = list->child != NULL && !list->opaque;
    int32_t            said;
    uint32_t           index;
    chat_str_t         id;
    chat_mark_t       *mark;
    const chat_json_t *entry, *node;

    for (entry = list->child; entry; entry = entry->next) {
        node = chat_json_get(r->reader.doc, entry, "index");
        said = chat_json_index(r->reader.doc, node);

        if (said >= CHAT_COMPLETIONS_INDEXES) {
            all = 0;
            continue;
        }

        id = chat_json_text(r->reader.doc, entry, "id");
        index = said >= 0 ? (uint32_t) said : guess_index(r, choice, id);

        mark = read_entry(r, choice << 16 | index, entry, id);
        mark->at = chat_span(entry);
        chat_mark_index(mark, node, said, choice << 16 | index);
    }

    return all;
}


/* The calls in one delta, and what else there is in it. */
static void
read_delta(reader_t *r, uint32_t choice, const chat_json_t *delta)
{
    size_t             i;
    chat_events_t     *events = r->reader.events;
    const chat_json_t *node, *calls;

    calls =
        chat_json_typed(r->reader.doc, delta, "tool_calls", CHAT_JSON_ARRAY);
    i = events->nmarks;

    if (calls != NULL && !read_calls(r, choice, calls)) {
        calls = NULL;
    }

    for (/* void */; calls && i < events->nmarks; i++) {
        events->marks[i].list.start = calls->key_start;
        events->marks[i].list.end = calls->end;
    }

    for (node = delta ? delta->child : NULL; node; node = node->next) {
        events->keeps |= node != calls && node->type != CHAT_JSON_NULL;
    }
}


/* The choice's end, if it has come. */
static void
read_finish(reader_t *r, uint32_t choice, const chat_json_t *reason)
{
    chat_str_t          text = chat_json_string(r->reader.doc, reason);
    choice_t           *of = &r->choices[choice];
    chat_mark_t        *mark;
    chat_stream_call_t *call = r->reader.calls.calls;

    if (chat_str_is(text, "tool_calls")) {
        mark = chat_events_mark(r->reader.events, NULL);
        mark->at = chat_span(reason);
        mark->instead = "\"stop\"";
    }

    r->reader.events->keeps |= reason && reason->type != CHAT_JSON_NULL;

    if (text.len == 0) {
        return;
    }

    r->running -= !of->done;
    of->done = 1;

    if (chat_str_is(text, "length") || chat_str_is(text, "content_filter")) {
        r->cut = 1;
        return;
    }

    /* some servers end a choice with each of its calls */
    if (of->newest == NULL || of->newest->ready) {
        return;
    }

    for (/* void */; call != NULL; call = call->next) {
        if (call->place >> 16 == choice) {
            end_call(r, call);
        }
    }
}


/* The choice has come; 0 without memory. */
static int
see_choice(reader_t *r, size_t index)
{
    while (r->nchoices <= index && !r->reader.calls.failed) {
        r->reader.calls.failed |=
            !chat_arena_push(r->reader.arena, &r->choices, &r->nchoices,
                             &r->size, sizeof(choice_t));
    }

    if (r->nchoices > index && !r->choices[index].seen) {
        r->choices[index].seen = 1;
        r->running++;
    }
    return r->nchoices > index;
}


static void
read_chunk(reader_t *r, const chat_json_t *choices)
{
    int32_t            index;
    chat_events_t     *events = r->reader.events;
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *node, *number, *delta, *reason;

    if (!r->open) {
        r->open = 1;
        chat_events_add(events, CHAT_EVENT_TURN_OPEN)->id =
            chat_reader_text(&r->reader, "id");
    }

    for (node = choices->child; node; node = node->next) {
        chat_json_pick(doc, node, "index", &number, "delta", &delta,
                       "finish_reason", &reason);
        index =
            chat_reader_index(&r->reader, number, CHAT_COMPLETIONS_CHOICES);

        if (index < 0) {
            events->keeps = 1;
            continue;
        }

        if (!see_choice(r, (size_t) index)) {
            return;
        }

        read_delta(r, (uint32_t) index, delta);
        read_finish(r, (uint32_t) index, reason);
    }

    node = events->nmarks ? chat_reader_get(&r->reader, "usage") : NULL;
    events->keeps |= node && node->type != CHAT_JSON_NULL;

    /* no choice is awaited any more */
    if (r->nchoices != 0 && r->running == 0 && !r->reader.ended) {
        if (!r->cut) {
            chat_events_add(events, CHAT_EVENT_STEP_SEAL);
        }
        chat_reader_end(&r->reader, CHAT_END_FINISHED);
    }
}


/* 1 if a client would take the member error for an error. */
static int
is_error(const chat_json_doc_t *doc, const chat_json_t *error)
{
    return error != NULL && error->type != CHAT_JSON_NULL
           && error->type != CHAT_JSON_FALSE
           && !(error->type == CHAT_JSON_NUMBER
                && chat_json_index(doc, error) == 0)
           && !(error->type == CHAT_JSON_STRING
                && chat_json_raw(doc, error).len == 2);
}


static chat_rc_e
read_frame(void *reader, const chat_frame_t *frame)
{
    const chat_json_t *choices = NULL, *error = NULL;
    reader_t          *r = reader;

    if (!frame->has_data) {
        return CHAT_OK;
    }

    if (r->reader.doc) {
        chat_json_pick(r->reader.doc, r->reader.doc->root, "choices", &choices,
                       "error", &error, NULL, NULL);
    }

    if (chat_str_starts(frame->data, "[DONE]")) {
        chat_reader_end(&r->reader, CHAT_END_FINISHED);

    } else if (is_error(r->reader.doc, error)) {
        chat_reader_end(&r->reader, CHAT_END_FAILED);

    } else if (choices && choices->type == CHAT_JSON_ARRAY) {
        r->reader.idle = chat_json_is_empty(choices);
        read_chunk(r, choices);

    } else {
        return CHAT_DECLINED;
    }

    return CHAT_OK;
}


/* ---- what the module itself writes ---- */


static chat_rc_e
empty(const chat_request_t *rq, const chat_result_t *results, size_t n,
      chat_buf_t *out)
{
    static const char *const chunk =
        "data: {\"id\":\"chatcmpl-empty\",\"object\":\"chat.completion.chunk\""
        ",\"created\":0,\"model\":\"\",\"choices\":[{\"index\":0,\"delta\":";

    if (!rq->stream) {
        chat_buf_puts(out,
                      "{\"id\":\"chatcmpl-empty\","
                      "\"object\":\"chat.completion\",\"created\":0,"
                      "\"model\":\"\",\"choices\":[{\"index\":0,\"message\":"
                      "{\"role\":\"assistant\",\"content\":\"\","
                      "\"refusal\":null},\"logprobs\":null,"
                      "\"finish_reason\":\"stop\"}]}");
        return CHAT_OK;
    }

    chat_buf_puts(out, chunk);
    chat_buf_puts(out, "{\"role\":\"assistant\",\"content\":\"\"},"
                       "\"finish_reason\":null}]}\n\n");
    chat_buf_puts(out, chunk);
    chat_buf_puts(out, "{},\"finish_reason\":\"stop\"}]}\n\n"
                       "data: [DONE]\n\n");

    return CHAT_OK;
}


static void
refuse(const chat_refusal_t *refusal, int in_band, chat_buf_t *out)
{
    int blamed = refusal->status < 500;

    chat_buf_format(out,
                    "%s{\"error\":{\"message\":%j,\"type\":\"%s\","
                    "\"param\":%s,\"code\":%j",
                    in_band ? "data: " : "", chat_cstr(refusal->message),
                    blamed ? "invalid_request_error" : "server_error",
                    blamed ? "\"messages\"" : "null",
                    chat_cstr(refusal->code));
    chat_refusal_ids(refusal, "tool_call_ids", out);
    chat_buf_puts(out, in_band ? "}}\n\n" : "}}");
}


const chat_dialect_t chat_dialect_openai_chat = {
    .name = "openai_chat",
    .form = &form,
    .provider = 1,
    .numbered = 1,
    .takes_ids = 1,
    .plain_text = 1,
    .paths = CHAT_LIST("/chat/completions"),
    /* no members that name the user or the call: they choose no answer */
    .signature = CHAT_LIST(
        "model", "stream", "stream_options", "tools", "tool_choice",
        "parallel_tool_calls", "functions", "function_call", "response_format",
        "temperature", "top_p", "n", "seed", "stop", "max_tokens",
        "max_completion_tokens", "reasoning_effort", "logit_bias",
        "presence_penalty", "frequency_penalty", "modalities", "logprobs",
        "top_logprobs", "verbosity", "service_tier"),
    .request = read_request,
    .reader_size = sizeof(reader_t),
    .call_size = sizeof(chat_stream_call_t),
    .read = read_frame,
    .empty = empty,
    .refuse = refuse,
};
