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


static chat_rc_e
chat_external_refused(chat_external_t *out, unsigned status, const char *code,
                      const char *field, const char *message)
{
    out->refusal.status = status;
    out->refusal.code = code;
    out->refusal.field = field;
    out->refusal.message = message;
    return CHAT_BAD;
}


static chat_rc_e
chat_external_bad(chat_external_t *out, const char *field, const char *message)
{
    return chat_external_refused(out, 400, "invalid", field, message);
}


/* Reads a member that must be a string and not empty. */
static chat_rc_e
chat_external_text(chat_external_t *out, const chat_json_t *object,
                   const char *field, chat_str_t *text)
{
    const chat_json_t *node = chat_json_get(&out->doc, object, field);

    if (node == NULL) {
        return chat_external_bad(out, field, "this member is missing");
    }

    if (node->type != CHAT_JSON_STRING) {
        return chat_external_bad(out, field, "this member must be a string");
    }

    *text = chat_json_string(&out->doc, node);
    if (text->data == NULL) {
        return CHAT_ERROR;
    }

    return text->len != 0 ? CHAT_OK
                          : chat_external_bad(out, field,
                                              "this member must not be empty");
}


/* What the result says: one of output, errorText and approved. */
static chat_rc_e
chat_external_value(chat_external_t *out, const chat_json_t *object,
                    chat_external_item_t *item, size_t max_result)
{
    const char        *field;
    const chat_json_t *output = chat_json_get(&out->doc, object, "output");
    const chat_json_t *error = chat_json_get(&out->doc, object, "errorText");
    const chat_json_t *approved = chat_json_get(&out->doc, object, "approved");
    const chat_json_t *reason = chat_json_get(&out->doc, object, "reason");

    switch ((output != NULL) + (error != NULL) + (approved != NULL)) {
    case 0:
        return chat_external_bad(out, "output",
                                 "one of output, errorText and approved must "
                                 "be given");
    case 1:
        break;

    default:
        return chat_external_bad(out,
                                 output && error ? "errorText" : "approved",
                                 "only one of output, errorText and approved "
                                 "may be given");
    }

    if (reason != NULL && approved == NULL) {
        return chat_external_bad(out, "reason",
                                 "this member belongs to approved alone");
    }

    if (approved != NULL && approved->type != CHAT_JSON_TRUE
        && approved->type != CHAT_JSON_FALSE)
    {
        return chat_external_bad(out, "approved",
                                 "this member must be true or false");
    }

    field = output ? "output" : error ? "errorText" : "reason";
    item->value = output ? output : error ? error : reason;

    if (item->value != NULL && output == NULL
        && item->value->type != CHAT_JSON_STRING)
    {
        return chat_external_bad(out, field, "this member must be a string");
    }

    if (approved != NULL) {
        item->approval = approved->type == CHAT_JSON_TRUE
                             ? CHAT_APPROVAL_GRANTED
                             : CHAT_APPROVAL_REFUSED;
    } else {
        item->outcome = output ? CHAT_OUTCOME_OK : CHAT_OUTCOME_ERROR;
    }

    return chat_json_raw(&out->doc, item->value).len <= max_result
               ? CHAT_OK
               : chat_external_refused(
                   out, 413, "too_large", field,
                   "this member is longer than result= of chat_limits");
}


static chat_rc_e
chat_external_item(chat_external_t *out, const chat_json_t *object,
                   size_t max_result)
{
    chat_rc_e             rc;
    chat_str_t            conversation;
    chat_external_item_t *item = &out->items[out->count];

    rc = chat_external_text(out, object, "conversation", &conversation);
    if (rc != CHAT_OK) {
        return rc;
    }

    if (out->count == 0) {
        out->conversation = conversation;

    } else if (!chat_str_eq(conversation, out->conversation)) {
        return chat_external_bad(
            out, "conversation",
            "this member must be the same in the whole list");
    }

    rc = chat_external_text(out, object, "toolCallId", &item->id);
    if (rc == CHAT_OK && item->id.len > CHAT_ID_MAX) {
        rc = chat_external_bad(out, "toolCallId", "this member is too long");
    }

    if (rc == CHAT_OK) {
        rc = chat_external_value(out, object, item, max_result);
    }

    if (rc == CHAT_OK && out->doc.duplicate) {
        rc = chat_external_bad(out, NULL, "this result has a member twice");
    }

    item->index = out->count++;
    return rc;
}


/* The index of the list's first element that is no object. */
static size_t
chat_external_odd(const unsigned char *text, const chat_json_t *list)
{
    size_t               n = 0;
    const chat_json_t   *one = list->child;
    const unsigned char *at = text + list->start + 1;

    for (/* void */; one != NULL; one = one->next, n++) {
        at += strspn((const char *) at, " \t\r\n,");
        if (at != text + one->start) {
            break;
        }

        at = text + one->end;
    }

    return n;
}


