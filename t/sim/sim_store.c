/*
 * sim_store.c: the store, as shared memory and as Redis.
 *
 * One server has the facts of all keys. Shared memory: each call takes effect
 * at once, the reply comes by a posted event. sim_redis.c has Redis.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "sim.h"

#define KEYS 16
typedef struct {
    chat_key_t   key;
    chat_facts_t facts;
} set_t;

/* A write in the order of execution. */
typedef struct {
    chat_key_t   key;
    chat_facts_t facts; /* with the watch */
} write_t;

static set_t    sets[KEYS];
static size_t   nsets;
static write_t *writes;
static size_t   nwrites, writes_size;


void
sim_store_begin(void)
{
    nsets = 0;
    nwrites = 0;
    writes_size = 0;
    writes = NULL;
    sim.reachable = 1;
    sim.master = 1;
    sim.data = 1;
}


static set_t *
find_set(const chat_key_t *key, int make)
{
    size_t i;

    for (i = 0; i < nsets; i++) {
        if (chat_digest_eq(&sets[i].key.name, &key->name)) {
            return &sets[i];
        }
    }

    if (!make) {
        return NULL;
    }

    if (nsets == KEYS) {
        sim_violated("model", "more than %d keys", KEYS);
    }

    sets[nsets].key = *key;
    chat_facts_init(&sets[nsets].facts, sim.arena);
    return &sets[nsets++];
}


static chat_fact_t *
find_fact(const set_t *set, chat_str_t field)
{
    size_t i;

    for (i = 0; set != NULL && i < set->facts.count; i++) {
        if (chat_str_eq(set->facts.items[i].field, field)) {
            return &set->facts.items[i];
        }
    }

    return NULL;
}


size_t
sim_store_facts(const chat_key_t *key, const chat_fact_t **facts)
{
    set_t *set = find_set(key, 0);

    *facts = set ? set->facts.items : NULL;
    return set ? set->facts.count : 0;
}


const chat_fact_t *
sim_store_fact(const chat_key_t *key, const char *prefix, chat_str_t id)
{
    char   field[256];
    set_t *set = find_set(key, 0);
    int    len = snprintf(field, sizeof(field), "%s%.*s", prefix, (int) id.len,
                          (const char *) id.data);

    return find_fact(set, chat_str(field, (size_t) len));
}


/* Copies of the facts in the arena. */
void
sim_copy_facts(chat_facts_t *to, chat_arena_t *arena, const chat_fact_t *facts,
               size_t n)
{
    chat_facts_init(to, arena);

    if (ngx_chat_keep_facts(to, facts, n) != CHAT_OK) {
        sim_violated("model", "no memory");
    }
}


/* As the store does with one fact; 1: something was added. */
static int
put(set_t *set, const chat_fact_t *fact)
{
    chat_fact_t *old = find_fact(set, fact->field);

    if (old == NULL) {
        chat_facts_append(&set->facts, fact, 1);
        return 1;
    }

    if (fact->has_payload && !old->has_payload
        && chat_str_eq(old->value, fact->value))
    {
        old->has_payload = 1;
        old->payload = fact->payload;
        return 1;
    }

    return 0;
}


void
sim_changed(void *data, uintptr_t prefix)
{
    sim_worker_t *worker = data;

    if (worker->deaf || !sim_enter(worker)) {
        return;
    }

    ngx_chat_store_changed(&worker->base, prefix, prefix == 0);
    sim_leave(worker);
}


/* Wakes a worker that has this name. */
static void
notify(const set_t *set, chat_str_t name)
{
    sim_worker_t *worker = sim_find_worker(name);

    if (worker != NULL && !worker->dead) {
        (void) sim_at(sim_dice(sim.redis ? 4 : 2), 0, sim_changed, worker,
                      (uintptr_t) chat_word_at(set->key.name.bytes));
    }
}


/* The workers of wait/ and the last claimant. */
static void
notify_all_of(const set_t *set, size_t before)
{
    size_t             i;
    uint64_t           k, last = 0;
    chat_str_t         claimant = { NULL, 0 }, id, value;
    const chat_fact_t *fact;

    for (i = 0; i < set->facts.count; i++) {
        fact = &set->facts.items[i];
        id = fact->field;

        if (chat_str_starts(id, "wait/") && i < before) {
            notify(set, chat_str(id.data + 5, id.len - 5));
        }

        if (chat_str_starts(id, "claim/")
            && chat_str_number(chat_str(id.data + 6, id.len - 6), &k)
            && k > last)
        {
            last = k;
            value = fact->value;
            claimant = chat_str_cut(&value, ' ');
        }
    }

    if (claimant.len != 0) {
        notify(set, claimant);
    }
}


