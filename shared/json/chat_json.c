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

#define CHAT_JSON_FEW 32   /* nodes that are allocated at first, and */
#define CHAT_JSON_MANY 256 /* at a time of a large text */

/* An array or object that the parser has not closed yet. */
typedef struct {
    chat_json_t     *node;
    chat_json_t    **tail;    /* where its next child goes */
    chat_json_type_e least;   /* of the children that the tree has */
    uint32_t         key_len; /* of the last member; 0: there is none */
    unsigned char    close;   /* its last bracket */
} chat_json_open_t;

/*
 * The functions that read take the cursor and return where it is then; NULL:
 * the parser is done, and rc says how.
 */
typedef struct {
    const unsigned char *text, *end;
    chat_rc_e            rc; /* at first CHAT_BAD */
    chat_arena_t        *arena;
    chat_json_t         *nodes; /* the next one: it has the next key */
    chat_json_t         *nodes_end;
    size_t               allocates; /* so many, when there are none */
    chat_json_type_e     least;     /* of the elements that arrays have */
    chat_json_t         *left_out;  /* stands for all that the tree lacks */
    chat_json_open_t    *open;      /* the innermost one */
    chat_json_open_t    *opened;    /* the root's, the first one */
} chat_json_parser_t;


/* Behind the white space at p, which is in this array or object. */
static __attribute__((noinline)) const unsigned char *
space_end(const unsigned char *p, const unsigned char *end, chat_json_t *node)
{
    node->has |= CHAT_JSON_VARIED;

    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
    }

    return p;
}


/*
 * Skips white space, if this usual character is not at *at. Returns the one
 * that is there then; NUL: the text ends.
 */
static inline unsigned char
next(const chat_json_parser_t *parser, const unsigned char **at,
     unsigned char usual)
{
    const unsigned char *p = *at, *end = parser->end;

    if (p != end && (*p == usual || *p > ' ')) {
        return *p;
    }

    *at = space_end(p, end, parser->open->node);
    return *at < end ? **at : '\0';
}


/* Makes room for one node. */
static inline chat_rc_e
allocate_nodes(chat_json_parser_t *parser)
{
    parser->nodes = chat_arena_take(
        parser->arena, parser->allocates * sizeof(*parser->nodes));
    if (parser->nodes == NULL) {
        parser->rc = CHAT_ERROR;
        return CHAT_ERROR;
    }

    parser->nodes_end = parser->nodes + parser->allocates;
    parser->allocates *= parser->allocates < CHAT_JSON_MANY ? 2 : 1;
    return CHAT_OK;
}


/*
 * Adds a value from start to p to the innermost array or object. Returns NULL
 * without memory.
 */
static inline chat_json_t *
add_value(chat_json_parser_t *parser, chat_json_type_e type,
          const unsigned char *start, const unsigned char *p)
{
    chat_json_t      *node = parser->nodes;
    chat_json_open_t *open = parser->open;

    if (type < open->least) {
        open->node->opaque = 1;
        return parser->left_out;
    }

    node->start = (uint32_t) (start - parser->text);
    node->end = (uint32_t) (p - parser->text);
    node->type = type;

    *open->tail = node;
    open->tail = &node->next;

    return ++parser->nodes != parser->nodes_end
                   || allocate_nodes(parser) == CHAT_OK
               ? node
               : NULL;
}


/* Begins an array or object with its first bracket. */
static inline const unsigned char *
add_open(chat_json_parser_t *parser, const unsigned char *p)
{
    chat_json_t     *node;
    chat_json_type_e type = *p == '{' ? CHAT_JSON_OBJECT : CHAT_JSON_ARRAY;

    if (parser->open == parser->opened + CHAT_JSON_DEPTH) {
        parser->rc = CHAT_LIMIT;
        return NULL;
    }

    node = add_value(parser, type, p, p + 1);
    if (node == NULL) {
        return NULL;
    }

    *++parser->open = (chat_json_open_t){
        .node = node,
        .tail = &node->child,
        .least = node == parser->left_out  ? CHAT_JSON_TYPES
                 : type == CHAT_JSON_ARRAY ? parser->least
                                           : CHAT_JSON_NULL,
        .close = (unsigned char) (*p + ('}' - '{')), /* as ']' - '[' */
    };
    return p + 1;
}


