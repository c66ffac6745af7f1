/*
 * chat_dialect_openai_responses_splice.c: results into the input of a request
 * of the Responses API.
 *
 * An answer is an item of the input; it goes behind the answer to the call
 * before it, or behind the model's run, in a chained body behind the answers
 * that are there. A payload is such an item as a client sent it, and goes in
 * as it is; a bare value, as a service gives it, is wrapped, and so is an
 * input that is but a string.
 * Promises: nothing but whole items is inserted; no byte is changed.
 * Must not know: streams, stores.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"

#include <stdlib.h>

/* The input that items are put into. */
typedef struct {
    chat_json_doc_t      *doc;
    const chat_request_t *rq;
    const chat_json_t    *node;
    int                   words; /* it is a string */
    size_t                front; /* items put before all others */
    chat_edits_t         *edits;
    const unsigned char  *first;  /* of each call: chat_calls_first() */
    const chat_call_t    *next;   /* calls before it were looked at, */
    const chat_json_t    *before; /* and this is the last answer in its step */
} chat_responses_input_t;


/* The value as text: a string is one, of others their JSON is. */
static void
chat_responses_text(const chat_result_t *result, chat_json_type_e type,
                    chat_buf_t *out)
{
    if (type == CHAT_JSON_STRING) {
        chat_buf_add(out, result->payload);
    } else {
        chat_buf_json(out, result->payload);
    }
}


static void
chat_responses_text_error(const chat_result_t *result, chat_buf_t *out)
{
    chat_buf_t text = { 0 };

    chat_buf_puts(&text, "{\"error\":");
    chat_buf_add(&text, result->payload);
    chat_buf_puts(&text, "}");
    chat_buf_json(out, chat_buf_str(&text));
    out->failed |= text.failed;
    chat_buf_free(&text);
}


/* One command that printed the value, or that failed with it. */
static void
chat_responses_shell(const chat_result_t *result, chat_json_type_e type,
                     chat_buf_t *out)
{
    int ok = result->outcome == CHAT_OUTCOME_OK;

    if (ok && type == CHAT_JSON_ARRAY) {
        chat_buf_add(out, result->payload);
        return;
    }

    chat_buf_puts(out, ok ? "[{\"stdout\":" : "[{\"stdout\":\"\",\"stderr\":");
    chat_responses_text(result, type, out);

    if (result->unknown) {
        /* it may still run */
        chat_buf_puts(out, ",\"outcome\":{\"type\":\"timeout\"}}]");
        return;
    }

    chat_buf_printf(out,
                    "%s,\"outcome\":{\"type\":\"exit\","
                    "\"exit_code\":%d}}]",
                    ok ? ",\"stderr\":\"\"" : "", !ok);
}


/*
 * A result that is no item, as of a service: what the type makes of it, as
 * the value of its last member. CHAT_BAD: nothing.
 */
static chat_rc_e
chat_responses_value(const chat_responses_type_t *type,
                     const chat_result_t *result, chat_json_type_e json,
                     chat_buf_t *out)
{
    int ok = result->outcome == CHAT_OUTCOME_OK;

    switch (type->form) {
    case CHAT_RESPONSES_TEXT:
        chat_buf_puts(out, "\"output\":");
        if (ok) {
            chat_responses_text(result, json, out);
        } else {
            chat_responses_text_error(result, out);
        }
        return CHAT_OK;

    case CHAT_RESPONSES_SHELL:
        chat_buf_puts(out, "\"output\":");
        chat_responses_shell(result, json, out);
        return CHAT_OK;

    case CHAT_RESPONSES_PATCH:
        chat_buf_printf(
            out, "\"status\":\"%s\",\"output\":", ok ? "completed" : "failed");
        chat_responses_text(result, json, out);
        return CHAT_OK;

    case CHAT_RESPONSES_SCREEN:
        chat_buf_puts(out, "\"output\":");
        chat_buf_add(out, result->payload);
        return ok && json == CHAT_JSON_OBJECT ? CHAT_OK : CHAT_BAD;

    case CHAT_RESPONSES_TOOLS:
        chat_buf_printf(out,
                        "\"execution\":\"client\",\"status\":\"%s\","
                        "\"tools\":",
                        result->unknown ? "incomplete" : "completed");
        chat_buf_add(out, ok ? result->payload : chat_cstr("[]"));
        return !ok || json == CHAT_JSON_ARRAY ? CHAT_OK : CHAT_BAD;

    case CHAT_RESPONSES_NEVER:
        break;
    }

    return CHAT_BAD;
}


