/*
 * chat_external.h: external results: the body of a request that another
 * program sends to chat_results, the facts that it adds, and the reply.
 *
 * Promises: no I/O; any input is safe; a list is accepted whole or not at all;
 * a refusal names the field, and the result's index in a list.
 */

#ifndef CHAT_EXTERNAL_H
#define CHAT_EXTERNAL_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "facts/chat_conversation.h"
#include "facts/chat_batch.h"
#include "dialect/chat_dialect.h"
#include "json/chat_json.h"

/* One result or decision. */
typedef struct {
    chat_str_t         id;
    chat_outcome_e     outcome;  /* OK or ERROR; NONE: a decision */
    chat_approval_e    approval; /* GRANTED or REFUSED */
    const chat_json_t *value;    /* output or error text; the decision's
                                    reason, or NULL */
} chat_external_item_t;

/* Why a body is refused. */
typedef struct {
    unsigned    status; /* HTTP */
    const char *code;
    const char *message;
    const char *field; /* NULL: none in particular */
    size_t      index; /* in a list */
    int         listed;
} chat_external_refusal_t;

typedef struct {
    const chat_digest_t    *tenant; /* of the caller, set before facts() */
    chat_json_doc_t         doc;
    chat_str_t              conversation;
    chat_external_item_t   *items;
    size_t                  count;
    chat_rc_e               rc; /* the first failure; BAD: see refusal */
    chat_external_refusal_t refusal;
} chat_external_t;

/*
 * Reads {"conversation", "toolCallId", and one of "output", "errorText" or
 * "approved" (with "reason")}, or a list of them that all name the same
 * conversation. text must outlive *out. CHAT_BAD: out->refusal says why;
 * CHAT_ERROR: no memory.
 */
chat_rc_e chat_external_read(chat_external_t *out, chat_arena_t *arena,
                             chat_str_t text, size_t max_calls,
                             size_t max_result);

/*
 * Appends the facts that these results add to their batch, payloads in the
 * dialect's form. CHAT_BAD: the batch does not have such a call, out->refusal
 * says so; CHAT_ERROR: no memory.
 */
chat_rc_e chat_external_facts(chat_external_t      *out,
                              const chat_dialect_t *dialect,
                              const chat_batch_t *batch, chat_facts_t *facts);

/*
 * How many results the store has accepted: put is the output of
 * chat_external_facts(), facts is what the store has after the join.
 */
size_t chat_external_applied(const chat_facts_t *put, const chat_fact_t *facts,
                             size_t n);

/* 1 if the batch is neither finished, superseded nor cleared. */
int chat_external_is_open(const chat_batch_t *batch);

/* The batch as JSON, without payloads. */
void chat_external_show(const chat_batch_t         *batch,
                        const chat_indexed_batch_t *recorded,
                        chat_str_t conversation, chat_buf_t *out);

/* The ids of the batch's calls that a DELETE clears, as JSON; NULL: none. */
void chat_external_cleared(const chat_batch_t *batch, chat_buf_t *out);

/* The refusal as JSON. */
void chat_external_refuse(const chat_external_refusal_t *refusal,
                          chat_buf_t                    *out);

#endif /* CHAT_EXTERNAL_H */
