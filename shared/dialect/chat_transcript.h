/*
 * chat_transcript.h: one reader of "calls of the assistant, then their
 * results" for all dialects, and one writer that inserts missing results.
 *
 * A dialect describes its transcript in a chat_transcript_form_t: what a
 * message is, which calls and results it has, and how a result is written.
 * Promises: reading and inserting are linear in the body; a result is read
 * once, however many calls have its id; at most CHAT_CALLS_MAX calls are kept.
 */

#ifndef CHAT_TRANSCRIPT_H
#define CHAT_TRANSCRIPT_H

#include "bytes/chat_buf.h"
#include "bytes/chat_edit.h"
#include "bytes/chat_mix.h"
#include "bytes/chat_table.h"
#include "json/chat_json.h"
#include "model/chat_request.h"

typedef struct chat_transcript_s chat_transcript_t;

typedef enum {
    CHAT_ROLE_ASIDE,     /* skipped: does not even end a run */
    CHAT_ROLE_OTHER,     /* unknown: the body answers no step before it */
    CHAT_ROLE_SYSTEM,    /* the app's words: begin a turn, but name none */
    CHAT_ROLE_USER,      /* the user's words; with form.part, or results */
    CHAT_ROLE_RESULTS,   /* results alone */
    CHAT_ROLE_ASSISTANT, /* the model's, with or without calls */
    CHAT_ROLES
} chat_role_e;

typedef enum {
    CHAT_PART_WORDS,  /* any part but the following */
    CHAT_PART_TEXT,   /* words that are one string */
    CHAT_PART_RESULT, /* a result */
} chat_part_e;

/* A result or decision to insert into a body, or to inject into a stream. */
typedef struct {
    const chat_call_t *call; /* of the request; NULL: a chained body does not
                                have it. A call that the body has decided
                                takes this decision instead. */
    chat_str_t         id;
    chat_outcome_e     outcome;  /* OK, ERROR, DENIED; NONE: an approval */
    chat_approval_e    approval; /* GRANTED or REFUSED, where it is known */
    chat_str_t         payload;  /* the dialect's form; of an approval: the
                                    reason as JSON text, or empty */
    const chat_call_t *after;    /* chained: the body's own result before it;
                                    NULL: it comes first */
    int                unknown;  /* there is no result, and payload says so: a
                                    call that needs a real one stays open */
} chat_result_t;

/* What a part of a message is; *text of a CHAT_PART_TEXT. */
typedef chat_part_e (*chat_part_pt)(chat_json_doc_t   *doc,
                                    const chat_json_t *part, chat_str_t *text);

/* Where results go that no result of their step precedes. */
typedef struct {
    size_t      pos;   /* in the text of the body */
    size_t      len;   /* bytes there that close replaces */
    const char *open;  /* before the first result */
    chat_str_t  close; /* behind the last; commas go between them */
} chat_front_t;

#define CHAT_TRANSCRIPT_TEXT 16384 /* bytes that are hashed at once */

/* What requests say before the step that they answer, while it is read. */
typedef struct {
    chat_json_doc_t doc;  /* its strings live as long as those in text */
    chat_buf_t     *text; /* what is not in the digest yet, */
    chat_str_t      row;  /* or stands so in the body: one of them is empty */
    chat_mix_t      mix;
} chat_transcript_digest_t;

/* How a dialect writes its transcript; see the functions below. */
typedef struct {
    const char *list;    /* member of the body that lists the messages; a
                            lone message is in the member message */
    const char *content; /* member of a message with the user's words, and
                            with its parts; NULL: no words name a step */

    /* The role of t->message; sets member and id, where others read them. */
    chat_role_e (*role)(chat_transcript_t *t);

    /* Passes the calls of the assistant to chat_transcript_call(). */
    void (*calls)(chat_transcript_t *t);

    /* Passes the results of a message to chat_transcript_result(); with part,
       sets has_words if it has other parts. */
    void (*results)(chat_transcript_t *t);

    /*
     * The results of the last step have all been passed. NULL: results find
     * their calls by id alone.
     */
    void (*match)(chat_transcript_t *t);

    chat_args_pt args; /* reads a call, the node that calls() gave */

    /* Sets what call->result says: outcome, payload, said and hash. */
    void (*result)(chat_transcript_t *t, chat_call_t *call);

    /* What a part of the content is. NULL: a result is a whole message. */
    chat_part_pt part;

    /* Sets rq->class and rq->answers. NULL: by the last messages' roles. */
    void (*class)(chat_transcript_t *t);

    chat_class_e mixed;    /* class of a body that ends in results behind the
                              user's words; OTHER: it answers no step either */
    unsigned     runs : 1; /* assistant messages in a row are one step */
    unsigned     late : 1; /* a result may stand behind a later step */
    unsigned     each : 1; /* the provider wants a result for each call of an
                              id, else for one of them */
    unsigned     decides : 1; /* write has a form for decisions, too */
    unsigned     quoted : 1;  /* arguments may be a string of JSON */
    unsigned     unique : 1;  /* calls() notes each key that args() reads */

    /*
     * Appends the message or part of one result. payload is parsed; its root
     * is NULL where that of a decision is empty. CHAT_DECLINED: the dialect
     * has no form for it, it is left out; CHAT_BAD: the payload does not fit.
     * NULL: a result is a change of its call.
     */
    chat_rc_e (*write)(chat_json_doc_t *doc, const chat_result_t *result,
                       chat_json_doc_t *payload, chat_buf_t *out);

    /*
     * Appends the call, or the body's own result of it, with the result in it;
     * *node is what that replaces. Called for each call without write, else
     * for those that have a result. CHAT_DECLINED: nothing changes; CHAT_BAD:
     * the result does not fit. NULL: nothing ever changes.
     */
    chat_rc_e (*rewrite)(chat_json_doc_t *doc, const chat_result_t *result,
                         const chat_json_t **node, chat_buf_t *out);

    /*
     * Finds the front for the calls in this message, of a chained body for its
     * results (message is NULL). CHAT_BAD: the body has no such place. NULL:
     * a result always has a place.
     */
    chat_rc_e (*front)(chat_json_doc_t *doc, const chat_json_t *message,
                       chat_front_t *front);

    /*
     * Appends what counts of a message for two clients that ask the same; of
     * the message of the step itself, what ends before the byte until. NULL:
     * each message before that of the step counts, all of it.
     */
    void (*says)(chat_transcript_digest_t *transcript,
                 const chat_json_t *message, uint32_t until);
} chat_transcript_form_t;

