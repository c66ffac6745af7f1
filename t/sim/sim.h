/*
 * sim.h: a simulation of nodes, stores, clients and providers, by a seed.
 *
 * The module's own code decides about requests: all of shared/, and of
 * ngx_chat_module/ the folders base/ and request/, and parts of store/ and
 * response/. NGINX (sim_nginx.c), the store (sim_store.c), clients, workers
 * and providers (sim_world.c) are simulated, in one process and with a clock
 * of its own. sim_check.c has the invariants. One seed is one schedule.
 */

#ifndef SIM_H
#define SIM_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "request/ngx_chat_request.h"
#include "store/ngx_chat_store.h"

#define SIM_SLOTS 5    /* processes at a time */
#define SIM_WORKERS 16 /* processes of a schedule, dead ones included */
#define SIM_CALLS 4
#define SIM_REQUESTS 48
#define SIM_STIMULI 48
#define SIM_LEASE 10000 /* ms: Redis keeps a dead worker's key */

typedef struct sim_worker_s  sim_worker_t;
typedef struct sim_request_s sim_request_t;

struct sim_worker_s {
    ngx_chat_store_base_t base; /* first */
    ngx_chat_main_conf_t  conf;
    void                 *main_conf[1];
    ngx_rbtree_t          timers;
    ngx_rbtree_node_t     timers_sentinel;
    char                  name[16];
    unsigned              slot;
    unsigned              fuse; /* steps until it is killed; 0: never */
    int                   dead;
    int                   exiting;
    uint64_t              died;  /* ms */
    uint64_t              lease; /* ms: it counts as alive so long after */
    /* Redis: */
    ngx_queue_t cmds;
    ngx_queue_t replay;  /* commands that have their reply */
    unsigned    epoch;   /* of its connection */
    int         survive; /* commands of the last one that still arrive */
    uint64_t    last;    /* order of what was sent last */
    uint64_t    back;    /* order of the last reply */
    uint64_t    down;    /* ms, when the connection was lost */
    uint64_t    failed;  /* ms, when a query failed last */
    unsigned    master;  /* that it was connected to last */
    unsigned    data;    /* epoch of the data that it knows */
    int         deaf;    /* its subscription is broken */
};

typedef enum {
    SIM_NEW,
    SIM_INSIDE,
    SIM_UPSTREAM,
    SIM_OVER
} sim_phase_e;

typedef enum {
    SIM_BATCH,
    SIM_FRESH,
    SIM_EXTERNAL /* results for chat_results */
} sim_kind_e;

/* ms, until an answer begins: later ones count as timed out */
#define SIM_UPSTREAM_LONGEST 20000

/* The value of each variable: the tenant, and chat_conversation. */
#define SIM_USER "user"

/* What a client sends. '.': nothing; 'x', 'y': a result; 'g', 'r': a decision
 * of an approval. */
typedef struct {
    sim_kind_e kind;
    char       values[SIM_CALLS];
    unsigned   variant; /* of the transcript: another one is no sibling */
    unsigned   retry;   /* tries before, as its library counts */
} sim_body_t;

struct sim_request_s {
    ngx_http_request_t      r;
    ngx_connection_t        connection;
    ngx_event_t             read;
    ngx_event_t             write;
    ngx_log_t               log;
    ngx_http_log_ctx_t      log_ctx;
    void                   *contexts[1];
    ngx_http_request_body_t request_body;
    ngx_chain_t             chain;
    ngx_buf_t               buf;
    unsigned                id;
    sim_body_t              body;
    unsigned                tries; /* of its client for the same content */
    chat_str_t              text;
    sim_worker_t           *worker;
    ngx_chat_ctx_t         *ctx; /* NULL: freed */
    sim_phase_e             phase;
    uint64_t                arrived;   /* ms */
    uint64_t                waited;    /* ms, when its last wait began */
    uint32_t                waits_for; /* attempt; 0: none */
    uint64_t                answered;  /* ms, when the store knew its 2xx */
    uint32_t                k;
    char                sent[SIM_CALLS]; /* that the provider has received */
    int                 passed; /* without the store, or past a limit */
    int                 lacked; /* the body came without some of them */
    int                 unsent;
    uint32_t            status;   /* of the provider; 0: none yet */
    int                 finished; /* with the end of a complete answer */
    chat_store_op_t     decision; /* whether it is recorded */
    chat_facts_t        put;      /* with it */
    chat_fact_t         unwanted; /* that decides, unless another stands */
    int                 recorded; /* it is, or (-1) it is not; 0: undecided */
    int                 cleared;  /* its recording */
    sim_request_t      *follows;
    int                 pending;  /* follows, and waits for the head */
    char                name[16]; /* in claims */
    chat_act_t          shown;    /* in the trace */
    chat_gate_verdict_e verdict;
    uint64_t            hopeless; /* ms, since it waits for a dead claimant */
};

