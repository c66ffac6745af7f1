/*
 * chat_dialect_ai_sdk_retell.h: chunks of a stream, made of a message's parts.
 *
 * chat_dialect_ai_sdk_retell.c says which and in what order, _retell_chunk.c
 * knows what goes into each. Must not know, as they: stores, policy.
 */

#ifndef CHAT_DIALECT_AI_SDK_RETELL_H
#define CHAT_DIALECT_AI_SDK_RETELL_H

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"

/* The chunks that are made, as bits: in which of them a member goes. */
#define CHAT_CHUNK_START 0x0001u /* tool-input-start, of a part */
#define CHAT_CHUNK_AGAIN 0x0002u /* the same, of tool-input-available */
#define CHAT_CHUNK_READY 0x0004u /* tool-input-available */
#define CHAT_CHUNK_WRONG 0x0008u /* tool-input-error */
#define CHAT_CHUNK_OK 0x0010u    /* tool-output-available */
#define CHAT_CHUNK_ERROR 0x0020u /* tool-output-error */
#define CHAT_CHUNK_ASK 0x0040u   /* tool-approval-request, of an approval */
#define CHAT_CHUNK_BEGIN 0x0080u /* text-start, reasoning-start */
#define CHAT_CHUNK_DELTA 0x0100u
#define CHAT_CHUNK_END 0x0200u
#define CHAT_CHUNK_FILE 0x0400u
#define CHAT_CHUNK_URL 0x0800u
#define CHAT_CHUNK_DOCUMENT 0x1000u
#define CHAT_CHUNK_CUSTOM 0x2000u
#define CHAT_CHUNK_STEERING 0x4000u
#define CHAT_CHUNK_DATA 0x8000u
#define CHAT_CHUNK_PLAIN 0u

#define CHAT_CHUNK_CALL \
    (CHAT_CHUNK_START | CHAT_CHUNK_AGAIN | CHAT_CHUNK_READY | CHAT_CHUNK_WRONG)
#define CHAT_CHUNK_RESULT (CHAT_CHUNK_OK | CHAT_CHUNK_ERROR)

/* 1 if the part has what the chunk must have. */
int chat_ai_sdk_chunk_has(chat_json_doc_t *doc, const chat_json_t *part,
                          unsigned chunk);

void chat_ai_sdk_chunk_begin(const char *type, chat_buf_t *out);

/* The members of a chunk that is begun, and its end. */
void chat_ai_sdk_chunk_end(chat_json_doc_t *doc, const chat_json_t *part,
                           unsigned chunk, chat_buf_t *out);

#endif /* CHAT_DIALECT_AI_SDK_RETELL_H */
