/*
 * chat_prometheus.c: the status as Prometheus text (format 0.0.4).
 *
 * Every series is there from the start, with 0, so that a rate sees its first
 * event. docs/operations.md lists the names.
 */

#include "report/chat_status.h"


static const char *const count_helps[CHAT_COUNTS] = {
    "Replayed calls and results dropped from streams.",
    "New calls with an id already in use.",
    "Results inserted into request bodies.",
    "Results injected for clients that lacked them.",
    "Bodies, steps, frames and results past a limit, passed untouched.",
    "External results.",
    "Requests for which the store had no room.",
    "Requests refused because too many waited.",
    "Requests that chat_dry_run only observed.",
};

static const char *const timing_helps[CHAT_TIMINGS] = {
    "Duration of holds.",
    "Duration of store queries.",
    "From the last missing result to the release.",
};

static void
put_family(chat_buf_t *out, const char *name, const char *type,
           const char *help)
{
    chat_buf_format(out, "# HELP nginx_chat_%s %s\n# TYPE nginx_chat_%s %s\n",
                    name, help, name, type);
}


/* A family that is one number. */
static void
put_single(chat_buf_t *out, const char *name, const char *type,
           const char *help, uint64_t n)
{
    put_family(out, name, type, help);
    chat_buf_format(out, "nginx_chat_%s %d\n", name, n);
}


/* A series for each name of a label; dialect: another label, or NULL. */
static void
put_series(chat_buf_t *out, const char *family, const char *dialect,
           const char *label, const char *const *names,
           const uint64_t *numbers, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++) {
        chat_buf_format(out, "nginx_chat_%s{", family);
        if (dialect != NULL) {
            chat_buf_format(out, "dialect=\"%s\",", dialect);
        }
        chat_buf_format(out, "%s=\"%s\"} %d\n", label, names[i], numbers[i]);
    }
}


static void
put_counters(chat_buf_t *out, const chat_metrics_t *m)
{
    char   name[40];
    size_t i, dialects = chat_dialect_count;

    put_family(out, "requests_total", "counter", "Ended requests by verdict.");

    for (i = 0; i <= dialects; i++) {
        put_series(out, "requests_total", chat_metrics_dialect_name(i),
                   "verdict", chat_verdict_names, m->requests[i],
                   CHAT_VERDICTS);
    }

    put_family(out, "reasons_total", "counter",
               "Ended requests by verdict and reason.");

    for (i = CHAT_REASON_COUNTED; i < CHAT_REASONS; i++) {
        chat_buf_format(out,
                        "nginx_chat_reasons_total{verdict=\"%s\","
                        "reason=\"%s\"} %d\n",
                        chat_verdict_names[chat_reasons[i].verdict],
                        chat_reasons[i].word, m->reasons[i]);
    }

    put_family(out, "turns_total", "counter",
               "Answers of upstreams and to followers, by their end.");

    for (i = 0; i < dialects; i++) {
        put_series(out, "turns_total", chat_metrics_dialect_name(i), "status",
                   chat_end_names + 1, m->turns[i], CHAT_METRICS_ENDS);
    }

    put_family(out, "interruptions_total", "counter",
               "Interrupted answers by reason.");
    put_series(out, "interruptions_total", NULL, "reason", chat_break_names,
               m->breaks, CHAT_BREAKS);

    for (i = 0; i < CHAT_COUNTS; i++) {
        (void) strcat(strcpy(name, chat_count_names[i]), "_total");
        put_single(out, name, "counter", count_helps[i], m->counts[i]);
    }
}


static void
put_timing(chat_buf_t *out, const char *name, const chat_timing_t *timing,
           const uint64_t *bounds)
{
    size_t   i;
    uint64_t n = 0;

    for (i = 0; i < CHAT_METRICS_BUCKETS; i++) {
        n += timing->buckets[i];
        chat_buf_format(out, "nginx_chat_%s_bucket{le=\"", name);
        chat_status_put_seconds(out, bounds[i]);
        chat_buf_format(out, "\"} %d\n", n);
    }

    n += timing->buckets[i];
    chat_buf_format(out,
                    "nginx_chat_%s_bucket{le=\"+Inf\"} %d\n"
                    "nginx_chat_%s_sum ",
                    name, n, name);
    chat_status_put_seconds(out, timing->sum);
    chat_buf_format(out, "\nnginx_chat_%s_count %d\n", name, n);
}


/* Strings are escaped as in JSON: Prometheus knows \n, \" and \\. */
static void
put_info(chat_buf_t *out, const chat_status_t *status)
{
    put_family(out, "info", "gauge",
               "1; the labels name the versions, the node and the store.");
    chat_buf_puts(out, "nginx_chat_info{version=");
    chat_status_put(out, status->version, 0);
    chat_buf_puts(out, ",nginx=");
    chat_status_put(out, status->nginx, 0);
    chat_buf_puts(out, ",node=");
    chat_status_put(out, status->node, 0);
    chat_buf_format(out, ",store=\"%s\"} 1\n", status->store);
}


void
chat_status_prometheus(const chat_status_t *status, chat_buf_t *out)
{
    size_t                    i;
    const chat_metrics_t     *m = &status->metrics;
    const chat_metrics_now_t *now = &m->now;

    put_info(out, status);
    put_counters(out, m);
    put_single(out, "workers", "gauge",
               "Running workers, including those shutting down.",
               now->workers);
    put_single(out, "holds", "gauge", "Waiting requests.", now->holds);
    put_single(out, "recordings", "gauge", "Answers being recorded.",
               now->streams);
    put_single(out, "recording_bytes", "gauge", "Their recorded bytes so far.",
               now->bytes);
    put_single(out, "recording_followers", "gauge", "Followers.",
               now->followers);

    if (status->zone_size != 0) {
        put_single(out, "zone_size_bytes", "gauge", "Size of the shared zone.",
                   status->zone_size);
        put_single(out, "zone_used_bytes", "gauge",
                   "Used bytes of the shared zone.", status->zone_used);
    }

    put_family(out, "hold_oldest_seconds", "gauge", "Age of the oldest hold.");
    chat_buf_puts(out, "nginx_chat_hold_oldest_seconds ");
    chat_status_put_seconds(out, 1000 * status->oldest);
    chat_buf_puts(out, "\n");

    for (i = 0; i < CHAT_TIMINGS; i++) {
        put_family(out, chat_timing_names[i], "histogram", timing_helps[i]);
        put_timing(out, chat_timing_names[i], &m->timings[i],
                   chat_timing_bounds[i]);
    }

    put_single(out, "store_up", "gauge",
               "1 if all workers can query the store.",
               chat_status_store(m) == 0);
    put_family(out, "store_workers", "gauge",
               "Workers by the state of their store connection.");
    put_series(out, "store_workers", NULL, "state", chat_store_state_names,
               now->stores, CHAT_METRICS_STORES);
}
