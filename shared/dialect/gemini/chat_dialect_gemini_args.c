/*
 * chat_dialect_gemini_args.c: arguments of a call that come in pieces.
 *
 * A piece is a path ($.items[0].name) and a value; further strings of one
 * path go on where the last one ended. The pieces make a tree, and the tree
 * the arguments as the client will send them back.
 * Promises: memory, depth and time are bounded; what is past a bound or
 * written in another way makes the arguments unknown, never wrong.
 * Must not know: calls, frames.
 */

#include "dialect/gemini/chat_dialect_gemini.h"

#define CHAT_GEMINI_DEPTH 32
#define CHAT_GEMINI_VALUES 1024
#define CHAT_GEMINI_BYTES (1 << 20) /* of all calls of a stream, or body */

typedef struct chat_gemini_text_s  chat_gemini_text_t;
typedef struct chat_gemini_value_s chat_gemini_value_t;

struct chat_gemini_text_s {
    chat_str_t          text;
    chat_gemini_text_t *next;
};

typedef enum {
    CHAT_GEMINI_NOTHING, /* only its path was seen */
    CHAT_GEMINI_MEMBERS,
    CHAT_GEMINI_ELEMENTS,
    CHAT_GEMINI_STRING, /* of the pieces */
    CHAT_GEMINI_RAW     /* the one piece is JSON text */
} chat_gemini_type_e;

struct chat_gemini_value_s {
    chat_str_t           key; /* of an element: its digits */
    chat_gemini_type_e   type;
    chat_gemini_value_t *first;
    chat_gemini_value_t *last;
    chat_gemini_value_t *next;
    uint32_t             count; /* of those within */
    chat_table_t         keys;  /* item: the value within of this key */
    chat_gemini_text_t  *text;
    chat_gemini_text_t  *end;
};

struct chat_gemini_args_s {
    chat_arena_t       *arena;
    chat_gemini_value_t root;
    size_t              values;
    size_t              bytes; /* taken from the arena, of all calls so far */
    int                 lost;
};


chat_gemini_args_t *
chat_gemini_args_create(chat_arena_t *arena)
{
    chat_gemini_args_t *args = chat_arena_alloc(arena, sizeof(*args));

    if (args) {
        args->arena = arena;
    }

    return args;
}


void
chat_gemini_args_begin(chat_gemini_args_t *args)
{
    memset(&args->root, 0, sizeof(args->root));
    args->root.type = CHAT_GEMINI_MEMBERS;
    chat_table_init(&args->root.keys, args->arena);
    args->values = 0;
    args->lost = 0;
}


/*
 * An entry and a copy of its text, which count alike: pieces may be tiny.
 * CHAT_LIMIT: past the bound.
 */
static chat_rc_e
chat_gemini_keep(chat_gemini_args_t *args, size_t size, chat_str_t s,
                 void **entry, chat_str_t *text)
{
    if (size + s.len > CHAT_GEMINI_BYTES - args->bytes) {
        return CHAT_LIMIT;
    }

    args->bytes += size + s.len;
    *entry = chat_arena_alloc(args->arena, size);

    return *entry ? chat_arena_dup(args->arena, s, text) : CHAT_ERROR;
}


/* The value of this key within another, made if it is new. */
static chat_rc_e
chat_gemini_within(chat_gemini_args_t *args, chat_gemini_value_t *parent,
                   chat_gemini_type_e type, chat_str_t key,
                   chat_gemini_value_t **out)
{
    void                *entry;
    chat_rc_e            rc;
    chat_str_t           own;
    chat_table_entry_t  *known;
    chat_gemini_value_t *value;

    if (parent->type == CHAT_GEMINI_NOTHING) {
        parent->type = type;
    }

    if (parent->type != type) {
        return CHAT_LIMIT;
    }

    known = chat_table_find(&parent->keys, key);
    if (known) {
        *out = known->item;
        return CHAT_OK;
    }

    if (args->values == CHAT_GEMINI_VALUES) {
        return CHAT_LIMIT;
    }

    rc = chat_gemini_keep(args, sizeof(*value) + sizeof(*known), key, &entry,
                          &own);
    if (rc != CHAT_OK) {
        return rc;
    }

    known = chat_table_put(&parent->keys, own);
    if (known == NULL) {
        return CHAT_ERROR;
    }

    value = entry;
    value->key = own;
    known->item = value;
    chat_table_init(&value->keys, args->arena);

    if (parent->last) {
        parent->last->next = value;
    } else {
        parent->first = value;
    }

    parent->last = value;
    parent->count++;
    args->values++;
    *out = value;

    return CHAT_OK;
}


