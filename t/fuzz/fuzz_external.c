/*
 * fuzz_external.c: bodies of external results.
 *
 * A refusal is JSON with a reason. An accepted body is within the limits,
 * gives at most one fact per result with a JSON payload, and counts as a
 * repetition the second time.
 */

#include "policy/chat_external.h"
#include "fuzz.h"
#include "../tenant.h"

#define FUZZ_CALLS 16
#define FUZZ_RESULT 1024

static chat_arena_t *arena;


static void
fuzz_is_json(chat_str_t text)
{
    chat_json_doc_t doc;

    NEED(chat_json_parse(&doc, arena, text) == CHAT_OK);
}


static void
fuzz_refused(const chat_external_t *out)
{
    chat_buf_t text = { 0 };

    NEED(out->refusal.status >= 400 && out->refusal.status < 500);
    chat_external_refuse(&out->refusal, &text);
    NEED(!text.failed);
    fuzz_is_json(chat_buf_str(&text));
    chat_buf_free(&text);
}


/* A batch that has all calls of the body, every other one an approval. */
static void
fuzz_known(const chat_external_t *out, chat_facts_t *known)
{
    size_t      i;
    chat_hash_t print;

    memset(&print, 7, sizeof(print));
    chat_facts_init(known, arena);

    for (i = 0; i < out->count; i++) {
        chat_facts_call(known, out->items[i].id,
                        i % 2 ? CHAT_KIND_APPROVAL : CHAT_KIND_CLIENT,
                        (uint32_t) i, &print);
    }
}


static void
fuzz_taken(chat_external_t *out, const chat_dialect_t *dialect)
{
    size_t       i, first;
    chat_rc_e    rc;
    chat_batch_t batch;
    chat_facts_t known, put, again;

    fuzz_known(out, &known);
    NEED(chat_batch_read(known.items, known.count, arena, &batch) == CHAT_OK);

    out->tenant = &test_tenant;
    chat_facts_init(&put, arena);
    rc = chat_external_facts(out, dialect, &batch, &put);
    NEED(rc == CHAT_OK || rc == CHAT_BAD);

    if (rc == CHAT_BAD) {
        fuzz_refused(out);
        return;
    }

    NEED(put.count <= out->count && put.count > 0);

    for (i = 0; i < put.count; i++) {
        NEED(put.items[i].has_payload);
        if (put.items[i].payload.len != 0) {
            fuzz_is_json(put.items[i].payload);
        }
    }

    first = chat_external_applied(&put, put.items, put.count);
    NEED(first == put.count);

    NEED(chat_batch_read(put.items, put.count, arena, &batch) == CHAT_OK);
    for (i = 0; i < batch.nmembers; i++) {
        batch.members[i].is_call = 1;
        batch.members[i].kind =
            chat_batch_find(&batch, out->items[0].id)->kind;
    }

    chat_facts_init(&again, arena);
    if (chat_external_facts(out, dialect, &batch, &again) == CHAT_OK) {
        for (i = 0; i < again.count; i++) {
            /* only a result may follow, after a decision */
            NEED(chat_str_starts(again.items[i].field, "result/"));
        }
    }
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t          i;
    chat_rc_e       rc;
    unsigned char  *text;
    chat_external_t out;

    text = malloc(size + (size == 0));
    arena = chat_arena_create(0);
    NEED(text != NULL && arena != NULL);
    if (size != 0) {
        memcpy(text, data, size);
    }

    rc = chat_external_read(&out, arena, chat_str(text, size), FUZZ_CALLS,
                            FUZZ_RESULT);
    NEED(rc == CHAT_OK || rc == CHAT_BAD);

    if (rc == CHAT_BAD) {
        fuzz_refused(&out);
    } else {
        NEED(out.count > 0 && out.count <= FUZZ_CALLS);
        NEED(out.conversation.len != 0);

        for (i = 0; i < out.count; i++) {
            NEED(out.items[i].id.len > 0
                 && out.items[i].id.len <= CHAT_ID_MAX);
            NEED(chat_json_raw(&out.doc, out.items[i].value).len
                 <= FUZZ_RESULT);
        }

        for (i = 0; chat_dialects[i] != NULL; i++) {
            fuzz_taken(&out, chat_dialects[i]);
        }
    }

    chat_arena_destroy(arena);
    free(text);

    return 0;
}
