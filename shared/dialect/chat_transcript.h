/*
 * chat_transcript.h: one reader of "calls of the assistant, then their
 * results" for all dialects, and one writer that inserts missing results.
 *
 * A dialect describes its transcript in a chat_transcript_form_t: what a
 * message is, which calls and results it has, and how a result is written.
 * Promises: reading and inserting are linear in the body; a result is digested
 * once, however many calls have its id; at most CHAT_CALLS_MAX calls are kept.
 */

#ifndef CHAT_TRANSCRIPT_H
#define CHAT_TRANSCRIPT_H

#include "bytes/chat_buf.h"
#include "bytes/chat_edit.h"
#include "bytes/chat_table.h"
#include "json/chat_json.h"
#include "model/chat_request.h"

typedef struct chat_transcript_s chat_transcript_t;

typedef enum {
    CHAT_ROLE_ASIDE,     /* skipped: does not even end a run */
    CHAT_ROLE_OTHER,     /* unknown: the body answers no step before it */
    CHAT_ROLE_SYSTEM,    /* the app's words: begin a turn, but name none */
    CHAT_ROLE_USER,      /* the user's words, possibly with results */
    CHAT_ROLE_RESULTS,   /* results alone */
    CHAT_ROLE_ASSISTANT, /* the model's, with or without calls */
    CHAT_ROLES
} chat_role_e;

typedef enum {
    CHAT_PART_WORDS,  /* any part but the following */
    CHAT_PART_TEXT,   /* words that are one string */
    CHAT_PART_RESULT, /* a result */
} chat_part_e;

/* A result or approval response to put into a body, or to tell a client. */
typedef struct {
    const chat_call_t *call; /* in the request; NULL: a chained body does not
                                bring it. One that is decided there takes
                                this decision instead of its own. */
    chat_str_t         id;
    chat_outcome_e     outcome;  /* OK, ERROR, DENIED; NONE: an approval */
    chat_approval_e    approval; /* GRANTED or REFUSED, where it is known */
    chat_str_t         payload;  /* the dialect's form; of an approval: the
                                    reason as JSON text, or empty */
    const chat_call_t *after;    /* chained: the body's own result that it
                                    comes behind; NULL: it comes first */
    int                unknown;  /* nobody has answered the call, payload says
                                    so: a call that can only be answered by
                                    a real result is left as it is */
} chat_result_t;

/* What a part of a message is; *text of a CHAT_PART_TEXT. */
typedef chat_part_e (*chat_part_pt)(chat_json_doc_t   *doc,
                                    const chat_json_t *part, chat_str_t *text);

/* Where results go that no result of their step precedes; no text is NULL. */
typedef struct {
    size_t      pos;   /* in the text of the body */
    const char *open;  /* goes before the first of them, */
    const char *close; /* and behind the last; commas go between */
} chat_front_t;

/* How a dialect writes its transcript; see the functions below. */
typedef struct {
    const char *list; /* member of the body that lists the messages */

    chat_role_e (*role)(chat_json_doc_t *doc, const chat_json_t *message);

    /* Passes the calls of an assistant message to chat_transcript_call(). */
    chat_rc_e (*calls)(chat_transcript_t *t, const chat_json_t *message);

    /* Passes the results of a message to chat_transcript_result(). */
    chat_rc_e (*results)(chat_transcript_t *t, const chat_json_t *message);

    /*
     * The results of the last step have all been passed. NULL: results find
     * their calls by id alone.
     */
    chat_rc_e (*match)(chat_transcript_t *t);

    /* Sets the name of a call that is kept; returns its arguments as text. */
    chat_str_t (*args)(chat_transcript_t *t, chat_call_t *call);

    /* Sets what call->result says: outcome, payload and digest. */
    chat_rc_e (*result)(chat_transcript_t *t, chat_call_t *call);

    /*
     * Member of a message that has its parts, and what a part is. NULL: a
     * result is a message of its own, and the user's words, which name steps
     * with weak ids, are in the member content.
     */
    const char  *parts;
    chat_part_pt part;

    /* Sets rq->class and rq->answers. NULL: by the last messages' roles. */
    void (*class)(chat_transcript_t *t);

    chat_class_e mixed;    /* class of a body that ends in results behind the
                              user's words; OTHER: it answers no step either */
    unsigned     runs : 1; /* assistant messages in a row are one step */
    unsigned     late : 1; /* a result may stand behind a later step */
    unsigned     each : 1; /* the provider wants a result for each call of an
                              id, else for one of them */

    /*
     * Appends what brings one result. CHAT_DECLINED: the dialect has no form
     * for it, it is left out; CHAT_BAD: the payload does not fit.
     */
    chat_rc_e (*write)(chat_json_doc_t *doc, const chat_result_t *result,
                       chat_arena_t *arena, chat_buf_t *out);

    /*
     * Finds the front for the calls in this message, of a chained body for its
     * results (message is NULL). CHAT_BAD: the body has no such place. NULL:
     * a result always has a place.
     */
    chat_rc_e (*front)(chat_json_doc_t *doc, const chat_json_t *message,
                       chat_front_t *front);
} chat_transcript_form_t;

