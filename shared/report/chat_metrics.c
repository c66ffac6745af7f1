/*
 * chat_metrics.c: see chat_metrics.h.
 *
 * The names are those of $chat_verdict, of the members of the JSON status, and
 * of the labels in the Prometheus text.
 */

#include "report/chat_metrics.h"
#include "dialect/chat_dialect.h"


const char *const chat_verdict_names[] = {
    "none",     "passed",  "held",       "released",  "attached", "empty",
    "conflict", "bounced", "superseded", "unmanaged", "refused",  "bypass",
};

const char *const chat_cut_names[] = {
    "eof",      "reset",    "timeout",           "stall",         "malformed",
    "upstream", "too_slow", "incomplete_record", "producer_lost",
};

const char *const chat_count_names[] = {
    "replays_dropped", "id_reuse",        "results_merged", "results_told",
    "oversized",       "results_outside", "store_full",     "holds_refused",
};

const char *const chat_timing_names[] = {
    "hold_seconds",
    "store_seconds",
    "release_seconds",
};

const char *const chat_store_state_names[] = { "up", "wavering", "away" };

#define MS UINT64_C(1000)
#define S UINT64_C(1000000)

const uint64_t chat_timing_bounds[CHAT_TIMINGS][CHAT_METRICS_BUCKETS] = {
    { 10 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, 1 * S, 2 * S, 5 * S,
      10 * S, 30 * S, 60 * S, 120 * S, 300 * S, 600 * S, 1800 * S, 3600 * S },
    { 10, 25, 50, 100, 250, 500, 1 * MS, 2500, 5 * MS, 10 * MS, 25 * MS,
      50 * MS, 100 * MS, 250 * MS, 500 * MS, 1 * S },
    { 10, 25, 50, 100, 250, 500, 1 * MS, 2500, 5 * MS, 10 * MS, 25 * MS,
      50 * MS, 100 * MS, 250 * MS, 500 * MS, 1 * S },
};


size_t
chat_metrics_dialects(void)
{
    size_t n = chat_dialect_count();

    return n < CHAT_METRICS_DIALECTS ? n : CHAT_METRICS_DIALECTS - 1;
}


size_t
chat_metrics_dialect(const char *name)
{
    size_t i, n = chat_metrics_dialects();

    for (i = 0; i < n && name != NULL; i++) {
        if (strcmp(chat_dialects[i]->name, name) == 0) {
            return i;
        }
    }

    return n;
}


const char *
chat_metrics_dialect_name(size_t dialect)
{
    return dialect < chat_metrics_dialects() ? chat_dialects[dialect]->name
                                             : "none";
}


chat_cut_e
chat_metrics_cut(const char *reason)
{
    int i;

    for (i = 0; i < CHAT_CUTS && reason != NULL; i++) {
        if (strcmp(chat_cut_names[i], reason) == 0) {
            return (chat_cut_e) i;
        }
    }

    return CHAT_CUT_RESET;
}


void
chat_metrics_time(chat_metrics_t *metrics, chat_timing_e timing, uint64_t us)
{
    size_t          i;
    const uint64_t *bounds = chat_timing_bounds[timing];

    for (i = 0; i < CHAT_METRICS_BUCKETS && us > bounds[i]; i++) { /* void */
    }

    metrics->timings[timing].buckets[i]++;
    metrics->timings[timing].sum += us;
}


uint64_t
chat_timing_count(const chat_timing_t *timing)
{
    size_t   i;
    uint64_t n = 0;

    for (i = 0; i <= CHAT_METRICS_BUCKETS; i++) {
        n += timing->buckets[i];
    }

    return n;
}


void
chat_metrics_add(chat_metrics_t *sum, const chat_metrics_t *one)
{
    size_t          i;
    uint64_t       *to = (uint64_t *) sum;
    const uint64_t *from = (const uint64_t *) one;

    for (i = 0; i < sizeof(chat_metrics_t) / sizeof(uint64_t); i++) {
        to[i] += from[i];
    }
}
