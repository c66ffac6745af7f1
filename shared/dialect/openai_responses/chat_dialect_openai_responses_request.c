/*
 * chat_dialect_openai_responses_request.c: requests of the Responses API.
 *
 * The input is a list of items. A step is a run of the model's items (calls,
 * reasoning, messages); it ends at the first item of the client, so the next
 * call or message of the model begins another step. Of c1 o1 c2 o2, from a
 * client that sends the results of parallel calls one by one, the last step is
 * {c2}. Too small a step is safe: the body goes upstream early, and the repair
 * completes a call that is left open in an earlier step.
 * Promises: only whole items are inserted. A payload is an item as a client
 * sent it, and goes in as it is; a bare value, as a service gives it, is
 * wrapped.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"


static chat_role_e
item_role(chat_json_doc_t *doc, const chat_json_t *item)
{
    chat_str_t            id;
    const chat_json_t    *type = chat_json_get(doc, item, "type");
    const chat_json_t    *role = chat_json_get(doc, item, "role");
    chat_responses_call_t call;

    if (chat_json_is(doc, type, "message") || (type == NULL && role != NULL)) {
        return chat_json_is(doc, role, "assistant") ? CHAT_ROLE_ASSISTANT
               : chat_json_is(doc, role, "user")    ? CHAT_ROLE_USER
                                                    : CHAT_ROLE_OTHER;
    }

    /* clients refer by id to items of the model */
    if (chat_json_is(doc, type, "reasoning")
        || chat_json_is(doc, type, "item_reference")
        || chat_responses_call(doc, item, &call))
    {
        return CHAT_ROLE_ASSISTANT;
    }

    return chat_responses_answer(doc, item, &id) != NULL ? CHAT_ROLE_RESULTS
                                                         : CHAT_ROLE_ASIDE;
}


static chat_rc_e
item_call(chat_transcript_t *t, const chat_json_t *item)
{
    chat_call_t           call = { .node = item };
    chat_responses_call_t read;

    if (!chat_responses_call(t->doc, item, &read)) {
        return CHAT_OK;
    }

    call.id = read.id;
    call.name = read.name;
    call.kind = read.kind;
    call.ready = !read.cut_off;

    return chat_transcript_call(t, &call, call.kind != CHAT_KIND_PROVIDER);
}


static chat_rc_e
item_result(chat_transcript_t *t, const chat_json_t *item)
{
    chat_str_t                   id;
    const chat_responses_type_t *type;

    type = chat_responses_answer(t->doc, item, &id);

    return type ? chat_transcript_result(t, id, type->kind, item, item)
                : CHAT_OK;
}


static chat_str_t
call_args(chat_transcript_t *t, chat_call_t *call)
{
    chat_responses_call_t read;

    (void) chat_responses_call(t->doc, call->node, &read);

    return chat_responses_args(t->doc, call->node, read.type);
}


/* Sets the decision of an approval, and its reason as JSON text. */
static void
read_decision(chat_transcript_t *t, chat_call_t *call,
              const chat_responses_type_t *type)
{
    const chat_json_t *reason =
        chat_json_get(t->doc, call->result, type->says[1]);

    call->approval =
        chat_json_true(chat_json_get(t->doc, call->result, type->says[0]))
            ? CHAT_APPROVAL_GRANTED
            : CHAT_APPROVAL_REFUSED;

    if (reason != NULL && reason->type == CHAT_JSON_STRING) {
        call->reason = chat_json_raw(t->doc, reason);
    }
}


