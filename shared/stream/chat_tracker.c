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

#include <stdio.h>

#define CHAT_TRACK_CALLS 4096

struct chat_put_s {
    chat_put_t  *next;
    chat_key_t   key;
    chat_facts_t facts;
};


static chat_rc_e
chat_outbox_init(chat_outbox_t *outbox)
{
    memset(outbox, 0, sizeof(*outbox));
    outbox->arena = chat_arena_create(0);
    return outbox->arena ? CHAT_OK : CHAT_ERROR;
}


static void
chat_outbox_free(chat_outbox_t *outbox)
{
    chat_arena_destroy(outbox->arena);
}


static chat_facts_t *
chat_outbox_list(chat_outbox_t *outbox, const chat_key_t *key)
{
    chat_put_t *put;

    for (put = outbox->puts; put != NULL; put = put->next) {
        if (chat_digest_eq(&put->key.name, &key->name)
            && chat_digest_eq(&put->key.tag, &key->tag))
        {
            return &put->facts;
        }
    }

    put = chat_arena_alloc(outbox->arena, sizeof(*put));
    if (put == NULL) {
        return NULL;
    }

    put->key = *key;
    put->next = outbox->puts;
    chat_facts_init(&put->facts, outbox->arena);
    outbox->puts = put;
    return &put->facts;
}


size_t
chat_tracker_take(chat_tracker_t *track, const chat_stream_facts_t **facts)
{
    size_t               i, n = 0;
    chat_outbox_t       *outbox = &track->outbox;
    chat_put_t          *put;
    chat_stream_facts_t *list;

    for (put = outbox->puts; put != NULL; put = put->next) {
        n++;
    }

    if (n == 0) {
        return 0;
    }

    list = chat_arena_alloc(outbox->arena, n * sizeof(*list));
    if (list == NULL) {
        return 0;
    }

    /* The oldest batch first. */
    for (i = n, put = outbox->puts; put != NULL; put = put->next) {
        i--;
        list[i].key = put->key;
        list[i].facts = put->facts.items;
        list[i].count = put->facts.count;
    }

    outbox->taken = 1;
    *facts = list;
    return n;
}


void
chat_tracker_forget(chat_tracker_t *track)
{
    chat_outbox_t *outbox = &track->outbox;

    if (outbox->taken) {
        chat_arena_reset(outbox->arena);
        outbox->puts = NULL;
        outbox->taken = 0;
    }
}


/* The list under the step's name of this form; NULL: it has none. */
static chat_facts_t *
chat_track_step_list(chat_track_step_t *step, int form)
{
    return step->has_key[form]
               ? chat_outbox_list(step->outbox, &step->keys[form])
               : NULL;
}


/* A plain fact under all names of the step. */
static void
chat_track_put(chat_track_step_t *step, const char *field, const char *value)
{
    int           form;
    chat_facts_t *list;

    for (form = 0; form < CHAT_NAMES; form++) {
        list = chat_track_step_list(step, form);
        if (list != NULL) {
            chat_facts_add(list, field, chat_cstr(value));
        }
    }
}


static int
chat_track_is_member(const chat_tracked_t *call)
{
    return call->kind != CHAT_KIND_PROVIDER && call->id.len != 0;
}


/*
 * By this record a request finds the step's batch if it names nothing but the
 * conversation. It takes the first name if it is chained, so that name comes
 * from the chain.
 */
static void
chat_track_put_record(chat_track_step_t *step)
{
    int             form;
    chat_key_t      key;
    chat_facts_t   *list;
    chat_recorded_t recorded;

    recorded.dialect = step->conf->scope.dialect;
    recorded.nnames = 0;

    for (form = CHAT_NAMES; form-- > 0;) {
        if (step->has_key[form]) {
            recorded.names[recorded.nnames++] = step->keys[form].name;
        }
    }

    if (recorded.nnames == 0
        || chat_batch_record_key(&step->conf->scope, &key) != CHAT_OK)
    {
        return;
    }

    list = chat_outbox_list(step->outbox, &key);
    if (list != NULL) {
        chat_facts_batch(list, step->conf->began + step->ordinal, &recorded);
    }
}


