/*
 * chat_dialect_openai_chat_stream.c: reads answers of Chat Completions.
 *
 * A call comes in pieces, told apart by choice and index, and its end is not
 * said: it is complete when a higher index opens in its choice and its
 * arguments are a whole value by then (calls may come in turns), or with the
 * choice's finish_reason. A call that was cut off by a limit is never ready.
 * The place of a call is (choice << 16) | index. The stream ends when no
 * choice is awaited any more. One chunk may carry a call to drop and one to
 * keep: each entry of tool_calls is marked, with its index.
 */

#include "dialect/openai_chat/chat_dialect_openai_chat.h"

typedef struct live_s live_t;

/* A call of the stream. */
struct live_s {
    chat_stream_call_t call;
    live_t            *next;        /* of its choice that is not ready */
    uint32_t           number;      /* of the call in the stream */
    uint32_t           depth;       /* of the arguments so far */
    unsigned           string : 1;  /* they are within a string */
    unsigned           escaped : 1; /* and behind a backslash there */
    unsigned           whole : 1;   /* they are a value to its end */
};

/* A choice of the stream. */
typedef struct {
    enum {
        CHAT_CHOICE_UNSEEN, /* awaits its first chunk, then OPEN */
        CHAT_CHOICE_OPEN,   /* awaits its finish_reason, then DONE */
        CHAT_CHOICE_DONE    /* nothing more is awaited */
    } state;
    live_t  *first;  /* of the calls that are not ready */
    live_t  *newest; /* call */
    uint32_t next;   /* index behind all calls */
} choice_t;

typedef struct {
    chat_reader_t reader;
    chat_table_t  ids; /* of calls, behind the choice's byte; item:
                                      the newest call of this id */
    choice_t      choices[CHAT_COMPLETIONS_CHOICES];
    unsigned      open : 1; /* TURN_OPEN was given */
    unsigned      cut : 1;  /* by a limit or a filter */
} reader_t;


void *
chat_openai_chat_open(chat_arena_t *arena, const chat_request_t *rq)
{
    reader_t *r;

    r = chat_reader_create(arena, sizeof(*r), sizeof(live_t));
    if (r != NULL) {
        chat_table_init(&r->ids, arena);
    }

    return r;
}


int
chat_openai_chat_idle(const chat_frame_t *frame)
{
    return chat_str_has(frame->data, "\"choices\":[]")
           || chat_str_has(frame->data, "\"choices\": []");
}


/* The number of a choice, 0 where it has none; -1: it is skipped. */
static int32_t
choice_number(chat_json_doc_t *doc, const chat_json_t *choice)
{
    int32_t            index;
    const chat_json_t *node;

    if (choice->type != CHAT_JSON_OBJECT) {
        return -1;
    }

    node = chat_json_get(doc, choice, "index");
    if (node == NULL) {
        return 0;
    }

    index = chat_json_index(doc, node);

    return index < CHAT_COMPLETIONS_CHOICES ? index : -1;
}


/*
 * CALL_READY of the calls of the choice that are complete, now that this place
 * opens: the one that had the place, and those before it whose arguments are
 * whole; over: all, as the choice has come to its end.
 */
static void
end_calls(reader_t *r, uint32_t place, int over)
{
    live_t *own, **link;

    link = &r->choices[place >> 16].first;

    while ((own = *link) != NULL) {
        if (!over && own->call.place != place
            && !(own->call.place < place && own->whole))
        {
            link = &own->next;
            continue;
        }

        *link = own->next;
        own->call.ready = 1;
        chat_reader_call(&r->reader, CHAT_EVENT_CALL_READY, &own->call)
            ->implied = 1;
    }
}


/* Follows the arguments of a call: where is the end of their value? */
void
chat_openai_chat_piece(chat_stream_call_t *of, chat_str_t text)
{
    size_t  i;
    live_t *call = (live_t *) of;

    for (i = 0; i < text.len; i++) {
        if (call->escaped) {
            call->escaped = 0;
            continue;
        }

        switch (text.data[i]) {
        case '"':
            call->string = !call->string;
            break;

        case '\\':
            call->escaped = call->string;
            break;

        case '{':
        case '[':
            call->depth += !call->string;
            break;

        case '}':
        case ']':
            if (!call->string && call->depth && --call->depth == 0) {
                call->whole = 1;
            }
            break;

        default:
            break;
        }
    }
}


