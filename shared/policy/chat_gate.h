/*
 * chat_gate.h: the verdict on a request, and the action that follows from it.
 *
 * A chat_question_t is what a continuation keeps while it waits. After each
 * change of the batch, chat_gate_decide() reads it together with the facts of
 * the batch and returns a verdict; all state is in the question.
 * Promises: no I/O, no clock; never lets a half-answered batch go on, even if
 * the store has lost its data; never returns GO without a claim that stands.
 */

#ifndef CHAT_GATE_H
#define CHAT_GATE_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "facts/chat_batch.h"
#include "dialect/chat_dialect.h"
#include "model/chat_request.h"
#include "policy/chat_reason.h"

/* A member as the request itself lists it. */
typedef struct {
    chat_str_t      id;
    size_t          call; /* index in the step of the one that represents it */
    chat_kind_e     kind;
    chat_hash_t     fingerprint;
    chat_hash_t     digest;       /* of its result in the body */
    chat_outcome_e  outcome;      /* of that; NONE: there is none */
    chat_approval_e approval;     /* as the body has it */
    int             settled;      /* by the body itself */
    int             needs_result; /* settled, but the body has the same id once
                                     more without a result, which takes a
                                     stored one */
} chat_question_member_t;

#define CHAT_CLAIMANT_MAX 128 /* bytes of worker and request together */

/* What the looks of a request have shown; the store may lose it later. */
typedef struct {
    chat_attempt_t last;     /* of another request; k 0: none */
    chat_attempt_t answered; /* likewise */
    int            partial;
    int            sealed;
    size_t         ncalls; /* of the batch; kept for a chain only */
} chat_seen_batch_t;

/* What a continuation keeps while it waits. */
typedef struct {
    const chat_dialect_t   *dialect;
    chat_key_t              key;
    chat_question_member_t *members; /* chained: only what the body brings */
    size_t                  nmembers;
    chat_arena_t           *arena; /* of what is kept */
    chat_table_t            index; /* of members, by id: the item is one */
    unsigned char           signature[16];
    chat_hash_t             content; /* hash of signature and own results */
    chat_str_t    own_results;       /* of the body, as a claim lists them */
    chat_str_t    sent_results; /* own and stored ones that go upstream, as the
                                claim lists them; NULL: not known */
    unsigned char retry_key[16]; /* of Idempotency-Key; zero: none */
    chat_str_t    worker;        /* of the request, for claims */
    chat_str_t    request;
    chat_str_t    relayed; /* <worker>/<request> of the claim that has sent
                              this request, as its header says; or empty */
    uint32_t      voided; /* own claim that it gave up last, set by the caller;
                             facts may have been read before that */
    uint64_t      now;    /* ms since the epoch, set by the caller before
                                  each decision and claim; 0: not known */
    int           fresh;  /* a new user message */
    int           named;  /* its conversation has an id; from the caller */
    int           kept;   /* the provider keeps the conversation */
    int           chained;
    int           complete;     /* the body settles all its members */
    int           needs_result; /* a member of them does */
    int           has_decision; /* a member has one, but no result */
    unsigned      retry;        /* tries of its client library before */

    /* What the first look showed; set by chat_gate_decide(). */
    int      looked;
    uint32_t answered_k; /* attempts up to here had an answer by then */
    uint32_t ended_k;    /* attempts up to here had ended by then */
    int      found_unsealed;

    uint32_t dead_k;      /* attempt of which the worker was seen dead */
    int      dead_stream; /* so was the producer's */

    int delivered; /* by the last look: an attempt has carried all results */

    chat_seen_batch_t seen; /* by each look; likewise */
} chat_question_t;

typedef enum {
    /* up to GO the request goes on: see chat_gate_row() */
    CHAT_GATE_PASS,       /* go on without a claim */
    CHAT_GATE_CLAIM,      /* put claim/k and look again */
    CHAT_GATE_GO,         /* attempt k is the request's: go on */
    CHAT_GATE_UNMANAGED,  /* nothing is known of it: go on untouched */
    CHAT_GATE_HOLD,       /* wait for the other results or for the seal */
    CHAT_GATE_WAIT,       /* wait for the outcome of attempt k */
    CHAT_GATE_SIBLING,    /* attempt k was answered 2xx while this waited */
    CHAT_GATE_EMPTY,      /* end it with the dialect's empty turn */
    CHAT_GATE_CONFLICT,   /* 409: another request has the answer */
    CHAT_GATE_OUTCOME,    /* attempt k ended badly while this waited */
    CHAT_GATE_INCOMPLETE, /* its step has calls that the body does not list */
    CHAT_GATE_SUPERSEDED, /* 409, the user has gone on */
    CHAT_GATE_CLEARED,    /* 409, the conversation was cleared */
    CHAT_GATE_LOOP,       /* 429, its client does not cease to ask */
    CHAT_GATE_AGAIN       /* a worker has died: its last facts may have come
                             after this look */
} chat_gate_verdict_e;

