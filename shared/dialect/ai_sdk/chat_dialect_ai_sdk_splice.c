/*
 * chat_dialect_ai_sdk_splice.c: puts results into the AI SDK's transcripts.
 *
 * A result goes into the part of its call: the state changes, the output or
 * the error text comes in, and what a part in the new state must not have
 * goes. Promises: the members that a result is about are touched and nothing
 * else, and JSON stays valid whatever the order of the members and the white
 * space between them.
 * Must not know: streams, stores, policy.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"


/* A member that goes, with the comma and white space that go with it. */
static chat_rc_e
chat_splice_remove(const chat_json_t *object, const chat_json_t *member,
                   const chat_json_t *keep, chat_edits_t *edits)
{
    const chat_json_t *m, *before = NULL;
    chat_str_t         nothing = CHAT_STR("");

    if (member == NULL) {
        return CHAT_OK;
    }

    /* Before the member that surely stays each takes the comma behind it,
       after that one each takes the comma before it: so no two overlap, and
       one comma stays between any two that stay. */
    if (member->start < keep->start) {
        return chat_edits_add(edits, member->key_start,
                              member->next->key_start - member->key_start,
                              nothing);
    }

    for (m = object->child; m != member; m = m->next) {
        before = m;
    }

    return chat_edits_add(edits, before->end, member->end - before->end,
                          nothing);
}


/* Puts text in the place of the value. */
static chat_rc_e
chat_splice_replace(const chat_json_t *value, chat_str_t text,
                    chat_edits_t *edits)
{
    return chat_edits_add(edits, value->start, value->end - value->start,
                          text);
}


/* 1 if the body has the opposite decision. */
static int
chat_splice_reverses(const chat_json_t *approved, chat_approval_e decision)
{
    return approved != NULL
           && chat_json_true(approved) != (decision == CHAT_APPROVAL_GRANTED);
}


/*
 * Writes approved, and the reason where there is one, into an approval object;
 * all else in it stays.
 */
static chat_rc_e
chat_splice_decision(chat_json_doc_t *doc, const chat_json_t *approval,
                     chat_approval_e decision, chat_str_t reason,
                     chat_edits_t *edits)
{
    const chat_json_t *approved = chat_json_get(doc, approval, "approved");
    const chat_json_t *had = chat_json_get(doc, approval, "reason");
    const char        *word;
    chat_buf_t         added = { 0 };
    chat_rc_e          rc = CHAT_OK;

    word = decision == CHAT_APPROVAL_GRANTED ? "true" : "false";

    if (approved != NULL) {
        rc = chat_splice_replace(approved, chat_cstr(word), edits);
    } else {
        chat_buf_printf(&added, "\"approved\":%s", word);
    }

    if (rc == CHAT_OK && had != NULL
        && (reason.len != 0 || chat_splice_reverses(approved, decision)))
    {
        /* a reason for the other decision must not stay */
        rc = chat_splice_replace(
            had, reason.len != 0 ? reason : chat_cstr("\"\""), edits);

    } else if (reason.len != 0) {
        chat_buf_puts(&added, added.len != 0 ? ",\"reason\":" : "\"reason\":");
        chat_buf_add(&added, reason);
    }

    if (rc == CHAT_OK && added.len != 0) {
        if (approval->child != NULL) {
            chat_buf_puts(&added, ",");
        }
        rc = chat_edits_buf(edits, approval->start + 1, 0, &added);
    }

    chat_buf_free(&added);

    return rc;
}


/*
 * What becomes of the approval of a part that gets a result: one that does not
 * say how it was decided is invalid in a settled part, so it says so or goes.
 * A denial without an approval is invalid likewise: *text gets one.
 */
static chat_rc_e
chat_splice_approval(chat_json_doc_t *doc, const chat_json_t *part,
                     const chat_json_t *state, const chat_result_t *result,
                     chat_buf_t *text, chat_edits_t *edits)
{
    const chat_json_t *approval = chat_json_get(doc, part, "approval");
    chat_str_t         none = CHAT_STR("");
    chat_approval_e    decision = result->approval;
    int                has;

    has = approval != NULL && approval->type == CHAT_JSON_OBJECT;

    if (result->outcome == CHAT_OUTCOME_DENIED) {
        decision = CHAT_APPROVAL_REFUSED;

    } else if (decision == CHAT_APPROVAL_NONE
               && chat_json_true(chat_json_get(doc, approval, "approved")))
    {
        return CHAT_OK;

    } else if (decision != CHAT_APPROVAL_GRANTED) {
        return chat_splice_remove(part, approval, state, edits);
    }

    if (has) {
        return chat_splice_decision(doc, approval, decision, none, edits);
    }

    if (result->outcome == CHAT_OUTCOME_DENIED) {
        chat_buf_puts(text, ",\"approval\":{\"id\":");
        chat_buf_json(text, result->call->id);
        chat_buf_puts(text, ",\"approved\":false}");
    }

    return chat_splice_remove(part, approval, state, edits);
}


