/*
 * chat_output.c: what goes out for one piece of input.
 *
 * While the list grows our own bytes may move; they get their place at the
 * end, when it is known.
 * Between two inputs little memory is kept.
 */

#include "stream/chat_output.h"

#define CHAT_OUTPUT_KEEP (64 * 1024)


void
chat_output_free(chat_output_t *output)
{
    chat_buf_free(&output->own);
    chat_buf_free(&output->pieces);
}


/* Empties the buffer; a small one keeps its memory. */
static void
empty(chat_buf_t *buf)
{
    if (buf->size > CHAT_OUTPUT_KEEP) {
        chat_buf_free(buf);
    }

    buf->len = 0;
}


void
chat_output_begin(chat_output_t *output)
{
    empty(&output->own);
    empty(&output->pieces);
    output->done = 0;
}


void
chat_output_add(chat_output_t *output, chat_str_t bytes, int in_input)
{
    chat_piece_t piece, *last;

    if (!in_input) {
        chat_buf_add(&output->own, bytes);
        bytes = chat_str(NULL, output->own.len - output->done);
        output->done = output->own.len;
    }

    if (bytes.len == 0) {
        return;
    }

    output->bytes += bytes.len;

    if (output->pieces.len != 0) {
        last = (chat_piece_t *) (output->pieces.data + output->pieces.len);
        last--;

        /* Own bytes lie one behind the other: they are always adjacent. */
        if (last->in_input == in_input
            && (!in_input || last->bytes.data + last->bytes.len == bytes.data))
        {
            last->bytes.len += bytes.len;
            return;
        }
    }

    piece.bytes = bytes;
    piece.in_input = in_input;
    chat_buf_add(&output->pieces, chat_str(&piece, sizeof(piece)));
}


chat_rc_e
chat_output_end(chat_output_t *output, const chat_piece_t **pieces, size_t *n)
{
    size_t               i;
    chat_piece_t        *piece = (chat_piece_t *) output->pieces.data;
    const unsigned char *own = output->own.data;

    *pieces = piece;
    *n = output->pieces.len / sizeof(*piece);

    for (i = 0; i < *n; i++, piece++) {
        if (!piece->in_input) {
            piece->bytes.data = own;
            own += piece->bytes.len;
        }
    }

    return output->own.failed || output->pieces.failed ? CHAT_ERROR : CHAT_OK;
}
