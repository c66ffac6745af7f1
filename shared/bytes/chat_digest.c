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
#include "bytes/chat_word.h"

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


/* The digits of eight values below 16, one a byte. */
static inline uint64_t
digits(uint64_t values)
{
    uint64_t letters = (values + CHAT_WORD(6u)) >> 4 & CHAT_WORD(1u);

    return values + CHAT_WORD('0') + letters * ('a' - '0' - 10);
}


void
chat_hex(const unsigned char *bytes, size_t n, char *out)
{
    uint64_t word;

    for (/* void */; n != 0; n -= 4, bytes += 4, out += 8) {
        word = 0;
        memcpy(&word, bytes, 4);
        word = chat_word_lowest_first(word);
        word = (word | word << 16) & 0x0000ffff0000ffffu;
        word = (word | word << 8) & 0x00ff00ff00ff00ffu;
        word = digits((word >> 4 | word << 8) & CHAT_WORD(15u));
        word = chat_word_lowest_first(word);
        memcpy(out, &word, 8);
    }

    *out = '\0';
}


int
chat_hex_read(chat_str_t s, unsigned char *out, size_t n)
{
    uint64_t word, values, wrong = s.len ^ 2 * n;

    for (/* void */; n != 0 && wrong == 0; n -= 4, s.data += 8, out += 4) {
        word = chat_word_at(s.data);
        values = (word & CHAT_WORD(15u)) + (word >> 6 & CHAT_WORD(1u)) * 9;
        values &= CHAT_WORD(15u);
        wrong = word ^ digits(values);

        values = (values << 4 | values >> 8) & 0x00ff00ff00ff00ffu;
        values = (values | values >> 8) & 0x0000ffff0000ffffu;
        values = chat_word_lowest_first(values | values >> 16);
        memcpy(out, &values, 4);
    }

    return wrong == 0;
}
