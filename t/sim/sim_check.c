/*
 * sim_check.c: the invariants. docs/reliability.md lists them, and says which
 * of them hold only as long as the store keeps the writes that it has
 * acknowledged (sim.lossy). A store that was full (sim.refused) loses none,
 * but lacks some facts: a seal, the end of an attempt.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "sim.h"

#define SLACK 9000 /* ms: the store's deadlines, and a new connection */


chat_request_verdict_e
sim_verdict(const sim_request_t *request)
{
    return chat_reasons[request->ctx->reason].verdict;
}


/* The value that the store has for a call: a result or a decision. */
static char
stored_value(unsigned call)
{
    char               mark[] = { 'R', (char) ('0' + call), '\0' };
    const char        *at;
    chat_str_t         id = sim_call_id(call);
    const chat_fact_t *fact;

    if (sim.approvals >> call & 1) {
        fact = sim_store_fact(&sim.key, "approval/", id);
        return fact && fact->value.len ? (char) fact->value.data[0] : '.';
    }

    fact = sim_store_fact(&sim.key, "result/", id);
    if (fact == NULL || !fact->has_payload) {
        return '.';
    }

    at = memmem(fact->payload.data, fact->payload.len, mark, 2);
    return at != NULL ? at[2] : '?';
}


static int
was_sent(unsigned call, char value)
{
    unsigned i;

    for (i = 0; i < sim.nrequests; i++) {
        if (sim.requests[i]->arrived != 0
            && sim.requests[i]->body.values[call] == value)
        {
            return 1;
        }
    }

    return 0;
}


/* Each result is the body's own, or else the one that the store has. */
static void
check_values(const sim_request_t *request)
{
    char     own, got, stored;
    unsigned i;

    for (i = 0; i < sim.ncalls; i++) {
        own = request->body.values[i];
        got = request->sent[i];
        stored = stored_value(i);

        if (got == own
            && (own == '.' || !(sim.approvals >> i & 1)
                || (request->body.kind == SIM_FRESH
                    && sim.conf.repair == NGX_CHAT_REPAIR_OFF)))
        {
            continue;
        }

        if (got == own && request->body.kind == SIM_FRESH
            && request->worker->failed >= request->arrived)
        {
            continue; /* it does not wait for the store */
        }

        if (got == 'e' && request->body.kind == SIM_FRESH
            && sim.conf.repair == NGX_CHAT_REPAIR_ALL)
        {
            continue;
        }

        if (sim.approvals >> i & 1 && got == own && stored == '.') {
            continue; /* the store has failed: the body is as it came */
        }

        if (got != stored && (!sim.lossy || !was_sent(i, got))
            && !(got == own && request->passed))
        {
            sim_violated("kept_results",
                         "call %u of request %u went upstream with %c; the "
                         "body had %c, the store has %c",
                         i, request->id, got, own, stored);
        }
    }
}


/* 1 if the claim that the store has is this request's. */
static int
has_claim(const sim_request_t *request)
{
    char               k[16], text[64];
    const chat_fact_t *fact;

    snprintf(k, sizeof(k), "%u", request->k);
    snprintf(text, sizeof(text), "%s %s ", request->worker->name,
             request->name);
    fact = sim_store_fact(&sim.key, "claim/", chat_cstr(k));
    return fact != NULL && chat_str_starts(fact->value, text);
}


/*
 * A stored decision goes into a body only if no attempt that carried it was
 * answered before the body came: its tool may have run. A request that passed
 * without the store is no attempt if another one has the claim.
 */
static void
check_approvals(const sim_request_t *request)
{
    unsigned             i, call;
    const sim_request_t *other;

    for (i = 0; i < sim.nrequests; i++) {
        other = sim.requests[i];

        for (call = 0; call < sim.ncalls; call++) {
            if (sim.approvals >> call & 1 && request->body.values[call] == '.'
                && strchr("gr", request->sent[call])
                && other->sent[call] == request->sent[call] && other->k != 0
                && (!other->passed || has_claim(other)) && other->answered != 0
                && other->answered < request->arrived)
            {
                sim_violated("one_approval",
                             "request %u repeats the decision on call %u, "
                             "which request %u carried",
                             request->id, call, other->id);
            }
        }
    }
}


/* 1 if the two requests are siblings, by what went upstream. */
static int
agrees(const sim_request_t *request, const sim_request_t *attempt)
{
    unsigned i;

    if (request->body.variant != attempt->body.variant) {
        return 0;
    }

    for (i = 0; i < sim.ncalls; i++) {
        if (request->body.values[i] != '.' && !(sim.approvals >> i & 1)
            && request->body.values[i] != attempt->sent[i])
        {
            return 0;
        }
    }

    return 1;
}