static chat_rc_e
call_result(chat_transcript_t *t, chat_call_t *call)
{
    size_t                       i;
    chat_rc_e                    rc = CHAT_OK;
    chat_str_t                   id, parts[2];
    chat_digest_t                digests[2] = { 0 };
    const chat_json_t           *says;
    const chat_responses_type_t *type;

    type = chat_responses_answer(t->doc, call->result, &id);

    if (call->bare) {
        call->kind = type->kind;
    }

    if (type->kind == CHAT_KIND_APPROVAL) {
        read_decision(t, call, type);
        return CHAT_OK;
    }

    call->payload = chat_json_raw(t->doc, call->result);
    call->outcome = CHAT_OUTCOME_OK;

    if (type->form == CHAT_RESPONSES_PATCH
        && chat_json_is(t->doc,
                        chat_json_get(t->doc, call->result, type->says[0]),
                        "failed"))
    {
        call->outcome = CHAT_OUTCOME_ERROR;
    }

    for (i = 0; i < 2 && rc == CHAT_OK; i++) {
        parts[i] = chat_str(digests[i].bytes, CHAT_DIGEST_SIZE);

        says = type->says[i]
                   ? chat_json_get(t->doc, call->result, type->says[i])
                   : NULL;
        if (says != NULL) {
            rc = chat_json_digest(t->doc, says, &digests[i]);
        }
    }

    chat_digest_parts(parts, 2, &call->digest);
    return rc;
}


/*
 * The class of the body. A developer's note is no new turn where calls are
 * open.
 */
static void
set_class(chat_transcript_t *t)
{
    int             results = t->tail[CHAT_ROLE_RESULTS] != 0;
    int             notes = t->tail[CHAT_ROLE_OTHER] != 0;
    chat_str_t     *chain = t->data;
    chat_request_t *rq = t->rq;

    if (t->tail[CHAT_ROLE_USER] != 0 || (notes && !results && !t->has_step)) {
        rq->class = CHAT_CLASS_FRESH;

    } else if (t->matched != 0 || (results && chain->len != 0)) {
        rq->class = CHAT_CLASS_CONTINUATION;
    }

    rq->answers = rq->class == CHAT_CLASS_CONTINUATION
                  || (rq->class == CHAT_CLASS_FRESH && t->has_step);
}


/* ---- inserting results ---- */


/* The value as text: a string is one, of others their JSON is. */
static void
value_text(const chat_result_t *result, chat_json_type_e type, chat_buf_t *out)
{
    if (type == CHAT_JSON_STRING) {
        chat_buf_add(out, result->payload);
    } else {
        chat_buf_json(out, result->payload);
    }
}


