/*
 * chat_status_json.c: the status as JSON.
 *
 * docs/operations.md describes its shape, and docker/status.html reads it:
 * members may be added, none is renamed.
 */

#include "bytes/chat_digest.h"
#include "report/chat_status.h"

#include <inttypes.h>


static const char *const chat_what_names[] = {
    "held",    "merged", "released", "dropped",    "attached",  "interrupted",
    "bounced", "empty",  "conflict", "superseded", "unmanaged", "bypass",
};

static const char *const chat_held_states[] = { "open", "sealed",
                                                "streaming" };
static const char *const chat_member_states[] = { "missing", "result",
                                                  "approval" };


/* A comma, unless it is the first of a list, and the key. */
static void
chat_status_key(chat_buf_t *out, int *first, const char *key)
{
    chat_buf_printf(out, "%s\"%s\":", *first ? "" : ",", key);
    *first = 0;
}


/* An object of n numbers. */
static void
chat_status_numbers(chat_buf_t *out, const char *const *names,
                    const uint64_t *numbers, size_t n)
{
    int    first = 1;
    size_t i;

    chat_buf_puts(out, "{");

    for (i = 0; i < n; i++) {
        chat_status_key(out, &first, names[i]);
        chat_buf_printf(out, "%" PRIu64, numbers[i]);
    }

    chat_buf_puts(out, "}");
}


static void
chat_status_requests(chat_buf_t *out, const chat_metrics_t *m)
{
    int    first = 1;
    size_t i;

    chat_buf_puts(out, "{");

    for (i = 0; i <= chat_metrics_dialects(); i++) {
        chat_status_key(out, &first, chat_metrics_dialect_name(i));
        chat_status_numbers(out, chat_verdict_names, m->requests[i],
                            CHAT_METRICS_VERDICTS);
    }

    chat_buf_puts(out, "}");
}


static void
chat_status_turns(chat_buf_t *out, const chat_metrics_t *m)
{
    int         first = 1;
    size_t      i;
    const char *ends[CHAT_METRICS_ENDS];

    for (i = 0; i < CHAT_METRICS_ENDS; i++) {
        ends[i] = chat_end_name((chat_end_e) (i + 1));
    }

    chat_buf_puts(out, "{");

    for (i = 0; i < chat_metrics_dialects(); i++) {
        chat_status_key(out, &first, chat_metrics_dialect_name(i));
        chat_status_numbers(out, ends, m->turns[i], CHAT_METRICS_ENDS);
    }

    chat_buf_puts(out, "}");
}


/* Requests with this verdict, of all dialects. */
static uint64_t
chat_status_verdicts(const chat_metrics_t *m, const char *name)
{
    size_t   i, k;
    uint64_t n = 0;

    for (k = 0; strcmp(chat_verdict_names[k], name) != 0; k++) { /* void */
    }

    for (i = 0; i < CHAT_METRICS_DIALECTS; i++) {
        n += m->requests[i][k];
    }

    return n;
}


static void
chat_status_counters(chat_buf_t *out, const chat_metrics_t *m)
{
    size_t i;

    chat_buf_puts(out, ",\"counters\":{\"requests\":");
    chat_status_requests(out, m);
    chat_buf_puts(out, ",\"turns\":");
    chat_status_turns(out, m);
    chat_buf_puts(out, ",\"interruptions\":");
    chat_status_numbers(out, chat_cut_names, m->cuts, CHAT_CUTS);

    for (i = 0; i < CHAT_COUNTS; i++) {
        chat_buf_printf(out, ",\"%s\":%" PRIu64, chat_count_names[i],
                        m->counts[i]);
    }

    chat_buf_printf(out, ",\"released\":%" PRIu64 ",\"bypassed\":%" PRIu64 "}",
                    chat_status_verdicts(m, "released"),
                    chat_status_verdicts(m, "bypass"));
}


static void
chat_status_timing(chat_buf_t *out, const chat_metrics_t *m,
                   chat_timing_e which)
{
    size_t               i;
    uint64_t             n = 0;
    const chat_timing_t *timing = &m->timings[which];

    chat_buf_puts(out, "{\"le\":[");

    for (i = 0; i < CHAT_METRICS_BUCKETS; i++) {
        chat_buf_puts(out, i ? "," : "");
        chat_status_put_seconds(out, chat_timing_bounds[which][i]);
    }

    chat_buf_puts(out, "],\"counts\":[");

    for (i = 0; i < CHAT_METRICS_BUCKETS; i++) {
        n += timing->buckets[i];
        chat_buf_printf(out, "%s%" PRIu64, i ? "," : "", n);
    }

    chat_buf_puts(out, "],\"sum\":");
    chat_status_put_seconds(out, timing->sum);
    chat_buf_printf(out, ",\"count\":%" PRIu64 "}", chat_timing_count(timing));
}


