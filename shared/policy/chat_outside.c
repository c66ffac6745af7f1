/*
 * chat_outside.c: what results from outside add to their batch, and what is
 * answered; see chat_outside.h.
 *
 * Promises: a result is kept in the form in which the dialect puts it into a
 * body; the first one stands.
 * Must not know: how a batch was found.
 */

#include "policy/chat_outside.h"


static chat_rc_e
chat_outside_refused(chat_outside_t *out, const chat_outside_item_t *item,
                     unsigned status, const char *code, const char *field,
                     const char *message)
{
    out->refusal.status = status;
    out->refusal.code = code;
    out->refusal.field = field;
    out->refusal.message = message;
    out->refusal.index = item->index;
    return CHAT_BAD;
}


/* The call that the result is of, if it can take it. */
static chat_rc_e
chat_outside_member(chat_outside_t *out, const chat_outside_item_t *item,
                    const chat_dialect_t *dialect, const chat_batch_t *batch,
                    const chat_member_t **member)
{
    *member = chat_batch_find(batch, item->id);

    if (*member == NULL || !(*member)->is_call
        || (*member)->kind == CHAT_KIND_PROVIDER)
    {
        return chat_outside_refused(out, item, 404, "unknown_call",
                                    "toolCallId",
                                    "the conversation's latest step has no "
                                    "such call for its client to answer");
    }

    if (item->outcome == CHAT_OUTCOME_NONE
        && (*member)->kind != CHAT_KIND_APPROVAL)
    {
        return chat_outside_refused(out, item, 400, "invalid", "approved",
                                    "this call does not ask for an approval");
    }

    if (item->outcome != CHAT_OUTCOME_NONE
        && (*member)->kind == CHAT_KIND_APPROVAL && dialect->only_decided)
    {
        return chat_outside_refused(
            out, item, 400, "invalid",
            item->outcome == CHAT_OUTCOME_OK ? "output" : "errorText",
            "this call takes approved and nothing else");
    }

    return CHAT_OK;
}


/* 1 if the same was answered before, by the store or earlier in the list. */
static int
chat_outside_is_repeated(const chat_outside_t      *out,
                         const chat_outside_item_t *item,
                         const chat_member_t       *member)
{
    const chat_outside_item_t *before;
    int                        decision = item->outcome == CHAT_OUTCOME_NONE;

    for (before = out->items; before < item; before++) {
        if (chat_str_eq(before->id, item->id)
            && (decision || before->outcome != CHAT_OUTCOME_NONE))
        {
            return 1;
        }
    }

    return member->outcome != CHAT_OUTCOME_NONE
           || (decision && member->approval != CHAT_APPROVAL_NONE);
}


/* The value as the dialect's splice() takes it. */
static chat_rc_e
chat_outside_payload(const chat_outside_t      *out,
                     const chat_outside_item_t *item,
                     const chat_dialect_t *dialect, chat_str_t *payload)
{
    chat_rc_e  rc;
    chat_buf_t text = { 0 };

    *payload = chat_json_raw(&out->doc, item->value);

    if (!dialect->plain_text || item->value->type == CHAT_JSON_STRING) {
        return CHAT_OK;
    }

    chat_buf_json(&text, *payload);
    rc = chat_buf_dup(&text, out->doc.arena, payload);
    chat_buf_free(&text);
    return rc;
}


static chat_rc_e
chat_outside_fact(chat_outside_t *out, const chat_outside_item_t *item,
                  const chat_dialect_t *dialect, const chat_member_t *member,
                  chat_facts_t *facts)
{
    chat_str_t    payload;
    chat_digest_t digest, answered;

    if (item->outcome == CHAT_OUTCOME_NONE) {
        chat_facts_approval(facts, item->id, item->approval,
                            chat_json_raw(&out->doc, item->value));
        return CHAT_OK;
    }

    memset(&answered, 0, sizeof(answered));
    memcpy(answered.bytes, member->fingerprint, sizeof(member->fingerprint));

    if (chat_json_digest(&out->doc, item->value, &digest) != CHAT_OK
        || chat_outside_payload(out, item, dialect, &payload) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    chat_facts_result(facts, item->id, item->outcome, &digest, &answered,
                      &payload);
    return CHAT_OK;
}


chat_rc_e
chat_outside_facts(chat_outside_t *out, const chat_dialect_t *dialect,
                   const chat_batch_t *batch, chat_facts_t *facts)
{
    size_t               i;
    chat_rc_e            rc;
    const chat_member_t *member;
    chat_outside_item_t *item;

    for (i = 0; i < out->count; i++) {
        item = &out->items[i];

        rc = chat_outside_member(out, item, dialect, batch, &member);
        if (rc != CHAT_OK) {
            return rc;
        }

        item->repeated = chat_outside_is_repeated(out, item, member);
        if (item->repeated) {
            continue;
        }

        item->fact = facts->count;
        if (chat_outside_fact(out, item, dialect, member, facts) != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    return facts->failed ? CHAT_ERROR : CHAT_OK;
}


size_t
chat_outside_applied(const chat_outside_t *out, const chat_facts_t *put,
                     const chat_fact_t *facts, size_t n)
{
    size_t             i, k, applied = 0;
    const chat_fact_t *own;

    for (i = 0; i < out->count; i++) {
        if (out->items[i].repeated || out->items[i].fact >= put->count) {
            continue;
        }

        own = &put->items[out->items[i].fact];

        for (k = 0; k < n; k++) {
            if (chat_str_eq(facts[k].field, own->field)) {
                applied += chat_str_eq(facts[k].value, own->value) != 0;
                break;
            }
        }
    }

    return applied;
}


void
chat_outside_refuse(const chat_outside_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_puts(out, "{\"error\":{\"code\":");
    chat_buf_json(out, chat_cstr(refusal->code));
    chat_buf_puts(out, ",\"message\":");
    chat_buf_json(out, chat_cstr(refusal->message));

    if (refusal->field != NULL) {
        chat_buf_puts(out, ",\"field\":");
        chat_buf_json(out, chat_cstr(refusal->field));
    }

    if (refusal->listed) {
        chat_buf_printf(out, ",\"index\":%zu", refusal->index);
    }

    chat_buf_puts(out, "}}\n");
}
