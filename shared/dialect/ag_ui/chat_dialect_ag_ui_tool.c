/*
 * chat_dialect_ag_ui_tool.c: calls and results as AG-UI's messages have them.
 *
 * A result is a tool message: an id of its own, the call's, content (a text
 * or parts) and maybe an error. It is kept whole, so that whoever gets it has
 * the message that its client has. A service outside gives a bare value: the
 * message is made of it, with an id made of the call's, the same wherever it
 * is made.
 * Must not know: where in a body a message goes, streams.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


chat_str_t
chat_ag_ui_call_name(chat_json_doc_t *doc, const chat_json_t *call)
{
    const chat_json_t *function = chat_json_get(doc, call, "function");

    return chat_json_text(doc, function, "name");
}


chat_str_t
chat_ag_ui_call_args(chat_json_doc_t *doc, const chat_json_t *call)
{
    const chat_json_t *function = chat_json_get(doc, call, "function");
    const chat_json_t *args = chat_json_get(doc, function, "arguments");

    return args != NULL && args->type == CHAT_JSON_STRING
               ? chat_json_string(doc, args)
               : chat_json_raw(doc, args);
}


/* The member error of a tool message, if it says that there was one. */
static const chat_json_t *
chat_ag_ui_tool_error(chat_json_doc_t *doc, const chat_json_t *message)
{
    const chat_json_t *error = chat_json_get(doc, message, "error");

    return error != NULL && error->type == CHAT_JSON_STRING
                   && error->end - error->start > 2
               ? error
               : NULL;
}


chat_rc_e
chat_ag_ui_tool_result(chat_json_doc_t *doc, const chat_json_t *message,
                       chat_outcome_e *outcome, chat_digest_t *digest)
{
    chat_str_t         parts[2];
    chat_digest_t      content;
    const chat_json_t *node = chat_json_get(doc, message, "content");
    const chat_json_t *error = chat_ag_ui_tool_error(doc, message);

    *outcome = error != NULL ? CHAT_OUTCOME_ERROR : CHAT_OUTCOME_OK;

    if (node == NULL) {
        chat_digest(chat_cstr("\"\""), digest);
    } else if (chat_json_digest(doc, node, digest) != CHAT_OK) {
        return CHAT_ERROR;
    }

    if (error != NULL) {
        content = *digest;
        parts[0] = chat_str(content.bytes, CHAT_DIGEST_SIZE);
        parts[1] = chat_json_string(doc, error);
        chat_digest_parts(parts, 2, digest);
    }

    return CHAT_OK;
}


/* A value as the content of a message: a text is one, of others the JSON. */
static chat_rc_e
chat_ag_ui_tool_text(const chat_json_doc_t *value, chat_arena_t *arena,
                     chat_str_t *out)
{
    chat_rc_e  rc;
    chat_buf_t text = { 0 };

    *out = value->text;
    if (value->root->type == CHAT_JSON_STRING) {
        return CHAT_OK;
    }

    chat_buf_json(&text, value->text);
    rc = chat_buf_dup(&text, arena, out);
    chat_buf_free(&text);
    return rc;
}


chat_rc_e
chat_ag_ui_tool_read(const chat_result_t *result, chat_arena_t *arena,
                     chat_ag_ui_tool_t *tool)
{
    chat_rc_e          rc;
    chat_json_doc_t    value;
    const chat_json_t *root, *id;

    memset(tool, 0, sizeof(*tool));

    rc = chat_json_parse(&value, arena, result->payload);
    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_BAD;
    }

    root = value.root;

    if (chat_ag_ui_role(&value, root) == CHAT_ROLE_RESULTS
        && chat_str_eq(chat_json_text(&value, root, "toolCallId"), result->id))
    {
        id = chat_json_get(&value, root, "id");
        if (chat_json_string(&value, id).len != 0) {
            tool->id = chat_json_raw(&value, id);
        }

        tool->content =
            chat_json_raw(&value, chat_json_get(&value, root, "content"));
        tool->error =
            chat_json_raw(&value, chat_ag_ui_tool_error(&value, root));
        return CHAT_OK;
    }

    rc = chat_ag_ui_tool_text(&value, arena, &tool->content);
    if (result->outcome == CHAT_OUTCOME_ERROR) {
        tool->error = tool->content;
    }

    return rc;
}


void
chat_ag_ui_tool_id(const chat_result_t *result, const chat_ag_ui_tool_t *tool,
                   chat_buf_t *out)
{
    chat_buf_t id = { 0 };

    if (tool->id.len != 0) {
        chat_buf_add(out, tool->id);
        return;
    }

    chat_buf_puts(&id, "result-");
    chat_buf_add(&id, result->id);
    chat_buf_json(out, chat_buf_str(&id));
    out->failed |= id.failed;
    chat_buf_free(&id);
}
