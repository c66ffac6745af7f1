/*
 * chat_dialect_ag_ui.h: what the files of the AG-UI dialect share.
 *
 * chat_dialect_ag_ui.c reads and completes requests, writes what the module
 * says itself, and has the row; _stream.c reads streams.
 */

#ifndef CHAT_DIALECT_AG_UI_H
#define CHAT_DIALECT_AG_UI_H

#include "dialect/chat_dialect.h"

/* Members of chat_dialect_ag_ui; chat_dialect.h says what they promise. */
void     *chat_ag_ui_open(chat_arena_t *arena, const chat_request_t *rq);
chat_rc_e chat_ag_ui_read(void *reader, const chat_frame_t *frame);


/* The side that answers calls of this tool; rq may be NULL. */
chat_kind_e chat_ag_ui_kind(const chat_request_t *rq, chat_str_t name);

/* ASIDE: reasoning, activity, developer and others, between messages. */
chat_role_e chat_ag_ui_role(chat_json_doc_t *doc, const chat_json_t *message);


/* The name, the arguments as text and the result of a call in a body. */
chat_str_t chat_ag_ui_call_name(chat_json_doc_t *doc, const chat_json_t *call);
chat_str_t chat_ag_ui_call_args(chat_json_doc_t *doc, const chat_json_t *call);

/* What a tool message says: outcome, and digest of content and error. */
chat_outcome_e chat_ag_ui_tool_outcome(chat_json_doc_t   *doc,
                                       const chat_json_t *message);
chat_rc_e      chat_ag_ui_tool_digest(chat_json_doc_t   *doc,
                                      const chat_json_t *message,
                                      chat_digest_t     *digest);

#endif /* CHAT_DIALECT_AG_UI_H */
