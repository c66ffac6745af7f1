/*
 * chat_tracker.c: follows a stream for what the store is to know of it.
 *
 * A step has up to two names: that of its first call, and that of the
 * response where a client can chain to it. They are known once the first call
 * has its id; what came before is then written in one go. Facts are put under
 * both names alike; joining is idempotent, so that a call may be written more
 * than once. A step that was opened in the store ends with a seal or broken; a
 * step past a bound is not managed. A result of a call that an earlier step
 * left open goes to that step's batch, any other result goes nowhere.
 */

#include "stream/chat_tracker.h"


/* Forgets what was taken, if it was. */
static void
forget(chat_tracker_t *track)
{
    if (track->taken) {
        chat_arena_reset(track->put_arena);
        track->puts = NULL;
        track->nputs = 0;
        track->size = 0;
        track->taken = 0;
    }
}


/*
 * The facts that go under all of these keys, until the next call. Without a
 * key or memory they go nowhere.
 */
static chat_facts_t *
facts_of(chat_tracker_t *track, const chat_key_t *keys, size_t n)
{
    size_t               i;
    chat_stream_facts_t *put = NULL;

    forget(track);

    for (i = 0; i < track->nputs; i++) {
        put = &track->puts[i];
        if (put->nkeys == n && memcmp(put->keys, keys, n * sizeof(*keys)) == 0)
        {
            return &put->facts;
        }
    }

    if (track->put_arena == NULL) {
        track->put_arena = chat_arena_create(0);
    }

    put = n != 0 && track->put_arena != NULL
              ? chat_arena_push(track->put_arena, &track->puts, &track->nputs,
                                &track->size, sizeof(*put))
              : NULL;
    if (put == NULL) {
        chat_facts_init(&track->nowhere, NULL);
        return &track->nowhere;
    }

    memcpy(put->keys, keys, n * sizeof(*keys));
    put->nkeys = n;
    chat_facts_init(&put->facts, track->put_arena);
    return &put->facts;
}


size_t
chat_tracker_take(chat_tracker_t *track, const chat_stream_facts_t **facts)
{
    forget(track);
    track->taken = track->nputs != 0;
    *facts = track->puts;
    return track->nputs;
}


static chat_facts_t *
step_facts(chat_tracker_t *track)
{
    return facts_of(track, track->step.keys, track->step.nkeys);
}


static int
is_member(const chat_opening_t *call)
{
    return call->kind != CHAT_KIND_PROVIDER && call->id.len != 0;
}


/*
 * Adds the step to the conversation index, where a request that names only the
 * conversation finds its batch. A chained request uses the first name, so that
 * is the name of the chain.
 */
static void
put_record(chat_tracker_t *track)
{
    size_t               i;
    chat_key_t           key;
    chat_indexed_batch_t recorded;
    chat_track_step_t   *step = &track->step;

    if (step->nkeys == 0
        || chat_conversation_index_key(&track->conf->scope, &key) != CHAT_OK)
    {
        return;
    }

    recorded.dialect = track->conf->scope.dialect;
    recorded.nnames = step->nkeys;
    for (i = 0; i < step->nkeys; i++) {
        recorded.names[i] = step->keys[i].name;
    }

    chat_facts_batch(facts_of(track, &key, 1),
                     track->conf->began + step->ordinal, &recorded);
}


static void
put_open(chat_tracker_t *track)
{
    if (track->step.opened || !track->step.named) {
        return;
    }

    track->step.opened = 1;
    chat_facts_open(step_facts(track), track->conf->worker, track->conf->cors);
    put_record(track);
}


/* The call, once it is complete; before that, that the step has members. */
static void
put_call(chat_tracker_t *track, const chat_opening_t *call)
{
    if (!track->step.named || track->step.untracked || !is_member(call)) {
        return;
    }

    put_open(track);

    if (call->complete) {
        chat_facts_call(step_facts(track), call->id, call->kind,
                        call->position, &call->fingerprint);
    }
}


/* The newest call of the step with this id, or NULL. */
static chat_opening_t *
find_call(const chat_tracker_t *track, chat_str_t id)
{
    const chat_known_t *known = chat_calls_known(track->calls, id);
    chat_opening_t     *call = known ? known->tracked : NULL;

    return call != NULL && call->step == track->step.number
                   && chat_str_eq(call->id, id)
               ? call
               : NULL;
}


/* All calls of the step; returns how many of them are complete members. */
static unsigned
put_calls(chat_tracker_t *track)
{
    unsigned        n = 0;
    chat_opening_t *call;

    for (call = track->step.first; call != NULL; call = call->later) {
        if (call->step == track->step.number) {
            put_call(track, call);
            n += call->complete && is_member(call)
                 && find_call(track, call->id) == call;
        }
    }

    return n;
}


