/*
 * ngx_chat_law_text.c: facts as text, for laws and for reasons: "field=value
 * field=value+payload", in the order of the fields.
 *
 * The facts wait/<worker> are left out, since they depend on watches. Must not
 * know: how the store is asked.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "ngx_chat_law.h"
#include "../buf_printf.h"

#define NGX_CHAT_LAW_SHOWN 40 /* bytes of a long string in a reason */


/* Takes the part of *text up to one of the ends, and that end. */
static chat_str_t
ngx_chat_law_word(const char **text, const char *ends)
{
    size_t     len = strcspn(*text, ends);
    chat_str_t word = chat_str(*text, len);

    *text += len;
    return word;
}


size_t
ngx_chat_law_read(const char *text, chat_fact_t *facts)
{
    size_t n = 0;

    while (*text != '\0' && n < NGX_CHAT_LAW_FACTS) {
        ngx_memzero(&facts[n], sizeof(chat_fact_t));
        facts[n].field = ngx_chat_law_word(&text, "=+ ");

        if (*text == '=') {
            text++;
            facts[n].value = ngx_chat_law_word(&text, "+ ");
        }

        if (*text == '+') {
            text++;
            facts[n].payload = ngx_chat_law_word(&text, " ");
            facts[n].has_payload = 1;
        }

        text += *text == ' ';
        n++;
    }

    return n;
}


static int
ngx_chat_law_compare(const void *one, const void *two)
{
    int        rc;
    size_t     len;
    chat_str_t a = (*(const chat_fact_t *const *) one)->field;
    chat_str_t b = (*(const chat_fact_t *const *) two)->field;

    len = ngx_min(a.len, b.len);
    rc = len ? ngx_memcmp(a.data, b.data, len) : 0;
    return rc != 0 ? rc : (a.len > b.len) - (a.len < b.len);
}


/* Non-printable bytes as %XX; only the beginning of long strings. */
static void
ngx_chat_law_show(chat_buf_t *buf, chat_str_t s)
{
    size_t i;

    for (i = 0; i < s.len && i < NGX_CHAT_LAW_SHOWN; i++) {
        if (s.data[i] > 0x20 && s.data[i] < 0x7f) {
            chat_buf_add(buf, chat_str(&s.data[i], 1));
        } else {
            chat_buf_printf(buf, "%%%02X", s.data[i]);
        }
    }

    if (i < s.len) {
        chat_buf_printf(buf, "...(%lu bytes)", (unsigned long) s.len);
    }
}


void
ngx_chat_law_write(chat_buf_t *buf, const chat_fact_t *facts, size_t n)
{
    size_t              i, shown = 0;
    const chat_fact_t **sorted;

    sorted = ngx_alloc((n + 1) * sizeof(chat_fact_t *), ngx_cycle->log);
    if (sorted == NULL) {
        abort();
    }

    for (i = 0; i < n; i++) {
        if (!chat_str_starts(facts[i].field, "wait/")) {
            sorted[shown++] = &facts[i];
        }
    }

    qsort(sorted, shown, sizeof(chat_fact_t *), ngx_chat_law_compare);

    for (i = 0; i < shown; i++) {
        chat_buf_puts(buf, i ? " " : "");
        ngx_chat_law_show(buf, sorted[i]->field);
        chat_buf_puts(buf, "=");
        ngx_chat_law_show(buf, sorted[i]->value);
        chat_buf_puts(buf, sorted[i]->has_payload ? "+" : "");
        ngx_chat_law_show(buf, sorted[i]->payload);
    }

    ngx_free(sorted);
}


void
ngx_chat_law_expect(ngx_chat_law_t *law, ngx_uint_t i, const char *text)
{
    chat_buf_t         seen, reason;
    ngx_chat_law_op_t *slot = &law->ops[i];

    ngx_memzero(&seen, sizeof(seen));
    ngx_memzero(&reason, sizeof(reason));
    ngx_chat_law_write(&seen, slot->facts, slot->n);

    if (slot->rc != CHAT_OK || slot->fired == 0
        || !chat_str_is(chat_buf_str(&seen), text))
    {
        chat_buf_printf(&reason, "expected (%s), got (%.*s), rc %d", text,
                        (int) seen.len, (const char *) seen.data,
                        (int) slot->rc);
        chat_buf_add(&reason, chat_str("", 1));
        ngx_chat_law_fail(law, (const char *) reason.data);
    }

    chat_buf_free(&seen);
    chat_buf_free(&reason);
}


const chat_fact_t *
ngx_chat_law_find(ngx_chat_law_t *law, ngx_uint_t i, chat_str_t field)
{
    size_t             j;
    ngx_chat_law_op_t *slot = &law->ops[i];

    for (j = 0; j < slot->n; j++) {
        if (chat_str_eq(slot->facts[j].field, field)) {
            return &slot->facts[j];
        }
    }

    return NULL;
}
