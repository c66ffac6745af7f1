/*
 * chat_dialect.h: the table of dialects, and what a dialect can do.
 *
 * One const chat_dialect_t per folder <name>/. A dialect knows one wire format
 * and nothing else: it includes its own header and those of lower layers,
 * never another dialect. It decides nothing (what to hold or merge is the
 * gate's, what to drop the replay filter's): it reads and writes.
 * Promises of every member: any input is survived; no I/O, no clock, no
 * global state.
 */

#ifndef CHAT_DIALECT_H
#define CHAT_DIALECT_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "bytes/chat_digest.h"
#include "bytes/chat_edit.h"
#include "dialect/chat_reader.h"
#include "json/chat_json.h"
#include "model/chat_request.h"
#include "sse/chat_sse.h"
#include "bytes/chat_table.h"
#include "dialect/chat_transcript.h"


/* A stream that broke off, for interrupted(). */
typedef struct {
    const char       *reason; /* eof, reset, timeout, ... */
    int               resumable;
    const chat_str_t *half_open; /* ids of calls that were never ready */
    size_t            nhalf_open;
} chat_interruption_t;

/* 1 if a client asked for the end of the stream: it is not to be retried. */
int chat_interruption_is_stop(const chat_interruption_t *in);

/*
 * Appends the message for clients of a provider, not quoted. Agents retry by
 * its words ("connection error", "terminated"), except those of a stop.
 */
void chat_interruption_text(const chat_interruption_t *in, chat_buf_t *out);

/* Something that the module tells instead of an upstream. */
typedef struct {
    unsigned          status;  /* HTTP */
    const char       *code;    /* batch_incomplete, superseded, conflict... */
    const char       *message; /* for people */
    const chat_str_t *ids;     /* call ids that the message is about */
    size_t            nids;
} chat_refusal_t;

/* A transcript while it is read, message by message. */
typedef struct {
    chat_json_doc_t doc;  /* strings are in an arena of the reader's */
    chat_buf_t      text; /* what was said and is not in the digest yet */
    chat_digest_t   digest;
} chat_transcript_digest_t;

/* What of a URI stands before its query. */
chat_str_t chat_uri_path(chat_str_t uri);

/* The message with the ids behind it, in one text. */
void chat_refusal_text(const chat_refusal_t *refusal, chat_buf_t *out);

/* The ids as a JSON array. */
void chat_refusal_ids(const chat_refusal_t *refusal, chat_buf_t *out);

/* As an app says it, where no provider's words are expected: a JSON object. */
void chat_refusal_json(const chat_refusal_t *refusal, chat_buf_t *out);