static void
chat_track_put_open(chat_track_step_t *step)
{
    int           form;
    chat_facts_t *list;

    if (step->opened || !step->named) {
        return;
    }

    step->opened = 1;
    for (form = 0; form < CHAT_NAMES; form++) {
        list = chat_track_step_list(step, form);
        if (list != NULL) {
            chat_facts_open(list, step->conf->worker, step->conf->cors);
        }
    }

    chat_track_put_record(step);
}


static void
chat_track_put_call(chat_track_step_t *step, const chat_tracked_t *call)
{
    int           form;
    chat_facts_t *list;

    if (!step->named || step->untracked || !call->ready
        || !chat_track_is_member(call))
    {
        return;
    }

    chat_track_put_open(step);
    for (form = 0; form < CHAT_NAMES; form++) {
        list = chat_track_step_list(step, form);
        if (list != NULL) {
            chat_facts_call(list, call->id, call->kind, call->position,
                            &call->fingerprint);
        }
    }
}


static void
chat_track_put_calls(chat_track_step_t *step)
{
    size_t i;

    for (i = 0; i < step->ncalls; i++) {
        chat_track_put_call(step, &step->calls[i]);
    }
}


/* The step is given up or has ended without a seal. */
static void
chat_track_step_break(chat_track_step_t *step)
{
    if (step->opened && !step->sealed) {
        chat_track_put_calls(step);
        chat_track_put(step, "broken", "1");
        step->opened = 0;
    }
}


/* 1 if a client can name this response instead of bringing its calls. */
static int
chat_track_is_chained(const chat_track_step_t *step)
{
    const chat_stream_conf_t *conf = step->conf;

    if (step->chain.len != 0 || step->turn.len == 0) {
        return step->chain.len != 0;
    }

    return conf->request ? conf->request->stored : conf->dialect->chains;
}


/* Finds the step's names; its first call has its id. */
static void
chat_track_name(chat_track_step_t *step)
{
    chat_step_t               call, chain;
    const chat_stream_conf_t *conf = step->conf;

    memset(&call, 0, sizeof(call));
    memset(&chain, 0, sizeof(chain));

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
    call.first_id = step->calls[0].id;
    step->has_key[CHAT_NAME_CALL] =
        step->chain.len == 0
        && chat_batch_key(&conf->scope, &call, &step->keys[CHAT_NAME_CALL])
               == CHAT_OK;

    chain.chain = step->chain.len != 0 ? step->chain : step->turn;
    step->has_key[CHAT_NAME_CHAIN] =
        chat_track_is_chained(step)
        && chat_batch_key(&conf->scope, &chain, &step->keys[CHAT_NAME_CHAIN])
               == CHAT_OK;

    step->named = 1;
}


/* The first call has its id, or another one than it began with. */
static void
chat_track_rename(chat_track_step_t *step)
{
    size_t        i;
    chat_facts_t *list;

    /* The chain keeps its name; no request uses the first call's old one. */
    list = step->opened ? chat_track_step_list(step, CHAT_NAME_CALL) : NULL;
    if (list != NULL) {
        chat_facts_add(list, "broken", chat_cstr("1"));
    }

    step->opened = 0;
    chat_track_name(step);

    for (i = 0; i < step->ncalls; i++) {
        if (chat_track_is_member(&step->calls[i])) {
            chat_track_put_open(step);
        }
    }

    chat_track_put_calls(step);
}


static void
chat_track_step_begin(chat_track_step_t *step, chat_str_t turn,
                      uint32_t ordinal)
{
    chat_track_step_break(step);
    chat_arena_reset(step->arena);

    chat_table_init(&step->ids, step->arena);
    step->serial++;
    step->calls = NULL;
    step->ncalls = 0;
    step->size = 0;
    step->members = 0;
    step->turn = turn;
    step->chain = chat_str(NULL, 0);
    step->ordinal = ordinal;
    step->named = 0;
    step->opened = 0;
    step->sealed = 0;
    step->untracked = 0;
}


static void
chat_track_step_chain(chat_track_step_t *step, chat_str_t chain)
{
    if (chain.len <= CHAT_ID_MAX
        && chat_arena_dup(step->arena, chain, &step->chain) != CHAT_OK)
    {
        step->chain = chat_str(NULL, 0);
    }
}


