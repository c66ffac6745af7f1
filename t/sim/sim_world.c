/*
 * sim_world.c: workers, clients and providers. sim_plan.c has the faults.
 *
 * A worker is killed after a number of its own steps: calls of the store,
 * requests that it hands over, replies. So it may die between any two. Its
 * place gets a new worker. A client that is refused sends again.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "sim.h"
#include "facts/chat_conversation.h"
#include "metrics/ngx_chat_metrics.h"
#include "record/ngx_chat_follow.h"
#include "store/ngx_chat_ask.h"

#define TRIES 3


static void on_arrival(void *data, uintptr_t number);
static void on_respawn(void *data, uintptr_t slot);
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


/* The counts of all workers: nothing reads them. */
static ngx_chat_metrics_slot_t counts;
static ngx_chat_metrics_t      metrics = { .slot = &counts };


static void
open_worker(unsigned slot)
{
    sim_worker_t      *worker = calloc(1, sizeof(*worker));
    ngx_chat_worker_t *w = &worker->conf.worker;

    worker->slot = slot;
    snprintf(worker->name, sizeof(worker->name), "w%u", sim.nworkers);
    worker->main_conf[0] = &worker->conf;
    worker->lease = sim.redis ? SIM_LEASE : 0;
    ngx_rbtree_init(&worker->timers, &worker->timers_sentinel,
                    ngx_rbtree_insert_value);
    sim.workers[sim.nworkers++] = worker;
    sim.slots[slot] = worker;
    sim_store_open(worker);

    w->store = &worker->base.store;
    w->metrics = &metrics;
    w->ttl = 3600;
    ngx_queue_init(&w->attempts);
    ngx_chat_hold_init(w, (ngx_cycle_t *) ngx_cycle);
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

    sim_body_text(&request->body, text);
    sim_log("request %u: %s, to %s", request->id, text, worker->name);

    if (request->body.kind == SIM_EXTERNAL) {
        sim_count("requests with external results");
        sim_external(request);
        return;
    }

    ctx = ngx_chat_request_create(&request->r, &sim.conf);
    request->ctx = ctx;
    ctx->headers.json = 1;
    ctx->headers.retry = request->body.retry;
    ctx->expected = sim.dialect;
    ctx->managed = 1;

    sim_count("requests");
    ctx->step(ctx, NGX_CHAT_EVENT_BODY);
}