typedef struct {
    const char *name; /* as in the directive, in logs and in names */

    /* How chat auto finds it: URI ends; NULL-terminated lists, may be NULL. */
    const char *const *paths;
    /* URI ends of other endpoints of the same API that share the shape. */
    const char *const *not_paths;
    /* Top-level members of a body that choose the answer (its signature). */
    const char *const *signature;

    /* The top-level member that lists the messages of a body. */
    const char *messages;

    /*
     * Appends to the transcript's text what counts of a message: what two
     * clients of one conversation have alike. Of a message that holds the
     * step itself, what ends before the byte `until`. NULL: all of each
     * message before that of the step counts.
     */
    void (*says)(chat_transcript_digest_t *transcript,
                 const chat_json_t *message, uint32_t until);

    unsigned weak_by_message : 1; /* ai_sdk: weak ids are named by message id
                                     and step ordinal */
    unsigned one_by_one : 1;      /* its client has one request open at a time
                                     and comes back by itself: its holds are
                                     short, and it is bounced wherever it
                                     should come again */
    unsigned candidate : 1;       /* a complete body is always a candidate
                                     sibling (ai_sdk, ag_ui) */
    unsigned no_empty : 1;        /* has no harmless empty turn (anthropic) */
    unsigned plain_text : 1;      /* a result is a string: of another value
                                     its JSON text is */
    unsigned only_decided : 1;    /* a call that asks for an approval takes
                                     the decision and nothing else */
    unsigned transcript : 1;      /* a chained body has the calls that its
                                     client knows all the same (ag_ui) */
    unsigned resends : 1;         /* its client may ask again by itself without
                                     end: its attempts are counted (ai_sdk,
                                     ag_ui) */

    unsigned weak_recur : 1; /* a provider's own format: a model may use a
                                weak call id again in a later step */

    unsigned numbered : 1;  /* marks say what goes of a frame with dropped
                              calls, so that indexes close up; else a frame
                              goes whole, by its events, or stays */
    unsigned chains : 1;    /* a client may name a response instead of bringing
                              its calls */
    unsigned takes_ids : 1; /* its clients take a line id: in any event */

    unsigned breaks : 1; /* some of its clients ignore error events: the
                            connection breaks behind interrupted() and
                            refuse_in_band() (the dialects of providers) */

    const char *sse_header; /* "Name: value" of every SSE answer that
                                     the module makes itself, or NULL */

    /*
     * Reads a parsed body. CHAT_DECLINED: not a body of this dialect;
     * CHAT_BAD: ambiguous (duplicate keys where they matter); CHAT_ERROR: no
     * memory. *rq is zeroed but for uri; the caller fills the signature.
     * What *rq points to is in the arena or in doc->text, node and place in
     * the tree.
     */
    chat_rc_e (*request)(chat_json_doc_t *doc, chat_arena_t *arena,
                         chat_request_t *rq);

    /*
     * Adds to edits (positions in doc->text) what puts the n results into
     * the body; results[].call is of rq, which was read from the same doc.
     * A call that already has its result is never given.
     */
    chat_rc_e (*splice)(chat_json_doc_t *doc, const chat_request_t *rq,
                        const chat_result_t *results, size_t n,
                        chat_edits_t *edits);

    /*
     * ai_sdk: in a fresh turn, completes the approval of settled parts; NULL
     * where a dialect has nothing of the kind. decided(data, id) answers what
     * the store knows of the call's approval.
     */
    chat_rc_e (*mend)(chat_json_doc_t *doc, const chat_request_t *rq,
                      chat_approval_e (*decided)(void *data, chat_str_t id),
                      void *data, chat_edits_t *edits);

    /*
     * ag_ui: a copy of rq->own in the arena, for chat_request_copy(); strings
     * may stay where they are in doc->text. NULL without memory. NULL: there
     * is no own.
     */
    const void *(*own)(const chat_request_t *rq, chat_arena_t *arena);

    /* What reads a stream, in the arena; rq may be NULL. NULL: no memory. */
    void *(*open)(chat_arena_t *arena, const chat_request_t *rq);

    /*
     * 1 if the frame is certain to give OPAQUE alone: a cheap look at its
     * bytes, so that text is not parsed; the state notes what it must know of
     * the frame. It may carry an index, so it is only asked while no call of
     * the stream was dropped. NULL: never.
     */
    int (*boring)(void *state, const chat_frame_t *frame);

    /*
     * 1 if the frame, which has data, is a sign of life alone: it may be sent
     * for ever without the answer getting on. NULL: there is no such frame.
     */
    int (*idle)(const chat_frame_t *frame);

    /*
     * Keys before a text that may be any in a boring frame, "content":" and
     * the like; NULL ends them. Another frame that differs in such texts only
     * is boring without being asked for, so boring() may note nothing of it
     * that it has not noted of the first. NULL: there are none.
     */
    const char *const *texts;

    /*
     * Reads one frame: adds its events in order (none for a comment), and a
     * mark for each element of a call in it, which are consecutive for one
     * list. CHAT_DECLINED: this is no frame of the dialect. Strings of the
     * events point into the data or an arena. See chat_dialect_frame().
     */
    chat_rc_e (*read)(void *reader, const chat_frame_t *frame);

    /*
     * ai_sdk: where the event names the message that the answer goes on with:
     * puts to in its place if it is from. CHAT_DECLINED: it names none;
     * CHAT_ERROR: no memory. NULL: no event of the dialect does.
     */
    chat_rc_e (*rename)(chat_json_doc_t *doc, chat_str_t from, chat_str_t to,
                        chat_edits_t *edits);

    /*
     * ai_sdk: appends the message that the answer to this body goes on with,
     * as events for a client that begins with an empty one. CHAT_DECLINED: it
     * goes on with none; CHAT_ERROR: no memory. NULL: answers stand alone.
     */
    chat_rc_e (*history)(chat_json_doc_t *doc, chat_buf_t *out);

    /*
     * ai_sdk: where the event makes its client work at a call that has its
     * result by now: appends what gives it call and result instead, or
     * nothing. CHAT_DECLINED: the event stays as it is; CHAT_ERROR: no memory.
     */
    chat_rc_e (*resolve_pending)(chat_json_doc_t     *doc,
                                 const chat_result_t *results, size_t n,
                                 chat_buf_t *out);

    /*
     * Appends the event that says that the stream broke off. state is that of
     * the stream's reader, or a new one where no event was read.
     */
    void (*interrupted)(void *state, const chat_interruption_t *in,
                        chat_buf_t *out);

    /*
     * The harmless well-formed empty turn for a sibling: SSE, or one JSON
     * answer where rq->stream is 0. results are told first, where the dialect
     * can. CHAT_DECLINED: it cannot be had for this request.
     */
    chat_rc_e (*empty)(const chat_request_t *rq, const chat_result_t *results,
                       size_t n, chat_buf_t *out);

    /*
     * ai_sdk, ag_ui: the ending of a hold at its bound, after which the client
     * may come with all it has; results are told first. NULL: holds end by a
     * refusal.
     */
    void (*bounce)(const chat_request_t *rq, const chat_result_t *results,
                   size_t n, chat_buf_t *out);

    /* SSE that tells the client these results; NULL where it has no way. */
    void (*inject)(const chat_result_t *results, size_t n, chat_buf_t *out);

    /*
     * What is told goes behind the stream's first event if that has this text
     * (which has no spaces; those of the event do not count), else nowhere.
     * NULL: it goes before the first event.
     */
    const char *inject_after;

    /* JSON body of a refusal, as the provider or app would word it. */
    void (*refuse)(const chat_refusal_t *refusal, chat_buf_t *out);

    /* The same as an event, for an answer whose 200 has been sent. */
    void (*refuse_in_band)(const chat_refusal_t *refusal, chat_buf_t *out);
} chat_dialect_t;


