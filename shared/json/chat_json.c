/*
 * chat_json.c: see chat_json.h.
 *
 * The parser makes one pass, does not recurse, and never converts numbers:
 * none is too long or too large. It accepts what yajl does in its strictest
 * settings, and of white space only what JSON has; the unit tests and a fuzzer
 * compare the two. Strings and keys are compared decoded, so that an escaped
 * letter makes no difference.
 */

#include "bytes/chat_utf8.h"
#include "json/chat_json.h"
#include "json/chat_json_scan.h"

#define CHAT_JSON_SPACES \
    (1ull << ' ' | 1ull << '\n' | 1ull << '\r' | 1ull << '\t')
#define CHAT_JSON_NODES 32 /* that are allocated at a time */

/* An array or object that the parser has not closed yet. */
typedef struct {
    chat_json_t     *node;
    chat_json_t    **tail;  /* where its next child goes */
    uint32_t         rank;  /* of the last member's key, at first 0 */
    chat_json_type_e least; /* of the children that the tree has */
    unsigned char    close; /* its last bracket */
} chat_json_open_t;

/*
 * The functions that read go on at this place of the text, which is before the
 * end, and move it; they return 0 when the parser is done. Of an array or
 * object the text ends with a bracket: only behind one can be its end.
 */
typedef struct {
    const unsigned char *text;
    size_t               at, end;
    chat_arena_t        *arena;
    chat_json_t         *nodes; /* the next one: it has the next key */
    chat_json_t         *nodes_end;
    chat_json_type_e     least;  /* of the elements that arrays have */
    chat_json_open_t    *open;   /* the innermost one */
    chat_json_open_t    *opened; /* the root's: left out of the tree */
    int                  too_deep;
} chat_json_parser_t;


/* Behind the white space at this place, in this array or object. */
static __attribute__((noinline)) size_t
space_end(chat_str_t text, size_t at, chat_json_t *node)
{
    node->has |= CHAT_JSON_VARIED | CHAT_JSON_OWN;

    while (at < text.len && text.data[at] <= ' '
           && (CHAT_JSON_SPACES >> text.data[at] & 1) != 0)
    {
        at++;
    }

    return at;
}


/* 1 if this is the next character; skips white space before it. */
static inline int
is_next(chat_json_parser_t *parser, unsigned char ch)
{
    if (parser->text[parser->at] == ch) {
        return 1;
    }

    if (parser->text[parser->at] <= ' ') {
        parser->at = space_end(chat_str(parser->text, parser->end), parser->at,
                               parser->open->node);
    }

    return parser->text[parser->at] == ch;
}


/* Moves behind a character that was seen. */
static inline int
step(chat_json_parser_t *parser)
{
    parser->at++;
    return 1;
}


/* Makes room for one node. */
static inline int
allocate_nodes(chat_json_parser_t *parser)
{
    parser->nodes = chat_arena_take(parser->arena,
                                    CHAT_JSON_NODES * sizeof(*parser->nodes));
    parser->nodes_end = parser->nodes ? parser->nodes + CHAT_JSON_NODES : NULL;
    return parser->nodes != NULL;
}


/* Adds a value to the innermost array or object; it ends here. */
static inline int
add_value(chat_json_parser_t *parser, chat_json_type_e type, size_t start)
{
    chat_json_t      *node = parser->nodes;
    chat_json_open_t *open = parser->open;

    if (type < open->least) {
        open->node->opaque = 1;
        return 1;
    }

    node->start = (uint32_t) start;
    node->end = (uint32_t) parser->at;
    node->type = type;

    *open->tail = node;
    open->tail = &node->next;
    return ++parser->nodes != parser->nodes_end || allocate_nodes(parser);
}


/* Begins an array or object with its first bracket. */
static inline int
read_open(chat_json_parser_t *parser)
{
    unsigned char    ch = parser->text[parser->at];
    chat_json_type_e type = ch == '{' ? CHAT_JSON_OBJECT : CHAT_JSON_ARRAY;
    chat_json_t     *node =
        type < parser->open->least ? parser->opened->node : parser->nodes;

    parser->too_deep = parser->open == parser->opened + CHAT_JSON_DEPTH;
    if (parser->too_deep || !add_value(parser, type, parser->at++)) {
        return 0;
    }

    *++parser->open = (chat_json_open_t){
        .node = node,
        .tail = &node->child,
        .least = node == parser->opened->node ? CHAT_JSON_TYPES
                 : type == CHAT_JSON_ARRAY    ? parser->least
                                              : CHAT_JSON_NULL,
        .close = (unsigned char) (ch + ('}' - '{')), /* as ']' - '[' */
    };
    return parser->at != parser->end;
}


