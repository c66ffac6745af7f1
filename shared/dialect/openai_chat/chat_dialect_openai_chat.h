/*
 * chat_dialect_openai_chat.h: what the files of this dialect share.
 *
 * chat_dialect_openai_chat.c has the table and what the module says itself,
 * _request.c reads and completes requests, _stream.c reads answers. No other
 * file includes this one.
 */

#ifndef CHAT_DIALECT_OPENAI_CHAT_H
#define CHAT_DIALECT_OPENAI_CHAT_H

#include "dialect/chat_dialect.h"

#define CHAT_COMPLETIONS_CHOICES 128    /* higher ones are skipped, */
#define CHAT_COMPLETIONS_INDEXES 0xffff /* and so are higher indexes */

/* Members of the table; chat_dialect.h says what they promise. */
chat_rc_e chat_openai_chat_request(chat_json_doc_t *doc, chat_arena_t *arena,
                                   chat_request_t *rq);
chat_rc_e chat_openai_chat_splice(chat_json_doc_t      *doc,
                                  const chat_request_t *rq,
                                  const chat_result_t *results, size_t n,
                                  chat_edits_t *edits);
void     *chat_openai_chat_open(chat_arena_t *arena, const chat_request_t *rq);
int       chat_openai_chat_boring(void *data, const chat_frame_t *frame);
int       chat_openai_chat_idle(const chat_frame_t *frame);
chat_rc_e chat_openai_chat_read(void *reader, const chat_frame_t *frame);

/*
 * The kind of a tool call by its type: only what is known to be answered by a
 * tool message is the client's.
 */
chat_kind_e chat_openai_chat_kind(chat_json_doc_t   *doc,
                                  const chat_json_t *call);

/* The object in a tool call that has its name and arguments. */
const chat_json_t *chat_openai_chat_function(chat_json_doc_t   *doc,
                                             const chat_json_t *call);

/* The arguments in it as text; empty if there are none. */
chat_str_t chat_openai_chat_arguments(chat_json_doc_t   *doc,
                                      const chat_json_t *function);

#endif /* CHAT_DIALECT_OPENAI_CHAT_H */
