/*
 * chat_lines.c: see chat_lines.h.
 *
 * The next LF and the next CR are remembered, so that a text that has none of
 * one kind is searched for it once, and not once a line.
 */

#include "sse/chat_lines.h"


static size_t
chat_lines_find(const chat_lines_t *lines, int ch)
{
    const unsigned char *p;

    if (lines->pos == lines->text.len) {
        return lines->text.len;
    }

    p = memchr(lines->text.data + lines->pos, ch,
               lines->text.len - lines->pos);

    return p == NULL ? lines->text.len : (size_t) (p - lines->text.data);
}


void
chat_lines_init(chat_lines_t *lines, chat_str_t text)
{
    lines->text = text;
    lines->pos = 0;
    lines->lf = chat_lines_find(lines, '\n');
    lines->cr = chat_lines_find(lines, '\r');
}


size_t
chat_lines_end(chat_lines_t *lines)
{
    if (lines->lf < lines->pos) {
        lines->lf = chat_lines_find(lines, '\n');
    }

    if (lines->cr < lines->pos) {
        lines->cr = chat_lines_find(lines, '\r');
    }

    return lines->lf < lines->cr ? lines->lf : lines->cr;
}


int
chat_lines_next(chat_lines_t *lines, chat_str_t *line, chat_str_t *end)
{
    size_t               at, pos = lines->pos;
    const unsigned char *p = lines->text.data;

    if (pos == lines->text.len) {
        return 0;
    }

    at = chat_lines_end(lines);
    *line = chat_str(p + pos, at - pos);

    lines->pos = at;

    if (at < lines->text.len) {
        lines->pos +=
            p[at] == '\r' && at + 1 < lines->text.len && p[at + 1] == '\n' ? 2
                                                                           : 1;
    }

    *end = chat_str(p + at, lines->pos - at);

    return 1;
}
