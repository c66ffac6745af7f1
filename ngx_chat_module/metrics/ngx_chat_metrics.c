/*
 * ngx_chat_metrics.c: see ngx_chat_metrics.h.
 *
 * A slot is zeroed when it is first taken, and never again: the next worker
 * counts on from there. Each entry of a table has a sequence number, which is
 * odd while the entry is written. A reader that meets an odd number, or sees
 * it change, tries again a few times and then skips the entry.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "metrics/ngx_chat_metrics.h"

#include <time.h>

#define NGX_CHAT_METRICS_ZONE                                               \
    (sizeof(ngx_chat_metrics_zone_t) + sizeof(ngx_chat_metrics_zone_t) / 32 \
     + 32 * (size_t) ngx_pagesize)

#define NGX_CHAT_METRICS_TRIES 4

/* The members of chat_metrics_t that end with their worker. */
#define NGX_CHAT_METRICS_NOW offsetof(chat_metrics_t, workers)

/* Of a worker that found no slot: its counts are lost. */
static ngx_chat_metrics_slot_t nowhere;


/* Only this worker writes the entry. */
static void
write_entry(ngx_atomic_uint_t *seq, void *to, const void *from, size_t size)
{
    volatile ngx_atomic_uint_t *now = seq;

    /* it is odd already if a killed worker was writing here */
    *now |= 1;
    ngx_memory_barrier();
    ngx_memcpy(to, from, size);
    ngx_memory_barrier();
    *now += 1;
}


/* Copies an entry; 0: it is being written. */
static ngx_uint_t
copy_entry(const ngx_atomic_uint_t *seq, const void *from, void *out,
           size_t size)
{
    ngx_uint_t                        i;
    ngx_atomic_uint_t                 before;
    const volatile ngx_atomic_uint_t *now = seq;

    for (i = 0; i < NGX_CHAT_METRICS_TRIES; i++) {
        before = *now;
        ngx_memory_barrier();
        ngx_memcpy(out, from, size);
        ngx_memory_barrier();

        if (before % 2 == 0 && *now == before) {
            return 1;
        }
    }

    return 0;
}


static ngx_int_t
init_zone(ngx_shm_zone_t *zone, void *data)
{
    ngx_chat_metrics_t *metrics = zone->data, *old = data;

    metrics->shpool = (ngx_slab_pool_t *) zone->shm.addr;

    if (old != NULL) {
        metrics->sh = old->sh;
        return NGX_OK;
    }

    if (zone->shm.exists) {
        metrics->sh = metrics->shpool->data;
        return NGX_OK;
    }

    metrics->sh =
        ngx_slab_alloc(metrics->shpool, sizeof(ngx_chat_metrics_zone_t));
    if (metrics->sh == NULL) {
        return NGX_ERROR;
    }

    /* the slots, most of them never used, are memory only when taken */
    ngx_memzero(metrics->sh, offsetof(ngx_chat_metrics_zone_t, slots));
    metrics->shpool->data = metrics->sh;
    return NGX_OK;
}


ngx_chat_metrics_t *
ngx_chat_metrics_create(ngx_conf_t *cf, void *tag)
{
    ngx_str_t           name = ngx_string("ngx_chat_metrics");
    ngx_shm_zone_t     *zone;
    ngx_chat_metrics_t *metrics;

    metrics = ngx_pcalloc(cf->pool, sizeof(ngx_chat_metrics_t));
    if (metrics == NULL) {
        return NULL;
    }

    zone = ngx_shared_memory_add(cf, &name, NGX_CHAT_METRICS_ZONE, tag);
    if (zone == NULL) {
        return NULL;
    }

    zone->init = init_zone;
    zone->data = metrics;
    return metrics;
}


/* 1 if the worker of this slot runs. */
static ngx_uint_t
is_running(const ngx_chat_metrics_t *metrics, ngx_uint_t slot)
{
    ngx_pid_t pid = metrics->sh->pids[slot];

    return pid != 0 && (kill(pid, 0) == 0 || errno != ESRCH);
}


