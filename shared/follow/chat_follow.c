/*
 * chat_follow.c: see chat_follow.h.
 *
 * chat_sse cuts the frames, the dialect edits them. A stream names its
 * message at its beginning, so that search ends soon; once nothing is left to
 * change, bytes are no longer looked at.
 */

#include "follow/chat_follow.h"

#include "json/chat_json.h"


chat_str_t *
chat_follow_fields(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
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
        if (facts[i].has_payload && chat_str_starts(facts[i].field, "result/")
            && chat_arena_dup(arena, facts[i].field, &fields[*count])
                   == CHAT_OK)
        {
            (*count)++;
        }
    }

    return *count != 0 ? fields : NULL;
}


chat_result_t *
chat_follow_results(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
                    size_t *count)
{
    size_t               i;
    chat_batch_t         batch;
    chat_result_t       *results;
    const chat_member_t *member;

    *count = 0;

    results = chat_arena_alloc(arena, (n + 1) * sizeof(*results));
    if (results == NULL || chat_batch_read(facts, n, arena, &batch) != CHAT_OK)
    {
        return NULL;
    }

    for (i = 0; i < batch.nmembers; i++) {
        member = &batch.members[i];

        if (member->has_payload
            && chat_arena_dup(arena, member->id, &results[*count].id)
                   == CHAT_OK
            && chat_arena_dup(arena, member->payload, &results[*count].payload)
                   == CHAT_OK)
        {
            results[(*count)++].outcome = member->outcome;
        }
    }

    return *count != 0 ? results : NULL;
}


chat_rc_e
chat_follow_init(chat_follow_t *follow, const chat_follow_conf_t *conf)
{
    const chat_dialect_t *dialect = conf->dialect;

    memset(follow, 0, sizeof(*follow));

    follow->renames = dialect->message != NULL && conf->from.len != 0
                      && conf->to.len != 0
                      && !chat_str_eq(conf->from, conf->to);
    follow->injects = dialect->inject_after != NULL && conf->injected.len != 0;
    follow->resolves = dialect->resolve_pending != NULL && conf->nresults != 0;

    if (!follow->renames && !follow->injects && !follow->resolves) {
        return CHAT_OK;
    }

    follow->conf = *conf;
    follow->arena = chat_arena_create(CHAT_ARENA_LONG);
    follow->sse.max_frame = conf->max_frame;

    return follow->arena != NULL ? CHAT_OK : CHAT_ERROR;
}


void
chat_follow_free(chat_follow_t *follow)
{
    if (follow->arena != NULL) {
        chat_sse_free(&follow->sse);
        chat_arena_destroy(follow->arena);
        follow->arena = NULL;
    }
}


/* The frame with its message renamed; CHAT_DECLINED: it stays. */
static chat_rc_e
rename_message(chat_follow_t *follow, const chat_frame_t *frame,
               chat_json_doc_t *doc, chat_buf_t *out)
{
    chat_str_t         text = doc->text;
    chat_buf_t        *data = chat_buf_scratch();
    const chat_json_t *id;

    if (follow->conf.dialect->message(doc, &id) != CHAT_OK) {
        return CHAT_DECLINED;
    }

    follow->renames = 0;
    if (!chat_str_eq(chat_json_string(doc, id), follow->conf.from)) {
        return CHAT_DECLINED;
    }

    chat_buf_format(data, "%v%j%v", chat_str(text.data, id->start),
                    follow->conf.to,
                    chat_str(text.data + id->end, text.len - id->end));
    out->failed |= data->failed;
    chat_sse_rewrite(frame, chat_buf_str(data), out);
    return CHAT_OK;
}


