/*
 * chat_batch_text.c: the text of facts; see chat_batch_read.h.
 *
 * A fact is text: the field says what it is about, the value is a few words
 * separated by single spaces. Each function answers 0 for text that it does
 * not understand. Must not know: what the facts mean.
 */

#include "facts/chat_batch_read.h"


chat_str_t
chat_batch_word(chat_str_t *s)
{
    chat_str_t           word = *s;
    const unsigned char *space;

    if (s->len == 0) {
        return word;
    }

    space = memchr(s->data, ' ', s->len);
    if (space == NULL) {
        *s = chat_str(s->data + s->len, 0);
        return word;
    }

    word.len = (size_t) (space - s->data);
    *s = chat_str(space + 1, s->len - word.len - 1);
    return word;
}


int
chat_batch_number(chat_str_t s, uint64_t *out)
{
    size_t   i;
    uint64_t n = 0;

    if (s.len == 0 || s.len > 18 || (s.data[0] == '0' && s.len > 1)) {
        return 0;
    }

    for (i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return 0;
        }
        n = n * 10 + (s.data[i] - '0');
    }

    *out = n;
    return 1;
}


static int
chat_batch_digit(unsigned char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    return (c >= 'a' && c <= 'f') ? c - 'a' + 10 : -1;
}


int
chat_batch_hex(chat_str_t s, unsigned char *out)
{
    size_t i;
    int    high, low;

    if (s.len != 32) {
        return 0;
    }

    for (i = 0; i < 16; i++) {
        high = chat_batch_digit(s.data[2 * i]);
        low = chat_batch_digit(s.data[2 * i + 1]);
        if (high < 0 || low < 0) {
            return 0;
        }
        out[i] = (unsigned char) (high << 4 | low);
    }

    return 1;
}


int
chat_batch_name(chat_str_t s, chat_digest_t *out)
{
    return s.len == 2 * CHAT_DIGEST_SIZE
           && chat_batch_hex(chat_str(s.data, 32), out->bytes)
           && chat_batch_hex(chat_str(s.data + 32, 32), out->bytes + 16);
}


int
chat_batch_under(chat_str_t field, const char *prefix, chat_str_t *rest)
{
    size_t len = strlen(prefix);

    if (!chat_str_starts(field, prefix)) {
        return 0;
    }

    *rest = chat_str(field.data + len, field.len - len);
    return 1;
}
