/*
 * chat_mix.c: see chat_mix.h.
 *
 * Each 16 bytes enter two states. A state becomes the product of itself and
 * one half with the key and the other half, its two halves folded: what
 * wyhash and its kin do. A product can only become 0, and forget the text, if
 * a half equals the secret. A long text has four pairs of states, because each
 * product waits for the one before it; they enter the first pair in order.
 */

#include "bytes/chat_mix.h"
#include "bytes/chat_word.h"

#define CHAT_MIX_BYTES 16 /* that enter a pair of states at once */
#define CHAT_MIX_LONG 512 /* bytes of a text that has four pairs */


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


static void
mix_bytes(chat_mix_t *mix, const unsigned char *p)
{
    mix_words(mix, chat_word_at(p), chat_word_at(p + 8));
}


/* Adds four times 16 bytes as often as s has them; returns the rest. */
static __attribute__((noinline)) chat_str_t
mix_long(chat_mix_t *mix, chat_str_t s)
{
    size_t     i;
    chat_mix_t lanes[4] = { *mix, *mix, *mix, *mix };

    while (s.len >= 4 * CHAT_MIX_BYTES) {
        mix_bytes(&lanes[0], s.data);
        mix_bytes(&lanes[1], s.data + CHAT_MIX_BYTES);
        mix_bytes(&lanes[2], s.data + 2 * CHAT_MIX_BYTES);
        mix_bytes(&lanes[3], s.data + 3 * CHAT_MIX_BYTES);
        s.data += 4 * CHAT_MIX_BYTES;
        s.len -= 4 * CHAT_MIX_BYTES;
    }

    for (i = 0; i < 4; i++) {
        mix_words(mix, lanes[i].state[0], lanes[i].state[1]);
    }

    return s;
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


void
chat_mix_add(chat_mix_t *mix, chat_str_t s)
{
    size_t     len = s.len;
    chat_mix_t local;

    if (len >= CHAT_MIX_LONG) {
        s = mix_long(mix, s);
    }

    local = *mix;

    for (/* void */; s.len > CHAT_MIX_BYTES; s.len -= CHAT_MIX_BYTES) {
        mix_bytes(&local, s.data);
        s.data += CHAT_MIX_BYTES;
    }

    mix_last(&local, s);
    mix_words(&local, len, 0);
    *mix = local;
}
