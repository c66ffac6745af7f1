/*
 * sim_redis.c: the connections of workers to Redis.
 *
 * Commands and replies travel in order; a connection may break at any time,
 * and the first commands that were sent may have been executed. A failover
 * takes the last writes away, a restart all of them; what a worker has joined
 * in the last seconds is sent again to another server. Notifications get lost
 * while a subscription is broken.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "sim.h"

#define TIMEOUT 1000 /* ms, of a command */
#define GIVE_UP 700  /* ms without a connection */
#define REPLAY 5000  /* ms */
#define FAILOVER 20  /* ms */

/* A command. */
typedef struct {
    ngx_queue_t      queue; /* in its worker's */
    sim_worker_t    *worker;
    chat_store_op_t *op; /* NULL: none, or it has failed */
    chat_key_t       key;
    chat_facts_t     facts;  /* of a join; copies */
    chat_str_t      *fields; /* of payloads(), or that a join needs */
    size_t           nfields;
    int              sent;
    uint64_t         queued; /* ms; of a replay when it had its reply */
} sim_cmd_t;

/* A reply on its way. */
typedef struct reply_s {
    struct reply_s *next;
    sim_cmd_t      *cmd;
    chat_facts_t   *facts; /* NULL: it has arrived */
    int             full;  /* the reply is that there is no room */
    int             met;   /* the server had what a join needs */
} reply_t;

static reply_t *replies;


static void send_all(sim_worker_t *worker);
static void on_reply(void *data, uintptr_t epoch);


void
sim_redis_end(void)
{
    for (; replies != NULL; replies = replies->next) {
        if (replies->facts != NULL) {
            chat_arena_destroy(replies->facts->arena);
        }
    }
}


/* Takes the op from its command. */
static void
detach(sim_cmd_t *cmd)
{
    if (cmd->op != NULL) {
        cmd->op->store = NULL;
        cmd->op->answer = NULL;
        cmd->op = NULL;
    }
}


static void
fail(sim_cmd_t *cmd)
{
    chat_store_op_t *op = cmd->op;

    if (op != NULL) {
        detach(cmd);
        cmd->worker->failed = sim.now;
        ngx_chat_store_answer(&cmd->worker->base, op, CHAT_ERROR, NULL);
    }
}


/* No reply in time. */
static void
on_deadline(void *data, uintptr_t number)
{
    sim_cmd_t    *cmd = data;
    sim_worker_t *worker = cmd->worker;

    if (cmd->op == NULL || worker->dead || !sim_enter(worker)) {
        return;
    }

    sim_log("store: a command of %s gets no reply in time", worker->name);
    sim_count("commands past their deadline");
    fail(cmd);
    sim_leave(worker);
}


/* Of a brief reply there are those of the facts that have another value. */
static void
keep_different(chat_facts_t *reply, const chat_facts_t *put)
{
    size_t             i, k, n = 0;
    const chat_fact_t *a, *b;

    for (i = 0; i < reply->count; i++) {
        for (k = 0; k < put->count; k++) {
            a = &reply->items[i];
            b = &put->items[k];

            if (chat_str_eq(a->field, b->field)
                && !chat_str_eq(a->value, b->value)) {
                reply->items[n++] = *a;
                break;
            }
        }
    }

    reply->count = n;
}


static void
on_execute(void *data, uintptr_t epoch)
{
    int           all, met;
    sim_cmd_t    *cmd = data;
    sim_worker_t *worker = cmd->worker;
    reply_t      *reply;
    chat_facts_t  facts = cmd->facts;

    if (!sim.reachable) {
        return;
    }

    /* the first commands on a connection that has ended may arrive */
    if ((epoch != worker->epoch || worker->dead) && worker->survive-- <= 0) {
        return;
    }

    met = facts.count == 0
          || !sim_withholds(&cmd->key, &facts, cmd->fields, cmd->nfields);
    facts.count -= !met;
    all = sim_execute(worker, &cmd->key, &facts);

    if (epoch != worker->epoch || worker->dead) {
        sim_count("commands with an unknown outcome");
        return;
    }

    reply = chat_arena_alloc(sim.arena, sizeof(*reply));
    reply->next = replies;
    reply->cmd = cmd;
    reply->full = !all;
    reply->met = met;
    reply->facts = sim_reply(&cmd->key, cmd->facts.count != 0 || !cmd->nfields,
                             cmd->fields, met ? cmd->nfields : 0);
    if (cmd->facts.count != 0 && (cmd->op == NULL || cmd->op->brief)) {
        keep_different(reply->facts, &cmd->facts);
    }

    replies = reply;
    worker->back = sim_at(sim_dice(3), worker->back, on_reply, reply, epoch);
}