static void
chat_status_timings(chat_buf_t *out, const chat_metrics_t *m)
{
    int    first = 1;
    size_t i;

    chat_buf_puts(out, ",\"histograms\":{");

    for (i = 0; i < CHAT_TIMINGS; i++) {
        chat_status_key(out, &first, chat_timing_names[i]);
        chat_status_timing(out, m, (chat_timing_e) i);
    }

    chat_buf_puts(out, "}");
}


static void
chat_status_batch(chat_buf_t *out, const chat_held_t *batch, uint64_t now)
{
    char                      name[2 * sizeof(batch->name) + 1];
    size_t                    i, n = batch->nmembers;
    const chat_held_member_t *member;

    chat_hex(batch->name, sizeof(batch->name), name);
    chat_buf_printf(out, "{\"name\":\"%s\",\"conversation\":", name);
    chat_status_put_short(out, &batch->conversation);
    chat_buf_printf(
        out,
        ",\"dialect\":\"%s\",\"age_ms\":%" PRIu64
        ",\"held\":%u,\"missing\":%u,\"attempt\":%u"
        ",\"state\":\"%s\",\"calls\":%u,\"members\":[",
        chat_metrics_dialect_name(batch->dialect),
        batch->since != 0 && now > batch->since ? now - batch->since : 0,
        (unsigned) batch->held, (unsigned) batch->missing,
        (unsigned) batch->attempt, chat_held_states[batch->state % 3],
        (unsigned) batch->nmembers);

    n = n < CHAT_STATUS_MEMBERS ? n : CHAT_STATUS_MEMBERS;

    for (i = 0; i < n; i++) {
        member = &batch->members[i];
        chat_buf_puts(out, i ? ",{\"id\":" : "{\"id\":");
        chat_status_put_short(out, &member->id);
        chat_buf_printf(out, ",\"kind\":\"%s\",\"state\":\"%s\"}",
                        member->approval ? "approval" : "client",
                        chat_member_states[member->state % 3]);
    }

    chat_buf_puts(out, "]}");
}


static void
chat_status_event(chat_buf_t *out, const chat_log_event_t *event)
{
    char        batch[2 * sizeof(event->batch) + 1];
    size_t      len = CHAT_STATUS_DETAIL;
    const char *end = memchr(event->detail, 0, len);

    len = end != NULL ? (size_t) (end - event->detail) : len;

    chat_hex(event->batch, event->has_batch ? sizeof(event->batch) : 0, batch);
    chat_buf_printf(out,
                    "{\"n\":%" PRIu64 ",\"time\":%" PRIu64
                    ",\"what\":\"%s\",\"batch\":\"%s\"",
                    event->n, event->time,
                    chat_what_names[event->what % CHAT_WHATS], batch);
    chat_buf_printf(out, ",\"dialect\":\"%s\",\"conversation\":",
                    chat_metrics_dialect_name(event->dialect));
    chat_status_put_short(out, &event->conversation);
    chat_buf_puts(out, ",\"detail\":");
    chat_status_put(out, chat_str(event->detail, len), 0);
    chat_buf_puts(out, "}");
}


static void
chat_status_head(chat_buf_t *out, const chat_status_t *status)
{
    const chat_metrics_t *m = &status->metrics;

    chat_buf_puts(out, "{\"version\":");
    chat_status_put(out, status->version, 0);
    chat_buf_puts(out, ",\"nginx\":");
    chat_status_put(out, status->nginx, 0);
    chat_buf_printf(out, ",\"time\":%" PRIu64 ",\"node\":", status->time);
    chat_status_put(out, status->node, 0);
    chat_buf_printf(out,
                    ",\"workers\":%" PRIu64 ",\"store\":{\"type\":\"%s\""
                    ",\"state\":\"%s\",\"zone_size\":%" PRIu64
                    ",\"zone_used\":%" PRIu64 "},\"holds\":{\"now\":%" PRIu64
                    ",\"oldest_ms\":%" PRIu64
                    "},\"records\":{\"streams\":%" PRIu64 ",\"bytes\":%" PRIu64
                    ",\"followers\":%" PRIu64 "}",
                    m->workers, status->store,
                    chat_store_state_names[chat_status_store(m)],
                    status->zone_size, status->zone_used, m->holds,
                    status->oldest, m->streams, m->bytes, m->followers);
}


void
chat_status_json(const chat_status_t *status, chat_buf_t *out)
{
    size_t i;

    chat_status_head(out, status);
    chat_status_counters(out, &status->metrics);
    chat_status_timings(out, &status->metrics);

    chat_buf_puts(out, ",\"batches\":[");

    for (i = 0; i < status->nbatches; i++) {
        chat_buf_puts(out, i ? "," : "");
        chat_status_batch(out, &status->batches[i], status->time);
    }

    chat_buf_printf(out, "],\"batches_more\":%" PRIu64 ",\"events\":[",
                    status->more);

    for (i = 0; i < status->nevents; i++) {
        chat_buf_puts(out, i ? "," : "");
        chat_status_event(out, &status->events[i]);
    }

    chat_buf_puts(out, "]}\n");
}
