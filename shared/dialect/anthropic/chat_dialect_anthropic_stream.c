/*
 * chat_dialect_anthropic_stream.c: reads answers of Anthropic Messages.
 *
 * A call is a content block with a start, pieces and a stop; what a frame is
 * says the type in its data. The place of a block is its index, above it the
 * number of the message, for spliced streams begin a second one. The index of
 * every block is marked, so that it can be closed up.
 */

#include "dialect/anthropic/chat_dialect_anthropic.h"

#define CHAT_ANTHROPIC_INDEX 0xffff /* the highest index */

/* A block that is a call. */
typedef struct {
    chat_stream_call_t call;
    chat_str_t         input;   /* as its start had it, unless empty */
    int                pieces;  /* some came */
    uint32_t           message; /* in which it was opened last */
} live_t;

typedef struct {
    chat_reader_t reader;
    uint32_t      messages; /* that were begun */
    uint32_t      base;     /* place of index 0 */
    unsigned      sealed : 1;
} reader_t;


void *
chat_anthropic_open(chat_arena_t *arena, const chat_request_t *rq)
{
    return chat_reader_create(arena, sizeof(reader_t), sizeof(live_t));
}


int
chat_anthropic_idle(const chat_frame_t *frame)
{
    return chat_str_starts(frame->data, "{\"type\":\"ping\"")
           || chat_str_starts(frame->data, "{\"type\": \"ping\"");
}


/* A block begins. 0: it is no call, or past a bound. */
static int
open_block(reader_t *r, uint32_t place)
{
    chat_kind_e        kind;
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *content, *input;
    live_t            *own;

    content = chat_reader_get(&r->reader, "content_block");
    if (!chat_anthropic_call(doc, content, &kind)) {
        return 0;
    }

    own = chat_calls_open_at(&r->reader.calls, place,
                             chat_json_text(doc, content, "id"),
                             chat_json_text(doc, content, "name"));
    if (own == NULL) {
        return 0;
    }

    input = chat_json_get(doc, content, "input");
    own->call.kind = kind;
    own->pieces = 0;
    own->message = r->messages;
    own->input = chat_json_count(input)
                     ? chat_reader_keep(&r->reader, chat_json_raw(doc, input))
                     : chat_cstr("{}");

    return 1;
}


void
chat_anthropic_piece(chat_stream_call_t *call, chat_str_t text)
{
    ((live_t *) call)->pieces |= text.len != 0;
}


/* A frame of a content block. */
static void
read_block(reader_t *r, chat_str_t type)
{
    int                runs;
    int32_t            index;
    uint32_t           place;
    chat_event_t      *event;
    chat_reader_t     *reader = &r->reader;
    const chat_json_t *node = chat_reader_get(reader, "index"), *delta;
    live_t            *own;

    index = chat_json_index(reader->doc, node);
    if (index < 0 || index > CHAT_ANTHROPIC_INDEX) {
        return;
    }

    place = r->base | (uint32_t) index;
    own = chat_calls_at(&reader->calls, place);
    runs = own && !own->call.ready && own->message == r->messages;
    delta = chat_reader_get(reader, "delta");

    if (chat_str_is(type, "content_block_start")) {
        if (!runs && open_block(r, place)) {
            own = chat_calls_at(&reader->calls, place);
            chat_reader_call(reader, CHAT_EVENT_CALL_OPEN, &own->call);
        }

    } else if (runs && chat_str_is(type, "content_block_stop")) {
        event = chat_reader_call(reader, CHAT_EVENT_CALL_READY, &own->call);
        event->whole = !own->pieces;
        event->text = own->pieces ? event->text : own->input;
        own->call.ready = 1;

    } else if (runs
               && chat_json_has(reader->doc, delta, "type",
                                "input_json_delta"))
    {
        chat_reader_args(reader, &own->call,
                         chat_json_get(reader->doc, delta, "partial_json"));
        chat_anthropic_piece(
            &own->call, chat_json_text(reader->doc, delta, "partial_json"));
    }

    chat_mark_index(chat_events_mark(reader->events, own ? &own->call : NULL),
                    node, index, place);
}


static void
begin_message(reader_t *r)
{
    const chat_json_t *message = chat_reader_get(&r->reader, "message");

    chat_events_add(r->reader.events, CHAT_EVENT_TURN_OPEN)->id =
        chat_json_text(r->reader.doc, message, "id");

    /* Blocks of a message that was cut off are never stopped. */
    r->base += r->messages != 0 ? CHAT_ANTHROPIC_INDEX + 1 : 0;
    r->messages++;
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


chat_rc_e
chat_anthropic_read(void *reader, const chat_frame_t *frame)
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
        begin_message(r);

    } else if (chat_str_is(type, "message_delta")) {
        read_reason(r);

    } else if (chat_str_is(type, "message_stop")) {
        chat_reader_end(&r->reader, CHAT_END_FINISHED);

    } else if (chat_str_is(type, "error") && error != NULL
               && error->type == CHAT_JSON_OBJECT)
    {
        /* other dialects have errors, too: only here it is an object */
        chat_reader_end(&r->reader, CHAT_END_FAILED);

    } else if (!chat_str_is(type, "ping")) {
        return CHAT_DECLINED;
    }

    return CHAT_OK;
}