/* One command that printed the value, or that failed with it. */
static void
shell_output(const chat_result_t *result, chat_json_type_e type,
             chat_buf_t *out)
{
    int ok = result->outcome == CHAT_OUTCOME_OK;

    if (ok && type == CHAT_JSON_ARRAY) {
        chat_buf_add(out, result->payload);
        return;
    }

    chat_buf_puts(out, ok ? "[{\"stdout\":" : "[{\"stdout\":\"\",\"stderr\":");
    value_text(result, type, out);

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
write_value(const chat_responses_type_t *type, const chat_result_t *result,
            chat_json_type_e json, chat_buf_t *out)
{
    int ok = result->outcome == CHAT_OUTCOME_OK;

    switch (type->form) {
    case CHAT_RESPONSES_TEXT:
        chat_buf_puts(out, "\"output\":");
        if (ok) {
            value_text(result, json, out);
        } else {
            chat_result_error_text(result, out);
        }
        return CHAT_OK;

    case CHAT_RESPONSES_SHELL:
        chat_buf_puts(out, "\"output\":");
        shell_output(result, json, out);
        return CHAT_OK;

    case CHAT_RESPONSES_PATCH:
        chat_buf_printf(
            out, "\"status\":\"%s\",\"output\":", ok ? "completed" : "failed");
        value_text(result, json, out);
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
wrap_value(const chat_responses_type_t *type, const chat_result_t *result,
           chat_json_type_e json, chat_buf_t *out)
{
    chat_rc_e rc;

    if (type->answer == NULL) {
        return CHAT_BAD;
    }

    chat_buf_printf(out, "{\"type\":\"%s\",\"%s\":", type->answer, type->key);
    chat_buf_json(out, result->id);
    chat_buf_puts(out, ",");

    rc = write_value(type, result, json, out);
    chat_buf_puts(out, "}");
    return rc;
}


static chat_rc_e
write_decision(const chat_responses_type_t *type, const chat_result_t *result,
               chat_buf_t *out)
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
 * that says that the outcome is unknown.
 */
static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
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

    /* what is not decided can only be refused */
    if ((result->outcome == CHAT_OUTCOME_NONE && result->payload.len == 0)
        || (result->unknown && type->kind == CHAT_KIND_APPROVAL))
    {
        return write_decision(type, result, out);
    }

    rc = chat_json_parse(&value, arena, result->payload);
    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_BAD;
    }

    if (result->outcome == CHAT_OUTCOME_NONE) {
        return write_decision(type, result, out);
    }

    if (chat_responses_answer(&value, value.root, &id) != NULL
        && chat_str_eq(id, result->id))
    {
        chat_buf_add(out, result->payload);
        return CHAT_OK;
    }

    rc = wrap_value(type, result, value.root->type, out);
    return rc == CHAT_BAD && result->unknown ? CHAT_DECLINED : rc;
}


/* Puts value in the place of the member, or in front of the others. */
static chat_rc_e
set_member(chat_json_doc_t *doc, chat_edits_t *edits, const chat_json_t *item,
           const char *key, chat_str_t value)
{
    chat_rc_e          rc;
    chat_buf_t         out = { 0 };
    const chat_json_t *had = chat_json_get(doc, item, key);

    if (had != NULL) {
        return chat_edits_add(edits, had->start, had->end - had->start, value);
    }

    chat_buf_json(&out, chat_cstr(key));
    chat_buf_puts(&out, ":");
    chat_buf_add(&out, value);
    chat_buf_puts(&out, ",");
    rc = chat_edits_buf(edits, item->start + 1, 0, &out);
    chat_buf_free(&out);
    return rc;
}


/* The body's own decision becomes the stored one. */
static chat_rc_e
overrule(chat_json_doc_t *doc, const chat_result_t *result,
         chat_edits_t *edits)
{
    chat_rc_e          rc;
    const chat_json_t *item = result->call->place;

    rc = set_member(doc, edits, item, "approve",
                    chat_cstr(result->approval == CHAT_APPROVAL_GRANTED
                                  ? "true"
                                  : "false"));

    if (rc != CHAT_OK
        || (result->payload.len == 0
            && chat_json_get(doc, item, "reason") == NULL))
    {
        return rc;
    }

    /* the body's reason is one for its own decision */
    return set_member(doc, edits, item, "reason",
                      result->payload.len ? result->payload
                                          : chat_cstr("null"));
}


/*
 * Before the first item. An input that is only the user's words becomes a
 * list, whose end chat_responses_splice() writes.
 */
static chat_rc_e
find_front(chat_json_doc_t *doc, const chat_json_t *item, chat_front_t *front)
{
    const chat_json_t *input = chat_json_get(doc, doc->root, "input");

    if (input == NULL) {
        return CHAT_BAD;
    }

    if (input->type == CHAT_JSON_STRING) {
        front->pos = input->start;
        front->open = "[";
        front->close = ",{\"role\":\"user\",\"content\":";

    } else {
        front->pos = input->start + 1;
        front->open = "";
        front->close = input->child ? "," : "";
    }

    return CHAT_OK;
}


static const chat_transcript_form_t form = {
    .list = "input",
    .role = item_role,
    .calls = item_call,
    .results = item_result,
    .args = call_args,
    .result = call_result,
    .class = set_class,
    .runs = 1,
    .late = 1,
    .write = write_result,
    .front = find_front,
};


chat_rc_e
chat_responses_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                      const chat_result_t *results, size_t n,
                      chat_edits_t *edits)
{
    size_t             i, before = edits->count;
    chat_rc_e          rc = CHAT_OK;
    const chat_call_t *call;
    const chat_json_t *input = chat_json_get(doc, doc->root, "input");

    for (i = 0; i < n && rc == CHAT_OK; i++) {
        call = results[i].call;

        if (call != NULL && results[i].outcome == CHAT_OUTCOME_NONE
            && chat_approval_is_decided(call->approval))
        {
            rc = overrule(doc, &results[i], edits);
        }
    }

    if (rc == CHAT_OK) {
        rc = chat_transcript_splice(&form, doc, rq, results, n, edits);
    }

    if (rc == CHAT_OK && edits->count != before
        && input->type == CHAT_JSON_STRING) {
        rc = chat_edits_add(edits, input->end, 0, chat_cstr("}]"));
    }

    return rc;
}


/* ---- the body ---- */