/* An element of an array: the next one, or one that is there. */
static int
chat_gemini_element(const chat_gemini_value_t *parent, chat_str_t digits)
{
    uint64_t n;

    return chat_str_number(digits, &n) && n <= parent->count;
}


/* How many bytes come before one of the two characters, or the end. */
static size_t
chat_gemini_until(chat_str_t s, char a, char b)
{
    size_t len = 0;

    while (len < s.len && s.data[len] != (unsigned char) a
           && s.data[len] != (unsigned char) b)
    {
        len++;
    }

    return len;
}


/*
 * One segment of a path: .name, [0], ['name'] or ["name"]. Answers its length,
 * 0 if it is none of them.
 */
static size_t
chat_gemini_segment(chat_str_t path, chat_gemini_type_e *type, chat_str_t *key)
{
    size_t     len;
    char       quote;
    chat_str_t rest;

    *type = CHAT_GEMINI_MEMBERS;

    if (path.len > 1 && path.data[0] == '.') {
        rest = chat_str(path.data + 1, path.len - 1);
        len = chat_gemini_until(rest, '.', '[');
        *key = chat_str(rest.data, len);
        return len ? 1 + len : 0;
    }

    if (path.len < 3 || path.data[0] != '[') {
        return 0;
    }

    if (path.data[1] != '\'' && path.data[1] != '"') {
        rest = chat_str(path.data + 1, path.len - 1);
        len = chat_gemini_until(rest, ']', ']');
        *type = CHAT_GEMINI_ELEMENTS;
        *key = chat_str(rest.data, len);
        return len < rest.len ? len + 2 : 0;
    }

    quote = (char) path.data[1];
    rest = chat_str(path.data + 2, path.len - 2);
    len = chat_gemini_until(rest, quote, '\\');
    *key = chat_str(rest.data, len);

    return rest.len - len >= 2 && rest.data[len] == (unsigned char) quote
                   && rest.data[len + 1] == ']'
               ? len + 4
               : 0;
}


/* The value that a path leads to. */
static chat_rc_e
chat_gemini_follow(chat_gemini_args_t *args, chat_str_t path,
                   chat_gemini_value_t **out)
{
    size_t             len;
    chat_rc_e          rc;
    unsigned           depth = 0;
    chat_str_t         key;
    chat_gemini_type_e type;

    if (path.len < 2 || path.data[0] != '$') {
        return CHAT_LIMIT;
    }

    *out = &args->root;

    for (len = 1, rc = CHAT_OK; len < path.len && rc == CHAT_OK; /* void */) {
        path = chat_str(path.data + len, path.len - len);
        len = chat_gemini_segment(path, &type, &key);

        if (len == 0 || ++depth > CHAT_GEMINI_DEPTH
            || (type == CHAT_GEMINI_ELEMENTS
                && !chat_gemini_element(*out, key)))
        {
            return CHAT_LIMIT;
        }

        rc = chat_gemini_within(args, *out, type, key, out);
    }

    return rc;
}


/* Puts text to a value. */
static chat_rc_e
chat_gemini_say(chat_gemini_args_t *args, chat_gemini_value_t *value,
                chat_gemini_type_e type, chat_str_t s)
{
    void               *entry;
    chat_rc_e           rc;
    chat_str_t          own;
    chat_gemini_text_t *text;

    if (value->type != CHAT_GEMINI_NOTHING
        && !(value->type == type && type == CHAT_GEMINI_STRING))
    {
        return CHAT_LIMIT;
    }

    value->type = type;

    if (s.len == 0) {
        return CHAT_OK;
    }

    rc = chat_gemini_keep(args, sizeof(*text), s, &entry, &own);
    if (rc != CHAT_OK) {
        return rc;
    }

    text = entry;
    text->text = own;

    if (value->end) {
        value->end->next = text;
    } else {
        value->text = text;
    }

    value->end = text;

    return CHAT_OK;
}


