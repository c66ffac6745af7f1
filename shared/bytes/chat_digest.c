/*
 * chat_digest.c: see chat_digest.h; the only file that includes openssl.
 *
 * Of libcrypto it takes the functions of SHA-256 alone: those of any digest
 * allocate memory for each, which costs more than to hash what is hashed here,
 * and can fail. A wrong digest could make two tenants one.
 */

#ifndef OPENSSL_SUPPRESS_DEPRECATED
#define OPENSSL_SUPPRESS_DEPRECATED
#endif

#include "bytes/chat_digest.h"

#include <openssl/sha.h>


void
chat_digest(chat_str_t s, chat_digest_t *out)
{
    SHA256_CTX sha;

    (void) SHA256_Init(&sha);
    (void) SHA256_Update(&sha, s.data, s.len);
    (void) SHA256_Final(out->bytes, &sha);
}


void
chat_digest_parts(const chat_str_t *parts, size_t n, chat_digest_t *out)
{
    size_t        i;
    uint64_t      len;
    SHA256_CTX    sha;
    unsigned int  k;
    unsigned char length[8];

    (void) SHA256_Init(&sha);

    for (i = 0; i < n; i++) {
        len = parts[i].len;

        for (k = 0; k < 8; k++) {
            length[k] = (unsigned char) (len >> (56 - 8 * k));
        }

        (void) SHA256_Update(&sha, length, sizeof(length));
        (void) SHA256_Update(&sha, parts[i].data, parts[i].len);
    }

    (void) SHA256_Final(out->bytes, &sha);
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