/* Too much to follow: what the store heard of the step is taken back. */
static void
chat_track_give_up(chat_track_step_t *step)
{
    chat_track_step_break(step);
    step->untracked = 1;
}


/* A new call of the step; NULL: it is not followed. */
static chat_tracked_t *
chat_track_add(chat_track_step_t *step)
{
    chat_tracked_t *calls = NULL;

    if (step->ncalls < CHAT_TRACK_CALLS) {
        calls = chat_arena_grow(step->arena, step->calls, step->ncalls,
                                &step->size, sizeof(*calls));
    }

    if (calls == NULL) {
        return NULL;
    }

    step->calls = calls;
    calls += step->ncalls;
    calls->position = (uint32_t) step->ncalls++;

    return calls;
}


/* Gives the call an id that it can be known by; 0 if that cannot be. */
static int
chat_track_identify(chat_track_step_t *step, chat_tracked_t *call,
                    chat_str_t id)
{
    chat_table_entry_t *entry;

    if (id.len > CHAT_ID_MAX
        || chat_arena_dup(step->arena, id, &call->id) != CHAT_OK)
    {
        return 0;
    }

    entry = id.len ? chat_table_put(&step->ids, call->id) : NULL;
    if (entry != NULL && entry->number <= call->position) {
        entry->number = (size_t) call->position + 1;
    }

    return entry != NULL || id.len == 0;
}


static void
chat_track_step_open(chat_track_step_t *step, const chat_event_t *event)
{
    chat_tracked_t *call;

    if (step->untracked) {
        return;
    }

    call = chat_track_add(step);
    if (call == NULL || !chat_track_identify(step, call, event->id)) {
        chat_track_give_up(step);
        return;
    }

    call->older = event->call->step == step->serial ? event->call->entry : 0;
    event->call->step = step->serial;
    event->call->entry = (uint32_t) step->ncalls;
    call->kind = event->kind;
    call->named = event->name.len != 0;

    step->members += call->kind != CHAT_KIND_PROVIDER;
    if (step->members > step->conf->max_calls) {
        chat_track_give_up(step);
        return;
    }

    if (call->position == 0 && call->id.len != 0) {
        chat_track_name(step);
    }

    if (chat_track_is_member(call)) {
        chat_track_put_open(step);
    }
}


/* The newest entry of the call that is not ready, or NULL. */
static chat_tracked_t *
chat_track_entry(const chat_track_step_t *step, const chat_stream_call_t *call)
{
    return call->step == step->serial && call->entry != 0
               ? &step->calls[call->entry - 1]
               : NULL;
}


/* The newest call with this id, or NULL. */
static chat_tracked_t *
chat_track_step_call(const chat_track_step_t *step, chat_str_t id)
{
    const chat_table_entry_t *entry;

    entry = id.len ? chat_table_find(&step->ids, id) : NULL;

    return entry && chat_str_eq(step->calls[entry->number - 1].id, id)
               ? &step->calls[entry->number - 1]
               : NULL;
}


static void
chat_track_step_ready(chat_track_step_t *step, chat_tracked_t *call,
                      const chat_event_t *event)
{
    int renamed;

    renamed = event->id.len != 0 && !chat_str_eq(event->id, call->id);
    if (renamed && !chat_track_identify(step, call, event->id)) {
        chat_track_give_up(step);
        return;
    }

    if (!call->named && event->name.len != 0) {
        call->kind = event->kind;
    }

    if (event->has_digest) {
        call->fingerprint = event->digest;
    }

    call->ready = 1;
    event->call->entry = call->older;
    if (step->untracked) {
        return;
    }

    if (call->position == 0 && (renamed || !step->named)) {
        chat_track_rename(step);
    } else {
        chat_track_put_call(step, call);
    }
}


static void
chat_track_step_ask(chat_track_step_t *step, chat_tracked_t *call)
{
    step->members += call->kind == CHAT_KIND_PROVIDER;
    call->kind = CHAT_KIND_APPROVAL;

    if (step->members > step->conf->max_calls) {
        chat_track_give_up(step);
    } else {
        chat_track_put_call(step, call);
    }
}


