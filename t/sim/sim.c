/*
 * sim.c: runs schedules, and prints the one that violates an invariant.
 *
 * sim [--schedules=N] [--seed=N] [--trace] [--drop=I,I...]
 * Without --trace, schedules of the seeds N, N + 1 and so on. A violation
 * prints its seed; --trace prints the schedule of one seed; --drop leaves out
 * stimuli of its plan. A failing schedule is shrunk that way.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "sim.h"

#define STEPS 200000
#define LONGEST 1200000 /* ms */
#define COUNTS 64

sim_t sim;

static const char           *program;
static sim_count_t           counts[COUNTS];
static size_t                ncounts;
static uint64_t              done;
static volatile sig_atomic_t stopped;
static int quiet; /* a run that shrinks: its exit code alone counts */


void
sim_count(const char *name)
{
    size_t i;

    for (i = 0; i < ncounts && strcmp(counts[i].name, name) != 0; i++) {
        /* void */
    }

    if (i == ncounts && ncounts < COUNTS) {
        counts[ncounts++].name = strdup(name);
    }

    counts[i].count++;
}


/* splitmix64 */
static uint64_t
next_random(void)
{
    uint64_t z = (sim.dice += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}


unsigned
sim_dice(unsigned n)
{
    return n ? (unsigned) ((next_random() >> 32) * n >> 32) : 0;
}


void
sim_log(const char *format, ...)
{
    va_list args;

    if (!sim.trace || quiet) {
        return;
    }

    printf("%9.3f  ", (double) (sim.now - sim.start) / 1000);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}


/* Events. */

static int
is_before(const sim_event_t *one, const sim_event_t *two)
{
    return one->order != two->order ? one->order < two->order
                                    : one->serial < two->serial;
}


uint64_t
sim_at(uint64_t delay, uint64_t after, void (*run)(void *data, uintptr_t),
       void *data, uintptr_t number)
{
    size_t      i;
    sim_event_t event = { 0, sim.serial++, run, data, number };

    event.order = (sim.now + delay) << 20 | sim_dice(1 << 20);
    event.order = ngx_max(event.order, after + 1);

    if (sim.nevents == sim.events_size) {
        sim.events_size = 2 * sim.events_size + 64;
        sim.events =
            realloc(sim.events, sim.events_size * sizeof(sim_event_t));
    }

    for (i = sim.nevents++;
         i > 0 && is_before(&event, &sim.events[(i - 1) / 2]); i = (i - 1) / 2)
    {
        sim.events[i] = sim.events[(i - 1) / 2];
    }

    sim.events[i] = event;
    return event.order;
}


static sim_event_t
take_event(void)
{
    size_t      i = 0, child;
    sim_event_t first = sim.events[0], last = sim.events[--sim.nevents];

    while ((child = 2 * i + 1) < sim.nevents) {
        if (child + 1 < sim.nevents
            && is_before(&sim.events[child + 1], &sim.events[child]))
        {
            child++;
        }

        if (!is_before(&sim.events[child], &last)) {
            break;
        }

        sim.events[i] = sim.events[child];
        i = child;
    }

    sim.events[i] = last;
    return first;
}


/* The worker with the first timer, and when that is due. */
static sim_worker_t *
first_timer(uint64_t *due)
{
    unsigned      i;
    uint64_t      at;
    ngx_event_t  *event;
    sim_worker_t *first = NULL;

    for (i = 0; i < sim.nworkers; i++) {
        if (sim.workers[i]->dead) {
            continue;
        }

        at = sim_first_timer(sim.workers[i], &event);
        if (event != NULL && (first == NULL || at < *due)) {
            *due = at;
            first = sim.workers[i];
        }
    }

    *due += sim.start - 1000;
    return first;
}


static void
run_timer(sim_worker_t *worker)
{
    ngx_event_t *event;

    (void) sim_first_timer(worker, &event);

    if (sim_enter(worker)) {
        ngx_event_del_timer(event);
        event->timedout = 1;
        event->handler(event);
        sim_leave(worker);
    }
}


/* The next event; 0: there is none. */
static int
step(void)
{
    uint64_t      due = 0;
    sim_event_t   event;
    sim_worker_t *worker = first_timer(&due);

    if (worker != NULL
        && (sim.nevents == 0 || due << 20 <= sim.events[0].order)) {
        sim.now = ngx_max(sim.now, due);
        sim_clock(sim.now);
        run_timer(worker);
        return 1;
    }

    if (sim.nevents == 0) {
        return 0;
    }

    event = take_event();
    sim.now = ngx_max(sim.now, event.order >> 20);
    sim_clock(sim.now);
    event.run(event.data, event.number);
    return 1;
}


/* Schedules. */

static void
run(uint64_t seed, uint64_t dropped, int trace)
{
    sim_event_t *events = sim.events;
    size_t       size = sim.events_size;

    memset(&sim, 0, sizeof(sim));
    sim.events = events;
    sim.events_size = size;
    sim.seed = seed;
    sim.dice = seed * 0x2545f4914f6cdd1du;
    sim.trace = trace;
    sim.dropped = dropped;
    sim.start = 1700000000000;
    sim.now = sim.start;
    sim.arena = chat_arena_create(0);
    sim_clock(sim.now);

    sim_nginx_begin();
    sim_store_begin();
    sim_open_world();

    while (sim.now < sim.start + LONGEST && step()) {
        if (sim.steps++ > STEPS) {
            sim_violated("bounded", "more than %d steps", STEPS);
        }
    }

    sim_check_end();
    sim_redis_end();
    sim_close_world();
    sim_nginx_end();
    chat_arena_destroy(sim.arena);
    done++;
}


/* 1 if the schedule fails without these stimuli, too. */
static int
fails(uint64_t seed, uint64_t dropped)
{
    int   status;
    pid_t pid = fork();

    if (pid == 0) {
        quiet = 1;
        alarm(20);
        run(seed, dropped, 1);
        _exit(0);
    }

    (void) waitpid(pid, &status, 0);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}


/* Leaves out what the violation does not need; prints the rest. */
static void
shrink(uint64_t seed, unsigned stimuli)
{
    unsigned i;
    uint64_t dropped = 0;

    for (i = 0; i < stimuli; i++) {
        if (fails(seed, dropped | (uint64_t) 1 << i)) {
            dropped |= (uint64_t) 1 << i;
        }
    }

    fflush(stdout);
    run(seed, dropped, 1);
}


void
sim_violated(const char *invariant, const char *format, ...)
{
    va_list args;

    if (quiet) {
        _exit(1);
    }

    if (sim.trace == 0) {
        printf("not ok - seed %lu violates %s, in schedule %lu:\n",
               (unsigned long) sim.seed, invariant, (unsigned long) done + 1);
        fflush(stdout);
        shrink(sim.seed, sim.nplan);
        exit(1);
    }

    printf("%9.3f  violated: %s: ", (double) (sim.now - sim.start) / 1000,
           invariant);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\nthe whole schedule: %s --seed=%lu --trace\n", program,
           (unsigned long) sim.seed);
    exit(1);
}


