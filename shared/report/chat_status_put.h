/*
 * chat_status_put.h: between the files of chat_status: texts into JSON.
 *
 * Promises: whatever the bytes are, what is appended is a JSON string.
 * Must not know: what the texts are of.
 */

#ifndef CHAT_STATUS_PUT_H
#define CHAT_STATUS_PUT_H

#include "report/chat_status.h"

/* With U+FFFD for bytes that are no character; cut: an ellipsis behind it. */
void chat_status_put(chat_buf_t *out, chat_str_t s, int cut);

void chat_status_put_short(chat_buf_t *out, const chat_short_t *id);

/* Microseconds as seconds, as a JSON number without an exponent. */
void chat_status_put_seconds(chat_buf_t *out, uint64_t us);

void chat_status_put_hex(chat_buf_t *out, const unsigned char *bytes,
                         size_t n);

#endif /* CHAT_STATUS_PUT_H */
