/*
 * chat_number.h: gives the events of a stream their numbers, as id: lines.
 *
 * A client that has lost its connection says by the last id that it has seen
 * how far it has come. Each event gets the line "id: <stream>-<n>" before all
 * others of it, n from 1; lines id: of its own go.
 * Promises: no block is added, and no other byte is changed; n is what
 * chat_count says of the bytes that come out.
 * Must not know: dialects, what an event says.
 */

#ifndef CHAT_NUMBER_H
#define CHAT_NUMBER_H

#include "bytes/chat_base.h"
#include "bytes/chat_arena.h"
#include "sse/chat_count.h"

/* All zero, but for the stream's id, is the beginning of a stream. */
typedef struct {
    chat_str_t   stream;
    chat_count_t count; /* of what has gone out */
} chat_number_t;

/*
 * Appends the bytes to out, with the numbers: whole frames, or pieces of one
 * that is too long to be looked at, which is taken for an event.
 */
void chat_number_add(chat_number_t *number, chat_str_t bytes, chat_buf_t *out);

#endif /* CHAT_NUMBER_H */