/* What happens in a schedule, by its plan. */
typedef struct {
    uint64_t at; /* ms */
    void (*run)(unsigned argument);
    const char *name;
    unsigned    argument;
    sim_body_t  body;
} sim_stimulus_t;

typedef struct {
    uint64_t order; /* ms << 20, and a random rest */
    uint64_t serial;
    void (*run)(void *data, uintptr_t number);
    void     *data;
    uintptr_t number;
} sim_event_t;

typedef struct {
    uint64_t seed;
    uint64_t dice;
    uint64_t now; /* ms since the epoch */
    uint64_t start;
    uint64_t steps;
    int      trace;

    sim_event_t *events; /* a heap */
    size_t       nevents;
    size_t       events_size;
    uint64_t     serial;

    chat_arena_t *arena; /* lives as long as the schedule */

    /* what the seed has chosen */
    int                   redis;
    unsigned              nslots;
    const chat_dialect_t *dialect;
    unsigned              ncalls;
    unsigned              approvals; /* bits of calls */
    int                   chained;
    int                   streamed;       /* a stream adds the calls */
    int                   weak;           /* calls without ids */
    chat_str_t            ids[SIM_CALLS]; /* of weak calls */
    int                   faults;
    int                   contrary; /* clients contradict each other */
    unsigned              spread;   /* ms, of arrivals */
    ngx_chat_loc_conf_t   conf;
    sim_stimulus_t        plan[SIM_STIMULI];
    unsigned              nplan;
    uint64_t              dropped; /* bits of the plan that are left out */

    sim_worker_t  *workers[SIM_WORKERS];
    unsigned       nworkers;
    sim_worker_t  *slots[SIM_SLOTS]; /* NULL: it is restarting */
    sim_worker_t  *current;
    sim_worker_t  *producer;
    sim_request_t *requests[SIM_REQUESTS];
    unsigned       nrequests;
    chat_digest_t  tenant;
    chat_key_t     key;    /* of the batch */
    chat_key_t     index;  /* of the conversation, if it has a name */
    uint64_t       sealed; /* ms, when the store had the seal; 0: not yet */
    /* ms, when an external result for a call was acknowledged; 0: not yet */
    uint64_t acknowledged[SIM_CALLS];

    /* the store */
    unsigned master;
    unsigned data; /* epoch */
    int      reachable;
    int      lossy;   /* it has lost writes that it had acknowledged */
    int      refused; /* it had no room for some facts */
    uint64_t full;    /* ms: it has no room until then */
    uint64_t outage;  /* ms, end of the last one */
} sim_t;

extern sim_t sim;

/* Of all schedules. */
typedef struct {
    const char *name;
    uint64_t    count;
} sim_count_t;

void sim_count(const char *name);

/* Random: 0 to n - 1. */
unsigned sim_dice(unsigned n);

/* A line of the trace. */
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The invariant does not hold: prints the schedule, and exits. */
void sim_violated(const char *invariant, const char *format, ...)
    __attribute__((format(printf, 2, 3), noreturn));

/* Runs something in so many ms, or after `after` if that is later. */
uint64_t sim_at(uint64_t delay, uint64_t                         after,
                void (*run)(void *data, uintptr_t number), void *data,
                uintptr_t number);

/* sim_nginx.c */
void       sim_nginx_begin(void);
void       sim_nginx_end(void);
void       sim_clock(uint64_t ms);
ngx_msec_t sim_first_timer(sim_worker_t *worker, ngx_event_t **event);
void       sim_request_open(sim_request_t *request);
/* Runs the content handler of chat_results. */
void sim_external(sim_request_t *request);
void sim_request_free(sim_request_t *request);
void sim_posted(void);

