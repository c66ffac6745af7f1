/*
 * chat_dialect.h: the table of dialects, and what a dialect can do.
 *
 * One const chat_dialect_t per folder <name>/. A dialect knows one wire format
 * and nothing else: it includes its own header and those of lower layers,
 * never another dialect. It reads and writes, and decides nothing. No member
 * does I/O, reads a clock, or has global state; each survives any input.
 */

#ifndef CHAT_DIALECT_H
#define CHAT_DIALECT_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "dialect/chat_reader.h"
#include "json/chat_json.h"
#include "model/chat_request.h"
#include "sse/chat_sse.h"
#include "dialect/chat_transcript.h"


/* A stream that broke off, for interrupted(). */
typedef struct {
    const char *reason; /* eof, reset, timeout, ... */
    int         resumable;
} chat_interruption_t;

#define CHAT_INTERRUPTION_TEXT 128 /* bytes, with a NUL */

/*
 * The message for clients of a provider, in text. Agents retry by its words
 * ("connection error", "terminated"), except those of a stop.
 */
void chat_interruption_text(const chat_interruption_t *in,
                            char text[CHAT_INTERRUPTION_TEXT]);

/* An error that the module sends in place of an answer, or of its end. */
typedef struct {
    unsigned          status;  /* HTTP status; below 500: the request is to
                                  blame; 503: the client may retry */
    const char       *code;    /* batch_incomplete, superseded, conflict... */
    const char       *message; /* text for people */
    const chat_str_t *ids;     /* ids of the calls that it is about */
    size_t            nids;
    int               no_ids; /* it is about no calls */
    uint32_t          number; /* of the last event that the client has */
} chat_refusal_t;

/* The ids, each in this format, and with this text between them. */
void chat_refusal_join(const chat_refusal_t *refusal, const char *format,
                       const char *comma, chat_buf_t *out);

/* A further member of an object: the ids as an array; not with no_ids. */
void chat_refusal_ids(const chat_refusal_t *refusal, const char *key,
                      chat_buf_t *out);

/* The message with the ids behind it, not quoted. */
void chat_refusal_text(const chat_refusal_t *refusal, chat_buf_t *out);


/* A NULL-terminated list of strings. */
#define CHAT_LIST(...)    \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

typedef struct {
    const char *name; /* as in the directive, in logs and in names */

    /* Each a CHAT_LIST(), or NULL: */
    const char *const *paths;     /* ends of URI paths, for chat auto */
    const char *const *not_paths; /* of endpoints that share the shape */
    const char *const *signature; /* members of a body that choose the
                                     answer: 32 at most; never NULL */

    /* How its bodies have messages, calls and results. */
    const chat_transcript_form_t *form;

    unsigned provider : 1;        /* a provider's own format, else an app's.
                                     A provider's: a model may use a weak call
                                     id again in a later step; some clients
                                     ignore error events, so the module closes
                                     the connection behind them. An app's: a
                                     complete body is always a candidate
                                     sibling, and attempts are counted, as its
                                     client may retry without end */
    unsigned weak_by_message : 1; /* ai_sdk: a step with weak ids is named by
                                     its message and ordinal */
    unsigned one_by_one : 1;      /* its client has one request open at a time
                                     and retries by itself: holds are short
                                     and end in a bounce */
    unsigned plain_text : 1;      /* a result is a string: of another value,
                                     its JSON text */
    unsigned only_decided : 1;    /* a call that asks for an approval takes
                                     the decision alone */
    unsigned transcript : 1;      /* a chained body lists the calls that its
                                     client knows, too (ag_ui) */
    unsigned numbered : 1;        /* marks say which bytes leave a frame with
                                     dropped calls, and which indexes change;
                                     else its events decide, and it is sent
                                     whole or not at all */
    unsigned raw_pieces : 1;      /* the pieces of a call's arguments are
                                     strings within their JSON text, and keep
                                     their escapes (gemini) */
    unsigned chains : 1;          /* a client may name a response instead of
                                     sending its calls */
    unsigned takes_ids : 1;       /* its clients accept a line id: in any
                                     event */

    const char *sse_header; /* "Name: value" of every SSE answer that the
                               module makes itself, or NULL */

    /*
     * Reads the parsed body t->doc into t->rq, which is zeroed but for uri.
     * CHAT_DECLINED: not a body of this dialect. See chat_dialect_read().
     */
    chat_rc_e (*request)(chat_transcript_t *t);

    /* The sizes of what reads a stream, which begins with a chat_reader_t, and
     * of its record of a call, which begins with a chat_stream_call_t. */
    size_t reader_size;
    size_t call_size;

    /*
     * Reads one frame: adds its events in order, and a mark for each element
     * of a call in it, which are consecutive for one list. CHAT_DECLINED: this
     * is no frame of the dialect. Strings of the events point into the data or
     * an arena. A frame that differs from one that was read only in values
     * that read() did not look at, and in the string of an ARGS event, may not
     * be read. See chat_dialect_frame().
     */
    chat_rc_e (*read)(void *reader, const chat_frame_t *frame);

    /*
     * A refusal as SSE, or (in_band 0, only of a provider) as JSON. It is
     * called by chat_dialect_refuse() and chat_dialect_interrupted().
     */
    void (*refuse)(const chat_refusal_t *refusal, int in_band,
                   chat_buf_t *out);

    /*
     * A harmless empty turn for a sibling: SSE, or one JSON answer if
     * rq->stream is 0. It injects the results first, if the dialect can.
     * CHAT_DECLINED: the request can have none. NULL: no request can.
     */
    chat_rc_e (*empty)(const chat_request_t *rq, const chat_result_t *results,
                       size_t n, chat_buf_t *out);

    /* The following are for the dialects of apps; a member may be NULL. */

    /* The event of a stream that broke off; reader is NULL as below. NULL: a
     * refusal. */
    void (*interrupted)(const chat_reader_t       *reader,
                        const chat_interruption_t *in, chat_buf_t *out);

    /*
     * The answer to a hold that expires, after which the client retries with
     * all that it has; it injects the results first. NULL: a refusal.
     */
    void (*bounce)(const chat_request_t *rq, const chat_result_t *results,
                   size_t n, chat_buf_t *out);

    /* Events that give a client results. */
    void (*inject)(const chat_result_t *results, size_t n, chat_buf_t *out);

    /*
     * Injected events follow the stream's first event if that has this type,
     * else they are left out. NULL: they precede the first event.
     */
    const char *inject_after;

    /*
     * The string in the event that names the message that the answer
     * continues. CHAT_DECLINED: the event does not begin a message.
     */
    chat_rc_e (*message)(chat_json_doc_t *doc, const chat_json_t **id);

    /*
     * The message that the answer to this body continues, as events for a
     * client that begins with an empty one. CHAT_DECLINED: it continues none;
     * CHAT_ERROR: no memory.
     */
    chat_rc_e (*history)(chat_json_doc_t *doc, chat_buf_t *out);

    /*
     * If the event makes a client run a call that has its result by now,
     * appends events with call and result in its place, or nothing.
     * CHAT_DECLINED: the event stays as it is; CHAT_ERROR: no memory.
     */
    chat_rc_e (*resolve_pending)(chat_json_doc_t     *doc,
                                 const chat_result_t *results, size_t n,
                                 chat_buf_t *out);
} chat_dialect_t;


