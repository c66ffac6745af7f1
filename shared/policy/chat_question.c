/*
 * chat_question.c: what the gate keeps of a request, which requests are
 * siblings, and what a request joins after a loss of data; see chat_gate.h.
 *
 * A question does not point into the body, so that the body's tree can be
 * freed while the request waits. A request may share the answer of another one
 * with the same signature and no different result for any call. A client
 * library that retries may only follow its own earlier try.
 */

#include "bytes/chat_table.h"
#include "policy/chat_gate.h"


#define CHAT_TWINS_MAX 16 /* more twins do not change a verdict */


chat_str_t
chat_gate_results(chat_question_t *q, const chat_batch_t *batch, int rest)
{
    size_t i, n = 0, stored = batch ? batch->nmembers : 0;
    char  *list;
    const chat_question_member_t *own;
    const chat_member_t          *member;
    static const chat_hash_t      nothing;

    list = chat_arena_take(q->arena, (q->nmembers + stored) * CHAT_CARRIED);
    if (list == NULL) {
        return chat_str(NULL, 0);
    }

    for (i = 0; i < q->nmembers; i++) {
        own = &q->members[i];
        if (chat_outcome_is_final(own->outcome)) {
            chat_carried(own->id, own->outcome, &own->digest,
                         list + CHAT_CARRIED * n++);
        } else if (rest && !own->settled) {
            chat_carried(own->id, CHAT_OUTCOME_NONE, &nothing,
                         list + CHAT_CARRIED * n++);
        }
    }

    for (i = 0; i < stored; i++) {
        member = &batch->members[i];
        own = chat_table_item(&q->index, member->id);
        if (member->outcome != CHAT_OUTCOME_NONE
            && (own == NULL || !chat_outcome_is_final(own->outcome)))
        {
            chat_carried(member->id, member->outcome, &member->digest,
                         list + CHAT_CARRIED * n++);
        }
    }

    return chat_carried_text(list, n);
}


int
chat_gate_is_own(const chat_question_t *q, const chat_attempt_t *attempt)
{
    return chat_str_eq(attempt->worker, q->worker)
           && chat_str_eq(attempt->request, q->request);
}


int
chat_gate_names(chat_str_t name, chat_str_t worker, chat_str_t request)
{
    size_t len = worker.len;

    return name.len > len && name.data[len] == '/'
           && chat_str_eq(chat_str(name.data, len), worker)
           && chat_str_eq(chat_str(name.data + len + 1, name.len - len - 1),
                          request);
}


int
chat_gate_asks_the_same(const chat_question_t *q,
                        const chat_attempt_t  *attempt)
{
    return memcmp(attempt->signature, q->signature, 16) == 0
           && chat_carried_agree(attempt->results, q->own_results);
}


/*
 * 1 if the last attempt, which has the same content, is an earlier try of this
 * request's client. *twin: the store has no twin/ fact of this request yet.
 */
