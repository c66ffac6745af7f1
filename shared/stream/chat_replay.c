/*
 * chat_replay.c: the replay filter's verdict on each event.
 *
 * The policy alone; dialect/chat_calls keeps what it goes by.
 */

#include "stream/chat_replay.h"
#include "facts/chat_batch.h"


/* 1 if an event of this call can repeat something that the client has. */
static int
may_replay(const chat_replay_t *replay, chat_str_t id)
{
    return replay->on && (!replay->strong_only || chat_id_is_strong(id));
}


/* 1 if both names are known and differ. */
static int
is_renamed(chat_str_t one, chat_str_t two)
{
    return one.len != 0 && two.len != 0 && !chat_str_eq(one, two);
}


/* Sets the verdict on an opening that has none yet, or that waits. */
static void
decide(chat_replay_t *replay, chat_opening_t *opening,
       chat_replay_verdict_e verdict)
{
    opening->verdict = verdict;

    if (verdict == CHAT_REPLAY_DROP) {
        replay->count.replays++;
        if (opening->known != NULL) {
            opening->known->dropped = 1;
        }
    }
}


/* The client's call with the event's id; NULL: none is kept. */
static chat_known_t *
learn(chat_replay_t *replay, const chat_event_t *event)
{
    chat_stream_call_t *call = event->call;

    if (call->known == NULL || !chat_str_eq(call->known->id, event->id)) {
        call->known = chat_calls_learn(replay->calls, event->id);
    }

    return call->known;
}


/* The verdict on a call that appears under this id and name. */
static chat_replay_verdict_e
judge_opening(chat_replay_t *replay, chat_known_t *known, chat_str_t name)
{
    chat_str_t had, args;

    if (known == NULL || !may_replay(replay, known->id)) {
        return CHAT_REPLAY_FORWARD;
    }

    if (known->running != NULL) {
        return is_renamed(name, known->running->name) ? CHAT_REPLAY_FORWARD
                                                      : CHAT_REPLAY_DROP;
    }

    if (!known->ready) {
        return CHAT_REPLAY_FORWARD;
    }

    /* once: the text of the call may be long */
    if (known->brought != NULL && known->name.data == NULL
        && (chat_call_read(known->brought, chat_arena_scratch(), &had, &args)
                != CHAT_OK
            || chat_arena_dup(replay->calls->arena, had, &known->name)
                   != CHAT_OK))
    {
        replay->calls->failed = 1;
    }

    if (is_renamed(name, known->name)) {
        replay->count.reused++;
        return CHAT_REPLAY_FORWARD;
    }

    return CHAT_REPLAY_WAIT;
}


/* A running call is opened again under another name: it is given up. */
static void
give_up(chat_replay_t *replay, chat_opening_t *opening)
{
    if (opening->verdict == CHAT_REPLAY_WAIT) {
        decide(replay, opening, CHAT_REPLAY_FORWARD);
    }

    opening->ready = 1;
    opening->known->running = NULL;
}


/* A name as it is kept; empty: too long. */
static chat_str_t
keep_name(chat_replay_t *replay, chat_str_t name)
{
    chat_str_t copy = { NULL, 0 };

    if (name.len <= CHAT_ID_MAX
        && chat_arena_dup(replay->calls->arena, name, &copy) != CHAT_OK)
    {
        replay->calls->failed = 1;
    }

    return copy;
}


static chat_replay_verdict_e
on_open(chat_replay_t *replay, const chat_event_t *event)
{
    chat_known_t         *known = learn(replay, event);
    chat_opening_t       *opening, *running = known ? known->running : NULL;
    chat_replay_verdict_e verdict;
    int renamed = running != NULL && is_renamed(event->name, running->name);

    if (running != NULL && !renamed && running == event->call->opening) {
        replay->count.replays += (uint32_t) replay->on;
        return replay->on ? CHAT_REPLAY_DROP : CHAT_REPLAY_FORWARD;
    }

    replay->count.opened++;
    verdict = judge_opening(replay, known, event->name);

    if (renamed && verdict == CHAT_REPLAY_FORWARD) {
        give_up(replay, running);
    }

    opening = chat_calls_opening(replay->calls, event->call);
    if (opening == NULL) {
        return CHAT_REPLAY_FORWARD;
    }

    opening->known = known;
    opening->name = keep_name(replay, event->name);

    if (known != NULL && known->running == NULL) {
        known->running = opening;
    }
    if (known != NULL && verdict == CHAT_REPLAY_FORWARD) {
        known->step = replay->step;
    }

    decide(replay, opening, verdict);
    return verdict;
}


