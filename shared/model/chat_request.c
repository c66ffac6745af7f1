/*
 * chat_request.c: see chat_request.h.
 *
 * Hashes are made on first use.
 */

#include "model/chat_request.h"


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


const chat_hash_t *
chat_call_fingerprint(const chat_call_t *call)
{
    chat_call_t *made = (chat_call_t *) call;

    if (call->args.data != NULL
        && chat_fingerprint(call->tenant, call->name, call->args, call->quoted,
                            &made->fingerprint)
               == CHAT_OK)
    {
        made->args = chat_str(NULL, 0);
    }

    return made->args.data == NULL ? &call->fingerprint : NULL;
}


const chat_hash_t *
chat_call_digest(const chat_call_t *call)
{
    chat_mix_t      mix;
    chat_call_t    *made = (chat_call_t *) call;
    chat_json_t    *value = (chat_json_t *) call->value;
    chat_json_doc_t doc = { .root = value };

    if (call->said.data == NULL) {
        return &call->digest;
    }

    chat_mix_init(&mix, call->tenant);
    doc.arena = chat_arena_scratch();

    if (value != NULL) { /* the body's tree is alive */
        doc.text = chat_str(call->said.data - value->start, value->end);
    }

    if ((value != NULL
         || chat_json_parse(&doc, doc.arena, call->said) == CHAT_OK)
        && call->hash(&doc, doc.root, &mix) == CHAT_OK)
    {
        chat_mix_end(&mix, made->digest.bytes);
        made->said = chat_str(NULL, 0);
    }

    chat_arena_reset(doc.arena);
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
