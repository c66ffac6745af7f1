/*
 * chat_dialect_openai_chat.h: what the files of this dialect share.
 *
 * No other file includes this one.
 */

#ifndef CHAT_DIALECT_OPENAI_CHAT_H
#define CHAT_DIALECT_OPENAI_CHAT_H

#include "dialect/chat_dialect.h"

#define CHAT_COMPLETIONS_CHOICES 128    /* higher ones are skipped, */
#define CHAT_COMPLETIONS_INDEXES 0xffff /* and so are higher indexes */

/* Members of the table; chat_dialect.h says what they promise. */
void     *chat_openai_chat_open(chat_arena_t *arena, const chat_request_t *rq);
int       chat_openai_chat_idle(const chat_frame_t *frame);
chat_rc_e chat_openai_chat_read(void *reader, const chat_frame_t *frame);
void      chat_openai_chat_piece(chat_stream_call_t *call, chat_str_t text);

/*
 * The kind of a tool call by its type: only what is known to be answered by a
 * tool message is the client's.
 */
chat_kind_e chat_openai_chat_kind(chat_json_doc_t   *doc,
                                  const chat_json_t *call);

/* The object in a tool call that has its name and arguments. */
const chat_json_t *chat_openai_chat_function(chat_json_doc_t   *doc,
                                             const chat_json_t *call);

/* The arguments in it, or NULL; and as text, empty if there are none. */
const chat_json_t *chat_openai_chat_arguments(chat_json_doc_t   *doc,
                                              const chat_json_t *function);
chat_str_t         chat_openai_chat_text(chat_json_doc_t   *doc,
                                         const chat_json_t *value);

#endif /* CHAT_DIALECT_OPENAI_CHAT_H */
