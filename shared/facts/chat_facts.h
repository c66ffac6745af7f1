/*
 * chat_facts.h: names of batches, and the facts that a store keeps of them.
 *
 * A fact is a field and a value, put if absent and never changed. The field
 * says what the fact is about, the value is a few words separated by single
 * spaces; a hash is a word of 16 bytes, whatever they are. Readers survive any
 * bytes: a fact that does not parse is as good as absent.
 */

#ifndef CHAT_FACTS_H
#define CHAT_FACTS_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_digest.h"
#include "model/chat_event.h"
#include "model/chat_request.h"

#define CHAT_ID_MAX 1024          /* bytes of a call id that can be managed */
#define CHAT_ATTEMPTS_MAX 1000000 /* claims past it are not believed */

/*
 * Where a batch lives: tag is of (tenant, conversation), name of the batch.
 * Two keys are the same if their names are.
 */
typedef struct {
    chat_digest_t tag;
    chat_digest_t name;
    uint64_t tenant; /* its first bytes: the owner of a share of the store */
} chat_key_t;

/* The owner of a batch: what all names of one conversation have in common. */
typedef struct {
    chat_digest_t tenant;    /* of the application and its user */
    int           anonymous; /* there is no user: no name can be derived */
    chat_str_t    dialect;
    chat_str_t    conversation; /* empty: none */
    int           by_message;   /* dialect->weak_by_message */
} chat_scope_t;

/* The tag of all keys of the scope's conversation, which is not empty. */
void chat_scope_tag(const chat_scope_t *scope, chat_digest_t *tag);

/* The tenant in a key. */
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


#define CHAT_AFTER_MAX 86400 /* seconds: the longest Retry-After */

/* Whether an answer is recorded, for others that follow. */
typedef enum {
    CHAT_RECORDING_UNKNOWN,   /* not decided yet */
    CHAT_RECORDING_WANTED,    /* a follower came first: it is */
    CHAT_RECORDING_KEPT,      /* the producer records it anyway */
    CHAT_RECORDING_NONE,      /* the producer came first: it is not */
    CHAT_RECORDING_IMPOSSIBLE /* it is not, whatever followers want */
} chat_recording_mode_e;

typedef struct {
    chat_str_t    worker;
    chat_str_t    request;
    chat_str_t    results; /* that it carries; see chat_carried_agree() */
    unsigned char signature[16]; /* zero: no request has its content */
    unsigned char retry_key[16]; /* of Idempotency-Key; zero: none */
    uint64_t      ms;            /* when it was claimed; 0: not known */
    uint32_t      k;             /* 0: there was none */
    uint32_t      answer;        /* HTTP status; 0: none yet */
    uint32_t      after;         /* its Retry-After in seconds; 0: none */
    chat_end_e    end;
    int           whole; /* its end says the answer, too: both came at once */
    int           is_void; /* nothing was sent */
    chat_recording_mode_e recording;
} chat_attempt_t;

/*
 * One fact. payload, where has_payload, is kept apart: a store keeps the
 * first payload that comes with the value that stands, and then returns the
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
    int           failed; /* no memory: nothing more is added */
} chat_facts_t;

/* A field: the prefix and the id behind it; empty without memory. */
chat_str_t chat_facts_field(chat_arena_t *arena, const char *prefix,
                            chat_str_t id);

/* An empty list; arena NULL: it has failed. */
void chat_facts_init(chat_facts_t *facts, chat_arena_t *arena);

/* n more facts as they are. */
void chat_facts_append(chat_facts_t *facts, const chat_fact_t *items,
                       size_t n);

/*
 * A fact with this field and value, both as for chat_buf_format(), with the
 * arguments of the field first.
 */
void chat_facts_put(chat_facts_t *facts, const char *field, const char *value,
                    ...);

/* A fact of this field: seal, broken, partial... */
#define chat_facts_add(facts, field, value) \
    chat_facts_put(facts, field, "%v", value)

/* Gives the last fact this payload. */
void chat_facts_payload(chat_facts_t *facts, chat_str_t payload);

/* since: ms since the epoch; without it the first claim says it. */
#define chat_facts_since(facts, ms) \
    chat_facts_put(facts, "since", "%d", (uint64_t) (ms))

/*
 * call/<id>: position is the call's place in its step, from 0. One that asks
 * for an approval may be known as a call before that: ask/<id> says it too.
 */
void chat_facts_call(chat_facts_t *facts, chat_str_t id, chat_kind_e kind,
                     uint32_t position, const chat_hash_t *fingerprint);

/*
 * result/<id>: outcome OK, ERROR or DENIED; digest of the result; fingerprint
 * of the call that it answers (all zero: not known); without one of them
 * (NULL) the list fails. payload may be NULL.
 */
void chat_facts_result(chat_facts_t *facts, chat_str_t id,
                       chat_outcome_e outcome, const chat_hash_t *digest,
                       const chat_hash_t *fingerprint,
                       const chat_str_t  *payload);

/* message/<id>: a request that continues this message is held. */
#define chat_facts_message(facts, id) \
    chat_facts_put(facts, "message/%v", "1", id)

/*
 * delivered/<id>: a request that has no attempt carried the call's result,
 * and its answer was 2xx.
 */
#define chat_facts_delivered(facts, id) \
    chat_facts_put(facts, "delivered/%v", "1", id)

/* approval/<id>: GRANTED or REFUSED; reason (JSON text) is its payload. */
void chat_facts_approval(chat_facts_t *facts, chat_str_t id,
                         chat_approval_e approval, chat_str_t reason);

/*
 * claim/<k>, of the attempt's k, worker and request (both free of spaces),
 * signature, retry_key, ms and results. Answer and end are not in it.
 */
void chat_facts_claim(chat_facts_t *facts, const chat_attempt_t *attempt);

/*
 * twin/<worker>/<request>: that request has the content (16 bytes) of another
 * one's attempt, and has not claimed itself; retry is how often its client
 * had tried before.
 */
#define chat_facts_twin(facts, worker, request, content, retry)            \
    chat_facts_put(facts, "twin/%v/%v", "%h %u", worker, request, content, \
                   retry)

/*
 * What is known of the attempt beside its claim (answer, after, end, is_void,
 * recording): answer/<k>/<worker>/<request> and so on. They name the claimant,
 * and say nothing while claim/<k> is another one's: a request that does not
 * know whether its claim stands may put them all the same. recording is put
 * first: where a store has an answer, it has what decides on the recording.
 */
void chat_facts_attempt(chat_facts_t *facts, const chat_attempt_t *attempt);

/* open: the producer's worker and the CORS header lines of its answer. */
#define chat_facts_open(facts, worker, cors)        \
    chat_facts_put(facts, "open", "%v%s%v", worker, \
                   (cors).len != 0 ? "\n" : "", cors)

#endif /* CHAT_FACTS_H */
