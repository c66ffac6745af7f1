/*
 * chat_status.c: see chat_status.h; counting, and the status as JSON.
 *
 * docs/operations.md describes its shape, and docker/status.html reads it:
 * members may be added, none is renamed.
 */

#include "bytes/chat_digest.h"
#include "bytes/chat_utf8.h"
#include "dialect/chat_dialect.h"
#include "facts/chat_store.h"
#include "report/chat_status.h"


const char *const chat_break_names[] = {
    "eof",      "reset",    "timeout",           "stall",         "malformed",
    "upstream", "too_slow", "incomplete_record", "producer_lost",
};

const char *const chat_count_names[] = {
    "replays_dropped",  "id_reuse",      "results_merged",
    "results_injected", "oversized",     "external_results",
    "store_full",       "holds_refused", "dry_runs",
};

const char *const chat_timing_names[] = {
    "hold_seconds",
    "store_seconds",
    "release_seconds",
};

const char *const chat_store_state_names[] = { "up", "reconnecting",
                                               "unavailable" };

#define MS UINT64_C(1000)
#define S UINT64_C(1000000)

const uint64_t chat_timing_bounds[CHAT_TIMINGS][CHAT_METRICS_BUCKETS] = {
    { 10 * MS, 50 * MS, 100 * MS, 250 * MS, 500 * MS, 1 * S, 2 * S, 5 * S,
      10 * S, 30 * S, 60 * S, 120 * S, 300 * S, 600 * S, 1800 * S, 3600 * S },
    [1 ... CHAT_TIMINGS - 1] = { 10, 25, 50, 100, 250, 500, 1 * MS, 2500,
                                 5 * MS, 10 * MS, 25 * MS, 50 * MS, 100 * MS,
                                 250 * MS, 500 * MS, 1 * S },
};

/* Of events that are no verdicts. */
static const char *const event_names[] = { "merged",      "dropped",
                                           "interrupted", "external",
                                           "left",        "ended" };

static const char *const held_states[] = { "open", "sealed", "streaming" };
static const char *const member_states[] = { "missing", "result", "approval" };


size_t
chat_metrics_dialect(const chat_dialect_t *dialect)
{
    size_t i, n = chat_dialect_count;

    for (i = 0; i < n && chat_dialects[i] != dialect; i++) { /* void */
    }

    return i;
}


const char *
chat_metrics_dialect_name(size_t dialect)
{
    return dialect < chat_dialect_count ? chat_dialects[dialect]->name
                                        : "none";
}


