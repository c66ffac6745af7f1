/*
 * ai_sdk_run.h: a body of the AI SDK, read and spliced, for several tests.
 *
 * take_part() makes a body of one part and reads it; splice() puts results in
 * and leaves the new body in merged. One arena serves a whole test.
 */

#ifndef AI_SDK_RUN_H
#define AI_SDK_RUN_H

#include "arena_run.h"
#include "dialect/chat_dialect.h"
#include "../tenant.h"

#define HEAD                                                   \
    "{ \"id\" : \"c\",\"messages\":[ {\"role\":\"assistant\"," \
    "\"id\":\"m\",\"parts\":[ {\"type\":\"step-start\"} , "
#define TAIL " ,{\"type\":\"text\",\"text\":\"\\u00e9\"}]} ], \"n\":1.0 }"

static chat_json_doc_t doc;
static chat_request_t  rq;
static chat_edits_t    edits;
static chat_buf_t      body;
static chat_buf_t      merged;


static inline int
teardown(void **state)
{
    chat_buf_free(&body);
    chat_buf_free(&merged);
    return arena_destroy(state);
}


static inline void
take(chat_str_t text)
{
    rq = (chat_request_t){ .tenant = &test_tenant };
    assert_int_equal(chat_json_parse(&doc, arena, text), CHAT_OK);
    assert_int_equal(chat_dialect_read(&chat_dialect_ai_sdk, &doc, arena, &rq),
                     CHAT_OK);
}


/* Makes body of one part and reads it. */
static inline void
take_part(const char *part)
{
    chat_arena_reset(arena);
    body.len = 0;
    chat_buf_puts(&body, HEAD);
    chat_buf_puts(&body, part);
    chat_buf_puts(&body, TAIL);
    take(chat_buf_str(&body));
    assert_int_equal(rq.ncalls, 1);
}


static inline chat_rc_e
splice(const chat_result_t *results, size_t n)
{
    chat_rc_e rc;

    merged.len = 0;
    edits = (chat_edits_t){ .arena = arena };
    rc = chat_transcript_splice(chat_dialect_ai_sdk.form, &doc, &rq, results,
                                n, &edits);

    if (rc == CHAT_OK) {
        assert_int_equal(chat_edits_apply(&edits, doc.text, &merged), CHAT_OK);
    }

    return rc;
}


#endif /* AI_SDK_RUN_H */
