/*
 * chat_json_canon.c: one text for all ways to write a JSON value, to hash.
 *
 * It is JSON without white space, except for numbers: an integer of at most 15
 * digits, else '#' and the bits of the double as 16 hex digits. -0 is 0. A
 * number that no double can hold keeps its text. Keys are in order of length
 * and bytes, the last of duplicates counts, strings have the fewest escapes,
 * and a lone surrogate is U+FFFD.
 * It is made of the tree as far as that has all: that is three times as fast.
 * Of an array with other elements than objects, and of an object with many or
 * escaped keys, it is made of the text, which the parser has read.
 * Takes n log n, and recursion as deep as the parser lets a tree be. The
 * locale makes no difference.
 */

#include "json/chat_json.h"
#include "json/chat_json_scan.h"

#include <float.h>
#include <stdlib.h>

#define CHAT_JSON_MEMBERS 16   /* of an object: most have fewer */
#define CHAT_JSON_MOVES 8      /* times the text, see order_members() */
#define CHAT_JSON_DIGITS 15    /* of an integer that is its own form */
#define CHAT_JSON_INTEGER 1e15 /* the first with one more */
#define CHAT_JSON_EXPONENT (1LL << 40) /* no text has digits to make up for */

/* A member in its canonical form, as out has it. */
typedef struct {
    size_t     start;
    size_t     colon;
    size_t     end;
    chat_str_t key;
} member_t;

typedef struct {
    chat_json_doc_t     *doc;
    const unsigned char *at; /* what was read ends here */
    chat_buf_t          *out;
    size_t               moves;   /* bytes that may yet be moved */
    chat_buf_t           members; /* of the objects that are read, so far */
} canon_t;

static void canon_value(canon_t *canon);


static int
compare_members(const void *one, const void *two)
{
    const member_t *a = one, *b = two;
    int             rc = chat_str_compare(a->key, b->key);

    /* one key twice: as they stand in the text */
    return rc != 0 ? rc : a->start < b->start ? -1 : 1;
}


/* Most objects have few members, and those in one order. */
static void
sort_members(member_t *members, size_t n)
{
    size_t   i, at;
    member_t member;

    if (n > CHAT_JSON_MEMBERS) {
        qsort(members, n, sizeof(*members), compare_members);
        return;
    }

    for (i = 1; i < n; i++) {
        member = members[i];
        for (at = i; at > 0 && compare_members(&members[at - 1], &member) > 0;
             at--) {
            members[at] = members[at - 1];
        }

        members[at] = member;
    }
}


/*
 * Sorts the members that out has from this byte on. Each level of an object
 * moves what is in it: a text that would be moved too often keeps its order,
 * and then equals only texts with the same order.
 */
static void
order_members(canon_t *canon, size_t from, member_t *members, size_t n)
{
    int         ordered = 1;
    size_t      i;
    chat_buf_t  text = { 0 }, *out = canon->out;
    const char *separator = "";

    for (i = 0; i < n; i++) {
        members[i].key = chat_str(out->data + members[i].start,
                                  members[i].colon - members[i].start);
        ordered &=
            i == 0 || chat_str_compare(members[i - 1].key, members[i].key) < 0;
    }

    if (ordered || out->len - from > canon->moves) {
        return;
    }

    canon->moves -= out->len - from;
    sort_members(members, n);

    for (i = 0; i < n; i++) {
        if (i + 1 < n && chat_str_eq(members[i].key, members[i + 1].key)) {
            continue;
        }

        chat_buf_puts(&text, separator);
        chat_buf_add(&text, chat_str(out->data + members[i].start,
                                     members[i].end - members[i].start));
        separator = ",";
    }

    out->len = from;
    out->failed |= text.failed;
    chat_buf_add(out, chat_buf_str(&text));
    chat_buf_free(&text);
}


/* Moves to the next key or value, or to the last bracket. */
static unsigned char
next_token(canon_t *canon)
{
    while (strchr(" \n\r\t,:", *canon->at) != NULL) {
        canon->at++;
    }

    return *canon->at;
}


static void
canon_string(canon_t *canon)
{
    unsigned             has = 0;
    chat_str_t           s, text = canon->doc->text;
    chat_json_t          node = { .type = CHAT_JSON_STRING };
    const unsigned char *start = canon->at;

    canon->at = chat_json_string_end(start + 1, text.data + text.len, &has);
    canon->at++;
    s = chat_str(start, (size_t) (canon->at - start));

    if ((has & CHAT_JSON_VARIED) == 0) {
        chat_buf_add(canon->out, s);
        return;
    }

    node.has = (unsigned char) has;
    node.start = (uint32_t) (start - text.data);
    node.end = (uint32_t) (canon->at - text.data);
    s = chat_json_string(canon->doc, &node);
    canon->out->failed |= s.data == NULL;
    chat_buf_json(canon->out, s);
}


