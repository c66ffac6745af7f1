/*
 * sim_world.c: workers, clients and providers.
 *
 * A worker is killed after a number of its own steps: calls of the store,
 * requests that it hands over, replies. So it may die between any two. Its
 * place gets a new worker. A client that is refused sends again.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "sim.h"
#include "record/ngx_chat_follow.h"

#define TRIES 3


static void on_respawn(void *data, uintptr_t slot);
static void on_arrival(void *data, uintptr_t number);
static void on_follow(void *data, uintptr_t number);


/* Workers. */

sim_worker_t *
sim_find_worker(chat_str_t name)
{
    unsigned i;

    for (i = 0; i < sim.nworkers; i++) {
        if (chat_str_is(name, sim.workers[i]->name)) {
            return sim.workers[i];
        }
    }

    return NULL;
}


static void
open_worker(unsigned slot)
{
    sim_worker_t      *worker = calloc(1, sizeof(*worker));
    ngx_chat_worker_t *w = &worker->conf.worker;

    worker->slot = slot;
    worker->lease = sim.redis ? SIM_LEASE : 0;
    snprintf(worker->name, sizeof(worker->name), "w%u", sim.nworkers);
    worker->main_conf[0] = &worker->conf;
    ngx_rbtree_init(&worker->timers, &worker->timers_sentinel,
                    ngx_rbtree_insert_value);
    sim.workers[sim.nworkers++] = worker;
    sim.slots[slot] = worker;
    sim_store_open(worker);

    w->store = &worker->base.store;
    w->ttl = 3600;
    ngx_queue_init(&w->attempts);
    (void) ngx_chat_hold_init(w, (ngx_cycle_t *) ngx_cycle);
}


int
sim_enter(sim_worker_t *worker)
{
    if (worker->dead) {
        return 0;
    }

    sim.current = worker;
    ngx_event_timer_rbtree = worker->timers;
    ngx_exiting = (ngx_uint_t) worker->exiting;
    return 1;
}


int
sim_burn(sim_worker_t *worker)
{
    if (worker->dead) {
        return 0;
    }

    if (worker->fuse != 0 && --worker->fuse == 0) {
        sim_log("%s: is killed", worker->name);
        sim_count("workers killed");
        worker->dead = 1;
        worker->died = sim.now;
    }

    return !worker->dead;
}


/* Clients. */

static sim_request_t *
make_request(const sim_body_t *body, unsigned tries)
{
    sim_request_t *request;

    if (sim.nrequests == SIM_REQUESTS) {
        return NULL;
    }

    request = chat_arena_alloc(sim.arena, sizeof(*request));
    request->id = sim.nrequests;
    request->body = *body;
    request->tries = tries;
    sim.requests[sim.nrequests++] = request;
    return request;
}


/* A client that was refused sends again, and may count its tries. */
static void
send_again(const sim_request_t *request, unsigned delay)
{
    sim_body_t     body = request->body;
    sim_request_t *again;

    if (request->tries + 1 < TRIES && sim_dice(3)) {
        body.retry += sim_dice(2);
        again = make_request(&body, request->tries + 1);

        if (again != NULL) {
            (void) sim_at(delay + sim_dice(1500), 0, on_arrival, again, 0);
        }
    }
}


static void
arrive(sim_request_t *request, sim_worker_t *worker)
{
    char            text[64];
    ngx_chat_ctx_t *ctx;

    request->worker = worker;
    request->text = sim_body(&request->body);
    request->arrived = sim.now;
    request->phase = SIM_INSIDE;
    sim_request_open(request);

    ctx = ngx_chat_request_create(&request->r, &sim.conf);
    request->ctx = ctx;
    ctx->headers.json = 1;
    ctx->headers.retry = request->body.retry;
    ctx->expected = sim.dialect;
    ctx->managed = 1;

    sim_body_text(&request->body, text);
    sim_log("request %u: %s, to %s", request->id, text, worker->name);
    sim_count("requests");
    ctx->step(ctx, NGX_CHAT_EVENT_BODY);
}


static void
on_arrival(void *data, uintptr_t number)
{
    sim_request_t *request = data;
    sim_worker_t  *worker = sim.slots[sim_dice(sim.nslots)];

    if (worker == NULL || !sim_enter(worker)) {
        /* refused: its client tries again */
        if (number < 100) {
            (void) sim_at(20 + sim_dice(50), 0, on_arrival, data, number + 1);
        }
        return;
    }

    arrive(request, worker);
    sim_leave(worker);
}