/* With the mutex held: a slot without a living worker, or -1. */
static ngx_int_t
take_slot(ngx_chat_metrics_t *metrics)
{
    ngx_uint_t               i;
    ngx_chat_metrics_zone_t *sh = metrics->sh;

    for (i = 0; i < sh->used; i++) {
        if (sh->pids[i] == ngx_pid || !is_running(metrics, i)) {
            return (ngx_int_t) i;
        }
    }

    if (i == NGX_CHAT_METRICS_SLOTS) {
        return -1;
    }

    ngx_memzero(&sh->slots[i], sizeof(ngx_chat_metrics_slot_t));
    sh->used++;
    return (ngx_int_t) i;
}


void
ngx_chat_metrics_join(ngx_chat_metrics_t *metrics, ngx_log_t *log)
{
    u_char                  *end;
    ngx_chat_metrics_zone_t *sh = metrics->sh;

    ngx_shmtx_lock(&metrics->shpool->mutex);

    if (sh->name_len == 0) {
        end = ngx_snprintf(
            sh->name, sizeof(sh->name), "%*s-%08xD",
            ngx_min(ngx_cycle->hostname.len, sizeof(sh->name) - 9),
            ngx_cycle->hostname.data, (uint32_t) ngx_random());
        sh->name_len = (size_t) (end - sh->name);
    }

    metrics->number = take_slot(metrics);
    metrics->slot =
        metrics->number == -1 ? &nowhere : &sh->slots[metrics->number];

    /* what was current of the last worker in this slot */
    ngx_memzero((u_char *) &metrics->slot->metrics + NGX_CHAT_METRICS_NOW,
                sizeof(chat_metrics_t) - NGX_CHAT_METRICS_NOW);
    ngx_memzero(metrics->slot->batches, sizeof(metrics->slot->batches));
    metrics->slot->metrics.workers = 1;

    if (metrics->number != -1) {
        sh->pids[metrics->number] = ngx_pid;
    }

    ngx_shmtx_unlock(&metrics->shpool->mutex);

    if (metrics->number == -1) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "chat: more than %d workers, this one is not counted",
                      NGX_CHAT_METRICS_SLOTS);
    }
}


void
ngx_chat_metrics_leave(ngx_chat_metrics_t *metrics)
{
    if (metrics->slot != NULL && metrics->number != -1) {
        metrics->sh->pids[metrics->number] = 0;
    }
}


uint64_t
ngx_chat_metrics_clock(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}


void
ngx_chat_metrics_count(ngx_chat_worker_t *worker, chat_count_e what,
                       uint64_t n)
{
    worker->metrics->slot->metrics.counts[what] += n;
}


void
ngx_chat_metrics_break(ngx_chat_worker_t *worker, const char *reason)
{
    worker->metrics->slot->metrics.breaks[chat_metrics_break(reason)]++;
}


void
ngx_chat_metrics_record(ngx_chat_worker_t *worker, ngx_int_t streams,
                        ngx_int_t bytes, ngx_int_t followers)
{
    chat_metrics_t *m = &worker->metrics->slot->metrics;

    m->streams += (uint64_t) streams;
    m->bytes += (uint64_t) bytes;
    m->followers += (uint64_t) followers;
}


static size_t
dialect_of(ngx_chat_ctx_t *ctx)
{
    return chat_metrics_dialect(ctx->dialect ? ctx->dialect->name : NULL);
}


/* Fills the event: its request, connection, batch and results. */
static void
init_event(ngx_chat_ctx_t *ctx, ngx_uint_t what, chat_log_event_t *event)
{
    size_t                        i;
    const chat_question_t        *q = &ctx->barrier.q;
    const chat_question_member_t *member = q->members;

    ngx_memzero(event, sizeof(*event));
    event->n = ngx_atomic_fetch_add(&ctx->worker->metrics->sh->serial, 1) + 1;
    event->time = ngx_chat_now();
    event->what = (unsigned char) what;
    event->dialect = (unsigned char) dialect_of(ctx);
    event->pid = (uint32_t) ngx_pid;
    event->connection = ctx->request->connection->number;
    event->attempt = ctx->attempt.k ? ctx->attempt.k : ctx->barrier.decision.k;
    chat_short(&event->conversation, ctx->scope.conversation);
    event->hash = ngx_crc32_long((u_char *) ctx->scope.conversation.data,
                                 ctx->scope.conversation.len);

    if (q->dialect == NULL) {
        return;
    }

    event->has_batch = 1;
    ngx_memcpy(event->batch, q->key.name.bytes, sizeof(event->batch));

    for (i = 0; i < q->nmembers; i++, member++) {
        if (!q->chained && !member->settled) {
            continue;
        }

        if (event->ncarried++ < CHAT_STATUS_CARRIED) {
            chat_short(&event->carried[event->ncarried - 1], member->id);
        }
    }
}


