/*
 * chat_digest.c: see chat_digest.h; the only file that includes openssl.
 *
 * One context serves all digests of the process: to make one, and to look the
 * algorithm up, costs more than to hash what is hashed here. Like NGINX it is
 * for one thread. A wrong digest could make two tenants one, so where
 * libcrypto has no memory the process ends. This can happen only at the first
 * digest: after it nothing is allocated.
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
chat_hex(const unsigned char *bytes, size_t n, char *out)
{
    size_t            i;
    static const char hex[] = "0123456789abcdef";

    for (i = 0; i < n; i++) {
        out[2 * i] = hex[bytes[i] >> 4];
        out[2 * i + 1] = hex[bytes[i] & 15];
    }

    out[2 * n] = '\0';
}


void
chat_digest_hex(const chat_digest_t *d, size_t n, char *out)
{
    chat_hex(d->bytes, n, out);
}


static int
chat_hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}


int
chat_hex_read(chat_str_t s, unsigned char *out, size_t n)
{
    size_t i;
    int    high, low;

    if (s.len != 2 * n) {
        return 0;
    }

    for (i = 0; i < n; i++) {
        high = chat_hex_digit(s.data[2 * i]);
        low = chat_hex_digit(s.data[2 * i + 1]);
        if (high < 0 || low < 0) {
            return 0;
        }
        out[i] = (unsigned char) (high << 4 | low);
    }

    return 1;
}
