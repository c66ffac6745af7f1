/*
 * chat_dialect_ag_ui_write.c: what the module itself says to an AG-UI client.
 *
 * Promises: each event is one data: line and one blank line; a run that is
 * begun here is ended here; RUN_ERROR is never followed by anything.
 * Must not know: why something is said.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


static void
chat_ag_ui_run_event(const chat_request_t *rq, const char *type,
                     chat_buf_t *out)
{
    const chat_ag_ui_own_t *own = rq->own;

    chat_buf_printf(out, "data: {\"type\":\"%s\",\"threadId\":", type);
    chat_buf_json(out, rq->conversation);
    chat_buf_puts(out, ",\"runId\":");
    chat_buf_json(out, own ? own->run : chat_str(NULL, 0));
    chat_buf_puts(out, "}\n\n");
}


static void
chat_ag_ui_tell_one(const chat_result_t *result, chat_arena_t *arena,
                    chat_buf_t *out)
{
    chat_ag_ui_tool_t tool;

    /* an interrupt is no call: there is no event that answers it */
    if (result->call == NULL || result->outcome == CHAT_OUTCOME_NONE
        || chat_ag_ui_tool_read(result, arena, &tool) != CHAT_OK)
    {
        return;
    }

    chat_buf_puts(out, "data: {\"type\":\"TOOL_CALL_RESULT\",\"messageId\":");
    chat_ag_ui_tool_id(result, &tool, out);
    chat_buf_puts(out, ",\"toolCallId\":");
    chat_buf_json(out, result->id);
    chat_buf_puts(out, ",\"content\":");
    chat_buf_one_line(out, tool.content.len ? tool.content
                           : tool.error.len ? tool.error
                                            : chat_cstr("\"\""));
    chat_buf_puts(out, ",\"role\":\"tool\"}\n\n");
}


void
chat_ag_ui_tell(const chat_result_t *results, size_t n, chat_buf_t *out)
{
    size_t        i;
    chat_arena_t *arena = chat_arena_create(0);

    for (i = 0; arena != NULL && i < n; i++) {
        chat_arena_reset(arena);
        chat_ag_ui_tell_one(&results[i], arena, out);
    }

    chat_arena_destroy(arena);
}


chat_rc_e
chat_ag_ui_empty(const chat_request_t *rq, const chat_result_t *results,
                 size_t n, chat_buf_t *out)
{
    chat_ag_ui_run_event(rq, "RUN_STARTED", out);
    chat_ag_ui_tell(results, n, out);
    chat_ag_ui_run_event(rq, "RUN_FINISHED", out);

    return CHAT_OK;
}


/*
 * A run that ends well makes the client forget the interrupts that it waits
 * for: who has answered some of them is told of an error.
 */
void
chat_ag_ui_bounce(const chat_request_t *rq, const chat_result_t *results,
                  size_t n, chat_buf_t *out)
{
    chat_refusal_t refusal = { 409, "batch_incomplete",
                               "This answer is kept, but the run cannot be "
                               "resumed yet.",
                               NULL, 0 };

    if (rq->chained) {
        chat_ag_ui_refuse_in_band(&refusal, out);
        return;
    }

    (void) chat_ag_ui_empty(rq, results, n, out);
}


static void
chat_ag_ui_error(const char *code, chat_str_t message, chat_buf_t *out)
{
    chat_buf_puts(out, "data: {\"type\":\"RUN_ERROR\",\"message\":");
    chat_buf_json(out, message);
    chat_buf_puts(out, ",\"code\":");
    chat_buf_json(out, chat_cstr(code));
    chat_buf_puts(out, "}\n\n");
}


void
chat_ag_ui_interrupted(void *state, const chat_interruption_t *in,
                       chat_buf_t *out)
{
    chat_buf_t text = { 0 };

    chat_buf_puts(&text, "The run was interrupted before its end (");
    chat_buf_puts(&text, in->reason);
    chat_buf_puts(&text, in->resumable ? "); it can be resumed." : ").");

    chat_ag_ui_error("stream_interrupted", chat_buf_str(&text), out);
    out->failed |= text.failed;
    chat_buf_free(&text);
}


void
chat_ag_ui_refuse_in_band(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_t text = { 0 };

    chat_refusal_text(refusal, &text);
    chat_ag_ui_error(refusal->code, chat_buf_str(&text), out);
    out->failed |= text.failed;
    chat_buf_free(&text);
}
