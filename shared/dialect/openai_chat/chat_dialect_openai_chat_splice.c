/*
 * chat_dialect_openai_chat_splice.c: puts results into Chat Completions.
 *
 * A result is a tool message behind its assistant message. Promises: results
 * stand in the model's order of calls, as far as those that are there do; no
 * id gets a second tool message; nothing else is touched.
 * Must not know: where results come from.
 */

#include "dialect/openai_chat/chat_dialect_openai_chat.h"


/* A tool message has no mark for errors: its words have to say it. */
static void
chat_completions_content(const chat_result_t *result, chat_buf_t *out)
{
    chat_buf_t error = { 0 };

    if (result->outcome == CHAT_OUTCOME_OK) {
        chat_buf_add(out, result->payload);
        return;
    }

    chat_buf_puts(&error, "{\"error\":");
    chat_buf_add(&error, result->payload);
    chat_buf_puts(&error, "}");
    chat_buf_json(out, chat_buf_str(&error));

    out->failed |= error.failed;
    chat_buf_free(&error);
}


chat_rc_e
chat_openai_chat_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                        const chat_result_t *results, size_t n,
                        chat_edits_t *edits)
{
    size_t                i;
    chat_rc_e             rc = CHAT_OK;
    chat_buf_t            text = { 0 };
    const chat_call_t    *call;
    const chat_result_t **map, *result;

    map = chat_results_map(rq, results, n, 1, edits->arena);
    if (map == NULL) {
        return CHAT_ERROR;
    }

    /* Edits at one place are applied as added: in the order of the calls. */
    for (i = 0; i < rq->ncalls && rc == CHAT_OK; i++) {
        call = &rq->calls[i];

        result = map[i];
        if (result == NULL) {
            continue;
        }

        text.len = 0;
        chat_buf_puts(&text, ",{\"role\":\"tool\",\"tool_call_id\":");
        chat_buf_json(&text, call->id);
        chat_buf_puts(&text, ",\"content\":");
        chat_completions_content(result, &text);
        chat_buf_puts(&text, "}");

        rc = chat_edits_buf(edits, call->place->end, 0, &text);
    }

    chat_buf_free(&text);

    return rc;
}
