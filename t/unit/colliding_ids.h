/*
 * colliding_ids.h: ids with equal FNV-1a hashes in the lowest 16 bits.
 *
 * An attacker makes such ids for any hash without a key: the low bits of FNV
 * depend on the low bits alone, so the last two characters can be computed.
 */

#ifndef COLLIDING_IDS_H
#define COLLIDING_IDS_H

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define COLLIDING_ID 15 /* characters */


static uint16_t
fnv16(const char *text)
{
    uint32_t hash = 2166136261u;

    while (*text != '\0') {
        hash = (hash ^ (unsigned char) *text++) * 16777619u;
    }

    return (uint16_t) hash;
}


/* The inverse of FNV's prime, 0x193 in 16 bits: 0x193 * 0x449b == 1. */
#define FNV16_INVERSE 0x449bu

/* The nr-th id with a hash of 0; out has room for COLLIDING_ID + 1. */
static void
colliding_id(unsigned nr, char *out)
{
    unsigned i, last, middle;
    uint16_t want, have;

    for (i = 0;; i++) {
        (void) sprintf(out, "call_%05x%03x", nr, i & 0xfff);
        have = fnv16(out);

        for (last = '0'; last <= 'z'; last++) {
            want = (uint16_t) (last * FNV16_INVERSE);
            middle = have ^ want;

            if (isalnum((int) last) && middle < 0x80 && isalnum((int) middle))
            {
                out[COLLIDING_ID - 2] = (char) middle;
                out[COLLIDING_ID - 1] = (char) last;
                out[COLLIDING_ID] = '\0';
                return;
            }
        }
    }
}


#endif /* COLLIDING_IDS_H */