typedef struct {
    chat_gate_verdict_e verdict;
    chat_reason_e reason; /* where the verdict alone does not say it; or 0 */
    uint32_t      k;
    uint32_t      status; /* OUTCOME: HTTP status of the attempt, or 0 */
    uint32_t      after;  /* OUTCOME: its Retry-After in seconds, or 0 */
    chat_end_e    end;    /* OUTCOME: how it ended */
    int           lost;   /* OUTCOME: its worker is gone */
    int           twin;   /* the last attempt has its content: join the fact
                             twin/, unless it claims */
    int           merge;  /* PASS, GO, CLAIM: the store has results that the
                             body lacks */
    int           may_follow; /* EMPTY, CONFLICT, PASS, OUTCOME: a recording of
                           attempt k, if there is one, is its answer */
    int           recorded;   /* the store says that there is one */
    size_t        missing;    /* members without an outcome */
} chat_decision_t;

/* What is to be done with a request. */
typedef enum {
    CHAT_ACT_PASS,   /* go on as it is */
    CHAT_ACT_GO,     /* insert what is missing, then go on */
    CHAT_ACT_CLAIM,  /* put claim/k and look again */
    CHAT_ACT_WAIT,   /* until the batch changes */
    CHAT_ACT_FOLLOW, /* give the answer of attempt k; without a recording
                        ask again with unrecorded set */
    CHAT_ACT_POLL,   /* nothing is known of the batch: look again, then pass */
    CHAT_ACT_LOOK,   /* look again, now */
    CHAT_ACT_REPLY   /* answer it, as the reply says */
} chat_action_e;

/* An answer that no upstream gives. The first two are no refusals. */
typedef enum {
    CHAT_REPLY_EMPTY,  /* the dialect's empty turn */
    CHAT_REPLY_BOUNCE, /* the known results; the client sends again */
    CHAT_REPLY_INCOMPLETE,
    CHAT_REPLY_UNMERGED,
    CHAT_REPLY_SUPERSEDED,
    CHAT_REPLY_CLEARED,
    CHAT_REPLY_CONFLICT,
    CHAT_REPLY_ABORTED,
    CHAT_REPLY_STOPPED,
    CHAT_REPLY_LOOP,
    CHAT_REPLY_UPSTREAM_STATUS,
    CHAT_REPLY_UPSTREAM_ERROR,
    CHAT_REPLY_NO_STREAM,
    CHAT_REPLY_INTERRUPTED,
    CHAT_REPLY_STORE_UNAVAILABLE,
    CHAT_REPLY_STORE_FULL,
    CHAT_REPLY_HELD_LIMIT, /* the reason says which */
    CHAT_REPLIES
} chat_reply_e;

typedef struct {
    chat_action_e action;
    chat_reason_e reason;  /* of the request, once the action is performed;
                              not of CLAIM */
    chat_reply_e  reply;   /* REPLY */
    int           bounded; /* WAIT: a hold, which has a bound */
} chat_act_t;

/* What beside the batch decides on the action. */
typedef struct {
    chat_class_e class;
    int watching;   /* the request has begun to wait */
    int no_hold;    /* a hold has no time at all */
    int unrecorded; /* attempt k has no recording */
} chat_terms_t;

/* The action for a decision. */
chat_act_t chat_gate_act(const chat_question_t *q,
                         const chat_decision_t *decision,
                         const chat_terms_t    *terms);

/* The reply to a request when its hold ends. */
chat_reply_e chat_gate_incomplete(const chat_dialect_t *dialect);

/*
 * Fills *q from a continuation's last step; what it keeps is copied into the
 * arena. CHAT_LIMIT: more than max_calls members; CHAT_DECLINED: it has none;
 * CHAT_ERROR: no memory. key, worker, request and retry are the caller's.
 */
chat_rc_e chat_gate_question(const chat_dialect_t *dialect,
                             const chat_request_t *rq, size_t max_calls,
                             chat_arena_t *arena, chat_question_t *q);

/* 1: a fresh turn with all results of the step that it leaves behind. Only
   chat_results, by the conversation's id, can ask the store for them. */
