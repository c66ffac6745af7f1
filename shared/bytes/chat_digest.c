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

#define CHAT_DIGEST_TEXT 256  /* bytes that are hashed at once */
#define CHAT_DIGEST_LENGTH 10 /* bytes that a length has at most */


void
chat_digest(chat_str_t s, chat_digest_t *out)
{
    SHA256_CTX sha;

    (void) SHA256_Init(&sha);
    (void) SHA256_Update(&sha, s.data, s.len);
    (void) SHA256_Final(out->bytes, &sha);
}


/* Most parts are short: they are hashed together. */
void
chat_digest_parts(const chat_str_t *parts, size_t n, chat_digest_t *out)
{
    size_t        i, len, used = 0;
    SHA256_CTX    sha;
    unsigned char text[CHAT_DIGEST_TEXT];

    (void) SHA256_Init(&sha);

    for (i = 0; i < n; i++) {
        for (len = parts[i].len; len > 127; len >>= 7) {
            text[used++] = (unsigned char) (len | 128);
        }

        text[used++] = (unsigned char) len;

        if (used + parts[i].len > sizeof(text) - CHAT_DIGEST_LENGTH) {
            (void) SHA256_Update(&sha, text, used);
            (void) SHA256_Update(&sha, parts[i].data, parts[i].len);
            used = 0;

        } else if (parts[i].len != 0) {
            memcpy(text + used, parts[i].data, parts[i].len);
            used += parts[i].len;
        }
    }

    (void) SHA256_Update(&sha, text, used);
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


int
chat_hex_read(chat_str_t s, unsigned char *out, size_t n)
{
    size_t        i;
    unsigned char high, low, digits = 16;

    /* value of a digit, and 16; of all other characters 0 */
    static const unsigned char value[256] = { ['0'] = 16, 17, 18,         19,
                                              20,         21, 22,         23,
                                              24,         25, ['a'] = 26, 27,
                                              28,         29, 30,         31 };

    if (s.len != 2 * n) {
        return 0;
    }

    for (i = 0; i < n; i++) {
        high = value[s.data[2 * i]];
        low = value[s.data[2 * i + 1]];
        digits &= high & low;
        out[i] = (unsigned char) (high << 4 | (low & 15));
    }

    return digits != 0;
}