/* The client closes its connection. */
static void
leave(unsigned number)
{
    unsigned       i;
    sim_request_t *request;

    for (i = 0; i < sim.nrequests; i++) {
        request = sim.requests[(number + i) % sim.nrequests];

        if ((request->phase == SIM_INSIDE || request->phase == SIM_UPSTREAM)
            && sim_enter(request->worker))
        {
            sim_log("request %u: its client leaves", request->id);
            sim_count("clients that leave");
            sim_request_free(request);
            sim_leave(request->worker);
            send_again(request, 1);
            return;
        }
    }
}


sim_request_t *
sim_request_of(const ngx_http_request_t *r)
{
    return (sim_request_t *) r; /* its first member */
}


sim_request_t *
sim_claimant(chat_str_t worker, chat_str_t name)
{
    unsigned       i;
    sim_request_t *request;

    for (i = 0; i < sim.nrequests; i++) {
        request = sim.requests[i];
        if (request->worker != NULL && request->name[0] != '\0'
            && chat_str_is(worker, request->worker->name)
            && chat_str_is(name, request->name))
        {
            return request;
        }
    }

    return NULL;
}


/* The end of a worker. */

static void
bury(sim_worker_t *worker)
{
    unsigned       i;
    sim_request_t *request;

    sim_store_crash(worker);

    for (i = 0; i < sim.nrequests; i++) {
        request = sim.requests[i];
        if (request->worker == worker && request->phase != SIM_OVER
            && request->phase != SIM_NEW)
        {
            sim_request_free(request);
            send_again(request, 1);
        }
    }

    for (i = 0; i < sim.nrequests; i++) {
        if (sim.requests[i]->pending
            && sim.requests[i]->follows->worker == worker) {
            (void) sim_at(worker->lease + sim_dice(500), 0, on_follow,
                          sim.requests[i], 0);
        }
    }

    if (sim.slots[worker->slot] == worker) {
        sim.slots[worker->slot] = NULL;
        (void) sim_at(sim_dice(200), 0, on_respawn, NULL, worker->slot);
    }
}


static void
on_expired(void *data, uintptr_t number)
{
    sim_store_wake_all();
}


/* 1 if a worker that was told to exit has nothing left to do. */
static int
is_idle(const sim_worker_t *worker)
{
    unsigned             i;
    const sim_request_t *request;

    for (i = 0; i < sim.nrequests; i++) {
        request = sim.requests[i];
        if (request->worker == worker && request->phase != SIM_OVER
            && request->phase != SIM_NEW)
        {
            return 0;
        }
    }

    return ngx_queue_empty(&worker->cmds);
}


void
sim_leave(sim_worker_t *worker)
{
    sim_posted();
    (void) sim_burn(worker);
    sim_check_step();
    worker->timers = ngx_event_timer_rbtree;

    if (worker->dead) {
        bury(worker);
        worker->timers = ngx_event_timer_rbtree;
        /* Redis keeps its key; over shared memory its place is seen at once */
        (void) sim_at(sim.redis ? SIM_LEASE : sim_dice(100), 0, on_expired,
                      NULL, 0);

    } else if (worker->exiting && is_idle(worker)) {
        sim_log("%s: exits", worker->name);
        worker->dead = 1;
        worker->died = sim.now;
        worker->lease = 0;
        sim_store_wake_all();
    }
}


static void
on_respawn(void *data, uintptr_t slot)
{
    if (sim.nworkers < SIM_WORKERS && sim.slots[slot] == NULL) {
        open_worker((unsigned) slot);
        sim_log("%s: starts", sim.slots[slot]->name);
        if (!sim.redis) {
            sim_store_wake_all();
        }
    }
}


/* The provider. */

static void
end_answer(sim_request_t *request)
{
    sim_request_free(request);

    if (!request->finished) {
        send_again(request, 100);
    }
}


static void
wake_followers(const sim_request_t *producer)
{
    unsigned i;

    for (i = 0; i < sim.nrequests; i++) {
        if (sim.requests[i]->pending && sim.requests[i]->follows == producer) {
            (void) sim_at(sim_dice(4), 0, on_follow, sim.requests[i], 0);
        }
    }
}


