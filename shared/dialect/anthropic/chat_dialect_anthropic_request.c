/*
 * chat_dialect_anthropic_request.c: request bodies of Anthropic Messages.
 *
 * A step is an assistant message with tool_use blocks; its results are the
 * tool_result blocks of the user messages behind it. With a thread the calls
 * are at the provider, and results stand alone.
 * Promises: an inserted result precedes all blocks but results, and no
 * cache_control moves.
 */

#include "dialect/anthropic/chat_dialect_anthropic.h"


static chat_part_e
block_is(chat_json_doc_t *doc, const chat_json_t *block, chat_str_t *text)
{
    if (chat_anthropic_type(doc, block, "tool_result")) {
        return CHAT_PART_RESULT;
    }

    if (!chat_anthropic_type(doc, block, "text")) {
        return CHAT_PART_WORDS;
    }

    *text = chat_json_text(doc, block, "text");
    return CHAT_PART_TEXT;
}


static chat_role_e
message_role(chat_json_doc_t *doc, const chat_json_t *message)
{
    const chat_json_t *content = chat_json_get(doc, message, "content");

    if (chat_anthropic_role(doc, message, "assistant")) {
        return CHAT_ROLE_ASSISTANT;
    }

    if (!chat_anthropic_role(doc, message, "user")) {
        return CHAT_ROLE_OTHER;
    }

    /* an object alone is no content */
    return content != NULL && content->type != CHAT_JSON_OBJECT
                   && chat_transcript_has_words(doc, content, block_is)
               ? CHAT_ROLE_USER
               : CHAT_ROLE_RESULTS;
}


static chat_rc_e
message_calls(chat_transcript_t *t, const chat_json_t *message)
{
    chat_rc_e          rc = CHAT_OK;
    const chat_json_t *block = chat_anthropic_blocks(t->doc, message);

    for (/* void */; block != NULL && rc == CHAT_OK; block = block->next) {
        chat_call_t call = { .node = block, .ready = 1 };

        if (chat_anthropic_call(t->doc, block, &call.kind)) {
            call.id = chat_json_text(t->doc, block, "id");
            rc = chat_transcript_call(t, &call, chat_call_is_member(&call));
        }
    }

    return rc;
}


static chat_rc_e
message_results(chat_transcript_t *t, const chat_json_t *message)
{
    int                first = message == t->behind;
    chat_rc_e          rc = CHAT_OK;
    const chat_json_t *block = chat_anthropic_blocks(t->doc, message);

    for (/* void */; block != NULL && rc == CHAT_OK; block = block->next) {
        if (chat_anthropic_type(t->doc, block, "tool_result")) {
            /* results can only be added to those that open the message */
            rc = chat_transcript_result(
                t, chat_json_text(t->doc, block, "tool_use_id"),
                CHAT_KIND_CLIENT, block, first ? block : NULL);

        } else {
            first = 0;
        }
    }

    return rc;
}


static chat_str_t
call_args(chat_transcript_t *t, chat_call_t *call)
{
    call->name = chat_json_text(t->doc, call->node, "name");

    return chat_json_raw(t->doc, chat_json_get(t->doc, call->node, "input"));
}


static chat_rc_e
call_result(chat_transcript_t *t, chat_call_t *call)
{
    call->outcome =
        chat_json_true(chat_json_get(t->doc, call->result, "is_error"))
            ? CHAT_OUTCOME_ERROR
            : CHAT_OUTCOME_OK;

    return chat_transcript_value(
        t, chat_json_get(t->doc, call->result, "content"), "\"\"", call);
}


static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_arena_t *arena, chat_buf_t *out)
{
    if (result->outcome == CHAT_OUTCOME_NONE) {
        return CHAT_DECLINED;
    }

    chat_buf_puts(out, "{\"type\":\"tool_result\",\"tool_use_id\":");
    chat_buf_json(out, result->id);
    chat_buf_puts(out, ",\"content\":");
    chat_buf_add(out, result->payload);
    chat_buf_puts(
        out, result->outcome == CHAT_OUTCOME_OK ? "}" : ",\"is_error\":true}");

    return CHAT_OK;
}


/*
 * The front of the user message behind the assistant's. Where it cannot take
 * blocks, a message of results alone goes before it: the provider joins user
 * messages in a row.
 */
static chat_rc_e
find_front(chat_json_doc_t *doc, const chat_json_t *assistant,
           chat_front_t *front)
{
    const chat_json_t *list = chat_json_get(doc, doc->root, "messages");
    const chat_json_t *user = assistant ? assistant->next : list->child;
    const chat_json_t *content = chat_json_get(doc, user, "content");

    if (content != NULL && content->type == CHAT_JSON_ARRAY
        && chat_anthropic_role(doc, user, "user"))
    {
        front->pos =
            content->child ? content->child->start : content->start + 1;
        front->open = "";
        front->close = content->child ? "," : "";

    } else if (assistant != NULL) {
        front->pos = assistant->end;
        front->open = ",{\"role\":\"user\",\"content\":[";
        front->close = "]}";

    } else if (user != NULL) {
        front->pos = user->start;
        front->open = "{\"role\":\"user\",\"content\":[";
        front->close = "]},";

    } else {
        return CHAT_BAD;
    }

    return CHAT_OK;
}


static const chat_transcript_form_t form = {
    .list = "messages",
    .role = message_role,
    .calls = message_calls,
    .results = message_results,
    .args = call_args,
    .result = call_result,
    .parts = "content",
    .part = block_is,
    .mixed = CHAT_CLASS_FRESH,
    .write = write_result,
    .front = find_front,
};


/* A body whose calls are in the provider's thread. */
static chat_rc_e
read_thread(chat_transcript_t *t, chat_str_t previous)
{
    chat_rc_e rc = chat_transcript_chain(t, previous);

    if (rc == CHAT_OK) {
        rc = chat_transcript_tail(t);
    }

    t->rq->answers = t->rq->class != CHAT_CLASS_OTHER;

    /* without words the step is named by what they led to */
    if (t->words == NULL) {
        chat_digest(previous, &t->rq->next.user_text);
    }

    return rc;
}


chat_rc_e
chat_anthropic_request(chat_json_doc_t *doc, chat_arena_t *arena,
                       chat_request_t *rq)
{
    chat_rc_e          rc;
    chat_str_t         previous;
    chat_transcript_t  t;
    const chat_json_t *thread, *list;

    list = chat_json_get(doc, doc->root, "messages");

    if (list == NULL || list->type != CHAT_JSON_ARRAY
        || chat_json_get(doc, list->child, "parts") != NULL)
    {
        return CHAT_DECLINED;
    }

    thread = chat_json_get(doc, doc->root, "thread");
    previous = chat_json_text(doc, thread, "previous_message_id");

    rq->stream = chat_json_true(chat_json_get(doc, doc->root, "stream"));
    rq->stored = thread && thread->type == CHAT_JSON_OBJECT;

    chat_transcript_init(&t, &form, doc, arena, rq);
    rc = chat_transcript_read(&t, list);

    if (rc == CHAT_OK && previous.len != 0 && t.assistant == NULL) {
        rc = read_thread(&t, previous);
    }

    return chat_transcript_end(&t, rc);
}


chat_rc_e
chat_anthropic_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                      const chat_result_t *results, size_t n,
                      chat_edits_t *edits)
{
    return chat_transcript_splice(&form, doc, rq, results, n, edits);
}
