/*
 * chat_dialect_gemini_args.c: arguments of a call that come in pieces.
 *
 * A piece is a path ($.items[0].name) and a value; further strings of one
 * path go on where the last one ended. The pieces make a tree, and the tree
 * the arguments as the client will send them back. What is past a bound, or
 * written in another way, makes the arguments unknown, never wrong.
 */

#include "dialect/gemini/chat_dialect_gemini.h"

#define CHAT_GEMINI_DEPTH 32
#define CHAT_GEMINI_VALUES 1024     /* of a call */
#define CHAT_GEMINI_BYTES (1 << 20) /* of all calls of a stream, or body */

typedef struct value_s value_t;

typedef enum {
    CHAT_GEMINI_NOTHING, /* only its path was seen */
    CHAT_GEMINI_MEMBERS,
    CHAT_GEMINI_ELEMENTS,
    CHAT_GEMINI_STRING, /* of the pieces */
    CHAT_GEMINI_RAW     /* the one piece is JSON text */
} type_e;

struct value_s {
    type_e         type;
    chat_str_t     key; /* of an element: its digits */
    value_t       *next;
    value_t       *first; /* of the values within */
    value_t       *last;
    size_t         count;
    unsigned char *text;
    size_t         len;
    size_t         size;
};

struct chat_gemini_args_s {
    chat_arena_t *arena;
    value_t       root;
    value_t      *value;  /* that the last piece went to, a string; or NULL */
    size_t        values; /* without the root */
    size_t        bytes;  /* taken from the arena, of all calls so far */
    int           lost;
    int           failed; /* an allocation did */
};


chat_gemini_args_t *
chat_gemini_args_begin(chat_gemini_args_t *args, chat_arena_t *arena)
{
    if (args == NULL) {
        args = chat_arena_alloc(arena, sizeof(*args));
    }

    if (args != NULL) {
        args->arena = arena;
        memset(&args->root, 0, sizeof(args->root));
        args->value = NULL;
        args->root.type = CHAT_GEMINI_MEMBERS;
        args->values = 0;
        args->lost = 0;
    }

    return args;
}


/* Zeroed bytes; NULL: past the bound (lost), or without memory (failed). */
static void *
take(chat_gemini_args_t *args, size_t size)
{
    void *bytes = NULL;

    if (size > CHAT_GEMINI_BYTES - args->bytes) {
        args->lost = 1;
        return NULL;
    }

    args->bytes += size;
    bytes = chat_arena_alloc(args->arena, size);
    args->failed |= bytes == NULL;

    return bytes;
}


/* The value of this key within another, made if it is new; NULL as take(). */
static value_t *
within(chat_gemini_args_t *args, value_t *parent, chat_str_t key)
{
    value_t       *value = parent->last;
    unsigned char *own;

    /* pieces mostly go on where the last one ended */
    if (value != NULL && !chat_str_eq(value->key, key)) {
        value = parent->first;
    }

    while (value != NULL && !chat_str_eq(value->key, key)) {
        value = value->next;
    }

    if (value != NULL) {
        return value;
    }

    args->lost |= ++args->values > CHAT_GEMINI_VALUES;
    value = args->lost ? NULL : take(args, sizeof(*value) + key.len);
    if (value == NULL) {
        return NULL;
    }

    own = (unsigned char *) (value + 1);
    (void) chat_str_copy(own, key);
    value->key = chat_str(own, key.len);
    *(parent->last ? &parent->last->next : &parent->first) = value;
    parent->last = value;
    parent->count++;

    return value;
}


/*
 * Takes one segment off the path: .name, [0], ['name'] or ["name"]. 0: it is
 * none of them.
 */
static int
segment(chat_str_t *path, type_e *type, chat_str_t *key)
{
    const char          *ends = ".[", *close = "";
    const unsigned char *at = path->data + 1, *end = path->data + path->len;

    *type = CHAT_GEMINI_MEMBERS;

    if (*path->data == '[') {
        ends = "]";
        close = "]";

        if (at < end && (*at == '\'' || *at == '"')) {
            ends = *at == '"' ? "\"\\" : "'\\";
            close = *at++ == '"' ? "\"]" : "']";
        } else {
            *type = CHAT_GEMINI_ELEMENTS;
        }
    } else if (*path->data != '.') {
        return 0;
    }

    *key = chat_str(at, 0);
    while (at < end && (*at == '\0' || strchr(ends, *at) == NULL)) {
        at++;
    }
    key->len = (size_t) (at - key->data);
    *path = chat_str(at, (size_t) (end - at));

    if (!chat_str_starts(*path, close) || (*close == '\0' && key->len == 0)) {
        return 0;
    }

    path->data += strlen(close);
    path->len -= strlen(close);

    return 1;
}


