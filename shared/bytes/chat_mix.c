/*
 * chat_mix.c: see chat_mix.h.
 *
 * Each 16 bytes enter two states. A state becomes the product of itself and
 * one half with the key and the other half, its two halves folded: what
 * wyhash and its kin do. A product can only become 0, and forget the text, if
 * a half equals the secret.
 */

#include "bytes/chat_mix.h"
#include "bytes/chat_word.h"


/* The 128 bits of a * b, folded to 64. */
static uint64_t
fold(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128) a * b;

    return (uint64_t) product ^ (uint64_t) (product >> 64);
#else
    uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
    uint64_t one = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
    uint64_t two = (a & UINT32_MAX) * (b >> 32) + (one & UINT32_MAX);
    uint64_t high = (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32);

    return (two << 32 | (low & UINT32_MAX)) ^ high;
#endif
}


static void
mix_words(chat_mix_t *mix, uint64_t one, uint64_t two)
{
    mix->state[0] = fold(mix->state[0] ^ one, mix->key[0] ^ two);
    mix->state[1] = fold(mix->state[1] ^ two, mix->key[1] ^ one);
}


void
chat_mix_init(chat_mix_t *mix, const chat_digest_t *key)
{
    memcpy(mix->state, key->bytes, sizeof(mix->state));
    memcpy(mix->key, key->bytes + sizeof(mix->state), sizeof(mix->key));
}


void
chat_mix_add(chat_mix_t *mix, chat_str_t s)
{
    size_t        left = s.len;
    chat_mix_t    local = *mix;
    unsigned char rest[16] = { 0 };

    for (/* void */; left >= 16; left -= 16) {
        mix_words(&local, chat_word_at(s.data), chat_word_at(s.data + 8));
        s.data += 16;
    }

    if (left != 0) {
        memcpy(rest, s.data, left);
    }

    mix_words(&local, chat_word_at(rest), chat_word_at(rest + 8));
    mix_words(&local, s.len, 0);
    *mix = local;
}


void
chat_mix_end(const chat_mix_t *mix, unsigned char out[16])
{
    memcpy(out, mix->state, sizeof(mix->state));
}