/* Behind the word at p, of which the first character is seen. */
static inline const unsigned char *
read_word(const unsigned char *p, const unsigned char *end,
          chat_json_type_e type)
{
    size_t len = type == CHAT_JSON_FALSE ? 5 : 4;

    static const char words[][5] = { "null", "alse", "true" };

    return (size_t) (end - p) >= len
                   && memcmp(p + len - 4, words[type], 4) == 0
               ? p + len
               : NULL;
}


/*
 * Behind the string at p, with both quotes. Notes what it has in *has and in
 * the array or object; escaped: also this, if it has an escape. Looks at so
 * many blocks inline.
 */
static inline const unsigned char *
read_string(const chat_json_parser_t *parser, const unsigned char *p,
            unsigned char *has, unsigned escaped, int blocks)
{
    unsigned more;

    p++;
    if (chat_json_is_short(&p, parser->end, blocks)) {
        return p + 1;
    }

    more = 0;
    p = chat_json_any_string_end(p, parser->end, &more);
    *has = (unsigned char) (more | (more & CHAT_JSON_ESCAPED ? escaped : 0));
    parser->open->node->has |= *has;
    return p != NULL && p != parser->end ? p + 1 : NULL;
}


/* Reads one value; of an array or object only the bracket that opens it. */
static inline const unsigned char *
read_value(chat_json_parser_t *parser, const unsigned char *start)
{
    unsigned             has = 0;
    chat_json_type_e     type;
    unsigned char        ch = next(parser, &start, '"');
    const unsigned char *p, *end = parser->end;

    if (ch == '"') {
        type = CHAT_JSON_STRING;
        p = read_string(parser, start, &parser->nodes->has, 0, 4);

    } else if ((ch | ('{' ^ '[')) == '{') {
        return add_open(parser, start);

    } else if (ch == 'n' || ch == 't' || ch == 'f') {
        type = ch == 'n'   ? CHAT_JSON_NULL
               : ch == 't' ? CHAT_JSON_TRUE
                           : CHAT_JSON_FALSE;
        p = read_word(start, end, type);

    } else {
        type = CHAT_JSON_NUMBER;
        p = chat_json_number_end(start, end, &has);
        parser->nodes->has = (unsigned char) has;
        parser->open->node->has |= (unsigned char) has;
    }

    return p && add_value(parser, type, start, p) ? p : NULL;
}


/* Reads a member's key and the colon. */
static inline const unsigned char *
read_key(const chat_json_parser_t *parser, const unsigned char *start)
{
    uint32_t             len;
    chat_json_t         *node = parser->nodes;
    const unsigned char *p;
    chat_json_open_t    *open = parser->open;

    p = next(parser, &start, '"') == '"'
            ? read_string(parser, start, &node->key_has, CHAT_JSON_KEYS, 1)
            : NULL;
    if (p == NULL) {
        return NULL;
    }

    len = (uint32_t) (p - start);
    if (len <= open->key_len) {
        open->node->has |= CHAT_JSON_VARIED;
    }

    open->key_len = len;
    node->key_start = (uint32_t) (start - parser->text);
    node->key_end = node->key_start + len;
    return next(parser, &p, ':') == ':' ? p + 1 : NULL;
}


/*
 * Reads what stands between two values: the ends of arrays and objects, then a
 * comma, unless an array or object has just begun, and the key of the next.
 */
