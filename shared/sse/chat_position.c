/*
 * chat_position.c: see chat_position.h.
 *
 * The first five bytes of a line decide: it is empty, has the name "data", or
 * is any other.
 */

#include "sse/chat_position.h"

/* What the line has been so far: up to 4, that many bytes of "data". */
enum {
    CHAT_COUNT_NAMED = 4, /* "data": the next byte says whether it is that */
    CHAT_COUNT_OTHER = 5, /* awaits its end */
    CHAT_COUNT_BOM = 6,   /* one byte of a byte order mark, */
    CHAT_COUNT_BOM2 = 7   /* and two */
};

#define CHAT_COUNT_DATA 1 /* the frame has a data line */
#define CHAT_COUNT_CR 4   /* a line has ended in CR: an LF may be its own */
#define CHAT_COUNT_WAIT 8 /* the same of the empty line */

#define CHAT_COUNT_AHEAD 512 /* bytes */

#define CHAT_COUNT_STATES 8
#define CHAT_COUNT_FLAGS 64


static void
chat_count_end(chat_count_t *count, unsigned plain)
{
    count->events += count->flags & CHAT_COUNT_DATA;
    count->line = 0;
    count->flags = CHAT_COUNT_BEGUN | plain;
}


/* A line ends with this byte; 1: and so does the frame. */
static int
chat_count_line(chat_count_t *count, unsigned char c)
{
    unsigned line = count->line;

    count->line = 0;

    if (line == 0) {
        if (c == '\n' || (count->flags & CHAT_COUNT_PLAIN)) {
            return 1;
        }
        count->flags |= CHAT_COUNT_WAIT;
        return 0;
    }

    if (line == CHAT_COUNT_NAMED) {
        count->flags |= CHAT_COUNT_DATA;
    }

    count->flags |= CHAT_COUNT_PLAIN;
    if (c == '\r') {
        count->flags |= CHAT_COUNT_CR;
    }

    return 0;
}


/* A byte of a line that is not its end. */
static void
chat_count_byte(chat_count_t *count, unsigned char c)
{
    unsigned line = count->line;
    unsigned first = !(count->flags & CHAT_COUNT_BEGUN);

    count->flags |= CHAT_COUNT_BEGUN;

    if (line < CHAT_COUNT_NAMED && c == "data"[line]) {
        count->line++;

    } else if (line == CHAT_COUNT_NAMED && c == ':') {
        count->flags |= CHAT_COUNT_DATA;
        count->line = CHAT_COUNT_OTHER;

    } else if (line == 0 && first && c == 0xef) {
        count->line = CHAT_COUNT_BOM;

    } else if (line == CHAT_COUNT_BOM && c == 0xbb) {
        count->line = CHAT_COUNT_BOM2;

    } else if (line == CHAT_COUNT_BOM2 && c == 0xbf) {
        count->line = 0;

    } else {
        count->line = CHAT_COUNT_OTHER;
    }
}


/* The LF of a CRLF that the byte may be. 1: it is. */
static int
chat_count_lf(chat_count_t *count, unsigned char c)
{
    if (!(count->flags & CHAT_COUNT_CR)) {
        return 0;
    }

    count->flags &= ~(unsigned) CHAT_COUNT_CR;
    if (c == '\n') {
        count->flags &= ~(unsigned) CHAT_COUNT_PLAIN;
    }

    return c == '\n';
}


size_t
chat_line_len(chat_str_t bytes)
{
    size_t               n, i = 0;
    const unsigned char *lf, *cr;

    do {
        n = bytes.len - i < CHAT_COUNT_AHEAD ? bytes.len - i
                                             : CHAT_COUNT_AHEAD;
        lf = memchr(bytes.data + i, '\n', n);
        n = lf ? (size_t) (lf - bytes.data) - i : n;
        cr = memchr(bytes.data + i, '\r', n);
        i = cr ? (size_t) (cr - bytes.data) : i + n;
    } while (lf == NULL && cr == NULL && i < bytes.len);

    return i;
}


size_t
chat_count_frame(chat_count_t *count, chat_str_t bytes, int *ended)
{
    size_t        i;
    unsigned char c;

    *ended = 0;

    for (i = 0; i < bytes.len && !*ended; i++) {
        c = bytes.data[i];

        if (count->flags & CHAT_COUNT_WAIT) {
            *ended = 1;
            chat_count_end(count, c == '\n' ? 0 : CHAT_COUNT_PLAIN);
            return c == '\n' ? i + 1 : i;
        }

        count->flags |= CHAT_COUNT_INSIDE;

        if (chat_count_lf(count, c)) {
            continue;
        }

        if (c == '\n' || c == '\r') {
            *ended = chat_count_line(count, c);

        } else if (count->line == 0 && bytes.len - i >= 5
                   && memcmp(bytes.data + i, "data:", 5) == 0)
        {
            /* most lines: what chat_count_byte() does with these five */
            count->flags |= CHAT_COUNT_DATA | CHAT_COUNT_BEGUN;
            count->line = CHAT_COUNT_OTHER;
            i += 4;

        } else if (count->line != CHAT_COUNT_OTHER) {
            chat_count_byte(count, c);

        } else {
            i +=
                chat_line_len(chat_str(bytes.data + i + 1, bytes.len - i - 1));
        }
    }

    if (*ended) {
        chat_count_end(count, CHAT_COUNT_PLAIN);
    }

    return i;
}


