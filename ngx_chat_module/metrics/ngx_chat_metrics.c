/*
 * ngx_chat_metrics.c: see ngx_chat_metrics.h.
 *
 * A slot is zeroed when it is first taken, and never again: the next worker
 * counts on from there. Each entry of a table begins with its number n, which
 * is 0 while the entry is written. A reader that sees the number change tries
 * again a few times and then skips the entry.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "metrics/ngx_chat_metrics.h"

#include <time.h>

#define NGX_CHAT_METRICS_ZONE                                               \
    (sizeof(ngx_chat_metrics_zone_t) + sizeof(ngx_chat_metrics_zone_t) / 32 \
     + 32 * (size_t) ngx_pagesize)

#define NGX_CHAT_METRICS_TRIES 4

/* Of a worker that found no slot: its counts are lost. */
static ngx_chat_metrics_slot_t nowhere;


/* Only this worker writes the entry. A full barrier would wait for memory. */
static void
write_entry(void *entry, const void *from, size_t size)
{
    volatile uint64_t *n = entry;

    *n = 0;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    ngx_memcpy((u_char *) entry + sizeof(*n),
               (const u_char *) from + sizeof(*n), size - sizeof(*n));
    __atomic_thread_fence(__ATOMIC_RELEASE);
    *n = *(const uint64_t *) from;
}