/* The value that a path leads to; NULL as take(). */
static value_t *
follow(chat_gemini_args_t *args, chat_str_t path)
{
    type_e     type;
    value_t   *value = &args->root;
    uint64_t   n;
    unsigned   depth = 0;
    chat_str_t key;

    args->lost |= !chat_str_after(path, "$", &path) || path.len == 0;

    while (path.len != 0 && value != NULL && !args->lost) {
        /* an element is one that is there, or the next one */
        if (!segment(&path, &type, &key) || ++depth > CHAT_GEMINI_DEPTH
            || (type == CHAT_GEMINI_ELEMENTS
                && (!chat_str_number(key, &n) || n > value->count))
            || (value->type != type && value->type != CHAT_GEMINI_NOTHING))
        {
            args->lost = 1;
            return NULL;
        }

        value->type = type;
        value = within(args, value, key);
    }

    return args->lost ? NULL : value;
}


/* Puts text to a value: one piece of a string, or all of another value. */
static void
put(chat_gemini_args_t *args, value_t *value, type_e type, chat_str_t s)
{
    size_t         size = value->len ? 2 * (value->len + s.len) : s.len;
    unsigned char *text;

    if (value->type != CHAT_GEMINI_NOTHING
        && (value->type != type || type != CHAT_GEMINI_STRING))
    {
        args->lost = 1;
        return;
    }

    value->type = type;

    if (s.len == 0) {
        return;
    }

    if (s.len > value->size - value->len) {
        text = take(args, size);
        if (text == NULL) {
            return;
        }

        (void) chat_str_copy(text, chat_str(value->text, value->len));
        value->text = text;
        value->size = size;
    }

    (void) chat_str_copy(value->text + value->len, s);
    value->len += s.len;
}


/* Returns the string of the piece, or NULL. */
static const chat_json_t *
add_piece(chat_gemini_args_t *args, chat_json_doc_t *doc,
          const chat_json_t *piece)
{
    const chat_json_t *string, *other;
    value_t *value = follow(args, chat_json_text(doc, piece, "jsonPath"));

    if (value == NULL) {
        return NULL;
    }

    string = chat_json_typed(doc, piece, "stringValue", CHAT_JSON_STRING);
    other = chat_json_get(doc, piece, "numberValue");
    other = other ? other : chat_json_get(doc, piece, "boolValue");

    if (string != NULL) {
        put(args, value, CHAT_GEMINI_STRING, chat_json_string(doc, string));

    } else if (other != NULL
               && (other->type == CHAT_JSON_NUMBER
                   || other->type == CHAT_JSON_TRUE
                   || other->type == CHAT_JSON_FALSE))
    {
        put(args, value, CHAT_GEMINI_RAW, chat_json_raw(doc, other));

    } else if (chat_json_get(doc, piece, "nullValue")) {
        put(args, value, CHAT_GEMINI_RAW, chat_cstr("null"));

    } else {
        args->lost = 1;
    }

    args->value = string ? value : NULL;
    return string;
}


const chat_json_t *
chat_gemini_args_add(chat_gemini_args_t *args, chat_json_doc_t *doc,
                     const chat_json_t *function)
{
    value_t           *before = args->value;
    const chat_json_t *string = NULL;
    const chat_json_t *list = chat_json_get(doc, function, "partialArgs");
    const chat_json_t *first = chat_json_first(doc, function, "partialArgs");
    const chat_json_t *piece = first;

    args->lost |= list != NULL && list->opaque;

    for (/* void */; piece != NULL && !args->lost; piece = piece->next) {
        string = add_piece(args, doc, piece);
    }

    return first != NULL && first->next == NULL && args->value == before
                   && !args->lost
               ? string
               : NULL;
}


void
chat_gemini_args_more(chat_gemini_args_t *args, chat_str_t text)
{
    if (args->value != NULL && !args->lost) {
        put(args, args->value, CHAT_GEMINI_STRING, text);
    }
}


/* As deep as CHAT_GEMINI_DEPTH. */
static void
write_value(const value_t *value, chat_buf_t *out)
{
    int            members = value->type == CHAT_GEMINI_MEMBERS;
    chat_str_t     text = chat_str(value->text, value->len);
    const value_t *each;

    if (!members && value->type != CHAT_GEMINI_ELEMENTS) {
        if (value->type == CHAT_GEMINI_STRING) {
            chat_buf_json(out, text);
        } else {
            chat_buf_add(out, text.len ? text : chat_cstr("null"));
        }
        return;
    }

    chat_buf_puts(out, members ? "{" : "[");

    for (each = value->first; each; each = each->next) {
        if (members) {
            chat_buf_json(out, each->key);
            chat_buf_puts(out, ":");
        }

        write_value(each, out);
        chat_buf_puts(out, each->next ? "," : "");
    }

    chat_buf_puts(out, members ? "}" : "]");
}


chat_rc_e
chat_gemini_args_text(const chat_gemini_args_t *args, chat_arena_t *arena,
                      chat_str_t *out)
{
    chat_buf_t text = { 0 };

    if (args->lost || args->failed) {
        return args->failed ? CHAT_ERROR : CHAT_LIMIT;
    }

    write_value(&args->root, &text);

    return chat_buf_move(&text, arena, out);
}
