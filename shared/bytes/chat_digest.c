/*
 * chat_digest.c: SHA-256, by libcrypto; the only file that includes openssl.
 *
 * One context serves all digests of the process: making one, and looking the
 * algorithm up, costs more than hashing what we hash. Like NGINX it is for
 * one thread.
 * Promises: chat_digest_parts() is injective in its parts. A digest is never
 * wrong: two tenants with one name would share their conversations, so where
 * libcrypto has no memory left the process ends. After the first digest
 * nothing is allocated, so this can happen at the start only.
 * Must not know: what is hashed.
 */

#include "bytes/chat_digest.h"

#include <openssl/evp.h>

#include <stdlib.h>

static EVP_MD_CTX *chat_digest_ctx;


static void
chat_digest_need(int ok)
{
    if (!ok) {
        abort();
    }
}


static void
chat_digest_begin(void)
{
    if (chat_digest_ctx == NULL) {
        chat_digest_ctx = EVP_MD_CTX_new();
        chat_digest_need(chat_digest_ctx != NULL);
        chat_digest_need(
            EVP_DigestInit_ex(chat_digest_ctx, EVP_sha256(), NULL));
        return;
    }

    chat_digest_need(EVP_DigestInit_ex(chat_digest_ctx, NULL, NULL));
}


static void
chat_digest_add(chat_str_t s)
{
    if (s.len != 0) {
        chat_digest_need(EVP_DigestUpdate(chat_digest_ctx, s.data, s.len));
    }
}


static void
chat_digest_end(chat_digest_t *out)
{
    chat_digest_need(EVP_DigestFinal_ex(chat_digest_ctx, out->bytes, NULL));
}


void
chat_digest(chat_str_t s, chat_digest_t *out)
{
    chat_digest_begin();
    chat_digest_add(s);
    chat_digest_end(out);
}


void
chat_digest_parts(const chat_str_t *parts, size_t n, chat_digest_t *out)
{
    size_t        i;
    uint64_t      len;
    unsigned int  k;
    unsigned char length[8];

    chat_digest_begin();

    for (i = 0; i < n; i++) {
        len = parts[i].len;

        for (k = 0; k < 8; k++) {
            length[k] = (unsigned char) (len >> (56 - 8 * k));
        }

        chat_digest_add(chat_str(length, 8));
        chat_digest_add(parts[i]);
    }

    chat_digest_end(out);
}


void
chat_digest_hex(const chat_digest_t *d, size_t n, char *out)
{
    size_t            i;
    static const char hex[] = "0123456789abcdef";

    for (i = 0; i < n; i++) {
        out[2 * i] = hex[d->bytes[i] >> 4];
        out[2 * i + 1] = hex[d->bytes[i] & 15];
    }

    out[2 * n] = '\0';
}