static void
chat_track_put_result(chat_outbox_t *outbox, chat_facts_t *list,
                      const chat_event_t  *event,
                      const chat_digest_t *fingerprint)
{
    chat_str_t payload;
    int        has_payload;

    has_payload =
        event->has_payload
        && chat_arena_dup(outbox->arena, event->text, &payload) == CHAT_OK;

    chat_facts_result(list, event->id, event->outcome, &event->digest,
                      fingerprint, has_payload ? &payload : NULL);
}


static void
chat_track_step_result(chat_track_step_t *step, chat_tracked_t *call,
                       const chat_event_t *event)
{
    int           form;
    chat_facts_t *list;

    if (!chat_track_is_member(call) || !step->named || step->untracked) {
        return;
    }

    for (form = 0; form < CHAT_NAMES; form++) {
        list = chat_track_step_list(step, form);
        if (list != NULL) {
            chat_track_put_result(step->outbox, list, event,
                                  &call->fingerprint);
        }
    }
}


static void
chat_track_step_seal(chat_track_step_t *step)
{
    char     number[16];
    size_t   i;
    unsigned n = 0;

    if (step->opened && !step->sealed) {
        chat_track_put_calls(step);

        for (i = 0; i < step->ncalls; i++) {
            n += step->calls[i].ready && chat_track_is_member(&step->calls[i]);
        }

        (void) snprintf(number, sizeof(number), "%u", n);
        chat_track_put(step, "seal", number);
    }

    step->sealed = 1;
}


/* Finds the calls of the request's current turn by their ids. */
static chat_rc_e
chat_track_index(chat_tracker_t *track)
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
chat_tracker_init(chat_tracker_t *track, const chat_stream_conf_t *conf,
                  chat_stream_info_t *info, chat_arena_t *arena)
{
    memset(track, 0, sizeof(*track));
    track->conf = conf;
    track->info = info;
    track->arena = arena;

    track->step.conf = conf;
    track->step.outbox = &track->outbox;
    track->step.arena = chat_arena_create(0);
    track->step.serial = 1;
    chat_table_init(&track->step.ids, track->step.arena);

    return track->step.arena != NULL && chat_track_index(track) == CHAT_OK
               ? chat_outbox_init(&track->outbox)
               : CHAT_ERROR;
}


void
chat_tracker_free(chat_tracker_t *track)
{
    chat_arena_destroy(track->step.arena);
    chat_outbox_free(&track->outbox);
}


static void
chat_track_next_step(chat_tracker_t *track)
{
    chat_track_step_begin(&track->step, track->info->id,
                          track->steps ? track->steps - 1 : 0);
}


static void
chat_track_open(chat_tracker_t *track, const chat_event_t *event)
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
chat_track_settle(chat_tracker_t *track, chat_tracked_t *call)
{
    track->info->settled += !call->settled;
    call->settled = 1;
}


static void
chat_track_ready(chat_tracker_t *track, const chat_event_t *event)
{
    chat_tracked_t *call = chat_track_entry(&track->step, event->call);

    if (call == NULL) {
        return;
    }

    if (event->failed) {
        chat_track_settle(track, call);
    }

    chat_track_step_ready(&track->step, call, event);
}


static void
chat_track_ask(chat_tracker_t *track, const chat_event_t *event)
{
    chat_tracked_t *call = chat_track_step_call(&track->step, event->id);

    if (call != NULL) {
        chat_track_step_ask(&track->step, call);
    }
}


/* A call that the request had left open: the result is of that batch. */
static void
chat_track_earlier(chat_tracker_t *track, const chat_event_t *event)
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
chat_track_result(chat_tracker_t *track, const chat_event_t *event)
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
chat_track_turn_open(chat_tracker_t *track, const chat_event_t *event)
{
    if (!track->turn_open && event->id.len <= CHAT_ID_MAX) {
        (void) chat_arena_dup(track->arena, event->id, &track->info->id);
    }

    track->turn_open = 1;
}


static void
chat_track_turn_end(chat_tracker_t *track, const chat_event_t *event)
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
chat_tracker_event(chat_tracker_t *track, const chat_event_t *event)
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
chat_tracker_end(chat_tracker_t *track)
{
    chat_track_step_break(&track->step);
}
