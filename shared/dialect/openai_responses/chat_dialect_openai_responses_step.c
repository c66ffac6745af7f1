/*
 * chat_dialect_openai_responses_step.c: what is told of the steps that were
 * read from the input of the Responses API.
 *
 * chat_dialect_openai_responses_body.c has found calls and answers; here they
 * are filled in, steps that nobody will ask for are left out, and a body whose
 * calls are at the provider gets the step of its answers alone.
 * Promises: a digest is only made of what is kept.
 * Must not know: the order of items, stores, policy.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"


void
chat_responses_settle(chat_json_doc_t *doc, chat_call_t *call,
                      const chat_json_t           *item,
                      const chat_responses_type_t *answer)
{
    const chat_json_t *says = chat_json_get(doc, item, answer->says[0]);

    call->place = item;

    if (answer->kind == CHAT_KIND_APPROVAL) {
        call->approval = chat_json_true(says) ? CHAT_APPROVAL_GRANTED
                                              : CHAT_APPROVAL_REFUSED;
        return;
    }

    call->outcome = answer->form == CHAT_RESPONSES_PATCH
                            && chat_json_is(doc, says, "failed")
                        ? CHAT_OUTCOME_ERROR
                        : CHAT_OUTCOME_OK;
}


/* Why the client decided as it did, as JSON text. */
static void
chat_responses_reason(chat_json_doc_t *doc, chat_call_t *call,
                      const chat_responses_type_t *answer)
{
    const chat_json_t *reason =
        chat_json_get(doc, call->place, answer->says[1]);

    if (reason != NULL && reason->type == CHAT_JSON_STRING) {
        call->reason = chat_json_raw(doc, reason);
    }
}


/* Fills what the call's answer says; place is the answer. */
static chat_rc_e
chat_responses_result(chat_responses_body_t *body, chat_call_t *call)
{
    size_t                       i;
    chat_rc_e                    rc = CHAT_OK;
    chat_str_t                   id, parts[2];
    chat_digest_t                digests[2];
    const chat_json_t           *says;
    const chat_responses_type_t *type;

    type = chat_responses_answer(body->doc, call->place, &id);
    if (type == NULL) {
        return CHAT_BAD;
    }

    if (type->kind == CHAT_KIND_APPROVAL) {
        chat_responses_reason(body->doc, call, type);
        return CHAT_OK;
    }

    call->payload = chat_json_raw(body->doc, call->place);

    memset(digests, 0, sizeof(digests));

    for (i = 0; i < 2 && rc == CHAT_OK; i++) {
        parts[i] = chat_str(digests[i].bytes, CHAT_DIGEST_SIZE);

        says = type->says[i]
                   ? chat_json_get(body->doc, call->place, type->says[i])
                   : NULL;
        if (says != NULL) {
            rc = chat_json_digest(body->doc, says, &digests[i]);
        }
    }

    chat_digest_parts(parts, 2, &call->digest);
    return rc;
}


/*
 * The same where a twin of the call in its step may have been filled already:
 * number is the twin's in the list, from 1 on.
 */
static chat_rc_e
chat_responses_settled(chat_responses_body_t *body, chat_call_t *call,
                       chat_table_t *filled, size_t number)
{
    chat_rc_e           rc;
    const chat_call_t  *twin;
    chat_table_entry_t *entry;

    entry = chat_table_put(filled, call->id);
    if (entry == NULL) {
        return CHAT_ERROR;
    }

    twin = entry->number ? &body->rq->calls[entry->number - 1] : NULL;

    if (twin != NULL && call->outcome != CHAT_OUTCOME_NONE
        && twin->place == call->place)
    {
        call->payload = twin->payload;
        call->digest = twin->digest;
        return CHAT_OK;
    }

    rc = chat_responses_result(body, call);

    if (call->outcome != CHAT_OUTCOME_NONE) {
        entry->number = number;
    }

    return rc;
}


static chat_rc_e
chat_responses_fill(chat_responses_body_t *body, chat_call_t *call,
                    chat_table_t *filled, size_t number)
{
    chat_rc_e             rc;
    chat_responses_call_t item;

    if (chat_call_is_settled(call)) {
        rc = chat_responses_settled(body, call, filled, number);
        if (rc != CHAT_OK) {
            return rc;
        }
    }

    if (!chat_responses_call(body->doc, call->node, &item)) {
        return CHAT_BAD;
    }

    return chat_fingerprint(
        call->name, chat_responses_args(body->doc, call->node, item.type),
        &call->fingerprint);
}


int
chat_responses_step_has(const chat_request_t *rq, const chat_step_t *step,
                        int open)
{
    size_t             i;
    const chat_call_t *call;

    for (i = step->first; i < step->first + step->count; i++) {
        call = &rq->calls[i];

        if (chat_call_is_member(call) && !(open && chat_call_is_settled(call)))
        {
            return 1;
        }
    }

    return 0;
}


chat_rc_e
chat_responses_keep(chat_responses_body_t *body)
{
    size_t          i, k, first, ncalls = 0, nsteps = 0, turn = 0;
    chat_rc_e       rc;
    chat_step_t     step;
    chat_table_t   *filled = &body->open[0]; /* all answers are given */
    chat_request_t *rq = body->rq;

    for (i = 0; i < rq->nsteps; i++) {
        step = rq->steps[i];

        if (i == body->turn) {
            turn = ncalls;
        }

        if (i < body->turn && !(rq->answers && i == rq->nsteps - 1)
            && !chat_responses_step_has(rq, &step, 1))
        {
            continue;
        }

        first = ncalls;
        chat_table_reset(filled);

        if (step.count > CHAT_CALLS_MAX - ncalls) {
            return CHAT_LIMIT;
        }

        for (k = step.first; k < step.first + step.count; k++) {
            rc = chat_responses_fill(body, &rq->calls[k], filled, ncalls + 1);
            if (rc != CHAT_OK) {
                return rc;
            }

            rq->calls[ncalls] = rq->calls[k];
            rq->calls[ncalls++].step = (uint32_t) nsteps;
        }

        step.first = first;
        rq->steps[nsteps++] = step;
    }

    rq->turn = body->turn < i ? turn : ncalls;
    rq->ncalls = ncalls;
    rq->nsteps = nsteps;
    return CHAT_OK;
}


chat_rc_e
chat_responses_chain(chat_responses_body_t *body, chat_str_t chain)
{
    chat_str_t                   id;
    chat_call_t                 *call;
    chat_step_t                 *step;
    const chat_json_t           *item;
    const chat_responses_type_t *answer;

    step = chat_request_add_step(body->rq, body->arena);
    if (step == NULL) {
        return CHAT_ERROR;
    }

    step->chain = chain;

    for (item = body->tail; item != NULL; item = item->next) {
        answer = chat_responses_answer(body->doc, item, &id);
        if (answer == NULL) {
            continue;
        }

        if (chat_request_is_full(body->rq)) {
            return CHAT_LIMIT;
        }

        call = chat_request_add_call(body->rq, body->arena);
        if (call == NULL) {
            return CHAT_ERROR;
        }

        call->id = id;
        call->ready = 1;
        call->bare = 1;
        call->kind = answer->kind;
        call->node = item;
        chat_responses_settle(body->doc, call, item, answer);

        if (chat_responses_result(body, call) == CHAT_ERROR) {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}
