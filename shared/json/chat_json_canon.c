/*
 * chat_json_canon.c: one text for all ways to write a JSON value, to hash.
 *
 * It is JSON without white space, except for numbers: an integer of at most 15
 * digits, else '#' and the bits of the double as one number. -0 is 0. A number
 * that no double can hold keeps its text. Keys are in order of their rank,
 * length and bytes, the last of duplicates counts, strings have the fewest
 * escapes, and a lone surrogate is U+FFFD.
 * Takes n log n, and recursion as deep as the parser lets a tree be. The
 * locale makes no difference.
 */

#include "json/chat_json.h"
#include "json/chat_json_scan.h"

#include <float.h>
#include <stdlib.h>

#define CHAT_JSON_MEMBERS 16   /* of an object, that are sorted as listed */
#define CHAT_JSON_INTEGER 1e15 /* the first with 16 digits */

typedef struct {
    uint64_t             order; /* the key's rank, then its length */
    const unsigned char *key;   /* in canonical form, with its quotes */
    const chat_json_t   *node;
} member_t;

static void canon_node(chat_json_doc_t *doc, const chat_json_t *node,
                       chat_buf_t *out);


/* ---- strings and numbers ---- */


/* Writes a string with its quotes. */
static __attribute__((noinline)) void
rewrite_string(chat_json_doc_t *doc, chat_str_t text, chat_buf_t *out)
{
    unsigned char *p = chat_arena_take(doc->arena, text.len + CHAT_JSON_ROOM);
    chat_str_t     inner = chat_str(text.data + 1, text.len - 2);

    if (p == NULL) {
        out->failed = 1;
        return;
    }

    chat_buf_json(out,
                  chat_str(p, (size_t) (chat_json_unescape(inner, p) - p)));
}


/* Reads a number, with out as scratch. */
static double
canon_double(chat_str_t s, chat_buf_t *out)
{
    size_t start = out->len;
    double value = 0;

    chat_buf_add(out, s);
    chat_buf_add(out, chat_str("", 1));
    out->failed |=
        !out->failed && !chat_str_double((char *) out->data + start, &value);
    out->len = start;
    return value;
}


static void
canon_number(chat_str_t s, chat_buf_t *out)
{
    uint64_t bits;
    double   value = canon_double(s, out);

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
    chat_buf_format(out, "#%d", bits);
}


/* Writes the scalar at p, which the parser has read; returns its end. */
static const unsigned char *
canon_scalar(chat_json_doc_t *doc, const unsigned char *p, chat_buf_t *out)
{
    unsigned             has = 0;
    chat_str_t           text;
    const unsigned char *start = p, *end = doc->text.data + doc->text.len;

    p = *p == '"'   ? chat_json_string_end(p + 1, end, &has, 4) + 1
        : *p == 'f' ? p + 5
        : *p == 't' || *p == 'n' ? p + 4
                                 : chat_json_number_end(p, end, &has);
    text = chat_str(start, (size_t) (p - start));

    if ((has & CHAT_JSON_VARIED) == 0) {
        chat_buf_add(out, text);
    } else if (*start == '"') {
        rewrite_string(doc, text, out);
    } else {
        canon_number(text, out);
    }

    return p;
}


/* ---- arrays and objects ---- */


/*
 * Writes the array at p, which the tree does not have; returns its end. There
 * may be many: each is read into an arena of its own. end: of the outer one.
 */
static const unsigned char *
canon_inner_array(const unsigned char *p, const unsigned char *end,
                  chat_buf_t *out)
{
    chat_str_t      text = chat_str(p, (size_t) (end - p));
    chat_arena_t   *arena = chat_arena_create(0);
    chat_json_doc_t inner;

    if (arena != NULL
        && chat_json_parse_some(&inner, arena, text, CHAT_JSON_ARRAY)
               == CHAT_OK)
    {
        canon_node(&inner, inner.root, out);
        p += inner.root->end;
    } else {
        out->failed = 1;
    }

    chat_arena_destroy(arena);
    return p;
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
            p = *p == '[' ? canon_inner_array(p, text + array->end, out)
                          : canon_scalar(doc, p, out);
        }
    }

    chat_buf_puts(out, separator[0] == '[' ? "[]" : "]");
}


/* 1 if they have one key. */
static inline int
is_same(const member_t *a, const member_t *b)
{
    return a->order == b->order
           && memcmp(a->key, b->key, (uint32_t) a->order) == 0;
}


static int
compare_members(const void *one, const void *two)
{
    const member_t *a = one, *b = two;
    int             rc = a->order != b->order
                             ? (a->order < b->order ? -1 : 1)
                             : memcmp(a->key, b->key, (uint32_t) a->order);

    /* one key twice: as they stand in the text */
    return rc != 0 ? rc : a->node->start < b->node->start ? -1 : 1;
}


/* The canonical form of a key, in the arena. */
static __attribute__((noinline)) chat_str_t
rewrite_key(chat_json_doc_t *doc, chat_str_t key, chat_buf_t *out)
{
    chat_buf_t text = { 0 };

    rewrite_string(doc, key, &text);
    out->failed |= chat_buf_move(&text, doc->arena, &key) != CHAT_OK;
    return key;
}


