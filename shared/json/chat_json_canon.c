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

#include "json/chat_json.h"
#include "json/chat_json_number.h"

#include <stdlib.h>

typedef struct {
    chat_str_t         key;
    const chat_json_t *node;
} chat_json_member_t;


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


/* 1 if a string, with its quotes, is in the one form already. */
static int
chat_json_is_canon(chat_str_t raw)
{
    const unsigned char *at = raw.data, *end = raw.data + raw.len;

    while ((at = memchr(at, '\\', (size_t) (end - at))) != NULL) {
        /* a backslash is never the last byte: the quote is */
        if (strchr("\"\\bfnrt", at[1]) == NULL) {
            return 0;
        }
        at += 2;
    }

    return 1;
}


static void
chat_json_canon_string(chat_json_doc_t *doc, const chat_json_t *node,
                       chat_buf_t *out)
{
    chat_str_t s = chat_json_raw(doc, node);

    if (chat_json_is_canon(s)) {
        chat_buf_add(out, s);
        return;
    }

    s = chat_json_string(doc, node);

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
        chat_json_number(doc->arena, chat_json_raw(doc, node), out);
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
