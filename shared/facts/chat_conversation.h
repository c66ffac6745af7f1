/*
 * chat_conversation.h: the index of a conversation: its batches and streams.
 *
 * One more set of facts. batch/<ms>-<name>: a step that has members.
 * stream/<ms>-<id>: an answer that can be resumed, put before its request goes
 * upstream. hold/<ms>-<id>: a request waits for results. over/<id>: the stream
 * or the hold has ended, and how, or it is void: its request never went
 * upstream. stop/<id>: a client wants it to end. An id reveals nothing of the
 * conversation.
 */

#ifndef CHAT_CONVERSATION_H
#define CHAT_CONVERSATION_H

#include "bytes/chat_str.h"
#include "facts/chat_facts.h"

/*
 * The key of the conversation index: the batches that streams opened in it,
 * under the tag that all its batches have. CHAT_DECLINED: there is no
 * conversation, or the scope is anonymous.
 */
chat_rc_e chat_conversation_index_key(const chat_scope_t *scope,
                                      chat_key_t         *key);

#define CHAT_NAMES_MAX 2

/* A batch in a conversation's index: its names and its dialect. */
typedef struct {
    chat_digest_t names[CHAT_NAMES_MAX]; /* the facts are under each of them */
    size_t        nnames;                /* at least 1 */
    chat_str_t    dialect;               /* its name */
    uint64_t      ms;                    /* newest: when it was recorded */
} chat_indexed_batch_t;

/* batch/<ms>-<name>: of a conversation's record. */
void chat_facts_batch(chat_facts_t *facts, uint64_t ms,
                      const chat_indexed_batch_t *recorded);

/*
 * The newest batch in a conversation's record; it is the open one, if any is:
 * a step comes when the one before is answered or given up. Its dialect points
 * into the facts. CHAT_DECLINED: there is none.
 */
chat_rc_e chat_batch_newest(const chat_fact_t *facts, size_t n,
                            chat_indexed_batch_t *newest);


#define CHAT_LISTED_ID 16 /* characters of a stream's id */

typedef struct {
    chat_str_t    id;      /* CHAT_LISTED_ID hex digits */
    uint64_t      ms;      /* when it was listed */
    chat_str_t    dialect; /* its name */
    chat_str_t    worker;  /* the producer's */
    chat_digest_t name;    /* of the record's key */
    chat_end_e    end;     /* NONE: it has not ended */
    int           empty;   /* void: it has, without an upstream request */
    int           stopped; /* a client wants it to end */
} chat_listed_t;

/* The id of the stream with this recording: CHAT_LISTED_ID and a NUL. */
void chat_listed_id(const chat_key_t *key, char *id);

/* 1 if these are the characters of an id. */
int chat_listed_is_id(chat_str_t id);

typedef enum {
    CHAT_LISTED_STREAM,
    CHAT_LISTED_HOLD /* a request that waits for results */
} chat_listed_kind_e;

/* stream/<ms>-<id> or hold/...: end and stopped are not looked at. */
void chat_facts_listed(chat_facts_t *facts, chat_listed_kind_e kind,
                       const chat_listed_t *listed);

/* over/<id> (end NONE: it is void) and stop/<id>. */
#define chat_facts_over(facts, id, end) \
    chat_facts_put(facts, "over/%v", "%s", id, chat_end_names[end])
#define chat_facts_stop(facts, id) chat_facts_put(facts, "stop/%v", "1", id)

#define CHAT_LISTED_LOOK 16

/*
 * The stream with this id; id empty: the newest one that is not void, of the
 * newest CHAT_LISTED_LOOK. Strings point into the facts. CHAT_DECLINED: none.
 */
#define chat_listed_find(facts, n, id, out) \
    chat_listed_running(facts, n, CHAT_LISTED_STREAM, id, NULL, NULL, out)

/*
 * The same of those streams or holds that run: they have not ended, no client
 * wants them to, and alive(data, worker) is 1. NULL: some may have ended.
 */
chat_rc_e chat_listed_running(const chat_fact_t *facts, size_t n,
                              chat_listed_kind_e kind, chat_str_t id,
                              int (*alive)(void *data, chat_str_t worker),
                              void *data, chat_listed_t *out);

#define CHAT_LISTED_KEPT 64 /* streams, and batches, that a record keeps */
#define CHAT_LISTED_MOST (4 * CHAT_LISTED_KEPT) /* facts without a surplus */

/*
 * The fields of what a conversation does not need any more: batches but for
 * the newest CHAT_LISTED_KEPT, likewise streams that have ended, and all holds
 * that have, with what is said of them. Fields point into the facts; *fields
 * is in the arena. Returns how many; 0 also without memory.
 */
size_t chat_listed_surplus(const chat_fact_t *facts, size_t n,
                           chat_arena_t *arena, chat_str_t **fields);

/* Where a client wants to go on. */
typedef struct {
    chat_str_t stream; /* empty: the newest */
    uint64_t   after;  /* the last event that it has; 0: none */
    int        given;  /* it has said so */
} chat_position_t;

/*
 * "<stream>-<n>" (Last-Event-ID), or "<n>" alone; CHAT_BAD: it is neither.
 * stream points into text.
 */
chat_rc_e chat_position_read(chat_str_t text, chat_position_t *out);

#endif /* CHAT_CONVERSATION_H */
