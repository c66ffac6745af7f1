/*
 * chat_dialect_ai_sdk_write.c: what the module itself says to an AI SDK
 * client.
 *
 * Promises: every chunk is one data: line with one blank line behind it and
 * of a type that versions 5 to 7 accept, fields included; what no client
 * takes in its present state is not written.
 * Must not know: why something is said, streams that are being read.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"


static void
chat_ai_sdk_chunk(chat_buf_t *out, const char *json)
{
    chat_buf_printf(out, "data: %s\n\n", json);
}


/*
 * One result. A client fails on one for a call that is not in its last
 * message, and has no chunk for an approval that was decided elsewhere: for
 * these nothing is written, and 0 answered.
 */
static int
chat_ai_sdk_tell_one(const chat_result_t *result, chat_buf_t *out)
{
    const char *type, *key;
    chat_str_t  value = result->payload;

    if (result->call == NULL || !result->call->in_last_message) {
        return 0;
    }

    switch (result->outcome) {
    case CHAT_OUTCOME_OK:
        type = "tool-output-available";
        key = ",\"output\":";
        value = value.len != 0 ? value : chat_cstr("null");
        break;
    case CHAT_OUTCOME_ERROR:
        type = "tool-output-error";
        key = ",\"errorText\":";
        value = value.len != 0 ? value : chat_cstr("\"\"");
        break;
    case CHAT_OUTCOME_DENIED:
        type = "tool-output-denied";
        key = NULL;
        break;
    default:
        return 0;
    }

    chat_buf_printf(out, "data: {\"type\":\"%s\",\"toolCallId\":", type);
    chat_buf_json(out, result->call->id);

    if (key != NULL) {
        chat_buf_puts(out, key);
        chat_buf_one_line(out, value);

        if (result->call->dynamic) {
            chat_buf_puts(out, ",\"dynamic\":true");
        }
    }

    chat_buf_puts(out, "}\n\n");

    return 1;
}


void
chat_ai_sdk_tell(const chat_result_t *results, size_t n, chat_buf_t *out)
{
    size_t i;

    for (i = 0; i < n; i++) {
        (void) chat_ai_sdk_tell_one(&results[i], out);
    }
}


void
chat_ai_sdk_bounce(const chat_request_t *rq, const chat_result_t *results,
                   size_t n, chat_buf_t *out)
{
    chat_ai_sdk_tell(results, n, out);
    chat_ai_sdk_chunk(out, "{\"type\":\"start\"}");
    chat_ai_sdk_chunk(out, "{\"type\":\"finish\"}");
    chat_ai_sdk_chunk(out, "[DONE]");
}


/*
 * A turn that adds one empty step: after a turn that adds nothing the client
 * would send the same again at once. It takes the new step over only with a
 * further write behind it: a second start with its own message's id, or a
 * result.
 */
chat_rc_e
chat_ai_sdk_empty(const chat_request_t *rq, const chat_result_t *results,
                  size_t n, chat_buf_t *out)
{
    chat_buf_t publish = { 0 };
    size_t     i = 0;

    if (rq->last_message.len != 0) {
        chat_buf_puts(&publish, "data: {\"type\":\"start\",\"messageId\":");
        chat_buf_json(&publish, rq->last_message);
        chat_buf_puts(&publish, "}\n\n");

    } else {
        while (i < n && !chat_ai_sdk_tell_one(&results[i++], &publish)) {
            /* void */
        }

        if (publish.len == 0 && !publish.failed) {
            return CHAT_DECLINED;
        }
    }

    chat_ai_sdk_tell(results + i, n - i, out);
    chat_ai_sdk_chunk(out, "{\"type\":\"start\"}");
    chat_ai_sdk_chunk(out, "{\"type\":\"start-step\"}");
    chat_buf_add(out, chat_buf_str(&publish));
    chat_ai_sdk_chunk(out, "{\"type\":\"finish-step\"}");
    chat_ai_sdk_chunk(out, "{\"type\":\"finish\"}");
    chat_ai_sdk_chunk(out, "[DONE]");

    out->failed |= publish.failed;
    chat_buf_free(&publish);

    return CHAT_OK;
}


/* A call whose input breaks off would stay half open in the client. */
static void
chat_ai_sdk_close_call(const chat_reader_t *reader, chat_str_t id,
                       chat_buf_t *out)
{
    const chat_ai_sdk_call_t *own = chat_calls_find(&reader->calls, id);

    if (own == NULL) {
        return;
    }

    chat_buf_puts(out, "data: {\"type\":\"tool-input-error\",\"toolCallId\":");
    chat_buf_json(out, id);
    chat_buf_puts(out, ",\"toolName\":");
    chat_buf_json(out, own->call.name);
    chat_buf_puts(out, ",\"input\":{},\"errorText\":\"The stream broke off "
                       "before the input was complete.\"");
    chat_buf_puts(out, own->dynamic ? ",\"dynamic\":true}\n\n" : "}\n\n");
}


void
chat_ai_sdk_interrupted(void *state, const chat_interruption_t *in,
                        chat_buf_t *out)
{
    size_t i;

    for (i = 0; i < in->nhalf_open; i++) {
        chat_ai_sdk_close_call(state, in->half_open[i], out);
    }

    chat_buf_puts(out, "data: {\"type\":\"data-chat-interrupted\",\"data\":"
                       "{\"reason\":");
    chat_buf_json(out, chat_cstr(in->reason));
    chat_buf_printf(out, ",\"resumable\":%s},\"transient\":true}\n\n",
                    in->resumable ? "true" : "false");

    chat_buf_puts(out, "data: {\"type\":\"error\",\"errorText\":");
    chat_buf_puts(out, "\"The answer broke off before it was complete "
                       "(stream_interrupted: ");
    chat_buf_puts(out, in->reason);
    chat_buf_puts(out, in->resumable ? "); it can be resumed.\"}\n\n"
                                     : ").\"}\n\n");
}


void
chat_ai_sdk_refuse_in_band(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_t text = { 0 };

    chat_buf_puts(&text, refusal->code);
    chat_buf_puts(&text, ": ");
    chat_refusal_text(refusal, &text);

    chat_buf_puts(out, "data: {\"type\":\"error\",\"errorText\":");
    chat_buf_json(out, chat_buf_str(&text));
    chat_buf_puts(out, "}\n\n");

    out->failed |= text.failed;
    chat_buf_free(&text);
}


chat_rc_e
chat_ai_sdk_rename(chat_json_doc_t *doc, chat_str_t from, chat_str_t to,
                   chat_edits_t *edits)
{
    chat_rc_e          rc;
    chat_buf_t         text = { 0 };
    const chat_json_t *type = chat_json_get(doc, doc->root, "type"), *id;

    if (!chat_json_is(doc, type, "start")) {
        return CHAT_DECLINED;
    }

    id = chat_json_get(doc, doc->root, "messageId");
    if (id == NULL || !chat_str_eq(chat_json_string(doc, id), from)) {
        return CHAT_OK;
    }

    chat_buf_json(&text, to);
    rc = chat_edits_buf(edits, id->start, id->end - id->start, &text);
    chat_buf_free(&text);
    return rc;
}
