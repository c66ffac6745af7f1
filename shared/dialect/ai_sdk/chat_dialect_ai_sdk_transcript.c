/*
 * chat_dialect_ai_sdk_transcript.c: what counts of an AI SDK message where
 * two transcripts are compared.
 *
 * Two tabs of one conversation have the same words, files, calls and results,
 * but not the same ids, metadata and states: one tab made its messages
 * itself, the other was given them. An answer may be one message or several.
 * Promises: a part that does not reach the model leaves no trace.
 * Must not know: what the digest is for.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"


/* What of each part counts; a part without any of it does not count. */
static const char *const chat_part_counts[] = {
    "text",  "url",    "mediaType", "data", "toolCallId",
    "input", "output", "errorText", NULL,
};


/* 1 if the part can be something that the model is told. */
static int
chat_ai_sdk_part_says(chat_json_doc_t *doc, const chat_json_t *part, int user)
{
    chat_str_t name;

    return chat_ai_sdk_part_is(doc, part, "text")
           || chat_ai_sdk_part_is(doc, part, "file")
           || chat_ai_sdk_part_call(doc, part, &name)
           || (user
               && chat_str_starts(chat_json_text(doc, part, "type"), "data-"));
}


/* 1 if it is an empty text: the SDK does not send it to the model. */
static int
chat_ai_sdk_is_no_text(const chat_json_t *value, const char *key)
{
    return strcmp(key, "text") == 0 && value->type == CHAT_JSON_STRING
           && value->end - value->start == 2;
}


static void
chat_ai_sdk_say(chat_transcript_digest_t *transcript, const chat_json_t *part,
                chat_str_t role)
{
    int                said = 0;
    const char *const *key;
    const chat_json_t *value;
    chat_buf_t        *text = &transcript->text;

    for (key = chat_part_counts; *key != NULL; key++) {
        value = chat_json_get(&transcript->doc, part, *key);
        if (value == NULL || chat_ai_sdk_is_no_text(value, *key)) {
            continue;
        }

        if (!said) {
            chat_buf_json(text, role);
            said = 1;
        }

        chat_buf_puts(text, *key);
        chat_json_canon(&transcript->doc, value, text);
    }
}


void
chat_ai_sdk_says(chat_transcript_digest_t *transcript,
                 const chat_json_t *message, uint32_t until)
{
    int                user;
    chat_str_t         role;
    chat_json_doc_t   *doc = &transcript->doc;
    const chat_json_t *part, *parts = chat_json_get(doc, message, "parts");

    if (parts == NULL || parts->type != CHAT_JSON_ARRAY) {
        return;
    }

    role = chat_json_text(doc, message, "role");
    user = chat_str_is(role, "user");

    for (part = parts->child; part != NULL && part->end <= until;
         part = part->next)
    {
        if (chat_ai_sdk_part_says(doc, part, user)) {
            chat_ai_sdk_say(transcript, part, role);
        }
    }
}