/* 1 if the store knows that the answer of an attempt has finished. */
static int
is_finished(const sim_request_t *attempt)
{
    char               field[64];
    const chat_fact_t *fact;

    snprintf(field, sizeof(field), "end/%u/%s/%s", attempt->k,
             attempt->worker->name, attempt->name);
    fact = sim_store_fact(&sim.key, field, chat_cstr(""));
    return fact != NULL && chat_str_starts(fact->value, "finished");
}


/* The request goes upstream beside others, or after them. */
static void
check_others(const sim_request_t *request)
{
    int                  rivals = 0, others = 0;
    unsigned             i;
    const sim_request_t *other;

    for (i = 0; i < sim.nrequests; i++) {
        other = sim.requests[i];

        if (other == request || other->k == 0 || other->unsent
            || other->passed) {
            continue;
        }

        if (request->k != 0 && other->phase == SIM_UPSTREAM
            && other->status < 300) {
            sim_violated("one_attempt",
                         "requests %u (attempt %u) and %u (attempt %u) are "
                         "upstream at a time",
                         other->id, other->k, request->id, request->k);
        }

        if (request->k > other->k && is_finished(other)) {
            sim_violated("one_answer",
                         "request %u goes upstream as attempt %u; attempt %u "
                         "(request %u) has finished",
                         request->id, request->k, other->k, other->id);
        }

        rivals += other->phase == SIM_UPSTREAM && agrees(request, other);
        others += !agrees(request, other);
    }

    if (request->k == 0 && request->lacked && rivals && !others
        && !sim.contrary) {
        sim_violated("one_answer",
                     "request %u goes upstream without a claim, beside an "
                     "attempt with the same content",
                     request->id);
    }
}


/* A request passes unchanged if the store does not know its step. */
static void
check_unmanaged(const sim_request_t *request)
{
    sim_count("requests upstream as unmanaged");

    if (!sim.lossy && !sim.refused && sim.sealed != 0
        && sim.sealed < request->arrived && request->body.kind == SIM_BATCH)
    {
        sim_violated("complete_body",
                     "request %u is unmanaged, but the store knows its step",
                     request->id);
    }
}


/*
 * 1 if the body asks for external results only, and the store need not have
 * had all of them, or they have gone upstream: a decision goes there once.
 */
static int
is_pending(const sim_request_t *request)
{
    unsigned i;

    if (memcmp(request->body.values, "....", sim.ncalls) != 0) {
        return 0;
    }

    for (i = 0; i < sim.ncalls; i++) {
        if (sim.acknowledged[i] == 0
            || sim.acknowledged[i] >= request->arrived) {
            return 1;
        }
    }

    for (i = 0; i < sim.nrequests; i++) {
        if (sim.requests[i]->k != 0) {
            return 1;
        }
    }

    return sim.lossy || request->passed || sim.sealed == 0
           || sim.sealed >= request->arrived;
}


/* A continuation that the module has decided about. */
static void
check_continuation(const sim_request_t *request, int results)
{
    if (results == 0 && is_pending(request)) {
        sim_count("requests upstream without a result");
        return;
    }

    if (sim.chained && request->passed && !request->ctx->barrier.sealed) {
        return; /* only the store knows the calls of a chain */
    }

    if (results != (int) sim.ncalls) {
        sim_violated("complete_body", "request %u went upstream with %.*s",
                     request->id, (int) sim.ncalls, request->sent);
    }

    /* without the store, or past a limit, a complete body goes on alone */
    if (!sim.lossy && !request->passed) {
        check_others(request);
        check_approvals(request);
    }
}


void
sim_check_handed_over(sim_request_t *request)
{
    int             results;
    chat_str_t      body = request->text;
    ngx_chat_ctx_t *ctx = request->ctx;

    if (ctx->body.merged.len != 0) {
        body = ctx->body.merged;
        sim_count("bodies merged");
    }

    results = sim_body_read(body, request->sent);
    if (results < 0) {
        sim_violated("complete_body", "request %u: not a body", request->id);
    }

    request->lacked = memchr(request->body.values, '.', sim.ncalls) != NULL;
    request->passed = sim_verdict(request) == CHAT_VERDICT_BYPASS
                      || sim_verdict(request) == CHAT_VERDICT_REFUSED;
    sim_log("request %u: goes upstream with %.*s, attempt %u", request->id,
            (int) sim.ncalls, request->sent, request->k);
    sim_count(request->k ? "requests upstream with a claim"
                         : "requests upstream without a claim");

    if (sim_verdict(request) == CHAT_VERDICT_UNMANAGED) {
        check_unmanaged(request);
        return;
    }

    check_values(request);

    if (request->body.kind != SIM_FRESH) {
        check_continuation(request, results);
    }
}


