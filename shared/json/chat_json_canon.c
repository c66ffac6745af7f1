/*
 * chat_json_canon.c: one text for all ways to write a JSON value, to hash.
 *
 * It is JSON without white space, except for numbers: an integer of at most 15
 * digits, else '#' and the bits of the double as 16 hex digits. -0 is 0. A
 * number that no double can hold keeps its text. Keys are in order of length
 * and bytes, the last of duplicates counts, strings have the fewest escapes,
 * and a lone surrogate is U+FFFD.
 * Takes n log n, and recursion as deep as the parser lets a tree be. The
 * locale makes no difference.
 */

#include "json/chat_json.h"
#include "json/chat_json_scan.h"

#include <float.h>
#include <stdlib.h>

#define CHAT_JSON_MEMBERS 16           /* of an object: most have fewer */
#define CHAT_JSON_DIGITS 15            /* of an integer that is its own form */
#define CHAT_JSON_INTEGER 1e15         /* the first with one more */
#define CHAT_JSON_EXPONENT (1LL << 40) /* no text has digits to make up for */

typedef struct {
    chat_str_t         key; /* in canonical form, with its quotes */
    const chat_json_t *node;
} member_t;

static void canon_node(chat_json_doc_t *doc, const chat_json_t *node,
                       chat_buf_t *out);


/* ---- strings and numbers ---- */


/* Writes a string with its quotes, of which the scan found has. */
static __attribute__((noinline)) void
rewrite_string(chat_json_doc_t *doc, chat_str_t text, unsigned has,
               chat_buf_t *out)
{
    chat_str_t  s;
    chat_json_t node = {
        .type = CHAT_JSON_STRING,
        .has = (unsigned char) has,
        .start = (uint32_t) (text.data - doc->text.data),
        .end = (uint32_t) (text.data + text.len - doc->text.data),
    };

    s = chat_json_string(doc, &node);
    out->failed |= s.data == NULL;
    chat_buf_json(out, s);
}


/* The same; most strings stand in the text as they are written. */
static inline void
canon_string(chat_json_doc_t *doc, chat_str_t text, unsigned has,
             chat_buf_t *out)
{
    if ((has & CHAT_JSON_VARIED) == 0) {
        chat_buf_add(out, text);
    } else {
        rewrite_string(doc, text, has, out);
    }
}


/*
 * strtod() of a JSON number, with out as scratch. The locale decides what
 * strtod() takes for a decimal point, so it gets none: 12.5e3 becomes 125e2.
 */
static double
canon_double(chat_str_t s, chat_buf_t *out)
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
    chat_buf_format(out, "e%s%d%v", exponent < 0 ? "-" : "",
                    (uint64_t) (exponent < 0 ? -exponent : exponent),
                    chat_str("", 1));

    if (!out->failed) {
        value = strtod((char *) out->data + start, NULL);
    }

    out->len = start;
    return value;
}


static void
canon_number(chat_str_t s, chat_buf_t *out)
{
    char     hex[17] = "0000000000000000";
    double   value;
    uint64_t digits, bits = 0;
    size_t   i;

    if (s.len <= CHAT_JSON_DIGITS && chat_str_number(s, &digits)) {
        chat_buf_add(out, s);
        return;
    }

    value = canon_double(s, out);

    if (value > -CHAT_JSON_INTEGER && value < CHAT_JSON_INTEGER
        && value == (double) (int64_t) value)
    {
        chat_buf_format(out, "%s%d", value < 0 ? "-" : "",
                        (uint64_t) (value < 0 ? -value : value));
        return;
    }

    if (value > DBL_MAX || value < -DBL_MAX) {
        chat_buf_add(out, s);
        return;
    }

    memcpy(&bits, &value, sizeof(bits));

    for (i = 16; i > 0 && bits != 0; bits >>= 4) {
        hex[--i] = "0123456789abcdef"[bits & 15];
    }

    chat_buf_puts(out, "#");
    chat_buf_add(out, chat_str(hex, 16));
}


/* Writes the scalar at p, which the parser has read; returns its end. */
static const unsigned char *
canon_scalar(chat_json_doc_t *doc, const unsigned char *p, chat_buf_t *out)
{
    unsigned             has = 0;
    const unsigned char *start = p, *end = doc->text.data + doc->text.len;

    switch (*p) {
    case '"':
        p = chat_json_string_end(p + 1, end, &has) + 1;
        canon_string(doc, chat_str(start, (size_t) (p - start)), has, out);
        return p;
    case 'n':
    case 't':
    case 'f':
        p += *p == 'f' ? 5 : 4;
        chat_buf_add(out, chat_str(start, (size_t) (p - start)));
        return p;
    default:
        p = chat_json_number_end(p, end);
        canon_number(chat_str(start, (size_t) (p - start)), out);
        return p;
    }
}


/* ---- arrays and objects ---- */


/* Writes the array at p, which the tree does not have; returns its end. */
static const unsigned char *
canon_inner_array(chat_json_doc_t *doc, const unsigned char *p,
                  chat_buf_t *out)
{
    chat_json_doc_t inner;
    chat_str_t      text =
        chat_str(p, (size_t) (doc->text.data + doc->text.len - p));

    if (chat_json_parse_array(&inner, doc->arena, text) != CHAT_OK) {
        out->failed = 1;
        return p;
    }

    canon_node(&inner, inner.root, out);
    return p + inner.root->end;
}


