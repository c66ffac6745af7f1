/*
 * chat_reader.c: what the stream readers of all dialects share.
 *
 * Nothing here knows a wire format: these are the few steps that each reader
 * takes for every call, event and mark.
 */

#include "dialect/chat_reader.h"


chat_str_t
chat_reader_keep(chat_reader_t *reader, chat_str_t s)
{
    reader->changed = 1;
    if (chat_arena_dup(reader->arena, s, &s) != CHAT_OK) {
        reader->calls.failed = 1;
    }

    return s;
}


chat_table_entry_t *
chat_reader_entry(chat_reader_t *reader, chat_table_t *table, chat_str_t key)
{
    chat_table_entry_t *entry = chat_table_find(table, key);

    if (entry == NULL) {
        table->arena = reader->arena;
        entry = chat_table_put(table, chat_reader_keep(reader, key));
    }

    reader->calls.failed |= entry == NULL;
    return entry != NULL ? entry : &reader->spare;
}


chat_event_t *
chat_reader_call(chat_reader_t *reader, chat_event_e type,
                 chat_stream_call_t *call)
{
    chat_event_t *event = chat_events_add(reader->events, type);

    event->call = call;
    event->id = call->id;
    event->name = call->name;
    event->kind = call->kind;

    return event;
}


chat_event_t *
chat_reader_args(chat_reader_t *reader, chat_stream_call_t *call,
                 const chat_json_t *node)
{
    chat_event_t *event = chat_reader_call(reader, CHAT_EVENT_CALL_ARGS, call);

    if (node != NULL && node->type == CHAT_JSON_STRING) {
        event->text = chat_json_string(reader->doc, node);
        event->node = node;
        reader->calls.failed |= event->text.data == NULL;
    }

    return event;
}


void
chat_reader_end(chat_reader_t *reader, chat_end_e end)
{
    if (!reader->ended) {
        chat_events_add(reader->events, CHAT_EVENT_TURN_END)->end = end;
        reader->ended = 1;
    }
}


void
chat_mark_index(chat_mark_t *mark, const chat_json_t *node, int32_t index,
                uint32_t place)
{
    if (index >= 0) {
        mark->digits = chat_span(node);
        mark->index = (uint32_t) index;
        mark->place = place;
    }
}
