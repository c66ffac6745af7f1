/*
 * ngx_chat_metrics_list.c: the batches that requests wait for, and the last
 * events, as tables in the zone.
 *
 * One writer, many readers, no lock: a number beside each entry is odd while
 * it is written, and a reader that meets such a one, or sees the number
 * change, tries again a few times and then goes without it.
 * Must not know: how they are shown.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "metrics/ngx_chat_metrics.h"

#define NGX_CHAT_METRICS_TRIES 4


static void
ngx_chat_metrics_begin(ngx_atomic_uint_t *seq)
{
    *(volatile ngx_atomic_uint_t *) seq += 1;
    ngx_memory_barrier();
}


static void
ngx_chat_metrics_end(ngx_atomic_uint_t *seq)
{
    ngx_memory_barrier();
    *(volatile ngx_atomic_uint_t *) seq += 1;
}


/* 1 if out is one that was written whole. */
static ngx_uint_t
ngx_chat_metrics_copy(const ngx_atomic_uint_t *seq, const void *from,
                      void *out, size_t size)
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


void
ngx_chat_metrics_put(ngx_chat_metrics_t     *metrics,
                     const chat_happening_t *event)
{
    ngx_chat_metrics_event_t *entry;

    entry =
        &metrics->slot->events[metrics->slot->nevents++ % CHAT_STATUS_EVENTS];

    ngx_chat_metrics_begin(&entry->seq);
    entry->event = *event;
    ngx_chat_metrics_end(&entry->seq);
}


/* Puts it among the events, which are in order; the oldest makes room. */
static void
ngx_chat_metrics_sort_in(chat_status_t *status, const chat_happening_t *event)
{
    size_t            i, k;
    chat_happening_t *events = status->events;

    for (i = status->nevents; i > 0 && events[i - 1].n > event->n; i--) {
        /* void */
    }

    if (status->nevents < CHAT_STATUS_EVENTS) {
        for (k = status->nevents++; k > i; k--) {
            events[k] = events[k - 1];
        }
        events[i] = *event;
        return;
    }

    if (i == 0) {
        return;
    }

    for (k = 0; k + 1 < i; k++) {
        events[k] = events[k + 1];
    }
    events[i - 1] = *event;
}


void
ngx_chat_metrics_events(ngx_chat_metrics_t *metrics, chat_status_t *status)
{
    ngx_uint_t                i, k;
    chat_happening_t          event;
    ngx_chat_metrics_event_t *entry;

    status->nevents = 0;

    for (i = 0; i < metrics->sh->used; i++) {
        for (k = 0; k < CHAT_STATUS_EVENTS; k++) {
            entry = &metrics->sh->slots[i].events[k];

            if (ngx_chat_metrics_copy(&entry->seq, &entry->event, &event,
                                      sizeof(event))
                && event.n != 0)
            {
                ngx_chat_metrics_sort_in(status, &event);
            }
        }
    }
}


static uint64_t
ngx_chat_metrics_prefix(ngx_chat_ctx_t *ctx)
{
    uint64_t prefix;

    ngx_memcpy(&prefix, ctx->q.key.name.bytes, sizeof(prefix));
    return prefix ? prefix : 1;
}


/* The entry of the request's batch, perhaps a new one; or NULL. */
static ngx_chat_metrics_batch_t *
ngx_chat_metrics_entry(ngx_chat_ctx_t *ctx)
{
    uint64_t                  prefix = ngx_chat_metrics_prefix(ctx);
    ngx_int_t                 i, room = -1;
    ngx_chat_metrics_t       *metrics = ctx->main->metrics;
    ngx_chat_metrics_batch_t *entry;

    if (ctx->listed != 0) {
        return &metrics->slot->batches[ctx->listed - 1];
    }

    for (i = CHAT_STATUS_BATCHES - 1; i >= 0 && metrics->names[i] != prefix;
         i--) {
        room = metrics->names[i] == 0 ? i : room;
    }

    i = i >= 0 ? i : room;
    if (i == -1) {
        return NULL;
    }

    entry = &metrics->slot->batches[i];
    ctx->listed = (ngx_uint_t) i + 1;

    if (metrics->names[i] == 0) {
        metrics->names[i] = prefix;
        entry->batch.held = 0;
    }

    ngx_chat_metrics_begin(&entry->seq);
    entry->used = 1;
    entry->batch.held++;
    ngx_chat_metrics_end(&entry->seq);
    return entry;
}


/* A member of the batch as it is shown. */
static void
ngx_chat_metrics_member(chat_held_t *held, const chat_member_t *member)
{
    chat_held_member_t *out = &held->members[held->nmembers];

    if (held->nmembers++ >= CHAT_STATUS_MEMBERS) {
        return;
    }

    chat_short(&out->id, member->id);
    out->approval = member->kind == CHAT_KIND_APPROVAL;
    out->state = member->outcome == CHAT_OUTCOME_OK
                         || member->outcome == CHAT_OUTCOME_ERROR
                         || member->outcome == CHAT_OUTCOME_DENIED
                     ? CHAT_MEMBER_RESULT
                 : member->approval == CHAT_APPROVAL_GRANTED
                         || member->approval == CHAT_APPROVAL_REFUSED
                     ? CHAT_MEMBER_APPROVAL
                     : CHAT_MEMBER_MISSING;
}