static void
trace_write(const sim_worker_t *worker, const set_t *set, size_t before)
{
    char               text[600];
    size_t             i, len = 0;
    const chat_fact_t *fact;

    for (i = before; i < set->facts.count && len < 500; i++) {
        fact = &set->facts.items[i];
        len += (size_t) snprintf(text + len, sizeof(text) - len, " %.*s%s",
                                 (int) ngx_min(fact->field.len, 40),
                                 (const char *) fact->field.data,
                                 fact->has_payload ? "+" : "");
    }

    text[len] = '\0';
    sim_log("store: %s adds%s", worker->name, len ? text : " payloads");
}


/* Notes which attempts the store knows as answered 2xx. */
static void
note_answers(const set_t *set, size_t before)
{
    size_t     i;
    chat_str_t rest, worker, value;

    for (i = before; i < set->facts.count; i++) {
        rest = set->facts.items[i].field;
        value = set->facts.items[i].value;

        if (chat_str_starts(rest, "end/")) {
            (void) chat_str_cut(&value, ' ');
        }

        if ((chat_str_starts(rest, "answer/") || chat_str_starts(rest, "end/"))
            && value.len != 0 && value.data[0] == '2')
        {
            (void) chat_str_cut(&rest, '/');
            (void) chat_str_cut(&rest, '/');
            worker = chat_str_cut(&rest, '/');
            sim_claimant(worker, rest)->answered = sim.now;
        }
    }
}


/* How many facts the store has room for; Redis refuses a join as a whole. */
static size_t
room(const set_t *set, const chat_facts_t *facts)
{
    size_t             i;
    const chat_fact_t *old;

    if (sim.now >= sim.full) {
        return facts->count;
    }

    for (i = 0; i < facts->count; i++) {
        old = find_fact(set, facts->items[i].field);

        if (old != NULL && (old->has_payload || !facts->items[i].has_payload))
        {
            continue;
        }

        if (sim.redis) {
            return 0;
        }

        if (sim_dice(2)) {
            break;
        }
    }

    return i;
}


int
sim_execute(sim_worker_t *worker, const chat_key_t *key,
            const chat_facts_t *facts)
{
    int      added = 0;
    size_t   i, n, before;
    set_t   *set;
    write_t *write;

    if (facts->count == 0) {
        return 1;
    }

    set = find_set(key, 1);
    before = set->facts.count;
    n = room(set, facts);

    for (i = 0; i < n; i++) {
        added += put(set, &facts->items[i]);
    }

    if (n < facts->count) {
        sim_log("store: has no room for %.*s and what follows",
                (int) facts->items[n].field.len,
                (const char *) facts->items[n].field.data);
        sim_count("joins without room");
        sim.refused = 1;
        worker->failed = sim.now;
    }

    if (!added) {
        return n == facts->count;
    }

    write = chat_arena_push(sim.arena, &writes, &nwrites, &writes_size,
                            sizeof(*write));
    write->key = *key;
    write->facts = *facts;

    if (sim.trace) {
        trace_write(worker, set, before);
    }

    if (sim.sealed == 0 && find_fact(set, chat_cstr("seal")) != NULL) {
        sim.sealed = sim.now;
    }

    note_answers(set, before);
    notify_all_of(set, before);
    return n == facts->count;
}


void
sim_store_fill(unsigned ms)
{
    sim_log("store: is full");
    sim_count("full stores");
    sim.full = sim.now + ms;
}


void
sim_store_evict(void)
{
    set_t              *set = find_set(&sim.key, 0);
    chat_batch_t        batch;
    const sim_worker_t *worker;

    if (set == NULL || set->facts.count == 0
        || chat_batch_read(set->facts.items, set->facts.count, sim.arena,
                           &batch)
               != CHAT_OK)
    {
        return;
    }

    worker = sim_find_worker(batch.last.worker);

    if (batch.nwaits != 0
        || (batch.last.k != 0 && !batch.last.is_void
            && batch.last.end == CHAT_END_NONE && worker != NULL
            && sim_alive(worker)))
    {
        return;
    }

    sim_log("store: evicts the batch");
    sim_count("evictions");
    set->facts.count = 0;
    sim.lossy = 1;
}


int
sim_withholds(const chat_key_t *key, const chat_facts_t *facts,
              const chat_str_t *needs, size_t n)
{
    size_t             i;
    const set_t       *set = find_set(key, 0);
    const chat_fact_t *found;

    for (i = 0; i < n; i++) {
        found = find_fact(set, needs[i]);

        if (found == NULL || !found->has_payload) {
            sim_count("claims that lack results");
            return 1;
        }
    }

    return n != 0 && find_fact(set, facts->items[facts->count - 1].field);
}


chat_facts_t *
sim_reply(const chat_key_t *key, int all, const chat_str_t *fields, size_t n)
{
    size_t        i;
    set_t        *set = find_set(key, 0);
    chat_fact_t   fact, *found;
    chat_facts_t *reply = ngx_chat_store_reply();

    for (i = 0; all && set != NULL && i < set->facts.count; i++) {
        fact = set->facts.items[i];
        fact.payload = chat_str(NULL, 0);
        (void) ngx_chat_keep_facts(reply, &fact, 1);
    }

    for (i = 0; i < n; i++) {
        found = find_fact(set, fields[i]);
        if (found != NULL && found->has_payload) {
            (void) ngx_chat_keep_facts(reply, found, 1);
        }
    }

    return reply;
}