/* What the body is chained to; empty: to nothing. */
static chat_str_t
chained_to(chat_json_doc_t *doc, chat_request_t *rq)
{
    chat_str_t         chain;
    const chat_json_t *conversation;

    conversation = chat_json_get(doc, doc->root, "conversation");
    if (conversation != NULL && conversation->type == CHAT_JSON_OBJECT) {
        conversation = chat_json_get(doc, conversation, "id");
    }
    rq->conversation = chat_json_string(doc, conversation);

    chain = chat_json_text(doc, doc->root, "previous_response_id");

    if (chain.len == 0) {
        chain = rq->conversation;
        rq->by_conversation = chain.len != 0;
    }

    return chain;
}


static const char items_end[] = "/items";


/* The id in a path that ends in /conversations/<id>/items; empty: another. */
static chat_str_t
items_of(chat_str_t path)
{
    size_t            len;
    chat_str_t        id;
    static const char before[] = "/conversations/";

    path.len -= sizeof(items_end) - 1;

    for (len = 0; len < path.len; len++) {
        if (path.data[path.len - 1 - len] == '/') {
            break;
        }
    }

    id = chat_str(path.data + path.len - len, len);
    path.len -= len;

    return chat_str_ends(path, before) ? id : chat_str(NULL, 0);
}


/* Items that a client adds to a conversation: its results count. */
static chat_rc_e
read_items(chat_transcript_t *t)
{
    chat_rc_e          rc;
    chat_str_t         id;
    chat_request_t    *rq = t->rq;
    const chat_json_t *items;

    id = items_of(chat_uri_path(rq->uri));
    items = chat_json_get(t->doc, t->doc->root, "items");

    if (id.len == 0 || items == NULL || items->type != CHAT_JSON_ARRAY) {
        return CHAT_DECLINED;
    }

    rq->conversation = id;
    t->list = items;
    t->behind = items->child;

    rc = chat_transcript_chain(t, id);
    if (rc == CHAT_OK) {
        rc = chat_transcript_tail(t);
    }

    if (rc == CHAT_OK && rq->ncalls != 0) {
        rq->class = CHAT_CLASS_ITEMS;
        rq->by_conversation = 1;
        rq->answers = 1;
    }

    rq->chained = rq->ncalls != 0;

    return rc == CHAT_OK && t->doc->duplicate ? CHAT_BAD : rc;
}


static chat_rc_e
read_input(chat_transcript_t *t, const chat_json_t *input)
{
    int             results;
    chat_rc_e       rc;
    chat_str_t      chain = chained_to(t->doc, t->rq);
    chat_request_t *rq = t->rq;

    t->data = &chain;

    if (input->type == CHAT_JSON_STRING) {
        t->words = input;
        t->tail[CHAT_ROLE_USER] = 1;
        input = NULL;
    }

    rc = chat_transcript_read(t, input);

    results = t->tail[CHAT_ROLE_RESULTS] != 0;

    if (rc == CHAT_OK && chain.len != 0 && t->matched == 0
        && (results || (rq->class == CHAT_CLASS_FRESH && !t->has_step)))
    {
        rq->answers = 1;
        rc = chat_transcript_chain(t, chain);

        if (rc == CHAT_OK) {
            rc = chat_transcript_tail(t);
        }
    }

    return rc == CHAT_OK && t->doc->duplicate ? CHAT_BAD : rc;
}


chat_rc_e
chat_responses_request(chat_json_doc_t *doc, chat_arena_t *arena,
                       chat_request_t *rq)
{
    chat_transcript_t  t;
    const chat_json_t *input, *store;

    chat_transcript_init(&t, &form, doc, arena, rq);

    if (chat_str_ends(chat_uri_path(rq->uri), items_end)) {
        return read_items(&t);
    }

    input = chat_json_get(doc, doc->root, "input");

    if (input == NULL || chat_json_get(doc, doc->root, "messages") != NULL
        || (input->type != CHAT_JSON_STRING && input->type != CHAT_JSON_ARRAY))
    {
        return CHAT_DECLINED;
    }

    store = chat_json_get(doc, doc->root, "store");
    rq->stream = chat_json_true(chat_json_get(doc, doc->root, "stream"));
    rq->stored = store == NULL || store->type != CHAT_JSON_FALSE;

    return read_input(&t, input);
}
