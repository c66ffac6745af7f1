/*
 * chat_merge.h: puts results into a body.
 *
 * Promises: the merged body is valid JSON, every byte that no result needed
 * stays where it was; a call that has its result is never touched.
 * Must not know: stores, NGINX.
 */

#ifndef CHAT_MERGE_H
#define CHAT_MERGE_H

#include "chat_base.h"
#include "chat_arena.h"
#include "chat_dialect.h"

/*
 * Appends body with the results spliced in to out. The body is read anew with
 * the dialect; results[].id says which calls of which step they answer:
 * every unanswered occurrence within the steps [step, step + 1) given by
 * results[].call, or, where that is NULL, of the chained body. CHAT_BAD: the
 * body cannot take them (nothing is appended).
 */
chat_rc_e chat_merge(const chat_dialect_t *dialect, chat_json_doc_t *doc,
                     const chat_request_t *rq, const chat_result_t *results,
                     size_t n, chat_buf_t *out);

#endif /* CHAT_MERGE_H */