/*
 * Takes claims that do not stand from a command that may be replayed; absent:
 * what a reply without the claim says.
 */
static void
drop_lost_claims(sim_cmd_t *cmd, const chat_facts_t *reply, int absent)
{
    size_t             i, k;
    chat_facts_t       kept;
    const chat_fact_t *fact;

    chat_facts_init(&kept, sim.arena);

    for (i = 0; i < cmd->facts.count; i++) {
        fact = &cmd->facts.items[i];

        for (k = 0; k < reply->count
                    && !chat_str_eq(reply->items[k].field, fact->field);
             k++)
        { /* void */
        }

        if (!chat_str_starts(fact->field, "claim/")
            || (k == reply->count
                    ? !absent
                    : chat_str_eq(reply->items[k].value, fact->value)))
        {
            chat_facts_append(&kept, fact, 1);
        }
    }

    cmd->facts = kept;
}


static void
on_reply(void *data, uintptr_t epoch)
{
    reply_t         *reply = data;
    sim_cmd_t       *cmd = reply->cmd;
    sim_worker_t    *worker = cmd->worker;
    chat_facts_t    *facts = reply->facts;
    chat_store_op_t *op = cmd->op;

    reply->facts = NULL;

    if (epoch != worker->epoch || !sim_enter(worker)) {
        chat_arena_destroy(facts->arena);
        return;
    }

    ngx_queue_remove(&cmd->queue);

    if (cmd->facts.count != 0 && !reply->full) {
        drop_lost_claims(cmd, facts, cmd->nfields != 0);
        cmd->nfields = 0;
        cmd->queued = sim.now;
        cmd->sent = 0;
        ngx_queue_insert_tail(&worker->replay, &cmd->queue);
    }

    if (op != NULL) {
        detach(cmd);
        op->nneeds = reply->met ? op->nneeds : 0;
    }

    if (op != NULL && !reply->full) {
        ngx_chat_store_answer(&worker->base, op, CHAT_OK, facts);
    } else {
        chat_arena_destroy(facts->arena);
    }

    if (op != NULL && reply->full) {
        ngx_chat_store_answer(&worker->base, op, CHAT_LIMIT, NULL);
    }

    sim_leave(worker);
}


static void
send_cmd(sim_cmd_t *cmd)
{
    sim_worker_t *worker = cmd->worker;
    unsigned      delay = sim_dice(8) ? sim_dice(3) : sim_dice(40);

    if (cmd->sent || worker->base.store.state != CHAT_STORE_UP) {
        return;
    }

    cmd->sent = 1;
    worker->last = sim_at(delay, worker->last, on_execute, cmd, worker->epoch);
}


static sim_cmd_t *
next_cmd(ngx_queue_t *cmds, sim_cmd_t *cmd)
{
    ngx_queue_t *q = cmd ? ngx_queue_next(&cmd->queue) : ngx_queue_head(cmds);

    return q == cmds ? NULL : ngx_queue_data(q, sim_cmd_t, queue);
}


static void
send_all(sim_worker_t *worker)
{
    sim_cmd_t *cmd = NULL;

    while ((cmd = next_cmd(&worker->cmds, cmd)) != NULL) {
        send_cmd(cmd);
    }
}


static void
submit(sim_worker_t *worker, sim_cmd_t *cmd, chat_store_op_t *op)
{
    cmd->worker = worker;
    cmd->op = op;
    cmd->queued = sim.now;

    if (op != NULL && worker->base.store.state == CHAT_STORE_UNAVAILABLE) {
        cmd->op = NULL;
        worker->failed = sim.now;
        ngx_chat_store_answer(&worker->base, op, CHAT_ERROR, NULL);
        return;
    }

    if (op != NULL) {
        op->store = &worker->base.store;
        op->answer = cmd;
        (void) sim_at(TIMEOUT, 0, on_deadline, cmd, 0);
    }

    ngx_queue_insert_tail(&worker->cmds, &cmd->queue);
    send_cmd(cmd);
}