chat_break_e
chat_metrics_break(const char *reason)
{
    int i;

    for (i = 0; i < CHAT_BREAKS && reason != NULL; i++) {
        if (strcmp(chat_break_names[i], reason) == 0) {
            return (chat_break_e) i;
        }
    }

    return CHAT_BREAK_RESET;
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


void
chat_metrics_add(chat_metrics_t *sum, const chat_metrics_t *one, int running)
{
    size_t    i, n = running ? sizeof(*one) : offsetof(chat_metrics_t, now);
    uint64_t *to = (uint64_t *) sum;
    const uint64_t *from = (const uint64_t *) one;

    for (i = 0; i < n / sizeof(uint64_t); i++) {
        to[i] += from[i];
    }
}


void
chat_short(chat_short_t *out, chat_str_t id)
{
    size_t n = id.len < CHAT_SHORT ? id.len : CHAT_SHORT;

    /* back to the first byte of a character, which has at most four */
    while (n < id.len && n > CHAT_SHORT - 3 && (id.data[n] & 0xc0) == 0x80) {
        n--;
    }

    memset(out, 0, sizeof(*out));
    out->len = (unsigned char) n;
    out->cut = n < id.len;
    (void) chat_str_copy(out->bytes, chat_str(id.data, n));
}


void
chat_status_put(chat_buf_t *out, chat_str_t s, int cut)
{
    int    is_valid = chat_utf8_is_valid(s);
    size_t i, from = out->len;

    for (i = 0; i < s.len; i++) {
        chat_buf_add(out, is_valid || s.data[i] < 0x80
                              ? chat_str(s.data + i, 1)
                              : chat_cstr("\xef\xbf\xbd"));
    }

    chat_buf_puts(out, cut ? "\xe2\x80\xa6" : "");
    chat_buf_quote(out, from);
}


static void
put_short(chat_buf_t *out, const chat_short_t *id)
{
    chat_status_put(out, chat_str(id->bytes, id->len), id->cut);
}


void
chat_status_put_seconds(chat_buf_t *out, uint64_t us)
{
    unsigned char digits[CHAT_DIGITS], *end = digits + CHAT_DIGITS, *part;

    part = chat_digits(1000000 + us % 1000000, end) + 1;
    while (end > part && end[-1] == '0') {
        end--;
    }

    chat_buf_format(out, "%d%s%v", us / 1000000, end > part ? "." : "",
                    chat_str(part, (size_t) (end - part)));
}


size_t
chat_status_store(const chat_metrics_t *metrics)
{
    size_t state = CHAT_METRICS_STORES - 1;

    while (state > 0 && metrics->now.stores[state] == 0) {
        state--;
    }

    return state;
}


/* Ends an array or object; each member has put a comma behind itself. */
static void
put_end(chat_buf_t *out, const char *end)
{
    if (out->len != 0 && out->data[out->len - 1] == ',') {
        out->len--;
    }

    chat_buf_puts(out, end);
}


/* An object of n numbers. */
static void
put_numbers(chat_buf_t *out, const char *name, const char *const *names,
            const uint64_t *numbers, size_t n)
{
    size_t i;

    chat_buf_format(out, "\"%s\":{", name);

    for (i = 0; i < n; i++) {
        chat_buf_format(out, "\"%s\":%d,", names[i], numbers[i]);
    }

    put_end(out, "},");
}


/* An object of such objects, one for each of so many dialects. */
static void
put_by_dialect(chat_buf_t *out, const char *name, size_t dialects,
               const char *const *names, const uint64_t *numbers, size_t n)
{
    size_t i;

    chat_buf_format(out, "\"%s\":{", name);

    for (i = 0; i < dialects; i++) {
        put_numbers(out, chat_metrics_dialect_name(i), names, numbers + i * n,
                    n);
    }

    put_end(out, "},");
}


/* An object of such objects, one for each verdict. */
static void
put_reasons(chat_buf_t *out, const uint64_t *numbers)
{
    size_t                 i;
    chat_request_verdict_e verdict = CHAT_VERDICTS;

    chat_buf_puts(out, "\"reasons\":{");

    for (i = CHAT_REASON_COUNTED; i < CHAT_REASONS; i++) {
        if (chat_reasons[i].verdict != verdict) {
            put_end(out, i != CHAT_REASON_COUNTED ? "}," : "");
            verdict = chat_reasons[i].verdict;
            chat_buf_format(out, "\"%s\":{", chat_verdict_names[verdict]);
        }

        chat_buf_format(out, "\"%s\":%d,", chat_reasons[i].word, numbers[i]);
    }

    put_end(out, "}");
    chat_buf_puts(out, "},");
}


static void
put_counters(chat_buf_t *out, const chat_metrics_t *m)
{
    size_t   i, dialects = chat_dialect_count;
    uint64_t released = 0, bypassed = 0;

    for (i = 0; i <= dialects; i++) {
        released += m->requests[i][CHAT_VERDICT_RELEASED];
        bypassed += m->requests[i][CHAT_VERDICT_BYPASS];
    }

    chat_buf_puts(out, "\"counters\":{");
    put_by_dialect(out, "requests", dialects + 1, chat_verdict_names,
                   m->requests[0], CHAT_VERDICTS);
    put_reasons(out, m->reasons);
    put_by_dialect(out, "turns", dialects, chat_end_names + 1, m->turns[0],
                   CHAT_METRICS_ENDS);
    put_numbers(out, "interruptions", chat_break_names, m->breaks,
                CHAT_BREAKS);

    for (i = 0; i < CHAT_COUNTS; i++) {
        chat_buf_format(out, "\"%s\":%d,", chat_count_names[i], m->counts[i]);
    }

    chat_buf_format(out, "\"released\":%d,\"bypassed\":%d},", released,
                    bypassed);
}


static void
put_timing(chat_buf_t *out, const char *name, const chat_timing_t *timing,
           const uint64_t *bounds)
{
    size_t   i;
    uint64_t n = 0;

    chat_buf_format(out, "\"%s\":{\"le\":[", name);

    for (i = 0; i < CHAT_METRICS_BUCKETS; i++) {
        chat_status_put_seconds(out, bounds[i]);
        chat_buf_puts(out, ",");
    }

    put_end(out, "],\"counts\":[");

    for (i = 0; i < CHAT_METRICS_BUCKETS; i++) {
        n += timing->buckets[i];
        chat_buf_format(out, "%d,", n);
    }

    put_end(out, "],\"sum\":");
    chat_status_put_seconds(out, timing->sum);
    chat_buf_format(out, ",\"count\":%d},",
                    n + timing->buckets[CHAT_METRICS_BUCKETS]);
}


static void
put_batch(chat_buf_t *out, const chat_status_batch_t *batch, uint64_t now)
{
    char                      name[2 * sizeof(batch->name) + 1];
    size_t                    i, n = batch->nmembers;
    const chat_held_member_t *member;

    chat_hex(batch->name, sizeof(batch->name), name);
    chat_buf_format(out, "{\"name\":\"%s\",\"conversation\":", name);
    put_short(out, &batch->conversation);
    chat_buf_format(
        out,
        ",\"dialect\":\"%s\",\"age_ms\":%d,\"held\":%u,\"missing\":%u,"
        "\"attempt\":%u,\"state\":\"%s\",\"calls\":%u,\"members\":[",
        chat_metrics_dialect_name(batch->dialect),
        batch->since != 0 && now > batch->since ? now - batch->since
                                                : UINT64_C(0),
        batch->held, batch->missing, batch->attempt,
        held_states[batch->state % 3], batch->nmembers);

    n = n < CHAT_STATUS_MEMBERS ? n : CHAT_STATUS_MEMBERS;

    for (i = 0; i < n; i++) {
        member = &batch->members[i];
        chat_buf_puts(out, "{\"id\":");
        put_short(out, &member->id);
        chat_buf_format(out, ",\"kind\":\"%s\",\"state\":\"%s\"},",
                        member->approval ? "approval" : "client",
                        member_states[member->state % 3]);
    }

    put_end(out, "]},");
}


static void
put_event(chat_buf_t *out, const chat_log_event_t *event)
{
    char     batch[2 * sizeof(event->batch) + 1];
    uint32_t i;
    size_t   what = event->what % CHAT_WHATS;

    chat_hex(event->batch, event->has_batch ? sizeof(event->batch) : 0, batch);
    chat_buf_format(out,
                    "{\"n\":%d,\"time\":%d,\"what\":\"%s\",\"reason\":\"%s\","
                    "\"batch\":\"%s\",\"dialect\":\"%s\",\"conversation\":",
                    event->n, event->time,
                    what < CHAT_REASONS
                        ? chat_verdict_names[chat_reasons[what].verdict]
                        : event_names[what - CHAT_REASONS],
                    what < CHAT_REASONS ? chat_reasons[what].word : "", batch,
                    chat_metrics_dialect_name(event->dialect));
    put_short(out, &event->conversation);
    chat_buf_format(out,
                    ",\"pid\":%u,\"connection\":%d,\"attempt\":%u,"
                    "\"results\":%u,\"carried\":[",
                    event->pid, event->connection, event->attempt,
                    event->ncarried);

    for (i = 0; i < event->ncarried && i < CHAT_STATUS_CARRIED; i++) {
        put_short(out, &event->carried[i]);
        chat_buf_puts(out, ",");
    }

    put_end(out, "],\"detail\":");
    chat_status_put(out, chat_cstr(event->detail), 0);
    chat_buf_puts(out, "},");
}


/* The last member of an object. */
static void
put_events(chat_buf_t *out, const chat_status_t *status)
{
    size_t i;

    chat_buf_puts(out, "\"events\":[");

    for (i = 0; i < status->nevents; i++) {
        put_event(out, &status->events[i]);
    }

    put_end(out, "]}\n");
}


static void
put_head(chat_buf_t *out, const chat_status_t *status)
{
    const chat_metrics_now_t *now = &status->metrics.now;

    chat_buf_puts(out, "{\"version\":");
    chat_status_put(out, status->version, 0);
    chat_buf_puts(out, ",\"nginx\":");
    chat_status_put(out, status->nginx, 0);
    chat_buf_format(out, ",\"time\":%d,\"node\":", status->time);
    chat_status_put(out, status->node, 0);
    chat_buf_format(
        out,
        ",\"workers\":%d,\"store\":{\"type\":\"%s\","
        "\"state\":\"%s\",\"zone_size\":%d,\"zone_used\":%d},"
        "\"holds\":{\"now\":%d,\"oldest_ms\":%d},"
        "\"recordings\":{\"streams\":%d,\"bytes\":%d,"
        "\"followers\":%d},",
        now->workers, status->store,
        chat_store_state_names[chat_status_store(&status->metrics)],
        status->zone_size, status->zone_used, now->holds, status->oldest,
        now->streams, now->bytes, now->followers);
}


void
chat_status_json(const chat_status_t *status, chat_buf_t *out)
{
    size_t                i;
    const chat_metrics_t *m = &status->metrics;

    put_head(out, status);
    put_counters(out, m);
    chat_buf_puts(out, "\"histograms\":{");

    for (i = 0; i < CHAT_TIMINGS; i++) {
        put_timing(out, chat_timing_names[i], &m->timings[i],
                   chat_timing_bounds[i]);
    }

    put_end(out, "},\"batches\":[");

    for (i = 0; i < status->nbatches; i++) {
        put_batch(out, &status->batches[i], status->time);
    }

    put_end(out, "],");
    chat_buf_format(out, "\"batches_more\":%d,", status->more);
    put_events(out, status);
}


void
chat_status_timeline(const chat_status_t *status, chat_buf_t *out)
{
    chat_buf_format(out, "{\"time\":%d,\"node\":", status->time);
    chat_status_put(out, status->node, 0);
    chat_buf_puts(out, ",");
    put_events(out, status);
}