size_t
chat_count_to(chat_count_t *count, chat_str_t bytes, uint64_t event)
{
    int    ended;
    size_t done = 0;

    while (done < bytes.len
           && (count->events < event || chat_count_is_inside(count))
           && event != 0)
    {
        done += chat_count_frame(
            count, chat_str(bytes.data + done, bytes.len - done), &ended);
    }

    return done;
}


unsigned char *
chat_count_write(const chat_count_t *count, unsigned char *end)
{
    *--end = '\n';
    end = chat_digits(count->flags * CHAT_COUNT_STATES + count->line, end);
    *--end = ' ';
    return chat_digits(count->events, end);
}


size_t
chat_count_read(chat_count_t *count, chat_str_t text)
{
    uint64_t   state;
    chat_str_t rest = text, line = chat_str_cut(&rest, '\n');
    size_t     len = line.len + 1;

    if (len > text.len
        || !chat_str_number(chat_str_cut(&line, ' '), &count->events)
        || !chat_str_number(line, &state)
        || state >= CHAT_COUNT_STATES * CHAT_COUNT_FLAGS)
    {
        return 0;
    }

    count->line = (unsigned) state % CHAT_COUNT_STATES;
    count->flags = (unsigned) state / CHAT_COUNT_STATES;
    return len;
}


/* Appends the line of the next event. */
static void
chat_number_put(const chat_number_t *number, const char *end, chat_buf_t *out)
{
    chat_buf_puts(out, "id: ");
    chat_buf_add(out, number->stream);
    chat_buf_puts(out, "-");
    chat_buf_digits(out, number->count.events + 1);
    chat_buf_puts(out, end);
}


/* The frame without lines id: of its own. */
static void
chat_number_frame(const chat_number_t *number, chat_str_t frame, int is_event,
                  chat_buf_t *out)
{
    chat_str_t line, end, last = { NULL, 0 };

    /* a byte order mark is one at the very beginning only */
    if (number->count.flags == 0 && chat_str_after(frame, CHAT_BOM, &frame)) {
        chat_buf_puts(out, CHAT_BOM);
    }

    if (is_event) {
        chat_number_put(number, "\n", out);
    }

    while (chat_line_cut(&frame, &line, &end)) {
        if (!chat_str_starts(line, "id")
            || (line.len != 2 && line.data[2] != ':')) {
            chat_buf_add(out, last);
            chat_buf_add(out, line);
            last = end;
        } else if (last.len != 0 && end.len != 0) {
            last = end; /* see chat_sse_rewrite() */
        }
    }

    chat_buf_add(out, last);
}


/* A piece of a frame; ends: with it, or with one more LF, an event ends. */
static void
chat_number_piece(const chat_number_t *number, chat_str_t piece, int ends,
                  chat_buf_t *out)
{
    size_t len = 0;

    if (ends && piece.len != 0 && !(number->count.flags & CHAT_COUNT_WAIT)) {
        len = piece.len - 1;
        len -= len != 0 && memcmp(piece.data + len - 1, "\r\n", 2) == 0;
        chat_buf_add(out, chat_str(piece.data, len));
        chat_number_put(number, piece.data[len] == '\r' ? "\r\n" : "\n", out);
    }

    chat_buf_add(out, chat_str(piece.data + len, piece.len - len));
}


void
chat_number_add(chat_number_t *number, chat_str_t bytes, int is_piece,
                chat_buf_t *out)
{
    int          ended, is_event;
    size_t       n;
    chat_count_t next;

    if (number->stream.len == 0) {
        (void) chat_count_to(&number->count, bytes, UINT64_MAX);
        return;
    }

    while (bytes.len != 0) {
        next = number->count;
        n = chat_count_frame(&next, bytes, &ended);
        is_event = ended ? next.events != number->count.events
                         : (next.flags & CHAT_COUNT_DATA) != 0;

        if (is_piece || chat_count_is_inside(&number->count)) {
            ended |= (next.flags & CHAT_COUNT_WAIT) != 0;
            chat_number_piece(number, chat_str(bytes.data, n),
                              is_event && ended, out);
        } else {
            chat_number_frame(number, chat_str(bytes.data, n), is_event, out);
        }

        is_piece &= n == 0; /* an empty line was in the bytes before */
        number->count = next;
        bytes = chat_str(bytes.data + n, bytes.len - n);
    }
}


void
chat_number_events(chat_number_t *number, chat_str_t bytes, const size_t *ends,
                   size_t n, chat_buf_t *out)
{
    size_t i, start, line = 0, len = 0, from = 0;
    size_t size = bytes.len + n * (number->stream.len + CHAT_DIGITS + 6);
    int    numbered =
        number->stream.len != 0 && chat_buf_reserve(out, size) != NULL;

    for (i = 0; i < n && numbered; i++) {
        start = out->len;

        if (len == 0 || out->data[line + len - 2] == '9') {
            chat_number_put(number, "\n", out);
        } else {
            /* the line before, but for its last digit; out has the room */
            chat_buf_add(out, chat_str(out->data + line, len));
            out->data[out->len - 2]++;
        }

        line = start;
        len = out->len - start;
        chat_buf_add(out, chat_str(bytes.data + from, ends[i] - from));
        from = ends[i];
        number->count.events++;
    }

    number->count.events += n - i;
    number->count.flags = CHAT_COUNT_BEGUN | CHAT_COUNT_PLAIN;
}
