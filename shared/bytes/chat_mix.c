/*
 * chat_mix.c: see chat_mix.h.
 *
 * Each 16 bytes enter two states. A state becomes the product of itself and
 * one half with the key and the other half, its two halves folded: what
 * wyhash and its kin do. A state can only become 0, and forget the text, if
 * a half hits the secret. In a long text each 16 bytes enter one of four
 * states, because each product waits for the one before it; at the end these
 * become the two. So long texts chosen without the key collide once in 2^29.
 */

#include "bytes/chat_mix.h"
#include "bytes/chat_word.h"

#define CHAT_MIX_BYTES 16 /* that enter a state at once, */
#define CHAT_MIX_BLOCK 64 /* and four states in a text of at least */
#define CHAT_MIX_LONG 128 /* bytes */


/* Folds a * b to 64 bits. Without ^ a, ~a and ~b often give the same. */
static uint64_t
fold(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128) a * b;

    return ((uint64_t) product ^ a) + (uint64_t) (product >> 64);
#else
    uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX);
    uint64_t one = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
    uint64_t two = (a & UINT32_MAX) * (b >> 32) + (one & UINT32_MAX);
    uint64_t high = (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32);

    return ((two << 32 | (low & UINT32_MAX)) ^ a) + high;
#endif
}


static void
mix_words(chat_mix_t *mix, uint64_t one, uint64_t two)
{
    mix->state[0] = fold(mix->state[0] ^ one, mix->key[0] + two);
    mix->state[1] = fold(mix->state[1] ^ two, mix->key[1] + one);
}


/* Returns the state that 16 bytes have entered. */
static uint64_t
mix_state(uint64_t state, uint64_t key, const unsigned char *p)
{
    return fold(state ^ chat_word_at(p), key + chat_word_at(p + 8));
}


/* Adds the blocks of s; returns the rest. No two states begin alike. */
static __attribute__((noinline)) chat_str_t
mix_long(chat_mix_t *mix, chat_str_t s)
{
    uint64_t             one = mix->state[0], two = mix->state[1];
    uint64_t             three = one, four = two;
    const unsigned char *p,
        *end = s.data + s.len / CHAT_MIX_BLOCK * CHAT_MIX_BLOCK;

    for (p = s.data; p != end; p += CHAT_MIX_BLOCK) {
        one = mix_state(one, mix->key[0], p);
        two = mix_state(two, mix->key[1], p + CHAT_MIX_BYTES);
        three = mix_state(three, mix->key[1], p + 2 * CHAT_MIX_BYTES);
        four = mix_state(four, mix->key[0], p + 3 * CHAT_MIX_BYTES);
    }

    mix->state[0] = four;
    mix->state[1] = three;
    mix_words(mix, one, two);
    mix_words(mix, three, four);
    return chat_str(end, s.len % CHAT_MIX_BLOCK);
}


/* Adds the last bytes, at most 16, of a text. */
static void
mix_last(chat_mix_t *mix, chat_str_t s)
{
    uint32_t half[2] = { 0 };

    if (s.len >= 8) {
        mix_words(mix, chat_word_at(s.data), chat_word_at(s.data + s.len - 8));
        return;
    }

    if (s.len >= 4) {
        memcpy(&half[0], s.data, 4);
        memcpy(&half[1], s.data + s.len - 4, 4);

    } else if (s.len != 0) {
        half[0] = s.data[0];
        half[1] = (uint32_t) s.data[s.len / 2] << 8 | s.data[s.len - 1];
    }

    mix_words(mix, half[0], half[1]);
}


/* Inline: chat_mix_hash() needs but one of the states. */
static inline chat_mix_t
mix_text(chat_mix_t *mix, chat_str_t s)
{
    size_t     len = s.len;
    chat_mix_t local;

    if (len >= CHAT_MIX_LONG) {
        s = mix_long(mix, s);
    }

    local = *mix;

    for (/* void */; s.len > CHAT_MIX_BYTES; s.len -= CHAT_MIX_BYTES) {
        mix_words(&local, chat_word_at(s.data), chat_word_at(s.data + 8));
        s.data += CHAT_MIX_BYTES;
    }

    mix_last(&local, s);
    mix_words(&local, len, 0);
    return local;
}


void
chat_mix_add(chat_mix_t *mix, chat_str_t s)
{
    *mix = mix_text(mix, s);
}


uint64_t
chat_mix_hash(chat_mix_t mix, chat_str_t s)
{
    return mix_text(&mix, s).state[0];
}
