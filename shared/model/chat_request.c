/*
 * chat_request.c: see chat_request.h.
 *
 * Calls and steps keep their order.
 */

#include "model/chat_request.h"
#include "bytes/chat_arena.h"


chat_step_t *
chat_request_add_step(chat_request_t *rq, chat_arena_t *arena)
{
    chat_step_t *step = chat_arena_push(arena, &rq->steps, &rq->nsteps,
                                        &rq->steps_size, sizeof(*step));

    if (step != NULL) {
        step->first = rq->ncalls;
    }

    return step;
}


chat_call_t *
chat_request_add_call(chat_request_t *rq, chat_arena_t *arena)
{
    chat_call_t *call;

    if (rq->nsteps == 0 && chat_request_add_step(rq, arena) == NULL) {
        return NULL;
    }

    call = chat_arena_push(arena, &rq->calls, &rq->ncalls, &rq->calls_size,
                           sizeof(*call));
    if (call == NULL) {
        return NULL;
    }

    call->step = (uint32_t) (rq->nsteps - 1);
    rq->steps[rq->nsteps - 1].count++;
    return call;
}


int
chat_call_is_member(const chat_call_t *call)
{
    return call->kind != CHAT_KIND_PROVIDER && call->ready
           && call->id.len != 0;
}


int
chat_call_is_settled(const chat_call_t *call)
{
    switch (call->outcome) {
    case CHAT_OUTCOME_OK:
    case CHAT_OUTCOME_ERROR:
    case CHAT_OUTCOME_DENIED:
        return 1;

    case CHAT_OUTCOME_NONE:
    case CHAT_OUTCOME_PARTIAL:
        break;
    }

    return chat_approval_is_decided(call->approval);
}


/* The text that a JSON string has; its data is NULL without memory. */
static chat_str_t
unquote(chat_str_t json, chat_arena_t *arena)
{
    chat_json_doc_t doc;

    return chat_json_parse(&doc, arena, json) == CHAT_OK
               ? chat_json_string(&doc, doc.root)
               : chat_str(NULL, 0);
}


const chat_digest_t *
chat_call_fingerprint(const chat_call_t *call)
{
    chat_rc_e     rc = CHAT_ERROR;
    chat_str_t    args = call->args;
    chat_call_t  *made = (chat_call_t *) call;
    chat_arena_t *arena;

    if (args.data == NULL) {
        return &call->fingerprint;
    }

    arena = chat_arena_create(0);

    if (arena != NULL && call->quoted) {
        args = unquote(args, arena);
    }

    if (arena != NULL && args.data != NULL) {
        rc = chat_fingerprint(call->name, args, &made->fingerprint);
    }

    chat_arena_destroy(arena);

    if (rc != CHAT_OK) {
        return NULL;
    }

    made->args = chat_str(NULL, 0);
    return &call->fingerprint;
}


const chat_digest_t *
chat_call_digest(const chat_call_t *call)
{
    chat_rc_e       rc = CHAT_ERROR;
    chat_call_t    *made = (chat_call_t *) call;
    chat_arena_t   *arena;
    chat_json_doc_t doc;

    if (call->said.data == NULL) {
        return &call->digest;
    }

    arena = chat_arena_create(0);

    if (arena != NULL && chat_json_parse(&doc, arena, call->said) == CHAT_OK) {
        rc = call->hash(&doc, doc.root, &made->digest);
    }

    chat_arena_destroy(arena);

    if (rc != CHAT_OK) {
        return NULL;
    }

    made->said = chat_str(NULL, 0);
    return &call->digest;
}


/* Copies the string unless it stands in the text. */
static chat_rc_e
chat_request_hold(chat_arena_t *arena, chat_str_t text, chat_str_t *s)
{
    uintptr_t begin = (uintptr_t) text.data, at = (uintptr_t) s->data;

    if (s->len == 0 || (at >= begin && at - begin < text.len)) {
        return CHAT_OK;
    }

    return chat_arena_dup(arena, *s, s);
}


static chat_rc_e
chat_request_hold_step(chat_arena_t *arena, chat_str_t text, chat_step_t *step)
{
    return chat_request_hold(arena, text, &step->first_id)
                   || chat_request_hold(arena, text, &step->message)
                   || chat_request_hold(arena, text, &step->chain)
               ? CHAT_ERROR
               : CHAT_OK;
}


static chat_rc_e
chat_request_hold_call(chat_arena_t *arena, chat_str_t text, chat_call_t *call)
{
    call->node = NULL;
    call->result = NULL;
    call->place = NULL;

    return chat_request_hold(arena, text, &call->id)
                   || chat_request_hold(arena, text, &call->name)
                   || chat_request_hold(arena, text, &call->args)
                   || chat_request_hold(arena, text, &call->said)
                   || chat_request_hold(arena, text, &call->payload)
                   || chat_request_hold(arena, text, &call->reason)
               ? CHAT_ERROR
               : CHAT_OK;
}


/* A copy of the bytes of a list; NULL without memory. */
static void *
copy_list(chat_arena_t *arena, const void *items, size_t bytes)
{
    void *copy = chat_arena_take(arena, bytes);

    if (copy != NULL && bytes != 0) {
        memcpy(copy, items, bytes);
    }

    return copy;
}


chat_rc_e
chat_request_copy(const chat_request_t *rq, chat_str_t text,
                  chat_arena_t *arena, chat_request_t *out)
{
    size_t                    i;
    chat_str_t                name;
    const chat_table_entry_t *tool;

    *out = *rq;
    out->calls_size = rq->ncalls;
    out->steps_size = rq->nsteps;
    out->calls = copy_list(arena, rq->calls, rq->ncalls * sizeof(*out->calls));
    out->steps = copy_list(arena, rq->steps, rq->nsteps * sizeof(*out->steps));
    chat_table_init(&out->tools, arena);

    if (out->calls == NULL || out->steps == NULL
        || chat_request_hold(arena, text, &out->run)
        || chat_request_hold(arena, text, &out->conversation)
        || chat_request_hold(arena, text, &out->last_message)
        || chat_request_hold(arena, text, &out->regenerates)
        || chat_request_hold_step(arena, text, &out->next))
    {
        return CHAT_ERROR;
    }

    for (tool = rq->tools.entries; tool != NULL; tool = tool->older) {
        name = tool->key;
        if (chat_request_hold(arena, text, &name)
            || chat_table_put(&out->tools, name) == NULL)
        {
            return CHAT_ERROR;
        }
    }

    for (i = 0; i < rq->nsteps; i++) {
        if (chat_request_hold_step(arena, text, &out->steps[i])) {
            return CHAT_ERROR;
        }
    }

    for (i = 0; i < rq->ncalls; i++) {
        if (chat_request_hold_call(arena, text, &out->calls[i])) {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}