static chat_rc_e
chat_responses_wrap(const chat_responses_type_t *type,
                    const chat_result_t *result, chat_json_type_e json,
                    chat_buf_t *out)
{
    chat_rc_e rc;

    if (type->answer == NULL) {
        return CHAT_BAD;
    }

    chat_buf_printf(out, "{\"type\":\"%s\",\"%s\":", type->answer, type->key);
    chat_buf_json(out, result->id);
    chat_buf_puts(out, ",");

    rc = chat_responses_value(type, result, json, out);
    chat_buf_puts(out, "}");
    return rc;
}


static chat_rc_e
chat_responses_approve(const chat_responses_type_t *type,
                       const chat_result_t *result, chat_buf_t *out)
{
    if (result->call != NULL && type->kind != CHAT_KIND_APPROVAL) {
        return CHAT_BAD;
    }

    chat_buf_puts(out, "{\"type\":\"mcp_approval_response\","
                       "\"approval_request_id\":");
    chat_buf_json(out, result->id);
    chat_buf_printf(out, ",\"approve\":%s",
                    result->approval == CHAT_APPROVAL_GRANTED ? "true"
                                                              : "false");
    if (result->payload.len != 0) {
        chat_buf_puts(out, ",\"reason\":");
        chat_buf_add(out, result->payload);
    }

    chat_buf_puts(out, "}");
    return CHAT_OK;
}


/*
 * Appends the item that brings the result. CHAT_DECLINED: there is no item
 * that says that nobody knows it.
 */
static chat_rc_e
chat_responses_write(chat_json_doc_t *doc, const chat_result_t *result,
                     chat_arena_t *arena, chat_buf_t *out)
{
    chat_rc_e                    rc;
    chat_str_t                   id;
    chat_json_doc_t              value;
    chat_responses_call_t        call;
    const chat_responses_type_t *type = &chat_responses_types[0];

    if (result->call != NULL) {
        if (!chat_responses_call(doc, result->call->node, &call)) {
            return CHAT_BAD;
        }
        type = call.type;
    }

    /* what nobody has decided can only be refused */
    if ((result->outcome == CHAT_OUTCOME_NONE && result->payload.len == 0)
        || (result->unknown && type->kind == CHAT_KIND_APPROVAL))
    {
        return chat_responses_approve(type, result, out);
    }

    rc = chat_json_parse(&value, arena, result->payload);
    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_BAD;
    }

    if (result->outcome == CHAT_OUTCOME_NONE) {
        return chat_responses_approve(type, result, out);
    }

    if (chat_responses_answer(&value, value.root, &id) != NULL
        && chat_str_eq(id, result->id))
    {
        chat_buf_add(out, result->payload);
        return CHAT_OK;
    }

    rc = chat_responses_wrap(type, result, value.root->type, out);
    return rc == CHAT_BAD && result->unknown ? CHAT_DECLINED : rc;
}


/*
 * The item behind which an answer to this call stands: the answer to the call
 * before it in its step, or else behind the run. Calls come in their order.
 */
static const chat_json_t *
chat_responses_place(chat_responses_input_t *in, const chat_call_t *call)
{
    const chat_call_t *first;

    first = &in->rq->calls[in->rq->steps[call->step].first];

    if (in->next < first) {
        in->next = first;
        in->before = NULL;
    }

    for (/* void */; in->next < call; in->next++) {
        if (chat_call_is_settled(in->next)) {
            in->before = in->next->place;
        }
    }

    return in->before ? in->before : call->place;
}


/* Puts value in the place of the member, or in front of the others. */
static chat_rc_e
chat_responses_member(chat_responses_input_t *in, const chat_json_t *item,
                      const char *key, chat_str_t value)
{
    chat_rc_e          rc;
    chat_buf_t         out = { 0 };
    const chat_json_t *had = chat_json_get(in->doc, item, key);

    if (had != NULL) {
        return chat_edits_add(in->edits, had->start, had->end - had->start,
                              value);
    }

    chat_buf_json(&out, chat_cstr(key));
    chat_buf_puts(&out, ":");
    chat_buf_add(&out, value);
    chat_buf_puts(&out, ",");
    rc = chat_edits_buf(in->edits, item->start + 1, 0, &out);
    chat_buf_free(&out);
    return rc;
}


