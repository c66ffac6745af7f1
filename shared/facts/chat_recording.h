/*
 * chat_recording.h: the recording of a stream, and its followers.
 *
 * A producer may append what its client is sent to a log in the store, where
 * followers read it. Each entry begins with a line of chat_count, the state in
 * which its bytes go on. The same key has facts beside the log, the head among
 * them. It is derived from the claim.
 */

#ifndef CHAT_RECORDING_H
#define CHAT_RECORDING_H

#include "bytes/chat_str.h"
#include "bytes/chat_buf.h"
#include "facts/chat_batch.h"

/*
 * The key of the stream that the request of this worker produces, in the
 * conversation (or batch) of another key.
 */
void chat_recording_key(const chat_key_t *of, chat_str_t worker,
                        chat_str_t request, chat_key_t *key);

/* A fact: status and headers; followers begin once it is there. */
#define CHAT_RECORDING_HEAD "head"

/*
 * before: its payload is what a client that resumes from the first event gets
 * before it. Empty: it is too long, and no client can resume from there.
 */
#define CHAT_RECORDING_BEFORE "before"

/* A fact: the producer writes nothing more. */
#define CHAT_RECORDING_OVER "over"

/* feed/<worker>/<serial>: a worker follows; gone/...: not any more. */
#define chat_facts_feed(facts, worker, serial) \
    chat_facts_put(facts, "feed/%v/%d", "1", worker, (uint64_t) (serial))
#define chat_facts_gone(facts, worker, serial) \
    chat_facts_put(facts, "gone/%v/%d", "1", worker, (uint64_t) (serial))

typedef struct {
    int        followed; /* a worker follows, or has followed */
    int        cleared;
    int        over; /* nothing more is written */
    chat_str_t head; /* empty: it is not there yet */
} chat_recording_t;

/* Reads the facts of a recording's key; head points into them. */
void chat_recording_read(const chat_fact_t *facts, size_t n,
                         chat_recording_t *out);

/*
 * How many followers these facts name that have not gone, of workers for which
 * alive(data, worker) returns 1. Without memory those that have gone count.
 */
size_t chat_recording_feeds(const chat_fact_t *facts, size_t n,
                            int (*alive)(void *data, chat_str_t worker),
                            void *data);

/* The head. Strings point into the bytes that were read. */
typedef struct {
    uint32_t   status;
    chat_str_t message; /* id of the last message of the producer's request */
    chat_str_t headers; /* "Name: value" lines, each ended by a newline, as
                           its client gets them: add_header's among them */
} chat_recording_head_t;

/*
 * Adds a line to headers, unless it concerns one connection or one client
 * (Connection, Date, Set-Cookie...), is set by the module (but for the name of
 * the stream), or is not valid.
 */
void chat_recording_header(chat_buf_t *headers, chat_str_t name,
                           chat_str_t value);

#define CHAT_RECORDING_CORS_MAX \
    16384 /* bytes of such lines that are believed */

/* 1 if a page of another origin needs a header of this name: Access-Control-*
 * or Vary. */
int chat_recording_is_cors(chat_str_t name);

/*
 * 1 if these header lines let a page of this origin read the answer: each
 * Access-Control-Allow-Origin among them is that origin or "*", and there is
 * one. origin may be empty: the request names none.
 */
int chat_recording_admits(chat_str_t lines, chat_str_t origin);

/*
 * Adds the header lines to out that a page of this origin needs, or none if
 * they do not admit it. Lines are not trusted: all but valid
 * Access-Control-* and Vary lines are left out.
 */
void chat_recording_cors(chat_buf_t *out, chat_str_t lines, chat_str_t origin);

/*
 * Cuts the next line "Name: value" off *headers, which are not trusted: other
 * lines are skipped, the last one needs no newline. 0: there is none.
 */
int chat_recording_header_next(chat_str_t *headers, chat_str_t *name,
                               chat_str_t *value);

/* CHAT_ERROR: no memory; CHAT_BAD: these are no bytes of a head. */
chat_rc_e chat_recording_head_write(const chat_recording_head_t *head,
                                    chat_buf_t                  *out);
chat_rc_e chat_recording_head_read(chat_str_t             bytes,
                                   chat_recording_head_t *out);

/*
 * How many of the bytes make the next entry: at most max, and up to the end
 * of an event where one ends in them.
 */
size_t chat_recording_cut(chat_str_t bytes, size_t max);

#endif /* CHAT_RECORDING_H */
