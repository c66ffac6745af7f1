/*
 * chat_dialect_gemini_args.c: arguments of a call that come in pieces.
 *
 * A piece is a path ($.items[0].name) and a value; a further string of the
 * last path goes on where the last one ended. A model writes its arguments
 * from front to back, so each piece becomes the next piece of their JSON text.
 * A piece that goes back, is past a bound or is written in another way makes
 * the arguments unknown, never wrong.
 */

#include "dialect/gemini/chat_dialect_gemini.h"

#define CHAT_GEMINI_DEPTH 32
#define CHAT_GEMINI_MEMBERS 1024 /* of all objects in a call's arguments */

/* An object or list that is not closed yet. */
typedef struct {
    int      list;
    uint64_t count; /* of values so far */
    uint64_t path;  /* hash of the last one's path */
} level_t;

struct chat_gemini_args_s {
    level_t  levels[CHAT_GEMINI_DEPTH];
    size_t   depth;
    int      string; /* the last value is a string without its last quote */
    int      lost;   /* the arguments are unknown */
    uint64_t members[CHAT_GEMINI_MEMBERS]; /* hashes of their paths */
    size_t   nmembers;
};


chat_gemini_args_t *
chat_gemini_args_begin(chat_gemini_args_t *args, chat_arena_t *arena,
                       chat_buf_t *out)
{
    args = args != NULL ? args : chat_arena_alloc(arena, sizeof(*args));
    out->failed |= args == NULL;

    if (args != NULL) {
        memset(args, 0, sizeof(*args));
        args->depth = 1;
        chat_buf_puts(out, "{");
    }

    return args;
}


/* Takes a segment off the path: .name, [0], ['name'], ["name"]. 0: none. */
static int
segment(chat_str_t *path, int *list, chat_str_t *key)
{
    size_t      n = 0;
    const char *ends = ".[", *close = "";

    *list = 0;

    if (chat_str_after(*path, "['", path)) {
        ends = "'\\";
        close = "']";

    } else if (chat_str_after(*path, "[\"", path)) {
        ends = "\"\\";
        close = "\"]";

    } else if (chat_str_after(*path, "[", path)) {
        ends = close = "]";
        *list = 1;

    } else if (!chat_str_after(*path, ".", path)) {
        return 0;
    }

    while (n < path->len
           && (path->data[n] == '\0' || strchr(ends, path->data[n]) == NULL))
    {
        n++;
    }

    *key = chat_str(path->data, n);
    *path = chat_str(path->data + n, path->len - n);

    return chat_str_after(*path, close, path) && (n != 0 || *close != '\0');
}


static void
close_levels(chat_gemini_args_t *args, size_t depth, chat_buf_t *out)
{
    chat_buf_puts(out, args->string ? "\"" : "");
    args->string = 0;

    while (args->depth > depth) {
        chat_buf_puts(out, args->levels[--args->depth].list ? "]" : "}");
    }
}


/* Begins a further value of a level. 0: it cannot have one of this key. */
static int
begin_value(chat_gemini_args_t *args, level_t *level, chat_str_t key,
            uint64_t path, chat_buf_t *out)
{
    size_t   i;
    uint64_t n;

    chat_buf_puts(out, level->count++ != 0 ? "," : "");
    level->path = path;

    if (level->list) {
        return chat_str_number(key, &n) && n == level->count - 1;
    }

    chat_buf_json(out, key);
    chat_buf_puts(out, ":");

    for (i = 0; i < args->nmembers && args->members[i] != path; i++) {
        /* void */
    }

    if (i < args->nmembers || i == CHAT_GEMINI_MEMBERS) {
        return 0;
    }

    args->members[args->nmembers++] = path;
    return 1;
}


typedef enum {
    PLACE_NONE, /* the path cannot be followed, or goes back */
    PLACE_NEW,
    PLACE_STRING /* the last value, a string, goes on */
} place_e;

/* Closes and opens levels up to the value of this path. */
static place_e
find_place(chat_gemini_args_t *args, chat_str_t path, chat_buf_t *out)
{
    int        list, begun = 0;
    size_t     at;
    level_t   *level;
    uint64_t   hash = 0;
    chat_str_t key;

    if (!chat_str_after(path, "$", &path)) {
        return PLACE_NONE;
    }

    for (at = 0; path.len != 0; at++) {
        if (at == CHAT_GEMINI_DEPTH || !segment(&path, &list, &key)) {
            return PLACE_NONE;
        }

        level = &args->levels[at];

        if (begun) {
            chat_buf_puts(out, list ? "[" : "{");
            level->list = list;
            level->count = 0;
            args->depth++;
        }

        if (at == args->depth || level->list != list) {
            return PLACE_NONE;
        }

        hash = 31 * hash + chat_table_hash(key);

        if (level->count == 0 || level->path != hash) {
            close_levels(args, at + 1, out);
            begun = begin_value(args, level, key, hash, out);
            if (!begun) {
                return PLACE_NONE;
            }
        }
    }

    return begun                               ? PLACE_NEW
           : args->string && at == args->depth ? PLACE_STRING
                                               : PLACE_NONE;
}


/* Returns the string of a piece that goes on with the last one, else NULL. */
static const chat_json_t *
add_piece(chat_gemini_args_t *args, chat_json_doc_t *doc,
          const chat_json_t *piece, chat_buf_t *out)
{
    place_e place =
        find_place(args, chat_json_text(doc, piece, "jsonPath"), out);
    chat_str_t         text;
    const chat_json_t *string, *other;

    string = chat_json_typed(doc, piece, "stringValue", CHAT_JSON_STRING);
    other = chat_json_get(doc, piece, "numberValue");
    other = other ? other : chat_json_get(doc, piece, "boolValue");

    if (place == PLACE_NONE || (place == PLACE_STRING && string == NULL)) {
        args->lost = 1;

    } else if (string != NULL) {
        text = chat_json_raw(doc, string);
        chat_buf_puts(out, place == PLACE_NEW ? "\"" : "");
        chat_buf_add(out, chat_str(text.data + 1, text.len - 2));
        args->string = 1;

    } else if (other != NULL
               && (other->type == CHAT_JSON_NUMBER
                   || other->type == CHAT_JSON_TRUE
                   || other->type == CHAT_JSON_FALSE))
    {
        chat_buf_add(out, chat_json_raw(doc, other));

    } else if (chat_json_get(doc, piece, "nullValue")) {
        chat_buf_puts(out, "null");

    } else {
        args->lost = 1;
    }

    return place == PLACE_STRING ? string : NULL;
}


const chat_json_t *
chat_gemini_args_add(chat_gemini_args_t *args, chat_json_doc_t *doc,
                     const chat_json_t *function, chat_buf_t *out)
{
    const chat_json_t *string = NULL;
    const chat_json_t *list = chat_json_get(doc, function, "partialArgs");
    const chat_json_t *first = list ? list->child : NULL, *piece = first;

    args->lost |= list != NULL && list->opaque;

    for (/* void */; piece != NULL && !args->lost; piece = piece->next) {
        string = add_piece(args, doc, piece, out);
    }

    return first != NULL && first->next == NULL && !args->lost ? string : NULL;
}


int
chat_gemini_args_end(chat_gemini_args_t *args, chat_buf_t *out)
{
    close_levels(args, 0, out);

    return !args->lost;
}