/* Reads the word of which the first character is here. */
static inline int
read_word(chat_json_parser_t *parser, chat_json_type_e type)
{
    size_t len = type == CHAT_JSON_FALSE ? 5 : 4;

    static const char words[][5] = { "null", "alse", "true" };

    parser->at += len;
    return parser->at <= parser->end
           && memcmp(parser->text + parser->at - 4, words[type], 4) == 0;
}


typedef const unsigned char *end_of_f(const unsigned char *p,
                                      const unsigned char *end, unsigned *has);

/*
 * Moves to where this function says. Notes in *has and in the array or object
 * what is there; escaped: of a key, also this, if it has an escape. What the
 * tree does not have as a child is the parent's own.
 */
static inline int
read_to(chat_json_parser_t *parser, end_of_f *end_of, unsigned char *has,
        unsigned escaped)
{
    unsigned             more = 0;
    const unsigned char *text = parser->text;
    const unsigned char *p =
        end_of(text + parser->at, text + parser->end, &more);

    if (p == NULL) {
        return 0;
    }

    *has = (unsigned char) (more | (more & CHAT_JSON_ESCAPED ? escaped : 0));
    parser->open->node->has |= *has;

    if ((more & CHAT_JSON_VARIED) != 0
        && (escaped != 0 || parser->open->least != CHAT_JSON_NULL))
    {
        parser->open->node->has |= CHAT_JSON_OWN;
    }

    parser->at = (size_t) (p - text);
    return 1;
}


/* Reads a string with both quotes. Looks at so many blocks inline. */
static inline int
read_string(chat_json_parser_t *parser, unsigned char *has, unsigned escaped,
            int blocks)
{
    parser->at++;

    return (chat_json_is_short(parser->text, &parser->at, parser->end, blocks)
            || (read_to(parser, chat_json_any_string_end, has, escaped)
                && parser->at != parser->end))
           && step(parser);
}


/* Reads a value that is no array and no object. */
static inline int
read_scalar(chat_json_parser_t *parser)
{
    size_t           start = parser->at;
    unsigned char    ch = parser->text[start];
    chat_json_type_e type = ch == '"'   ? CHAT_JSON_STRING
                            : ch == 'n' ? CHAT_JSON_NULL
                            : ch == 't' ? CHAT_JSON_TRUE
                            : ch == 'f' ? CHAT_JSON_FALSE
                                        : CHAT_JSON_NUMBER;

    return (type == CHAT_JSON_STRING
                ? read_string(parser, &parser->nodes->has, 0, 4)
            : type == CHAT_JSON_NUMBER
                ? read_to(parser, chat_json_number_end, &parser->nodes->has, 0)
                : read_word(parser, type))
           && add_value(parser, type, start);
}


/*
 * The length of a key, of usual ones as a constant: the processor predicts the
 * case, and reads on before it has found the end of the key.
 */
static inline size_t
predicted(size_t len)
{
#define PREDICT(n)                                             \
    case n:                                                    \
        len = n;                                               \
        __asm__("" : "+r"(len)); /* else this is len itself */ \
        break;

    switch (len) {
        PREDICT(3)
        PREDICT(4)
        PREDICT(5)
        PREDICT(6)
        PREDICT(7)
        PREDICT(8)
        PREDICT(9)
        PREDICT(10)
        PREDICT(11)
        PREDICT(12)
        PREDICT(13)
        PREDICT(14)
    }

    return len;
}


/* Begins the next node, with key and colon of a member; 0: there is none. */
static inline int
read_next(chat_json_parser_t *parser)
{
    size_t            start;
    uint32_t          rank;
    chat_json_t      *node = parser->nodes;
    chat_json_open_t *open = parser->open;

    *node = (chat_json_t){ 0 };

    if (open->close != '}') {
        return open != parser->opened;
    }

    if (!is_next(parser, '"')) {
        return 0;
    }

    start = parser->at;
    if (!read_string(parser, &node->key_has, CHAT_JSON_KEYS, 1)) {
        return 0;
    }

    parser->at = start + predicted(parser->at - start);
    rank = chat_json_rank(parser->text + start, parser->at - start);
    if (rank <= open->rank) {
        open->node->has |= CHAT_JSON_VARIED | CHAT_JSON_OWN;
    }

    open->rank = rank;
    node->key_start = (uint32_t) start;
    node->key_end = (uint32_t) parser->at;
    return is_next(parser, ':') && step(parser);
}


/* Reads what ends here, and a comma. */
static inline int
read_ends(chat_json_parser_t *parser)
{
    chat_json_open_t *open = parser->open;

    while (parser->at != parser->end && !is_next(parser, ',')) {
        if (parser->text[parser->at++] != open->close) {
            return 0;
        }

        open->node->end = (uint32_t) parser->at;
        open[-1].node->has |=
            open->node->has
            & ~(open->least != CHAT_JSON_TYPES ? CHAT_JSON_OWN : 0);
        open = --parser->open;
    }

    return parser->at != parser->end && step(parser);
}


