/*
 * chat_gate_sibling.c: may a request share another one's answer? See
 * chat_gate.h.
 *
 * It may if it asks for the same: the same signature, the same transcript
 * before the step, and the same results where both bring one. A client
 * library that asks once more may follow its own earlier try alone.
 * Must not know: wire formats, stores, time.
 */

#include "policy/chat_gate_sibling.h"

#define CHAT_TWINS_MAX 16 /* more of them say no more */


chat_rc_e
chat_gate_brings(chat_question_t *q)
{
    size_t              i, n = 0;
    chat_carried_t     *list;
    const chat_asked_t *asked;

    list = chat_arena_alloc(q->arena, (q->nmembers + 1) * sizeof(*list));
    if (list == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < q->nmembers; i++) {
        asked = &q->members[i];
        if (asked->outcome != CHAT_OUTCOME_NONE
            && asked->outcome != CHAT_OUTCOME_PARTIAL)
        {
            chat_carried(&list[n++], asked->id, asked->outcome, asked->digest);
        }
    }

    q->brings = chat_results_text(list, n, q->arena);
    q->carries = q->brings;
    return q->brings.data != NULL ? CHAT_OK : CHAT_ERROR;
}


void
chat_gate_carries(chat_question_t *q, const chat_batch_t *batch)
{
    size_t               i, n = 0;
    chat_carried_t      *list;
    const chat_asked_t  *asked;
    const chat_member_t *member;

    list = chat_arena_alloc(q->arena, (q->nmembers + batch->nmembers + 1)
                                          * sizeof(*list));

    for (i = 0; list != NULL && i < q->nmembers; i++) {
        asked = &q->members[i];
        if (asked->outcome != CHAT_OUTCOME_NONE
            && asked->outcome != CHAT_OUTCOME_PARTIAL)
        {
            chat_carried(&list[n++], asked->id, asked->outcome, asked->digest);
        }
    }

    for (i = 0; list != NULL && i < batch->nmembers; i++) {
        member = &batch->members[i];
        if (member->outcome != CHAT_OUTCOME_NONE) {
            chat_carried(&list[n], member->id, member->outcome,
                         member->digest);
            list[n++].stored = 1;
        }
    }

    /* without it no other request is a sibling */
    q->carries = list != NULL ? chat_results_text(list, n, q->arena)
                              : chat_str(NULL, 0);
}


int
chat_gate_asks_the_same(const chat_question_t *q,
                        const chat_attempt_t  *attempt)
{
    return attempt->described
           && memcmp(attempt->signature, q->signature, 16) == 0
           && memcmp(attempt->transcript, q->transcript, 16) == 0
           && chat_results_agree(attempt->results, q->brings);
}


/* What a complete request asks for, in 16 bytes. */
static void
chat_gate_content(const chat_question_t *q, unsigned char *content)
{
    chat_str_t    parts[3];
    chat_digest_t digest;

    parts[0] = chat_str(q->signature, 16);
    parts[1] = chat_str(q->transcript, 16);
    parts[2] = q->brings;
    chat_digest_parts(parts, 3, &digest);
    memcpy(content, digest.bytes, 16);
}


/* 1 if the twin is this request. */
static int
chat_gate_is_twin(const chat_question_t *q, chat_str_t claimant)
{
    size_t len = q->worker.len;

    return claimant.len > len && claimant.data[len] == '/'
           && chat_str_eq(chat_str(claimant.data, len), q->worker)
           && chat_str_eq(
               chat_str(claimant.data + len + 1, claimant.len - len - 1),
               q->request);
}


/*
 * How many tries of this very content are known that are earlier than this
 * request, as far as its client is concerned. *own: the request itself is
 * known; *rival: another request has as many tries before it.
 */
static size_t
chat_gate_tries(const chat_question_t *q, const chat_batch_t *batch, int *own,
                int *rival)
{
    size_t             i, tries = 0;
    unsigned char      content[16];
    const chat_twin_t *twin;

    chat_gate_content(q, content);
    *own = 0;
    *rival = 0;

    for (i = 0; i < batch->nattempts && tries < CHAT_TWINS_MAX; i++) {
        tries += !batch->attempts[i].is_void
                 && !chat_gate_is_own(q, &batch->attempts[i])
                 && chat_gate_asks_the_same(q, &batch->attempts[i]);
    }

    for (i = 0; i < batch->ntwins; i++) {
        twin = &batch->twins[i];

        if (chat_gate_is_twin(q, twin->claimant)) {
            *own = 1;

        } else if (memcmp(twin->content, content, 16) == 0) {
            tries += twin->retry < q->retry;
            *rival |= twin->retry == q->retry;
        }
    }

    return tries;
}


/*
 * 1 if the last attempt, which has the same content, is an earlier try of this
 * request's client.
 */
static int
chat_gate_is_retry(const chat_question_t *q, const chat_batch_t *batch,
                   const chat_attempt_t *last, int *twin)
{
    int                        own, rival;
    size_t                     tries;
    static const unsigned char none[16] = { 0 };

    tries = chat_gate_tries(q, batch, &own, &rival);
    *twin = !own && batch->ntwins < CHAT_TWINS_MAX;

    if (memcmp(q->retry_key, none, 16) != 0
        || memcmp(last->retry_key, none, 16) != 0)
    {
        return memcmp(q->retry_key, last->retry_key, 16) == 0;
    }

    /*
     * A library says how often it has tried, not what: others may have sent
     * the same content. So all tries that are known must be this client's.
     */
    return !rival && tries < CHAT_TWINS_MAX && tries <= q->retry;
}


int
chat_gate_may_follow(const chat_question_t *q, const chat_batch_t *batch,
                     const chat_attempt_t *last, int *twin)
{
    *twin = 0;

    if (last->k == 0 || !chat_gate_asks_the_same(q, last)) {
        return 0;
    }

    if (!q->complete || q->dialect->candidate || batch->partial) {
        return 1;
    }

    return chat_gate_is_retry(q, batch, last, twin);
}


void
chat_gate_twin(const chat_question_t *q, chat_facts_t *facts)
{
    unsigned char content[16];

    chat_gate_content(q, content);
    chat_facts_twin(facts, q->worker, q->request, content, q->retry);
}
