/*
 * chat_outside_body.c: reads the body of results from outside; see
 * chat_outside.h.
 *
 * Promises: a body that could be read in two ways is refused.
 * Must not know: what of it a batch can take.
 */

#include "policy/chat_outside.h"


static chat_rc_e
chat_outside_bad(chat_outside_t *out, const char *field, const char *message)
{
    out->refusal.status = 400;
    out->refusal.code = "invalid";
    out->refusal.field = field;
    out->refusal.message = message;
    return CHAT_BAD;
}


/* A member that is a string with something in it; else it is refused. */
static chat_rc_e
chat_outside_text(chat_outside_t *out, const chat_json_t *object,
                  const char *field, chat_str_t *text)
{
    const chat_json_t *node = chat_json_get(&out->doc, object, field);

    if (node == NULL) {
        return chat_outside_bad(out, field, "this member is missing");
    }

    if (node->type != CHAT_JSON_STRING) {
        return chat_outside_bad(out, field, "this member must be a string");
    }

    *text = chat_json_string(&out->doc, node);
    if (text->data == NULL) {
        return CHAT_ERROR;
    }

    return text->len != 0
               ? CHAT_OK
               : chat_outside_bad(out, field, "this member must not be empty");
}


/* The one of output, errorText and approved that is there. */
static chat_rc_e
chat_outside_which(chat_outside_t *out, const chat_json_t *object,
                   const char **field, const chat_json_t **value)
{
    size_t             i;
    const chat_json_t *node;

    static const char *const fields[] = { "output", "errorText", "approved" };

    *value = NULL;

    for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        node = chat_json_get(&out->doc, object, fields[i]);
        if (node == NULL) {
            continue;
        }

        if (*value != NULL) {
            return chat_outside_bad(out, fields[i],
                                    "only one of output, errorText and "
                                    "approved may be given");
        }

        *field = fields[i];
        *value = node;
    }

    return *value != NULL ? CHAT_OK
                          : chat_outside_bad(out, "output",
                                             "one of output, errorText and "
                                             "approved must be given");
}


/* What was decided, and why. */
static chat_rc_e
chat_outside_decision(chat_outside_t *out, const chat_json_t *reason,
                      const chat_json_t *value, chat_outside_item_t *item)
{
    if (value->type != CHAT_JSON_TRUE && value->type != CHAT_JSON_FALSE) {
        return chat_outside_bad(out, "approved",
                                "this member must be true or false");
    }

    if (reason != NULL && reason->type != CHAT_JSON_STRING) {
        return chat_outside_bad(out, "reason", "this member must be a string");
    }

    item->approval = value->type == CHAT_JSON_TRUE ? CHAT_APPROVAL_GRANTED
                                                   : CHAT_APPROVAL_REFUSED;
    item->value = reason;
    return CHAT_OK;
}


static chat_rc_e
chat_outside_value(chat_outside_t *out, const chat_json_t *object,
                   chat_outside_item_t *item, size_t max_result)
{
    chat_rc_e          rc;
    const char        *field = NULL;
    const chat_json_t *value, *reason;

    rc = chat_outside_which(out, object, &field, &value);
    if (rc != CHAT_OK) {
        return rc;
    }

    reason = chat_json_get(&out->doc, object, "reason");

    if (strcmp(field, "approved") == 0) {
        rc = chat_outside_decision(out, reason, value, item);
        field = "reason";

    } else if (reason != NULL) {
        return chat_outside_bad(out, "reason",
                                "this member belongs to approved alone");

    } else if (strcmp(field, "output") == 0) {
        item->outcome = CHAT_OUTCOME_OK;
        item->value = value;

    } else if (value->type != CHAT_JSON_STRING) {
        return chat_outside_bad(out, field, "this member must be a string");

    } else {
        item->outcome = CHAT_OUTCOME_ERROR;
        item->value = value;
    }

    if (rc == CHAT_OK
        && chat_json_raw(&out->doc, item->value).len > max_result) {
        rc = chat_outside_bad(out, field,
                              "this member is longer than chat_max_result");
        out->refusal.status = 413;
        out->refusal.code = "too_large";
    }

    return rc;
}


static chat_rc_e
chat_outside_item(chat_outside_t *out, const chat_json_t *object,
                  size_t max_result)
{
    chat_rc_e            rc;
    chat_str_t           conversation;
    chat_outside_item_t *item = &out->items[out->count];

    if (object->type != CHAT_JSON_OBJECT) {
        return chat_outside_bad(out, NULL, "a result must be an object");
    }

    rc = chat_outside_text(out, object, "conversation", &conversation);
    if (rc != CHAT_OK) {
        return rc;
    }

    if (out->count == 0) {
        out->conversation = conversation;

    } else if (!chat_str_eq(conversation, out->conversation)) {
        return chat_outside_bad(
            out, "conversation",
            "this member must be the same in the whole list");
    }

    rc = chat_outside_text(out, object, "toolCallId", &item->id);
    if (rc == CHAT_OK && item->id.len > CHAT_ID_MAX) {
        rc = chat_outside_bad(out, "toolCallId", "this member is too long");
    }

    if (rc == CHAT_OK) {
        rc = chat_outside_value(out, object, item, max_result);
    }

    if (rc == CHAT_OK && out->doc.duplicate) {
        rc = chat_outside_bad(out, NULL, "this result has a member twice");
    }

    item->index = out->count++;
    return rc;
}


/* The text as a tree; of a list the first element. */
static chat_rc_e
chat_outside_parse(chat_outside_t *out, chat_arena_t *arena, chat_str_t text,
                   size_t max_calls, const chat_json_t **first)
{
    size_t    n = 1;
    chat_rc_e rc;

    rc = chat_json_parse(&out->doc, arena, text);
    if (rc == CHAT_ERROR) {
        return rc;
    }

    if (rc != CHAT_OK) {
        return chat_outside_bad(out, NULL, "the body is not JSON");
    }

    *first = out->doc.root;
    out->listed = out->doc.root->type == CHAT_JSON_ARRAY;

    if (out->listed) {
        *first = out->doc.root->child;
        n = chat_json_count(out->doc.root);
    }

    if (n == 0) {
        return chat_outside_bad(out, NULL, "the list is empty");
    }

    if (n > max_calls) {
        return chat_outside_bad(out, NULL,
                                "the list is longer than chat_max_calls");
    }

    out->items = chat_arena_alloc(arena, n * sizeof(*out->items));
    return out->items != NULL ? CHAT_OK : CHAT_ERROR;
}


chat_rc_e
chat_outside_read(chat_outside_t *out, chat_arena_t *arena, chat_str_t text,
                  size_t max_calls, size_t max_result)
{
    chat_rc_e          rc;
    const chat_json_t *object = NULL;

    memset(out, 0, sizeof(*out));

    rc = chat_outside_parse(out, arena, text, max_calls, &object);
    if (rc != CHAT_OK) {
        return rc;
    }

    out->refusal.listed = out->listed;

    for (; object != NULL && rc == CHAT_OK;
         object = out->listed ? object->next : NULL)
    {
        out->refusal.index = out->count;
        rc = chat_outside_item(out, object, max_result);
    }

    return rc;
}