struct chat_transcript_s {
    const chat_transcript_form_t *form;
    chat_json_doc_t              *doc;
    chat_arena_t                 *arena;   /* of the request; doc has it */
    chat_arena_t                 *scratch; /* lives as long as the tree */
    chat_json_doc_t               brief;   /* doc, but with scratch */
    chat_request_t               *rq;
    void                         *data; /* the dialect's */
    chat_rc_e                     rc;   /* the first failure; sticky */
    const chat_json_t            *list;
    const chat_json_t            *message; /* the present one, */
    const chat_json_t            *member;  /* its calls, results or words, */
    const chat_json_t            *id;      /* of the call that it answers */

    const chat_json_t *assistant; /* the last message of the assistant */
    const chat_json_t *behind;    /* the message behind that, or the first */

    chat_role_e end;              /* role of the last message that counts */
    size_t      tail[CHAT_ROLES]; /* messages behind the last run, by role */
    size_t      matched;          /* results behind it that have a call */
    unsigned    mixed : 1;        /* a result stands behind words there */
    unsigned    in_run : 1;       /* the last message is the assistant's */
    unsigned    has_words : 1;    /* the present one has more than results */
    unsigned    has_step : 1;     /* the last run has calls */

    chat_table_t ids[2];   /* number: the newest call that has this id, from 1
                            on; 0: none is left; [1]: of approvals */
    size_t       nindexed; /* calls that are in them, if they await a result */
    size_t       nkept;    /* calls of steps that will be kept for certain */
};

/* Notes a failure, if rc is one: t->rc. After it all functions do nothing. */
void chat_transcript_fail(chat_transcript_t *t, chat_rc_e rc);

/*
 * Reads the list of messages (or a lone message; NULL: there is none) into the
 * request: class, steps, calls, and the name of the step that comes next.
 * Fails with CHAT_LIMIT if too many calls would be kept.
 */
void chat_transcript_read(chat_transcript_t *t, const chat_json_t *list);

/* Adds a step of which the body names the calls, but does not have them. */
void chat_transcript_chain(chat_transcript_t *t, chat_str_t chain);

/* The same; its calls are the results behind the last run. */
void chat_transcript_tail(chat_transcript_t *t, chat_str_t chain);

/* A continuation without any result becomes OTHER. */
void chat_transcript_end(chat_transcript_t *t);

/*
 * Adds a call to the present run's step: ready, the client's, and one that
 * awaits a result, unless the caller changes that. NULL: it has failed.
 */
chat_call_t *chat_transcript_call(chat_transcript_t *t,
                                  const chat_json_t *node, chat_str_t id);

/*
 * Gives the result to the open calls of this id in their newest step, or makes
 * it a call of the chained step. kind: APPROVAL answers approvals, CLIENT all
 * other calls. Behind place, a message or part, a further result can stand.
 */
void chat_transcript_result(chat_transcript_t *t, chat_str_t id,
                            chat_kind_e kind, const chat_json_t *result,
                            const chat_json_t *place);

/* For form.results: the message is the result of the client's call t->id. */
void chat_transcript_message(chat_transcript_t *t);

/* Adds a result without its call to the last step, which is chained. */
void chat_transcript_bare(chat_transcript_t *t, chat_str_t id,
                          const chat_json_t *result);

/*
 * Adds to edits (positions in doc->text) what puts the n results into the
 * body; results[].call is of rq, which was read from the same doc. A decision
 * (outcome NONE) may be of a call that has a result. CHAT_BAD: the body cannot
 * take one of them.
 */
chat_rc_e chat_transcript_splice(const chat_transcript_form_t *form,
                                 chat_json_doc_t              *doc,
                                 const chat_request_t         *rq,
                                 const chat_result_t *results, size_t n,
                                 chat_edits_t *edits);

/* Adds the text, and the messages before the step that the body answers. */
void chat_transcript_digest(const chat_transcript_form_t *form,
                            const chat_request_t         *rq,
                            chat_transcript_digest_t     *to);

/* The result is this value; absent is the JSON of what NULL stands for. */
static inline void
chat_transcript_value(chat_transcript_t *t, const chat_json_t *value,
                      const char *absent, chat_call_t *call)
{
    call->payload = value ? chat_json_raw(t->doc, value) : chat_cstr(absent);
    call->said = call->payload;
    call->value = value;
    call->hash = chat_json_mix;
}


/* Appends the payload of an error as a JSON string: {"error": payload}. */
void chat_result_error_text(const chat_result_t *result, chat_buf_t *out);

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