/* 1 if the event is in timelines, but not among the last events. */
static ngx_uint_t
is_quiet(ngx_uint_t what)
{
    return what < CHAT_REASONS
               ? chat_reasons[what].verdict == CHAT_VERDICT_PASSED
               : what >= CHAT_WHAT_EXTERNAL;
}


/* The event is in timelines, and if not quiet among the last events. */
static void
add_event(ngx_chat_ctx_t *ctx, const chat_log_event_t *event)
{
    ngx_chat_metrics_slot_t  *slot = ctx->worker->metrics->slot;
    ngx_chat_metrics_event_t *entry;

    entry = &slot->timeline[slot->ntimed++ % CHAT_STATUS_TIMELINE];
    write_entry(&entry->seq, &entry->event, event, sizeof(*event));

    if (!is_quiet(event->what)) {
        entry = &slot->events[slot->nevents++ % CHAT_STATUS_EVENTS];
        write_entry(&entry->seq, &entry->event, event, sizeof(*event));
    }
}


/*
 * Adds an event: a chat_reason_e, which is also logged, or a chat_what_e.
 * detail is a format of ngx_sprintf(). Its arguments are numbers and constant
 * strings, never text of a client.
 */
static void
put_event(ngx_chat_ctx_t *ctx, ngx_uint_t what, const char *detail, ...)
{
    char             batch[17];
    u_char           id[NGX_CHAT_LOG_ID], *end;
    va_list          args;
    chat_log_event_t event;

    init_event(ctx, what, &event);

    va_start(args, detail);
    (void) ngx_vslprintf((u_char *) event.detail,
                         (u_char *) event.detail + sizeof(event.detail) - 1,
                         detail, args);
    va_end(args);

    if (what < CHAT_REASONS && !is_quiet(what)) {
        end = ngx_chat_log_id(id, ctx->scope.conversation);
        chat_hex(event.batch, sizeof(event.batch), batch);
        ngx_log_error(
            NGX_LOG_INFO, ctx->request->connection->log, 0,
            "chat: %s: %s, dialect %s, batch %s, conversation %*s%s%s",
            chat_verdict_names[chat_reasons[what].verdict],
            chat_reasons[what].word, ctx->dialect ? ctx->dialect->name : "-",
            event.has_batch ? batch : "-", (size_t) (end - id), id,
            event.detail[0] ? ", " : "", event.detail);
    }

    add_event(ctx, &event);
}


void
ngx_chat_metrics_external(ngx_chat_ctx_t             *ctx,
                          const chat_external_item_t *items, size_t n)
{
    size_t           i;
    chat_log_event_t event;

    init_event(ctx, CHAT_WHAT_EXTERNAL, &event);
    event.ncarried = (uint32_t) n;

    for (i = 0; i < n && i < CHAT_STATUS_CARRIED; i++) {
        chat_short(&event.carried[i], items[i].id);
    }

    add_event(ctx, &event);
}


/* The number of requests that wait has changed. */
static void
count_holds(ngx_chat_worker_t *worker)
{
    ngx_chat_ctx_t          *oldest;
    ngx_chat_metrics_slot_t *slot = worker->metrics->slot;

    slot->metrics.holds = worker->held;

    if (worker->held != 0) {
        oldest = ngx_queue_data(ngx_queue_head(&worker->holds), ngx_chat_ctx_t,
                                wait.queue);
        slot->oldest = oldest->wait.started;
    }
}


