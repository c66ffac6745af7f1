/*
 * chat_dialect_ag_ui_transcript.c: what counts of an AG-UI message where two
 * transcripts are compared.
 *
 * Two pages of one thread have the same words, calls and results, but not
 * always the same ids of messages, and one page may lack what is told beside
 * the answer (reasoning, activity).
 * Promises: a message of no words and no calls leaves no trace.
 * Must not know: what the digest is for.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


static void
chat_ag_ui_say(chat_transcript_digest_t *transcript, const char *what,
               const chat_json_t *value)
{
    if (value == NULL || value->type == CHAT_JSON_NULL
        || (value->type == CHAT_JSON_STRING && value->end - value->start == 2))
    {
        return;
    }

    chat_buf_puts(&transcript->text, what);
    chat_json_canon(&transcript->doc, value, &transcript->text);
}


/* The calls of an assistant's message, each by id, name and arguments. */
static void
chat_ag_ui_say_calls(chat_transcript_digest_t *transcript,
                     const chat_json_t        *list)
{
    chat_json_doc_t   *doc = &transcript->doc;
    const chat_json_t *call, *function;

    call = list != NULL && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

    for (/* void */; call != NULL; call = call->next) {
        function = chat_json_get(doc, call, "function");
        chat_ag_ui_say(transcript, "call", chat_json_get(doc, call, "id"));
        chat_ag_ui_say(transcript, "name",
                       chat_json_get(doc, function, "name"));
        chat_ag_ui_say(transcript, "arguments",
                       chat_json_get(doc, function, "arguments"));
    }
}


void
chat_ag_ui_says(chat_transcript_digest_t *transcript,
                const chat_json_t *message, uint32_t until)
{
    const char        *role;
    chat_json_doc_t   *doc = &transcript->doc;
    const chat_json_t *list;

    if (message->end > until) {
        return;
    }

    switch (chat_ag_ui_role(doc, message)) {
    case CHAT_AG_UI_USER:
        role = "user";
        break;

    case CHAT_AG_UI_ASSISTANT:
        role = "assistant";
        break;

    case CHAT_AG_UI_TOOL:
        role = "tool";
        break;

    default:
        role =
            chat_json_is(doc, chat_json_get(doc, message, "role"), "system")
                    || chat_json_is(doc, chat_json_get(doc, message, "role"),
                                    "developer")
                ? "system"
                : NULL;
    }

    if (role == NULL) {
        return;
    }

    list = chat_json_get(doc, message, "toolCalls");

    if (role[0] == 't') {
        chat_ag_ui_say(transcript, "of",
                       chat_json_get(doc, message, "toolCallId"));
        chat_ag_ui_say(transcript, "error",
                       chat_json_get(doc, message, "error"));
    }

    chat_ag_ui_say(transcript, role, chat_json_get(doc, message, "content"));
    chat_ag_ui_say_calls(transcript, list);
}