static chat_rc_e
chat_gemini_piece(chat_gemini_args_t *args, chat_json_doc_t *doc,
                  const chat_json_t *piece)
{
    chat_rc_e            rc;
    const chat_json_t   *node;
    chat_gemini_value_t *value;

    rc = chat_gemini_follow(args, chat_json_text(doc, piece, "jsonPath"),
                            &value);
    if (rc != CHAT_OK) {
        return rc;
    }

    node = chat_json_get(doc, piece, "stringValue");
    if (node && node->type == CHAT_JSON_STRING) {
        return chat_gemini_say(args, value, CHAT_GEMINI_STRING,
                               chat_json_string(doc, node));
    }

    node = chat_json_get(doc, piece, "numberValue");
    if (node == NULL) {
        node = chat_json_get(doc, piece, "boolValue");
    }

    if (node
        && (node->type == CHAT_JSON_NUMBER || node->type == CHAT_JSON_TRUE
            || node->type == CHAT_JSON_FALSE))
    {
        return chat_gemini_say(args, value, CHAT_GEMINI_RAW,
                               chat_json_raw(doc, node));
    }

    return chat_json_get(doc, piece, "nullValue") ? chat_gemini_say(
               args, value, CHAT_GEMINI_RAW, chat_cstr("null"))
                                                  : CHAT_LIMIT;
}


chat_rc_e
chat_gemini_args_add(chat_gemini_args_t *args, chat_json_doc_t *doc,
                     const chat_json_t *pieces)
{
    chat_rc_e          rc;
    const chat_json_t *piece = NULL;

    if (pieces && pieces->type == CHAT_JSON_ARRAY) {
        piece = pieces->child;
    }

    for (/* void */; piece && !args->lost; piece = piece->next) {
        rc = chat_gemini_piece(args, doc, piece);

        if (rc == CHAT_ERROR) {
            return rc;
        }

        args->lost |= rc != CHAT_OK;
    }

    return CHAT_OK;
}


static void
chat_gemini_write_string(const chat_gemini_value_t *value, chat_buf_t *out)
{
    chat_buf_t                whole = { 0 };
    const chat_gemini_text_t *text;

    for (text = value->text; text; text = text->next) {
        chat_buf_add(&whole, text->text);
    }

    chat_buf_json(out, chat_buf_str(&whole));

    out->failed |= whole.failed;
    chat_buf_free(&whole);
}


/* As deep as CHAT_GEMINI_DEPTH. */
static void
chat_gemini_write(const chat_gemini_value_t *value, chat_buf_t *out)
{
    int                        members = value->type == CHAT_GEMINI_MEMBERS;
    const chat_gemini_value_t *each;

    switch (value->type) {
    case CHAT_GEMINI_NOTHING:
        chat_buf_puts(out, "null");
        return;

    case CHAT_GEMINI_STRING:
        chat_gemini_write_string(value, out);
        return;

    case CHAT_GEMINI_RAW:
        chat_buf_add(out, value->text->text);
        return;

    case CHAT_GEMINI_MEMBERS:
    case CHAT_GEMINI_ELEMENTS:
        break;
    }

    chat_buf_puts(out, members ? "{" : "[");

    for (each = value->first; each; each = each->next) {
        if (members) {
            chat_buf_json(out, each->key);
            chat_buf_puts(out, ":");
        }

        chat_gemini_write(each, out);
        chat_buf_puts(out, each->next ? "," : "");
    }

    chat_buf_puts(out, members ? "}" : "]");
}


chat_rc_e
chat_gemini_args_text(const chat_gemini_args_t *args, chat_arena_t *arena,
                      chat_str_t *out)
{
    chat_rc_e  rc;
    chat_buf_t text = { 0 };

    if (args->lost) {
        return CHAT_LIMIT;
    }

    chat_gemini_write(&args->root, &text);

    rc = chat_buf_dup(&text, arena, out);

    chat_buf_free(&text);

    return rc;
}