void
ngx_chat_metrics_held(ngx_chat_ctx_t *ctx)
{
    count_holds(ctx->worker);

    if (ctx->reason == CHAT_REASON_HELD_SIBLING) {
        put_event(ctx, ctx->reason, "attempt %uD is on",
                  ctx->barrier.decision.k);
    } else {
        put_event(ctx, ctx->reason, "%uz missing",
                  ctx->barrier.needs.nmissing);
    }
}


void
ngx_chat_metrics_unheld(ngx_chat_ctx_t *ctx)
{
    count_holds(ctx->worker);
    chat_metrics_time(&ctx->worker->metrics->slot->metrics, CHAT_TIMING_HOLD,
                      (uint64_t) ctx->wait.total * 1000);
}


void
ngx_chat_metrics_asked(ngx_chat_ctx_t *ctx)
{
    uint64_t now = ngx_chat_metrics_clock();

    ctx->barrier.asking += now - ctx->barrier.asked;
    chat_metrics_time(&ctx->worker->metrics->slot->metrics, CHAT_TIMING_STORE,
                      now - ctx->barrier.asked);
}


void
ngx_chat_metrics_merged(ngx_chat_ctx_t *ctx, size_t n)
{
    ngx_chat_metrics_count(ctx->worker, CHAT_COUNT_MERGED, n);
    put_event(ctx, CHAT_WHAT_MERGED, n == 1 ? "1 result" : "%uz results", n);
}


void
ngx_chat_metrics_request(ngx_chat_ctx_t *ctx)
{
    chat_metrics_t        *m = &ctx->worker->metrics->slot->metrics;
    chat_request_verdict_e verdict = chat_reasons[ctx->reason].verdict;

    if (ctx->counted) {
        return;
    }

    ctx->counted = 1;
    m->requests[dialect_of(ctx)][verdict]++;
    m->reasons[ctx->reason]++;
    m->counts[CHAT_COUNT_DRY_RUNS] += ctx->conf->dry_run;

    if (verdict == CHAT_VERDICT_HELD && ctx->state == NGX_CHAT_WAITING) {
        put_event(ctx, CHAT_WHAT_LEFT, "");
    }

    /* other refusals are replies of the module */
    if (verdict == CHAT_VERDICT_REFUSED && ctx->state == NGX_CHAT_GONE_ON) {
        m->counts[CHAT_COUNT_OVERSIZED]++;
    }
}


void
ngx_chat_metrics_turn(ngx_chat_ctx_t *ctx, chat_end_e end)
{
    const char                *reason = ctx->response.upstream_reason;
    chat_metrics_t            *m = &ctx->worker->metrics->slot->metrics;
    const chat_stream_info_t  *info;
    const chat_replay_count_t *count;

    if (ctx->response.stream != NULL) {
        info = chat_stream_info(ctx->response.stream);
        count = chat_stream_count(ctx->response.stream);
        reason = info->reason;

        m->counts[CHAT_COUNT_REPLAYS] += count->replays + count->results;
        m->counts[CHAT_COUNT_ID_REUSE] += count->reused;
        m->counts[CHAT_COUNT_OVERSIZED] += info->oversized + info->overflows;

        if (count->replays + count->results != 0) {
            put_event(ctx, CHAT_WHAT_DROPPED, "%uD replays",
                      count->replays + count->results);
        }
    }

    if (!ctx->response.answered || end == CHAT_END_NONE) {
        return;
    }

    m->turns[dialect_of(ctx)][end - 1]++;

    if (ctx->attempt.k != 0) {
        put_event(ctx, CHAT_WHAT_ENDED, "%s", chat_end_name(end));
    }

    if (end == CHAT_END_INTERRUPTED && (ctx->follow == NULL || reason != NULL))
    {
        ngx_chat_metrics_break(ctx->worker, reason);
        put_event(ctx, CHAT_WHAT_INTERRUPTED, "%s",
                  chat_break_names[chat_metrics_break(reason)]);
    }
}