/* A step while the transcript is read. */
typedef struct {
    const chat_json_t *last;  /* the last message of its run */
    const chat_json_t *words; /* the last message of the user before it */
    uint32_t           since; /* runs between that message and this step */
} chat_run_t;

struct chat_transcript_s {
    const chat_transcript_form_t *form;
    chat_json_doc_t              *doc;
    chat_arena_t                 *arena;
    chat_request_t               *rq;
    void                         *data; /* the dialect's */
    const chat_json_t            *list;

    const chat_json_t *assistant; /* the last message of the assistant */
    const chat_json_t *behind;    /* the message behind that, or the first */
    const chat_json_t *words;     /* the last message of the user */
    uint32_t           since;     /* runs behind that message */
    size_t             turn;      /* index of the first step behind it */

    chat_role_e end;              /* role of the last message that counts */
    size_t      tail[CHAT_ROLES]; /* messages behind the last run, by role */
    size_t      matched;          /* results behind it that have a call */
    unsigned    mixed : 1;        /* a result stands behind words there */
    unsigned    in_run : 1;       /* the last message is the assistant's */
    unsigned    has_step : 1;     /* the last run has calls */
    unsigned    bare : 1; /* results become calls of the chained step */

    chat_run_t  *runs; /* of each step of the request */
    size_t       nruns;
    chat_table_t ids[2];  /* number: the newest call without a result that has
                             this id, from 1 on; 0: none is left; [1]: of
                             approvals */
    uint32_t    *earlier; /* of each call: the one of its id before it that
                             has no result, from 1 on; 0: none */
    size_t       nearlier;

    const chat_json_t *hashed; /* message whose words are in the digest */
    chat_digest_t      digest;
};

void chat_transcript_init(chat_transcript_t            *t,
                          const chat_transcript_form_t *form,
                          chat_json_doc_t *doc, chat_arena_t *arena,
                          chat_request_t *rq);

/*
 * Reads the list of messages (or a lone message; NULL: there is none) into the
 * request: class, steps, calls, and the name of the step that comes next.
 * Returns CHAT_LIMIT if too many calls would be kept.
 */
chat_rc_e chat_transcript_read(chat_transcript_t *t, const chat_json_t *list);

/* Adds a step whose calls the body does not have, but only names. */
chat_rc_e chat_transcript_chain(chat_transcript_t *t, chat_str_t chain);

/* Makes the results behind the last run calls of that step. */
chat_rc_e chat_transcript_tail(chat_transcript_t *t);

/*
 * Passes on a failure. Of what was read well, a continuation without any
 * result becomes OTHER, and a member that stands twice makes it CHAT_BAD.
 */
chat_rc_e chat_transcript_end(chat_transcript_t *t, chat_rc_e rc);

/*
 * Adds a copy of the call to the present run's step. id, kind, ready and node
 * are set. takes_result: a later result of its id is its own.
 */
chat_rc_e chat_transcript_call(chat_transcript_t *t, const chat_call_t *call,
                               int takes_result);

/*
 * Gives the result to the open calls of this id in their newest step, or makes
 * it a call of the chained step. kind: APPROVAL answers approvals, CLIENT all
 * other calls. place is the message or part behind which a further result can
 * stand.
 */
chat_rc_e chat_transcript_result(chat_transcript_t *t, chat_str_t id,
                                 chat_kind_e kind, const chat_json_t *result,
                                 const chat_json_t *place);

/* Adds a result without its call to the last step, which is chained. */
chat_rc_e chat_transcript_bare(chat_transcript_t *t, chat_str_t id,
                               const chat_json_t *result);

/*
 * Adds to edits what inserts n results into the body; chat_dialect_t has the
 * contract as splice.
 */
chat_rc_e chat_transcript_splice(const chat_transcript_form_t *form,
                                 chat_json_doc_t              *doc,
                                 const chat_request_t         *rq,
                                 const chat_result_t *results, size_t n,
                                 chat_edits_t *edits);

/* Payload and digest of a result that is this JSON value; NULL: absent. */
chat_rc_e chat_transcript_value(chat_transcript_t *t, const chat_json_t *value,
                                const char *absent, chat_call_t *call);

/* Appends the payload of an error as a JSON string: {"error": payload}. */
void chat_result_error_text(const chat_result_t *result, chat_buf_t *out);

/* 1 if the parts of a message have words, or are a string. */
int chat_transcript_has_words(chat_json_doc_t *doc, const chat_json_t *parts,
                              chat_part_pt part);

/*
 * The elements of a list, which may be written as one object alone:
 * for (node = chat_list_first(list); node; node = chat_list_next(list, node))
 */
static inline const chat_json_t *
chat_list_first(const chat_json_t *list)
{
    return list == NULL                     ? NULL
           : list->type == CHAT_JSON_ARRAY  ? list->child
           : list->type == CHAT_JSON_OBJECT ? list
                                            : NULL;
}


static inline const chat_json_t *
chat_list_next(const chat_json_t *list, const chat_json_t *node)
{
    return list->type == CHAT_JSON_ARRAY ? node->next : NULL;
}


#endif /* CHAT_TRANSCRIPT_H */
