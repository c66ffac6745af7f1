/*
 * chat_output.h: what goes out for one piece of input.
 *
 * A list of runs: bytes of the input where they lie, and bytes of our own in
 * between. Adjacent runs become one; input that only passes is not copied.
 */

#ifndef CHAT_OUTPUT_H
#define CHAT_OUTPUT_H

#include "bytes/chat_str.h"
#include "bytes/chat_buf.h"
#include "stream/chat_stream.h"

/* All zero is an empty one. */
typedef struct {
    chat_buf_t own;    /* our own bytes, in order */
    size_t     done;   /* of them: they are in pieces */
    chat_buf_t pieces; /* each a chat_piece_t */
    uint64_t   bytes;  /* that have gone out */
} chat_output_t;

void chat_output_free(chat_output_t *output);

/* Forgets what went out for the input before. */
void chat_output_begin(chat_output_t *output);

/*
 * Adds bytes to the output. Bytes of the input are not copied: they must stay
 * where they are. Other bytes follow what was appended to output->own.
 */
void chat_output_add(chat_output_t *output, chat_str_t bytes, int in_input);

/* All that goes out; until the next begin. CHAT_ERROR: bytes are missing. */
chat_rc_e chat_output_end(chat_output_t *output, const chat_piece_t **pieces,
                          size_t *n);

#endif /* CHAT_OUTPUT_H */
