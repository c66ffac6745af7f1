/*
 * chat_stream.h: one answer on its way from the provider to the client.
 *
 * Bytes go in as they come, bytes come out as they may go on; beside them the
 * facts that the stream adds to its batch, and how it ended. It joins the SSE
 * parser, a dialect's reader, the replay filter and its quarantine.
 * Promises: what is not dropped, quarantined or renumbered goes out byte for
 * byte, in order, and not later than the frame that it is part of; the output
 * does not depend on how the input was cut; memory is bounded by a small
 * multiple of max_event (frame, arguments, quarantine) and by its calls.
 */

#ifndef CHAT_STREAM_H
#define CHAT_STREAM_H

#include "bytes/chat_str.h"
#include "facts/chat_conversation.h"
#include "dialect/chat_dialect.h"
#include "model/chat_event.h"
#include "sse/chat_position.h"
#include "stream/chat_replay.h"
#include "model/chat_request.h"

typedef struct {
    const chat_dialect_t *dialect;
    const chat_request_t *request; /* the answered one; must outlive the
                                      stream; NULL: nothing is known of it */
    const chat_call_t    *known;   /* calls that the client has; likewise */
    size_t                nknown;
    int                   replay; /* drop replays: 1 or 0 */
    chat_scope_t          scope;  /* of the conversation, for names */
    uint64_t              began;  /* ms since the epoch, for its record */
    chat_str_t            worker; /* for the open fact */
    chat_str_t            cors;   /* for the open fact */
    size_t                max_event;
    size_t                max_calls;
    size_t                max_result;
    chat_str_t            number;    /* id of the stream: its events get id:
                                     lines; must outlive it; empty: none */
    int                   resumable; /* its record outlives it */
    int                   observe;   /* dry run: decide and count, but every
                                      byte goes on as it came */
    /* Lets the owner reclassify a call by its tool's name; may be NULL. */
    chat_kind_e (*kind)(void *data, chat_str_t name, chat_kind_e kind);
    void *data;
} chat_stream_conf_t;

/* A run of output: bytes of the last input, or bytes of the stream's own. */
typedef struct {
    chat_str_t bytes;
    int        in_input;
} chat_piece_t;

/* The facts that the stream adds to one batch, under each of its names. */
typedef struct {
    chat_key_t   keys[CHAT_NAMES_MAX];
    size_t       nkeys;
    chat_facts_t facts;
} chat_stream_facts_t;

typedef struct {
    int         foreign; /* the first frame was none, or there was no memory
                              to read one: all passes */
    chat_end_e  end;     /* NONE while it runs */
    const char *reason;  /* of an interruption; else NULL */
    chat_str_t  id;      /* of the turn: message or response id */
    uint64_t    bytes_out;
    uint32_t    content;   /* frames that are more than signs of life */
    uint32_t    oversized; /* frames past max_event */
    uint32_t    calls;     /* of the last step that opened any */
    uint32_t    settled;   /* of those */
    uint32_t    overflows; /* quarantines that were given up */

    chat_replay_count_t replay;
} chat_stream_info_t;

typedef struct chat_stream_s chat_stream_t;

/* NULL without memory. *conf is copied. */
chat_stream_t *chat_stream_create(const chat_stream_conf_t *conf);
void           chat_stream_destroy(chat_stream_t *stream);

/*
 * Takes the next bytes and returns the output that may be sent: pieces[0..n)
 * valid until the next call; pieces of the input are in the input's order.
 * Without memory to read on, all that waits and all that comes passes as it
 * is. CHAT_ERROR: bytes of the output are lost.
 */
chat_rc_e chat_stream_push(chat_stream_t *stream, chat_str_t input,
                           const chat_piece_t **pieces, size_t *n);

/*
 * The bytes are over. reason NULL: they ended as an HTTP body ends; else how
 * they broke off (reset, timeout, eof...). Returns the last output: what was
 * still waiting, or the dialect's interrupted event in place of an unfinished
 * frame. aborted: the client left (nothing more is written).
 */
chat_rc_e chat_stream_finish(chat_stream_t *stream, const char *reason,
                             int aborted, const chat_piece_t **pieces,
                             size_t *n);

/*
 * The facts that have come up since the last time, one entry per batch, and
 * forgets them; valid until the next call of any function of the stream.
 */
size_t chat_stream_facts(chat_stream_t              *stream,
                         const chat_stream_facts_t **facts);

/* The calls of the last step that the stream itself settled, at most max. */
size_t chat_stream_settled(const chat_stream_t *stream, chat_str_t *ids,
                           size_t max);

/* The count of the events that have gone out; 0: the stream is foreign. */
int chat_stream_sent(const chat_stream_t *stream, chat_count_t *count);

const chat_stream_info_t *chat_stream_info(const chat_stream_t *stream);

#endif /* CHAT_STREAM_H */
