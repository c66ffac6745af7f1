/*
 * chat_digest.h: SHA-256, by libcrypto, which every NGINX with SSL links.
 *
 * Also bytes as hex digits.
 */

#ifndef CHAT_DIGEST_H
#define CHAT_DIGEST_H

#include "bytes/chat_str.h"

#define CHAT_DIGEST_SIZE 32

typedef struct {
    unsigned char bytes[CHAT_DIGEST_SIZE];
} chat_digest_t;

/* SHA-256 of s. */
void chat_digest(chat_str_t s, chat_digest_t *out);

/* SHA-256 of the n parts, each behind its length, 7 bits a byte. */
void chat_digest_parts(const chat_str_t *parts, size_t n, chat_digest_t *out);

/* The same of the parts behind out. */
#define chat_digest_of(out, ...)                                  \
    chat_digest_parts((const chat_str_t[]){ __VA_ARGS__ },        \
                      sizeof((const chat_str_t[]){ __VA_ARGS__ }) \
                          / sizeof(chat_str_t),                   \
                      out)

static inline chat_str_t
chat_digest_str(const chat_digest_t *digest)
{
    return chat_str(digest->bytes, CHAT_DIGEST_SIZE);
}


/* n bytes, a multiple of 4, as 2n lower-case hex digits and a NUL, to out. */
void chat_hex(const unsigned char *bytes, size_t n, char *out);

/* 1 and out[n], n likewise, if s is 2n such digits; else out is anything. */
int chat_hex_read(chat_str_t s, unsigned char *out, size_t n);

static inline int
chat_digest_eq(const chat_digest_t *a, const chat_digest_t *b)
{
    return memcmp(a->bytes, b->bytes, CHAT_DIGEST_SIZE) == 0;
}


#endif /* CHAT_DIGEST_H */