/* The result of an event; facts: of its batch. */
static void
put_result(chat_tracker_t *track, chat_facts_t *facts,
           const chat_event_t *event, const chat_hash_t *fingerprint)
{
    chat_str_t payload;
    int        has_payload =
        event->has_payload && !facts->failed
        && chat_arena_dup(track->put_arena, event->text, &payload) == CHAT_OK;

    chat_facts_result(facts, event->id, event->outcome, &event->digest,
                      fingerprint, has_payload ? &payload : NULL);
}


void
chat_tracker_break(chat_tracker_t *track)
{
    if (track->step.opened && !track->step.sealed) {
        (void) put_calls(track);
        chat_facts_add(step_facts(track), "broken", chat_cstr("1"));
        track->step.opened = 0;
    }
}


/* Stops tracking a step that is too long, and marks its batch as broken. */
static void
give_up(chat_tracker_t *track)
{
    chat_tracker_break(track);
    track->step.untracked = 1;
}


/* Adds a name of the step. 0: it has none of this form. */
static int
add_name(chat_tracker_t *track, const chat_step_t *name)
{
    chat_track_step_t *step = &track->step;

    if (chat_batch_key(&track->conf->scope, name, &step->keys[step->nkeys])
        != CHAT_OK)
    {
        return 0;
    }

    step->nkeys++;
    return 1;
}


/* Finds the step's names; its first call has its id. */
static void
name_step(chat_tracker_t *track)
{
    int                       chains;
    chat_step_t               call = { 0 }, chain = { 0 };
    chat_track_step_t        *step = &track->step;
    const chat_stream_conf_t *conf = track->conf;

    step->nkeys = 0;
    step->by_call = 0;
    step->named = 1;

    /* A client may name the response instead of bringing its calls. */
    chains = conf->request ? conf->request->stored : conf->dialect->chains;
    chain.chain = step->chain.len != 0 ? step->chain : step->turn;

    if (step->chain.len != 0 || (step->turn.len != 0 && chains)) {
        (void) add_name(track, &chain);
    }

    if (step->chain.len != 0) {
        return;
    }

    if (conf->request != NULL) {
        call = conf->request->next;
    }

    if (conf->scope.by_message) {
        if (step->turn.len != 0 && !chat_str_eq(step->turn, call.message)) {
            call.message = step->turn;
            call.ordinal = 0;
        }
        call.ordinal += step->ordinal;
    } else {
        call.since += step->ordinal;
    }

    call.chain = chat_str(NULL, 0);
    call.first_id = step->first->id;
    step->by_call = add_name(track, &call) != 0;
}


/* The first call has its id, or another one than it began with. */
static void
rename_step(chat_tracker_t *track)
{
    chat_track_step_t *step = &track->step;

    /* The chain keeps its name; no request uses the first call's old one. */
    if (step->opened && step->by_call) {
        chat_facts_add(facts_of(track, &step->keys[step->nkeys - 1], 1),
                       "broken", chat_cstr("1"));
    }

    step->opened = 0;
    name_step(track);

    (void) put_calls(track);
}


static void
next_step(chat_tracker_t *track)
{
    chat_track_step_t next = {
        .number = track->step.number + 1,
        .turn = track->info->id,
        .ordinal = track->steps ? track->steps - 1 : 0,
    };

    chat_tracker_break(track);
    track->step = next;
}


/* The call has the id of this event, if any; 0: it cannot be known by it. */
static int
identify(chat_opening_t *call, chat_str_t id)
{
    if (id.len == 0) {
        return 1;
    }

    if (call->known == NULL) {
        return 0;
    }

    call->id = call->known->id;
    call->known->tracked = call;
    return 1;
}


/* Counts the call, or its approval; 0: the step has too many. */
static int
count_member(chat_tracker_t *track, int is_new)
{
    track->step.members += is_new;

    if (track->step.members > track->conf->max_calls) {
        give_up(track);
        return 0;
    }

    return 1;
}


static void
on_open(chat_tracker_t *track, const chat_event_t *event)
{
    chat_opening_t    *call = event->opening;
    chat_track_step_t *step = &track->step;

    /* An input error for a call that the client has opens none. */
    if (call == NULL || call->complete) {
        return;
    }

    /* Calls behind a seal, or before any step was opened. */
    if (step->sealed
        || (step->ncalls == 0 && !step->untracked && step->chain.len == 0))
    {
        next_step(track);
    }

    if (step->ncalls == 0 && !step->untracked) {
        track->info->calls = 0;
        track->info->settled = 0;
    }

    track->info->calls++;
    if (step->untracked || call->step == step->number) {
        return;
    }

    call->step = step->number;
    call->position = step->ncalls++;
    call->kind = event->kind;
    step->first = step->first ? step->first : call;

    if (!identify(call, event->id)) {
        give_up(track);
        return;
    }

    if (!count_member(track, call->kind != CHAT_KIND_PROVIDER)) {
        return;
    }

    if (call->position == 0 && call->id.len != 0) {
        name_step(track);
    }

    put_call(track, call);
}