/* Parses the body; *first: its first result. */
static chat_rc_e
chat_external_parse(chat_external_t *out, chat_arena_t *arena, chat_str_t text,
                    size_t max_calls, const chat_json_t **first)
{
    size_t    n = 1;
    chat_rc_e rc = chat_json_parse(&out->doc, arena, text);

    if (rc == CHAT_ERROR) {
        return rc;
    }

    if (rc != CHAT_OK) {
        return chat_external_bad(out, NULL, "the body is not JSON");
    }

    *first = out->doc.root;
    out->listed = out->doc.root->type == CHAT_JSON_ARRAY;

    if (out->listed) {
        *first = out->doc.root->child;
        n = chat_json_count(out->doc.root);
    }

    if (out->doc.root->opaque
        || (!out->listed && out->doc.root->type != CHAT_JSON_OBJECT))
    {
        out->refusal.listed = out->listed;
        out->refusal.index = chat_external_odd(text.data, out->doc.root);
        return chat_external_bad(out, NULL, "a result must be an object");
    }

    if (n == 0) {
        return chat_external_bad(out, NULL, "the list is empty");
    }

    if (n > max_calls) {
        return chat_external_bad(
            out, NULL, "the list is longer than calls= of chat_limits");
    }

    out->items = chat_arena_alloc(arena, n * sizeof(*out->items));
    return out->items != NULL ? CHAT_OK : CHAT_ERROR;
}


chat_rc_e
chat_external_read(chat_external_t *out, chat_arena_t *arena, chat_str_t text,
                   size_t max_calls, size_t max_result)
{
    chat_rc_e          rc;
    const chat_json_t *object = NULL;

    memset(out, 0, sizeof(*out));

    rc = chat_external_parse(out, arena, text, max_calls, &object);
    if (rc != CHAT_OK) {
        return rc;
    }

    out->refusal.listed = out->listed;

    for (; object != NULL && rc == CHAT_OK;
         object = out->listed ? object->next : NULL)
    {
        out->refusal.index = out->count;
        rc = chat_external_item(out, object, max_result);
    }

    return rc;
}


/* Finds the call of a result; refuses a result that the call cannot take. */
static chat_rc_e
chat_external_member(chat_external_t *out, const chat_external_item_t *item,
                     const chat_dialect_t *dialect, const chat_batch_t *batch,
                     const chat_member_t **member)
{
    *member = chat_batch_find(batch, item->id);
    out->refusal.index = item->index;

    if (*member == NULL || !(*member)->is_call
        || (*member)->kind == CHAT_KIND_PROVIDER)
    {
        return chat_external_refused(out, 404, "unknown_call", "toolCallId",
                                     "the conversation's latest step has no "
                                     "such call for its client to answer");
    }

    if (item->outcome == CHAT_OUTCOME_NONE
        && (*member)->kind != CHAT_KIND_APPROVAL)
    {
        return chat_external_bad(out, "approved",
                                 "this call does not ask for an approval");
    }

    if (item->outcome != CHAT_OUTCOME_NONE
        && (*member)->kind == CHAT_KIND_APPROVAL && dialect->only_decided)
    {
        return chat_external_bad(
            out, item->outcome == CHAT_OUTCOME_OK ? "output" : "errorText",
            "this call takes approved and nothing else");
    }

    return CHAT_OK;
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


static chat_rc_e
chat_external_fact(chat_external_t *out, const chat_external_item_t *item,
                   const chat_dialect_t *dialect, const chat_member_t *member,
                   chat_facts_t *facts)
{
    chat_rc_e     rc;
    chat_buf_t    text = { 0 };
    chat_str_t    payload = chat_json_raw(&out->doc, item->value);
    chat_digest_t digest, answered;

    if (item->outcome == CHAT_OUTCOME_NONE) {
        chat_facts_approval(facts, item->id, item->approval, payload);
        return CHAT_OK;
    }

    rc = chat_json_digest(&out->doc, item->value, &digest);

    if (rc == CHAT_OK && dialect->plain_text
        && item->value->type != CHAT_JSON_STRING)
    {
        chat_buf_json(&text, payload);
        rc = chat_buf_move(&text, out->doc.arena, &payload);
    }

    memset(&answered, 0, sizeof(answered));
    memcpy(answered.bytes, member->fingerprint, sizeof(member->fingerprint));

    if (rc == CHAT_OK) {
        chat_facts_result(facts, item->id, item->outcome, &digest, &answered,
                          &payload);
    }

    return rc;
}


chat_rc_e
chat_external_facts(chat_external_t *out, const chat_dialect_t *dialect,
                    const chat_batch_t *batch, chat_facts_t *facts)
{
    size_t                i;
    chat_rc_e             rc;
    const chat_member_t  *member;
    chat_external_item_t *item;

    for (i = 0; i < out->count; i++) {
        item = &out->items[i];

        rc = chat_external_member(out, item, dialect, batch, &member);
        if (rc != CHAT_OK) {
            return rc;
        }

        item->repeated = chat_external_is_repeated(out, item, member);
        if (item->repeated) {
            continue;
        }

        item->fact = facts->count;
        if (chat_external_fact(out, item, dialect, member, facts) != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    return facts->failed ? CHAT_ERROR : CHAT_OK;
}


size_t
chat_external_applied(const chat_external_t *out, const chat_facts_t *put,
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
                        chat_outcome_name(member->outcome));
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
                        : chat_end_name(attempt->end));
}


void
chat_external_show(const chat_batch_t         *batch,
                   const chat_indexed_batch_t *recorded,
                   chat_str_t conversation, chat_buf_t *out)
{
    char name[17];

    chat_digest_hex(&recorded->names[0], 8, name);

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