void
ngx_chat_metrics_list(ngx_chat_ctx_t *ctx, const chat_batch_t *batch)
{
    size_t                    i;
    chat_held_t              *held;
    const char               *dialect = ctx->dialect->name;
    ngx_chat_metrics_batch_t *entry;

    entry = ngx_chat_metrics_entry(ctx);

    if ((entry == NULL) != ctx->unlisted) {
        ctx->unlisted = entry == NULL;
        ctx->main->metrics->slot->unlisted += ctx->unlisted ? 1 : -1;
    }

    if (entry == NULL) {
        return;
    }

    held = &entry->batch;
    ngx_chat_metrics_begin(&entry->seq);

    ngx_memcpy(held->name, ctx->q.key.name.bytes, sizeof(held->name));
    held->dialect = (unsigned char) chat_metrics_dialect(dialect);
    chat_short(&held->conversation, ctx->scope.conversation);
    held->state = ctx->decision.verdict == CHAT_GATE_WAIT ? CHAT_HELD_STREAMING
                  : batch->open && !batch->sealed && !batch->broken
                      ? CHAT_HELD_OPEN
                      : CHAT_HELD_SEALED;
    held->missing = (uint32_t) ctx->decision.missing;
    held->attempt = batch->last.k;
    held->since = batch->since;
    held->looked = ngx_chat_now();
    held->nmembers = 0;

    for (i = 0; i < batch->nmembers; i++) {
        if (batch->members[i].is_call
            && batch->members[i].kind != CHAT_KIND_PROVIDER) {
            ngx_chat_metrics_member(held, &batch->members[i]);
        }
    }

    ngx_chat_metrics_end(&entry->seq);
}


void
ngx_chat_metrics_unlist(ngx_chat_ctx_t *ctx)
{
    ngx_chat_metrics_t       *metrics = ctx->main->metrics;
    ngx_chat_metrics_batch_t *entry;

    if (ctx->unlisted) {
        ctx->unlisted = 0;
        metrics->slot->unlisted--;
    }

    if (ctx->listed == 0) {
        return;
    }

    entry = &metrics->slot->batches[ctx->listed - 1];

    ngx_chat_metrics_begin(&entry->seq);

    if (--entry->batch.held == 0) {
        entry->used = 0;
        metrics->names[ctx->listed - 1] = 0;
    }

    ngx_chat_metrics_end(&entry->seq);
    ctx->listed = 0;
}


void
ngx_chat_metrics_relist(ngx_chat_main_conf_t *mcf)
{
    ngx_uint_t          i, room = 0;
    ngx_queue_t        *q;
    ngx_chat_ctx_t     *ctx;
    ngx_chat_metrics_t *metrics = mcf->metrics;

    if (metrics->slot->unlisted == 0) {
        return;
    }

    for (i = 0; i < CHAT_STATUS_BATCHES; i++) {
        room += metrics->names[i] == 0;
    }

    for (q = ngx_queue_head(&mcf->holds);
         q != ngx_queue_sentinel(&mcf->holds) && room > 0;
         q = ngx_queue_next(q))
    {
        ctx = ngx_queue_data(q, ngx_chat_ctx_t, queue);

        /* what it finds is listed when the store has answered */
        if (ctx->unlisted && ctx->group != NULL) {
            ngx_chat_watch_look(ctx);
            room--;
        }
    }
}


/* There are too many: the youngest is not shown. */
static void
ngx_chat_metrics_displace(chat_status_t *status, const chat_held_t *one)
{
    size_t       i;
    chat_held_t *youngest = &status->batches[0];

    for (i = 1; i < status->nbatches; i++) {
        if (status->batches[i].since > youngest->since) {
            youngest = &status->batches[i];
        }
    }

    if (one->since >= youngest->since) {
        status->more += one->held;
        return;
    }

    status->more += youngest->held;
    *youngest = *one;
}


/* One worker's view of a batch into what all of them see. */
static void
ngx_chat_metrics_merge(chat_status_t *status, const chat_held_t *one)
{
    size_t       i;
    uint32_t     held;
    chat_held_t *batch;

    for (i = 0; i < status->nbatches; i++) {
        batch = &status->batches[i];

        if (ngx_memcmp(batch->name, one->name, sizeof(one->name)) == 0) {
            held = batch->held + one->held;
            if (one->looked > batch->looked) {
                *batch = *one;
            }
            batch->held = held;
            return;
        }
    }

    if (status->nbatches == CHAT_STATUS_BATCHES) {
        ngx_chat_metrics_displace(status, one);
        return;
    }

    status->batches[status->nbatches++] = *one;
}


static int
ngx_chat_metrics_older(const void *a, const void *b)
{
    const chat_held_t *one = a, *two = b;

    return one->since < two->since ? -1 : one->since > two->since;
}


void
ngx_chat_metrics_batches(ngx_chat_metrics_t *metrics, chat_status_t *status)
{
    ngx_uint_t                i, k;
    ngx_chat_metrics_slot_t  *slot;
    ngx_chat_metrics_batch_t *entry, one;

    status->nbatches = 0;
    status->more = 0;

    for (i = 0; i < metrics->sh->used; i++) {
        if (!ngx_chat_metrics_runs(metrics, i)) {
            continue;
        }

        slot = &metrics->sh->slots[i];
        status->more += slot->unlisted;

        for (k = 0; k < CHAT_STATUS_BATCHES; k++) {
            entry = &slot->batches[k];

            if (entry->used
                && ngx_chat_metrics_copy(&entry->seq, entry, &one, sizeof(one))
                && one.used)
            {
                ngx_chat_metrics_merge(status, &one.batch);
            }
        }
    }

    ngx_qsort(status->batches, status->nbatches, sizeof(chat_held_t),
              ngx_chat_metrics_older);
}
