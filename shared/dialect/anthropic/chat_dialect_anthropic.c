/*
 * chat_dialect_anthropic.c: Anthropic Messages.
 *
 * A step is an assistant message with tool_use
 * blocks; its results are the tool_result blocks of the user messages behind
 * it. With a thread the calls are at the provider, and results stand alone.
 * In a stream a call is a content block with a start, pieces and a stop; what
 * a frame is says the type in its data. The place of a block is its index,
 * above it the number of the message, for spliced streams begin a second one.
 * The index of every block is marked, so that it can be closed up.
 * Promises: an inserted result precedes all blocks but results, and no
 * cache_control moves; an answer made here is one that the Anthropic libraries
 * take; an interruption never looks like an ending.
 */

#include "dialect/chat_dialect.h"


/*
 * 1 if a content block of this type is a call: tool_use is the client's to
 * answer, all other types that end in _tool_use are executed on the server.
 */
static int
is_call(chat_str_t type, chat_kind_e *kind)
{
    if (chat_str_is(type, "tool_use")) {
        *kind = CHAT_KIND_CLIENT;
        return 1;
    }

    *kind = CHAT_KIND_PROVIDER;

    return chat_str_ends(type, "_tool_use") && !chat_str_is(type, "_tool_use");
}


/* ---- requests ---- */


static chat_part_e
block_is(chat_json_doc_t *doc, const chat_json_t *block, chat_str_t *text)
{
    chat_str_t type = chat_json_text(doc, block, "type");

    if (!chat_str_is(type, "text")) {
        return chat_str_is(type, "tool_result") ? CHAT_PART_RESULT
                                                : CHAT_PART_WORDS;
    }

    *text = chat_json_text(doc, block, "text");
    return CHAT_PART_TEXT;
}


static chat_role_e
message_role(chat_transcript_t *t)
{
    chat_str_t         role;
    const chat_json_t *node;

    chat_json_pick(t->doc, t->message, "role", &node, "content", &t->member,
                   NULL, NULL);
    role = chat_json_string(&t->brief, node);

    if (chat_str_is(role, "assistant")) {
        return CHAT_ROLE_ASSISTANT;
    }

    /* an object alone is no content */
    return !chat_str_is(role, "user") ? CHAT_ROLE_OTHER
           : t->member && t->member->type == CHAT_JSON_OBJECT
               ? CHAT_ROLE_RESULTS
               : CHAT_ROLE_USER;
}


static void
message_calls(chat_transcript_t *t)
{
    chat_kind_e        kind;
    chat_call_t       *call;
    const chat_json_t *type, *id, *block = chat_json_first(t->member);

    for (/* void */; block != NULL; block = block->next) {
        chat_json_pick(t->doc, block, "type", &type, "id", &id, NULL, NULL);
        call =
            is_call(chat_json_string(&t->brief, type), &kind)
                ? chat_transcript_call(t, block, chat_json_string(t->doc, id))
                : NULL;

        if (call != NULL) {
            call->kind = kind;
            call->awaits = kind != CHAT_KIND_PROVIDER;
        }
    }
}


static void
message_results(chat_transcript_t *t)
{
    const chat_json_t *type, *id, *place, *block = chat_json_first(t->member);

    for (/* void */; block != NULL; block = block->next) {
        chat_json_pick(t->doc, block, "type", &type, "tool_use_id", &id, NULL,
                       NULL);
        if (!chat_str_is(chat_json_string(&t->brief, type), "tool_result")) {
            t->has_words = 1;
            continue;
        }

        /* results can only be added to those that open the message */
        place = t->message == t->behind && !t->has_words ? block : NULL;
        chat_transcript_result(t, chat_json_string(t->doc, id),
                               CHAT_KIND_CLIENT, block, place);
    }
}


static chat_str_t
call_args(chat_json_doc_t *doc, const chat_json_t *call,
          const chat_json_t **args)
{
    const chat_json_t *name;

    chat_json_pick(doc, call, "name", &name, "input", args, NULL, NULL);
    return chat_json_string(doc, name);
}


static void
call_result(chat_transcript_t *t, chat_call_t *call)
{
    const chat_json_t *content, *error;

    chat_json_pick(t->doc, call->result, "content", &content, "is_error",
                   &error, NULL, NULL);
    call->outcome =
        chat_json_true(error) ? CHAT_OUTCOME_ERROR : CHAT_OUTCOME_OK;
    chat_transcript_value(t, content, "\"\"", call);
}


static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_json_doc_t *payload, chat_buf_t *out)
{
    chat_buf_format(
        out, "{\"type\":\"tool_result\",\"tool_use_id\":%j,\"content\":%v%s}",
        result->id, result->payload,
        result->outcome == CHAT_OUTCOME_OK ? "" : ",\"is_error\":true");

    return CHAT_OK;
}