/* The answer ends. */
static void
on_end(void *data, uintptr_t number)
{
    sim_request_t  *request = data;
    ngx_chat_ctx_t *ctx = request->ctx;

    if (request->phase != SIM_UPSTREAM || !sim_enter(request->worker)) {
        return;
    }

    if (request->status >= 300) {
        ctx->response.has_last = 1;

    } else if (sim.faults && sim_dice(6) == 0) {
        ctx->response.upstream_reason = "reset";
        ctx->response.upstream_rc = NGX_ERROR;
        sim_count("answers that break off");

    } else {
        ctx->response.has_last = 1;
        ctx->response.upstream_rc = NGX_OK;
        request->finished = 1;
        sim_count("answers that finish");
    }

    sim_log("request %u: its answer ends%s", request->id,
            request->finished ? "" : " badly");
    end_answer(request);
    wake_followers(request);
    sim_leave(request->worker);
}


/* The answer begins. */
static void
on_answer(void *data, uintptr_t number)
{
    unsigned        dice = sim.faults ? sim_dice(10) : 9;
    sim_request_t  *request = data;
    ngx_chat_ctx_t *ctx = request->ctx;

    if (request->phase != SIM_UPSTREAM || !sim_enter(request->worker)) {
        return;
    }

    request->unsent = dice == 0;
    request->status = dice == 0   ? 502
                      : dice == 1 ? 500
                      : dice == 2 ? 429
                                  : 200;
    request->recorded |= sim_dice(2) && request->status == 200;
    sim_log("request %u: the provider answers %u%s", request->id,
            request->status, request->unsent ? ", it was never sent" : "");
    sim_count(request->status == 200 ? "answers that begin"
                                     : "answers that refuse");

    ctx->response.status = request->status;
    ctx->step(ctx, NGX_CHAT_EVENT_ANSWER);
    wake_followers(request);
    (void) sim_at(sim_dice(4) ? sim_dice(300) : sim_dice(30000), 0, on_end,
                  request, 0);
    sim_leave(request->worker);
}


void
sim_handed_over(sim_request_t *request)
{
    if (!sim_burn(request->worker)) {
        return;
    }

    request->phase = SIM_UPSTREAM;
    request->k = request->ctx->attempt.k;
    sim_check_handed_over(request);
    (void) sim_at(sim_dice(4) ? sim_dice(20) : sim_dice(3000), 0, on_answer,
                  request, 0);
}


void
sim_replied(sim_request_t *request, ngx_int_t rc)
{
    int again;

    if (!sim_burn(request->worker)) {
        return;
    }

    again = sim_verdict(request) == CHAT_VERDICT_BOUNCED
            || sim_verdict(request) == CHAT_VERDICT_REFUSED
            || sim_verdict(request) == CHAT_VERDICT_CONFLICT;

    sim_check_replied(request);
    sim_request_free(request);

    if (again) {
        send_again(request, 200);
    }
}


/* Recordings. */

static void
on_follow(void *data, uintptr_t number)
{
    sim_request_t *request = data;

    if (request->pending && request->phase == SIM_INSIDE
        && sim_enter(request->worker))
    {
        ngx_chat_follow_look(request->ctx);
        sim_leave(request->worker);
    }
}


static void
leave_follow(ngx_chat_ctx_t *ctx)
{
    sim_request_of(ctx->request)->pending = 0;
}


/* The attempt that a request may follow, or NULL. */
static sim_request_t *
followed(ngx_chat_ctx_t *ctx)
{
    const chat_attempt_t *attempt = &ctx->barrier.q.seen.last;

    return ctx->conf->record == NGX_CHAT_RECORD_OFF
                   || attempt->k != ctx->barrier.decision.k
               ? NULL
               : sim_claimant(attempt->worker, attempt->request);
}


void
ngx_chat_follow_wait(ngx_chat_ctx_t *ctx)
{
    sim_request_t *producer = followed(ctx);

    if (producer != NULL && producer->status == 0) {
        producer->recorded = 1;
    }
}


ngx_int_t
ngx_chat_follow(ngx_chat_ctx_t *ctx, ngx_uint_t late)
{
    sim_request_t *request = sim_request_of(ctx->request);

    request->follows = followed(ctx);
    request->late = (int) late;
    request->pending = request->follows != NULL;
    ctx->cleanups[NGX_CHAT_CLEANUP_FOLLOW] = leave_follow;
    return request->pending ? NGX_OK : NGX_DECLINED;
}


