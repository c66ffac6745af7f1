/*
 * chat_filter.c: the replay filter's verdict on each event.
 *
 * The policy alone; what is remembered is in chat_filter_table.
 * Promises: a verdict, once it is not WAIT, never changes; in doubt an event
 * is forwarded.
 * Must not know: bytes, frames, wire formats.
 */

#include "stream/chat_filter.h"
#include "stream/chat_filter_table.h"
#include "facts/chat_batch.h"

struct chat_filter_s {
    chat_filter_table_t table;
    chat_replay_e       mode;
    int                 strong_only;
    size_t              waiting; /* openings */
    chat_filter_count_t count;
};


chat_filter_t *
chat_filter_create(chat_arena_t *arena, chat_replay_e mode, int strong_only,
                   const chat_call_t *known, size_t n)
{
    chat_filter_t *filter = chat_arena_alloc(arena, sizeof(*filter));

    if (filter == NULL
        || chat_filter_table_init(&filter->table, arena, known, n) != CHAT_OK)
    {
        return NULL;
    }

    filter->mode = mode;
    filter->strong_only = strong_only;
    return filter;
}


/* 1 if an event of this call can repeat something that the client has. */
static int
chat_filter_may_replay(const chat_filter_t *filter, chat_str_t id)
{
    return filter->mode != CHAT_REPLAY_OFF
           && (!filter->strong_only || chat_id_is_strong(id));
}


/* 1 if both names are known and differ. */
static int
chat_filter_renamed(chat_str_t one, chat_str_t two)
{
    return one.len != 0 && two.len != 0 && !chat_str_eq(one, two);
}


/* Sets the verdict on an opening that has none yet, or that waits. */
static void
chat_filter_decide(chat_filter_t *filter, chat_opening_t *opening,
                   chat_verdict_e verdict)
{
    filter->waiting -= opening->verdict == CHAT_VERDICT_WAIT;
    filter->waiting += verdict == CHAT_VERDICT_WAIT;
    opening->verdict = verdict;

    if (verdict == CHAT_VERDICT_DROP) {
        filter->count.replays++;
        if (opening->seen != NULL) {
            opening->seen->dropped = 1;
        }
    }
}


/* The verdict on a call that appears under this id and name. */
static chat_verdict_e
chat_filter_judge(chat_filter_t *filter, const chat_seen_t *seen,
                  chat_str_t name)
{
    if (seen == NULL || !chat_filter_may_replay(filter, seen->id)) {
        return CHAT_VERDICT_FORWARD;
    }

    if (seen->opening != NULL) {
        return chat_filter_renamed(name, seen->opening->name)
                   ? CHAT_VERDICT_FORWARD
                   : CHAT_VERDICT_DROP;
    }

    if (!seen->ready) {
        return CHAT_VERDICT_FORWARD;
    }

    if (filter->mode == CHAT_REPLAY_ID) {
        return CHAT_VERDICT_DROP;
    }

    if (chat_filter_renamed(name, seen->name)) {
        filter->count.reused++;
        return CHAT_VERDICT_FORWARD;
    }

    return CHAT_VERDICT_WAIT;
}


/* Keeps the name under which a call is opened, if it is not too long. */
static void
chat_filter_name(chat_filter_t *filter, chat_opening_t *opening,
                 chat_str_t name)
{
    opening->name = chat_str(NULL, 0);

    if (name.len <= CHAT_ID_MAX && !chat_filter_table_full(&filter->table)) {
        (void) chat_arena_dup(filter->table.arena, name, &opening->name);
    }
}


/* A call that runs is opened again under another name: it is given up. */
static void
chat_filter_replace(chat_filter_t *filter, chat_opening_t *opening)
{
    if (opening->verdict == CHAT_VERDICT_WAIT) {
        chat_filter_decide(filter, opening, CHAT_VERDICT_FORWARD);
    }

    opening->ready = 1;
    opening->seen->opening = NULL;
}


static chat_verdict_e
chat_filter_open(chat_filter_t *filter, const chat_event_t *event)
{
    int             renamed;
    chat_seen_t    *seen;
    chat_opening_t *opening;
    chat_verdict_e  verdict;

    seen = chat_filter_table_full(&filter->table)
               ? NULL
               : chat_filter_table_seen(&filter->table, event->id);

    renamed = seen != NULL && seen->opening != NULL
              && chat_filter_renamed(event->name, seen->opening->name);

    if (seen != NULL && seen->opening != NULL && !renamed
        && seen->opening->slot == event->slot
        && seen->opening
               == chat_filter_table_opening(&filter->table, event->slot))
    {
        if (filter->mode == CHAT_REPLAY_OFF) {
            return CHAT_VERDICT_FORWARD;
        }

        filter->count.replays++;
        return CHAT_VERDICT_DROP;
    }

    filter->count.opened++;
    verdict = chat_filter_judge(filter, seen, event->name);

    if (renamed && verdict == CHAT_VERDICT_FORWARD) {
        chat_filter_replace(filter, seen->opening);
    }

    opening = chat_filter_table_record(&filter->table, event->slot);
    if (opening == NULL) {
        return CHAT_VERDICT_FORWARD;
    }

    opening->seen = seen;
    chat_filter_name(filter, opening, event->name);
    if (seen != NULL && seen->opening == NULL) {
        seen->opening = opening;
    }
    if (seen != NULL && verdict == CHAT_VERDICT_FORWARD) {
        seen->step = filter->table.step;
    }

    chat_filter_decide(filter, opening, verdict);
    return verdict;
}