/*
 * The front of the user message behind the assistant's. Where it cannot take
 * blocks, a message of results alone goes before it: the provider joins user
 * messages in a row.
 */
static chat_rc_e
find_front(chat_json_doc_t *doc, const chat_json_t *assistant,
           chat_front_t *front)
{
    const chat_json_t *list = chat_json_get(doc, doc->root, "messages");
    const chat_json_t *user = assistant ? assistant->next : list->child;
    const chat_json_t *content =
        chat_json_typed(doc, user, "content", CHAT_JSON_ARRAY);

    if (content != NULL && chat_json_has(doc, user, "role", "user")) {
        front->pos =
            content->child ? content->child->start : content->start + 1;
        front->close = chat_cstr(chat_json_is_empty(content) ? "" : ",");

    } else if (assistant != NULL) {
        front->pos = assistant->end;
        front->open = ",{\"role\":\"user\",\"content\":[";
        front->close = chat_cstr("]}");

    } else if (user != NULL) {
        front->pos = user->start;
        front->open = "{\"role\":\"user\",\"content\":[";
        front->close = chat_cstr("]},");

    } else {
        return CHAT_BAD;
    }

    return CHAT_OK;
}


static const chat_transcript_form_t form = {
    .list = "messages",
    .role = message_role,
    .calls = message_calls,
    .results = message_results,
    .args = call_args,
    .result = call_result,
    .content = "content",
    .part = block_is,
    .mixed = CHAT_CLASS_FRESH,
    .write = write_result,
    .front = find_front,
};


static chat_rc_e
read_request(chat_transcript_t *t)
{
    chat_str_t         previous;
    chat_request_t    *rq = t->rq;
    chat_json_doc_t   *doc = t->doc;
    const chat_json_t *thread, *list;

    list = chat_json_typed(doc, doc->root, "messages", CHAT_JSON_ARRAY);

    if (list == NULL || chat_json_get(doc, list->child, "parts") != NULL) {
        return CHAT_DECLINED;
    }

    thread = chat_json_get(doc, doc->root, "thread");
    previous = chat_json_text(doc, thread, "previous_message_id");

    rq->stream = chat_json_flag(doc, doc->root, "stream");
    rq->stored = thread && thread->type == CHAT_JSON_OBJECT;

    chat_transcript_read(t, list);

    /* the calls are in the provider's thread */
    if (previous.len != 0 && t->assistant == NULL) {
        chat_transcript_tail(t, previous);
        rq->answers = rq->class != CHAT_CLASS_OTHER;

        /* without words the step is named by what they led to */
        if (t->rq->next.words == NULL) {
            chat_digest(previous, &rq->next.user_text);
        }
    }

    chat_transcript_end(t);
    return CHAT_OK;
}


/* ---- streams ---- */


#define CHAT_ANTHROPIC_INDEX 0xffff /* the highest index */

/* A block that is a call. */
typedef struct {
    chat_stream_call_t call;
    chat_str_t         input;   /* as its start had it: counts without pieces
                                 */
    uint32_t           message; /* in which it was opened last */
} live_t;

typedef struct {
    chat_reader_t reader;
    uint32_t      messages; /* that were begun */
    uint32_t      base;     /* place of index 0 */
    unsigned      sealed : 1;
} reader_t;


/* A block begins. NULL: it is no call, or past a bound. */
static live_t *
open_block(reader_t *r, uint32_t place)
{
    chat_kind_e        kind;
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *content, *input;
    live_t            *own;

    content = chat_reader_get(&r->reader, "content_block");
    if (!is_call(chat_json_text(doc, content, "type"), &kind)) {
        return NULL;
    }

    own = chat_calls_open_at(&r->reader.calls, place,
                             chat_json_text(doc, content, "id"),
                             chat_json_text(doc, content, "name"));
    if (own == NULL) {
        return NULL;
    }

    input = chat_json_get(doc, content, "input");
    own->call.kind = kind;
    own->message = r->messages;
    own->input = chat_json_count(input)
                     ? chat_reader_keep(&r->reader, chat_json_raw(doc, input))
                     : chat_cstr("{}");
    chat_reader_call(&r->reader, CHAT_EVENT_CALL_OPEN, &own->call);

    return own;
}


