/*
 * chat_settle.c: see chat_settle.h.
 *
 * Frames are cut by chat_sse, and shown to the dialect, which says what goes
 * in their place. Results are facts of the batch that the stream has opened.
 * Must not know: wire formats, NGINX.
 */

#include "follow/chat_settle.h"

#include "json/chat_json.h"


static int
chat_settle_is_result(const chat_fact_t *fact)
{
    return fact->has_payload && chat_str_starts(fact->field, "result/");
}


chat_str_t *
chat_settle_fields(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
                   size_t *count)
{
    size_t      i;
    chat_str_t *fields;

    *count = 0;

    fields = chat_arena_alloc(arena, (n + 1) * sizeof(*fields));
    if (fields == NULL) {
        return NULL;
    }

    for (i = 0; i < n; i++) {
        if (chat_settle_is_result(&facts[i])
            && chat_arena_dup(arena, facts[i].field, &fields[*count])
                   == CHAT_OK)
        {
            (*count)++;
        }
    }

    return *count != 0 ? fields : NULL;
}


chat_result_t *
chat_settle_results(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
                    size_t *count)
{
    size_t               i;
    chat_str_t           id;
    chat_batch_t         batch;
    chat_result_t       *results, *result;
    const chat_member_t *member;

    *count = 0;

    results = chat_arena_alloc(arena, (n + 1) * sizeof(*results));
    if (results == NULL || chat_batch_read(facts, n, arena, &batch) != CHAT_OK)
    {
        return NULL;
    }

    for (i = 0; i < n; i++) {
        if (!chat_settle_is_result(&facts[i])) {
            continue;
        }

        id = chat_str(facts[i].field.data + strlen("result/"),
                      facts[i].field.len - strlen("result/"));
        member = chat_batch_find(&batch, id);
        result = &results[*count];

        if (member != NULL && member->outcome != CHAT_OUTCOME_NONE
            && chat_arena_dup(arena, id, &result->id) == CHAT_OK
            && chat_arena_dup(arena, facts[i].payload, &result->payload)
                   == CHAT_OK)
        {
            result->outcome = member->outcome;
            (*count)++;
        }
    }

    return *count != 0 ? results : NULL;
}


chat_rc_e
chat_settle_init(chat_settle_t *settle, const chat_dialect_t *dialect,
                 const chat_result_t *results, size_t n, size_t max_frame)
{
    memset(settle, 0, sizeof(*settle));

    if (dialect->resolve_pending == NULL || n == 0) {
        return CHAT_OK;
    }

    settle->dialect = dialect;
    settle->results = results;
    settle->count = n;
    settle->arena = chat_arena_create(0);
    chat_sse_init(&settle->sse, max_frame);

    return settle->arena != NULL ? CHAT_OK : CHAT_ERROR;
}


void
chat_settle_free(chat_settle_t *settle)
{
    if (settle->arena != NULL) {
        chat_sse_free(&settle->sse);
        chat_arena_destroy(settle->arena);
        settle->arena = NULL;
    }
}


/* CHAT_DECLINED: the frame stays as it is. */
static chat_rc_e
chat_settle_frame(chat_settle_t *settle, const chat_frame_t *frame,
                  chat_buf_t *out)
{
    chat_rc_e       rc;
    chat_json_doc_t doc;

    if (!frame->has_data) {
        return CHAT_DECLINED;
    }

    chat_arena_reset(settle->arena);

    rc = chat_json_parse(&doc, settle->arena, frame->data);
    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_DECLINED;
    }

    return settle->dialect->resolve_pending(&doc, settle->results,
                                            settle->count, out);
}


chat_rc_e
chat_settle(chat_settle_t *settle, chat_str_t bytes, chat_buf_t *out)
{
    chat_rc_e     rc = CHAT_OK;
    chat_frame_t  frame;
    chat_sse_rc_e next;

    if (settle->arena == NULL) {
        return CHAT_DECLINED;
    }

    chat_sse_feed(&settle->sse, bytes);

    for (;;) {
        next = chat_sse_next(&settle->sse, &frame);

        if (next == CHAT_SSE_MORE) {
            return out->failed ? CHAT_ERROR : CHAT_OK;
        }

        if (next == CHAT_SSE_ERROR) {
            return CHAT_ERROR;
        }

        rc = next == CHAT_SSE_FRAME ? chat_settle_frame(settle, &frame, out)
                                    : CHAT_DECLINED;
        if (rc == CHAT_ERROR) {
            return CHAT_ERROR;
        }

        if (rc == CHAT_DECLINED) {
            chat_buf_add(out, frame.raw);
        }
    }
}


void
chat_settle_end(chat_settle_t *settle, chat_buf_t *out)
{
    if (settle->arena != NULL) {
        chat_buf_add(out, chat_sse_tail(&settle->sse));
    }
}
