/*
 * chat_track.c: follows a stream for what the store is to know of it.
 *
 * Says which step an event is of; chat_track_step writes it down.
 * Promises: a result of a call that an earlier step left open goes to that
 * step's batch, one of a call that nobody asked for goes nowhere.
 * Must not know: bytes, stores, time.
 */

#include "stream/chat_track.h"


/* Finds the calls of the request's current turn by their ids. */
static chat_rc_e
chat_track_index(chat_track_t *track)
{
    size_t                i;
    chat_table_entry_t   *entry;
    const chat_request_t *rq = track->conf->request;

    chat_table_init(&track->earlier, track->arena);

    for (i = rq ? rq->turn : 0; rq != NULL && i < rq->ncalls; i++) {
        entry = chat_table_put(&track->earlier, rq->calls[i].id);
        if (entry == NULL) {
            return CHAT_ERROR;
        }

        entry->number = i + 1;
    }

    return CHAT_OK;
}


chat_rc_e
chat_track_init(chat_track_t *track, const chat_stream_conf_t *conf,
                chat_stream_info_t *info, chat_arena_t *arena)
{
    memset(track, 0, sizeof(*track));
    track->conf = conf;
    track->info = info;
    track->arena = arena;

    track->step.conf = conf;
    track->step.outbox = &track->outbox;
    track->step.arena = chat_arena_create(0);

    return track->step.arena != NULL && chat_track_index(track) == CHAT_OK
               ? chat_outbox_init(&track->outbox)
               : CHAT_ERROR;
}


void
chat_track_free(chat_track_t *track)
{
    chat_arena_destroy(track->step.arena);
    chat_outbox_free(&track->outbox);
}


static void
chat_track_next_step(chat_track_t *track)
{
    chat_track_step_begin(&track->step, track->info->id,
                          track->steps ? track->steps - 1 : 0);
}


static void
chat_track_open(chat_track_t *track, const chat_event_t *event)
{
    chat_track_step_t *step = &track->step;

    /* Calls behind a seal, or before any step was opened. */
    if (step->sealed
        || (step->ncalls == 0 && !step->untracked && step->chain.len == 0))
    {
        chat_track_next_step(track);
    }

    if (step->ncalls == 0 && !step->untracked) {
        track->info->calls = 0;
        track->info->settled = 0;
    }

    track->info->calls++;
    chat_track_step_open(step, event);
}


static void
chat_track_settle(chat_track_t *track, chat_tracked_t *call)
{
    track->info->settled += !call->settled;
    call->settled = 1;
}


static void
chat_track_ready(chat_track_t *track, const chat_event_t *event)
{
    chat_tracked_t *call =
        chat_track_step_slot(&track->step, event->call->place);

    if (call == NULL) {
        return;
    }

    if (event->failed) {
        chat_track_settle(track, call);
    }

    chat_track_step_ready(&track->step, call, event);
}


static void
chat_track_ask(chat_track_t *track, const chat_event_t *event)
{
    chat_tracked_t *call = chat_track_step_call(&track->step, event->id);

    if (call != NULL) {
        chat_track_step_ask(&track->step, call);
    }
}


/* A call that the request had left open: the result is of that batch. */
static void
chat_track_earlier(chat_track_t *track, const chat_event_t *event)
{
    chat_key_t            key;
    chat_facts_t         *list;
    const chat_call_t    *call;
    chat_table_entry_t   *entry;
    const chat_request_t *rq = track->conf->request;

    entry = chat_table_find(&track->earlier, event->id);
    if (entry == NULL) {
        return;
    }

    call = &rq->calls[entry->number - 1];

    if (!chat_call_is_member(call) || call->step >= rq->nsteps
        || (call->outcome != CHAT_OUTCOME_NONE
            && call->outcome != CHAT_OUTCOME_PARTIAL)
        || chat_batch_key(&track->conf->scope, &rq->steps[call->step], &key)
               != CHAT_OK)
    {
        return;
    }

    list = chat_outbox_list(&track->outbox, &key);
    if (list != NULL) {
        chat_track_put_result(&track->outbox, list, event, &call->fingerprint);
    }
}


static void
chat_track_result(chat_track_t *track, const chat_event_t *event)
{
    chat_tracked_t *call;

    if (event->id.len == 0 || event->id.len > CHAT_ID_MAX
        || event->outcome == CHAT_OUTCOME_NONE
        || event->outcome == CHAT_OUTCOME_PARTIAL)
    {
        return;
    }

    call = chat_track_step_call(&track->step, event->id);
    if (call == NULL) {
        chat_track_earlier(track, event);
        return;
    }

    chat_track_settle(track, call);
    chat_track_step_result(&track->step, call, event);
}


static void
chat_track_turn_open(chat_track_t *track, const chat_event_t *event)
{
    if (!track->turn_open && event->id.len <= CHAT_ID_MAX) {
        (void) chat_arena_dup(track->arena, event->id, &track->info->id);
    }

    track->turn_open = 1;
}


static void
chat_track_turn_end(chat_track_t *track, const chat_event_t *event)
{
    if (track->info->end != CHAT_END_NONE) {
        return;
    }

    track->info->end = event->end;
    if (event->end == CHAT_END_INTERRUPTED) {
        track->info->reason = "upstream";
    }
}


void
chat_track_event(chat_track_t *track, const chat_event_t *event)
{
    if (event->verdict == CHAT_VERDICT_DROP) {
        return;
    }

    switch (event->type) {
    case CHAT_EVENT_TURN_OPEN:
        chat_track_turn_open(track, event);
        break;

    case CHAT_EVENT_STEP_OPEN:
        track->steps++;
        chat_track_next_step(track);
        chat_track_step_chain(&track->step, event->id);
        break;

    case CHAT_EVENT_CALL_OPEN:
        chat_track_open(track, event);
        break;

    case CHAT_EVENT_CALL_READY:
        chat_track_ready(track, event);
        break;

    case CHAT_EVENT_CALL_ASK:
        chat_track_ask(track, event);
        break;

    case CHAT_EVENT_CALL_RESULT:
        chat_track_result(track, event);
        break;

    case CHAT_EVENT_STEP_SEAL:
        chat_track_step_seal(&track->step);
        break;

    case CHAT_EVENT_STEP_RESET:
        chat_track_next_step(track);
        break;

    case CHAT_EVENT_TURN_END:
        chat_track_turn_end(track, event);
        break;

    default:
        break;
    }
}


void
chat_track_end(chat_track_t *track)
{
    chat_track_step_break(&track->step);
}