void
ngx_chat_metrics_verdict(ngx_chat_ctx_t *ctx)
{
    chat_request_verdict_e verdict = chat_reasons[ctx->reason].verdict;

    if (verdict == CHAT_VERDICT_NONE
        || (verdict == CHAT_VERDICT_PASSED && ctx->barrier.q.dialect == NULL))
    {
        return;
    }

    if (verdict != CHAT_VERDICT_RELEASED) {
        put_event(ctx, ctx->reason,
                  ctx->conf->dry_run                ? "dry run"
                  : verdict == CHAT_VERDICT_HELD    ? "observed only"
                  : verdict == CHAT_VERDICT_BOUNCED ? "%uz missing"
                                                    : "",
                  ctx->barrier.needs.nmissing);
        return;
    }

    if (ctx->wait.found != 0) {
        chat_metrics_time(&ctx->worker->metrics->slot->metrics,
                          CHAT_TIMING_RELEASE,
                          ngx_chat_metrics_clock() - ctx->wait.found);
    }

    put_event(ctx, ctx->reason, "attempt %uD, %M ms", ctx->attempt.k,
              ctx->wait.total);
}


/* The entry of the request's batch, perhaps a free one; or NULL. */
static ngx_chat_metrics_batch_t *
find_entry(ngx_chat_ctx_t *ctx)
{
    ngx_int_t                 i;
    const u_char             *name = ctx->barrier.q.key.name.bytes;
    ngx_chat_metrics_batch_t *room = NULL, *entry;

    entry = ctx->worker->metrics->slot->batches;

    if (ctx->wait.shown != 0) {
        return &entry[ctx->wait.shown - 1];
    }

    for (i = 0; i < CHAT_STATUS_BATCHES; i++, entry++) {
        if (entry->batch.held == 0) {
            room = room ? room : entry;
        } else if (ngx_memcmp(entry->batch.name, name,
                              sizeof(entry->batch.name))
                   == 0) {
            return entry;
        }
    }

    return room;
}


/* Adds a member of the batch. */
static void
put_member(chat_status_batch_t *held, const chat_member_t *member)
{
    chat_held_member_t *out = &held->members[held->nmembers];

    if (held->nmembers++ >= CHAT_STATUS_MEMBERS) {
        return;
    }

    chat_short(&out->id, member->id);
    out->approval = member->kind == CHAT_KIND_APPROVAL;
    out->state = chat_outcome_is_final(member->outcome) ? CHAT_MEMBER_RESULT
                 : chat_approval_is_decided(member->approval)
                     ? CHAT_MEMBER_APPROVAL
                     : CHAT_MEMBER_MISSING;
}


void
ngx_chat_metrics_list(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
    size_t                    i;
    chat_status_batch_t       held;
    const char               *dialect = ctx->dialect->name;
    ngx_chat_metrics_batch_t *entry = find_entry(ctx);

    if (entry == NULL) {
        return;
    }

    held = entry->batch;

    if (ctx->wait.shown == 0) {
        ctx->wait.shown = entry - ctx->worker->metrics->slot->batches + 1;
        ngx_memcpy(held.name, ctx->barrier.q.key.name.bytes,
                   sizeof(held.name));
        held.held++;
    }

    held.dialect = (unsigned char) chat_metrics_dialect(dialect);
    chat_short(&held.conversation, ctx->scope.conversation);
    held.state =
        ctx->barrier.decision.verdict == CHAT_GATE_WAIT   ? CHAT_HELD_STREAMING
        : batch->open && !batch->sealed && !batch->broken ? CHAT_HELD_OPEN
                                                          : CHAT_HELD_SEALED;
    held.missing = (uint32_t) ctx->barrier.decision.missing;
    held.attempt = batch->last.k;
    held.since = batch->since;
    held.looked = ngx_chat_now();
    held.nmembers = 0;

    for (i = 0; i < batch->nmembers; i++) {
        if (batch->members[i].is_call
            && batch->members[i].kind != CHAT_KIND_PROVIDER) {
            put_member(&held, &batch->members[i]);
        }
    }

    write_entry(&entry->seq, &entry->batch, &held, sizeof(held));
}


