/*
 * chat_track_step.c: one step of a stream, and what is written down of it.
 *
 * Facts are put under both names alike; joining is idempotent, so that a call
 * may be written more than once.
 * Promises: at most CHAT_TRACK_CALLS calls are kept; a step past a bound is
 * not managed, and what the store heard of it is marked broken.
 * Must not know: where a step begins, what was dropped.
 */

#include "facts/chat_conversation.h"
#include "stream/chat_track_step.h"

#include <stdio.h>

#define CHAT_TRACK_CALLS 4096


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
 * Who names the conversation alone finds the step's batch by it: a request
 * that is chained to it takes the first name, so that comes from the chain.
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
void
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

    /* The chain keeps its name; nobody will ask for the first call's old. */
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


void
chat_track_step_begin(chat_track_step_t *step, chat_str_t turn,
                      uint32_t ordinal)
{
    chat_track_step_break(step);
    chat_arena_reset(step->arena);

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


void
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
    size_t          size;
    chat_tracked_t *calls;

    if (step->ncalls == CHAT_TRACK_CALLS) {
        return NULL;
    }

    if (step->ncalls == step->size) {
        size = step->size ? step->size * 2 : 8;
        calls = chat_arena_alloc(step->arena, size * sizeof(*calls));
        if (calls == NULL) {
            return NULL;
        }
        if (step->ncalls != 0) {
            memcpy(calls, step->calls, step->ncalls * sizeof(*calls));
        }
        step->calls = calls;
        step->size = size;
    }

    return &step->calls[step->ncalls++];
}


/* Gives the call an id that it can be known by; 0 if that cannot be. */
static int
chat_track_identify(chat_track_step_t *step, chat_tracked_t *call,
                    chat_str_t id)
{
    return id.len <= CHAT_ID_MAX
           && chat_arena_dup(step->arena, id, &call->id) == CHAT_OK;
}


void
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

    call->slot = event->call->place;
    call->position = (uint32_t) (step->ncalls - 1);
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


chat_tracked_t *
chat_track_step_slot(const chat_track_step_t *step, uint32_t slot)
{
    size_t i;

    for (i = step->ncalls; i > 0; i--) {
        if (step->calls[i - 1].slot == slot && !step->calls[i - 1].ready) {
            return &step->calls[i - 1];
        }
    }

    return NULL;
}


chat_tracked_t *
chat_track_step_call(const chat_track_step_t *step, chat_str_t id)
{
    size_t i;

    for (i = step->ncalls; i > 0 && id.len != 0; i--) {
        if (chat_str_eq(step->calls[i - 1].id, id)) {
            return &step->calls[i - 1];
        }
    }

    return NULL;
}


void
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
    if (step->untracked) {
        return;
    }

    if (call->position == 0 && (renamed || !step->named)) {
        chat_track_rename(step);
    } else {
        chat_track_put_call(step, call);
    }
}


void
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


void
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


void
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


void
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
