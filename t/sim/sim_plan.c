/*
 * sim_plan.c: what a seed chooses: settings, requests, faults.
 *
 * A plan is a list of stimuli, each at its time; a shrunk schedule leaves some
 * of them out. The name of the batch follows from the settings.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "sim.h"
#include "facts/chat_conversation.h"


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
            sim_respawn(i);
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


static void
fill(unsigned number)
{
    sim_store_fill(number % 3 ? number % 300 : number % 8000);
}


static void
evict(unsigned number)
{
    if (!sim.redis) {
        sim_store_evict();
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
    { "leave", sim_client_leaves, 4 },
    { "fill", fill, 2 },
    { "evict", evict, 1 },
};

#define WEIGHTS 24


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
    unsigned        i, dice = sim_dice(WEIGHTS);
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
        /* the name of weak calls says what the user wrote */
        stimulus->body.variant = sim_dice(16) == 0 && !sim.weak;
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


/* Another program brings results; a client asks whether they are there. */
static void
plan_external(void)
{
    unsigned        i, n, requests = 1 + sim_dice(2);
    sim_stimulus_t *stimulus;

    sim.contrary = 1;

    for (n = 0; n < requests; n++) {
        stimulus = add_stimulus(sim_dice(sim.spread + 200));
        stimulus->body.kind = SIM_EXTERNAL;

        for (i = 0; i < sim.ncalls; i++) {
            stimulus->body.values[i] = sim_dice(3) ? value_of(i) : '.';
        }

        i = sim_dice(sim.ncalls);
        stimulus->body.values[i] = value_of(i);
    }

    if (sim.dialect == &chat_dialect_ai_sdk && sim_dice(2)) {
        stimulus = add_stimulus(sim_dice(sim.spread + 600));
        memset(stimulus->body.values, '.', SIM_CALLS);
    }
}


static void
on_stimulus(void *data, uintptr_t number)
{
    sim_stimulus_t *stimulus = data;

    if (stimulus->run != NULL) {
        stimulus->run(stimulus->argument);
    } else {
        sim_arrive(&stimulus->body);
    }
}


void
sim_plan(void)
{
    static const unsigned spreads[] = { 0, 3, 50, 400, 4000 };
    unsigned              i, n;

    sim.spread = spreads[sim_dice(5)];
    plan_requests();

    if (sim_dice(5) == 0) {
        plan_fresh();
    }

    if (sim.conf.conversation != NULL && sim_dice(2) == 0) {
        plan_external();
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


/* The settings of a schedule. */

static void
choose(void)
{
    static const chat_dialect_t *const dialects[] = {
        &chat_dialect_ai_sdk, &chat_dialect_openai_chat,
        &chat_dialect_anthropic, &chat_dialect_openai_responses,
        &chat_dialect_gemini
    };
    static ngx_http_complex_value_t conversation;
    ngx_chat_loc_conf_t            *conf = &sim.conf;

    sim.redis = sim_dice(2) != 0;
    sim.nslots = 1 + sim_dice(SIM_SLOTS);
    sim.dialect = dialects[sim_dice(5)];
    sim.chained = sim.dialect == &chat_dialect_openai_responses;
    sim.streamed = sim.chained || sim_dice(2);
    sim.ncalls = 1 + sim_dice(SIM_CALLS);

    if (sim.dialect == &chat_dialect_ai_sdk && sim_dice(3) == 0) {
        sim.approvals = 1u << sim_dice(sim.ncalls);
    }

    memset(conf, 0, sizeof(*conf));
    conf->chat = 1;
    conf->conversation = sim_dice(3) ? NULL : &conversation;
    sim.weak = sim.dialect == &chat_dialect_gemini
               && conf->conversation != NULL && sim_dice(2);
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


/* The name of the batch, and the ids of its calls. */
static void
name_batch(void)
{
    unsigned        i;
    sim_body_t      body = { .kind = SIM_BATCH };
    chat_rc_e       rc;
    chat_str_t      parts[2];
    chat_scope_t    scope;
    chat_request_t  rq;
    chat_json_doc_t doc;

    memset(body.values, 'x', SIM_CALLS);
    rq = (chat_request_t){ .tenant = &sim.tenant, .named = 1 };
    memset(&doc, 0, sizeof(doc));
    memset(&scope, 0, sizeof(scope));

    parts[0] = parts[1] = chat_cstr(SIM_USER);
    chat_digest_parts(parts, 2, &sim.tenant);
    scope.tenant = sim.tenant;

    if (chat_json_parse(&doc, sim.arena, sim_body(&body)) != CHAT_OK
        || chat_dialect_request(sim.dialect, chat_cstr(sim_uri()), &doc,
                                sim.arena, &rq, &rc)
               == NULL)
    {
        sim_violated("model", "a body that the dialect does not read");
    }

    for (i = 0; sim.weak && i < sim.ncalls; i++) {
        sim.ids[i] = rq.calls[i].id;
    }

    scope.dialect = chat_cstr(sim.dialect->name);
    scope.conversation =
        sim.conf.conversation ? chat_cstr(SIM_USER) : rq.conversation;
    scope.by_message = sim.dialect->weak_by_message;

    if (chat_batch_key(&scope, &rq.steps[rq.nsteps - 1], &sim.key) != CHAT_OK)
    {
        sim_violated("model", "a batch without a name");
    }

    (void) chat_conversation_index_key(&scope, &sim.index);
}


void
sim_choose(void)
{
    choose();
    name_batch();
}