/* Reads a value, of an array or object the first bracket, and what follows. */
static inline int
read_value(chat_json_parser_t *parser)
{
    if (is_next(parser, '"')
        || (parser->text[parser->at] | ('{' ^ '[')) != '{') {
        return read_scalar(parser) && read_ends(parser);
    }

    return read_open(parser)
           && (!is_next(parser, parser->open->close) || read_ends(parser));
}


chat_rc_e
chat_json_parse_some(chat_json_doc_t *doc, chat_arena_t *arena,
                     chat_str_t text, chat_json_type_e least)
{
    chat_json_t        left_out = { 0 }; /* stands for all that it lacks */
    chat_json_open_t   opened[CHAT_JSON_DEPTH + 1];
    chat_json_parser_t parser;

    *doc = (chat_json_doc_t){ .text = text, .arena = arena };
    parser = (chat_json_parser_t){ .text = text.data,
                                   .end = text.len,
                                   .at = space_end(text, 0, &left_out),
                                   .arena = arena,
                                   .least = least,
                                   .open = opened,
                                   .opened = opened };

    if (text.len > UINT32_MAX || parser.at == text.len) {
        return text.len > UINT32_MAX ? CHAT_LIMIT : CHAT_BAD;
    }

    /* '[' and ']' differ from '{' and '}' by this bit */
    while (parser.end > parser.at + 1
           && ((text.data[parser.at] | 0x20) == '{'
                   ? (text.data[parser.end - 1] | 0x20) != '}'
                         && (text.data[parser.end - 1] | 0x20) != '{'
                   : text.data[parser.end - 1] <= ' '))
    {
        parser.end--;
    }

    left_out.has = 0;
    /* is_next() moves behind spaces: nothing closes the text */
    opened[0] = (chat_json_open_t){ &left_out, &doc->root, .close = ' ' };

    if (allocate_nodes(&parser)) {
        *parser.nodes = (chat_json_t){ 0 }; /* the root has no key */

        while (read_value(&parser) && read_next(&parser)) {
            /* void */
        }
    }

    if (parser.open == opened && parser.nodes != NULL && doc->root != NULL
        && (least == CHAT_JSON_ARRAY
            || space_end(text, doc->root->end, &left_out) == text.len))
    {
        return CHAT_OK;
    }

    /* a text that is not UTF-8 is no JSON, whatever else it is */
    doc->root = NULL;
    return parser.nodes == NULL                          ? CHAT_ERROR
           : parser.too_deep && chat_utf8_is_valid(text) ? CHAT_LIMIT
                                                         : CHAT_BAD;
}


static uint32_t
chat_json_hex4(const unsigned char *p)
{
    int      i;
    uint32_t ch = 0;

    for (i = 0; i < 4; i++) {
        ch = ch << 4 | ((p[i] & 15u) + (p[i] > '9' ? 9 : 0));
    }

    return ch;
}


/*
 * Decodes the character or escape at *s (of a string that was parsed, so the
 * escapes are whole) into out and moves behind it; returns its bytes.
 */
static inline __attribute__((always_inline)) size_t
chat_json_decode(chat_str_t *s, unsigned char out[4])
{
    size_t   used = 6;
    uint32_t ch, low;

    if (s->data[0] != '\\' || s->data[1] != 'u') {
        used = s->data[0] == '\\' ? 2 : 1;
        out[0] = used == 2 ? chat_json_letters[s->data[1]] : s->data[0];
        *s = chat_str(s->data + used, s->len - used);
        return 1;
    }

    ch = chat_json_hex4(s->data + 2);

    if (ch >= 0xd800 && ch <= 0xdfff) {
        low = s->len >= 12 && s->data[6] == '\\' && s->data[7] == 'u'
                  ? chat_json_hex4(s->data + 8)
                  : 0;

        if (ch <= 0xdbff && low >= 0xdc00 && low <= 0xdfff) {
            ch = 0x10000 + ((ch - 0xd800) << 10) + (low - 0xdc00);
            used = 12;

        } else {
            ch = 0xfffd;
        }
    }

    *s = chat_str(s->data + used, s->len - used);
    return chat_utf8_put(ch, out);
}


int
chat_json_same_decoded(chat_str_t s, const char *text, size_t len)
{
    size_t        n;
    unsigned char ch[4];

    while (s.len != 0) {
        n = chat_json_decode(&s, ch);

        if (n > len || memcmp(ch, text, n) != 0) {
            return 0;
        }

        text += n;
        len -= n;
    }

    return len == 0;
}