int
sim_alive(const sim_worker_t *worker)
{
    return !worker->dead || sim.now < worker->died + worker->lease;
}


static int
store_alive(chat_store_t *store, chat_str_t name)
{
    sim_worker_t *self = (sim_worker_t *) store;
    sim_worker_t *worker = sim_find_worker(name);

    if (worker == self && sim.redis) {
        return store->state == CHAT_STORE_UP
               || sim.now - self->down < SIM_LEASE / 2;
    }

    return worker != NULL && sim_alive(worker);
}


/* Shared memory. */

static void
store_drop(chat_store_t *store, const chat_key_t *key,
           const chat_str_t *fields, size_t n)
{
    size_t       i;
    set_t       *set = find_set(key, 0);
    chat_fact_t *fact;

    for (i = 0; i < n; i++) {
        fact = find_fact(set, fields[i]);
        if (fact != NULL) {
            memmove(fact, fact + 1,
                    (size_t) (&set->facts.items[set->facts.count] - fact - 1)
                        * sizeof(*fact));
            set->facts.count--;
        }
    }
}


static void
shm_unwatch(chat_store_watch_t *watch)
{
    sim_worker_t *worker = (sim_worker_t *) watch->store;

    if (worker == NULL) {
        return;
    }

    ngx_chat_store_unwatch(watch);

    if (!worker->dead
        && !ngx_chat_store_is_watched(&worker->base, &watch->key)) {
        store_drop(&worker->base.store, &watch->key, &worker->base.wait.field,
                   1);
    }
}


static void
shm_join(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
         const chat_fact_t *facts, size_t n, uint32_t ttl,
         chat_store_watch_t *watch)
{
    int           all;
    chat_facts_t  copy;
    sim_worker_t *worker = (sim_worker_t *) store;

    if (watch != NULL) {
        shm_unwatch(watch);
    }

    if (!sim_burn(worker)) {
        return;
    }

    sim_copy_facts(&copy, sim.arena, facts, n);
    if (watch != NULL) {
        chat_facts_append(&copy, &worker->base.wait, 1);
    }

    if (op != NULL && sim_withholds(key, &copy, op->needs, op->nneeds)) {
        copy.count--;
        op->nneeds = 0;
    }

    all = sim_execute(worker, key, &copy);

    if (op != NULL && all) {
        ngx_chat_store_answer(&worker->base, op, CHAT_OK,
                              sim_reply(key, 1, op->needs, op->nneeds));
    } else if (op != NULL) {
        ngx_chat_store_answer(&worker->base, op, CHAT_LIMIT, NULL);
    }

    if (watch != NULL && all) {
        ngx_chat_store_watch_add(&worker->base, watch, key);
    }
}


static void
shm_payloads(chat_store_t *store, chat_store_op_t *op, const chat_key_t *key,
             const chat_str_t *fields, size_t n)
{
    sim_worker_t *worker = (sim_worker_t *) store;

    if (sim_burn(worker)) {
        ngx_chat_store_answer(&worker->base, op, CHAT_OK,
                              sim_reply(key, 0, fields, n));
    }
}


void
sim_rewind(size_t lost)
{
    size_t i, k;
    set_t *set;

    lost = ngx_min(lost, nwrites);
    nsets = 0;
    nwrites -= lost;
    sim.lossy |= lost != 0;

    for (i = 0; i < nwrites; i++) {
        set = find_set(&writes[i].key, 1);
        for (k = 0; k < writes[i].facts.count; k++) {
            (void) put(set, &writes[i].facts.items[k]);
        }
    }
}


/* All workers look again: one of them has ended. */
void
sim_store_wake_all(void)
{
    unsigned i;

    for (i = 0; i < sim.nworkers; i++) {
        if (!sim.workers[i]->dead) {
            (void) sim_at(sim_dice(sim.redis ? 500 : 3), 0, sim_changed,
                          sim.workers[i], 0);
        }
    }
}


void
sim_store_open(sim_worker_t *worker)
{
    chat_store_t *store = &worker->base.store;

    store->worker = chat_cstr(worker->name);
    store->most_facts = CHAT_STORE_FACTS;
    store->state = CHAT_STORE_UP;
    store->lost = ngx_chat_attempts_rejoin;
    store->data = &worker->conf.worker;
    store->alive = store_alive;
    store->drop = store_drop;
    store->join = shm_join;
    store->unwatch = shm_unwatch;
    store->payloads = shm_payloads;
    store->cancel = ngx_chat_store_forget;
    ngx_queue_init(&worker->cmds);

    if (ngx_chat_store_base_init(&worker->base, (ngx_cycle_t *) ngx_cycle)
        != NGX_OK)
    {
        sim_violated("model", "no memory");
    }

    if (sim.redis) {
        sim_redis_open(worker);
    }
}
