/*
 * chat_dialect_ai_sdk_part.c: one part of a message in the AI SDK's body.
 *
 * Promises: an unknown state or type is nobody's call to answer.
 * Must not know: messages, streams, stores, policy.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"


static const struct {
    const char        *name;
    chat_ai_sdk_part_e state;
} chat_ai_sdk_part_states[] = {
    { "input-streaming", CHAT_PART_STREAMING },
    { "input-available", CHAT_PART_READY },
    { "approval-requested", CHAT_PART_ASKED },
    { "approval-responded", CHAT_PART_RESPONDED },
    { "output-available", CHAT_PART_OK },
    { "output-error", CHAT_PART_ERROR },
    { "output-denied", CHAT_PART_DENIED },
};


chat_ai_sdk_part_e
chat_ai_sdk_part_state(chat_json_doc_t *doc, const chat_json_t *part)
{
    const chat_json_t *state = chat_json_get(doc, part, "state");
    size_t             i;

    for (i = 0; i < sizeof(chat_ai_sdk_part_states)
                        / sizeof(chat_ai_sdk_part_states[0]);
         i++)
    {
        if (chat_json_is(doc, state, chat_ai_sdk_part_states[i].name)) {
            return chat_ai_sdk_part_states[i].state;
        }
    }

    return CHAT_PART_UNKNOWN;
}


int
chat_ai_sdk_part_is(chat_json_doc_t *doc, const chat_json_t *part,
                    const char *type)
{
    return chat_json_is(doc, chat_json_get(doc, part, "type"), type);
}


int
chat_ai_sdk_part_call(chat_json_doc_t *doc, const chat_json_t *part,
                      chat_str_t *name)
{
    chat_str_t type = chat_json_text(doc, part, "type");

    if (chat_str_is(type, "dynamic-tool")) {
        *name = chat_json_text(doc, part, "toolName");
        return 1;
    }

    if (chat_str_starts(type, "tool-") && type.len > strlen("tool-")) {
        *name =
            chat_str(type.data + strlen("tool-"), type.len - strlen("tool-"));
        return 1;
    }

    return 0;
}


int
chat_ai_sdk_part_unanswered(chat_json_doc_t *doc, const chat_json_t *part)
{
    if (chat_json_true(chat_json_get(doc, part, "providerExecuted"))) {
        return 0;
    }

    switch (chat_ai_sdk_part_state(doc, part)) {
    case CHAT_PART_READY:
    case CHAT_PART_ASKED:
        return 1;
    case CHAT_PART_OK:
        return chat_json_true(chat_json_get(doc, part, "preliminary"));
    default:
        return 0;
    }
}


int
chat_ai_sdk_part_undecided(chat_json_doc_t *doc, const chat_json_t *part)
{
    const chat_json_t *approval = chat_json_get(doc, part, "approval");

    return chat_ai_sdk_part_state(doc, part) >= CHAT_PART_OK
           && !chat_ai_sdk_part_unanswered(doc, part) && approval != NULL
           && approval->type == CHAT_JSON_OBJECT
           && chat_json_get(doc, approval, "approved") == NULL;
}
