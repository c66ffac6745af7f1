/*
 * chat_lines.h: a text, line by line, whatever ends its lines.
 *
 * LF, CRLF and CR are understood, in any mix. No allocation; time is linear.
 */

#ifndef CHAT_LINES_H
#define CHAT_LINES_H

#include "bytes/chat_str.h"

typedef struct {
    chat_str_t text;
    size_t     pos; /* of the next line; the reader may move it forward */
    size_t     lf;  /* the first LF at or after pos, or the end */
    size_t     cr;  /* likewise the first CR */
} chat_lines_t;

void chat_lines_init(chat_lines_t *lines, chat_str_t text);

/* Where the current line ends: at an LF, at a CR, or with the text. */
size_t chat_lines_end(chat_lines_t *lines);

/*
 * Moves over the next line: *line without, *end only the bytes that end it
 * (none at the end of the text). 0: there is none.
 */
int chat_lines_next(chat_lines_t *lines, chat_str_t *line, chat_str_t *end);

#endif /* CHAT_LINES_H */