void
ngx_chat_follow_look(ngx_chat_ctx_t *ctx)
{
    sim_request_t *request = sim_request_of(ctx->request);
    sim_request_t *producer = request->follows;

    if (!producer->recorded && producer->status != 0) {
        request->pending = 0;
        ctx->step(ctx, NGX_CHAT_EVENT_UNRECORDED);

    } else if (producer->status != 0 && producer->status < 300) {
        request->pending = 0;
        ctx->step(ctx, NGX_CHAT_EVENT_HEAD);

    } else if (producer->status != 0 || producer->phase == SIM_OVER) {
        request->pending = 0;

        if (request->late || !producer->recorded) {
            ctx->step(ctx, NGX_CHAT_EVENT_UNRECORDED);
        } else {
            ngx_chat_reply_broken(ctx, "upstream");
        }
    }
}


static void
on_followed(void *data, uintptr_t number)
{
    sim_request_t *request = data;

    if (request->phase == SIM_INSIDE && sim_enter(request->worker)) {
        sim_log("request %u: has followed request %u", request->id,
                request->follows->id);
        sim_request_free(request);
        sim_leave(request->worker);
    }
}


void
ngx_chat_follow_start(ngx_chat_ctx_t *ctx, ngx_int_t rc)
{
    sim_request_t *request = sim_request_of(ctx->request);

    sim_check_followed(request, request->follows);
    ctx->payloads.count = 0;
    chat_results_init(&ctx->body.results, NULL);
    chat_arena_destroy(ctx->body.arena);
    ctx->body.arena = NULL;
    ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_HOLD, NGX_CHAT_CLEANUP_INDEX_HOLD);
    ctx->state = NGX_CHAT_FOLLOWING;
    ctx->reason = ctx->act.reason;
    ctx->response.answered = 1;
    sim_count("followers");
    (void) sim_at(10, 0, on_followed, request, 0);
}


/* The stream of the step. */

static void
put(chat_facts_t *facts)
{
    chat_store_t *store = &sim.producer->base.store;

    store->join(store, NULL, &sim.key, facts->items, facts->count, 3600);
}


/* number: 0: it opens; then its calls; the last one is its end. */
static void
on_stream(void *data, uintptr_t number)
{
    chat_facts_t  facts;
    chat_digest_t fingerprint;
    char          args[24];
    unsigned      call = (unsigned) number - 1;

    if (sim.producer == NULL) {
        sim.producer = sim.slots[0];
    }

    if (sim.producer == NULL || !sim_enter(sim.producer)) {
        return;
    }

    chat_facts_init(&facts, sim.arena);

    if (number == 0) {
        chat_facts_since(&facts, sim.now);
        chat_facts_open(&facts, chat_cstr(sim.producer->name), chat_cstr(""));

    } else if (number <= sim.ncalls) {
        snprintf(args, sizeof(args), "{\"n\":%u}", call);
        (void) chat_fingerprint(chat_cstr("dig"), chat_cstr(args),
                                &fingerprint);
        chat_facts_call(&facts, sim_call_id(call),
                        sim.approvals >> call & 1 ? CHAT_KIND_APPROVAL
                                                  : CHAT_KIND_CLIENT,
                        call, &fingerprint);

    } else {
        snprintf(args, sizeof(args), "%u", sim.ncalls);
        chat_facts_add(&facts,
                       sim.faults && sim_dice(8) == 0 ? "broken" : "seal",
                       chat_cstr(args));
    }

    put(&facts);
    sim_leave(sim.producer);

    if (number <= sim.ncalls) {
        (void) sim_at(sim.spread ? sim_dice(20) : 0, 0, on_stream, NULL,
                      number + 1);
    }
}


/* Faults. */

static sim_worker_t *
some_worker(unsigned number)
{
    unsigned i;

    for (i = 0; i < sim.nslots; i++) {
        if (sim.slots[(number + i) % sim.nslots] != NULL) {
            return sim.slots[(number + i) % sim.nslots];
        }
    }

    return NULL;
}


static void
kill_worker(unsigned number)
{
    sim_worker_t *worker = some_worker(number);

    if (worker != NULL && sim.nworkers + sim.nslots < SIM_WORKERS) {
        worker->fuse = 1 + number / SIM_SLOTS % 8;
    }
}


static void
reload(unsigned number)
{
    unsigned i;

    for (i = 0; i < sim.nslots; i++) {
        if (sim.slots[i] != NULL && sim.nworkers + sim.nslots < SIM_WORKERS) {
            sim_log("%s: is told to exit", sim.slots[i]->name);
            sim.slots[i]->exiting = 1;
            sim.slots[i] = NULL;
            on_respawn(NULL, i);
        }
    }

    sim_count("reloads");
}