unsigned char *
chat_json_unescape(chat_str_t s, unsigned char *out)
{
    size_t   n;
    uint64_t word;

    while (s.len >= sizeof(word)) {
        memcpy(&word, s.data, sizeof(word));
        memcpy(out, &word, sizeof(word));
        word = chat_word_lowest_first(word) ^ CHAT_WORD('\\');
        word = chat_word_zeros(word);
        n = word != 0 ? chat_word_first(word) : sizeof(word);
        out += n;
        s = chat_str(s.data + n, s.len - n);
        out += word != 0 ? chat_json_decode(&s, out) : 0;
    }

    while (s.len != 0) {
        out += chat_json_decode(&s, out);
    }

    return out;
}


/* What stands between the quotes of a string. */
static inline chat_str_t
inner(const chat_json_doc_t *doc, const chat_json_t *node)
{
    chat_str_t s = chat_json_raw(doc, node);

    return chat_str(s.data + 1, s.len - 2);
}


/* The characters of s, which has escapes; empty without memory. */
static __attribute__((noinline)) chat_str_t
decoded(chat_json_doc_t *doc, chat_str_t s)
{
    unsigned char *p = chat_arena_alloc(doc->arena, s.len + CHAT_JSON_ROOM);

    doc->failed |= p == NULL;
    return p ? chat_str(p, (size_t) (chat_json_unescape(s, p) - p))
             : chat_str(NULL, 0);
}


chat_str_t
chat_json_string(chat_json_doc_t *doc, const chat_json_t *node)
{
    chat_str_t s;

    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return chat_str(NULL, 0);
    }

    s = inner(doc, node);
    return (node->has & CHAT_JSON_ESCAPED) == 0 ? s : decoded(doc, s);
}


int
chat_json_is(chat_json_doc_t *doc, const chat_json_t *node, const char *text)
{
    chat_str_t s;

    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return 0;
    }

    s = inner(doc, node);
    return (node->has & CHAT_JSON_ESCAPED) == 0
               ? chat_str_eq(s, chat_cstr(text))
               : chat_json_same_decoded(s, text, strlen(text));
}


/* As chat_json_find(), where keys have escapes. */
static __attribute__((noinline)) chat_json_t *
find_decoded(chat_json_doc_t *doc, const chat_json_t *member, const char *key)
{
    const chat_json_t *found = NULL;

    for (/* void */; member != NULL; member = member->next) {
        (void) chat_json_take(doc, member, key, 0, &found);
    }

    return (chat_json_t *) found;
}


chat_json_t *
chat_json_find(chat_json_doc_t *doc, const chat_json_t *object,
               const char *key, size_t len)
{
    chat_json_t *member, *found = NULL;

    if (object == NULL || object->type != CHAT_JSON_OBJECT) {
        return NULL;
    }

    if ((object->has & CHAT_JSON_KEYS) != 0) {
        return find_decoded(doc, object->child, key);
    }

    for (member = object->child; member != NULL; member = member->next) {
        if (member->key_end == member->key_start + (uint32_t) len + 2
            && chat_word_same(doc->text.data + member->key_start + 1,
                              (const void *) key, len))
        {
            doc->duplicate |= found != NULL;
            found = member;

            if ((object->has & CHAT_JSON_OWN) == 0) {
                break; /* its keys are in order: none is there twice */
            }
        }
    }

    return found;
}


void
chat_json_set(chat_json_doc_t *doc, const chat_json_t *object,
              const chat_json_member_t *members, size_t n, chat_buf_t *out)
{
    size_t             i;
    chat_str_t         key, value;
    const char        *comma = "{";
    const chat_json_t *node;

    for (node = object ? object->child : NULL; node; node = node->next) {
        for (i = 0; i < n && !chat_json_key_is(doc, node, members[i].key, 0);
             i++) {
            /* void */
        }

        key = chat_str(doc->text.data + node->key_start,
                       node->key_end - node->key_start);
        value = i < n ? members[i].value : chat_json_raw(doc, node);

        if (value.len != 0) {
            chat_buf_format(out, "%s%v:%v", comma, key, value);
            comma = ",";
        }
    }

    for (i = 0; i < n; i++) {
        if (members[i].value.len != 0
            && chat_json_get(doc, object, members[i].key) == NULL)
        {
            chat_buf_format(out, "%s%j:%v", comma, chat_cstr(members[i].key),
                            members[i].value);
            comma = ",";
        }
    }

    chat_buf_puts(out, comma[0] == '{' ? "{}" : "}");
}


int32_t
chat_json_index(const chat_json_doc_t *doc, const chat_json_t *node)
{
    uint64_t value;

    return node != NULL && node->type == CHAT_JSON_NUMBER
                   && chat_str_number(chat_json_raw(doc, node), &value)
                   && value <= INT32_MAX
               ? (int32_t) value
               : -1;
}


size_t
chat_json_count(const chat_json_t *node)
{
    size_t             n = 0;
    const chat_json_t *child;

    for (child = node ? node->child : NULL; child; child = child->next) {
        n++;
    }

    return n;
}