/* Appends what goes in place of the frame; CHAT_DECLINED: it stays. */
static chat_rc_e
rewrite(chat_follow_t *follow, const chat_frame_t *frame, chat_buf_t *out)
{
    chat_rc_e                 rc;
    chat_json_doc_t           doc;
    const chat_follow_conf_t *conf = &follow->conf;

    if (!frame->has_data || (!follow->renames && !follow->resolves)) {
        return CHAT_DECLINED;
    }

    chat_arena_reset(follow->arena);

    rc = chat_json_parse(&doc, follow->arena, frame->data);
    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_DECLINED;
    }

    if (follow->renames) {
        rc = rename_message(follow, frame, &doc, out);
        if (rc != CHAT_DECLINED) {
            return rc;
        }
    }

    return follow->resolves ? conf->dialect->resolve_pending(
               &doc, conf->results, conf->nresults, out)
                            : CHAT_DECLINED;
}


/* 1 if it is the first event, and others are to be injected behind it. */
static int
injects_after(chat_follow_t *follow, const chat_frame_t *frame)
{
    chat_json_doc_t doc;

    if (!follow->injects || !frame->has_data) {
        return 0;
    }

    follow->injects = 0;
    chat_arena_reset(follow->arena);

    return chat_json_parse(&doc, follow->arena, frame->data) == CHAT_OK
           && chat_json_has(&doc, doc.root, "type",
                            follow->conf.dialect->inject_after);
}


/* Appends the frame, or what replaces it, and what is injected behind it. */
static void
add_frame(chat_follow_t *follow, const chat_frame_t *frame, chat_buf_t *out)
{
    chat_rc_e rc = rewrite(follow, frame, out);

    out->failed |= rc == CHAT_ERROR;

    if (rc == CHAT_DECLINED) {
        chat_buf_add(out, frame->raw);
    }

    if (injects_after(follow, frame)) {
        chat_buf_add(out, follow->conf.injected);
    }
}


/* Lets the bytes pass from now on, once nothing is left to change. */
static void
check_done(chat_follow_t *follow, size_t len)
{
    follow->seen += len;

    if (follow->seen > CHAT_FOLLOW_RENAME) {
        follow->renames = 0;
    }

    if (!follow->renames && !follow->injects && !follow->resolves
        && chat_sse_tail(&follow->sse).len == 0)
    {
        chat_follow_free(follow);
    }
}


chat_rc_e
chat_follow(chat_follow_t *follow, chat_str_t bytes, chat_buf_t *out)
{
    chat_frame_t  frame;
    chat_sse_rc_e next;

    if (follow->arena == NULL) {
        return CHAT_DECLINED;
    }

    chat_sse_feed(&follow->sse, bytes);

    while (!out->failed
           && (next = chat_sse_next(&follow->sse, &frame)) != CHAT_SSE_MORE)
    {
        if (next == CHAT_SSE_PIECE) {
            chat_buf_add(out, frame.raw);
        } else if (next == CHAT_SSE_FRAME) {
            add_frame(follow, &frame, out);
        } else {
            out->failed = 1;
        }
    }

    check_done(follow, bytes.len);
    return out->failed ? CHAT_ERROR : CHAT_OK;
}


void
chat_follow_end(chat_follow_t *follow, chat_buf_t *out)
{
    if (follow->arena != NULL) {
        chat_buf_add(out, chat_sse_tail(&follow->sse));
    }
}


chat_rc_e
chat_follow_find(chat_follow_t *follow, chat_str_t bytes, size_t *at)
{
    chat_frame_t  frame;
    chat_sse_rc_e next;

    if (!follow->injects) {
        return CHAT_DECLINED;
    }

    chat_sse_feed(&follow->sse, bytes);

    while (follow->injects
           && (next = chat_sse_next(&follow->sse, &frame)) != CHAT_SSE_MORE)
    {
        if (next == CHAT_SSE_ERROR) {
            return CHAT_ERROR;
        }

        if (next == CHAT_SSE_FRAME && injects_after(follow, &frame)) {
            *at = bytes.len - chat_sse_unread(&follow->sse).len;
            return CHAT_OK;
        }
    }

    return CHAT_DECLINED;
}