void
sim_arrive(const sim_body_t *body)
{
    sim_request_t *request = make_request(body, 0);

    if (request != NULL) {
        on_arrival(request, 0);
    }
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


void
sim_client_leaves(unsigned number)
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

    sim_violated("named", "no request is %.*s/%.*s", (int) worker.len,
                 (const char *) worker.data, (int) name.len,
                 (const char *) name.data);
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


void
sim_respawn(unsigned slot)
{
    on_respawn(NULL, slot);
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
                      : dice == 3 ? 307
                                  : 200;
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

    again = request->body.kind == SIM_EXTERNAL
                ? request->r.headers_out.status != NGX_HTTP_OK
                : sim_verdict(request) == CHAT_VERDICT_BOUNCED
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


/* Nothing more can be recorded. */
static void
clear(sim_request_t *request)
{
    request->cleared = 1;
    wake_followers(request);
}


static void
decide(sim_request_t *request, int recorded)
{
    request->recorded = recorded;
    sim_log("request %u: its answer is %srecorded", request->id,
            recorded < 0 ? "not " : "");
    sim_count(recorded < 0 ? "answers that are not recorded"
                           : "answers that are recorded");
    wake_followers(request);

    if (request->ctx != NULL && recorded < 0) {
        request->ctx->writer = NULL;
    }
}


/* As of ngx_chat_writer.c. */
static void
on_decided(chat_store_op_t *op, chat_rc_e rc, const chat_fact_t *facts,
           size_t n)
{
    chat_store_t  *store;
    sim_request_t *request = op->data;

    while (n > 0
           && (!chat_str_eq(facts[n - 1].field, request->unwanted.field)
               || chat_str_eq(facts[n - 1].value, request->unwanted.value)))
    {
        n--;
    }

    if (rc == CHAT_OK && n == 0) {
        decide(request, -1);
        return;
    }

    decide(request, 1);

    if (rc != CHAT_OK) {
        store = &request->worker->base.store;
        store->join(store, NULL, &sim.key, request->put.items,
                    request->put.count, 3600, NULL);
        clear(request);
    }
}


static void
close_writer(ngx_chat_ctx_t *ctx)
{
    if (ctx->writer != NULL && !ctx->response.has_last
        && ctx->response.upstream_reason == NULL)
    {
        clear(sim_request_of(ctx->request));
    }

    ctx->writer = NULL;
}


void
ngx_chat_writer_end(ngx_chat_ctx_t *ctx, ngx_uint_t is_complete)
{
    if (ctx->writer != NULL && !is_complete) {
        clear(sim_request_of(ctx->request));
        ctx->writer = NULL;
    }
}


void
ngx_chat_writer_begin(ngx_chat_ctx_t *ctx)
{
    sim_request_t *request = sim_request_of(ctx->request);

    if (ctx->attempt.k == 0 || sim.conf.record == NGX_CHAT_RECORD_OFF
        || sim_dice(6) == 0)
    {
        decide(request, -1);
        return;
    }

    ctx->writer = (ngx_chat_writer_t *) request;
    ctx->cleanups[NGX_CHAT_CLEANUP_WRITER] = close_writer;

    if (ctx->barrier.partial || sim_dice(6) == 0) {
        decide(request, 1);
    }
}


ngx_uint_t
ngx_chat_writer_decide(ngx_chat_ctx_t *ctx, chat_attempt_t *attempt)
{
    sim_request_t *request = sim_request_of(ctx->request);
    chat_store_t  *store = ctx->worker->store;

    if (ctx->writer == NULL || request->recorded > 0) {
        attempt->recording =
            ctx->writer ? CHAT_RECORDING_KEPT : CHAT_RECORDING_IMPOSSIBLE;
        return 0;
    }

    attempt->recording = CHAT_RECORDING_NONE;
    chat_facts_init(&request->put, sim.arena);
    chat_facts_attempt(&request->put, attempt);
    request->unwanted = request->put.items[0];
    request->decision.brief = 1;
    request->decision.done = on_decided;
    request->decision.data = request;
    store->join(store, &request->decision, &ctx->barrier.q.key,
                request->put.items, request->put.count, 3600, NULL);
    return 1;
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


ngx_int_t
ngx_chat_follow(ngx_chat_ctx_t *ctx)
{
    chat_facts_t   facts;
    chat_attempt_t wanted = ctx->barrier.q.seen.last;
    sim_request_t *producer = followed(ctx);

    sim_request_of(ctx->request)->follows = producer;
    ctx->cleanups[NGX_CHAT_CLEANUP_FOLLOW] = leave_follow;

    if (producer == NULL) {
        return NGX_DECLINED;
    }

    if (wanted.recording == CHAT_RECORDING_UNKNOWN) {
        wanted.recording = CHAT_RECORDING_WANTED;
        chat_facts_init(&facts, ctx->barrier.look);
        chat_facts_attempt(&facts, &wanted);
        ngx_chat_put(ctx, &ctx->barrier.q.key, &facts);
    }

    return NGX_OK;
}


void
ngx_chat_follow_look(ngx_chat_ctx_t *ctx)
{
    sim_request_t *request = sim_request_of(ctx->request);
    sim_request_t *producer = request->follows;

    request->pending = 0;

    if (producer->recorded > 0 && !producer->cleared) {
        ctx->step(ctx, NGX_CHAT_EVENT_HEAD);

    } else if (producer->cleared) {
        ctx->step(ctx, NGX_CHAT_EVENT_UNRECORDED);

    } else if (producer->recorded < 0 && !sim.lossy) {
        sim_violated("recorded", "request %u waits for a recording of %u",
                     request->id, producer->id);

    } else if (sim_alive(producer->worker)) {
        request->pending = 1;

        if (producer->worker->dead) {
            (void) sim_at(500, 0, on_follow, request, 0);
        }

    } else if (ctx->barrier.decision.may_follow) {
        ctx->step(ctx, NGX_CHAT_EVENT_UNRECORDED);

    } else {
        ngx_chat_reply_broken(ctx, "upstream");
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
    chat_results_init(&ctx->body.results, NULL);
    ngx_chat_ctx_free_body(ctx);
    ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_HOLD, NGX_CHAT_CLEANUP_INDEX_HOLD);
    ctx->state = NGX_CHAT_FOLLOWING;
    ctx->reason = ctx->act.reason;
    ctx->response.answered = 1;
    sim_count("followers");
    (void) sim_at(10, 0, on_followed, request, 0);
}


/* The stream of the step. */

static void
put(const chat_key_t *key, const chat_facts_t *facts)
{
    chat_store_t *store = &sim.producer->base.store;

    store->join(store, NULL, key, facts->items, facts->count, 3600, NULL);
}


static void
put_index(void)
{
    chat_facts_t         facts;
    chat_indexed_batch_t recorded;

    recorded.names[0] = sim.key.name;
    recorded.nnames = 1;
    recorded.dialect = chat_cstr(sim.dialect->name);
    chat_facts_init(&facts, sim.arena);
    chat_facts_batch(&facts, sim.now, &recorded);
    put(&sim.index, &facts);
}


/* number: 0: it opens; then its calls; the last one is its end. */
static void
on_stream(void *data, uintptr_t number)
{
    chat_facts_t facts;
    chat_hash_t  fingerprint;
    char         args[24];
    unsigned     call = (unsigned) number - 1;

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
        (void) chat_fingerprint(&sim.tenant, sim_call_name(call),
                                chat_cstr(args), chat_arena_scratch(),
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

    put(&sim.key, &facts);

    if (number == 1 && sim.conf.conversation != NULL) {
        put_index();
    }

    sim_leave(sim.producer);

    if (number <= sim.ncalls) {
        (void) sim_at(sim.spread ? sim_dice(20) : 0, 0, on_stream, NULL,
                      number + 1);
    }
}


void
sim_open_world(void)
{
    unsigned i;

    sim_choose();
    sim_log("%s, %u workers, %s, %u calls, approvals %x, hold %ld, record %u, "
            "repair %u",
            sim.redis ? "redis" : "shm", sim.nslots, sim.dialect->name,
            sim.ncalls, sim.approvals, (long) sim.conf.hold,
            (unsigned) sim.conf.record, (unsigned) sim.conf.repair);

    for (i = 0; i < sim.nslots; i++) {
        open_worker(i);
    }

    sim_plan();

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