static void
cut(unsigned number)
{
    sim_worker_t *worker = some_worker(number);

    if (worker != NULL && sim.redis) {
        sim_count("connections cut");
        sim_store_break(worker, 10 + number % 2000);
    }
}


static void
outage(unsigned number)
{
    if (sim.redis) {
        sim_count("outages");
        sim_store_outage(number % 3 ? number % 900 : number % 12000);
    }
}


static void
fail_over(unsigned number)
{
    if (sim.redis) {
        sim_store_failover(number % 3 ? 0 : number % 7);
    }
}


static void
restart(unsigned number)
{
    if (sim.redis) {
        sim_store_restart();
    }
}


static void
deafen(unsigned number)
{
    sim_worker_t *worker = some_worker(number);

    if (worker != NULL && sim.redis) {
        sim_count("subscriptions cut");
        sim_store_deafen(worker, 20 + number % 1000);
    }
}


/* The plan of a schedule. */

static const struct {
    const char *name;
    void (*run)(unsigned number);
    unsigned weight;
} faults[] = {
    { "kill", kill_worker, 6 },
    { "reload", reload, 1 },
    { "cut", cut, 3 },
    { "outage", outage, 2 },
    { "failover", fail_over, 2 },
    { "restart", restart, 1 },
    { "deafen", deafen, 2 },
    { "leave", leave, 4 },
};


static sim_stimulus_t *
add_stimulus(uint64_t at)
{
    sim_stimulus_t *stimulus = &sim.plan[sim.nplan++];

    stimulus->at = at;
    return stimulus;
}


static void
plan_fault(void)
{
    unsigned        i, dice = sim_dice(21);
    sim_stimulus_t *stimulus = add_stimulus(sim_dice(sim.spread + 400));

    for (i = 0; dice >= faults[i].weight; i++) {
        dice -= faults[i].weight;
    }

    stimulus->run = faults[i].run;
    stimulus->name = faults[i].name;
    stimulus->argument = sim_dice(100000);
}


/* The value of a call that a client knows. */
static char
value_of(unsigned call)
{
    int other = sim_dice(12) == 0;

    sim.contrary |= other;
    return sim.approvals >> call & 1 ? "gr"[other] : "xy"[other];
}


/* Requests that bring all results between them, and some more. */
static void
plan_requests(void)
{
    unsigned        i, n, requests = 1 + sim_dice(sim.ncalls);
    unsigned        from = sim.streamed ? 10 + sim_dice(150) : 0;
    sim_stimulus_t *stimulus;

    for (n = 0; n < requests; n++) {
        stimulus = add_stimulus(from + sim_dice(sim.spread + 1));
        stimulus->body.variant = sim_dice(16) == 0;
        sim.contrary |= stimulus->body.variant != 0;
        memset(stimulus->body.values, '.', SIM_CALLS);

        for (i = 0; i < sim.ncalls; i++) {
            if (i % requests == n || sim_dice(4) == 0) {
                stimulus->body.values[i] = value_of(i);
            }
        }

        if (sim_dice(4) == 0) {
            /* the same once more */
            add_stimulus(stimulus->at + sim_dice(100))->body = stimulus->body;
        }
    }

    if (sim_dice(4) == 0) {
        stimulus = add_stimulus(from + sim_dice(sim.spread + 1000));
        for (i = 0; i < sim.ncalls; i++) {
            stimulus->body.values[i] = value_of(i);
        }
    }
}


static void
plan_fresh(void)
{
    unsigned        i;
    sim_stimulus_t *stimulus;

    stimulus = add_stimulus(sim_dice(2 * sim.spread + 500));
    stimulus->body.kind = SIM_FRESH;

    for (i = 0; i < sim.ncalls; i++) {
        stimulus->body.values[i] = sim_dice(2) ? '.' : value_of(i);
    }
}


static void
on_stimulus(void *data, uintptr_t number)
{
    sim_stimulus_t *stimulus = data;
    sim_request_t  *request;

    if (stimulus->run != NULL) {
        stimulus->run(stimulus->argument);
        return;
    }

    request = make_request(&stimulus->body, 0);
    if (request != NULL) {
        on_arrival(request, 0);
    }
}