/* Copies an entry; 0: it is free, or being written. */
static ngx_uint_t
copy_entry(const void *entry, void *out, size_t size)
{
    uint64_t                 before;
    ngx_uint_t               i;
    const volatile uint64_t *n = entry;

    for (i = 0; i < NGX_CHAT_METRICS_TRIES; i++) {
        before = *n;
        ngx_memory_barrier();

        if (before != 0) {
            ngx_memcpy(out, entry, size);
            ngx_memory_barrier();
            if (*n == before) {
                return 1;
            }
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

    metrics->sh =
        ngx_slab_alloc(metrics->shpool, sizeof(ngx_chat_metrics_zone_t));
    if (metrics->sh == NULL) {
        return NGX_ERROR;
    }

    /* the slots, most of them never used, are memory only when taken */
    ngx_memzero(metrics->sh, offsetof(ngx_chat_metrics_zone_t, slots));
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
is_running(const ngx_chat_metrics_slot_t *slot)
{
    ngx_pid_t pid = slot->pid;

    return pid != 0 && (kill(pid, 0) == 0 || errno != ESRCH);
}


/* With the mutex held: a slot without a living worker, or NULL. */
static ngx_chat_metrics_slot_t *
take_slot(ngx_chat_metrics_zone_t *sh)
{
    ngx_uint_t i;

    for (i = 0; i < sh->used; i++) {
        if (sh->slots[i].pid == ngx_pid || !is_running(&sh->slots[i])) {
            return &sh->slots[i];
        }
    }

    if (i == NGX_CHAT_METRICS_SLOTS) {
        return NULL;
    }

    ngx_memzero(&sh->slots[i], sizeof(ngx_chat_metrics_slot_t));
    sh->used++;
    return &sh->slots[i];
}


void
ngx_chat_metrics_join(ngx_chat_metrics_t *metrics, ngx_log_t *log)
{
    ngx_chat_metrics_zone_t *sh = metrics->sh;
    ngx_chat_metrics_slot_t *slot;

    ngx_shmtx_lock(&metrics->shpool->mutex);

    if (sh->name[0] == 0) {
        (void) ngx_snprintf(
            sh->name, sizeof(sh->name) - 1, "%*s-%08xD",
            ngx_min(ngx_cycle->hostname.len, sizeof(sh->name) - 10),
            ngx_cycle->hostname.data, (uint32_t) ngx_random());
    }

    slot = take_slot(sh);

    if (slot == NULL) {
        slot = &nowhere;
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "chat: more than %d workers, this one is not counted",
                      NGX_CHAT_METRICS_SLOTS);
    }

    /* what was current of the last worker in this slot */
    ngx_memzero(&slot->metrics.now, sizeof(slot->metrics.now));
    ngx_memzero(slot->batches, sizeof(slot->batches));
    slot->metrics.now.workers = 1;
    slot->pid = ngx_pid;
    metrics->slot = slot;
    ngx_shmtx_unlock(&metrics->shpool->mutex);
}


void
ngx_chat_metrics_leave(ngx_chat_metrics_t *metrics)
{
    if (metrics->slot != NULL) {
        metrics->slot->pid = 0;
    }
}


uint64_t
ngx_chat_metrics_clock(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}


/* The number of a new entry, in the order of the node. */
static uint64_t
next_number(ngx_chat_ctx_t *ctx)
{
    return ngx_atomic_fetch_add(&ctx->worker->metrics->sh->serial, 1) + 1;
}


/* Fills the event: its request, connection, batch and results. */
static void
init_event(ngx_chat_ctx_t *ctx, ngx_uint_t what, chat_log_event_t *event)
{
    size_t                        i;
    const chat_question_t        *q = &ctx->barrier.q;
    const chat_question_member_t *member = q->members;

    ngx_memzero(event, sizeof(*event));
    event->n = next_number(ctx);
    event->time = ngx_chat_now();
    event->what = (unsigned char) what;
    event->dialect = (unsigned char) chat_metrics_dialect(ctx->dialect);
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
    ngx_chat_metrics_slot_t *slot = ctx->worker->metrics->slot;

    write_entry(&slot->timeline[slot->ntimed++ % CHAT_STATUS_TIMELINE], event,
                sizeof(*event));

    if (!is_quiet(event->what)) {
        write_entry(&slot->events[slot->nevents++ % CHAT_STATUS_EVENTS], event,
                    sizeof(*event));
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

    slot->metrics.now.holds = worker->held;

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
    chat_metrics_time(ngx_chat_metrics_of(ctx->worker), CHAT_TIMING_HOLD,
                      (uint64_t) ctx->wait.total * 1000);
}


void
ngx_chat_metrics_asked(ngx_chat_ctx_t *ctx)
{
    uint64_t now = ngx_chat_metrics_clock();

    ctx->barrier.asking += now - ctx->barrier.asked;
    chat_metrics_time(ngx_chat_metrics_of(ctx->worker), CHAT_TIMING_STORE,
                      now - ctx->barrier.asked);
}


void
ngx_chat_metrics_merged(ngx_chat_ctx_t *ctx, size_t n)
{
    ngx_chat_metrics_of(ctx->worker)->counts[CHAT_COUNT_MERGED] += n;
    put_event(ctx, CHAT_WHAT_MERGED, n == 1 ? "1 result" : "%uz results", n);
}


void
ngx_chat_metrics_request(ngx_chat_ctx_t *ctx)
{
    chat_metrics_t        *m = ngx_chat_metrics_of(ctx->worker);
    chat_request_verdict_e verdict = chat_reasons[ctx->reason].verdict;

    if (ctx->counted) {
        return;
    }

    ctx->counted = 1;
    m->requests[chat_metrics_dialect(ctx->dialect)][verdict]++;
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
    chat_break_e               how;
    chat_metrics_t            *m = ngx_chat_metrics_of(ctx->worker);
    const chat_stream_info_t  *info;
    const chat_replay_count_t *count;

    if (ctx->response.stream != NULL) {
        info = chat_stream_info(ctx->response.stream);
        count = &info->replay;
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

    m->turns[chat_metrics_dialect(ctx->dialect)][end - 1]++;

    if (ctx->attempt.k != 0) {
        put_event(ctx, CHAT_WHAT_ENDED, "%s", chat_end_names[end]);
    }

    if (end == CHAT_END_INTERRUPTED && (ctx->follow == NULL || reason != NULL))
    {
        how = chat_metrics_break(reason);
        m->breaks[how]++;
        put_event(ctx, CHAT_WHAT_INTERRUPTED, "%s", chat_break_names[how]);
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
        chat_metrics_time(ngx_chat_metrics_of(ctx->worker),
                          CHAT_TIMING_RELEASE,
                          ngx_chat_metrics_clock() - ctx->wait.found);
    }

    put_event(ctx, ctx->reason, "attempt %uD, %M ms", ctx->attempt.k,
              ctx->wait.total);
}


/* What the store says of a member. */
static void
put_member(chat_held_member_t *out, const chat_member_t *member)
{
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
    size_t               i;
    const chat_member_t *member = batch->members;
    chat_status_batch_t  held, *table = ctx->worker->metrics->slot->batches;

    if (ctx->wait.shown == 0) {
        for (i = 0; i < CHAT_STATUS_BATCHES && table[i].n != 0; i++) {
            /* void */
        }

        if (i == CHAT_STATUS_BATCHES) {
            return;
        }

        ctx->wait.shown = i + 1;
    }

    ngx_memzero(&held, sizeof(held));
    held.n = next_number(ctx);
    ngx_memcpy(held.name, ctx->barrier.q.key.name.bytes, sizeof(held.name));
    held.held = 1;
    held.dialect = (unsigned char) chat_metrics_dialect(ctx->dialect);
    chat_short(&held.conversation, ctx->scope.conversation);
    held.state =
        ctx->barrier.decision.verdict == CHAT_GATE_WAIT   ? CHAT_HELD_STREAMING
        : batch->open && !batch->sealed && !batch->broken ? CHAT_HELD_OPEN
                                                          : CHAT_HELD_SEALED;
    held.missing = (uint32_t) ctx->barrier.decision.missing;
    held.attempt = batch->last.k;
    held.since = batch->since;

    for (i = 0; i < batch->nmembers; i++, member++) {
        if (!member->is_call || member->kind == CHAT_KIND_PROVIDER) {
            continue;
        }

        if (held.nmembers++ < CHAT_STATUS_MEMBERS) {
            put_member(&held.members[held.nmembers - 1], member);
        }
    }

    write_entry(&table[ctx->wait.shown - 1], &held, sizeof(held));
}


void
ngx_chat_metrics_unlist(ngx_chat_ctx_t *ctx)
{
    if (ctx->wait.shown != 0) {
        ctx->worker->metrics->slot->batches[ctx->wait.shown - 1].n = 0;
        ctx->wait.shown = 0;
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
        room += worker->metrics->slot->batches[i].n == 0;
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


void
ngx_chat_metrics_read(ngx_chat_metrics_t *metrics, chat_status_t *status)
{
    ngx_uint_t                     i, running;
    ngx_msec_int_t                 age;
    const ngx_chat_metrics_slot_t *slot = metrics->sh->slots;

    for (i = 0; i < metrics->sh->used; i++, slot++) {
        running = is_running(slot);
        chat_metrics_add(&status->metrics, &slot->metrics, (int) running);

        if (running && slot->metrics.now.holds != 0) {
            age = (ngx_msec_int_t) (ngx_current_msec - slot->oldest);
            status->oldest =
                ngx_max(status->oldest, (uint64_t) ngx_max(age, 0));
        }
    }
}


/*
 * Copies the entries that are used of a table, at this offset of all slots or
 * of those of running workers, and sets *n. NULL: no memory.
 */
static void *
read_table(ngx_chat_metrics_t *metrics, ngx_pool_t *pool, size_t table,
           size_t most, size_t size, ngx_uint_t all, size_t *n)
{
    size_t                         i, k;
    u_char                        *out, *p;
    ngx_uint_t                     used = metrics->sh->used; /* it may grow */
    const ngx_chat_metrics_slot_t *slot = metrics->sh->slots;

    out = p = ngx_palloc(pool, used * most * size);

    for (i = 0; out != NULL && i < used; i++, slot++) {
        if (!all && !is_running(slot)) {
            continue;
        }

        for (k = 0; k < most; k++) {
            p += copy_entry((const u_char *) slot + table + k * size, p, size)
                 * size;
        }
    }

    *n = (size_t) (p - out) / size;
    return out;
}


/* Of entries, or of numbers: an entry begins with its number. */
static int
compare_numbers(const void *a, const void *b)
{
    const uint64_t *one = a, *two = b;

    return *one < *two ? -1 : *one > *two;
}


/* The oldest batch first; the entries of one batch have one age, and the
 * newest of them comes last. */
static int
compare_batches(const void *a, const void *b)
{
    const chat_status_batch_t *one = a, *two = b;
    int                        rc = compare_numbers(&one->since, &two->since);

    rc = rc ? rc : ngx_memcmp(one->name, two->name, sizeof(one->name));
    return rc ? rc : compare_numbers(one, two);
}


static ngx_uint_t
is_like(const chat_log_event_t *event, const chat_log_event_t *like)
{
    return like == NULL ? 1
           : like->has_batch
               ? event->has_batch
                     && ngx_memcmp(event->batch, like->batch,
                                   sizeof(like->batch))
                            == 0
               : event->hash == like->hash
                     && ngx_memcmp(&event->conversation, &like->conversation,
                                   sizeof(like->conversation))
                            == 0;
}


ngx_int_t
ngx_chat_metrics_events(ngx_chat_metrics_t *metrics, ngx_pool_t *pool,
                        const chat_log_event_t *like, chat_status_t *status)
{
    size_t            i, n, more, most = CHAT_STATUS_EVENTS;
    size_t            table = offsetof(ngx_chat_metrics_slot_t, events);
    chat_log_event_t *events;

    if (like != NULL) {
        most = CHAT_STATUS_TIMELINE;
        table = offsetof(ngx_chat_metrics_slot_t, timeline);
    }

    events = read_table(metrics, pool, table, most, sizeof(*events), 1, &n);
    if (events == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < n; i++) {
        if (is_like(&events[i], like)) {
            events[status->nevents++] = events[i];
        }
    }

    ngx_qsort(events, status->nevents, sizeof(*events), compare_numbers);
    more = status->nevents - ngx_min(status->nevents, most);
    status->events = events + more;
    status->nevents -= more;
    return NGX_OK;
}


ngx_int_t
ngx_chat_metrics_batches(ngx_chat_metrics_t *metrics, ngx_pool_t *pool,
                         chat_status_t *status)
{
    size_t               i, n, more;
    chat_status_batch_t *batches, *one = NULL;

    batches =
        read_table(metrics, pool, offsetof(ngx_chat_metrics_slot_t, batches),
                   CHAT_STATUS_BATCHES, sizeof(*batches), 0, &n);
    if (batches == NULL) {
        return NGX_ERROR;
    }

    ngx_qsort(batches, n, sizeof(*batches), compare_batches);

    for (i = 0; i < n; i++) {
        if (one != NULL
            && ngx_memcmp(one->name, batches[i].name, sizeof(one->name)) == 0)
        {
            batches[i].held += one->held;
        } else {
            one = &batches[status->nbatches++];
        }

        *one = batches[i];
    }

    more = status->nbatches - ngx_min(status->nbatches, CHAT_STATUS_BATCHES);
    status->batches = batches + more;
    status->nbatches -= more;
    status->more = status->metrics.now.holds;

    for (i = 0; i < status->nbatches; i++) {
        status->more -= ngx_min(status->more, status->batches[i].held);
    }

    return NGX_OK;
}
