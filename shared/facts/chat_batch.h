/*
 * chat_batch.h: what the facts of a batch mean.
 *
 * The one reader of facts, for both stores, the tests, the simulation and the
 * fuzzers: members, results, seal, attempts. Facts may come in any order.
 */

#ifndef CHAT_BATCH_H
#define CHAT_BATCH_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_table.h"
#include "facts/chat_facts.h"

/* 1 if there is that fact; id empty: one of any message. */
int chat_batch_has_message(const chat_fact_t *facts, size_t n, chat_str_t id);

/* A result that a request carries, in bytes: of its call, then of itself. */
#define CHAT_CARRIED 12
#define CHAT_CARRIED_ID 4

/* Writes one; outcome NONE and no digest: the result that the store has. */
void chat_carried(chat_str_t id, chat_outcome_e outcome,
                  const chat_hash_t *digest, char *out);

/* Sorts n of them: the text that a claim has. */
chat_str_t chat_carried_text(char *list, size_t n);

/* 1 if no call has one result in one text and another one in the other. */
int chat_carried_agree(chat_str_t one, chat_str_t other);

/* 1 if the text, which is sorted, has a result of this call. */
int chat_carried_has(chat_str_t results, chat_str_t id);


/* A call as the store knows it. */
typedef struct {
    chat_str_t      id;
    int             is_call; /* a call/ fact, or a result of one, says so */
    int             asks;    /* there is an ask/ fact: kind is APPROVAL */
    chat_kind_e     kind;
    uint32_t        position;
    chat_hash_t     fingerprint;
    chat_outcome_e  outcome;     /* NONE: no result */
    chat_hash_t     digest;      /* of the result */
    chat_hash_t     answered;    /* fingerprint that the result answered */
    int             has_payload; /* of the result */
    chat_str_t      payload;     /* of the result; set by payloads() alone */
    chat_str_t      reason;      /* of the approval, likewise */
    int             delivered;   /* there is a delivered/ fact */
    chat_approval_e approval;    /* GRANTED, REFUSED or NONE */
    chat_table_entry_t *entry;   /* in the batch's index */
} chat_member_t;

/* A request beside an attempt of the same content. */
typedef struct {
    chat_str_t    claimant; /* <worker>/<request> */
    unsigned char content[16];
    uint64_t      retry; /* tries of its client before it */
} chat_twin_t;

typedef struct {
    uint64_t        since; /* ms; 0: no fact says it */
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
    size_t          ncalls; /* members with is_call */
    chat_table_t    index;  /* of members, by id: the number is the place,
                               from 1 on */
    chat_str_t     *waits;  /* workers that are woken by a change */
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
 * An attempt of a dead worker without an end counts as interrupted: 1,
 * and its end says so. alive(data, worker) says whether a worker lives.
 */
int chat_attempt_expire_dead(chat_attempt_t *attempt,
                             int (*alive)(void *data, chat_str_t worker),
                             void *data);

/* 1 if the member has a result of a call with this fingerprint; NULL: any. */
int chat_member_has_result(const chat_member_t *member,
                           const chat_hash_t   *fingerprint);

/* The member with this id, or NULL. */
const chat_member_t *chat_batch_find(const chat_batch_t *batch, chat_str_t id);

#endif /* CHAT_BATCH_H */
