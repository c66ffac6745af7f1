/*
 * chat_batch.h: facts, and what they mean.
 *
 * A store keeps, per batch, a set of facts: field -> value, put if absent,
 * never changed. This is the one place that names a batch, writes facts and
 * reads them back as members, results, seal and attempts, for both stores,
 * the tests, the simulation and the fuzzers.
 * Promises: reading is independent of the order of the facts; any bytes as
 * facts are survived (a fact that does not parse is as good as absent).
 * Must not know: stores, dialects, time.
 */

#ifndef CHAT_BATCH_H
#define CHAT_BATCH_H

#include "bytes/chat_base.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_digest.h"
#include "model/chat_event.h"
#include "model/chat_request.h"
#include "bytes/chat_table.h"

#define CHAT_ID_MAX 1024          /* bytes of a call id that can be managed */
#define CHAT_ATTEMPTS_MAX 1000000 /* claims past it are not believed */

/*
 * Where a batch lives: tag is of (tenant, conversation), name of the batch.
 * Two keys are the same if their names are.
 */
typedef struct {
    chat_digest_t tag;
    chat_digest_t name;
    uint64_t      tenant; /* its first bytes: whose share of a store it has */
} chat_key_t;

/* Whose batch it is: what all names of one conversation have in common. */
typedef struct {
    chat_digest_t tenant;    /* of the application and its user */
    int           anonymous; /* there is no user: no name can be derived */
    chat_str_t    dialect;
    chat_str_t    conversation; /* empty: none */
    int           by_message;   /* dialect->weak_by_message */
} chat_scope_t;

/* What a key says of the tenant. */
uint64_t chat_scope_tenant(const chat_scope_t *scope);

/*
 * The name of a step's batch. CHAT_DECLINED: the scope is anonymous, the step
 * has only a weak name and no conversation, or an id is past CHAT_ID_MAX: it
 * is not managed.
 */
chat_rc_e chat_batch_key(const chat_scope_t *scope, const chat_step_t *step,
                         chat_key_t *key);

/* 1 if an id is unlikely to be used twice. */
int chat_id_is_strong(chat_str_t id);

/*
 * Where the record of the conversation is: the batches that streams opened in
 * it, under the tag that all its batches have. CHAT_DECLINED: there is no
 * conversation, or the scope is anonymous.
 */
chat_rc_e chat_batch_record_key(const chat_scope_t *scope, chat_key_t *key);


#define CHAT_AFTER_MAX 86400 /* seconds: nobody is told to wait for longer */

typedef struct {
    uint32_t      k; /* 0: there was none */
    chat_str_t    worker;
    chat_str_t    request;
    unsigned char signature[16];
    unsigned char retry_key[16]; /* of Idempotency-Key; zero: none */
    unsigned char transcript[16];
    chat_str_t    results;   /* that it carries; see chat_results_agree() */
    int           described; /* transcript and results are known */
    uint64_t      ms;        /* when it was claimed; 0: not known */
    uint32_t      answer;    /* HTTP status; 0: none yet */
    uint32_t      after;     /* its Retry-After in seconds; 0: none */
    chat_end_e    end;
    int           is_void; /* nothing was sent */
} chat_attempt_t;

/*
 * One fact. payload, where has_payload, is kept apart: a store keeps the
 * first payload that comes with the value that stands, and then answers the
 * fact with has_payload set. What is empty may be NULL.
 */
typedef struct {
    chat_str_t field;
    chat_str_t value;
    chat_str_t payload;
    int        has_payload;
} chat_fact_t;

/* A list of facts, fields and values in the arena, payloads of the caller. */
typedef struct {
    chat_fact_t  *items;
    size_t        count;
    size_t        size;
    chat_arena_t *arena;
    int           failed; /* no memory at some add */
} chat_facts_t;

void chat_facts_init(chat_facts_t *facts, chat_arena_t *arena);

/* A fact whose field is given whole: since, open, seal, broken, partial... */
void chat_facts_add(chat_facts_t *facts, const char *field, chat_str_t value);

/*
 * call/<id>: position is the call's place in its step, from 0. One that asks
 * for an approval may be known as a call before that: ask/<id> says it too.
 */
void chat_facts_call(chat_facts_t *facts, chat_str_t id, chat_kind_e kind,
                     uint32_t position, const chat_digest_t *fingerprint);

/*
 * result/<id>: outcome OK, ERROR or DENIED; digest of the result; fingerprint
 * of the call that it answers (all zero: not known). payload may be NULL.
 */
void chat_facts_result(chat_facts_t *facts, chat_str_t id,
                       chat_outcome_e outcome, const chat_digest_t *digest,
                       const chat_digest_t *fingerprint,
                       const chat_str_t    *payload);

/* message/<id>: a request that continues this message is held. */
void chat_facts_message(chat_facts_t *facts, chat_str_t id);

/* 1 if there is that fact; id empty: one of any message. */
int chat_batch_has_message(const chat_fact_t *facts, size_t n, chat_str_t id);

/*
 * delivered/<id>: a request that has no attempt carried the call's result,
 * and its answer was 2xx.
 */
void chat_facts_delivered(chat_facts_t *facts, chat_str_t id);

/* approval/<id>: GRANTED or REFUSED; reason (JSON text) is its payload. */
void chat_facts_approval(chat_facts_t *facts, chat_str_t id,
                         chat_approval_e approval, chat_str_t reason);

/*
 * claim/<k>, of the attempt's k, worker and request (both free of spaces),
 * signature, retry_key and ms, and if it is described of transcript and
 * results. Answer and end are not in it.
 */
