/*
 * chat_json_number.h: a JSON number as ECMAScript's Number::toString has it.
 *
 * Part of chat_json_canon.c that stands by itself. Must not know: trees.
 */

#ifndef CHAT_JSON_NUMBER_H
#define CHAT_JSON_NUMBER_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"

/*
 * Appends the number s (JSON text that was parsed) to out in RFC 8785 form;
 * one that no double can hold as it stands. The arena serves as scratch.
 */
void chat_json_number(chat_arena_t *arena, chat_str_t s, chat_buf_t *out);

#endif /* CHAT_JSON_NUMBER_H */
