/*
 * chat_metrics.h: what is counted and measured, and how each is called.
 *
 * Each worker counts into a chat_metrics_t of its own; those of a node are
 * added up. Everything here is an array of 64-bit numbers, so adding up is one
 * loop. What counts events only grows.
 */

#ifndef CHAT_METRICS_H
#define CHAT_METRICS_H

#include "bytes/chat_str.h"
#include "model/chat_event.h"

#define CHAT_METRICS_DIALECTS 8 /* at most, and room for none */
#define CHAT_METRICS_VERDICTS 12
#define CHAT_METRICS_ENDS 4
#define CHAT_METRICS_BUCKETS 16

/* How an interrupted response broke off. */
typedef enum {
    CHAT_CUT_EOF,
    CHAT_CUT_RESET,
    CHAT_CUT_TIMEOUT,
    CHAT_CUT_STALL,
    CHAT_CUT_MALFORMED,
    CHAT_CUT_UPSTREAM, /* an error event of its own */
    CHAT_CUT_TOO_SLOW, /* of a follower, as is the next */
    CHAT_CUT_INCOMPLETE,
    CHAT_CUT_PRODUCER_LOST, /* of followers, and of requests in wait */
    CHAT_CUTS
} chat_cut_e;

typedef enum {
    CHAT_COUNT_REPLAYS,
    CHAT_COUNT_ID_REUSE,
    CHAT_COUNT_MERGED,        /* results put into bodies */
    CHAT_COUNT_TOLD,          /* results told to clients that lacked them */
    CHAT_COUNT_OVERSIZED,     /* bodies, steps, frames, results past a bound */
    CHAT_COUNT_OUTSIDE,       /* results from outside */
    CHAT_COUNT_STORE_FULL,    /* requests that the store had no room for */
    CHAT_COUNT_HOLDS_REFUSED, /* requests that were not allowed to wait */
    CHAT_COUNTS
} chat_count_e;

typedef enum {
    CHAT_TIMING_HOLD,    /* how long a request waited */
    CHAT_TIMING_STORE,   /* how long the store took */
    CHAT_TIMING_RELEASE, /* from the last result to going on */
    CHAT_TIMINGS
} chat_timing_e;

typedef struct {
    uint64_t buckets[CHAT_METRICS_BUCKETS + 1]; /* each by itself; +Inf */
    uint64_t sum;                               /* microseconds */
} chat_timing_t;

/* Only uint64_t; what counts events comes first. */
typedef struct {
    uint64_t      requests[CHAT_METRICS_DIALECTS][CHAT_METRICS_VERDICTS];
    uint64_t      turns[CHAT_METRICS_DIALECTS][CHAT_METRICS_ENDS];
    uint64_t      cuts[CHAT_CUTS];
    uint64_t      counts[CHAT_COUNTS];
    chat_timing_t timings[CHAT_TIMINGS];

    /* these are as they are now, and gone with their worker */
    uint64_t workers;
    uint64_t stores[3]; /* workers by chat_store_state_e */
    uint64_t holds;
    uint64_t streams; /* recorded ones, and their bytes and readers */
    uint64_t bytes;
    uint64_t followers;
} chat_metrics_t;

extern const char *const chat_verdict_names[CHAT_METRICS_VERDICTS];
extern const char *const chat_cut_names[CHAT_CUTS];
extern const char *const chat_count_names[CHAT_COUNTS];
extern const char *const chat_timing_names[CHAT_TIMINGS];
extern const char *const chat_store_state_names[3];

/* Upper bounds of the buckets, in microseconds. */
extern const uint64_t chat_timing_bounds[CHAT_TIMINGS][CHAT_METRICS_BUCKETS];

/* Dialects are counted by their place in chat_dialects; behind them: none. */
size_t chat_metrics_dialects(void);
size_t chat_metrics_dialect(const char *name); /* NULL: none */

/* The name of the dialect of this place; past the last one: none. */
const char *chat_metrics_dialect_name(size_t dialect);

/* What a reason of chat_stream_info() counts as; NULL: reset. */
chat_cut_e chat_metrics_cut(const char *reason);

void chat_metrics_time(chat_metrics_t *metrics, chat_timing_e timing,
                       uint64_t us);

/* All that is counted under timing. */
uint64_t chat_timing_count(const chat_timing_t *timing);

/* sum += one, member by member. */
void chat_metrics_add(chat_metrics_t *sum, const chat_metrics_t *one);

#endif /* CHAT_METRICS_H */
