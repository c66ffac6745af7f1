/*
 * chat_mix.h: a fast keyed hash of 128 bits, for texts of one tenant.
 *
 * Without the key, which must be a secret of the tenant, texts that collide
 * cannot be chosen. It is no MAC: its value must not leave the tenant. The
 * byte order of the machine is that of the value.
 */

#ifndef CHAT_MIX_H
#define CHAT_MIX_H

#include "bytes/chat_digest.h"

/* The value of the hash. */
typedef struct {
    unsigned char bytes[16];
} chat_hash_t;

typedef struct {
    uint64_t state[2];
    uint64_t key[2];
} chat_mix_t;

static inline void
chat_mix_init(chat_mix_t *mix, const chat_digest_t *key)
{
    memcpy(mix->state, key->bytes, sizeof(mix->state));
    memcpy(mix->key, key->bytes + sizeof(mix->state), sizeof(mix->key));
}


/* Adds s, and its length. */
void chat_mix_add(chat_mix_t *mix, chat_str_t s);

/* The value so far. */
static inline void
chat_mix_end(const chat_mix_t *mix, unsigned char out[16])
{
    memcpy(out, mix->state, sizeof(mix->state));
}


static inline int
chat_hash_eq(const chat_hash_t *a, const chat_hash_t *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}


/* Of s alone, for a table; mix has only its key. */
uint64_t chat_mix_hash(chat_mix_t mix, chat_str_t s);

#endif /* CHAT_MIX_H */