static void
plan(void)
{
    static const unsigned spreads[] = { 0, 3, 50, 400, 4000 };
    unsigned              i, n;

    sim.spread = spreads[sim_dice(5)];
    plan_requests();

    if (sim_dice(5) == 0) {
        plan_fresh();
    }

    sim.faults = sim_dice(4) != 0;
    n = sim.faults ? 1 + sim_dice(5) : 0;

    for (i = 0; i < n; i++) {
        plan_fault();
    }

    for (i = 0; i < sim.nplan; i++) {
        if (!(sim.dropped >> i & 1)) {
            (void) sim_at(sim.plan[i].at, 0, on_stimulus, &sim.plan[i], i);
        }
    }
}


/* The settings of the seed. */
static void
choose(void)
{
    static const chat_dialect_t *const dialects[] = {
        &chat_dialect_ai_sdk, &chat_dialect_openai_chat,
        &chat_dialect_anthropic, &chat_dialect_openai_responses
    };
    ngx_chat_loc_conf_t *conf = &sim.conf;

    sim.redis = sim_dice(2) != 0;
    sim.nslots = 1 + sim_dice(SIM_SLOTS);
    sim.dialect = dialects[sim_dice(4)];
    sim.chained = sim.dialect == &chat_dialect_openai_responses;
    sim.streamed = sim.chained || sim_dice(2);
    sim.ncalls = 1 + sim_dice(SIM_CALLS);

    if (sim.dialect == &chat_dialect_ai_sdk && sim_dice(3) == 0) {
        sim.approvals = 1u << sim_dice(sim.ncalls);
    }

    memset(conf, 0, sizeof(*conf));
    conf->chat = 1;
    conf->hold =
        sim_dice(8) == 0 ? NGX_CHAT_HOLD_AUTO : 1000 + sim_dice(20000);
    conf->grace = 3000;
    conf->heartbeat = 15000;
    conf->repair = sim_dice(3);
    conf->record = sim_dice(3) ? NGX_CHAT_RECORD_AUTO : NGX_CHAT_RECORD_OFF;
    conf->failure = sim_dice(2);
    conf->max_body = 1 << 20;
    conf->max_event = 1 << 20;
    conf->max_calls = 128;
    conf->max_result = 1 << 20;
    conf->max_held = sim_dice(16) ? 1000 : 2;
    conf->max_held_bytes = 1 << 26;
}


/* The name of the batch. */
static void
name_batch(void)
{
    sim_body_t      body = { .kind = SIM_BATCH };
    chat_rc_e       rc;
    chat_str_t      parts[2];
    chat_scope_t    scope;
    chat_request_t  rq;
    chat_json_doc_t doc;

    memset(body.values, 'x', SIM_CALLS);
    memset(&rq, 0, sizeof(rq));
    memset(&doc, 0, sizeof(doc));
    memset(&scope, 0, sizeof(scope));

    parts[0] = parts[1] = chat_cstr("user");
    chat_digest_parts(parts, 2, &scope.tenant);

    if (chat_json_parse(&doc, sim.arena, sim_body(&body)) != CHAT_OK
        || chat_dialect_request(sim.dialect, chat_cstr("POST"),
                                chat_cstr(sim_uri()), &doc, sim.arena, &rq,
                                &rc)
               == NULL)
    {
        sim_violated("model", "a body that the dialect does not read");
    }

    scope.dialect = chat_cstr(sim.dialect->name);
    scope.conversation = rq.conversation;
    scope.by_message = sim.dialect->weak_by_message;

    if (chat_batch_key(&scope, &rq.steps[rq.nsteps - 1], &sim.key) != CHAT_OK)
    {
        sim_violated("model", "a batch without a name");
    }
}


void
sim_open_world(void)
{
    unsigned i;

    choose();
    sim_log("%s, %u workers, %s, %u calls, approvals %x, hold %ld, record %u, "
            "repair %u",
            sim.redis ? "redis" : "shm", sim.nslots, sim.dialect->name,
            sim.ncalls, sim.approvals, (long) sim.conf.hold,
            (unsigned) sim.conf.record, (unsigned) sim.conf.repair);

    for (i = 0; i < sim.nslots; i++) {
        open_worker(i);
    }

    name_batch();
    plan();

    if (sim.streamed) {
        (void) sim_at(0, 0, on_stream, NULL, 0);
    }
}


void
sim_close_world(void)
{
    unsigned i;

    for (i = 0; i < sim.nworkers; i++) {
        free(sim.workers[i]);
    }
}