static void
canon_object(canon_t *canon)
{
    size_t      from, first = canon->members.len;
    member_t    member;
    chat_buf_t *out = canon->out, *members = &canon->members;

    canon->at++;
    chat_buf_puts(out, "{");
    from = out->len;

    while (next_token(canon) != '}' && !out->failed) {
        chat_buf_puts(out, members->len != first ? "," : "");
        member.start = out->len;
        canon_string(canon);
        member.colon = out->len;
        chat_buf_puts(out, ":");
        (void) next_token(canon);
        canon_value(canon);
        member.end = out->len;

        chat_buf_add(members, chat_str(&member, sizeof(member)));
        out->failed |= members->failed;
    }

    canon->at++;
    if (!out->failed && members->len != first) {
        order_members(canon, from, (void *) (members->data + first),
                      (members->len - first) / sizeof(member));
    }

    members->len = first;
    chat_buf_puts(out, "}");
}


static void
canon_array(canon_t *canon)
{
    const char *separator = "";

    canon->at++;
    chat_buf_puts(canon->out, "[");

    while (next_token(canon) != ']' && !canon->out->failed) {
        chat_buf_puts(canon->out, separator);
        canon_value(canon);
        separator = ",";
    }

    canon->at++;
    chat_buf_puts(canon->out, "]");
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


static void
canon_value(canon_t *canon)
{
    chat_str_t s = canon->doc->text, word;

    switch (*canon->at) {
    case '{':
        canon_object(canon);
        return;
    case '[':
        canon_array(canon);
        return;
    case '"':
        canon_string(canon);
        return;
    case 'n':
    case 't':
    case 'f':
        word = chat_str(canon->at, *canon->at == 'f' ? 5 : 4);
        chat_buf_add(canon->out, word);
        break;
    default:
        word.data = canon->at;
        word.len = (size_t) (chat_json_number_end(word.data, s.data + s.len)
                             - word.data);
        canon_number(word, canon->out);
        break;
    }

    canon->at += word.len;
}


/* A member's key with its quotes. */
static chat_str_t
raw_key(const canon_t *canon, const chat_json_t *member)
{
    return chat_str(canon->doc->text.data + member->key_start,
                    member->key_end - member->key_start);
}


/*
 * Lists the members of an object in order, the last one of each key. Returns
 * their number; 0: none, or not all keys stand in the text as they are, or
 * there are too many.
 */
static size_t
list_members(const canon_t *canon, const chat_json_t *object,
             const chat_json_t **members)
{
    int                rc;
    size_t             at, n = 0;
    const chat_json_t *node;

    for (node = object->child; node != NULL; node = node->next) {
        if ((node->key_has & CHAT_JSON_ESCAPED) != 0 || n == CHAT_JSON_MEMBERS)
        {
            return 0;
        }

        rc = 1;
        for (at = n; at > 0; at--) {
            rc = chat_str_compare(raw_key(canon, members[at - 1]),
                                  raw_key(canon, node));
            if (rc <= 0) {
                break;
            }
        }

        if (rc == 0) {
            members[at - 1] = node;
            continue;
        }

        memmove(&members[at + 1], &members[at], (n - at) * sizeof(*members));
        members[at] = node;
        n++;
    }

    return n;
}


static void
write_key(chat_buf_t *out, unsigned char separator, chat_str_t key)
{
    unsigned char *p = chat_buf_reserve(out, key.len + 2);

    if (p != NULL) {
        p[0] = separator;
        memcpy(p + 1, key.data, key.len);
        p[key.len + 1] = ':';
        out->len += key.len + 2;
    }
}


/* 1 if it is a string that is its own canonical form. */
static int
is_canonical_string(const chat_json_t *node)
{
    return node->type == CHAT_JSON_STRING
           && (node->has & CHAT_JSON_VARIED) == 0;
}


/* The value of the node, and of all below it that the tree has. */
static void
canon_node(canon_t *canon, const chat_json_t *node)
{
    size_t             i, n;
    chat_buf_t        *out = canon->out;
    const char        *separator = "";
    const chat_json_t *child, *members[CHAT_JSON_MEMBERS];

    canon->at = canon->doc->text.data + node->start;

    if (is_canonical_string(node)) {
        chat_buf_add(out, chat_str(canon->at, node->end - node->start));
        return;
    }

    if (node->type == CHAT_JSON_ARRAY && !node->opaque) {
        chat_buf_puts(out, "[");

        for (child = node->child; child != NULL; child = child->next) {
            chat_buf_puts(out, separator);
            canon_node(canon, child);
            separator = ",";
        }

        chat_buf_puts(out, "]");
        return;
    }

    n = node->type == CHAT_JSON_OBJECT ? list_members(canon, node, members)
                                       : 0;
    if (n == 0) {
        canon_value(canon);
        return;
    }

    for (i = 0; i < n; i++) {
        write_key(out, i == 0 ? '{' : ',', raw_key(canon, members[i]));
        canon_node(canon, members[i]);
    }

    chat_buf_puts(out, "}");
}


void
chat_json_canon(chat_json_doc_t *doc, const chat_json_t *node, chat_buf_t *out)
{
    canon_t canon = { .doc = doc, .out = out };

    if (node == NULL || out->failed) {
        return;
    }

    (void) chat_json_raw(doc, node); /* notes that it is read */
    canon.moves = (node->end - node->start) * (size_t) CHAT_JSON_MOVES;
    canon_node(&canon, node);
    chat_buf_free(&canon.members);
}


chat_rc_e
chat_json_digest(chat_json_doc_t *doc, const chat_json_t *node,
                 chat_digest_t *out)
{
    chat_rc_e  rc;
    chat_buf_t buf = { 0 };

    if (node != NULL && is_canonical_string(node)) {
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