int chat_gate_leaves_nothing(const chat_question_t *q);

/*
 * Appends what the request brings: its calls, results and approvals.
 * payloads: 1 to give payloads with the results even though the body is
 * complete. Payloads above max_result are left out, the reason of an approval
 * too: returns how many.
 */
size_t chat_gate_facts(const chat_question_t *q, const chat_request_t *rq,
                       int payloads, size_t max_result, chat_facts_t *facts);

/* *out: attempt k as this request's; nothing is said of its answer. */
void chat_gate_attempt(const chat_question_t *q, uint32_t k,
                       chat_attempt_t *out);

/*
 * What the body needs: the fields of the facts that complete it (result/<id>,
 * and approval/<id> where there is one), in the order of the calls, and the
 * ids of the calls that this request cannot complete.
 */
typedef struct {
    chat_str_t *fields;
    size_t      nfields;
    chat_str_t *missing;
    size_t      nmissing;
} chat_needs_t;

/*
 * 1 if the first join carries claim/1. *needs, in the arena: the results in
 * the store that this depends on; none if the body is complete.
 */
int chat_gate_claims_first(chat_question_t *q, chat_arena_t *arena,
                           chat_needs_t *needs);

/* Appends claim/k for this request. */
void chat_gate_claim(const chat_question_t *q, uint32_t k,
                     chat_facts_t *facts);

/*
 * The verdict. alive(data, worker) says whether a worker lives. Strings and
 * *batch are only read.
 */
void chat_gate_decide(chat_question_t *q, const chat_batch_t            *batch,
                      int (*alive)(void *data, chat_str_t worker), void *data,
                      chat_decision_t *out);

/*
 * May attempt k be claimed? CLAIM; LOOP: too many of a client that asks again
 * by itself have begun within a minute; CONFLICT: no reader would believe it.
 */
chat_gate_verdict_e chat_gate_may_claim(const chat_question_t *q,
                                        const chat_batch_t *batch, uint32_t k);

/*
 * 1 if the provider has the result of this call of a chain, so that it must
 * not be inserted again. Valid after chat_gate_decide().
 */
int chat_gate_delivered(const chat_question_t *q, const chat_member_t *member);

/* Fills *needs, in the arena. CHAT_ERROR: no memory. */
chat_rc_e chat_gate_needs(const chat_question_t *q, const chat_batch_t *batch,
                          chat_arena_t *arena, chat_needs_t *needs);

/*
 * 1 if the body decides a call without a result otherwise than the store; the
 * member may be NULL.
 */
int chat_gate_overrules(chat_outcome_e outcome, chat_approval_e approval,
                        const chat_member_t *member);

/*
 * The results of the body, and the stored ones (batch NULL: none), as a claim
 * lists them; rest: with those that the body lacks, whatever they are. data
 * NULL: no memory.
 */
chat_str_t chat_gate_results(chat_question_t *q, const chat_batch_t *batch,
                             int rest);

/* 1 if the attempt and the request ask for the same. */
int chat_gate_asks_the_same(const chat_question_t *q,
                            const chat_attempt_t  *attempt);

/*
 * 1 if the request may share the answer of the last attempt; in doubt 0.
 * *twin: it has its content, and the store does not know the request yet.
 */
int chat_gate_may_follow(const chat_question_t *q, const chat_batch_t *batch,
                         const chat_attempt_t *last, int *twin);

/* 1 if the attempt is this request's. */
int chat_gate_is_own(const chat_question_t *q, const chat_attempt_t *attempt);

/* 1 if name is <worker>/<request>. */
int chat_gate_names(chat_str_t name, chat_str_t worker, chat_str_t request);

/*
 * 1 if the store has lost facts of a batch that this request's worker watches:
 * the watch itself, what the request brought, or the attempt that it saw.
 * Such facts are not to be decided by: the request joins its results (by
 * chat_gate_facts() with payloads) and what chat_gate_rejoin() gives, and
 * decides by the answer, whatever it says.
 */
int chat_gate_lost(const chat_question_t *q, const chat_batch_t *batch);

/*
 * Appends what this request has read of the batch and the store may have
 * lost: attempts of others as they stood, partial, the seal, and for a
 * chain its calls. calls: those of the chain, as they were last read;
 * without all of them the seal is left out. The caller adds the request's own
 * claim by chat_gate_claim().
 */
void chat_gate_rejoin(const chat_question_t *q, const chat_call_t *calls,
                      size_t ncalls, chat_facts_t *facts);

#endif /* CHAT_GATE_H */