extern const chat_dialect_t chat_dialect_ai_sdk;
extern const chat_dialect_t chat_dialect_openai_responses;
extern const chat_dialect_t chat_dialect_openai_chat;
extern const chat_dialect_t chat_dialect_anthropic;
extern const chat_dialect_t chat_dialect_gemini;
extern const chat_dialect_t chat_dialect_ag_ui;

/* All dialects, in the order in which auto tries them; NULL-terminated. */
extern const chat_dialect_t *const chat_dialects[];
size_t                             chat_dialect_count(void);

/*
 * read() of a frame whose data is doc (NULL: it is no JSON) into empty
 * events. CHAT_ERROR: no memory.
 */
chat_rc_e chat_dialect_frame(const chat_dialect_t *dialect,
                             chat_reader_t *reader, const chat_frame_t *frame,
                             chat_json_doc_t *doc, chat_events_t *events);

/* interrupted() for a client that was sent no event of the stream. */
void chat_dialect_interrupted(const chat_dialect_t *dialect,
                              const char *reason, int resumable,
                              chat_buf_t *out);

/* The dialect of this name, or NULL. */
const chat_dialect_t *chat_dialect_find(chat_str_t name);

/*
 * 1 if a POST to this URI path can be a generation of the dialect: it does not
 * end as one of not_paths.
 */
int chat_dialect_generates(const chat_dialect_t *dialect, chat_str_t path);

/* 1 if the path ends as one of paths (dialects without any: 0). */
int chat_dialect_path(const chat_dialect_t *dialect, chat_str_t path);

/*
 * Reads the body with the dialect, or with each that fits where dialect is
 * NULL (auto): first by path, then by what the body looks like. uri is the
 * path, and ?query where there is one. Fills *rq, its signature (over method,
 * path, whether it is a stream and the listed members) included.
 * Answers the dialect, or NULL with *rc saying why.
 */
const chat_dialect_t *chat_dialect_request(const chat_dialect_t *dialect,
                                           chat_str_t method, chat_str_t uri,
                                           chat_json_doc_t *doc,
                                           chat_arena_t    *arena,
                                           chat_request_t *rq, chat_rc_e *rc);

/*
 * Sets rq->transcript of a continuation: two bodies have the same one if their
 * messages before the step that they answer are the same by value.
 * Of a chained body it says nothing: the chain names its transcript.
 * CHAT_ERROR without memory.
 */
chat_rc_e chat_dialect_transcript(const chat_dialect_t  *dialect,
                                  const chat_json_doc_t *doc,
                                  chat_request_t        *rq);

#endif /* CHAT_DIALECT_H */