void
sim_check_followed(sim_request_t *request, sim_request_t *producer)
{
    if (producer->status < 200 || producer->status >= 300
        || (!sim.lossy && !agrees(request, producer)))
    {
        sim_violated(
            "own_answer", "request %u follows request %u, which carried %.*s",
            request->id, producer->id, (int) sim.ncalls, producer->sent);
    }
}


/* Results that another program has sent. */
static void
check_external(const sim_request_t *request)
{
    char               name[64];
    unsigned           i;
    ngx_uint_t         status = request->r.headers_out.status;
    const chat_fact_t *fact;

    snprintf(name, sizeof(name), "replies to external results: %lu",
             (unsigned long) status);
    sim_count(name);
    sim_log("request %u: gets %lu", request->id, (unsigned long) status);

    if ((status != 200 && status != 404 && status != 503)
        || (status == 503 && request->worker->failed < request->arrived)
        || (status == 404 && !sim.lossy && !sim.refused && sim.sealed != 0
            && sim.sealed < request->arrived))
    {
        sim_violated("external", "request %u gets %lu", request->id,
                     (unsigned long) status);
    }

    for (i = 0; i < sim.ncalls && status == 200; i++) {
        if (request->body.values[i] == '.') {
            continue;
        }

        fact = sim_store_fact(&sim.key,
                              sim.approvals >> i & 1 ? "approval/" : "result/",
                              sim_call_id(i));

        if (fact == NULL && !sim.lossy) {
            sim_violated("external",
                         "request %u was acknowledged, but the store has no "
                         "result for call %u",
                         request->id, i);
        }

        if (fact != NULL && fact->has_payload && sim.acknowledged[i] == 0) {
            sim.acknowledged[i] = sim.now;
        }
    }
}


void
sim_check_replied(sim_request_t *request)
{
    unsigned             i;
    char                 name[64];
    ngx_chat_ctx_t      *ctx = request->ctx;
    const sim_request_t *other;
    const char          *word = chat_reasons[ctx->reason].word;
    const char          *verdict = chat_verdict_names[sim_verdict(request)];

    if (request->body.kind == SIM_EXTERNAL) {
        check_external(request);
        return;
    }

    snprintf(name, sizeof(name), "replies: %s, %s", verdict, word);
    sim_count(name);
    sim_log("request %u: gets a reply: %s, %s", request->id, verdict, word);

    if (request->body.kind == SIM_FRESH
        && sim_verdict(request) != CHAT_VERDICT_REFUSED)
    {
        sim_violated("fresh_free", "request %u gets %s", request->id, word);
    }

    if (sim_verdict(request) != CHAT_VERDICT_EMPTY
        || ctx->barrier.decision.verdict == CHAT_GATE_SUPERSEDED
        || ctx->barrier.decision.k == 0)
    {
        return;
    }

    /* the client believes that its results have been answered */
    for (i = 0; i < sim.nrequests; i++) {
        other = sim.requests[i];
        if (other->k == ctx->barrier.decision.k && other->status == 200
            && agrees(request, other))
        {
            return;
        }
    }

    if (!sim.lossy) {
        sim_violated("own_answer",
                     "request %u gets %s, but no attempt %u "
                     "carried its results",
                     request->id, word, ctx->barrier.decision.k);
    }
}


/* The longest time of a hold. */
static uint64_t
hold_bound(void)
{
    return sim.conf.hold != NGX_CHAT_HOLD_AUTO ? sim.conf.hold
           : sim.dialect->one_by_one           ? 5000
                                               : 300000;
}


static const char *const verdicts[] = {
    "PASS",       "CLAIM",      "GO",      "UNMANAGED", "HOLD",
    "WAIT",       "SIBLING",    "EMPTY",   "CONFLICT",  "OUTCOME",
    "INCOMPLETE", "SUPERSEDED", "CLEARED", "LOOP",      "AGAIN"
};


static void
show(sim_request_t *request)
{
    static const char *const actions[] = {
        "pass", "go", "claim", "wait", "follow", "poll", "look", "reply"
    };
    const ngx_chat_ctx_t *ctx = request->ctx;

    if (request->verdict != ctx->barrier.decision.verdict
        || request->shown.action != ctx->act.action)
    {
        request->verdict = ctx->barrier.decision.verdict;
        request->shown = ctx->act;
        sim_log("request %u: %s, %s%s", request->id,
                verdicts[request->verdict], actions[ctx->act.action],
                ctx->barrier.watching ? ", watches" : "");
    }
}


