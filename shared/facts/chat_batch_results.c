/*
 * chat_batch_results.c: the results that a request carries, as one text.
 *
 * A claim says so which results go upstream with it: 24 hex digits each, 8 of
 * the call's id and 16 of its result, in order.
 * Promises: comparing two texts takes time that grows with their lengths
 * alone; any bytes as text are survived.
 * Must not know: stores, dialects, time.
 */

#include "facts/chat_batch.h"

#include <stdlib.h>

#define CHAT_CARRIED_ID 8    /* digits */
#define CHAT_CARRIED_TEXT 24 /* digits of one result */


void
chat_carried(chat_carried_t *carried, chat_str_t id, chat_outcome_e outcome,
             const unsigned char *digest)
{
    chat_digest_t of;

    memset(carried, 0, sizeof(*carried));
    chat_digest(id, &of);
    memcpy(carried->id, of.bytes, sizeof(carried->id));
    memcpy(carried->value, digest, sizeof(carried->value));
    carried->value[0] ^= (unsigned char) outcome;
}


static int
chat_carried_compare(const void *one, const void *two)
{
    int                   rc;
    const chat_carried_t *a = one, *b = two;

    rc = memcmp(a->id, b->id, sizeof(a->id));
    if (rc != 0) {
        return rc;
    }

    if (a->stored != b->stored) {
        return a->stored - b->stored;
    }

    return memcmp(a->value, b->value, sizeof(a->value));
}


chat_str_t
chat_results_text(chat_carried_t *list, size_t n, chat_arena_t *arena)
{
    char           hex[CHAT_CARRIED_TEXT + 1];
    size_t         i, count = 0;
    chat_digest_t  digest;
    unsigned char *text;

    text = chat_arena_alloc(arena, n * CHAT_CARRIED_TEXT + 1);
    if (text == NULL) {
        return chat_str(NULL, 0);
    }

    if (n > 1) {
        qsort(list, n, sizeof(*list), chat_carried_compare);
    }

    for (i = 0; i < n; i++) {
        if (i != 0
            && memcmp(list[i].id, list[i - 1].id, sizeof(list[i].id)) == 0) {
            continue;
        }

        memcpy(digest.bytes, list[i].id, 4);
        memcpy(digest.bytes + 4, list[i].value, 8);
        chat_digest_hex(&digest, CHAT_CARRIED_TEXT / 2, hex);
        memcpy(text + count * CHAT_CARRIED_TEXT, hex, CHAT_CARRIED_TEXT);
        count++;
    }

    return chat_str(text, count * CHAT_CARRIED_TEXT);
}


int
chat_results_agree(chat_str_t one, chat_str_t other)
{
    int    order;
    size_t i = 0, k = 0;

    while (i + CHAT_CARRIED_TEXT <= one.len
           && k + CHAT_CARRIED_TEXT <= other.len) {
        order = memcmp(one.data + i, other.data + k, CHAT_CARRIED_ID);

        if (order == 0
            && memcmp(one.data + i, other.data + k, CHAT_CARRIED_TEXT) != 0) {
            return 0;
        }

        i += order <= 0 ? CHAT_CARRIED_TEXT : 0;
        k += order >= 0 ? CHAT_CARRIED_TEXT : 0;
    }

    return 1;
}