void
ngx_chat_metrics_unlist(ngx_chat_ctx_t *ctx)
{
    chat_status_batch_t       held;
    ngx_chat_metrics_batch_t *entry;

    if (ctx->wait.shown != 0) {
        entry = &ctx->worker->metrics->slot->batches[ctx->wait.shown - 1];
        ctx->wait.shown = 0;
        held = entry->batch;
        held.held--;
        write_entry(&entry->seq, &entry->batch, &held, sizeof(held));
    }
}


void
ngx_chat_metrics_relist(ngx_chat_worker_t *worker,
                        void (*look)(ngx_chat_ctx_t *ctx))
{
    ngx_uint_t      i, room = 0;
    ngx_queue_t    *q;
    ngx_chat_ctx_t *ctx;

    if (worker->held == 0) {
        return;
    }

    for (i = 0; i < CHAT_STATUS_BATCHES; i++) {
        room += worker->metrics->slot->batches[i].batch.held == 0;
    }

    for (q = ngx_queue_head(&worker->holds);
         q != ngx_queue_sentinel(&worker->holds) && room > 0;
         q = ngx_queue_next(q))
    {
        ctx = ngx_queue_data(q, ngx_chat_ctx_t, wait.queue);

        if (ctx->wait.shown == 0 && ctx->barrier.group != NULL) {
            look(ctx);
            room--;
        }
    }
}


static int
compare_events(const void *a, const void *b)
{
    const chat_log_event_t *one = a, *two = b;

    return one->n < two->n ? -1 : one->n > two->n;
}


static int
compare_names(const void *a, const void *b)
{
    const chat_status_batch_t *one = a, *two = b;

    return ngx_memcmp(one->name, two->name, sizeof(one->name));
}


static int
compare_since(const void *a, const void *b)
{
    const chat_status_batch_t *one = a, *two = b;

    return one->since < two->since ? -1 : one->since > two->since;
}


/* Adds up the counts of a slot. */
static void
add_slot(const ngx_chat_metrics_slot_t *slot, ngx_uint_t running,
         chat_status_t *status)
{
    ngx_msec_int_t age;
    chat_metrics_t one = slot->metrics;

    if (!running) {
        ngx_memzero((u_char *) &one + NGX_CHAT_METRICS_NOW,
                    sizeof(one) - NGX_CHAT_METRICS_NOW);
    }

    chat_metrics_add(&status->metrics, &one);

    if (one.holds != 0) {
        age = (ngx_msec_int_t) (ngx_current_msec - slot->oldest);
        status->oldest = ngx_max(status->oldest, (uint64_t) ngx_max(age, 0));
    }
}


static ngx_uint_t
is_wanted(const chat_log_event_t          *event,
          const ngx_chat_metrics_wanted_t *wanted)
{
    return wanted == NULL ? 1
           : wanted->by_batch
               ? event->has_batch
                     && ngx_memcmp(event->batch, wanted->batch,
                                   sizeof(event->batch))
                            == 0
               : event->hash == wanted->hash
                     && ngx_memcmp(&event->conversation, &wanted->conversation,
                                   sizeof(chat_short_t))
                            == 0;
}


/* Copies the events of a slot's table that are wanted (NULL: all). */
static void
copy_events(const ngx_chat_metrics_event_t *table, size_t n,
            const ngx_chat_metrics_wanted_t *wanted, chat_status_t *status)
{
    ngx_chat_metrics_event_t entry;

    for (; n > 0; n--, table++) {
        if (table->event.n != 0
            && copy_entry(&table->seq, table, &entry, sizeof(entry))
            && is_wanted(&entry.event, wanted))
        {
            status->events[status->nevents++] = entry.event;
        }
    }
}


/* Sorts the events, and leaves the newest ones. */
static void
sort_events(chat_status_t *status, size_t most)
{
    ngx_qsort(status->events, status->nevents, sizeof(chat_log_event_t),
              compare_events);

    if (status->nevents > most) {
        status->events += status->nevents - most;
        status->nevents = most;
    }
}