static chat_verdict_e
chat_filter_args(chat_filter_t *filter, const chat_event_t *event)
{
    const chat_seen_t    *seen;
    const chat_opening_t *opening;

    opening = chat_filter_table_opening(&filter->table, event->slot);
    if (opening != NULL && !opening->ready) {
        return opening->verdict;
    }

    /* Arguments without an opening would take a complete call back. */
    seen = chat_filter_table_find(&filter->table, event->id);
    if (seen == NULL && opening != NULL) {
        seen = opening->seen;
    }

    return seen != NULL && seen->ready
                   && chat_filter_may_replay(filter, seen->id)
               ? CHAT_VERDICT_DROP
               : CHAT_VERDICT_FORWARD;
}


/* What the client has of the call from now on: what was forwarded to it. */
static void
chat_filter_learn(chat_filter_t *filter, chat_seen_t *seen,
                  const chat_event_t *event, const chat_digest_t *fingerprint)
{
    seen->ready = 1;
    seen->dropped = 0;
    seen->step = filter->table.step;
    seen->outcome = CHAT_OUTCOME_NONE;
    seen->approval = CHAT_APPROVAL_NONE;
    seen->in_stream = event->failed ? CHAT_OUTCOME_ERROR : CHAT_OUTCOME_NONE;

    seen->has_fingerprint = fingerprint != NULL;
    if (fingerprint != NULL) {
        seen->fingerprint = *fingerprint;
    }

    if (event->name.len > CHAT_ID_MAX
        || chat_filter_table_full(&filter->table)) {
        seen->name = chat_str(NULL, 0);
    } else if (!chat_str_eq(event->name, seen->name)) {
        (void) chat_arena_dup(filter->table.arena, event->name, &seen->name);
    }
}


static int
chat_filter_is_settled(chat_outcome_e outcome)
{
    return outcome == CHAT_OUTCOME_OK || outcome == CHAT_OUTCOME_ERROR
           || outcome == CHAT_OUTCOME_DENIED;
}


/* The client has a result of this call, or has approved or refused it. */
static int
chat_filter_is_answered(const chat_seen_t *seen)
{
    return seen->approval == CHAT_APPROVAL_GRANTED
           || seen->approval == CHAT_APPROVAL_REFUSED
           || chat_filter_is_settled(seen->outcome)
           || chat_filter_is_settled(seen->in_stream);
}


/*
 * An input error without an opening, for a call that the client has: it says
 * nothing of the input but puts an outcome on the call.
 */
static chat_verdict_e
chat_filter_failed(chat_filter_t *filter, chat_seen_t *seen)
{
    if (filter->mode != CHAT_REPLAY_OFF && chat_filter_is_answered(seen)) {
        filter->count.replays++;
        seen->dropped = 1;
        return CHAT_VERDICT_DROP;
    }

    seen->in_stream = CHAT_OUTCOME_ERROR;
    return CHAT_VERDICT_FORWARD;
}


static chat_verdict_e
chat_filter_ready(chat_filter_t *filter, const chat_event_t *event,
                  const chat_digest_t *fingerprint)
{
    chat_seen_t    *seen;
    chat_opening_t *opening;

    opening = chat_filter_table_opening(&filter->table, event->slot);
    if (opening == NULL || opening->ready) {
        seen = chat_filter_table_find(&filter->table, event->id);
        if (event->failed && seen != NULL && seen->ready) {
            return chat_filter_failed(filter, seen);
        }

        (void) chat_filter_open(filter, event);
        opening = chat_filter_table_opening(&filter->table, event->slot);
        if (opening == NULL || opening->ready) {
            return CHAT_VERDICT_FORWARD;
        }
    }

    seen = event->id.len ? chat_filter_table_seen(&filter->table, event->id)
                         : opening->seen;

    opening->ready = 1;
    if (opening->seen != NULL && opening->seen->opening == opening) {
        opening->seen->opening = NULL;
    }
    opening->seen = seen;

    if (opening->verdict == CHAT_VERDICT_WAIT) {
        if (seen != NULL && seen->ready && seen->has_fingerprint
            && fingerprint != NULL
            && chat_fingerprint_eq(&seen->fingerprint, fingerprint))
        {
            chat_filter_decide(filter, opening, CHAT_VERDICT_DROP);
        } else {
            chat_filter_decide(filter, opening, CHAT_VERDICT_FORWARD);
            filter->count.reused += seen != NULL && seen->ready;
        }
    }

    if (opening->verdict == CHAT_VERDICT_FORWARD && seen != NULL) {
        chat_filter_learn(filter, seen, event, fingerprint);
    }

    return opening->verdict;
}


