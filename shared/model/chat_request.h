/*
 * chat_request.h: what a request body says, in the model's words.
 *
 * A dialect's reader fills a chat_request_t from a parsed body. The gate, the
 * merge and the replay filter read nothing else of it.
 *
 * calls[] holds every call of the *current turn* (since the last user text)
 * and of every earlier step that has an unanswered or undecided call, in the
 * order of the transcript, each occurrence by itself. steps[] groups them. A
 * chained body brings results without calls: they stand in calls[] with bare
 * set, in one step of their own that is the last.
 */

#ifndef CHAT_REQUEST_H
#define CHAT_REQUEST_H

#include "bytes/chat_str.h"
#include "bytes/chat_digest.h"
#include "bytes/chat_table.h"
#include "model/chat_event.h"
#include "json/chat_json.h"

/*
 * Calls of a request in all its listed steps. A model that has called its
 * tools so often within one turn has filled its context.
 */
#define CHAT_CALLS_MAX 4096

typedef enum {
    CHAT_CLASS_OTHER,        /* nothing that we decide about */
    CHAT_CLASS_FRESH,        /* brings new user content */
    CHAT_CLASS_CONTINUATION, /* made only to bring results back */
    CHAT_CLASS_PENDING,      /* ai_sdk: waits for results, but brings none: a
                              continuation if the store has them */
    CHAT_CLASS_REGENERATE,   /* asks for the last answer once more */
    CHAT_CLASS_ITEMS         /* responses: adds results to a conversation that
                              the provider keeps, and wants no answer of the
                              model */
} chat_class_e;

typedef enum {
    CHAT_APPROVAL_NONE,
    CHAT_APPROVAL_ASKED,
    CHAT_APPROVAL_GRANTED,
    CHAT_APPROVAL_REFUSED
} chat_approval_e;

static inline int
chat_approval_is_decided(chat_approval_e approval)
{
    return approval == CHAT_APPROVAL_GRANTED
           || approval == CHAT_APPROVAL_REFUSED;
}


/* The name of a call, or empty; *args, at first NULL: its arguments. */
typedef chat_str_t (*chat_args_pt)(chat_json_doc_t    *doc,
                                   const chat_json_t  *call,
                                   const chat_json_t **args);

/* Adds what a result says, by value. CHAT_ERROR: no memory. */
typedef chat_rc_e (*chat_hash_pt)(chat_json_doc_t   *doc,
                                  const chat_json_t *said, chat_mix_t *mix);

typedef struct {
    chat_str_t      id; /* empty: the dialect had none */
    chat_kind_e     kind;
    chat_str_t      text;        /* JSON of the call, or empty; as payload */
    chat_args_pt    args;        /* reads it */
    chat_hash_t     fingerprint; /* by chat_call_fingerprint() */
    chat_outcome_e  outcome; /* of its result in this body; NONE: missing */
    chat_hash_t     digest;  /* of that result, by chat_call_digest(), of */
    chat_str_t      said;    /* this JSON; data is NULL: it is made */
    chat_hash_pt    hash;
    chat_str_t      payload; /* that result as write() takes it; in the body
                                 or in the arena */
    chat_approval_e approval;
    chat_str_t      reason;        /* of the approval response, as JSON text */
    uint32_t        step;          /* index in steps[] */
    unsigned        quoted : 1;    /* arguments may be a string of JSON */
    unsigned        joined : 1;    /* gemini: text is made of several nodes */
    unsigned        printed : 1;   /* fingerprint is made */
    unsigned        ready : 1;     /* its arguments are complete */
    unsigned        bare : 1;      /* a result without its call in the body */
    unsigned        undecided : 1; /* settled, but its approval does not say
                                      how it was decided */
    unsigned        dynamic : 1;   /* ai_sdk: a dynamic-tool part */
    unsigned in_last_message : 1;  /* ai_sdk: a client takes its result */
    unsigned delivered : 1;        /* chained: the provider has its result */
    unsigned awaits : 1;           /* while it is read: a later result of its
                                      id is its own */
    /* Nodes of the body's tree, while there is one: */
    const chat_json_t *node;   /* the call's value */
    const chat_json_t *result; /* that of its result, or NULL */
    const chat_json_t *value;  /* of said; NULL: it has none */
    const chat_json_t *place;  /* behind which its result stands or belongs;
                                  NULL: it belongs to the front */
    uint32_t earlier; /* while it is read: the call of its id before it in
                         the index, from 1 on; 0: none */

    const chat_digest_t *tenant; /* of the request: key of both hashes */
} chat_call_t;

