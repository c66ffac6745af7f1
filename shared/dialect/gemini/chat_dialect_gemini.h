/*
 * chat_dialect_gemini.h: what the files of this dialect share.
 *
 * No other file includes this one.
 */

#ifndef CHAT_DIALECT_GEMINI_H
#define CHAT_DIALECT_GEMINI_H

#include "dialect/chat_dialect.h"

/* Arguments that come in pieces, each with the path of a value. */
typedef struct chat_gemini_args_s chat_gemini_args_t;

/* What reads a stream. */
typedef struct {
    chat_reader_t       reader;
    chat_gemini_args_t *args;        /* the pieces of one call at a time */
    chat_stream_call_t *pending;     /* the call that more pieces come of */
    uint32_t            seen;        /* candidates, a bit each */
    uint32_t            done;        /* those that have their finishReason */
    unsigned            open : 1;    /* TURN_OPEN was given */
    unsigned            stopped : 1; /* the calls are for the client */
} chat_gemini_reader_t;

/* Members of the table; chat_dialect.h says what they promise. */
chat_rc_e chat_gemini_read(void *reader, const chat_frame_t *frame);

/* The object of a part that is a call; NULL if it is none. */
const chat_json_t *chat_gemini_function(chat_json_doc_t   *doc,
                                        const chat_json_t *part);

/*
 * The id of a call: its own, or, where the provider gave none, its place: the
 * number of its answer since the user's words, and its number among the calls
 * of that answer. Data is NULL without memory.
 */
chat_str_t chat_gemini_id(chat_str_t own, chat_arena_t *arena, uint32_t since,
                          uint32_t position);

/*
 * Begins the arguments of another call. Each of these functions appends the
 * next piece of their JSON text to out. args: NULL for the first call. In the
 * arena, which lives as the stream or body; NULL without memory (out fails).
 */
chat_gemini_args_t *chat_gemini_args_begin(chat_gemini_args_t *args,
                                           chat_arena_t       *arena,
                                           chat_buf_t         *out);

/*
 * Adds the pieces of this functionCall. Returns the piece's string if there is
 * only one piece, and its escaped text is all that out gets; else NULL.
 */
const chat_json_t *chat_gemini_args_add(chat_gemini_args_t *args,
                                        chat_json_doc_t    *doc,
                                        const chat_json_t  *function,
                                        chat_buf_t         *out);

/* Ends them. 0: they are unknown, and what out got is not their text. */
int chat_gemini_args_end(chat_gemini_args_t *args, chat_buf_t *out);

#endif /* CHAT_DIALECT_GEMINI_H */