/* Since when a request waits for a claimant that is known to be dead. */
static void
check_claimant(sim_request_t *request)
{
    uint64_t              from;
    const sim_worker_t   *worker;
    const chat_attempt_t *last = &request->ctx->barrier.q.seen.last;

    if (request->ctx->act.action != CHAT_ACT_WAIT || request->ctx->act.bounded
        || request->follows != NULL)
    {
        return;
    }

    worker = sim_find_worker(last->worker);
    if (worker == NULL || !worker->dead) {
        return;
    }

    from = worker->died + worker->lease;
    from = ngx_max(from, sim.outage);

    if (sim.reachable && sim.now > from + (sim.redis ? 3000 : 500)) {
        sim_violated("dead_detected", "request %u waits for attempt %u of %s",
                     request->id, last->k, worker->name);
    }
}


static void
check_bound(sim_request_t *request)
{
    uint64_t              since, bound = hold_bound() + SLACK;
    const ngx_chat_ctx_t *ctx = request->ctx;

    if (ctx->state == NGX_CHAT_FOLLOWING) {
        request->waited = sim.now;

    } else if (ctx->act.action == CHAT_ACT_FOLLOW
               || (ctx->act.action == CHAT_ACT_WAIT && !ctx->act.bounded
                   && ctx->state == NGX_CHAT_WAITING))
    {
        if (request->waits_for != ctx->barrier.decision.k) {
            request->waits_for = ctx->barrier.decision.k;
            request->waited = sim.now;
        }

        bound = SIM_UPSTREAM_LONGEST + SLACK;

    } else if (request->waits_for != 0) {
        request->waits_for = 0;
        request->waited = sim.now;
    }

    since = ngx_max(request->arrived, request->waited);

    if (request->body.kind == SIM_EXTERNAL) {
        if (sim.now > request->arrived + SLACK) {
            sim_violated("bounded", "request %u gets no reply", request->id);
        }

    } else if (request->body.kind == SIM_FRESH) {
        if (sim.now > request->arrived + 3000) {
            sim_violated("fresh_free", "request %u waits for %ld ms",
                         request->id, (long) (sim.now - request->arrived));
        }

    } else if (sim.now > since + bound) {
        sim_violated("bounded", "request %u waits for %ld ms", request->id,
                     (long) (sim.now - since));
    }
}


void
sim_name_request(sim_request_t *request)
{
    chat_str_t name;

    if (request->name[0] == '\0' && request->ctx != NULL) {
        name = request->ctx->barrier.q.request;
        snprintf(request->name, sizeof(request->name), "%.*s", (int) name.len,
                 (const char *) name.data);
    }
}


void
sim_check_step(void)
{
    unsigned       i;
    sim_request_t *request;

    for (i = 0; i < sim.nrequests; i++) {
        request = sim.requests[i];

        if (request->ctx == NULL || request->worker->dead) {
            continue;
        }

        sim_name_request(request);

        if (request->phase == SIM_INSIDE) {
            check_bound(request);
        }

        if (request->phase == SIM_INSIDE && request->body.kind != SIM_EXTERNAL)
        {
            check_claimant(request);
            show(request);
        }
    }
}


/* The last claim. */
static void
check_claims(void)
{
    size_t              n;
    chat_batch_t        batch;
    const chat_fact_t  *facts;
    const sim_worker_t *worker;

    n = sim_store_facts(&sim.key, &facts);
    if (chat_batch_read(facts, n, sim.arena, &batch) != CHAT_OK) {
        sim_violated("model", "no memory");
    }

    worker = sim_find_worker(batch.last.worker);

    if (batch.last.k != 0 && !batch.last.is_void
        && batch.last.end == CHAT_END_NONE && worker != NULL && !worker->dead)
    {
        sim_violated("settled_claims", "attempt %u of %s has no end",
                     batch.last.k, worker->name);
    }
}


/* Without faults: all results came within a hold. */
static void
check_released(void)
{
    unsigned             i, sent = 0;
    const sim_request_t *request;

    for (i = 0; i < sim.nplan; i++) {
        if (sim.plan[i].body.kind == SIM_FRESH) {
            return;
        }
    }

    for (i = 0; i < sim.nrequests; i++) {
        request = sim.requests[i];
        sent += request->k != 0 && request->finished;
    }

    if (sent != 1) {
        sim_violated("released", "%u requests were answered", sent);
    }

    sim_count("schedules without faults");
}


void
sim_check_end(void)
{
    unsigned       i;
    sim_request_t *request;

    for (i = 0; i < sim.nrequests; i++) {
        request = sim.requests[i];

        if (request->phase != SIM_OVER && request->phase != SIM_NEW) {
            sim_violated("bounded", "request %u never ends", i);
        }
    }

    if (!sim.lossy && !sim.refused && sim.reachable) {
        check_claims();
    }

    if (!sim.faults && !sim.contrary && sim.spread <= 400 && sim.dropped == 0
        && sim.conf.max_held > 2)
    {
        check_released();
    }
}