/* One model response in the transcript; what its batch is named by. */
typedef struct {
    size_t        first; /* index in calls[] */
    size_t        count;
    chat_str_t    first_id;  /* id of the step's first call of any kind */
    chat_str_t    message;   /* ai_sdk: id of the assistant message */
    uint32_t      ordinal;   /* ai_sdk: which step of that message, from 0 */
    chat_digest_t user_text; /* others: hash of the last user message before */
    uint32_t      since;     /* others: number of steps since that message */
    const chat_json_t *words; /* that message, while it is read */
    const chat_json_t *last;  /* the last message of the step, likewise */
    chat_str_t         chain; /* chained: the id of the response, message or
                                conversation that the body names; else empty */
} chat_step_t;

typedef struct {
    chat_str_t uri; /* path?query; of the caller, set before a reader */
    const chat_digest_t *tenant; /* likewise; filled in later */
    int named; /* likewise: not only the body may name the conversation */
    chat_class_e class;
    int           stream;  /* 0: the client wants one JSON answer */
    int           chained; /* the last step's calls are not in the body */
    int           stored;  /* responses: the answer can be chained to */
    int           by_conversation; /* responses: the provider keeps the
                                      conversation that the body names; a
                                      chained body is chained to that */
    chat_str_t    conversation;    /* the dialect's own id, or empty */
    chat_str_t    last_message;    /* ai_sdk: id of the last message */
    chat_str_t    regenerates;     /* ai_sdk: id of the message to be made
                                      anew; empty: the last answer */
    uint32_t      members;         /* bit i: the body has member i of the
                                      dialect's signature */
    unsigned char signature[16];   /* hash of what chooses the answer; 0 until
                                      chat_dialect_sign() */
    chat_call_t  *calls;
    size_t        ncalls;
    chat_step_t  *steps;
    size_t        nsteps;
    size_t        calls_size; /* for how many there is room */
    size_t        steps_size;
    int           answers; /* the last of steps[] is the step that this
                                   body answers: a continuation's batch, or
                                   what a fresh turn leaves behind */
    size_t        turn;    /* calls[turn..] are of the current turn */
    chat_step_t   next;    /* as the step that the answer will open */
    chat_str_t    run;     /* ag_ui: runId */
    chat_table_t  tools;   /* ag_ui: names of the client's tools; empty: the
                              body does not say */
} chat_request_t;

/*
 * Appends a zeroed call or step to the request; the arrays grow in the arena.
 * A step's first/count and a call's step are kept: a call belongs to the last
 * step, which there must be. NULL without memory.
 */
chat_call_t *chat_request_add_call(chat_request_t *rq, chat_arena_t *arena);
chat_step_t *chat_request_add_step(chat_request_t *rq, chat_arena_t *arena);

/*
 * 1 if the call is one that the client must answer: kind client or approval,
 * ready, and with an id.
 */
int chat_call_is_member(const chat_call_t *call);

/*
 * 1 if this body itself settles the call: it carries a result, or an
 * approval response.
 */
int chat_call_is_settled(const chat_call_t *call);

/* 1 if the client must answer the call, and the body has no result for it. */
int chat_call_lacks_result(const chat_call_t *call);

/*
 * 1 if the body lacks a result, or the decision about an approval, so that one
 * may go into it; of a chain only the store knows that.
 */
int chat_request_lacks(const chat_request_t *rq);

/* Name and arguments of a call; empty: it has none. CHAT_ERROR: no memory. */
chat_rc_e chat_call_read(const chat_call_t *call, chat_arena_t *arena,
                         chat_str_t *name, chat_str_t *args);

/*
 * The call's fingerprint, and the digest of its result; zero where it has no
 * result. They are made on first use: of most calls of a long transcript
 * neither is used. NULL without memory.
 */
const chat_hash_t *chat_call_fingerprint(const chat_call_t *call);
const chat_hash_t *chat_call_digest(const chat_call_t *call);

/* Calls lose their nodes: the tree ends. */
void chat_request_forget(chat_request_t *rq);

#endif /* CHAT_REQUEST_H */