/*
 * What the client has of a call that an event other than input is about;
 * NULL if that is nothing, or is being replaced by a new call of this id.
 */
static chat_seen_t *
chat_filter_target(chat_filter_t *filter, chat_str_t id)
{
    chat_seen_t *seen = chat_filter_table_find(&filter->table, id);

    if (seen == NULL || !chat_filter_may_replay(filter, id)
        || (seen->opening != NULL
            && seen->opening->verdict == CHAT_VERDICT_FORWARD))
    {
        return NULL;
    }

    return seen;
}


static int
chat_filter_ask_is_replay(chat_filter_t *filter, const chat_event_t *event)
{
    const chat_seen_t *seen = chat_filter_target(filter, event->id);

    return seen != NULL && chat_filter_is_answered(seen);
}


static int
chat_filter_result_is_replay(chat_filter_t *filter, const chat_event_t *event)
{
    const chat_seen_t *seen = chat_filter_target(filter, event->id);

    if (seen == NULL) {
        return 0;
    }

    if (event->outcome == CHAT_OUTCOME_DENIED
        && seen->approval == CHAT_APPROVAL_GRANTED)
    {
        return 1;
    }

    if (!chat_filter_is_settled(seen->outcome)) {
        return 0;
    }

    /* Only the same kind of outcome can be an honest repetition. */
    if (event->outcome != seen->outcome
        || event->outcome == CHAT_OUTCOME_DENIED) {
        return 1;
    }

    return seen->dropped && !chat_digest_eq(&event->digest, &seen->digest);
}


static void
chat_filter_settled(chat_filter_t *filter, const chat_event_t *event)
{
    chat_seen_t *seen = chat_filter_table_find(&filter->table, event->id);

    if (seen != NULL && chat_filter_is_settled(event->outcome)) {
        seen->in_stream = event->outcome;
    }
}


chat_verdict_e
chat_filter_event(chat_filter_t *filter, const chat_event_t *event,
                  const chat_digest_t *fingerprint)
{
    int replay = 0;

    if (event->type != CHAT_EVENT_STEP_RESET) {
        filter->table.fresh = 0;
    }

    switch (event->type) {
    case CHAT_EVENT_CALL_OPEN:
        return chat_filter_open(filter, event);

    case CHAT_EVENT_CALL_ARGS:
        return chat_filter_args(filter, event);

    case CHAT_EVENT_CALL_READY:
        return chat_filter_ready(filter, event, fingerprint);

    case CHAT_EVENT_CALL_ASK:
        replay = chat_filter_ask_is_replay(filter, event);
        break;

    case CHAT_EVENT_CALL_RESULT:
        replay = chat_filter_result_is_replay(filter, event);
        if (!replay) {
            chat_filter_settled(filter, event);
        }
        break;

    case CHAT_EVENT_STEP_OPEN:
        filter->table.step++;
        break;

    case CHAT_EVENT_STEP_RESET:
        chat_filter_settle(filter, CHAT_VERDICT_DROP);
        chat_filter_table_forget(&filter->table);
        break;

    default:
        break;
    }

    filter->count.results += replay;
    return replay ? CHAT_VERDICT_DROP : CHAT_VERDICT_FORWARD;
}


chat_verdict_e
chat_filter_verdict(const chat_filter_t *filter, uint32_t slot,
                    uint32_t generation)
{
    const chat_opening_t *opening;

    opening = chat_filter_table_generation(&filter->table, slot, generation);
    return opening ? opening->verdict : CHAT_VERDICT_FORWARD;
}


uint32_t
chat_filter_generation(const chat_filter_t *filter, uint32_t slot)
{
    const chat_opening_t *opening =
        chat_filter_table_opening(&filter->table, slot);

    return opening ? opening->generation : 0;
}


void
chat_filter_settle(chat_filter_t *filter, chat_verdict_e verdict)
{
    chat_opening_t *opening;

    for (opening = filter->table.first;
         opening != NULL && filter->waiting != 0; opening = opening->later)
    {
        if (opening->verdict == CHAT_VERDICT_WAIT) {
            chat_filter_decide(filter, opening, verdict);
        }
    }
}


size_t
chat_filter_half_open(const chat_filter_t *filter, chat_str_t *ids,
                      size_t room)
{
    size_t                n = 0;
    const chat_opening_t *opening;

    for (opening = filter->table.first; opening != NULL && n < room;
         opening = opening->later)
    {
        if (!opening->ready && opening->seen != NULL
            && opening->verdict == CHAT_VERDICT_FORWARD
            && !chat_filter_is_settled(opening->seen->in_stream))
        {
            ids[n++] = opening->seen->id;
        }
    }

    return n;
}


const chat_filter_count_t *
chat_filter_count(const chat_filter_t *filter)
{
    return &filter->count;
}
