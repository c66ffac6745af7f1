/*
 * chat_json_canon.c: one text for all ways to write a JSON value, to hash.
 *
 * It is JSON without white space, except for numbers: '#' and the bits of the
 * double as 16 hex digits. -0 is 0. A number that no double can hold keeps its
 * text. Keys are in order of length and bytes, the last of duplicates counts,
 * strings have the fewest escapes, and a lone surrogate is U+FFFD.
 * Takes n log n, and recursion as deep as the parser lets a tree be. The
 * locale makes no difference.
 */

#include "json/chat_json.h"

#include <float.h>
#include <stdlib.h>

#define CHAT_JSON_MEMBERS 16           /* that are sorted without a call */
#define CHAT_JSON_EXPONENT (1LL << 40) /* no text has digits to make up for */

typedef struct {
    chat_str_t         key;
    const chat_json_t *node;
} chat_canon_member_t;


static int
chat_json_compare(const void *one, const void *two)
{
    const chat_canon_member_t *a = one, *b = two;
    int                        rc = chat_str_compare(a->key, b->key);

    /* one key twice: as they stand in the text */
    return rc != 0 ? rc : a->node->start < b->node->start ? -1 : 1;
}


static void
canon_key(const chat_json_t *member, chat_str_t key, chat_buf_t *out)
{
    if (member->plain_key) {
        chat_buf_add(out, chat_str(key.data - 1, key.len + 2));
    } else {
        chat_buf_json(out, key);
    }

    chat_buf_puts(out, ":");
}


/* Most objects have few members, and those in one order. */
static void
sort_members(chat_canon_member_t *members, size_t n)
{
    size_t              i, at;
    chat_canon_member_t member;

    if (n > CHAT_JSON_MEMBERS) {
        qsort(members, n, sizeof(chat_canon_member_t), chat_json_compare);
        return;
    }

    for (i = 1; i < n; i++) {
        member = members[i];
        for (at = i;
             at > 0 && chat_json_compare(&members[at - 1], &member) > 0; at--)
        {
            members[at] = members[at - 1];
        }

        members[at] = member;
    }
}


static void
chat_json_canon_object(chat_json_doc_t *doc, const chat_json_t *node,
                       chat_buf_t *out)
{
    size_t              i, n = chat_json_count(node);
    const char         *separator = "";
    const chat_json_t  *child;
    chat_canon_member_t few[CHAT_JSON_MEMBERS], *members = few;

    if (n > CHAT_JSON_MEMBERS) {
        members = chat_arena_alloc(doc->arena, n * sizeof(*members));
    }

    if (members == NULL) {
        out->failed = 1;
        return;
    }

    for (n = 0, child = node->child; child != NULL; child = child->next) {
        members[n].node = child;
        members[n].key = chat_json_key(doc, child);
        out->failed |= members[n++].key.data == NULL;
    }

    if (out->failed) {
        return;
    }

    sort_members(members, n);

    chat_buf_puts(out, "{");

    for (i = 0; i < n; i++) {
        if (i + 1 < n && chat_str_eq(members[i].key, members[i + 1].key)) {
            continue;
        }

        chat_buf_puts(out, separator);
        canon_key(members[i].node, members[i].key, out);
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
    chat_str_t s;

    if (node->canon) {
        chat_buf_add(out, chat_json_raw(doc, node));
        return;
    }

    s = chat_json_string(doc, node);
    out->failed |= s.data == NULL;
    chat_buf_json(out, s);
}


/*
 * strtod() of a JSON number, with out as scratch. The locale decides what
 * strtod() takes for a decimal point, so it gets none: 12.5e3 becomes 125e2.
 */
static double
chat_json_double(chat_str_t s, chat_buf_t *out)
{
    char     *text;
    size_t    e, point, start = out->len;
    double    value = 0;
    long long exponent = 0;

    chat_buf_add(out, s);
    chat_buf_add(out, chat_str("", 1));
    if (out->failed) {
        return 0;
    }

    text = (char *) out->data + start;
    point = strcspn(text, ".");
    e = strcspn(text, "eE");

    if (text[e] != '\0') {
        exponent = strtoll(text + e + 1, NULL, 10);
        exponent = exponent > CHAT_JSON_EXPONENT    ? CHAT_JSON_EXPONENT
                   : exponent < -CHAT_JSON_EXPONENT ? -CHAT_JSON_EXPONENT
                                                    : exponent;
    }

    if (point < e) {
        e--;
        memmove(text + point, text + point + 1, e - point);
        exponent -= (long long) (e - point);
    }

    out->len = start + e;
    chat_buf_printf(out, "e%lld", exponent);

    if (!out->failed) {
        value = strtod((char *) out->data + start, NULL);
    }

    out->len = start;
    return value;
}


static void
chat_json_canon_number(chat_str_t s, chat_buf_t *out)
{
    char     hex[17] = "0000000000000000";
    double   value;
    uint64_t digits, bits = 0;
    size_t   i;

    value = chat_str_number(s, &digits) ? (double) digits
                                        : chat_json_double(s, out);

    if (value > DBL_MAX || value < -DBL_MAX) {
        chat_buf_add(out, s);
        return;
    }

    /* -0 has another bit than 0 */
    if (value != 0) {
        memcpy(&bits, &value, sizeof(bits));
    }

    for (i = 16; i > 0 && bits != 0; bits >>= 4) {
        hex[--i] = "0123456789abcdef"[bits & 15];
    }

    chat_buf_puts(out, "#");
    chat_buf_add(out, chat_str(hex, 16));
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
        chat_json_canon_number(chat_json_raw(doc, node), out);
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
    chat_buf_t buf = { 0 };

    chat_json_canon(doc, node, &buf);

    rc = buf.failed ? CHAT_ERROR : CHAT_OK;
    if (rc == CHAT_OK) {
        chat_digest(chat_buf_str(&buf), out);
    }

    chat_buf_free(&buf);

    return rc;
}