static inline const unsigned char *
read_between(chat_json_parser_t *parser, const unsigned char *p)
{
    unsigned char     ch;
    chat_json_open_t *open = parser->open;

    while ((ch = next(parser, &p, ',')) != ',' && ch == open->close) {
        p++;
        open->node->end = (uint32_t) (p - parser->text);
        open[-1].node->has |= open->node->has;
        open = --parser->open;
    }

    if (open->key_len != 0) {
        if (ch != ',') {
            return NULL;
        }

        p++;
    }

    *parser->nodes = (chat_json_t){ 0 };

    if (open->close == '}') {
        return read_key(parser, p);
    }

    if (open == parser->opened) {
        parser->rc = p == parser->end || parser->least == CHAT_JSON_ARRAY
                         ? CHAT_OK
                         : CHAT_BAD;
        return NULL;
    }

    open->key_len = 1;
    return p;
}


static chat_rc_e
parse(chat_json_doc_t *doc, chat_arena_t *arena, chat_str_t text,
      chat_json_type_e least)
{
    chat_json_t          left_out = { 0 };
    chat_json_open_t     opened[CHAT_JSON_DEPTH + 1];
    chat_json_parser_t   parser;
    const unsigned char *p = text.data;

    *doc = (chat_json_doc_t){ .text = text, .arena = arena };

    if (text.len == 0 || text.len > UINT32_MAX) {
        return text.len == 0 ? CHAT_BAD : CHAT_LIMIT;
    }

    /* next() returns no space: nothing closes the text */
    opened[0] = (chat_json_open_t){ &left_out, &doc->root, .close = ' ' };
    parser = (chat_json_parser_t){ .text = text.data,
                                   .end = text.data + text.len,
                                   .rc = CHAT_BAD,
                                   .arena = arena,
                                   .allocates = CHAT_JSON_FEW,
                                   .least = least,
                                   .left_out = &left_out,
                                   .open = opened,
                                   .opened = opened };

    if (allocate_nodes(&parser) != CHAT_OK) {
        return CHAT_ERROR;
    }

    *parser.nodes = (chat_json_t){ 0 }; /* the root has no key */

    do {
        p = read_value(&parser, p);
        p = p ? read_between(&parser, p) : NULL;
    } while (p != NULL);

    doc->root = parser.rc == CHAT_OK ? doc->root : NULL;

    /* a text that is not UTF-8 is no JSON, whatever else it is */
    return parser.rc == CHAT_LIMIT && !chat_utf8_is_valid(text) ? CHAT_BAD
                                                                : parser.rc;
}


chat_rc_e
chat_json_parse(chat_json_doc_t *doc, chat_arena_t *arena, chat_str_t text)
{
    return parse(doc, arena, text, CHAT_JSON_OBJECT);
}


chat_rc_e
chat_json_parse_array(chat_json_doc_t *doc, chat_arena_t *arena,
                      chat_str_t text)
{
    return parse(doc, arena, text, CHAT_JSON_ARRAY);
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

    static const unsigned char letters[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };

    if (s->data[0] != '\\' || s->data[1] != 'u') {
        used = s->data[0] == '\\' ? 2 : 1;
        out[0] = used == 2 ? letters[s->data[1]] : s->data[0];
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


/* That a caller looks at the value is noted: see stream/chat_form.h. */
chat_str_t
chat_json_raw(const chat_json_doc_t *doc, const chat_json_t *node)
{
    if (node == NULL) {
        return chat_str(NULL, 0);
    }

    ((chat_json_t *) node)->read = 1;
    return chat_str(doc->text.data + node->start, node->end - node->start);
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
chat_json_equals(chat_json_doc_t *doc, const chat_json_t *node,
                 const char *text, size_t len)
{
    chat_str_t s;

    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return 0;
    }

    s = inner(doc, node);
    return (node->has & CHAT_JSON_ESCAPED) == 0
               ? chat_str_eq(s, chat_str(text, len))
               : chat_json_same_decoded(s, text, len);
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
