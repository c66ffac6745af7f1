/*
 * fuzz_read.h: reads an input as a request body.
 *
 * The text is parsed and read by its dialect as the module does it; the caller
 * destroys the arena in any case. For the targets that test requests.
 */

#ifndef FUZZ_READ_H
#define FUZZ_READ_H

#include "dialect/chat_dialect.h"
#include "fuzz.h"
#include "../tenant.h"

typedef struct {
    const chat_dialect_t *dialect;
    chat_arena_t         *arena;
    chat_json_doc_t       doc;
    chat_request_t        rq;
} body_t;


/* 1 if the text is a body of the dialect. */
static inline int
fuzz_read(body_t *body, const chat_dialect_t *dialect, chat_str_t text)
{
    chat_rc_e           rc;
    const chat_digest_t key = { { 1 } };

    memset(body, 0, sizeof(*body));
    body->rq.tenant = &test_tenant;
    body->rq.named = 1;
    body->dialect = dialect;
    body->arena = chat_arena_create(0);
    NEED(body->arena != NULL);

    if (chat_json_parse(&body->doc, body->arena, text) != CHAT_OK) {
        return 0;
    }

    if (chat_dialect_request(dialect, chat_cstr("/"), &body->doc, body->arena,
                             &body->rq, &rc)
        == NULL)
    {
        return 0;
    }

    NEED(chat_dialect_sign(dialect, &body->doc, &key, &body->rq) == CHAT_OK);
    return 1;
}


#endif /* FUZZ_READ_H */
