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
    return chat_outcome_is_final(call->outcome)
           || chat_approval_is_decided(call->approval);
}


const chat_digest_t *
chat_call_fingerprint(const chat_call_t *call)
{
    chat_rc_e      rc = CHAT_ERROR;
    chat_str_t     args = call->args;
    chat_buf_t     text = { 0 };
    chat_call_t   *made = (chat_call_t *) call;
    unsigned char *p;

    if (args.data == NULL) {
        return &call->fingerprint;
    }

    if (call->quoted) {
        p = chat_buf_reserve(&text, args.len + CHAT_JSON_ROOM);
        args = chat_str(args.data + 1, args.len - 2);
        args.len = p ? (size_t) (chat_json_unescape(args, p) - p) : 0;
        args.data = p;
    }

    if (args.data != NULL) {
        rc = chat_fingerprint(call->name, args, &made->fingerprint);
    }

    chat_buf_free(&text);

    if (rc != CHAT_OK) {
        return NULL;
    }

    made->args = chat_str(NULL, 0);
    return &call->fingerprint;
}


const chat_digest_t *
chat_call_digest(const chat_call_t *call)
{
    chat_rc_e       rc = CHAT_OK;
    chat_call_t    *made = (chat_call_t *) call;
    chat_json_t    *value = (chat_json_t *) call->value;
    chat_json_doc_t doc = { .root = value };

    if (call->said.data == NULL) {
        return &call->digest;
    }

    doc.arena = chat_arena_create(0);

    if (doc.arena == NULL) {
        return NULL;
    }

    if (value != NULL) { /* the body's tree is alive */
        doc.text = chat_str(call->said.data - value->start, value->end);
    } else {
        rc = chat_json_parse(&doc, doc.arena, call->said);
    }

    rc = rc == CHAT_OK ? call->hash(&doc, doc.root, &made->digest) : rc;
    chat_arena_destroy(doc.arena);

    if (rc != CHAT_OK) {
        return NULL;
    }

    made->said = chat_str(NULL, 0);
    return &call->digest;
}


/* Copies what is to outlive the arena that it was read in. */
typedef struct {
    chat_arena_t *arena;
    chat_str_t    text; /* what stands in it stays */
    int           failed;
} chat_hold_t;


static void
hold(chat_hold_t *to, chat_str_t *s)
{
    uintptr_t begin = (uintptr_t) to->text.data, at = (uintptr_t) s->data;

    if (s->len != 0 && (at < begin || at - begin >= to->text.len)) {
        to->failed |= chat_arena_dup(to->arena, *s, s) != CHAT_OK;
    }
}


static void
hold_step(chat_hold_t *to, chat_step_t *step)
{
    step->words = NULL;
    step->last = NULL;
    hold(to, &step->first_id);
    hold(to, &step->message);
    hold(to, &step->chain);
}


static void
hold_call(chat_hold_t *to, chat_call_t *call)
{
    call->node = NULL;
    call->result = NULL;
    call->place = NULL;
    call->value = NULL;

    hold(to, &call->id);
    hold(to, &call->name);
    hold(to, &call->args);
    hold(to, &call->said);
    hold(to, &call->payload);
    hold(to, &call->reason);
}


chat_rc_e
chat_request_copy(const chat_request_t *rq, chat_str_t text,
                  chat_arena_t *arena, chat_request_t *out)
{
    size_t                    i;
    chat_str_t                name;
    chat_hold_t               to = { arena, text, 0 };
    const chat_table_entry_t *tool;

    *out = *rq;
    out->calls_size = rq->ncalls;
    out->steps_size = rq->nsteps;
    out->calls =
        chat_arena_copy(arena, rq->calls, rq->ncalls * sizeof(*out->calls));
    out->steps =
        chat_arena_copy(arena, rq->steps, rq->nsteps * sizeof(*out->steps));
    chat_table_init(&out->tools, arena);

    if (out->calls == NULL || out->steps == NULL) {
        return CHAT_ERROR;
    }

    hold(&to, &out->run);
    hold(&to, &out->conversation);
    hold(&to, &out->last_message);
    hold(&to, &out->regenerates);
    hold_step(&to, &out->next);

    for (tool = rq->tools.entries; tool != NULL; tool = tool->older) {
        name = tool->key;
        hold(&to, &name);
        to.failed |= chat_table_put(&out->tools, name) == NULL;
    }

    for (i = 0; i < rq->nsteps; i++) {
        hold_step(&to, &out->steps[i]);
    }

    for (i = 0; i < rq->ncalls; i++) {
        hold_call(&to, &out->calls[i]);
    }

    return to.failed ? CHAT_ERROR : CHAT_OK;
}
