/*
 * chat_dialect_ag_ui_splice.c: puts results into the input of a run.
 *
 * The result of a call is a tool message behind its step, that of an
 * interrupt an entry of resume. Promises: both stand in the order of the
 * calls, as far as those that are there do; no id gets a second one; nothing
 * else is touched.
 * Must not know: where results come from.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


/* A tool message; one that a client has sent goes in as it was. */
static chat_rc_e
chat_ag_ui_splice_message(const chat_result_t *result, chat_arena_t *arena,
                          chat_buf_t *out)
{
    chat_rc_e         rc;
    chat_ag_ui_tool_t tool;

    rc = chat_ag_ui_tool_read(result, arena, &tool);
    if (rc != CHAT_OK) {
        return rc;
    }

    if (tool.id.len != 0) {
        chat_buf_add(out, result->payload);
        return CHAT_OK;
    }

    chat_buf_puts(out, "{\"id\":");
    chat_ag_ui_tool_id(result, &tool, out);
    chat_buf_puts(out, ",\"role\":\"tool\",\"toolCallId\":");
    chat_buf_json(out, result->id);
    chat_buf_puts(out, ",\"content\":");
    chat_buf_add(out, tool.content.len ? tool.content : chat_cstr("\"\""));

    if (tool.error.len != 0) {
        chat_buf_puts(out, ",\"error\":");
        chat_buf_add(out, tool.error);
    }

    chat_buf_puts(out, "}");
    return CHAT_OK;
}


/* A decision, as agents ask for it where a call is to be approved. */
static void
chat_ag_ui_splice_decision(const chat_result_t *result, chat_buf_t *out)
{
    chat_buf_puts(out, "{\"interruptId\":");
    chat_buf_json(out, result->id);

    /* of a question that nobody has answered no agent is told an answer */
    if (result->unknown) {
        chat_buf_puts(out, ",\"status\":\"cancelled\"}");
        return;
    }

    chat_buf_printf(
        out, ",\"status\":\"resolved\",\"payload\":{\"approved\":%s",
        result->approval == CHAT_APPROVAL_GRANTED ? "true" : "false");

    if (result->payload.len != 0) {
        chat_buf_puts(out, ",\"reason\":");
        chat_buf_add(out, result->payload);
    }

    chat_buf_puts(out, "}}");
}


/* An entry of resume; one that a client has sent goes in as it was. */
static chat_rc_e
chat_ag_ui_splice_entry(const chat_result_t *result, chat_arena_t *arena,
                        chat_buf_t *out)
{
    chat_rc_e          rc;
    chat_json_doc_t    value;
    const chat_json_t *id;

    if (result->outcome == CHAT_OUTCOME_NONE) {
        chat_ag_ui_splice_decision(result, out);
        return CHAT_OK;
    }

    rc = chat_json_parse(&value, arena, result->payload);
    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_BAD;
    }

    id = chat_json_get(&value, value.root, "interruptId");
    if (chat_str_eq(chat_json_string(&value, id), result->id)) {
        chat_buf_add(out, result->payload);
        return CHAT_OK;
    }

    chat_buf_puts(out, "{\"interruptId\":");
    chat_buf_json(out, result->id);

    if (result->outcome == CHAT_OUTCOME_OK) {
        chat_buf_puts(out, ",\"status\":\"resolved\",\"payload\":");
        chat_buf_add(out, result->payload);
        chat_buf_puts(out, "}");
    } else {
        chat_buf_puts(out, ",\"status\":\"cancelled\"}");
    }

    return CHAT_OK;
}


/* Entries go behind the body's own of the calls before, or to the front. */
static chat_rc_e
chat_ag_ui_splice_resume(chat_json_doc_t *doc, const chat_result_t *result,
                         chat_edits_t *edits)
{
    size_t             pos;
    chat_rc_e          rc;
    chat_buf_t         text = { 0 };
    const chat_json_t *list = chat_json_get(doc, doc->root, "resume");

    if (list == NULL || list->child == NULL) {
        return CHAT_BAD;
    }

    pos = result->after ? result->after->node->end : list->child->start;

    chat_buf_puts(&text, result->after ? "," : "");
    rc = chat_ag_ui_splice_entry(result, edits->arena, &text);
    chat_buf_puts(&text, result->after ? "" : ",");

    if (rc == CHAT_OK) {
        rc = chat_edits_buf(edits, pos, 0, &text);
    }

    chat_buf_free(&text);
    return rc;
}


static chat_rc_e
chat_ag_ui_splice_call(const chat_call_t *call, const chat_result_t *result,
                       chat_edits_t *edits)
{
    chat_rc_e  rc;
    chat_buf_t text = { 0 };

    chat_buf_puts(&text, ",");
    rc = chat_ag_ui_splice_message(result, edits->arena, &text);

    if (rc == CHAT_OK) {
        rc = chat_edits_buf(edits, call->place->end, 0, &text);
    }

    chat_buf_free(&text);
    return rc;
}


chat_rc_e
chat_ag_ui_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                  const chat_result_t *results, size_t n, chat_edits_t *edits)
{
    size_t                i;
    chat_rc_e             rc = CHAT_OK;
    const chat_result_t **map;

    map = chat_results_map(rq, results, n, 1, edits->arena);
    if (map == NULL) {
        return CHAT_ERROR;
    }

    /* Edits at one place are applied as added: in the order of the calls. */
    for (i = 0; i < rq->ncalls && rc == CHAT_OK; i++) {
        if (map[i] != NULL) {
            rc = chat_ag_ui_splice_call(&rq->calls[i], map[i], edits);
        }
    }

    for (i = 0; i < n && rc == CHAT_OK; i++) {
        if (results[i].call == NULL) {
            rc = chat_ag_ui_splice_resume(doc, &results[i], edits);
        }
    }

    return rc;
}
