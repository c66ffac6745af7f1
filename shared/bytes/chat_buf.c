/*
 * chat_buf.c: see chat_buf.h.
 *
 * The buffer doubles. One that failed keeps what it had, and takes no more.
 */

#include "bytes/chat_buf.h"
#include "bytes/chat_digest.h"
#include "bytes/chat_word.h"

#include <stdio.h>

#ifndef CHAT_BUF_KEPT
#define CHAT_BUF_KEPT 65536 /* bytes that the process keeps */
#endif


void
chat_buf_free(chat_buf_t *buf)
{
    chat_block_give(buf->data);
    memset(buf, 0, sizeof(chat_buf_t));
}


chat_buf_t *
chat_buf_scratch(void)
{
    static chat_buf_t scratch;

    if (scratch.size > CHAT_BUF_KEPT || scratch.failed) {
        chat_buf_free(&scratch);
    }

    scratch.len = 0;
    return &scratch;
}


unsigned char *
chat_buf_reserve(chat_buf_t *buf, size_t len)
{
    size_t         size;
    unsigned char *data;

    if (buf->failed) {
        return NULL;
    }

    if (len <= buf->size - buf->len && buf->data != NULL) {
        return buf->data + buf->len;
    }

    size = len < buf->size      ? 2 * buf->size
           : len < SIZE_MAX / 2 ? buf->size + len
                                : SIZE_MAX;
    data = chat_block_take(&size);
    if (data == NULL) {
        buf->failed = 1;
        return NULL;
    }

    (void) chat_str_copy(data, chat_buf_str(buf));
    chat_block_give(buf->data);
    buf->data = data;
    buf->size = size;
    return data + buf->len;
}


void
chat_buf_format(chat_buf_t *buf, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    chat_buf_arguments(buf, format, &args);
    va_end(args);
}


void
chat_buf_digits(chat_buf_t *buf, uint64_t n)
{
    unsigned char digits[CHAT_DIGITS], *end = digits + CHAT_DIGITS, *first;

    first = chat_digits(n, end);
    chat_buf_add(buf, chat_str(first, (size_t) (end - first)));
}


void
chat_buf_arguments(chat_buf_t *buf, const char *format, va_list *args)
{
    char hex[33];

    for (/* void */; *format != '\0'; format++) {
        if (*format != '%') {
            chat_buf_add(buf, chat_str(format, 1));
            continue;
        }

        switch (*++format) {
        case 's':
            chat_buf_puts(buf, va_arg(*args, const char *));
            break;
        case 'u':
            chat_buf_digits(buf, va_arg(*args, unsigned));
            break;
        case 'd':
            chat_buf_digits(buf, va_arg(*args, uint64_t));
            break;
        case 'x':
            chat_hex(va_arg(*args, const unsigned char *), 16, hex);
            chat_buf_add(buf, chat_str(hex, 32));
            break;
        case 'h':
            chat_buf_add(buf, chat_str(va_arg(*args, const void *), 16));
            break;
        case 'v':
            chat_buf_add(buf, va_arg(*args, chat_str_t));
            break;
        case 'j':
            chat_buf_json(buf, va_arg(*args, chat_str_t));
            break;
        default:
            chat_buf_one_line(buf, va_arg(*args, chat_str_t));
            break;
        }
    }
}


chat_rc_e
chat_buf_move(chat_buf_t *buf, chat_arena_t *arena, chat_str_t *out)
{
    chat_rc_e rc = buf->failed ? CHAT_ERROR
                               : chat_arena_dup(arena, chat_buf_str(buf), out);

    chat_buf_free(buf);
    return rc;
}


/* Appends a character that a JSON string cannot hold as it is. */
static void
add_escape(chat_buf_t *buf, unsigned char ch)
{
    static const char chars[] = "\"\\\b\t\n\f\r", letters[] = "\"\\btnfr";

    const char *at = ch != 0 ? strchr(chars, ch) : NULL;
    char        text[7] = { '\\', at != NULL ? letters[at - chars] : 'u' };

    if (at == NULL) {
        (void) snprintf(text + 2, sizeof(text) - 2, "%04x", ch);
    }

    chat_buf_puts(buf, text);
}


/* How many bytes a JSON string can hold as they are. */
static size_t
plain_len(chat_str_t s)
{
    size_t   i = 0;
    uint64_t special = 0;

    while (s.len - i >= sizeof(special) && special == 0) {
        special = chat_word_escaped(chat_word_at(s.data + i));
        i += special == 0 ? sizeof(special) : chat_word_first(special);
    }

    while (i < s.len && s.data[i] >= 0x20 && s.data[i] != '"'
           && s.data[i] != '\\') {
        i++;
    }

    return i;
}


void
chat_buf_json(chat_buf_t *buf, chat_str_t s)
{
    size_t len;

    chat_buf_puts(buf, "\"");

    while ((len = plain_len(s)) != s.len) {
        chat_buf_add(buf, chat_str(s.data, len));
        add_escape(buf, s.data[len]);
        s = chat_str(s.data + len + 1, s.len - len - 1);
    }

    chat_buf_add(buf, s);
    chat_buf_puts(buf, "\"");
}


void
chat_buf_quote(chat_buf_t *buf, size_t from)
{
    chat_buf_t text = { 0 };

    if (buf->len != from) {
        chat_buf_add(&text, chat_str(buf->data + from, buf->len - from));
    }

    buf->len = from;
    chat_buf_json(buf, chat_buf_str(&text));
    buf->failed |= text.failed;
    chat_buf_free(&text);
}


void
chat_buf_one_line(chat_buf_t *buf, chat_str_t json)
{
    size_t i, start = 0;

    for (i = 0; i < json.len; i++) {
        if (json.data[i] == '\n' || json.data[i] == '\r') {
            chat_buf_add(buf, chat_str(json.data + start, i - start));
            chat_buf_puts(buf, " ");
            start = i + 1;
        }
    }

    chat_buf_add(buf, chat_str(json.data + start, json.len - start));
}