/* The tree has the objects of an array, the text all other elements. */
static void
canon_array(chat_json_doc_t *doc, const chat_json_t *array, chat_buf_t *out)
{
    const char          *separator = "[";
    const chat_json_t   *child = array->child;
    const unsigned char *text = doc->text.data, *p = text + array->start + 1;

    for (/* void */; !out->failed; separator = ",") {
        while (*p <= ' ' || *p == ',') {
            p++;
        }

        if (*p == ']') {
            break;
        }

        chat_buf_puts(out, separator);

        if (child != NULL && p == text + child->start) {
            canon_node(doc, child, out);
            p = text + child->end;
            child = child->next;

        } else {
            p = *p == '[' ? canon_inner_array(doc, p, out)
                          : canon_scalar(doc, p, out);
        }
    }

    chat_buf_puts(out, separator[0] == '[' ? "[]" : "]");
}


static int
compare_members(const void *one, const void *two)
{
    const member_t *a = one, *b = two;
    int             rc = chat_str_compare(a->key, b->key);

    /* one key twice: as they stand in the text */
    return rc != 0 ? rc : a->node->start < b->node->start ? -1 : 1;
}


/* The canonical form of a key; its data is NULL without memory. */
static __attribute__((noinline)) chat_str_t
rewrite_key(chat_json_doc_t *doc, chat_str_t key, unsigned has)
{
    chat_buf_t text = { 0 };

    rewrite_string(doc, key, has, &text);

    return chat_buf_move(&text, doc->arena, &key) == CHAT_OK
               ? key
               : chat_str(NULL, 0);
}


/*
 * Lists the members of an object in order. Most objects have few, and those
 * in one order. CHAT_ERROR without memory.
 */
static chat_rc_e
list_members(chat_json_doc_t *doc, const chat_json_t *object,
             member_t *members, size_t count)
{
    size_t             at, n = 0;
    member_t           member;
    const chat_json_t *node;

    for (node = object->child; node != NULL; node = node->next) {
        member.node = node;
        member.key = chat_str(doc->text.data + node->key_start,
                              node->key_end - node->key_start);

        if ((node->key_has & CHAT_JSON_VARIED) != 0) {
            member.key = rewrite_key(doc, member.key, node->key_has);
            if (member.key.data == NULL) {
                return CHAT_ERROR;
            }
        }

        for (at = n++;
             at > 0 && count <= CHAT_JSON_MEMBERS
             && chat_str_compare(members[at - 1].key, member.key) > 0;
             at--)
        {
            members[at] = members[at - 1];
        }

        members[at] = member;
    }

    if (count > CHAT_JSON_MEMBERS) {
        qsort(members, count, sizeof(*members), compare_members);
    }

    return CHAT_OK;
}


static void
canon_object(chat_json_doc_t *doc, const chat_json_t *object, chat_buf_t *out)
{
    size_t      i, n = chat_json_count(object);
    member_t    few[CHAT_JSON_MEMBERS], *members = few;
    const char *separator = "{";

    if (n > CHAT_JSON_MEMBERS) {
        members = chat_arena_take(doc->arena, n * sizeof(*members));
    }

    if (members == NULL || list_members(doc, object, members, n) != CHAT_OK) {
        out->failed = 1;
        return;
    }

    for (i = 0; i < n; i++) {
        if (i + 1 == n || !chat_str_eq(members[i].key, members[i + 1].key)) {
            chat_buf_add(out, chat_str(separator, 1));
            chat_buf_add(out, members[i].key);
            chat_buf_add(out, chat_str(":", 1));
            canon_node(doc, members[i].node, out);
            separator = ",";
        }
    }

    chat_buf_puts(out, n == 0 ? "{}" : "}");
}


static void
canon_node(chat_json_doc_t *doc, const chat_json_t *node, chat_buf_t *out)
{
    const unsigned char *start = doc->text.data + node->start;

    if (node->type == CHAT_JSON_OBJECT) {
        canon_object(doc, node, out);

    } else if (node->type == CHAT_JSON_ARRAY) {
        canon_array(doc, node, out);

    } else if (node->type == CHAT_JSON_STRING) {
        canon_string(doc, chat_str(start, node->end - node->start), node->has,
                     out);

    } else {
        (void) canon_scalar(doc, start, out);
    }
}


void
chat_json_canon(chat_json_doc_t *doc, const chat_json_t *node, chat_buf_t *out)
{
    if (node != NULL && !out->failed) {
        (void) chat_json_raw(doc, node); /* notes that it is read */
        canon_node(doc, node, out);
    }
}


chat_rc_e
chat_json_digest(chat_json_doc_t *doc, const chat_json_t *node,
                 chat_digest_t *out)
{
    chat_rc_e  rc;
    chat_buf_t buf = { 0 };

    if (node != NULL && node->type == CHAT_JSON_STRING
        && (node->has & CHAT_JSON_VARIED) == 0)
    {
        chat_digest(chat_json_raw(doc, node), out); /* it is its own form */
        return CHAT_OK;
    }

    chat_json_canon(doc, node, &buf);

    rc = buf.failed ? CHAT_ERROR : CHAT_OK;
    if (rc == CHAT_OK) {
        chat_digest(chat_buf_str(&buf), out);
    }

    chat_buf_free(&buf);

    return rc;
}