void chat_facts_claim(chat_facts_t *facts, const chat_attempt_t *attempt);

/*
 * twin/<worker>/<request>: that request has the content (16 bytes) of another
 * one's attempt, and has not claimed itself; retry is how often its client
 * had tried before.
 */
void chat_facts_twin(chat_facts_t *facts, chat_str_t worker,
                     chat_str_t request, const unsigned char *content,
                     unsigned retry);

/*
 * answer/<k>/<worker>/<request>: the HTTP status of the attempt's answer;
 * after/...: its Retry-After; end/...: how it ended; void/...: nothing was
 * sent. They name the claimant, and say nothing while claim/<k> is not that
 * one's: a request that does not know whether its claim stands may put them
 * all the same.
 */
void chat_facts_answer(chat_facts_t *facts, uint32_t k, chat_str_t worker,
                       chat_str_t request, uint32_t status);
void chat_facts_after(chat_facts_t *facts, uint32_t k, chat_str_t worker,
                      chat_str_t request, uint32_t seconds);
void chat_facts_end(chat_facts_t *facts, uint32_t k, chat_str_t worker,
                    chat_str_t request, chat_end_e end);
void chat_facts_void(chat_facts_t *facts, uint32_t k, chat_str_t worker,
                     chat_str_t request);

/* open: the producer's worker and the CORS header lines of its answer. */
void chat_facts_open(chat_facts_t *facts, chat_str_t worker, chat_str_t cors);

#define CHAT_NAMES_MAX 2

/* A batch in a conversation's record: its names, and whose words it is in. */
typedef struct {
    chat_digest_t names[CHAT_NAMES_MAX]; /* the facts are under each of them */
    size_t        nnames;                /* at least 1 */
    chat_str_t    dialect;               /* its name */
    uint64_t      ms;                    /* newest: when it was recorded */
} chat_recorded_t;

/* batch/<ms>-<name>: of a conversation's record. */
void chat_facts_batch(chat_facts_t *facts, uint64_t ms,
                      const chat_recorded_t *recorded);


/* A result that a request carries: of which call, and what it is. */
typedef struct {
    unsigned char id[4]; /* of the id's digest */
    unsigned char value[8];
    int           stored; /* its own one comes first */
} chat_carried_t;

void chat_carried(chat_carried_t *carried, chat_str_t id,
                  chat_outcome_e outcome, const unsigned char *digest);

/*
 * The results as one text in the arena, one for each call; the list is
 * sorted. NULL data without memory.
 */
chat_str_t chat_results_text(chat_carried_t *list, size_t n,
                             chat_arena_t *arena);

/* 1 if no call has one result in one text and another one in the other. */
int chat_results_agree(chat_str_t one, chat_str_t other);


/* A call as the store knows it. */
typedef struct {
    chat_str_t      id;
    int             is_call; /* there is a call/ fact */
    int             asks;    /* there is an ask/ fact: kind is APPROVAL */
    chat_kind_e     kind;
    uint32_t        position;
    unsigned char   fingerprint[16];
    chat_outcome_e  outcome;      /* NONE: no result */
    unsigned char   digest[16];   /* of the result */
    unsigned char   answered[16]; /* fingerprint that the result answered */
    int             has_payload;  /* of the result */
    int             delivered;    /* there is a delivered/ fact */
    chat_approval_e approval;     /* GRANTED, REFUSED or NONE */
} chat_member_t;

/* A request beside an attempt of the same content. */
typedef struct {
    chat_str_t    claimant; /* <worker>/<request> */
    unsigned char content[16];
    uint64_t      retry; /* tries of its client before it */
} chat_twin_t;

typedef struct {
    uint64_t        since; /* ms; 0: no such fact */
    int             open;
    chat_str_t      producer; /* worker of open */
    chat_str_t      cors;     /* of open */
    int             sealed;
    int             broken;
    int             partial; /* was seen incomplete */
    int             superseded;
    int             cleared;
    chat_member_t  *members; /* in order of position, then id */
    size_t          nmembers;
    chat_table_t    index; /* of members, by id: the number is the place */
    chat_str_t     *waits; /* workers that are woken by a change */
    size_t          nwaits;
    chat_attempt_t  last;     /* the attempt with the highest number */
    chat_attempt_t  answered; /* the last that was answered 2xx; k 0: none */
    chat_attempt_t *attempts; /* all of them, in order of their numbers */
    size_t          nattempts;
    chat_twin_t    *twins;
    size_t          ntwins;
} chat_batch_t;

/*
 * Reads facts (in any order, from a store) into *batch; strings point into
 * the facts, members are in the arena. CHAT_ERROR without memory.
 */
chat_rc_e chat_batch_read(const chat_fact_t *facts, size_t n,
                          chat_arena_t *arena, chat_batch_t *batch);

/*
 * An attempt without an end whose worker is dead counts as interrupted: 1,
 * and its end says so. alive(data, worker) says whether a worker lives.
 */
int chat_attempt_bury(chat_attempt_t *attempt,
                      int (*alive)(void *data, chat_str_t worker), void *data);

/*
 * The newest batch in a conversation's record; it is the open one, if any is:
 * a step comes when the one before is answered or given up. Its dialect points
 * into the facts. CHAT_DECLINED: there is none.
 */
chat_rc_e chat_batch_newest(const chat_fact_t *facts, size_t n,
                            chat_recorded_t *newest);

/* The member with this id, or NULL. */
const chat_member_t *chat_batch_find(const chat_batch_t *batch, chat_str_t id);

#endif /* CHAT_BATCH_H */
