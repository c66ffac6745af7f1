/*
 * chat_reader.h: what the stream readers of all dialects share.
 *
 * A reader turns frames into events and marks, and keeps the calls of its
 * stream. Failed allocations are sticky: a reader goes on, and its caller
 * asks once per frame.
 */

#ifndef CHAT_READER_H
#define CHAT_READER_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "dialect/chat_calls.h"
#include "json/chat_json.h"
#include "model/chat_event.h"

/* Each dialect's own reader begins with this one. */
typedef struct {
    chat_calls_t          calls;
    chat_arena_t         *arena; /* lives as the stream */
    const chat_request_t *rq;    /* or NULL */
    chat_events_t     *events; /* of the frame; its arena lives as the frame */
    chat_json_doc_t   *doc;    /* the frame's data; NULL: it is not JSON */
    chat_table_entry_t spare;  /* see chat_reader_entry() */
    uint32_t           number; /* the last sequence number, and */
    const chat_json_t *number_node; /* the frame's; NULL: it has none */
    unsigned           begun : 1;   /* a frame of the dialect was read */
    unsigned           ended : 1;   /* TURN_END was given */
    unsigned           changed : 1; /* the frame means more than its events:
                                       what is read later depends on it */
    unsigned           idle : 1;    /* the frame is a sign of life alone: it
                                       may come for ever, and the answer does
                                       not get on */
} chat_reader_t;

/* A copy that lives as the stream; s without memory. Sets changed. */
chat_str_t chat_reader_keep(chat_reader_t *reader, chat_str_t s);

/*
 * The entry of this key in a table of the reader, which is zeroed at first; a
 * new one has a copy of the key. Never NULL.
 * Without memory it is of no use, and the calls have failed.
 */
chat_table_entry_t *chat_reader_entry(chat_reader_t *reader,
                                      chat_table_t *table, chat_str_t key);

/*
 * A member of the frame's object; its text, if it is a string, else empty.
 * Only where doc is not NULL.
 */
static inline const chat_json_t *
chat_reader_get(const chat_reader_t *reader, const char *key)
{
    return chat_json_get(reader->doc, reader->doc->root, key);
}


static inline chat_str_t
chat_reader_text(const chat_reader_t *reader, const char *key)
{
    return chat_json_text(reader->doc, reader->doc->root, key);
}


/* The index of one of several answers, 0 without; -1: it is not below max. */
static inline int32_t
chat_reader_index(const chat_reader_t *reader, const chat_json_t *number,
                  int32_t max)
{
    int32_t index = number ? chat_json_index(reader->doc, number) : 0;

    return index < max ? index : -1;
}


/* A new event of a call, with its id, name and kind; never NULL. */
chat_event_t *chat_reader_call(chat_reader_t *reader, chat_event_e type,
                               chat_stream_call_t *call);

/* The next piece of a call's arguments: a string of the frame, or NULL. */
chat_event_t *chat_reader_args(chat_reader_t *reader, chat_stream_call_t *call,
                               const chat_json_t *node);

/* TURN_END, once. */
void chat_reader_end(chat_reader_t *reader, chat_end_e end);

/* The index of what is marked: where it stands, and the place it means. */
void chat_mark_index(chat_mark_t *mark, const chat_json_t *node, int32_t index,
                     uint32_t place);

/* The bytes of a value. */
static inline chat_span_t
chat_span(const chat_json_t *node)
{
    return (chat_span_t){ node->start, node->end };
}


#endif /* CHAT_READER_H */
