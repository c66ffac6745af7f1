/*
 * chat_merge.h: selects the results for a body and inserts them.
 *
 * Promises: the merged body is valid JSON, and only the places of the results
 * change; a call with a result is not touched; a result goes only into a call
 * with the arguments that it answered.
 */

#ifndef CHAT_MERGE_H
#define CHAT_MERGE_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "facts/chat_batch.h"
#include "dialect/chat_dialect.h"

#define CHAT_OPEN_MAX 1024 /* calls that are answered without the store */

typedef struct {
    chat_result_t *items;
    size_t         count;
    size_t         size;    /* room in items */
    chat_result_t *decided; /* approvals of calls that take no result: those
                               settled already, in a fresh turn all */
    size_t         ndecided;
    size_t         decided_size;
    chat_arena_t  *arena;  /* of the caller; holds the lists */
    int            failed; /* 1: no memory; stays 1 */
} chat_results_t;

void chat_results_init(chat_results_t *results, chat_arena_t *arena);

/*
 * Adds what the store has for a step: facts are the answer of payloads() for
 * its fields. Every occurrence of a call in the step that has no result of
 * its own gets one; for a chained step what the body does not bring is added
 * in the order of its calls, which order (norder calls) gives. approvals: 0
 * leaves approvals out (fresh turns). Payloads stay the caller's. CHAT_ERROR
 * without memory.
 */
chat_rc_e chat_results_collect(chat_results_t       *results,
                               const chat_request_t *rq,
                               const chat_step_t    *step,
                               const chat_fact_t *facts, size_t n,
                               const chat_call_t *order, size_t norder,
                               int approvals);

/*
 * Adds what the store could not give to the calls of a body, after all that
 * it could was collected: a call that stands twice and is answered in
 * one place takes that answer in the other. unknown: all other open calls
 * take an error that says that their outcome is unknown; it is for this
 * body alone and never stored. CHAT_LIMIT: more than CHAT_OPEN_MAX of them,
 * CHAT_ERROR: no memory; nothing is added then.
 */
chat_rc_e chat_results_open(chat_results_t *results, const chat_request_t *rq,
                            int unknown);

/*
 * The same error for the calls of a chained step that neither the body nor
 * the store answers; order gives all its calls, with what the store knows of
 * their approval and whether their result was delivered.
 */
chat_rc_e chat_results_open_chain(chat_results_t       *results,
                                  const chat_request_t *rq,
                                  const chat_step_t    *step,
                                  const chat_call_t *order, size_t norder);

/*
 * Appends the body of doc with the results and decisions put in to out. rq
 * was read from doc by dialect. CHAT_BAD: the body cannot take them, nothing
 * is appended; CHAT_ERROR: no memory.
 */
chat_rc_e chat_merge(const chat_dialect_t *dialect, chat_json_doc_t *doc,
                     const chat_request_t *rq, const chat_results_t *results,
                     chat_buf_t *out);

/*
 * Copies to *injected, an empty list, the results of calls that stand
 * unanswered in the client's last message, each call once: what its transcript
 * lacks. Errors of calls without a result are left out. CHAT_ERROR: no memory.
 */
chat_rc_e chat_results_injected(const chat_results_t *results,
                                chat_results_t       *injected);

#endif /* CHAT_MERGE_H */
