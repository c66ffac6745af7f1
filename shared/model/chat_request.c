/*
 * chat_request.c: see chat_request.h.
 *
 * A call says where its JSON is. What is made of it is read on first use, and
 * kept: from the value in the body's tree, or, when that has ended, from the
 * text once more.
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
    chat_call_t *call = chat_arena_push(arena, &rq->calls, &rq->ncalls,
                                        &rq->calls_size, sizeof(*call));

    if (call != NULL) {
        call->step = (uint32_t) (rq->nsteps - 1);
        call->tenant = rq->tenant;
        rq->steps[rq->nsteps - 1].count++;
    }

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


int
chat_call_lacks_result(const chat_call_t *call)
{
    return !chat_outcome_is_final(call->outcome) && chat_call_is_member(call);
}


int
chat_request_lacks(const chat_request_t *rq)
{
    size_t i = 0;

    while (i < rq->ncalls && !rq->calls[i].undecided
           && !chat_call_lacks_result(&rq->calls[i]))
    {
        i++;
    }

    return i < rq->ncalls || rq->chained;
}


/* Opens JSON; value: in the body's tree, or NULL. */
static chat_rc_e
open_text(chat_str_t text, const chat_json_t *value, chat_arena_t *arena,
          chat_json_doc_t *doc)
{
    if (value == NULL || text.data == NULL) {
        return chat_json_parse(doc, arena, text);
    }

    *doc = (chat_json_doc_t){ .arena = arena, .root = (chat_json_t *) value };
    doc->text = chat_str(text.data - value->start, value->end);
    return CHAT_OK;
}


chat_rc_e
chat_call_read(const chat_call_t *call, chat_arena_t *arena, chat_str_t *name,
               chat_str_t *args)
{
    chat_json_doc_t    doc;
    const chat_json_t *node = call->joined ? NULL : call->node;
    chat_rc_e          rc = open_text(call->text, node, arena, &doc);

    *name = *args = chat_str(NULL, 0);

    if (rc == CHAT_OK) {
        node = NULL;
        *name = call->args(&doc, doc.root, &node);
        *args = call->quoted ? chat_json_said(&doc, node)
                             : chat_json_raw(&doc, node);
    }

    return rc == CHAT_ERROR || doc.failed ? CHAT_ERROR : CHAT_OK;
}


const chat_hash_t *
chat_call_fingerprint(const chat_call_t *call)
{
    chat_str_t    name, args;
    chat_call_t  *made = (chat_call_t *) call;
    chat_arena_t *arena = chat_arena_scratch();

    made->printed = call->printed || call->text.data == NULL
                    || (chat_call_read(call, arena, &name, &args) == CHAT_OK
                        && chat_fingerprint(call->tenant, name, args, arena,
                                            &made->fingerprint)
                               == CHAT_OK);

    return call->printed ? &call->fingerprint : NULL;
}


const chat_hash_t *
chat_call_digest(const chat_call_t *call)
{
    chat_mix_t      mix;
    chat_call_t    *made = (chat_call_t *) call;
    chat_arena_t   *arena = chat_arena_scratch();
    chat_json_doc_t doc;

    if (call->said.data == NULL) {
        return &call->digest;
    }

    chat_mix_init(&mix, call->tenant);

    if (open_text(call->said, call->value, arena, &doc) == CHAT_OK
        && call->hash(&doc, doc.root, &mix) == CHAT_OK)
    {
        chat_mix_end(&mix, made->digest.bytes);
        made->said = chat_str(NULL, 0);
    }

    chat_arena_reset(arena);
    return made->said.data == NULL ? &call->digest : NULL;
}


void
chat_request_forget(chat_request_t *rq)
{
    size_t       i;
    chat_call_t *call;

    for (i = 0; i < rq->ncalls; i++) {
        call = &rq->calls[i];
        call->node = call->result = call->value = call->place = NULL;
    }
}