/*
 * Makes the part a settled one. What is new follows the state's value in the
 * same edit.
 */
static chat_rc_e
chat_splice_result(chat_json_doc_t *doc, const chat_json_t *part,
                   const chat_json_t *state, const chat_result_t *result,
                   chat_buf_t *text, chat_edits_t *edits)
{
    const chat_json_t *output = chat_json_get(doc, part, "output");
    const chat_json_t *error = chat_json_get(doc, part, "errorText");
    const chat_json_t *early = chat_json_get(doc, part, "preliminary");
    const chat_json_t *own = NULL;
    const char        *key = NULL;
    chat_str_t         value = result->payload;

    switch (result->outcome) {
    case CHAT_OUTCOME_OK:
        chat_buf_puts(text, "\"output-available\"");
        key = ",\"output\":";
        own = output;
        output = NULL;
        break;
    case CHAT_OUTCOME_ERROR:
        chat_buf_puts(text, "\"output-error\"");
        key = ",\"errorText\":";
        own = error;
        error = NULL;
        break;
    case CHAT_OUTCOME_DENIED:
        chat_buf_puts(text, "\"output-denied\"");
        break;
    default:
        return CHAT_BAD;
    }

    if (value.len == 0) {
        value =
            chat_cstr(result->outcome == CHAT_OUTCOME_OK ? "null" : "\"\"");
    }

    if (own != NULL) {
        if (chat_splice_replace(own, value, edits) != CHAT_OK) {
            return CHAT_ERROR;
        }

    } else if (key != NULL) {
        chat_buf_puts(text, key);
        chat_buf_add(text, value);
    }

    if (chat_splice_remove(part, output, state, edits) != CHAT_OK
        || chat_splice_remove(part, error, state, edits) != CHAT_OK
        || chat_splice_remove(part, early, state, edits) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    return chat_splice_approval(doc, part, state, result, text, edits);
}


static chat_rc_e
chat_splice_part(chat_json_doc_t *doc, const chat_json_t *part,
                 const chat_result_t *result, chat_buf_t *text,
                 chat_edits_t *edits)
{
    const chat_json_t *state = chat_json_get(doc, part, "state");
    const chat_json_t *approval = chat_json_get(doc, part, "approval");
    chat_rc_e          rc;

    if (state == NULL) {
        return CHAT_BAD;
    }

    if (result->outcome == CHAT_OUTCOME_NONE) {
        if (approval == NULL || approval->type != CHAT_JSON_OBJECT
            || result->approval < CHAT_APPROVAL_GRANTED)
        {
            return CHAT_BAD;
        }

        chat_buf_puts(text, "\"approval-responded\"");
        rc = chat_splice_decision(doc, approval, result->approval,
                                  result->payload, edits);
    } else {
        rc = chat_splice_result(doc, part, state, result, text, edits);
    }

    if (rc != CHAT_OK) {
        return rc;
    }

    return chat_edits_buf(edits, state->start, state->end - state->start,
                          text);
}


chat_rc_e
chat_ai_sdk_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                   const chat_result_t *results, size_t n, chat_edits_t *edits)
{
    chat_buf_t text = { 0 };
    chat_rc_e  rc = CHAT_OK;
    size_t     i;

    for (i = 0; i < n && rc == CHAT_OK; i++) {
        if (results[i].call == NULL || results[i].call->node == NULL) {
            rc = CHAT_BAD;
            break;
        }

        text.len = 0;
        rc = chat_splice_part(doc, results[i].call->node, &results[i], &text,
                              edits);
    }

    chat_buf_free(&text);

    return rc;
}


chat_rc_e
chat_ai_sdk_mend(chat_json_doc_t *doc, const chat_request_t *rq,
                 chat_approval_e (*decided)(void *data, chat_str_t id),
                 void *data, chat_edits_t *edits)
{
    const chat_json_t *approval;
    const chat_call_t *call;
    chat_str_t         none = CHAT_STR("");
    chat_approval_e    fits;
    size_t             i;

    for (i = 0; i < rq->ncalls; i++) {
        call = &rq->calls[i];
        approval = chat_json_get(doc, call->node, "approval");

        if (call->outcome == CHAT_OUTCOME_NONE
            || call->outcome == CHAT_OUTCOME_PARTIAL || approval == NULL
            || approval->type != CHAT_JSON_OBJECT
            || chat_json_get(doc, approval, "approved") != NULL)
        {
            continue;
        }

        /* Any other decision would leave the part as invalid as it is. */
        fits = call->outcome == CHAT_OUTCOME_DENIED ? CHAT_APPROVAL_REFUSED
                                                    : CHAT_APPROVAL_GRANTED;

        if (decided(data, call->id) == fits
            && chat_splice_decision(doc, approval, fits, none, edits)
                   != CHAT_OK)
        {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}
