/*
 * chat_json_canon.c: RFC 8785, one form for all texts of one JSON value.
 *
 * Keys in the order of their UTF-16 code units, the last of duplicates,
 * strings with the fewest escapes, numbers as ECMAScript writes them.
 * Promises: n log n; recursion as deep as the parser allows a tree to be;
 * the same in every locale; a number that no double can hold keeps its bytes
 * and a lone surrogate is U+FFFD, where the RFC would refuse.
 * Must not know: SSE, dialects.
 */

#include "chat_json.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#define CHAT_JSON_DIGITS 17 /* tell any double from all others */

/* A finite number as 0.d1d2d3... * 10^point; the last digit is not 0. */
typedef struct {
    char digits[CHAT_JSON_DIGITS + 1];
    int  count;
    int  point;
} chat_json_decimal_t;

typedef struct {
    chat_str_t         key;
    const chat_json_t *node;
} chat_json_member_t;


/*
 * strtod() of a JSON number. The locale decides what strtod() takes for a
 * decimal point, so it gets none: 12.5e3 is read as 125e2.
 */
static int
chat_json_double(chat_arena_t *arena, chat_str_t s, double *value)
{
    char   *buf;
    size_t  i, n = 0;
    int64_t exponent = 0, fraction = 0;
    int     in_fraction = 0, negative = 0;

    buf = chat_arena_alloc(arena, s.len + 32);
    if (buf == NULL) {
        return 0;
    }

    for (i = 0; i < s.len && (s.data[i] | 0x20) != 'e'; i++) {
        if (s.data[i] == '.') {
            in_fraction = 1;
            continue;
        }

        buf[n++] = (char) s.data[i];
        fraction += in_fraction;
    }

    for (i++; i < s.len; i++) {
        if (s.data[i] == '-') {
            negative = 1;

        } else if (s.data[i] != '+' && exponent < INT64_C(1) << 40) {
            exponent = exponent * 10 + (s.data[i] - '0');
        }
    }

    exponent = (negative ? -exponent : exponent) - fraction;

    (void) snprintf(buf + n, 32, "e%lld", (long long) exponent);

    *value = strtod(buf, NULL);

    return 1;
}


static double
chat_json_decimal_value(const chat_json_decimal_t *d)
{
    char buf[64];

    (void) snprintf(buf, sizeof(buf), "%.*se%d", d->count, d->digits,
                    d->point - d->count);

    return strtod(buf, NULL);
}


/* value > 0, rounded to count digits. */
static void
chat_json_decimal_round(double value, int count, chat_json_decimal_t *d)
{
    char buf[64], *p;
    int  n = 0;

    (void) snprintf(buf, sizeof(buf), "%.*e", count - 1, value);

    for (p = buf; *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9') {
            d->digits[n++] = *p;
        }
    }

    d->count = n;
    d->point = atoi(p + 1) + 1;
}


/* The next larger number of as many digits. */
static void
chat_json_decimal_next(chat_json_decimal_t *d)
{
    int i = d->count - 1;

    while (i >= 0 && d->digits[i] == '9') {
        d->digits[i--] = '0';
    }

    if (i >= 0) {
        d->digits[i]++;
        return;
    }

    d->digits[0] = '1';
    d->point++;
}


/*
 * The fewest digits that read back as value. With up to 15 the nearest
 * decimal is the only candidate, and what it has too many are zeros; only
 * the denormals are less exact. With 16 the one above may do where the
 * nearest does not: below a power of two doubles lie twice as close.
 */
static void
chat_json_decimal(double value, chat_json_decimal_t *d)
{
    int count;

    for (count = value < DBL_MIN ? 1 : 15; count < CHAT_JSON_DIGITS; count++) {
        chat_json_decimal_round(value, count, d);

        if (chat_json_decimal_value(d) == value) {
            break;
        }

        if (count == 16) {
            chat_json_decimal_next(d);

            if (chat_json_decimal_value(d) == value) {
                break;
            }
        }
    }

    if (count == CHAT_JSON_DIGITS) {
        chat_json_decimal_round(value, count, d);
    }

    while (d->count > 1 && d->digits[d->count - 1] == '0') {
        d->count--;
    }
}


/* Number::toString of ECMAScript for a finite value > 0. */
static void
chat_json_decimal_write(const chat_json_decimal_t *d, chat_buf_t *out)
{
    int n = d->point, k = d->count;

    if (k <= n && n <= 21) {
        chat_buf_printf(out, "%.*s%.*s", k, d->digits, n - k,
                        "00000000000000000000");

    } else if (0 < n && n <= 21) {
        chat_buf_printf(out, "%.*s.%.*s", n, d->digits, k - n, d->digits + n);

    } else if (-6 < n && n <= 0) {
        chat_buf_printf(out, "0.%.*s%.*s", -n, "000000", k, d->digits);

    } else {
        chat_buf_printf(out, "%c%s%.*se%+d", d->digits[0], k > 1 ? "." : "",
                        k - 1, d->digits + 1, n - 1);
    }
}


/* 1 if ECMAScript writes the number as it stands: a short integer. */
static int
chat_json_is_canonical(chat_str_t s)
{
    size_t i = s.data[0] == '-';

    if (s.len > 15 || (s.data[i] == '0' && i != 0)) {
        return 0;
    }

    for (/* void */; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return 0;
        }
    }

    return 1;
}