static int
chat_gate_is_retry(const chat_question_t *q, const chat_batch_t *batch,
                   const chat_attempt_t *last, int *twin)
{
    int                        rival = 0;
    size_t                     i, tries = 0;
    const chat_twin_t         *other = batch->twins;
    static const unsigned char none[16] = { 0 };

    *twin = batch->ntwins < CHAT_TWINS_MAX;

    for (i = 0; i < batch->nattempts && tries < CHAT_TWINS_MAX; i++) {
        tries += !batch->attempts[i].is_void
                 && !chat_gate_is_own(q, &batch->attempts[i])
                 && chat_gate_asks_the_same(q, &batch->attempts[i]);
    }

    for (i = 0; i < batch->ntwins; i++, other++) {
        if (chat_gate_names(other->claimant, q->worker, q->request)) {
            *twin = 0;

        } else if (memcmp(other->content, q->content.bytes, 16) == 0) {
            tries += other->retry < q->retry;
            rival |= other->retry == q->retry;
        }
    }

    if (memcmp(q->retry_key, none, 16) != 0
        || memcmp(last->retry_key, none, 16) != 0)
    {
        return memcmp(q->retry_key, last->retry_key, 16) == 0;
    }

    /*
     * A client library sends the number of its tries, not their identity:
     * other clients may have sent the same content. So this client must have
     * sent all known tries.
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

    if (!q->complete || !q->dialect->provider || batch->partial) {
        return 1;
    }

    return chat_gate_is_retry(q, batch, last, twin);
}


/*
 * The member that this call is, made if it is the first of its id. Calls of
 * one id are one member: the first that is settled, else the first, is it.
 */
static chat_rc_e
chat_gate_add_member(const chat_call_t *calls, size_t i, size_t max_calls,
                     chat_question_t *q)
{
    const chat_call_t      *call = &calls[i];
    chat_table_entry_t     *entry = chat_table_put(&q->index, call->id);
    chat_question_member_t *own = entry != NULL ? entry->item : NULL;

    if (own == NULL) {
        if (call->id.len > CHAT_ID_MAX || q->nmembers == max_calls) {
            return CHAT_LIMIT;
        }

        own = &q->members[q->nmembers];
        if (entry == NULL
            || chat_arena_dup(q->arena, call->id, &own->id) != CHAT_OK) {
            return CHAT_ERROR;
        }

        q->nmembers++;
        own->call = i;
        entry->key = own->id;
        entry->item = own;

    } else if (chat_call_is_settled(call)
               && !chat_call_is_settled(&calls[own->call]))
    {
        own->call = i;
    }

    own->needs_result |= !chat_outcome_is_final(call->outcome);
    return CHAT_OK;
}


/* Fills the member by the call that represents it, but for its digests. */
static void
chat_gate_fill_member(const chat_call_t *call, chat_question_t *q,
                      chat_question_member_t *own)
{
    own->kind = call->kind;
    own->settled = chat_call_is_settled(call);
    own->needs_result = own->settled && own->needs_result;
    own->outcome = call->outcome;
    own->approval = call->approval;
    q->complete = q->complete && own->settled;
    q->needs_result = q->needs_result || own->needs_result;
    q->has_decision |= chat_approval_is_decided(call->approval)
                       && call->outcome == CHAT_OUTCOME_NONE;
}


/* The members of the question, each id once. */
static chat_rc_e
chat_gate_members(const chat_request_t *rq, const chat_step_t *step,
                  size_t max_calls, chat_question_t *q)
{
    size_t             i;
    chat_rc_e          rc = CHAT_OK;
    const chat_call_t *calls;

    chat_table_init(&q->index, q->arena);
    if (step->count == 0) {
        return CHAT_OK;
    }

    calls = &rq->calls[step->first];
    q->members = chat_arena_alloc(q->arena, step->count * sizeof(*q->members));
    if (q->members == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < step->count && rc == CHAT_OK; i++) {
        if (rq->chained || chat_call_is_member(&calls[i])) {
            rc = chat_gate_add_member(calls, i, max_calls, q);
        }
    }

    for (i = 0; i < q->nmembers; i++) {
        chat_gate_fill_member(&calls[q->members[i].call], q, &q->members[i]);
    }

    return rc;
}


/* The digests of the members, and the results with them. */
static chat_rc_e
chat_gate_digests(const chat_request_t *rq, const chat_step_t *step,
                  chat_question_t *q)
{
    size_t                  i;
    chat_mix_t              mix;
    const chat_call_t      *call;
    const chat_hash_t      *fingerprint, *digest;
    chat_question_member_t *own = q->members;

    for (i = 0; i < q->nmembers; i++, own++) {
        call = &rq->calls[step->first + own->call];
        fingerprint = chat_call_fingerprint(call);
        digest = chat_call_digest(call);

        if (fingerprint == NULL || digest == NULL) {
            return CHAT_ERROR;
        }

        own->fingerprint = *fingerprint;
        own->digest = *digest;
    }

    q->own_results = chat_gate_results(q, NULL, 0);
    q->sent_results = q->own_results;
    chat_mix_init(&mix, &q->key.name);
    chat_mix_add(&mix, chat_str(q->signature, 16));
    chat_mix_add(&mix, q->own_results);
    chat_mix_end(&mix, q->content.bytes);
    return q->own_results.data != NULL ? CHAT_OK : CHAT_ERROR;
}


int
chat_gate_leaves_nothing(const chat_question_t *q)
{
    return q->fresh && q->complete && !q->needs_result && !q->has_decision;
}


chat_rc_e
chat_gate_question(const chat_dialect_t *dialect, const chat_request_t *rq,
                   size_t max_calls, chat_arena_t *arena, chat_question_t *q)
{
    chat_rc_e          rc;
    const chat_step_t *step;

    q->arena = arena;

    if (!rq->answers || rq->nsteps == 0) {
        return CHAT_DECLINED;
    }

    step = &rq->steps[rq->nsteps - 1];

    /* twice: an id may occur more than once */
    if (step->count > 2 * max_calls) {
        return CHAT_LIMIT;
    }

    q->dialect = dialect;
    q->fresh = rq->class == CHAT_CLASS_FRESH;
    q->kept = rq->by_conversation && !dialect->transcript;
    q->chained = rq->chained;
    q->complete = !rq->chained;
    memcpy(q->signature, rq->signature, 16);

    rc = chat_gate_members(rq, step, max_calls, q);
    if (rc == CHAT_OK && (q->named || !chat_gate_leaves_nothing(q))) {
        rc = chat_gate_digests(rq, step, q);
    }

    return rc == CHAT_OK && q->nmembers == 0 ? CHAT_DECLINED : rc;
}


/* Returns how many payloads are left out. */
static size_t
chat_gate_fact(const chat_call_t *call, int payloads, size_t max_result,
               chat_facts_t *facts)
{
    int        fits = call->payload.len <= max_result;
    size_t     dropped = 0;
    chat_str_t reason = call->reason;

    if (chat_approval_is_decided(call->approval)) {
        if (reason.len > max_result) {
            reason.len = 0;
            dropped++;
        }

        chat_facts_approval(facts, call->id, call->approval, reason);
    }

    if (chat_outcome_is_final(call->outcome)) {
        chat_facts_result(facts, call->id, call->outcome,
                          chat_call_digest(call), chat_call_fingerprint(call),
                          payloads && fits ? &call->payload : NULL);
        dropped += payloads && !fits;
    }

    return dropped;
}


size_t
chat_gate_facts(const chat_question_t *q, const chat_request_t *rq,
                int payloads, size_t max_result, chat_facts_t *facts)
{
    size_t                        i, dropped = 0;
    const chat_call_t            *call;
    const chat_question_member_t *own = q->members;

    for (i = 0; i < q->nmembers && q->own_results.data != NULL; i++, own++) {
        call = &rq->calls[rq->steps[rq->nsteps - 1].first + own->call];

        /* the result of a call says that there is such a call */
        if (!rq->chained
            && (call->kind != CHAT_KIND_CLIENT
                || !chat_outcome_is_final(call->outcome)))
        {
            chat_facts_call(facts, call->id, call->kind, (uint32_t) i,
                            &own->fingerprint);
        }

        dropped +=
            chat_gate_fact(call, payloads || !q->complete || own->needs_result,
                           max_result, facts);
    }

    return dropped;
}


void
chat_gate_attempt(const chat_question_t *q, uint32_t k, chat_attempt_t *out)
{
    *out = (chat_attempt_t){ .k = k,
                             .worker = q->worker,
                             .request = q->request,
                             .ms = q->now,
                             .results = q->sent_results };
    memcpy(out->retry_key, q->retry_key, 16);

    if (q->sent_results.data != NULL) { /* else it has no siblings */
        memcpy(out->signature, q->signature, 16);
    }
}


int
chat_gate_claims_first(chat_question_t *q, chat_arena_t *arena,
                       chat_needs_t *needs)
{
    size_t                        i, n = 0;
    const chat_question_member_t *own = q->members;

    memset(needs, 0, sizeof(*needs));

    if (q->complete || q->chained) {
        return q->complete;
    }

    needs->fields = chat_arena_alloc(arena, q->nmembers * sizeof(chat_str_t));
    if (needs->fields == NULL) {
        return 0;
    }

    for (i = 0; i < q->nmembers; i++, own++) {
        if (own->settled) {
            continue;
        }

        needs->fields[n] = chat_facts_field(arena, "result/", own->id);
        if (needs->fields[n++].len == 0) {
            return 0;
        }
    }

    q->sent_results = chat_gate_results(q, NULL, 1);
    if (q->sent_results.data == NULL) {
        return 0;
    }

    needs->nfields = n; /* without a claim no fact depends on them */
    return 1;
}


void
chat_gate_claim(const chat_question_t *q, uint32_t k, chat_facts_t *facts)
{
    chat_attempt_t attempt;

    chat_gate_attempt(q, k, &attempt);
    chat_facts_claim(facts, &attempt);
}


/*
 * After a loss of data. Facts are only added, so the facts that a request has
 * read stay true, and it may join them again. They name their claimants, so no
 * reader attributes them to a later request.
 */

int
chat_gate_lost(const chat_question_t *q, const chat_batch_t *batch)
{
    int                  watched = 0, claimed = q->seen.last.k == 0;
    size_t               i;
    const chat_member_t *member;

    if (batch->cleared) {
        return 0;
    }

    for (i = 0; i < batch->nwaits; i++) {
        watched |= chat_str_eq(batch->waits[i], q->worker);
    }

    /* another request of this worker may have put the watch again */
    for (i = 0; i < batch->nattempts; i++) {
        claimed |= batch->attempts[i].k == q->seen.last.k;
    }

    if (!watched || !claimed) {
        return 1;
    }

    for (i = 0; i < q->nmembers; i++) {
        member = chat_batch_find(batch, q->members[i].id);
        if (q->members[i].settled
            && (member == NULL
                || (member->outcome == CHAT_OUTCOME_NONE
                    && member->approval == CHAT_APPROVAL_NONE)))
        {
            return 1;
        }
    }

    return 0;
}


void
chat_gate_rejoin(const chat_question_t *q, const chat_call_t *calls,
                 size_t ncalls, chat_facts_t *facts)
{
    size_t                   i;
    const chat_seen_batch_t *seen = &q->seen;
    const chat_attempt_t    *attempts[] = { &seen->last, &seen->answered };

    for (i = 0; i < 2; i++) {
        if (attempts[i]->k != 0) {
            chat_facts_claim(facts, attempts[i]);
            chat_facts_attempt(facts, attempts[i]);
        }
    }

    if (seen->partial) {
        chat_facts_add(facts, "partial", chat_cstr("1"));
    }

    for (i = 0; q->chained && i < ncalls; i++) {
        chat_facts_call(facts, calls[i].id, calls[i].kind, (uint32_t) i,
                        &calls[i].fingerprint);
    }

    /* a seal is true only together with all calls */
    if (seen->sealed && (!q->chained || ncalls == seen->ncalls)) {
        chat_facts_add(facts, "seal", chat_cstr("1"));
    }
}
