/*
 * chat_prometheus.c: the status as Prometheus text (format 0.0.4).
 *
 * Every series is there from the start, with 0, so that a rate sees its first
 * event. docs/operations.md lists the names.
 */

#include "report/chat_status.h"

#include <inttypes.h>


static void
chat_prometheus_family(chat_buf_t *out, const char *name, const char *type,
                       const char *help)
{
    chat_buf_printf(out, "# HELP nginx_chat_%s %s\n# TYPE nginx_chat_%s %s\n",
                    name, help, name, type);
}


/* A family that is one number. */
static void
chat_prometheus_one(chat_buf_t *out, const char *name, const char *type,
                    const char *help, uint64_t n)
{
    chat_prometheus_family(out, name, type, help);
    chat_buf_printf(out, "nginx_chat_%s %" PRIu64 "\n", name, n);
}


static void
chat_prometheus_requests(chat_buf_t *out, const chat_metrics_t *m)
{
    size_t i, k;

    chat_prometheus_family(out, "requests_total", "counter",
                           "Requests that are over, by verdict.");

    for (i = 0; i <= chat_metrics_dialects(); i++) {
        for (k = 0; k < CHAT_METRICS_VERDICTS; k++) {
            chat_buf_printf(out,
                            "nginx_chat_requests_total{dialect=\"%s\","
                            "verdict=\"%s\"} %" PRIu64 "\n",
                            chat_metrics_dialect_name(i),
                            chat_verdict_names[k], m->requests[i][k]);
        }
    }

    chat_prometheus_family(out, "turns_total", "counter",
                           "Responses of upstreams and to followers, by "
                           "how they ended.");

    for (i = 0; i < chat_metrics_dialects(); i++) {
        for (k = 0; k < CHAT_METRICS_ENDS; k++) {
            chat_buf_printf(out,
                            "nginx_chat_turns_total{dialect=\"%s\","
                            "status=\"%s\"} %" PRIu64 "\n",
                            chat_metrics_dialect_name(i),
                            chat_end_name((chat_end_e) (k + 1)),
                            m->turns[i][k]);
        }
    }
}


static void
chat_prometheus_counts(chat_buf_t *out, const chat_metrics_t *m)
{
    char                     name[40];
    size_t                   i;
    static const char *const help[CHAT_COUNTS] = {
        "Replayed calls and results taken out of streams.",
        "New calls under an id that was in use.",
        "Results put into request bodies.",
        "Results injected for clients that lacked them.",
        "What passed untouched past a bound.",
        "Results that came by chat_results.",
        "Requests that the store had no room for.",
        "Requests that were not allowed to wait.",
    };

    chat_prometheus_family(out, "interruptions_total", "counter",
                           "Responses that broke off, by reason.");

    for (i = 0; i < CHAT_CUTS; i++) {
        chat_buf_printf(
            out, "nginx_chat_interruptions_total{reason=\"%s\"} %" PRIu64 "\n",
            chat_cut_names[i], m->cuts[i]);
    }

    for (i = 0; i < CHAT_COUNTS; i++) {
        (void) strcat(strcpy(name, chat_count_names[i]), "_total");
        chat_prometheus_one(out, name, "counter", help[i], m->counts[i]);
    }
}


static void
chat_prometheus_timing(chat_buf_t *out, const char *name,
                       const chat_timing_t *timing, const uint64_t *bounds)
{
    size_t   i;
    uint64_t n = 0;

    for (i = 0; i < CHAT_METRICS_BUCKETS; i++) {
        n += timing->buckets[i];
        chat_buf_printf(out, "nginx_chat_%s_bucket{le=\"", name);
        chat_status_put_seconds(out, bounds[i]);
        chat_buf_printf(out, "\"} %" PRIu64 "\n", n);
    }

    n += timing->buckets[i];
    chat_buf_printf(out,
                    "nginx_chat_%s_bucket{le=\"+Inf\"} %" PRIu64
                    "\nnginx_chat_%s_sum ",
                    name, n, name);
    chat_status_put_seconds(out, timing->sum);
    chat_buf_printf(out, "\nnginx_chat_%s_count %" PRIu64 "\n", name, n);
}


static void
chat_prometheus_timings(chat_buf_t *out, const chat_metrics_t *m)
{
    size_t                   i;
    static const char *const help[CHAT_TIMINGS] = {
        "How long requests waited.",
        "How long an operation of the store took.",
        "From seeing the last missing result to going on.",
    };

    for (i = 0; i < CHAT_TIMINGS; i++) {
        chat_prometheus_family(out, chat_timing_names[i], "histogram",
                               help[i]);
        chat_prometheus_timing(out, chat_timing_names[i], &m->timings[i],
                               chat_timing_bounds[i]);
    }
}


static void
chat_prometheus_store(chat_buf_t *out, const chat_status_t *status)
{
    size_t i;

    chat_prometheus_one(out, "store_up", "gauge",
                        "1 if all workers reach the store.",
                        chat_status_store(&status->metrics) == 0);
    chat_prometheus_family(out, "store_workers", "gauge",
                           "Workers by their state of the store.");

    for (i = 0; i < 3; i++) {
        chat_buf_printf(out,
                        "nginx_chat_store_workers{state=\"%s\"} %" PRIu64 "\n",
                        chat_store_state_names[i], status->metrics.stores[i]);
    }

    if (status->zone_size != 0) {
        chat_prometheus_one(out, "zone_size_bytes", "gauge",
                            "Size of the shared zone.", status->zone_size);
        chat_prometheus_one(out, "zone_used_bytes", "gauge",
                            "Used bytes of the shared zone.",
                            status->zone_used);
    }
}


/* The text in quotes, as JSON escapes it: Prometheus knows \n, \" and \\. */
static void
chat_prometheus_info(chat_buf_t *out, const chat_status_t *status)
{
    chat_prometheus_family(out, "info", "gauge",
                           "Always 1; its labels say what runs.");
    chat_buf_puts(out, "nginx_chat_info{version=");
    chat_status_put(out, status->version, 0);
    chat_buf_puts(out, ",nginx=");
    chat_status_put(out, status->nginx, 0);
    chat_buf_puts(out, ",node=");
    chat_status_put(out, status->node, 0);
    chat_buf_printf(out, ",store=\"%s\"} 1\n", status->store);
}


void
chat_status_prometheus(const chat_status_t *status, chat_buf_t *out)
{
    const chat_metrics_t *m = &status->metrics;

    chat_prometheus_info(out, status);
    chat_prometheus_one(out, "workers", "gauge", "Workers that run.",
                        m->workers);
    chat_prometheus_requests(out, m);
    chat_prometheus_counts(out, m);
    chat_prometheus_one(out, "holds", "gauge", "Requests that wait.",
                        m->holds);
    chat_prometheus_family(out, "hold_oldest_seconds", "gauge",
                           "How long the oldest hold has lasted.");
    chat_buf_puts(out, "nginx_chat_hold_oldest_seconds ");
    chat_status_put_seconds(out, 1000 * status->oldest);
    chat_buf_puts(out, "\n");
    chat_prometheus_timings(out, m);
    chat_prometheus_one(out, "records", "gauge",
                        "Streams that are being recorded.", m->streams);
    chat_prometheus_one(out, "record_bytes", "gauge",
                        "Bytes recorded of them so far.", m->bytes);
    chat_prometheus_one(out, "record_followers", "gauge",
                        "Requests that follow one.", m->followers);
    chat_prometheus_store(out, status);
}