static void
count_settled(chat_tracker_t *track, chat_opening_t *call)
{
    track->info->settled += !call->settled;
    call->settled = 1;
}


static void
on_ready(chat_tracker_t *track, const chat_event_t *event)
{
    int                renamed;
    chat_opening_t    *call = event->opening;
    chat_track_step_t *step = &track->step;

    if (call == NULL || call->step != step->number) {
        return;
    }

    if (event->failed) {
        count_settled(track, call);
    }

    if (call->complete) {
        return;
    }

    renamed = event->id.len != 0 && !chat_str_eq(event->id, call->id);
    if (renamed && !identify(call, event->id)) {
        give_up(track);
        return;
    }

    if (call->name.len == 0 && event->name.len != 0) {
        call->kind = event->kind;
    }

    if (event->has_digest) {
        call->fingerprint = event->digest;
    }

    call->complete = 1;
    if (step->untracked) {
        return;
    }

    if (call->position == 0 && (renamed || !step->named)) {
        rename_step(track);
    } else {
        put_call(track, call);
    }
}


static void
on_ask(chat_tracker_t *track, const chat_event_t *event)
{
    chat_opening_t *call = find_call(track, event->id);
    int             is_new = call != NULL && call->kind == CHAT_KIND_PROVIDER;

    if (call != NULL) {
        call->kind = CHAT_KIND_APPROVAL;

        if (count_member(track, is_new)) {
            put_call(track, call);
        }
    }
}


/* A call that the request had left open: the result is of that batch. */
static void
on_earlier_result(chat_tracker_t *track, const chat_event_t *event)
{
    chat_key_t            key;
    const chat_known_t   *known = chat_calls_known(track->calls, event->id);
    const chat_call_t    *call = known ? known->brought : NULL;
    const chat_request_t *rq = track->conf->request;

    /* those that the store knows are of no step of the request */
    if (call != NULL && rq != NULL && rq->turn < rq->ncalls
        && track->conf->known == &rq->calls[rq->turn]
        && chat_call_is_member(call) && call->step < rq->nsteps
        && !chat_outcome_is_final(call->outcome)
        && chat_batch_key(&track->conf->scope, &rq->steps[call->step], &key)
               == CHAT_OK)
    {
        put_result(track, facts_of(track, &key, 1), event,
                   chat_call_fingerprint(call));
    }
}


static void
on_result(chat_tracker_t *track, const chat_event_t *event)
{
    chat_opening_t    *call;
    chat_track_step_t *step = &track->step;

    if (event->id.len == 0 || event->id.len > CHAT_ID_MAX
        || !chat_outcome_is_final(event->outcome))
    {
        return;
    }

    call = find_call(track, event->id);
    if (call == NULL) {
        on_earlier_result(track, event);
        return;
    }

    count_settled(track, call);
    if (is_member(call) && step->named && !step->untracked) {
        put_result(track, step_facts(track), event, &call->fingerprint);
    }
}


static void
on_seal(chat_tracker_t *track)
{
    unsigned           n;
    chat_track_step_t *step = &track->step;

    if (step->opened && !step->sealed) {
        n = put_calls(track);
        chat_facts_put(step_facts(track), "seal", "%u", n);
    }

    step->sealed = 1;
}


/* chain: by which alone a client will name the step; empty: by any name. */
static void
on_step(chat_tracker_t *track, chat_str_t chain)
{
    track->steps++;
    next_step(track);

    if (chain.len <= CHAT_ID_MAX
        && chat_arena_dup(track->calls->arena, chain, &track->step.chain)
               != CHAT_OK)
    {
        track->step.chain = chat_str(NULL, 0);
    }
}


void
chat_tracker_event(chat_tracker_t *track, const chat_event_t *event)
{
    chat_stream_info_t *info = track->info;

    if (event->verdict == CHAT_REPLAY_DROP) {
        return;
    }

    switch (event->type) {
    case CHAT_EVENT_TURN_OPEN:
        if (info->id.data == NULL && event->id.len <= CHAT_ID_MAX) {
            (void) chat_arena_dup(track->calls->arena, event->id, &info->id);
        }
        break;

    case CHAT_EVENT_STEP_OPEN:
        on_step(track, event->id);
        break;

    case CHAT_EVENT_CALL_OPEN:
        on_open(track, event);
        break;

    case CHAT_EVENT_CALL_READY:
        on_ready(track, event);
        break;

    case CHAT_EVENT_CALL_ASK:
        on_ask(track, event);
        break;

    case CHAT_EVENT_CALL_RESULT:
        on_result(track, event);
        break;

    case CHAT_EVENT_STEP_SEAL:
        on_seal(track);
        break;

    case CHAT_EVENT_STEP_RESET:
        next_step(track);
        break;

    case CHAT_EVENT_TURN_END:
        if (info->end == CHAT_END_NONE) {
            info->end = event->end;
            info->reason =
                event->end == CHAT_END_INTERRUPTED ? "upstream" : info->reason;
        }
        break;

    default:
        break;
    }
}
