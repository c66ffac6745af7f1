/*
 * chat_output.c: what goes out for one piece of input.
 *
 * While the list grows our own bytes may move; they get their place at the
 * end, when it is known.
 * Between two inputs little memory is kept.
 */

#include "stream/chat_output.h"

#include <stdlib.h>

#define CHAT_OUTPUT_KEEP (64 * 1024)


void
chat_output_free(chat_output_t *output)
{
    chat_buf_free(&output->own);
    free(output->pieces);
}


void
chat_output_begin(chat_output_t *output)
{
    output->count = 0;

    if (output->own.size > CHAT_OUTPUT_KEEP) {
        chat_buf_free(&output->own);
    }
    output->own.len = 0;
    output->done = 0;

    if (output->size > CHAT_OUTPUT_KEEP / sizeof(*output->pieces)) {
        free(output->pieces);
        output->pieces = NULL;
        output->size = 0;
    }
}


void
chat_output_add(chat_output_t *output, chat_str_t bytes, int in_input)
{
    size_t        size;
    chat_piece_t *pieces, *last = NULL;

    if (!in_input) {
        chat_buf_add(&output->own, bytes);
        bytes = chat_str(NULL, output->own.len - output->done);
        output->done = output->own.len;
    }

    if (bytes.len == 0) {
        return;
    }

    output->bytes += bytes.len;

    if (output->count != 0) {
        last = &output->pieces[output->count - 1];
    }

    /* Own bytes lie one behind the other: they are always adjacent. */
    if (last != NULL && last->in_input == in_input
        && (!in_input || last->bytes.data + last->bytes.len == bytes.data))
    {
        last->bytes.len += bytes.len;
        return;
    }

    if (output->count == output->size) {
        size = output->size ? output->size * 2 : 16;
        pieces = realloc(output->pieces, size * sizeof(*pieces));
        if (pieces == NULL) {
            output->failed = 1;
            return;
        }
        output->pieces = pieces;
        output->size = size;
    }

    output->pieces[output->count].bytes = bytes;
    output->pieces[output->count].in_input = in_input;
    output->count++;
}


chat_rc_e
chat_output_end(chat_output_t *output, const chat_piece_t **pieces, size_t *n)
{
    size_t               i;
    const unsigned char *own = output->own.data;

    for (i = 0; i < output->count; i++) {
        if (!output->pieces[i].in_input) {
            output->pieces[i].bytes.data = own;
            own += output->pieces[i].bytes.len;
        }
    }

    *pieces = output->pieces;
    *n = output->count;
    return output->failed || output->own.failed ? CHAT_ERROR : CHAT_OK;
}