static void
copy_fields(sim_cmd_t *cmd, const chat_str_t *fields, size_t n)
{
    size_t i;

    cmd->fields = chat_arena_alloc(sim.arena, (n + 1) * sizeof(chat_str_t));
    cmd->nfields = n;

    for (i = 0; i < n; i++) {
        (void) chat_arena_dup(sim.arena, fields[i], &cmd->fields[i]);
    }
}


static void
redis_join(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
           const chat_fact_t *facts, size_t n, uint32_t ttl,
           chat_store_watch_t *watch)
{
    sim_cmd_t    *cmd;
    sim_worker_t *worker = (sim_worker_t *) store;

    if (watch != NULL) {
        ngx_chat_store_unwatch(watch);
        ngx_chat_store_watch_add(&worker->base, watch, key);
    }

    if (!sim_burn(worker)) {
        return;
    }

    cmd = chat_arena_alloc(sim.arena, sizeof(*cmd));
    cmd->key = *key;
    sim_copy_facts(&cmd->facts, sim.arena, facts, n);

    if (watch != NULL) {
        chat_facts_append(&cmd->facts, &worker->base.wait, 1);
    }

    if (op != NULL) {
        copy_fields(cmd, op->needs, op->nneeds);
    }

    submit(worker, cmd, op);
}


static void
redis_payloads(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
               const chat_str_t *fields, size_t n)
{
    sim_cmd_t    *cmd;
    sim_worker_t *worker = (sim_worker_t *) store;

    if (!sim_burn(worker)) {
        return;
    }

    cmd = chat_arena_alloc(sim.arena, sizeof(*cmd));
    cmd->key = *key;
    chat_facts_init(&cmd->facts, sim.arena);
    copy_fields(cmd, fields, n);
    submit(worker, cmd, op);
}


static void
redis_cancel(chat_store_op_t *op)
{
    sim_worker_t    *worker = (sim_worker_t *) op->store;
    sim_cmd_t       *cmd = NULL;
    chat_store_op_t *posted;

    if (worker == NULL) {
        return;
    }

    for (posted = worker->base.answered; posted; posted = posted->next) {
        if (posted == op) {
            ngx_chat_store_forget(op);
            return;
        }
    }

    while ((cmd = next_cmd(&worker->cmds, cmd)) != NULL) {
        if (cmd->op == op) {
            detach(cmd);
            return;
        }
    }
}


static void
redis_flush(chat_store_t *store)
{
}


/* Connections. */

static void
on_give_up(void *data, uintptr_t epoch)
{
    sim_cmd_t    *cmd = NULL;
    sim_worker_t *worker = data;

    if (epoch != worker->epoch
        || worker->base.store.state != CHAT_STORE_RECONNECTING
        || !sim_enter(worker))
    {
        return;
    }

    sim_log("%s: the store is unavailable", worker->name);
    worker->base.store.state = CHAT_STORE_UNAVAILABLE;

    while ((cmd = next_cmd(&worker->cmds, cmd)) != NULL) {
        fail(cmd);
    }

    ngx_chat_store_changed(&worker->base, 0, 1);
    sim_leave(worker);
}


/* What was joined in the last seconds goes before all else. */
static void
replay(sim_worker_t *worker)
{
    sim_cmd_t *cmd;

    while ((cmd = next_cmd(&worker->replay, NULL)) != NULL) {
        ngx_queue_remove(&cmd->queue);
        if (sim.now - cmd->queued <= REPLAY) {
            cmd->sent = 0;
            send_cmd(cmd);
            /* its reply takes it from a queue */
            ngx_queue_insert_tail(&worker->cmds, &cmd->queue);
        }
    }
}


static void
on_connect(void *data, uintptr_t epoch)
{
    int           moved, emptied, was_down;
    sim_worker_t *worker = data;

    if (epoch != worker->epoch || worker->dead) {
        return;
    }

    if (!sim.reachable) {
        (void) sim_at(50 + sim_dice(100), 0, on_connect, worker, epoch);
        return;
    }

    if (!sim_enter(worker)) {
        return;
    }

    moved = worker->master != sim.master;
    emptied = worker->data != sim.data;
    was_down = worker->base.store.state == CHAT_STORE_UNAVAILABLE;
    worker->master = sim.master;
    worker->data = sim.data;
    worker->base.store.state = CHAT_STORE_UP;
    sim_log("%s: connected%s%s", worker->name, moved ? ", failed over" : "",
            emptied ? ", the data is lost" : "");

    if (moved) {
        replay(worker);
    }

    send_all(worker);

    if (moved || emptied) {
        worker->base.store.lost(&worker->base.store, emptied);
    }

    if (moved || emptied || was_down) {
        ngx_chat_store_changed(&worker->base, 0, 1);
    }

    sim_leave(worker);
}