/* A frame of a content block. */
static void
read_block(reader_t *r, chat_str_t type)
{
    int                runs;
    uint32_t           place;
    chat_event_t      *event;
    chat_reader_t     *reader = &r->reader;
    const chat_json_t *node = chat_reader_get(reader, "index"), *delta;
    live_t            *own;
    int32_t            index = chat_json_index(reader->doc, node);

    if (index < 0 || index > CHAT_ANTHROPIC_INDEX) {
        return;
    }

    place = r->base | (uint32_t) index;
    own = chat_calls_at(&reader->calls, place);
    runs = own && !own->call.ready && own->message == r->messages;
    delta = chat_reader_get(reader, "delta");

    if (!runs && chat_str_is(type, "content_block_start")) {
        (void) open_block(r, place);
        own = chat_calls_at(&reader->calls, place);

    } else if (runs && chat_str_is(type, "content_block_stop")) {
        event = chat_reader_call(reader, CHAT_EVENT_CALL_READY, &own->call);
        event->text = own->input;
        own->call.ready = 1;

    } else if (runs
               && chat_json_has(reader->doc, delta, "type",
                                "input_json_delta"))
    {
        chat_reader_args(reader, &own->call,
                         chat_json_get(reader->doc, delta, "partial_json"));
    }

    chat_mark_index(chat_events_mark(reader->events, own ? &own->call : NULL),
                    node, index, place);
}


/* message_delta: its stop_reason says whether the calls can be answered. */
static void
read_reason(reader_t *r)
{
    chat_str_t         text;
    chat_mark_t       *mark;
    const chat_json_t *delta, *reason;

    delta = chat_reader_get(&r->reader, "delta");
    reason = chat_json_get(r->reader.doc, delta, "stop_reason");
    text = chat_json_string(r->reader.doc, reason);

    if (chat_str_is(text, "tool_use")) {
        mark = chat_events_mark(r->reader.events, NULL);
        mark->at = chat_span(reason);
        mark->instead = "\"end_turn\"";
    }

    if (text.len == 0 || r->sealed || r->reader.ended
        || chat_str_is(text, "max_tokens")
        || chat_str_is(text, "model_context_window_exceeded"))
    {
        return;
    }

    r->sealed = 1;
    chat_events_add(r->reader.events, CHAT_EVENT_STEP_SEAL);
}


static chat_rc_e
read_frame(void *reader, const chat_frame_t *frame)
{
    reader_t          *r = reader;
    chat_str_t         type;
    const chat_json_t *error;

    if (r->reader.doc == NULL) {
        return CHAT_DECLINED;
    }

    type = chat_reader_text(&r->reader, "type");
    error = chat_reader_get(&r->reader, "error");

    if (chat_str_starts(type, "content_block_")) {
        read_block(r, type);

    } else if (chat_str_is(type, "message_start")) {
        chat_events_add(r->reader.events, CHAT_EVENT_TURN_OPEN)->id =
            chat_json_text(r->reader.doc,
                           chat_reader_get(&r->reader, "message"), "id");

        /* blocks of a message that was cut off are never stopped */
        r->base += r->messages != 0 ? CHAT_ANTHROPIC_INDEX + 1 : 0;
        r->messages++;

    } else if (chat_str_is(type, "message_delta")) {
        read_reason(r);

    } else if (chat_str_is(type, "message_stop")) {
        chat_reader_end(&r->reader, CHAT_END_FINISHED);

    } else if (chat_str_is(type, "error") && error != NULL
               && error->type == CHAT_JSON_OBJECT)
    {
        /* other dialects have errors, too: only here it is an object */
        chat_reader_end(&r->reader, CHAT_END_FAILED);

    } else if (chat_str_is(type, "ping")) {
        r->reader.idle = 1;

    } else {
        return CHAT_DECLINED;
    }

    return CHAT_OK;
}


/* ---- what the module itself writes ---- */


static void
refuse(const chat_refusal_t *refusal, int in_band, chat_buf_t *out)
{
    chat_buf_format(out,
                    "%s{\"type\":\"error\",\"error\":{\"type\":\"%s\","
                    "\"message\":%j,\"code\":%j",
                    in_band ? "event: error\ndata: " : "",
                    refusal->status < 500    ? "invalid_request_error"
                    : refusal->status == 503 ? "overloaded_error"
                                             : "api_error",
                    chat_cstr(refusal->message), chat_cstr(refusal->code));
    chat_refusal_ids(refusal, "tool_use_ids", out);
    chat_buf_puts(out, in_band ? "}}\n\n" : "}}");
}


const chat_dialect_t chat_dialect_anthropic = {
    .name = "anthropic",
    .form = &form,
    .provider = 1,
    .numbered = 1,
    .takes_ids = 1,
    .paths = CHAT_LIST("/messages"),
    .not_paths = CHAT_LIST("/messages/count_tokens", "/messages/batches"),
    /* no members that name the user: they choose no answer */
    .signature = CHAT_LIST("model", "stream", "system", "tools", "tool_choice",
                           "temperature", "top_p", "top_k", "max_tokens",
                           "stop_sequences", "thinking", "output_config",
                           "output_format", "context_management",
                           "mcp_servers", "container", "service_tier"),
    /* no empty turn: in the history it makes the provider refuse the rest */
    .plain_text = 1,
    .request = read_request,
    .reader_size = sizeof(reader_t),
    .call_size = sizeof(live_t),
    .read = read_frame,
    .refuse = refuse,
};