extern const chat_dialect_t chat_dialect_ai_sdk;
extern const chat_dialect_t chat_dialect_openai_responses;
extern const chat_dialect_t chat_dialect_openai_chat;
extern const chat_dialect_t chat_dialect_anthropic;
extern const chat_dialect_t chat_dialect_gemini;
extern const chat_dialect_t chat_dialect_ag_ui;

/* All dialects, in the order in which auto tries them; NULL-terminated. */
extern const chat_dialect_t *const chat_dialects[];
extern const size_t                chat_dialect_count;

/* The dialect of this name, or NULL. */
const chat_dialect_t *chat_dialect_find(chat_str_t name);

/* The URI without its query. */
chat_str_t chat_uri_path(chat_str_t uri);

/* 1 if the path ends as one of the list (NULL: none), on whole segments. */
int chat_path_ends(const char *const *ends, chat_str_t path);

/*
 * Reads the body with the dialect, or with each that fits where dialect is
 * NULL (auto): first by path, then by what the body looks like. uri is the
 * path, and ?query where there is one. Fills *rq, all but its signature.
 * Returns the dialect, or NULL and why in *rc.
 */
const chat_dialect_t *chat_dialect_request(const chat_dialect_t *dialect,
                                           chat_str_t            uri,
                                           chat_json_doc_t      *doc,
                                           chat_arena_t         *arena,
                                           chat_request_t *rq, chat_rc_e *rc);

/*
 * Sets rq->signature of a continuation. key is the name of its batch. Two
 * bodies of one batch have the same signature if path, stream, the listed
 * members and the messages before the step that they answer are the same by
 * value. A chain names the messages of a chained body. CHAT_ERROR: no memory.
 */
chat_rc_e chat_dialect_sign(const chat_dialect_t  *dialect,
                            const chat_json_doc_t *doc,
                            const chat_digest_t *key, chat_request_t *rq);

/*
 * Reads a body. CHAT_DECLINED: not one of this dialect; CHAT_BAD: ambiguous
 * (duplicate keys where they matter); CHAT_LIMIT: too many calls; CHAT_ERROR:
 * no memory. What *rq points to is in the arena or in doc->text, node and
 * place in the tree.
 */
chat_rc_e chat_dialect_read(const chat_dialect_t *dialect,
                            chat_json_doc_t *doc, chat_arena_t *arena,
                            chat_request_t *rq);

/*
 * What reads a stream of the dialect, in the arena; rq may be NULL. NULL
 * without memory. The owner ends its calls.
 */
void *chat_dialect_open(const chat_dialect_t *dialect, chat_arena_t *arena,
                        const chat_request_t *rq);

/*
 * Reads a frame of which the data is doc (NULL: it is no JSON) into empty
 * events: none without data, OPAQUE where the data means nothing.
 * CHAT_DECLINED: it is the first one with data, and none of the dialect;
 * CHAT_ERROR: no memory.
 */
chat_rc_e chat_dialect_frame(const chat_dialect_t *dialect,
                             chat_reader_t *reader, const chat_frame_t *frame,
                             chat_json_doc_t *doc, chat_events_t *events);

/* A refusal in the provider's or app's form: JSON, or (in_band) SSE. */
void chat_dialect_refuse(const chat_dialect_t *dialect,
                         const chat_refusal_t *refusal, int in_band,
                         chat_buf_t *out);

/*
 * The event of a stream that broke off; reader: of the stream, or NULL if the
 * client was sent no event of it.
 */
void chat_dialect_interrupted(const chat_dialect_t      *dialect,
                              const chat_reader_t       *reader,
                              const chat_interruption_t *in, chat_buf_t *out);

#endif /* CHAT_DIALECT_H */