static chat_replay_verdict_e
on_args(chat_replay_t *replay, const chat_event_t *event)
{
    const chat_known_t   *known;
    const chat_opening_t *opening = event->call->opening;

    if (opening != NULL && !opening->ready) {
        return opening->verdict;
    }

    /* Arguments without an opening would make a complete call incomplete. */
    known = chat_calls_known(replay->calls, event->id);
    if (known == NULL && opening != NULL) {
        known = opening->known;
    }

    return known != NULL && known->ready && may_replay(replay, known->id)
               ? CHAT_REPLAY_DROP
               : CHAT_REPLAY_FORWARD;
}


/* The client has what was forwarded to it. */
static void
note_forwarded(chat_replay_t *replay, chat_known_t *known,
               const chat_event_t *event)
{
    known->ready = 1;
    known->dropped = 0;
    known->step = replay->step;
    known->outcome = CHAT_OUTCOME_NONE;
    known->approval = CHAT_APPROVAL_NONE;
    known->in_stream = event->failed ? CHAT_OUTCOME_ERROR : CHAT_OUTCOME_NONE;
    known->brought = NULL;
    known->has_fingerprint = event->has_digest;
    known->fingerprint = event->digest;

    if (!chat_str_eq(event->name, known->name)) {
        known->name = keep_name(replay, event->name);
    }
}


/* The client has a result of this call, or has approved or refused it. */
static int
is_answered(const chat_known_t *known)
{
    return chat_approval_is_decided(known->approval)
           || chat_outcome_is_final(known->outcome)
           || chat_outcome_is_final(known->in_stream);
}


/*
 * An input error without an opening, for a call that the client has: it says
 * nothing of the input but puts an outcome on the call.
 */
static chat_replay_verdict_e
on_lone_failure(chat_replay_t *replay, chat_known_t *known)
{
    if (replay->on && is_answered(known)) {
        replay->count.replays++;
        known->dropped = 1;
        return CHAT_REPLAY_DROP;
    }

    known->in_stream = CHAT_OUTCOME_ERROR;
    return CHAT_REPLAY_FORWARD;
}


/* 1 if the client has a call with these very arguments. */
static int
is_same(const chat_replay_t *replay, const chat_known_t *known,
        const chat_event_t *event)
{
    const chat_hash_t *fingerprint;

    if (known == NULL || !known->ready || !known->has_fingerprint
        || !event->has_digest)
    {
        return 0;
    }

    fingerprint = known->brought ? chat_call_fingerprint(known->brought)
                                 : &known->fingerprint;
    replay->calls->failed |= fingerprint == NULL;

    return fingerprint != NULL && chat_hash_eq(fingerprint, &event->digest);
}


static chat_replay_verdict_e
on_ready(chat_replay_t *replay, const chat_event_t *event)
{
    chat_known_t   *known;
    chat_opening_t *opening = event->call->opening;

    if (opening == NULL || opening->ready) {
        known = chat_calls_known(replay->calls, event->id);
        if (event->failed && known != NULL && known->ready) {
            return on_lone_failure(replay, known);
        }

        (void) on_open(replay, event);
        opening = event->call->opening;
        if (opening == NULL || opening->ready) {
            return CHAT_REPLAY_FORWARD;
        }
    }

    known = event->id.len ? learn(replay, event) : opening->known;

    opening->ready = 1;
    if (opening->known != NULL && opening->known->running == opening) {
        opening->known->running = NULL;
    }
    opening->known = known;

    if (opening->verdict == CHAT_REPLAY_WAIT) {
        if (is_same(replay, known, event)) {
            decide(replay, opening, CHAT_REPLAY_DROP);
        } else {
            decide(replay, opening, CHAT_REPLAY_FORWARD);
            replay->count.reused += known != NULL && known->ready;
        }
    }

    if (opening->verdict == CHAT_REPLAY_FORWARD && known != NULL) {
        note_forwarded(replay, known, event);
    }

    return opening->verdict;
}