/* A crash: names the seed. */
static void
on_signal(int number)
{
    char text[64];
    int  len = snprintf(text, sizeof(text), "not ok - seed %lu: signal %d\n",
                        (unsigned long) sim.seed, number);

    if (!quiet && write(1, text, (size_t) len) < 0) {
        _exit(3);
    }

    _exit(2);
}


/* Ends behind the schedule under way. */
static void
on_stop(int number)
{
    stopped = 1;
}


static void
print_counts(void)
{
    size_t i;

    for (i = 0; i < ncounts; i++) {
        printf("%12lu %s\n", (unsigned long) counts[i].count, counts[i].name);
    }
}


int
main(int argc, char **argv)
{
    int         i, trace = 0;
    uint64_t    n, seed = 1, schedules = 1000, dropped = 0;
    const char *drop;

    program = argv[0];

    for (i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--seed=", 7) == 0) {
            seed = strtoull(argv[i] + 7, NULL, 10);
        } else if (strncmp(argv[i], "--schedules=", 12) == 0) {
            schedules = strtoull(argv[i] + 12, NULL, 10);
        } else if (strcmp(argv[i], "--trace") == 0) {
            trace = 1;
        } else if (strncmp(argv[i], "--drop=", 7) == 0) {
            for (drop = argv[i] + 7; drop != NULL; drop = strchr(drop, ',')) {
                drop += *drop == ',';
                dropped |= (uint64_t) 1 << strtoul(drop, NULL, 10);
            }
        } else {
            fprintf(stderr, "%s: unknown argument \"%s\"\n", program, argv[i]);
            return 2;
        }
    }

    (void) signal(SIGSEGV, on_signal);
    (void) signal(SIGALRM, on_signal);
    (void) signal(SIGTERM, on_stop);

    for (n = 0; n < (trace ? 1 : schedules) && !stopped; n++) {
        run(seed + n, dropped, trace);
    }

    print_counts();
    printf("ok - %lu schedules from seed %lu\n", (unsigned long) done,
           (unsigned long) seed);
    return 0;
}