/* Copies the batches of a slot. */
static void
copy_batches(const ngx_chat_metrics_slot_t *slot, chat_status_t *status)
{
    ngx_uint_t               i;
    ngx_chat_metrics_batch_t batch;

    for (i = 0; i < CHAT_STATUS_BATCHES; i++) {
        if (slot->batches[i].batch.held != 0
            && copy_entry(&slot->batches[i].seq, &slot->batches[i], &batch,
                          sizeof(batch))
            && batch.batch.held != 0)
        {
            status->batches[status->nbatches++] = batch.batch;
        }
    }
}


/* Makes one entry of those that several workers have of a batch. */
static void
merge_batches(chat_status_t *status)
{
    size_t               i, n = 0;
    uint32_t             held;
    chat_status_batch_t *one, *batch = status->batches;

    ngx_qsort(batch, status->nbatches, sizeof(chat_status_batch_t),
              compare_names);

    for (i = 0; i < status->nbatches; i++) {
        one = &status->batches[i];

        if (n == 0 || compare_names(batch, one) != 0) {
            batch = &status->batches[n++];
            *batch = *one;
            continue;
        }

        held = batch->held + one->held;
        if (one->looked > batch->looked) {
            *batch = *one;
        }
        batch->held = held;
    }

    status->nbatches = n;
    ngx_qsort(status->batches, n, sizeof(chat_status_batch_t), compare_since);
}


uint64_t
ngx_chat_metrics_holds(ngx_chat_metrics_t *metrics)
{
    uint64_t   holds = 0;
    ngx_uint_t i;

    for (i = 0; i < metrics->sh->used; i++) {
        holds +=
            is_running(metrics, i) ? metrics->sh->slots[i].metrics.holds : 0;
    }

    return holds;
}


ngx_int_t
ngx_chat_metrics_timeline(ngx_chat_metrics_t *metrics, ngx_pool_t *pool,
                          const ngx_chat_metrics_wanted_t *wanted,
                          chat_status_t                   *status)
{
    size_t     i;
    ngx_uint_t used = metrics->sh->used; /* it may increase */

    status->events = ngx_palloc(pool, used * CHAT_STATUS_TIMELINE
                                          * sizeof(chat_log_event_t));
    if (status->events == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < used; i++) {
        copy_events(metrics->sh->slots[i].timeline, CHAT_STATUS_TIMELINE,
                    wanted, status);
    }

    sort_events(status, CHAT_STATUS_TIMELINE);
    return NGX_OK;
}


ngx_int_t
ngx_chat_metrics_read(ngx_chat_metrics_t *metrics, ngx_pool_t *pool,
                      ngx_uint_t tables, chat_status_t *status)
{
    size_t                         i;
    ngx_uint_t                     running, used = metrics->sh->used;
    const ngx_chat_metrics_slot_t *slot = metrics->sh->slots;

    if (tables) {
        status->batches = ngx_palloc(pool, used * CHAT_STATUS_BATCHES
                                               * sizeof(chat_status_batch_t));
        status->events = ngx_palloc(pool, used * CHAT_STATUS_EVENTS
                                              * sizeof(chat_log_event_t));
        if (status->batches == NULL || status->events == NULL) {
            return NGX_ERROR;
        }
    }

    for (i = 0; i < used; i++, slot++) {
        running = is_running(metrics, i);
        add_slot(slot, running, status);

        if (tables) {
            copy_events(slot->events, CHAT_STATUS_EVENTS, NULL, status);
        }

        if (tables && running) {
            copy_batches(slot, status);
        }
    }

    if (!tables) {
        return NGX_OK;
    }

    sort_events(status, CHAT_STATUS_EVENTS);
    merge_batches(status);

    if (status->nbatches > CHAT_STATUS_BATCHES) {
        status->batches += status->nbatches - CHAT_STATUS_BATCHES;
        status->nbatches = CHAT_STATUS_BATCHES;
    }

    status->more = status->metrics.holds;

    for (i = 0; i < status->nbatches; i++) {
        status->more -= ngx_min(status->more, status->batches[i].held);
    }

    return NGX_OK;
}
