/*
 * chat_dialect_anthropic.h: what the files of this dialect share.
 *
 * chat_dialect_anthropic.c has the table and what the module says itself,
 * _request.c reads and completes requests, _stream.c reads and edits answers.
 * No other file includes this one.
 */

#ifndef CHAT_DIALECT_ANTHROPIC_H
#define CHAT_DIALECT_ANTHROPIC_H

#include "dialect/chat_dialect.h"

/* Members of the table; chat_dialect.h says what they promise. */
chat_rc_e chat_anthropic_request(chat_json_doc_t *doc, chat_arena_t *arena,
                                 chat_request_t *rq);
chat_rc_e chat_anthropic_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                                const chat_result_t *results, size_t n,
                                chat_edits_t *edits);
void     *chat_anthropic_open(chat_arena_t *arena, const chat_request_t *rq);
int       chat_anthropic_boring(void *data, const chat_frame_t *frame);
int       chat_anthropic_idle(const chat_frame_t *frame);
chat_rc_e chat_anthropic_read(void *reader, const chat_frame_t *frame);

/*
 * 1 if a content block is a call: tool_use is the client's to answer, all
 * other types that end in _tool_use are executed on the server side.
 */
int chat_anthropic_call(chat_json_doc_t *doc, const chat_json_t *block,
                        chat_kind_e *kind);

/* The first block of a message's content; NULL where it is no array. */
const chat_json_t *chat_anthropic_blocks(chat_json_doc_t   *doc,
                                         const chat_json_t *message);

/* 1 if this is a message of the role, or a block of the type. */
int chat_anthropic_role(chat_json_doc_t *doc, const chat_json_t *message,
                        const char *role);
int chat_anthropic_type(chat_json_doc_t *doc, const chat_json_t *block,
                        const char *type);

#endif /* CHAT_DIALECT_ANTHROPIC_H */