/* Lists the n members of an object in order; NULL without memory. */
static inline member_t *
list_members(chat_json_doc_t *doc, const chat_json_t *object, size_t n,
             chat_buf_t *out)
{
    int                sort = n > CHAT_JSON_MEMBERS; /* else few move */
    size_t             at, i = 0;
    uint64_t           order;
    member_t          *members;
    chat_str_t         key;
    const chat_json_t *node;

    members = chat_arena_take(doc->arena, (n + 1) * sizeof(*members));
    if (members == NULL) {
        out->failed = 1;
        return NULL;
    }

    for (node = object->child; node != NULL; node = node->next) {
        key = chat_str(doc->text.data + node->key_start,
                       node->key_end - node->key_start);

        if ((node->key_has & CHAT_JSON_VARIED) != 0) {
            key = rewrite_key(doc, key, out);
        }

        order = (uint64_t) chat_json_rank(key.data, key.len) << 32 | key.len;

        for (at = i++; at != 0 && !sort && members[at - 1].order > order; at--)
        {
            members[at] = members[at - 1];
        }

        sort |= at != 0 && members[at - 1].order == order;
        members[at] = (member_t){ order, key.data, node };
    }

    if (sort) {
        qsort(members, n, sizeof(*members), compare_members);
    }

    return members;
}


/* 1 if key and colon stand before the value as they are written. */
static inline int
is_plain(const chat_json_t *member)
{
    return (member->key_has & CHAT_JSON_VARIED) == 0
           && member->start == member->key_end + 1;
}


void
chat_json_canon_member(chat_json_doc_t *doc, const chat_json_t *node,
                       chat_buf_t *out)
{
    int own = is_plain(node) && (node->has & CHAT_JSON_VARIED) == 0;
    const unsigned char *key = doc->text.data + node->key_start;

    if (is_plain(node)) {
        chat_buf_add(out, chat_str(key, (own ? node->end : node->start)
                                            - node->key_start));
    } else {
        (void) canon_scalar(doc, key, out);
        chat_buf_add(out, chat_str(":", 1));
    }

    if (!own) {
        canon_node(doc, node, out);
    }
}


static void
canon_object(chat_json_doc_t *doc, const chat_json_t *object, chat_buf_t *out)
{
    size_t             len, start = out->len, n = chat_json_count(object);
    size_t             room = object->end - object->start; /* if unchanged */
    member_t          *members = list_members(doc, object, n, out), *member;
    unsigned char     *p = members ? chat_buf_reserve(out, room) : NULL;
    const chat_json_t *node;

    for (member = members; p != NULL && member < members + n; member++) {
        node = member->node;

        if (member + 1 < members + n && is_same(member, member + 1)) {
            continue;
        }

        *p++ = ',';

        if (is_plain(node) && (node->has & CHAT_JSON_VARIED) == 0) {
            len = node->end - node->key_start;
            memcpy(p, doc->text.data + node->key_start, len);
            p += len;

        } else {
            out->len = (size_t) (p - out->data);
            chat_json_canon_member(doc, node, out);
            p = chat_buf_reserve(out, room);
        }
    }

    if (p != NULL) {
        p += n == 0;
        *p++ = '}';
        out->len = (size_t) (p - out->data);
        out->data[start] = '{'; /* for the first comma */
    }
}


/* Of a VARIED value: 1 if only its children have another form than here. */
static inline int
is_outer(const chat_json_t *node)
{
    return node->child != NULL && (node->has & CHAT_JSON_OWN) == 0;
}


/*
 * Writes the text from *at on, with the form of each child that has another
 * one, at any depth; moves *at behind the last of these.
 */
static void
canon_children(chat_json_doc_t *doc, const chat_json_t *node, size_t *at,
               chat_buf_t *out)
{
    const chat_json_t *child;

    for (child = node->child; child != NULL; child = child->next) {
        if ((child->has & CHAT_JSON_VARIED) == 0) {
            continue;
        }

        if (is_outer(child)) {
            canon_children(doc, child, at, out);
        } else {
            chat_buf_add(out,
                         chat_str(doc->text.data + *at, child->start - *at));
            canon_node(doc, child, out);
            *at = child->end;
        }
    }
}


static void
canon_node(chat_json_doc_t *doc, const chat_json_t *node, chat_buf_t *out)
{
    size_t               at = node->start;
    const unsigned char *text = doc->text.data;

    if ((node->has & CHAT_JSON_VARIED) == 0) {
        chat_buf_add(out, chat_str(text + at, node->end - at));

    } else if (is_outer(node)) {
        canon_children(doc, node, &at, out);
        chat_buf_add(out, chat_str(text + at, node->end - at));

    } else if (node->type == CHAT_JSON_OBJECT) {
        canon_object(doc, node, out);

    } else if (node->type == CHAT_JSON_ARRAY) {
        canon_array(doc, node, out);

    } else {
        (void) canon_scalar(doc, text + at, out);
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
chat_json_mix(chat_json_doc_t *doc, const chat_json_t *node, chat_mix_t *mix)
{
    chat_buf_t *text = chat_buf_scratch();

    if (node != NULL && (node->has & CHAT_JSON_VARIED) == 0) {
        chat_mix_add(mix, chat_json_raw(doc, node)); /* its own form */
        return CHAT_OK;
    }

    chat_json_canon(doc, node, text);
    chat_mix_add(mix, chat_buf_str(text));
    return text->failed ? CHAT_ERROR : CHAT_OK;
}