static void
chat_json_canon_number(chat_json_doc_t *doc, const chat_json_t *node,
                       chat_buf_t *out)
{
    double              value;
    chat_str_t          s = chat_json_raw(doc, node);
    chat_json_decimal_t decimal;

    if (chat_json_is_canonical(s)) {
        chat_buf_add(out, s);
        return;
    }

    if (!chat_json_double(doc->arena, s, &value)) {
        out->failed = 1;
        return;
    }

    if (value == 0) {
        chat_buf_puts(out, "0");
        return;
    }

    if (value - value != 0) {
        chat_buf_add(out, s); /* no double is that large */
        return;
    }

    if (value < 0) {
        chat_buf_puts(out, "-");
        value = -value;
    }

    chat_json_decimal(value, &decimal);
    chat_json_decimal_write(&decimal, out);
}


/*
 * Order of UTF-16 code units: that of the UTF-8 bytes, except that U+E000 to
 * U+FFFF (EE, EF) come behind the surrogates of all above (F0 to F4).
 */
static int
chat_json_compare(const void *one, const void *two)
{
    int                       x, y;
    size_t                    i, len;
    const chat_json_member_t *a = one, *b = two;

    len = a->key.len < b->key.len ? a->key.len : b->key.len;

    for (i = 0; i < len; i++) {
        x = a->key.data[i];
        y = b->key.data[i];

        if (x != y) {
            x += (x & 0xfe) == 0xee ? 0x10 : 0;
            y += (y & 0xfe) == 0xee ? 0x10 : 0;
            return x - y;
        }
    }

    if (a->key.len != b->key.len) {
        return a->key.len < b->key.len ? -1 : 1;
    }

    /* one key twice: as they stand in the text */
    return a->node->start < b->node->start ? -1 : 1;
}


static void
chat_json_canon_object(chat_json_doc_t *doc, const chat_json_t *node,
                       chat_buf_t *out)
{
    size_t              i, n = 0;
    const char         *separator = "";
    const chat_json_t  *child;
    chat_json_member_t *members;

    members = chat_arena_alloc(doc->arena, chat_json_count(node)
                                               * sizeof(chat_json_member_t));
    if (members == NULL) {
        out->failed = 1;
        return;
    }

    for (child = node->child; child != NULL; child = child->next) {
        members[n].node = child;
        members[n].key = chat_json_key(doc, child);

        if (members[n].key.data == NULL) {
            out->failed = 1;
            return;
        }

        n++;
    }

    qsort(members, n, sizeof(chat_json_member_t), chat_json_compare);

    chat_buf_puts(out, "{");

    for (i = 0; i < n; i++) {
        if (i + 1 < n && chat_str_eq(members[i].key, members[i + 1].key)) {
            continue;
        }

        chat_buf_puts(out, separator);
        chat_buf_json(out, members[i].key);
        chat_buf_puts(out, ":");
        chat_json_canon(doc, members[i].node, out);
        separator = ",";
    }

    chat_buf_puts(out, "}");
}


static void
chat_json_canon_array(chat_json_doc_t *doc, const chat_json_t *node,
                      chat_buf_t *out)
{
    const char        *separator = "";
    const chat_json_t *child;

    chat_buf_puts(out, "[");

    for (child = node->child; child != NULL; child = child->next) {
        chat_buf_puts(out, separator);
        chat_json_canon(doc, child, out);
        separator = ",";
    }

    chat_buf_puts(out, "]");
}


static void
chat_json_canon_string(chat_json_doc_t *doc, const chat_json_t *node,
                       chat_buf_t *out)
{
    chat_str_t s = chat_json_string(doc, node);

    if (s.data == NULL) {
        out->failed = 1;
        return;
    }

    chat_buf_json(out, s);
}


void
chat_json_canon(chat_json_doc_t *doc, const chat_json_t *node, chat_buf_t *out)
{
    if (node == NULL || out->failed) {
        return;
    }

    switch (node->type) {
    case CHAT_JSON_NULL:
    case CHAT_JSON_FALSE:
    case CHAT_JSON_TRUE:
        chat_buf_add(out, chat_json_raw(doc, node));
        break;

    case CHAT_JSON_NUMBER:
        chat_json_canon_number(doc, node, out);
        break;

    case CHAT_JSON_STRING:
        chat_json_canon_string(doc, node, out);
        break;

    case CHAT_JSON_ARRAY:
        chat_json_canon_array(doc, node, out);
        break;

    case CHAT_JSON_OBJECT:
        chat_json_canon_object(doc, node, out);
        break;
    }
}


chat_rc_e
chat_json_digest(chat_json_doc_t *doc, const chat_json_t *node,
                 chat_digest_t *out)
{
    chat_rc_e  rc;
    chat_buf_t buf;

    memset(&buf, 0, sizeof(chat_buf_t));

    chat_json_canon(doc, node, &buf);

    rc = buf.failed ? CHAT_ERROR : CHAT_OK;
    if (rc == CHAT_OK) {
        chat_digest(chat_buf_str(&buf), out);
    }

    chat_buf_free(&buf);

    return rc;
}
