/*
 * chat_external.c: external results of a conversation; see chat_external.h.
 *
 * Three parts: read the body of a request, convert its results to facts of the
 * batch in the form of the batch's dialect, write a batch as JSON. Promises: a
 * body with two possible meanings is refused; ids are written whole, payloads
 * and credentials never.
 */

#include "facts/chat_conversation.h"
#include "policy/chat_external.h"


/* Refuses the body, unless it was refused before. */
static void
chat_external_refused(chat_external_t *out, unsigned status, const char *code,
                      const char *field, const char *message)
{
    if (out->rc != CHAT_OK) {
        return;
    }

    out->rc = CHAT_BAD;
    out->refusal.status = status;
    out->refusal.code = code;
    out->refusal.field = field;
    out->refusal.message = message;
}


static void
chat_external_bad(chat_external_t *out, const char *field, const char *message)
{
    chat_external_refused(out, 400, "invalid", field, message);
}


/* Reads a member that must be a string and not empty. */
static chat_str_t
chat_external_text(chat_external_t *out, const chat_json_t *object,
                   const char *field)
{
    chat_str_t         text = { 0 };
    const chat_json_t *node =
        chat_json_typed(&out->doc, object, field, CHAT_JSON_STRING);

    if (node != NULL) {
        text = chat_json_string(&out->doc, node);
        if (text.data == NULL) {
            out->rc = CHAT_ERROR;
        }
    }

    if (text.len == 0) {
        chat_external_bad(out, field,
                          "this member must be a string and not empty");
    }

    return text;
}


/* What the result says: one of output, errorText and approved. */
static void
chat_external_value(chat_external_t *out, const chat_json_t *object,
                    chat_external_item_t *item, size_t max_result)
{
    const char        *field;
    const chat_json_t *output = chat_json_get(&out->doc, object, "output");
    const chat_json_t *error = chat_json_get(&out->doc, object, "errorText");
    const chat_json_t *approved = chat_json_get(&out->doc, object, "approved");
    const chat_json_t *reason = chat_json_get(&out->doc, object, "reason");

    if ((output != NULL) + (error != NULL) + (approved != NULL) != 1) {
        chat_external_bad(out, NULL,
                          "one of output, errorText and approved must be "
                          "given, and only one");
    }

    if (reason != NULL && approved == NULL) {
        chat_external_bad(out, "reason",
                          "this member belongs to approved alone");
    }

    if (approved != NULL && approved->type != CHAT_JSON_TRUE
        && approved->type != CHAT_JSON_FALSE)
    {
        chat_external_bad(out, "approved",
                          "this member must be true or false");
    }

    field = output ? "output" : error ? "errorText" : "reason";
    item->value = output ? output : error ? error : reason;

    if (item->value != NULL && output == NULL
        && item->value->type != CHAT_JSON_STRING)
    {
        chat_external_bad(out, field, "this member must be a string");
    }

    if (approved != NULL) {
        item->approval = approved->type == CHAT_JSON_TRUE
                             ? CHAT_APPROVAL_GRANTED
                             : CHAT_APPROVAL_REFUSED;
    } else {
        item->outcome = output ? CHAT_OUTCOME_OK : CHAT_OUTCOME_ERROR;
    }

    if (chat_json_raw(&out->doc, item->value).len > max_result) {
        chat_external_refused(
            out, 413, "too_large", field,
            "this member is longer than result= of chat_limits");
    }
}


static void
chat_external_item(chat_external_t *out, const chat_json_t *object,
                   size_t max_result)
{
    chat_str_t conversation = chat_external_text(out, object, "conversation");
    chat_external_item_t *item = &out->items[out->count];

    if (out->count++ == 0) {
        out->conversation = conversation;

    } else if (!chat_str_eq(conversation, out->conversation)) {
        chat_external_bad(out, "conversation",
                          "this member must be the same in the whole list");
    }

    item->id = chat_external_text(out, object, "toolCallId");
    if (item->id.len > CHAT_ID_MAX) {
        chat_external_bad(out, "toolCallId", "this member is too long");
    }

    chat_external_value(out, object, item, max_result);

    if (out->doc.duplicate) {
        chat_external_bad(out, NULL, "this result has a member twice");
    }
}


/* Parses the body; returns its first result, or NULL. */
static const chat_json_t *
chat_external_parse(chat_external_t *out, chat_arena_t *arena, chat_str_t text,
                    size_t max_calls)
{
    size_t             n = 1;
    chat_rc_e          rc = chat_json_parse(&out->doc, arena, text);
    const chat_json_t *root = out->doc.root, *first = root;

    if (rc == CHAT_ERROR) {
        out->rc = rc;
        return NULL;
    }

    if (rc != CHAT_OK) {
        chat_external_bad(out, NULL, "the body is not JSON");
        return NULL;
    }

    if (root->type == CHAT_JSON_ARRAY) {
        first = root->child;
        n = chat_json_count(root);
    }

    if (root->opaque || (first == root && root->type != CHAT_JSON_OBJECT)) {
        chat_external_bad(out, NULL, "a result must be an object");

    } else if (n == 0) {
        chat_external_bad(out, NULL, "the list is empty");

    } else if (n > max_calls) {
        chat_external_bad(out, NULL,
                          "the list is longer than calls= of chat_limits");

    } else {
        out->items = chat_arena_alloc(arena, n * sizeof(*out->items));
        out->rc = out->items != NULL ? CHAT_OK : CHAT_ERROR;
    }

    return first;
}


