/*
 * chat_buf.h: an append-only byte buffer on the heap.
 *
 * Its failure is sticky: a writer checks once, at the end.
 */

#ifndef CHAT_BUF_H
#define CHAT_BUF_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"

#include <stdarg.h>

/*
 * A growing buffer. All zero is an empty one. A failed append sets failed and
 * makes all later appends do nothing, so that a writer checks once, at the
 * end. The owner ends it with chat_buf_free().
 */
typedef struct {
    unsigned char *data;
    size_t         len;
    size_t         size;
    int            failed;
} chat_buf_t;

void chat_buf_free(chat_buf_t *buf);

/*
 * An empty buffer of the process, for a text that nothing needs when this is
 * called again: without malloc() for each. ASan builds free the text then.
 */
chat_buf_t *chat_buf_scratch(void);

/* Room for len more bytes, or NULL; failed is set then. */
unsigned char *chat_buf_reserve(chat_buf_t *buf, size_t len);

static inline void
chat_buf_add(chat_buf_t *buf, chat_str_t s)
{
    unsigned char *p;

    if (s.len == 0) {
        return;
    }

    p = !buf->failed && s.len <= buf->size - buf->len
            ? buf->data + buf->len
            : chat_buf_reserve(buf, s.len);
    if (p != NULL) {
        memcpy(p, s.data, s.len);
        buf->len += s.len;
    }
}


static inline void
chat_buf_puts(chat_buf_t *buf, const char *text)
{
    chat_buf_add(buf, chat_cstr(text));
}


/* Appends the number in decimal. */
void chat_buf_digits(chat_buf_t *buf, uint64_t n);

/*
 * Appends a text in which %s stands for a C string, %u for an unsigned, %d for
 * a uint64_t, %h for 16 bytes, %x for their hex digits, and the others for a
 * chat_str_t: %v as it is, %j as chat_buf_json(), %l as chat_buf_one_line().
 * The compiler does not check the arguments.
 */
void chat_buf_format(chat_buf_t *buf, const char *format, ...);

/* The same with the next of these arguments. */
void chat_buf_arguments(chat_buf_t *buf, const char *format, va_list *args);

/* s (UTF-8) as a JSON string with its quotes; only what must be is escaped. */
void chat_buf_json(chat_buf_t *buf, chat_str_t s);

/* Makes one JSON string of what was appended from this length on. */
void chat_buf_quote(chat_buf_t *buf, size_t from);

/* JSON text on one line: its line ends can only be white space. */
void chat_buf_one_line(chat_buf_t *buf, chat_str_t json);

/* The content; valid until the next append. */
static inline chat_str_t
chat_buf_str(const chat_buf_t *buf)
{
    return chat_str(buf->data, buf->len);
}


/*
 * Copies the content into the arena, and frees the buffer. CHAT_ERROR: no
 * memory, now or before.
 */
chat_rc_e chat_buf_move(chat_buf_t *buf, chat_arena_t *arena, chat_str_t *out);

#endif /* CHAT_BUF_H */
