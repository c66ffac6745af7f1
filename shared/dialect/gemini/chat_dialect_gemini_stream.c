/*
 * chat_dialect_gemini_stream.c: reads answers of Gemini.
 *
 * A call comes whole in a part, or, on Vertex, as a part that opens it, parts
 * with pieces of its arguments and one that ends it. Its place is its number
 * in the stream. Only the first candidate's calls are read: no client can
 * answer those of others. Nothing is numbered: a dropped part goes, and with
 * it the thoughtSignature that is its own. The stream ends when no candidate
 * is awaited any more.
 */

#include "dialect/gemini/chat_dialect_gemini.h"

#define CHAT_GEMINI_CANDIDATES 32 /* as many as a mask has bits */

typedef chat_gemini_reader_t reader_t;


/*
 * A part that opens a call; with all of it, or with more to come: then text
 * gets the first piece of its arguments.
 */
static chat_stream_call_t *
open_call(reader_t *r, const chat_json_t *function, int more, chat_buf_t *text)
{
    chat_str_t          id;
    chat_stream_call_t *call;

    /* behind the answers since the user's words */
    id = chat_gemini_id(
        chat_json_text(r->reader.doc, function, "id"), r->reader.events->arena,
        r->reader.rq ? r->reader.rq->next.since : 0, r->reader.calls.count);
    if (id.data == NULL) {
        r->reader.calls.failed = 1;
        return NULL;
    }

    call = chat_calls_open_at(&r->reader.calls, r->reader.calls.count, id,
                              chat_json_text(r->reader.doc, function, "name"));
    if (call == NULL) {
        return NULL;
    }

    /* One that never came to its end is half open, and stays so. */
    r->pending = NULL;

    if (more || chat_json_get(r->reader.doc, function, "partialArgs")) {
        r->args = chat_gemini_args_begin(r->args, r->reader.arena, text);
        r->pending = r->args != NULL ? call : NULL;
    }

    chat_reader_call(&r->reader, CHAT_EVENT_CALL_OPEN, call);

    return call;
}


/* The call's arguments are complete: in its part, or in pieces. */
static void
ready(reader_t *r, chat_stream_call_t *call, const chat_json_t *function,
      int unreadable)
{
    chat_event_t      *event;
    const chat_json_t *args;

    event = chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, call);
    event->unreadable = unreadable & 1;
    call->ready = 1;

    if (call == r->pending) {
        r->pending = NULL;
        return;
    }

    args = chat_json_get(r->reader.doc, function, "args");
    event->text = args ? chat_json_raw(r->reader.doc, args) : chat_cstr("{}");
    event->whole = 1;
}


/* A functionCall part. NULL: it is of no call that is followed. */
static chat_stream_call_t *
read_call(reader_t *r, const chat_json_t *function)
{
    int        unreadable = 0;
    int        more = chat_json_flag(r->reader.doc, function, "willContinue");
    chat_buf_t text = { 0 };
    chat_event_t       *event;
    chat_stream_call_t *call = r->pending;

    if (chat_json_text(r->reader.doc, function, "name").len) {
        call = open_call(r, function, more, &text);
    }

    if (call == NULL) {
        chat_events_add(r->reader.events, CHAT_EVENT_OPAQUE);
        return NULL;
    }

    event = chat_reader_call(&r->reader, CHAT_EVENT_CALL_ARGS, call);

    if (call == r->pending) {
        event->node =
            chat_gemini_args_add(r->args, r->reader.doc, function, &text);
        r->reader.changed |= event->node == NULL;
        unreadable = !more && !chat_gemini_args_end(r->args, &text);
    }

    r->reader.calls.failed |=
        chat_buf_move(&text, r->reader.events->arena, &event->text) != CHAT_OK;

    if (!more) {
        ready(r, call, function, unreadable);
    }

    return call;
}


/* 1 if an object has other members than these. */
static int
has_other(chat_json_doc_t *doc, const chat_json_t *object,
          const char *const *keys)
{
    const char *const *key = keys;
    const chat_json_t *member;

    for (member = object->child; member && *key; member = member->next) {
        key = keys;
        while (*key && !chat_json_key_is(doc, member, *key, 0)) {
            key++;
        }
    }

    return *key == NULL;
}