/*
 * 1 if an event other than input can repeat what the client has of the call:
 * that is not being replaced by a new call of this id.
 */
static int
may_repeat(const chat_replay_t *replay, const chat_known_t *known)
{
    return may_replay(replay, known->id)
           && (known->running == NULL
               || known->running->verdict != CHAT_REPLAY_FORWARD);
}


static int
is_asked_again(const chat_replay_t *replay, const chat_event_t *event)
{
    const chat_known_t *known = chat_calls_known(replay->calls, event->id);

    return known != NULL && may_repeat(replay, known) && is_answered(known);
}


static int
is_result_again(const chat_replay_t *replay, const chat_known_t *known,
                const chat_event_t *event)
{
    const chat_hash_t *digest;

    if (event->outcome == CHAT_OUTCOME_DENIED
        && known->approval == CHAT_APPROVAL_GRANTED)
    {
        return 1;
    }

    if (!chat_outcome_is_final(known->outcome)) {
        return 0;
    }

    /* Only the same kind of outcome can be an honest repetition. */
    if (event->outcome != known->outcome
        || event->outcome == CHAT_OUTCOME_DENIED) {
        return 1;
    }

    if (!known->dropped) {
        return 0;
    }

    digest = chat_call_digest(known->brought);
    replay->calls->failed |= digest == NULL;

    return digest == NULL || !chat_hash_eq(&event->digest, digest);
}


static int
on_result(const chat_replay_t *replay, const chat_event_t *event)
{
    chat_known_t *known = chat_calls_known(replay->calls, event->id);

    if (known == NULL) {
        return 0;
    }

    if (may_repeat(replay, known) && is_result_again(replay, known, event)) {
        return 1;
    }

    if (chat_outcome_is_final(event->outcome)) {
        known->in_stream = event->outcome;
    }

    return 0;
}


/* The client has forgotten the calls of the present step. */
static void
forget_step(chat_replay_t *replay)
{
    chat_known_t   *known;
    chat_opening_t *opening;

    /* the upstream may say so again and again */
    if (replay->fresh) {
        return;
    }

    replay->fresh = 1;
    chat_replay_decide(replay, CHAT_REPLAY_DROP);

    for (opening = replay->calls->first; opening; opening = opening->later) {
        if (opening->known && opening->known->step == replay->step) {
            opening->ready = 1;
        }
    }

    for (known = chat_calls_all_known(replay->calls); known != NULL;
         known = known->next)
    {
        if (known->step == replay->step) {
            known->running = NULL;
            known->ready = 0;
            known->dropped = 0;
            known->outcome = CHAT_OUTCOME_NONE;
            known->in_stream = CHAT_OUTCOME_NONE;
            known->approval = CHAT_APPROVAL_NONE;
        }
    }
}


void
chat_replay_judge(chat_replay_t *replay, chat_event_t *event)
{
    int again = 0;

    replay->fresh &= event->type == CHAT_EVENT_STEP_RESET;
    event->verdict = CHAT_REPLAY_FORWARD;

    switch (event->type) {
    case CHAT_EVENT_CALL_OPEN:
        event->verdict = on_open(replay, event);
        break;

    case CHAT_EVENT_CALL_ARGS:
        event->verdict = on_args(replay, event);
        break;

    case CHAT_EVENT_CALL_READY:
        event->verdict = on_ready(replay, event);
        break;

    case CHAT_EVENT_CALL_ASK:
        again = is_asked_again(replay, event);
        break;

    case CHAT_EVENT_CALL_RESULT:
        again = on_result(replay, event);
        break;

    case CHAT_EVENT_STEP_OPEN:
        replay->step++;
        break;

    case CHAT_EVENT_STEP_RESET:
        forget_step(replay);
        break;

    default:
        break;
    }

    if (again) {
        replay->count.results++;
        event->verdict = CHAT_REPLAY_DROP;
    }

    event->opening = event->call ? event->call->opening : NULL;
}


void
chat_replay_decide(chat_replay_t *replay, chat_replay_verdict_e verdict)
{
    chat_opening_t *opening;

    for (opening = replay->calls->first; opening; opening = opening->later) {
        if (opening->verdict == CHAT_REPLAY_WAIT) {
            decide(replay, opening, verdict);
        }
    }
}