/* sim_store.c */
void sim_store_begin(void);
void sim_store_open(sim_worker_t *worker);
/* All workers look again: one of them has ended. */
void sim_store_wake_all(void);
/* 1 if a worker counts as alive. */
int sim_alive(const sim_worker_t *worker);
/* The fact of the key in the store, or NULL. */
const chat_fact_t *sim_store_fact(const chat_key_t *key, const char *prefix,
                                  chat_str_t id);
size_t sim_store_facts(const chat_key_t *key, const chat_fact_t **facts);
/* Executes a join; 0: there is no room for all of its facts. */
int sim_execute(sim_worker_t *worker, const chat_key_t *key,
                const chat_facts_t *facts);
/* The store has no room for so many ms. */
void sim_store_fill(unsigned ms);
/* Shared memory: evicts the batch if no request waits, or is upstream. */
void sim_store_evict(void);
/* 1 if the last of the facts is not put: it needs others, or is there. */
int sim_withholds(const chat_key_t *key, const chat_facts_t *facts,
                  const chat_str_t *needs, size_t n);
/* A reply with all facts of a key, or none, and then the payloads of some. */
chat_facts_t *sim_reply(const chat_key_t *key, int all,
                        const chat_str_t *fields, size_t n);
/* Copies of the facts in the arena. */
void sim_copy_facts(chat_facts_t *to, chat_arena_t *arena,
                    const chat_fact_t *facts, size_t n);
/* Notifies the watches of a worker; prefix 0: all of them. */
void sim_changed(void *worker, uintptr_t prefix);
/* The server loses its last writes. */
void sim_rewind(size_t lost);

/* sim_redis.c */
void sim_redis_open(sim_worker_t *worker);
void sim_redis_end(void);
/* What was sent arrives, or not; no reply does. */
void sim_store_crash(sim_worker_t *worker);
void sim_store_break(sim_worker_t *worker, unsigned delay);
void sim_store_outage(unsigned ms);
void sim_store_failover(unsigned lost);
void sim_store_restart(void);
void sim_store_deafen(sim_worker_t *worker, unsigned ms);

/* sim_world.c */
void sim_open_world(void);
void sim_close_world(void);
/* Within a worker: 0 if it has been killed. */
int  sim_enter(sim_worker_t *worker);
void sim_leave(sim_worker_t *worker);
/* Counts a step of the worker down to its death; 0: it is dead. */
int  sim_burn(sim_worker_t *worker);
void sim_respawn(unsigned slot);
/* A client sends this; one closes its connection. */
void           sim_arrive(const sim_body_t *body);
void           sim_client_leaves(unsigned number);
void           sim_handed_over(sim_request_t *request);
void           sim_replied(sim_request_t *request, ngx_int_t rc);
sim_request_t *sim_request_of(const ngx_http_request_t *r);
sim_request_t *sim_claimant(chat_str_t worker, chat_str_t request);
sim_worker_t  *sim_find_worker(chat_str_t name);

/* sim_plan.c */
/* The settings of the seed, and the name of its batch. */
void sim_choose(void);
void sim_plan(void);

/* sim_body.c */
chat_str_t  sim_call_id(unsigned call);
chat_str_t  sim_call_name(unsigned call);
chat_str_t  sim_body(const sim_body_t *body);
const char *sim_uri(void);
void        sim_body_text(const sim_body_t *body, char text[64]);
/* What the provider reads; -1: it cannot parse it. */
int sim_body_read(chat_str_t text, char values[SIM_CALLS]);

/* sim_check.c */
chat_request_verdict_e sim_verdict(const sim_request_t *request);
/* Notes the name that its claim has, once it has one. */
void sim_name_request(sim_request_t *request);
void sim_check_handed_over(sim_request_t *request);
void sim_check_followed(sim_request_t *request, sim_request_t *producer);
void sim_check_replied(sim_request_t *request);
void sim_check_step(void);
void sim_check_end(void);

#endif /* SIM_H */