/* The key in ids of a call of a choice; empty without memory. */
static chat_str_t
key_of(reader_t *r, uint32_t choice, chat_str_t id)
{
    unsigned char *bytes;

    bytes = chat_arena_alloc(r->reader.events->arena, id.len + 1);
    if (bytes == NULL) {
        r->reader.calls.failed = 1;
        return chat_str(NULL, 0);
    }

    bytes[0] = (unsigned char) choice;
    memcpy(bytes + 1, id.data, id.len);

    return chat_str(bytes, id.len + 1);
}


/* The index of an entry that says none: by what it looks like. */
static uint32_t
guess_index(reader_t *r, uint32_t choice, chat_str_t id)
{
    const chat_table_entry_t *entry;
    const live_t             *own;
    const choice_t           *of = &r->choices[choice];

    own = of->newest;

    if (id.len != 0 && own != NULL) {
        entry = chat_table_find(&r->ids, key_of(r, choice, id));
        own = entry ? entry->item : NULL;
    }

    /* its place may have been opened anew for another id */
    if (own != NULL && (id.len == 0 || chat_str_eq(id, own->call.id))) {
        return own->call.place & 0xffff;
    }

    /* Only a flood of calls reaches the last index. */
    return of->next < CHAT_COMPLETIONS_INDEXES ? of->next : of->next - 1;
}


/* A call without an index is found by its id. */
static void
index_id(reader_t *r, live_t *own)
{
    live_t             *other;
    chat_table_entry_t *entry;

    if (own->call.id.len == 0) {
        return;
    }

    entry = chat_reader_entry(&r->reader, &r->ids,
                              key_of(r, own->call.place >> 16, own->call.id));
    other = entry->item;

    /* of twins the newer one; not what had the id in an earlier life */
    if (other == NULL || other->number < own->number
        || !chat_str_eq(other->call.id, own->call.id))
    {
        entry->item = own;
    }
}


/* The first id and name that say something stand. */
static void
learn(reader_t *r, live_t *own, chat_str_t id, chat_str_t name)
{
    if (own->call.name.len == 0 && name.len != 0) {
        own->call.name = chat_reader_keep(&r->reader, name);
    }

    if (own->call.id.len == 0 && id.len != 0) {
        own->call.id = chat_reader_keep(&r->reader, id);
        index_id(r, own);
    }
}


/*
 * Opens a call, or opens its place anew for another (some servers give every
 * call the same index); what stands before it in its choice is complete.
 */
static live_t *
open_call(reader_t *r, uint32_t place, const chat_json_t *entry, chat_str_t id,
          chat_str_t name)
{
    int       fresh;
    uint32_t  index = place & 0xffff;
    live_t   *own, **link;
    choice_t *of = &r->choices[place >> 16];

    end_calls(r, place, 0);
    fresh = chat_calls_at(&r->reader.calls, place) == NULL;

    own = chat_calls_open_at(&r->reader.calls, place, id, name);
    if (own == NULL) {
        return NULL;
    }

    own->call.kind = chat_openai_chat_kind(r->reader.doc, entry);
    own->number = fresh ? r->reader.calls.count : own->number;
    own->depth = 0;
    own->string = 0;
    own->escaped = 0;
    own->whole = 0;

    for (link = &of->first; *link && (*link)->number < own->number;
         link = &(*link)->next)
    {
        /* void */
    }
    own->next = *link;
    *link = own;

    if (fresh) {
        of->newest = own;
        of->next = index >= of->next ? index + 1 : of->next;
    }

    index_id(r, own);
    return own;
}


/* One entry of tool_calls. */
static chat_mark_t *
read_entry(reader_t *r, uint32_t place, const chat_json_t *entry,
           chat_str_t id)
{
    int                opens;
    chat_str_t         name, text;
    const chat_json_t *function, *args;
    live_t            *own, *fresh;

    function = chat_openai_chat_function(r->reader.doc, entry);
    name = chat_json_text(r->reader.doc, function, "name");
    args = chat_openai_chat_arguments(r->reader.doc, function);
    text = chat_openai_chat_text(r->reader.doc, args);

    own = chat_calls_at(&r->reader.calls, place);
    opens = r->reader.calls.opened < CHAT_OPENED_MAX
            && (own == NULL
                || (name.len && id.len && own->call.id.len
                    && !chat_str_eq(id, own->call.id)));

    if (opens) {
        fresh = open_call(r, place, entry, id, name);
        own = fresh ? fresh : own;
        opens = fresh != NULL;
    }

    if (own == NULL) {
        return chat_events_mark(r->reader.events, NULL);
    }

    learn(r, own, id, name);

    if (opens) {
        chat_reader_call(&r->reader, CHAT_EVENT_CALL_OPEN, &own->call);
    }

    chat_reader_args(&r->reader, &own->call, args)->text = text;
    chat_openai_chat_piece(&own->call, text);

    return chat_events_mark(r->reader.events, &own->call);
}


