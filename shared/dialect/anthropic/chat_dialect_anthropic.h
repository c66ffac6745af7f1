/*
 * chat_dialect_anthropic.h: what the files of this dialect share.
 *
 * No other file includes this one.
 */

#ifndef CHAT_DIALECT_ANTHROPIC_H
#define CHAT_DIALECT_ANTHROPIC_H

#include "dialect/chat_dialect.h"

/* Members of the table; chat_dialect.h says what they promise. */
void     *chat_anthropic_open(chat_arena_t *arena, const chat_request_t *rq);
int       chat_anthropic_idle(const chat_frame_t *frame);
chat_rc_e chat_anthropic_read(void *reader, const chat_frame_t *frame);
void      chat_anthropic_piece(chat_stream_call_t *call, chat_str_t text);

/*
 * 1 if a content block is a call: tool_use is the client's to answer, all
 * other types that end in _tool_use are executed on the server side.
 */
int chat_anthropic_call(chat_json_doc_t *doc, const chat_json_t *block,
                        chat_kind_e *kind);

#endif /* CHAT_DIALECT_ANTHROPIC_H */
