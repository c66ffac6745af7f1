/*
 * chat_batch_read.h: what the readers of facts share.
 *
 * For chat_batch*.c, chat_record.c and chat_listed.c alone; all others read
 * facts by chat_batch_read(), chat_record_read() and chat_listed_find().
 * Promises: two texts are never one number, and no length is trusted.
 * Must not know: stores, dialects, time.
 */

#ifndef CHAT_BATCH_READ_H
#define CHAT_BATCH_READ_H

#include "facts/chat_batch.h"

/* Cuts the next word off *s; an empty word where there is none. */
chat_str_t chat_batch_word(chat_str_t *s);

/*
 * 1 and *out if s is a decimal number of at most 18 digits, as it is written
 * here: two texts are never one number.
 */
int chat_batch_number(chat_str_t s, uint64_t *out);

/* 1 and out[16] if s is 32 hex digits. */
int chat_batch_hex(chat_str_t s, unsigned char *out);

/* 1 and *out if s is the hex digits of a digest, which names something. */
int chat_batch_name(chat_str_t s, chat_digest_t *out);

/* The rest of field behind prefix into *rest; 0 if it does not begin so. */
int chat_batch_under(chat_str_t field, const char *prefix, chat_str_t *rest);

/*
 * Reads batch->last and batch->answered. CHAT_ERROR without memory.
 */
chat_rc_e chat_batch_read_attempts(const chat_fact_t *facts, size_t n,
                                   chat_arena_t *arena, chat_batch_t *batch);

#endif /* CHAT_BATCH_READ_H */
