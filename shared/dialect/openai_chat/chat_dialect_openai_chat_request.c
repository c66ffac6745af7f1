/*
 * chat_dialect_openai_chat_request.c: request bodies of Chat Completions.
 *
 * A step is an assistant message with tool_calls; its results are the tool
 * messages behind it, and a missing one is inserted there.
 */

#include "dialect/openai_chat/chat_dialect_openai_chat.h"


static chat_role_e
message_role(chat_json_doc_t *doc, const chat_json_t *message)
{
    size_t i;

    static const struct {
        const char *name;
        chat_role_e role;
    } roles[] = {
        { "user", CHAT_ROLE_USER },
        { "assistant", CHAT_ROLE_ASSISTANT },
        { "tool", CHAT_ROLE_RESULTS },
        { "system", CHAT_ROLE_SYSTEM },
        { "developer", CHAT_ROLE_SYSTEM },
    };

    for (i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (chat_json_is(doc, chat_json_get(doc, message, "role"),
                         roles[i].name)) {
            return roles[i].role;
        }
    }

    return message->type == CHAT_JSON_OBJECT ? CHAT_ROLE_OTHER
                                             : CHAT_ROLE_ASIDE;
}


static chat_rc_e
message_calls(chat_transcript_t *t, const chat_json_t *message)
{
    chat_rc_e          rc = CHAT_OK;
    const chat_json_t *node, *list;

    list = chat_json_get(t->doc, message, "tool_calls");
    node = list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

    for (/* void */; node != NULL && rc == CHAT_OK; node = node->next) {
        chat_call_t call = { .node = node, .ready = 1 };

        if (node->type == CHAT_JSON_OBJECT) {
            call.id = chat_json_text(t->doc, node, "id");
            call.kind = chat_openai_chat_kind(t->doc, node);
            rc = chat_transcript_call(t, &call, 1);
        }
    }

    return rc;
}


static chat_rc_e
message_result(chat_transcript_t *t, const chat_json_t *message)
{
    return chat_transcript_result(
        t, chat_json_text(t->doc, message, "tool_call_id"), CHAT_KIND_CLIENT,
        message, message);
}


static chat_str_t
call_args(chat_transcript_t *t, chat_call_t *call)
{
    const chat_json_t *function =
        chat_openai_chat_function(t->doc, call->node);

    call->name = chat_json_text(t->doc, function, "name");

    return chat_openai_chat_arguments(t->doc, function);
}


static chat_rc_e
call_result(chat_transcript_t *t, chat_call_t *call)
{
    call->outcome = CHAT_OUTCOME_OK;

    return chat_transcript_value(
        t, chat_json_get(t->doc, call->result, "content"), "\"\"", call);
}


/* A tool message has no mark for errors: its text has to say it. */
static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_arena_t *arena, chat_buf_t *out)
{
    chat_buf_puts(out, "{\"role\":\"tool\",\"tool_call_id\":");
    chat_buf_json(out, result->id);
    chat_buf_puts(out, ",\"content\":");

    if (result->outcome == CHAT_OUTCOME_OK) {
        chat_buf_add(out, result->payload);
    } else {
        chat_result_error_text(result, out);
    }

    chat_buf_puts(out, "}");

    return CHAT_OK;
}


static const chat_transcript_form_t form = {
    .list = "messages",
    .role = message_role,
    .calls = message_calls,
    .results = message_result,
    .args = call_args,
    .result = call_result,
    .mixed = CHAT_CLASS_OTHER,
    .write = write_result,
};


chat_rc_e
chat_openai_chat_request(chat_json_doc_t *doc, chat_arena_t *arena,
                         chat_request_t *rq)
{
    chat_transcript_t  t;
    const chat_json_t *list, *first;

    list = chat_json_get(doc, doc->root, "messages");
    first = list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

    if (chat_json_text(doc, first, "role").len == 0
        || chat_json_get(doc, first, "parts") != NULL)
    {
        return CHAT_DECLINED;
    }

    rq->stream = chat_json_true(chat_json_get(doc, doc->root, "stream"));

    chat_transcript_init(&t, &form, doc, arena, rq);

    return chat_transcript_end(&t, chat_transcript_read(&t, list));
}


chat_rc_e
chat_openai_chat_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                        const chat_result_t *results, size_t n,
                        chat_edits_t *edits)
{
    return chat_transcript_splice(&form, doc, rq, results, n, edits);
}