chat_rc_e
chat_external_read(chat_external_t *out, chat_arena_t *arena, chat_str_t text,
                   size_t max_calls, size_t max_result)
{
    const chat_json_t *object;

    memset(out, 0, sizeof(*out));
    object = chat_external_parse(out, arena, text, max_calls);

    for (; object != NULL && out->rc == CHAT_OK; object = object->next) {
        out->refusal.listed = object != out->doc.root;
        out->refusal.index = out->count;
        chat_external_item(out, object, max_result);
    }

    return out->rc;
}


/* Finds the call of a result; refuses a result that the call cannot take. */
static const chat_member_t *
chat_external_member(chat_external_t *out, const chat_external_item_t *item,
                     const chat_dialect_t *dialect, const chat_batch_t *batch)
{
    int                  decision = item->outcome == CHAT_OUTCOME_NONE;
    const chat_member_t *member = chat_batch_find(batch, item->id);

    out->refusal.index = (size_t) (item - out->items);

    if (member == NULL || !member->is_call
        || member->kind == CHAT_KIND_PROVIDER) {
        chat_external_refused(out, 404, "unknown_call", "toolCallId",
                              "the conversation's latest step has no such "
                              "call for its client to answer");

    } else if (decision && member->kind != CHAT_KIND_APPROVAL) {
        chat_external_bad(out, "approved",
                          "this call does not ask for an approval");

    } else if (!decision && member->kind == CHAT_KIND_APPROVAL
               && dialect->only_decided)
    {
        chat_external_bad(
            out, item->outcome == CHAT_OUTCOME_OK ? "output" : "errorText",
            "this call takes approved and nothing else");
    }

    return member;
}