/* The calls in the parts of a candidate's content. */
static void
read_content(reader_t *r, const chat_json_t *candidate)
{
    size_t              i, n = 0, before = r->reader.events->nmarks;
    chat_mark_t        *mark;
    chat_json_doc_t    *doc = r->reader.doc;
    const chat_json_t  *parts, *part, *function;
    chat_stream_call_t *call;
    chat_events_t      *events = r->reader.events;

    static const char *const its[] = { "content", "index", NULL };

    parts =
        chat_json_get(doc, chat_json_get(doc, candidate, "content"), "parts");

    for (part = chat_list_first(parts); part;
         part = chat_list_next(parts, part), n++)
    {
        function = chat_gemini_function(doc, part);

        if (function != NULL) {
            call = read_call(r, function);
            mark = chat_events_mark(events, call);
            mark->at = chat_span(part);
        }
    }

    if (parts == NULL || parts->type != CHAT_JSON_ARRAY) {
        events->nmarks = before;
    }

    /* Google's chat takes a content without parts for a failed answer. */
    events->filler = "[{\"text\":\"\"}]";

    if (n == 0 || parts->opaque || events->nmarks - before < n) {
        events->keeps = 1;
        return;
    }

    events->keeps |= has_other(doc, candidate, its);

    for (i = before; i < events->nmarks; i++) {
        events->marks[i].list = chat_span(parts);
    }
}


static void
read_candidate(reader_t *r, int32_t index, const chat_json_t *candidate)
{
    chat_str_t reason;

    r->seen |= UINT32_C(1) << index;

    if (index == 0) {
        read_content(r, candidate);
    } else {
        r->reader.events->keeps = 1;
    }

    reason = chat_json_text(r->reader.doc, candidate, "finishReason");

    /* The enumeration's own word for none, which some servers write. */
    if (reason.len && !chat_str_is(reason, "FINISH_REASON_UNSPECIFIED")) {
        r->done |= UINT32_C(1) << index;
        r->stopped |= index == 0 && chat_str_is(reason, "STOP");
    }
}


static void
read_candidates(reader_t *r, const chat_json_t *candidates)
{
    int32_t            index;
    chat_events_t     *events = r->reader.events;
    const chat_json_t *node, *number;

    static const char *const ours[] = { "candidates", "modelVersion",
                                        "responseId", "createTime", NULL };

    for (node = chat_list_first(candidates); node;
         node = chat_list_next(candidates, node))
    {
        number = chat_json_get(r->reader.doc, node, "index");
        index = chat_reader_index(&r->reader, number, CHAT_GEMINI_CANDIDATES);

        if (index >= 0) {
            read_candidate(r, index, node);
        } else {
            events->keeps = 1;
        }
    }

    if (events->nmarks != 0) {
        events->keeps |= has_other(r->reader.doc, r->reader.doc->root, ours);
    }

    if (r->reader.ended || r->done == 0 || r->done != r->seen) {
        return;
    }

    if (r->stopped && r->pending == NULL) {
        chat_events_add(events, CHAT_EVENT_STEP_SEAL);
    }

    chat_reader_end(&r->reader, CHAT_END_FINISHED);
}


chat_rc_e
chat_gemini_read(void *reader, const chat_frame_t *frame)
{
    reader_t          *r = reader;
    const chat_json_t *error, *candidates, *feedback;

    if (r->reader.doc == NULL) {
        return CHAT_DECLINED;
    }

    error = chat_reader_get(&r->reader, "error");
    candidates = chat_reader_get(&r->reader, "candidates");
    feedback = chat_reader_get(&r->reader, "promptFeedback");

    if (error && error->type == CHAT_JSON_OBJECT) {
        chat_reader_end(&r->reader, CHAT_END_FAILED);
        return CHAT_OK;
    }

    if ((candidates == NULL || candidates->type != CHAT_JSON_ARRAY)
        && feedback == NULL && !chat_reader_get(&r->reader, "usageMetadata"))
    {
        return CHAT_DECLINED;
    }

    if (!r->open) {
        r->open = 1;
        chat_events_add(r->reader.events, CHAT_EVENT_TURN_OPEN)->id =
            chat_reader_text(&r->reader, "responseId");
    }

    if (candidates) {
        read_candidates(r, candidates);
    }

    /* a prompt that was refused has no candidates */
    if (r->seen == 0
        && chat_json_text(r->reader.doc, feedback, "blockReason").len != 0)
    {
        chat_reader_end(&r->reader, CHAT_END_FINISHED);
    }

    return CHAT_OK;
}
