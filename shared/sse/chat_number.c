/*
 * chat_number.c: see chat_number.h.
 *
 * Must not know: dialects, what an event says.
 */

#include "sse/chat_number.h"
#include "sse/chat_lines.h"

static const char chat_number_bom[] = "\xef\xbb\xbf";


static int
chat_number_is_id(chat_str_t line)
{
    return chat_str_starts(line, "id")
           && (line.len == 2 || line.data[2] == ':');
}


/* The frame, or its beginning, without lines id: of its own. */
static void
chat_number_frame(chat_number_t *number, chat_str_t frame, int is_event,
                  chat_buf_t *out)
{
    chat_str_t   line, end;
    chat_lines_t lines;

    chat_lines_init(&lines, frame);

    /* a byte order mark is one at the very beginning only */
    if (number->count.events == 0 && chat_str_starts(frame, chat_number_bom)) {
        chat_buf_puts(out, chat_number_bom);
        lines.pos = sizeof(chat_number_bom) - 1;
    }

    if (is_event) {
        chat_buf_puts(out, "id: ");
        chat_buf_add(out, number->stream);
        chat_buf_printf(out, "-%llu\n",
                        (unsigned long long) number->count.events + 1);
    }

    while (chat_lines_next(&lines, &line, &end)) {
        if (!chat_number_is_id(line)) {
            chat_buf_add(out, line);
            chat_buf_add(out, end);
        }
    }
}


void
chat_number_add(chat_number_t *number, chat_str_t bytes, chat_buf_t *out)
{
    int          ended;
    size_t       n;
    chat_str_t   frame;
    chat_count_t next;

    while (bytes.len != 0) {
        next = number->count;
        n = chat_count_frame(&next, bytes, &ended);
        frame = chat_str(bytes.data, n);

        if (chat_count_is_inside(&number->count)) {
            chat_buf_add(out, frame);
        } else {
            chat_number_frame(number, frame,
                              !ended || next.events != number->count.events,
                              out);
        }

        number->count = next;
        bytes = chat_str(bytes.data + n, bytes.len - n);
    }
}