/* The body's own decision becomes the stored one. */
static chat_rc_e
chat_responses_overrule(chat_responses_input_t *in,
                        const chat_result_t    *result)
{
    chat_rc_e          rc;
    const chat_json_t *item = result->call->place;

    rc = chat_responses_member(
        in, item, "approve",
        chat_cstr(result->approval == CHAT_APPROVAL_GRANTED ? "true"
                                                            : "false"));

    if (rc != CHAT_OK
        || (result->payload.len == 0
            && chat_json_get(in->doc, item, "reason") == NULL))
    {
        return rc;
    }

    /* the body's reason is one for its own decision */
    return chat_responses_member(in, item, "reason",
                                 result->payload.len ? result->payload
                                                     : chat_cstr("null"));
}


/* Puts the item where the answer to its call belongs. */
static chat_rc_e
chat_responses_insert(chat_responses_input_t *in, const chat_result_t *result)
{
    size_t             pos;
    chat_rc_e          rc;
    chat_buf_t         out = { 0 };
    const chat_json_t *place, *node = in->node;

    if (result->call == NULL && !in->rq->chained) {
        return CHAT_BAD;
    }

    if (result->call != NULL && result->outcome == CHAT_OUTCOME_NONE
        && result->call->approval >= CHAT_APPROVAL_GRANTED)
    {
        return chat_responses_overrule(in, result);
    }

    /* a second answer to one id would be refused */
    if (result->call != NULL && !in->first[result->call - in->rq->calls]) {
        return CHAT_OK;
    }

    place = result->call    ? chat_responses_place(in, result->call)
            : result->after ? result->after->place
                            : NULL;

    if (place != NULL) {
        pos = place->end;
        chat_buf_puts(&out, ",");
    } else if (in->words) {
        pos = node->start;
        chat_buf_puts(&out, in->front ? "," : "[");
    } else {
        pos = node->start + 1;
        chat_buf_puts(&out, in->front && node->child == NULL ? "," : "");
    }

    rc = chat_responses_write(in->doc, result, in->edits->arena, &out);

    if (rc == CHAT_OK && place == NULL && node->child != NULL) {
        chat_buf_puts(&out, ",");
    }

    if (rc == CHAT_OK) {
        in->front += place == NULL;
        rc = chat_edits_buf(in->edits, pos, 0, &out);
    }

    chat_buf_free(&out);
    return rc == CHAT_DECLINED ? CHAT_OK : rc;
}


/* An input that is but a user's words becomes a list with them at its end. */
static chat_rc_e
chat_responses_enlist(chat_responses_input_t *in)
{
    if (!in->words || in->front == 0) {
        return CHAT_OK;
    }

    if (chat_edits_add(in->edits, in->node->start, 0,
                       chat_cstr(",{\"role\":\"user\",\"content\":"))
        != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    return chat_edits_add(in->edits, in->node->end, 0, chat_cstr("}]"));
}


/* In the order of the calls; those of a chain as they were given. */
static int
chat_responses_order(const void *a, const void *b)
{
    const chat_result_t *one = *(const chat_result_t *const *) a;
    const chat_result_t *two = *(const chat_result_t *const *) b;

    if (one->call != two->call) {
        return one->call < two->call ? -1 : 1;
    }

    return one < two ? -1 : one > two;
}


chat_rc_e
chat_responses_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                      const chat_result_t *results, size_t n,
                      chat_edits_t *edits)
{
    size_t                 i;
    chat_rc_e              rc = CHAT_OK;
    const chat_result_t  **order;
    chat_responses_input_t in = { .doc = doc, .rq = rq, .edits = edits };

    if (n == 0) {
        return CHAT_OK;
    }

    in.node = chat_json_get(doc, doc->root, "input");

    if (in.node == NULL || rq->nsteps == 0) {
        return CHAT_BAD;
    }

    in.words = in.node->type == CHAT_JSON_STRING;
    in.next = rq->calls;
    in.first = chat_calls_first(rq, edits->arena);

    order = chat_arena_alloc(edits->arena, n * sizeof(*order));
    if (order == NULL || in.first == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < n; i++) {
        order[i] = &results[i];
    }

    qsort(order, n, sizeof(*order), chat_responses_order);

    for (i = 0; i < n && rc == CHAT_OK; i++) {
        rc = chat_responses_insert(&in, order[i]);
    }

    return rc == CHAT_OK ? chat_responses_enlist(&in) : rc;
}
