/*
 * ai_sdk_body.h: bodies of the AI SDK as short literals, and how the dialect
 * reads them.
 *
 * take() reads a body into rq, with any outcome; ai_sdk_run.h is for the tests
 * that put results into a body.
 */

#ifndef AI_SDK_BODY_H
#define AI_SDK_BODY_H

#include "arena_run.h"
#include "dialect/chat_dialect.h"
#include "../tenant.h"

#define USER "{\"id\":\"u1\",\"role\":\"user\",\"parts\":[]}"
#define STEP "{\"type\":\"step-start\"}"
#define SAID "{\"type\":\"text\",\"text\":\"so\"}"
#define PART(id, state, rest)                                             \
    "{\"type\":\"tool-dig\",\"toolCallId\":\"" id "\",\"state\":\"" state \
    "\"" rest "}"
#define OK(id) PART(id, "output-available", ",\"input\":{},\"output\":7")
#define OPEN(id) PART(id, "input-available", ",\"input\":{}")
#define ASSISTANT(id, parts) \
    "{\"id\":\"" id "\",\"role\":\"assistant\",\"parts\":[" parts "]}"
#define BODY(messages) "{\"id\":\"chat-1\",\"messages\":[" messages "]}"


static chat_json_doc_t doc;
static chat_request_t  rq;


static inline chat_rc_e
take(const char *body)
{
    rq = (chat_request_t){ .tenant = &test_tenant };
    assert_int_equal(chat_json_parse(&doc, arena, chat_cstr(body)), CHAT_OK);
    return chat_dialect_read(&chat_dialect_ai_sdk, &doc, arena, &rq);
}


static inline void
assert_str(chat_str_t s, const char *text)
{
    if (!chat_str_is(s, text)) {
        fail_msg("got %.*s, not %s", (int) s.len, (const char *) s.data, text);
    }
}


#endif /* AI_SDK_BODY_H */