/* The calls of a choice. 1: each entry of the list is one. */
static int
read_calls(reader_t *r, uint32_t choice, const chat_json_t *list)
{
    int                all = list->child != NULL;
    int32_t            said;
    uint32_t           index;
    chat_str_t         id;
    chat_mark_t       *mark;
    const chat_json_t *entry, *node;

    for (entry = list->child; entry; entry = entry->next) {
        node = chat_json_get(r->reader.doc, entry, "index");
        said = chat_json_index(r->reader.doc, node);

        if (entry->type != CHAT_JSON_OBJECT
            || said >= CHAT_COMPLETIONS_INDEXES) {
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
    chat_str_t   text = chat_json_string(r->reader.doc, reason);
    chat_mark_t *mark;

    if (chat_str_is(text, "tool_calls")) {
        mark = chat_events_mark(r->reader.events, NULL);
        mark->at = chat_span(reason);
        mark->instead = "\"stop\"";
    }

    r->reader.events->keeps |= reason && reason->type != CHAT_JSON_NULL;

    if (text.len == 0) {
        return;
    }

    r->choices[choice].state = CHAT_CHOICE_DONE;

    if (chat_str_is(text, "length") || chat_str_is(text, "content_filter")) {
        r->cut = 1;
    } else {
        end_calls(r, choice << 16, 1);
    }
}


/* Once no choice is awaited any more: the seal, and the end. */
static void
seal(reader_t *r)
{
    size_t i, done = 0;

    for (i = 0; i < CHAT_COMPLETIONS_CHOICES; i++) {
        if (r->choices[i].state == CHAT_CHOICE_OPEN) {
            return;
        }

        done += r->choices[i].state == CHAT_CHOICE_DONE;
    }

    if (done == 0 || r->reader.ended) {
        return;
    }

    if (!r->cut) {
        chat_events_add(r->reader.events, CHAT_EVENT_STEP_SEAL);
    }

    chat_reader_end(&r->reader, CHAT_END_FINISHED);
}


static void
read_chunk(reader_t *r, const chat_json_t *choices)
{
    int32_t            index;
    chat_events_t     *events = r->reader.events;
    chat_json_doc_t   *doc = r->reader.doc;
    const chat_json_t *node;

    if (!r->open) {
        r->open = 1;
        chat_events_add(events, CHAT_EVENT_TURN_OPEN)->id =
            chat_reader_text(&r->reader, "id");
    }

    for (node = choices->child; node; node = node->next) {
        index = choice_number(doc, node);

        if (index < 0) {
            events->keeps = 1;
            continue;
        }

        if (r->choices[index].state == CHAT_CHOICE_UNSEEN) {
            r->choices[index].state = CHAT_CHOICE_OPEN;
        }

        read_delta(r, (uint32_t) index, chat_json_get(doc, node, "delta"));
        read_finish(r, (uint32_t) index,
                    chat_json_get(doc, node, "finish_reason"));
    }

    node = chat_reader_get(&r->reader, "usage");
    events->keeps |= node && node->type != CHAT_JSON_NULL;

    seal(r);
}


/* 1 if a client would take the member error for an error. */
static int
is_error(const chat_json_doc_t *doc, const chat_json_t *error)
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
        return chat_json_raw(doc, error).len > 2;

    default:
        return 1;
    }
}


chat_rc_e
chat_openai_chat_read(void *reader, const chat_frame_t *frame)
{
    const chat_json_t *choices = NULL, *error = NULL;
    reader_t          *r = reader;

    if (!frame->has_data) {
        return CHAT_OK;
    }

    if (r->reader.doc) {
        choices = chat_reader_get(&r->reader, "choices");
        error = chat_reader_get(&r->reader, "error");
    }

    if (chat_str_starts(frame->data, "[DONE]")) {
        chat_reader_end(&r->reader, CHAT_END_FINISHED);

    } else if (error && is_error(r->reader.doc, error)) {
        chat_reader_end(&r->reader, CHAT_END_FAILED);

    } else if (choices && choices->type == CHAT_JSON_ARRAY) {
        read_chunk(r, choices);

    } else {
        return CHAT_DECLINED;
    }

    return CHAT_OK;
}
