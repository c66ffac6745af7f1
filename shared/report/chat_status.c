/*
 * chat_status.c: see chat_status.h.
 *
 * Ids and conversations are bytes that clients chose: what is no character
 * becomes U+FFFD.
 */

#include "bytes/chat_utf8.h"
#include "report/chat_status.h"
#include "facts/chat_store.h"

#include <inttypes.h>


static chat_str_t
chat_status_from(chat_str_t s, size_t at)
{
    return chat_str(s.data + at, s.len - at);
}


void
chat_short(chat_short_t *out, chat_str_t id)
{
    size_t n, at = 0;

    while (at < id.len) {
        n = chat_utf8_len(chat_status_from(id, at));
        n = n ? n : 1;

        if (at + n > CHAT_SHORT) {
            break;
        }

        at += n;
    }

    memset(out, 0, sizeof(*out));
    out->len = (unsigned char) at;
    out->cut = at < id.len;
    if (at != 0) {
        memcpy(out->bytes, id.data, at);
    }
}


void
chat_status_put(chat_buf_t *out, chat_str_t s, int cut)
{
    size_t     n, at = 0;
    chat_buf_t text = { NULL, 0, 0, 0 };

    while (at < s.len) {
        n = chat_utf8_len(chat_status_from(s, at));

        if (n == 0) {
            chat_buf_puts(&text, "\xef\xbf\xbd");
            at++;
            continue;
        }

        chat_buf_add(&text, chat_str(s.data + at, n));
        at += n;
    }

    if (cut) {
        chat_buf_puts(&text, "\xe2\x80\xa6");
    }

    out->failed |= text.failed;
    chat_buf_json(out, chat_buf_str(&text));
    chat_buf_free(&text);
}


void
chat_status_put_short(chat_buf_t *out, const chat_short_t *id)
{
    size_t len = id->len < CHAT_SHORT ? id->len : CHAT_SHORT;

    chat_status_put(out, chat_str(id->bytes, len), id->cut);
}


void
chat_status_put_seconds(chat_buf_t *out, uint64_t us)
{
    int      digits = 6;
    uint64_t part = us % 1000000;

    chat_buf_printf(out, "%" PRIu64, us / 1000000);

    for (; part != 0 && part % 10 == 0; part /= 10) {
        digits--;
    }

    if (part != 0) {
        chat_buf_printf(out, ".%0*" PRIu64, digits, part);
    }
}


unsigned char
chat_status_store(const chat_metrics_t *metrics)
{
    return metrics->stores[CHAT_STORE_UNAVAILABLE] != 0
               ? CHAT_STORE_UNAVAILABLE
           : metrics->stores[CHAT_STORE_RECONNECTING] != 0
               ? CHAT_STORE_RECONNECTING
               : CHAT_STORE_UP;
}
