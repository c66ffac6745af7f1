/*
 * chat_dialect_ai_sdk.h: what the files of the AI SDK dialect share.
 *
 * chat_dialect_ai_sdk.c reads and completes requests, writes what the module
 * says itself, and has the row; _stream.c reads streams; _history.c replays a
 * message of a request as events.
 */

#ifndef CHAT_DIALECT_AI_SDK_H
#define CHAT_DIALECT_AI_SDK_H

#include "dialect/chat_dialect.h"

chat_rc_e chat_ai_sdk_read(void *reader, const chat_frame_t *frame);
chat_rc_e chat_ai_sdk_history(chat_json_doc_t *doc, chat_buf_t *out);
chat_rc_e chat_ai_sdk_resolve_pending(chat_json_doc_t     *doc,
                                      const chat_result_t *results, size_t n,
                                      chat_buf_t *out);

/*
 * What a client takes of these results: those of calls in its last message,
 * but no decision.
 */
void chat_ai_sdk_tell(const chat_result_t *results, size_t n, chat_buf_t *out);

/* What an absent output counts as, and an absent error text. */
#define CHAT_AI_SDK_NO_OUTPUT "null"
#define CHAT_AI_SDK_NO_ERROR "\"\""

/* The last of the messages, or the only one; NULL: there is none. */
const chat_json_t *chat_ai_sdk_last_message(chat_json_doc_t *doc);

/* Where a part is now, of all states that a part can be in. */
typedef enum {
    CHAT_PART_UNKNOWN,   /* of another version: not ours to answer */
    CHAT_PART_STREAMING, /* its arguments never became complete */
    CHAT_PART_READY,     /* waits for a result */
    CHAT_PART_ASKED,     /* waits for an approval */
    CHAT_PART_RESPONDED, /* has been approved or refused */
    CHAT_PART_OK,
    CHAT_PART_ERROR,
    CHAT_PART_DENIED
} chat_ai_sdk_part_e;

chat_ai_sdk_part_e chat_ai_sdk_part_state(chat_json_doc_t   *doc,
                                          const chat_json_t *state);

/* 1 if the part of this type is a call; then *name is the tool's. */
int chat_ai_sdk_part_call(chat_json_doc_t *doc, const chat_json_t *part,
                          chat_str_t type, chat_str_t *name);

/* A call of the stream. */
typedef struct {
    chat_stream_call_t call;
    int                dynamic;
} chat_ai_sdk_call_t;

/* What reads a stream. */
typedef struct {
    chat_reader_t reader;
    chat_table_t  asks; /* key: the approvalId; item: the chat_known_t */
    chat_str_t    id;   /* toolCallId of the chunk that is being read */
} chat_ai_sdk_reader_t;

#endif /* CHAT_DIALECT_AI_SDK_H */
