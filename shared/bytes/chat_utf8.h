/*
 * chat_utf8.h: well-formed UTF-8 (RFC 3629).
 *
 * No overlong forms, no surrogates, nothing above U+10FFFF.
 */

#ifndef CHAT_UTF8_H
#define CHAT_UTF8_H

#include "bytes/chat_str.h"

/*
 * The bytes of the character that s, which is not empty, begins with. 0: it
 * begins with none.
 */
size_t chat_utf8_len(chat_str_t s);

/* 1 if s is UTF-8. */
int chat_utf8_is_valid(chat_str_t s);

/* Encodes ch, a valid code point; returns the number of bytes. */
size_t chat_utf8_put(uint32_t ch, unsigned char out[4]);

#endif /* CHAT_UTF8_H */
