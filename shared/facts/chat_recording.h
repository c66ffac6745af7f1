/*
 * chat_recording.h: the recording of a stream, and its followers.
 *
 * A producer may append what its client is sent to a log in the store, where
 * followers read it. Piece 0 of the log is the head; each other piece begins
 * with a line of chat_count, the state in which its bytes go on. Beside the
 * log stand facts under the same key, which can be derived from the claim.
 */

#ifndef CHAT_RECORDING_H
#define CHAT_RECORDING_H

#include "bytes/chat_str.h"
#include "bytes/chat_buf.h"
#include "facts/chat_batch.h"

typedef enum {
    CHAT_RECORD_UNKNOWN, /* not decided yet */
    CHAT_RECORD_WANTED,  /* a follower came first: it is kept */
    CHAT_RECORD_KEPT,    /* the producer keeps it anyway */
    CHAT_RECORD_NONE     /* the producer came first: there is none */
} chat_record_mode_e;

/*
 * The key of the stream that the request of this worker produces, in the
 * conversation (or batch) of another key.
 */
void chat_record_key(const chat_key_t *of, chat_str_t worker,
                     chat_str_t request, chat_key_t *key);

/* record: WANTED, KEPT or NONE; the first one stands. */
void chat_facts_record(chat_facts_t *facts, chat_record_mode_e mode);

/* unrecorded: there is none, whatever followers want. Of the producer. */
void chat_facts_unrecorded(chat_facts_t *facts);

/* head: that of the log, which outlives the log's beginning here. */
void chat_facts_head(chat_facts_t *facts, chat_str_t head);

/*
 * before: its payload is what a follower that begins with the first event gets
 * before it. Empty: there is no such text, and no follower can begin there.
 */
#define CHAT_RECORD_BEFORE "before"
void chat_facts_before(chat_facts_t *facts, chat_str_t told);

/* over: the producer writes nothing more. */
void chat_facts_written(chat_facts_t *facts);

/* feed/<worker>/<serial>: a worker follows; gone/...: not any more. */
void chat_facts_feed(chat_facts_t *facts, chat_str_t worker, uint64_t serial);
void chat_facts_gone(chat_facts_t *facts, chat_str_t worker, uint64_t serial);

typedef struct {
    chat_record_mode_e mode;
    size_t             feeds; /* of living workers, that have not gone */
    int                cleared;
    int                over; /* nothing more is written */
    chat_str_t         head; /* empty: it is in the log alone */
} chat_record_t;

/* Reads the facts of a record's key. */
void chat_record_read(const chat_fact_t *facts, size_t                   n,
                      int (*alive)(void *data, chat_str_t worker), void *data,
                      chat_record_t *out);

/* The head. Strings point into the bytes that were read. */
typedef struct {
    uint32_t   status;
    chat_str_t message; /* id of the last message of the producer's request */
    chat_str_t headers; /* "Name: value" lines, each ended by a newline, as
                           its client gets them: add_header's among them */
} chat_record_head_t;

/*
 * Adds a line to headers, unless it is of one connection or one client alone
 * (Connection, Date, Set-Cookie...), is ours to set (but for the name of the
 * stream), or is no header line.
 */
void chat_record_header(chat_buf_t *headers, chat_str_t name,
                        chat_str_t value);

#define CHAT_RECORD_CORS_MAX 16384 /* bytes of such lines that are believed */

/* 1 if a page of another origin needs a header of this name: Access-Control-*
 * or Vary. */
int chat_record_is_cors(chat_str_t name);

/*
 * 1 if these header lines let a page of this origin read the answer: each
 * Access-Control-Allow-Origin among them is that origin or "*", and there is
 * one. origin may be empty: the request names none.
 */
int chat_record_admits(chat_str_t lines, chat_str_t origin);

/*
 * Adds the header lines to out that a page of this origin needs, or none if
 * they do not admit it. Lines may be of anybody: others than
 * Access-Control-* and Vary are left out, as is what is no header line.
 */
void chat_record_cors(chat_buf_t *out, chat_str_t lines, chat_str_t origin);

/*
 * Cuts the next line "Name: value" off *headers, which may be of anybody: what
 * is none is passed over, the last one needs no newline. 0: there is none.
 */
int chat_record_header_next(chat_str_t *headers, chat_str_t *name,
                            chat_str_t *value);

/* CHAT_ERROR: no memory; CHAT_BAD: these are no bytes of a head. */
chat_rc_e chat_record_head_write(const chat_record_head_t *head,
                                 chat_buf_t               *out);
chat_rc_e chat_record_head_read(chat_str_t bytes, chat_record_head_t *out);

/*
 * How many of the bytes make the next piece: at most max, and up to the end
 * of an event where one ends in them.
 */
size_t chat_record_cut(chat_str_t bytes, size_t max);

#endif /* CHAT_RECORDING_H */
