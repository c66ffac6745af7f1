/*
 * chat_batch_attempts.c: reads what the facts say of attempts.
 *
 * An attempt is the claim of its number; answer, end and void name the
 * claimant whose they are, and are believed of the one that has the claim,
 * whether they came before it or after.
 * Promises: the work grows little faster than the number of facts.
 * Must not know: stores, dialects, time.
 */

#include "facts/chat_batch_read.h"

#include <stdlib.h>


/* 1 if s is the number of an attempt. */
static int
chat_batch_attempt_number(chat_str_t s, uint32_t *k)
{
    uint64_t n;

    if (!chat_batch_number(s, &n) || n == 0 || n > CHAT_ATTEMPTS_MAX) {
        return 0;
    }

    *k = (uint32_t) n;
    return 1;
}


/*
 * A claim that says nothing counts too, as one of nobody: it stands in the
 * way of every other of its number.
 */
static int
chat_batch_read_claim(const chat_fact_t *fact, chat_attempt_t *attempt)
{
    chat_str_t rest, value = fact->value;

    memset(attempt, 0, sizeof(*attempt));

    if (!chat_batch_under(fact->field, "claim/", &rest)
        || !chat_batch_attempt_number(rest, &attempt->k))
    {
        return 0;
    }

    attempt->worker = chat_batch_word(&value);
    attempt->request = chat_batch_word(&value);
    (void) chat_batch_hex(chat_batch_word(&value), attempt->signature);
    (void) chat_batch_hex(chat_batch_word(&value), attempt->retry_key);
    (void) chat_batch_number(chat_batch_word(&value), &attempt->ms);

    /* a worker of an older version says no more */
    attempt->described =
        chat_batch_hex(chat_batch_word(&value), attempt->transcript);
    attempt->results = value;
    return 1;
}


static int
chat_batch_attempt_compare(const void *one, const void *two)
{
    const chat_attempt_t *a = one;
    const chat_attempt_t *b = two;

    return a->k < b->k ? -1 : a->k > b->k;
}


/* All claims in order of their numbers, each once; *count of them. */
static chat_attempt_t *
chat_batch_read_claims(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
                       size_t *count)
{
    size_t         i, kept, claims = 0;
    chat_attempt_t attempt, *list;

    for (i = 0; i < n; i++) {
        claims += chat_batch_read_claim(&facts[i], &attempt) != 0;
    }

    list = chat_arena_alloc(arena, (claims + 1) * sizeof(*list));
    if (list == NULL) {
        return NULL;
    }

    for (i = 0, kept = 0; kept < claims; i++) {
        kept += chat_batch_read_claim(&facts[i], &list[kept]) != 0;
    }

    qsort(list, claims, sizeof(*list), chat_batch_attempt_compare);

    for (i = 0, kept = 0; i < claims; i++) {
        if (kept == 0 || list[i].k != list[kept - 1].k) {
            list[kept++] = list[i];
        }
    }

    *count = kept;
    return list;
}


/* 1 if the text is <worker>/<request> of the attempt's claim. */
static int
chat_batch_is_claimant(const chat_attempt_t *attempt, chat_str_t text)
{
    size_t len = attempt->worker.len;

    return len != 0 && text.len > len && text.data[len] == '/'
           && chat_str_eq(chat_str(text.data, len), attempt->worker)
           && chat_str_eq(chat_str(text.data + len + 1, text.len - len - 1),
                          attempt->request);
}


/*
 * The attempt that a fact prefix/<k>/<worker>/<request> is about; NULL: the
 * fact is another, or of one that is not the claimant of k.
 */
static chat_attempt_t *
chat_batch_attempt_of(const chat_fact_t *fact, const char *prefix,
                      chat_attempt_t *list, size_t count)
{
    chat_str_t           rest, claimant;
    chat_attempt_t       wanted, *found;
    const unsigned char *slash;

    if (!chat_batch_under(fact->field, prefix, &rest) || rest.len == 0) {
        return NULL;
    }

    slash = memchr(rest.data, '/', rest.len);
    if (slash == NULL) {
        return NULL;
    }

    claimant =
        chat_str(slash + 1, rest.len - (size_t) (slash + 1 - rest.data));
    rest.len = (size_t) (slash - rest.data);
    if (!chat_batch_attempt_number(rest, &wanted.k)) {
        return NULL;
    }

    found = bsearch(&wanted, list, count, sizeof(*list),
                    chat_batch_attempt_compare);

    return found != NULL && chat_batch_is_claimant(found, claimant) ? found
                                                                    : NULL;
}


/* What one fact says of the attempt that is its own. */
static void
chat_batch_read_deed(const chat_fact_t *fact, chat_attempt_t *list,
                     size_t count)
{
    uint64_t        number;
    chat_attempt_t *attempt;

    attempt = chat_batch_attempt_of(fact, "void/", list, count);
    if (attempt != NULL) {
        attempt->is_void = 1;
        return;
    }

    attempt = chat_batch_attempt_of(fact, "answer/", list, count);
    if (attempt != NULL) {
        if (chat_batch_number(fact->value, &number) && number < 1000) {
            attempt->answer = (uint32_t) number;
        }
        return;
    }

    attempt = chat_batch_attempt_of(fact, "after/", list, count);
    if (attempt != NULL) {
        if (chat_batch_number(fact->value, &number)
            && number <= CHAT_AFTER_MAX) {
            attempt->after = (uint32_t) number;
        }
        return;
    }

    attempt = chat_batch_attempt_of(fact, "end/", list, count);
    if (attempt != NULL) {
        attempt->end = chat_end_find(fact->value);
    }
}


chat_rc_e
chat_batch_read_attempts(const chat_fact_t *facts, size_t n,
                         chat_arena_t *arena, chat_batch_t *batch)
{
    size_t          i, count;
    chat_attempt_t *list;

    list = chat_batch_read_claims(facts, n, arena, &count);
    if (list == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; count != 0 && i < n; i++) {
        chat_batch_read_deed(&facts[i], list, count);
    }

    batch->attempts = count ? list : NULL;
    batch->nattempts = count;

    for (i = 0; i < count; i++) {
        if (list[i].answer >= 200 && list[i].answer < 300) {
            batch->answered = list[i];
        }
        batch->last = list[i];
    }

    return CHAT_OK;
}


int
chat_attempt_bury(chat_attempt_t *attempt,
                  int (*alive)(void *data, chat_str_t worker), void *data)
{
    if (attempt->k == 0 || attempt->is_void || attempt->end != CHAT_END_NONE
        || alive(data, attempt->worker))
    {
        return 0;
    }

    attempt->end = CHAT_END_INTERRUPTED;
    return 1;
}
