/*
 * chat_rename.c: see chat_rename.h.
 *
 * Frames are cut by chat_sse, found by the key that the dialect's event has,
 * and changed by the dialect's own edits. A stream names its message once, at
 * its beginning, so the look at it is short.
 * Must not know: wire formats, NGINX.
 */

#include "follow/chat_rename.h"

#include "bytes/chat_edit.h"
#include "json/chat_json.h"
#include "sse/chat_sse.h"


void
chat_rename_init(chat_rename_t *rename, const chat_dialect_t *dialect,
                 chat_str_t from, chat_str_t to)
{
    memset(rename, 0, sizeof(*rename));

    rename->dialect = dialect;
    rename->from = from;
    rename->to = to;
    rename->done = dialect->rename == NULL || from.len == 0 || to.len == 0
                   || chat_str_eq(from, to);
}


/* The frame with its message renamed; CHAT_DECLINED: it stays as it is. */
static chat_rc_e
chat_rename_frame(chat_rename_t *rename, const chat_frame_t *frame,
                  chat_arena_t *arena, chat_buf_t *out)
{
    chat_rc_e       rc;
    chat_buf_t      data = { 0 };
    chat_edits_t    edits;
    chat_json_doc_t doc;

    rc = chat_json_parse(&doc, arena, frame->data);
    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_DECLINED;
    }

    chat_edits_init(&edits, arena);

    rc = rename->dialect->rename(&doc, rename->from, rename->to, &edits);
    if (rc != CHAT_OK) {
        return rc;
    }

    rename->done = 1;
    if (edits.count == 0) {
        return CHAT_DECLINED;
    }

    rc = chat_edits_apply(&edits, frame->data, &data);
    if (rc == CHAT_OK) {
        chat_sse_rewrite(frame, chat_buf_str(&data), out);
    }

    chat_buf_free(&data);
    return rc;
}


/* All frames up to the one that names the message; *len: their bytes. */
static chat_rc_e
chat_rename_frames(chat_rename_t *rename, chat_sse_t *sse, chat_arena_t *arena,
                   chat_buf_t *out, size_t *len)
{
    chat_rc_e    rc = CHAT_DECLINED;
    chat_frame_t frame;

    *len = 0;

    while (!rename->done && chat_sse_next(sse, &frame) == CHAT_SSE_FRAME) {
        chat_arena_reset(arena);
        *len += frame.raw.len;

        rc = frame.has_data ? chat_rename_frame(rename, &frame, arena, out)
                            : CHAT_DECLINED;
        if (rc == CHAT_ERROR) {
            return rc;
        }

        if (rc != CHAT_OK) {
            chat_buf_add(out, frame.raw);
        }
    }

    return rc;
}


chat_rc_e
chat_rename(chat_rename_t *rename, chat_str_t bytes, chat_buf_t *out)
{
    size_t        len, before = out->len;
    chat_rc_e     rc = CHAT_ERROR;
    chat_sse_t    sse;
    chat_arena_t *arena;

    if (rename->done) {
        return CHAT_DECLINED;
    }

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return CHAT_ERROR;
    }

    chat_sse_init(&sse, 0);
    chat_sse_feed(&sse, bytes);
    rc = chat_rename_frames(rename, &sse, arena, out, &len);
    chat_sse_free(&sse);
    chat_arena_destroy(arena);

    rename->seen += bytes.len;
    rename->done |= rename->seen > CHAT_RENAME_MAX;

    if (rc == CHAT_OK) {
        chat_buf_add(out, chat_str(bytes.data + len, bytes.len - len));
        rc = out->failed ? CHAT_ERROR : CHAT_OK;
    }

    if (rc != CHAT_OK) {
        out->len = before;
    }

    return rc;
}