/* 1 if the call already has a result, in the store or earlier in the list. */
static int
chat_external_is_repeated(const chat_external_t      *out,
                          const chat_external_item_t *item,
                          const chat_member_t        *member)
{
    const chat_external_item_t *before;
    int                         decision = item->outcome == CHAT_OUTCOME_NONE;

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


/* Adds the fact of a result. Without memory the list fails. */
static void
chat_external_fact(chat_external_t *out, const chat_external_item_t *item,
                   const chat_dialect_t *dialect, const chat_member_t *member,
                   chat_facts_t *facts)
{
    chat_rc_e   rc;
    chat_buf_t  text = { 0 };
    chat_str_t  payload = chat_json_raw(&out->doc, item->value);
    chat_hash_t digest;

    if (item->outcome == CHAT_OUTCOME_NONE) {
        chat_facts_approval(facts, item->id, item->approval, payload);
        return;
    }

    rc = chat_result_hash(out->tenant, &out->doc, item->value, chat_cstr(""),
                          &digest);

    if (rc == CHAT_OK && dialect->plain_text
        && item->value->type != CHAT_JSON_STRING)
    {
        chat_buf_json(&text, payload);
        rc = chat_buf_move(&text, out->doc.arena, &payload);
    }

    chat_facts_result(facts, item->id, item->outcome,
                      rc == CHAT_OK ? &digest : NULL, &member->fingerprint,
                      &payload);
}


chat_rc_e
chat_external_facts(chat_external_t *out, const chat_dialect_t *dialect,
                    const chat_batch_t *batch, chat_facts_t *facts)
{
    size_t                      i;
    const chat_member_t        *member;
    const chat_external_item_t *item = out->items;

    /* another look at the batch forgets the refusal of the last one */
    out->rc = CHAT_OK;

    for (i = 0; i < out->count && out->rc == CHAT_OK; i++, item++) {
        member = chat_external_member(out, item, dialect, batch);

        if (out->rc == CHAT_OK
            && !chat_external_is_repeated(out, item, member)) {
            chat_external_fact(out, item, dialect, member, facts);
        }
    }

    return out->rc == CHAT_OK && facts->failed ? CHAT_ERROR : out->rc;
}


size_t
chat_external_applied(const chat_facts_t *put, const chat_fact_t *facts,
                      size_t n)
{
    size_t             i, k, applied = 0;
    const chat_fact_t *own = put->items;

    for (i = 0; i < put->count; i++, own++) {
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
chat_external_refuse(const chat_external_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_format(out, "{\"error\":{\"code\":%j,\"message\":%j",
                    chat_cstr(refusal->code), chat_cstr(refusal->message));

    if (refusal->field != NULL) {
        chat_buf_format(out, ",\"field\":%j", chat_cstr(refusal->field));
    }

    if (refusal->listed) {
        chat_buf_format(out, ",\"index\":%d", (uint64_t) refusal->index);
    }

    chat_buf_puts(out, "}}\n");
}


int
chat_external_is_open(const chat_batch_t *batch)
{
    return batch->nmembers != 0 && !batch->superseded && !batch->cleared
           && batch->last.end != CHAT_END_FINISHED;
}


static int
chat_external_is_settled(const chat_member_t *member)
{
    return member->outcome != CHAT_OUTCOME_NONE
           || (member->kind == CHAT_KIND_APPROVAL
               && member->approval != CHAT_APPROVAL_NONE);
}


#define CHAT_EXTERNAL_BOOL(value) ((value) ? "true" : "false")


static void
chat_external_call(const chat_member_t *member, chat_buf_t *out)
{
    chat_buf_format(out, "{\"toolCallId\":%j,\"kind\":\"%s\",\"settled\":%s",
                    member->id,
                    member->kind == CHAT_KIND_APPROVAL ? "approval" : "client",
                    CHAT_EXTERNAL_BOOL(chat_external_is_settled(member)));

    if (member->outcome != CHAT_OUTCOME_NONE) {
        chat_buf_format(out, ",\"outcome\":\"%s\"",
                        chat_outcome_names[member->outcome]);
    }

    if (member->approval != CHAT_APPROVAL_NONE) {
        chat_buf_format(
            out, ",\"approved\":%s",
            CHAT_EXTERNAL_BOOL(member->approval == CHAT_APPROVAL_GRANTED));
    }

    chat_buf_puts(out, "}");
}


typedef enum {
    CHAT_EXTERNAL_ALL,    /* each call as an object */
    CHAT_EXTERNAL_IDS,    /* their ids */
    CHAT_EXTERNAL_MISSING /* the ids of those without an outcome */
} chat_external_list_e;

/* Writes the calls of the batch that the client must answer. */
static void
chat_external_calls(const chat_batch_t *batch, chat_external_list_e list,
                    chat_buf_t *out)
{
    size_t               i;
    const char          *comma = "";
    const chat_member_t *member;

    for (i = 0; i < batch->nmembers; i++) {
        member = &batch->members[i];

        if (!member->is_call || member->kind == CHAT_KIND_PROVIDER
            || (list == CHAT_EXTERNAL_MISSING
                && chat_external_is_settled(member)))
        {
            continue;
        }

        chat_buf_puts(out, comma);
        comma = ",";

        if (list == CHAT_EXTERNAL_ALL) {
            chat_external_call(member, out);
        } else {
            chat_buf_json(out, member->id);
        }
    }
}


static void
chat_external_attempt(const chat_attempt_t *attempt, chat_buf_t *out)
{
    if (attempt->k == 0) {
        chat_buf_puts(out, "null");
        return;
    }

    chat_buf_format(out, "{\"number\":%u", attempt->k);

    if (attempt->answer != 0) {
        chat_buf_format(out, ",\"status\":%u", attempt->answer);
    }

    chat_buf_format(out, ",\"state\":\"%s\"}",
                    attempt->is_void ? "void"
                    : attempt->end == CHAT_END_NONE
                        ? "running"
                        : chat_end_names[attempt->end]);
}


void
chat_external_show(const chat_batch_t         *batch,
                   const chat_indexed_batch_t *recorded,
                   chat_str_t conversation, chat_buf_t *out)
{
    char name[17];

    chat_hex(recorded->names[0].bytes, 8, name);

    chat_buf_format(out,
                    "{\"conversation\":%j,\"dialect\":%j,\"batch\":\"%s\","
                    "\"since\":%d,\"open\":%s,\"sealed\":%s,\"broken\":%s,"
                    "\"superseded\":%s,\"cleared\":%s,\"calls\":[",
                    conversation, recorded->dialect, name, batch->since,
                    CHAT_EXTERNAL_BOOL(chat_external_is_open(batch)),
                    CHAT_EXTERNAL_BOOL(batch->sealed),
                    CHAT_EXTERNAL_BOOL(batch->broken),
                    CHAT_EXTERNAL_BOOL(batch->superseded),
                    CHAT_EXTERNAL_BOOL(batch->cleared));
    chat_external_calls(batch, CHAT_EXTERNAL_ALL, out);
    chat_buf_puts(out, "],\"missing\":[");
    chat_external_calls(batch, CHAT_EXTERNAL_MISSING, out);
    chat_buf_puts(out, "],\"attempt\":");
    chat_external_attempt(&batch->last, out);
    chat_buf_puts(out, "}\n");
}


void
chat_external_cleared(const chat_batch_t *batch, chat_buf_t *out)
{
    chat_buf_puts(out, "{\"cleared\":[");

    if (batch != NULL) {
        chat_external_calls(batch, CHAT_EXTERNAL_IDS, out);
    }

    chat_buf_puts(out, "]}\n");
}
