/*
 * fuzz_sse.c: frames do not depend on how the stream is cut.
 *
 * The first bytes choose the limit and the cuts, the rest is the stream. It is
 * read once whole and once cut; both runs must give the same frames and
 * pieces, and joined they must be the stream. A rewritten frame must be one
 * frame again, with the new data.
 */

#include "sse/chat_sse.h"
#include "fuzz.h"
#include "../buf_printf.h"

/* The result of one run: glued has the bytes, log the frames. */
typedef struct {
    chat_buf_t glued;
    chat_buf_t log;
    int        in_piece;
} fuzz_run_t;


static void
fuzz_rewrite(const chat_frame_t *frame)
{
    size_t       i;
    chat_buf_t   out, data;
    chat_sse_t   sse;
    chat_frame_t again;

    /* as a stream of its own it would begin with a byte order mark */
    if (!frame->bom && frame->raw.len != 0 && frame->raw.data[0] == 0xef) {
        return;
    }

    memset(&out, 0, sizeof(chat_buf_t));
    memset(&data, 0, sizeof(chat_buf_t));

    chat_buf_puts(&data, "{");
    chat_buf_add(&data, frame->data);
    chat_sse_rewrite(frame, chat_buf_str(&data), &out);

    /* a byte after it, for a CR that waits for one */
    chat_buf_puts(&out, ":");

    sse = (chat_sse_t){ .max_frame = 0 };
    chat_sse_feed(&sse, chat_buf_str(&out));
    NEED(chat_sse_next(&sse, &again) == CHAT_SSE_FRAME);
    NEED(again.raw.len == out.len - 1);
    NEED(again.has_data == frame->has_data);

    for (i = 0; i < data.len; i++) {
        data.data[i] = data.data[i] == '\n' ? ' ' : data.data[i];
    }

    NEED(!frame->has_data || chat_str_eq(again.data, chat_buf_str(&data)));

    chat_sse_free(&sse);
    chat_buf_free(&out);
    chat_buf_free(&data);
}


static void
fuzz_note(fuzz_run_t *run, const chat_frame_t *frame)
{
    chat_buf_printf(&run->log, "\nframe %zu %d %d %zu:", frame->raw.len,
                    frame->has_data, frame->bom, frame->data.len);
    chat_buf_add(&run->log, frame->data);
}


static void
fuzz_feed(chat_sse_t *sse, chat_str_t piece, size_t limit, fuzz_run_t *run)
{
    unsigned char *copy;
    chat_frame_t   frame;
    chat_sse_rc_e  rc;

    /* of exactly this size, so that reading too far is detected */
    copy = malloc(piece.len + (piece.len == 0));
    NEED(copy != NULL);
    if (piece.len != 0) {
        memcpy(copy, piece.data, piece.len);
    }

    chat_sse_feed(sse, chat_str(copy, piece.len));

    while ((rc = chat_sse_next(sse, &frame)) != CHAT_SSE_MORE) {
        NEED(rc != CHAT_SSE_ERROR);
        NEED(frame.raw.len != 0);
        NEED(!frame.in_input
             || (frame.raw.data >= copy
                 && frame.raw.data + frame.raw.len <= copy + piece.len));

        chat_buf_add(&run->glued, frame.raw);

        if (rc == CHAT_SSE_PIECE) {
            chat_buf_puts(&run->log, run->in_piece ? "" : "\npieces");
            run->in_piece = 1;
            continue;
        }

        NEED(limit == 0 || frame.raw.len <= limit);
        run->in_piece = 0;
        fuzz_note(run, &frame);
        fuzz_rewrite(&frame);
    }

    NEED(limit == 0 || chat_sse_tail(sse).len <= limit);
    free(copy);
}


static void
fuzz_run(chat_str_t text, const uint8_t *cuts, size_t ncuts, size_t limit,
         fuzz_run_t *run)
{
    size_t     i = 0, n, pos = 0;
    chat_sse_t sse;

    memset(run, 0, sizeof(fuzz_run_t));
    sse = (chat_sse_t){ .max_frame = limit };

    do {
        n = ncuts == 0 ? text.len : cuts[i++ % ncuts];
        n = n > text.len - pos ? text.len - pos : n;

        /* an empty cut is an input, too, but only a few times */
        fuzz_feed(&sse, chat_str(text.data + pos, n), limit, run);
        pos += n;
        if (n == 0 && pos < text.len) {
            fuzz_feed(&sse, chat_str(text.data + pos, 1), limit, run);
            pos++;
        }
    } while (pos < text.len);

    chat_buf_add(&run->glued, chat_sse_tail(&sse));
    chat_buf_printf(&run->log, "\ntail %zu", chat_sse_tail(&sse).len);
    chat_sse_free(&sse);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t     limit, ncuts;
    chat_str_t text;
    fuzz_run_t whole, cut;

    if (size < 2) {
        return 0;
    }

    limit = data[0] & 0x80 ? data[0] & 0x7f : 0;
    ncuts = 1 + data[1] % 8;

    if (size < 2 + ncuts) {
        return 0;
    }

    text = chat_str(data + 2 + ncuts, size - 2 - ncuts);

    fuzz_run(text, NULL, 0, limit, &whole);
    fuzz_run(text, data + 2, ncuts, limit, &cut);

    NEED(chat_str_eq(chat_buf_str(&whole.glued), text));
    NEED(chat_str_eq(chat_buf_str(&cut.glued), text));
    NEED(chat_str_eq(chat_buf_str(&whole.log), chat_buf_str(&cut.log)));

    chat_buf_free(&whole.glued);
    chat_buf_free(&whole.log);
    chat_buf_free(&cut.glued);
    chat_buf_free(&cut.log);

    return 0;
}
