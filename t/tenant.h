/*
 * tenant.h: the tenant of the tests, the key of their hashes.
 */

#ifndef TENANT_H
#define TENANT_H

#include "bytes/chat_mix.h"

static const chat_digest_t test_tenant = { "the tenant of most of the tests" };


static inline chat_hash_t
test_hash(chat_str_t s)
{
    chat_mix_t  mix;
    chat_hash_t out;

    chat_mix_init(&mix, &test_tenant);
    chat_mix_add(&mix, s);
    chat_mix_end(&mix, out.bytes);
    return out;
}


#endif /* TENANT_H */