void
sim_store_break(sim_worker_t *worker, unsigned delay)
{
    sim_cmd_t *cmd = NULL;

    if (worker->dead) {
        return;
    }

    worker->epoch++;
    worker->survive = (int) sim_dice(4);
    sim_log("%s: its connection to the store breaks", worker->name);

    if (worker->base.store.state == CHAT_STORE_UP) {
        worker->base.store.state = CHAT_STORE_RECONNECTING;
        worker->down = sim.now;
    }

    while ((cmd = next_cmd(&worker->cmds, cmd)) != NULL) {
        cmd->sent = 0;
    }

    (void) sim_at(delay, 0, on_connect, worker, worker->epoch);

    if (worker->base.store.state == CHAT_STORE_RECONNECTING) {
        (void) sim_at(GIVE_UP, 0, on_give_up, worker, worker->epoch);
    }
}


static void
break_all(unsigned delay)
{
    unsigned i;

    for (i = 0; i < sim.nslots; i++) {
        if (sim.slots[i] != NULL) {
            sim_store_break(sim.slots[i], delay + sim_dice(60));
        }
    }

    for (i = 0; i < sim.nworkers; i++) {
        if (!sim.workers[i]->dead && sim.workers[i]->exiting) {
            sim_store_break(sim.workers[i], delay + sim_dice(60));
        }
    }
}


static void
on_reachable(void *data, uintptr_t number)
{
    sim.reachable = 1;
    sim.outage = sim.now;
    sim_log("store: reachable");
}


void
sim_store_outage(unsigned ms)
{
    if (sim.reachable) {
        sim.reachable = 0;
        sim_log("store: not reachable");
        break_all(20);
        (void) sim_at(ms, 0, on_reachable, NULL, 0);
    }
}


void
sim_store_failover(unsigned lost)
{
    sim_log("store: a failover, %u writes are lost", lost);
    sim_count(lost ? "failovers that lose writes" : "failovers");
    sim.master++;
    sim_rewind(lost);
    break_all(FAILOVER);
}


void
sim_store_restart(void)
{
    sim_log("store: restarts without its data");
    sim_count("restarts without persistence");
    sim.data++;
    sim_rewind((size_t) -1);
    sim.lossy = 1;
    break_all(FAILOVER);
}


static void
on_subscribed(void *data, uintptr_t number)
{
    sim_worker_t *worker = data;

    worker->deaf = 0;
    sim_changed(worker, 0);
}


void
sim_store_deafen(sim_worker_t *worker, unsigned ms)
{
    sim_log("%s: its subscription breaks", worker->name);
    worker->deaf = 1;
    (void) sim_at(ms, 0, on_subscribed, worker, 0);
}


void
sim_store_crash(sim_worker_t *worker)
{
    sim_cmd_t *cmd = NULL;

    worker->survive = (int) sim_dice(4);

    while ((cmd = next_cmd(&worker->cmds, cmd)) != NULL) {
        detach(cmd);
    }

    while (worker->base.answered != NULL) {
        ngx_chat_store_forget(worker->base.answered);
    }
}


void
sim_redis_open(sim_worker_t *worker)
{
    chat_store_t *store = &worker->base.store;

    store->join = redis_join;
    store->unwatch = ngx_chat_store_unwatch;
    store->payloads = redis_payloads;
    store->cancel = redis_cancel;
    store->flush = redis_flush;

    worker->master = sim.master;
    worker->data = sim.data;
    ngx_queue_init(&worker->replay);

    if (!sim.reachable) {
        store->state = CHAT_STORE_RECONNECTING;
        worker->down = sim.now;
        (void) sim_at(20, 0, on_connect, worker, worker->epoch);
        (void) sim_at(GIVE_UP, 0, on_give_up, worker, worker->epoch);
    }
}
