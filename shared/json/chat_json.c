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

#define CHAT_JSON_FEW 8    /* nodes that are allocated at first, and */
#define CHAT_JSON_MANY 256 /* at a time of a large text */

/* An array or object that the parser has not closed yet. */
typedef struct {
    chat_json_t  *node;  /* NULL: the tree does not have it */
    chat_json_t **tail;  /* where its next child goes; NULL likewise */
    unsigned char close; /* its last bracket */
    unsigned char begun; /* it has a member or element */
} chat_json_open_t;

/*
 * The functions that read take the cursor and return where it is then; NULL:
 * rc says why.
 */
typedef struct {
    const unsigned char *text;
    const unsigned char *end;
    chat_rc_e            rc; /* of a failure; at first CHAT_BAD */
    chat_arena_t        *arena;
    chat_json_t         *nodes; /* the next one of those allocated */
    size_t               nnodes;
    size_t               allocates; /* so many, when there are none */
    chat_json_type_e     least;     /* of the elements that arrays have */
    uint32_t             key_start; /* of the member that is being read */
    uint32_t             key_end;
    unsigned char        key_has;
    chat_json_open_t    *open;                        /* the innermost one */
    chat_json_open_t     opened[CHAT_JSON_DEPTH + 1]; /* [0]: the root's */
} chat_json_parser_t;


static inline const unsigned char *
skip_space(const unsigned char *p, const unsigned char *end)
{
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) {
        p++;
    }

    return p;
}


/* Makes room for one node. */
static chat_rc_e
allocate_nodes(chat_json_parser_t *parser)
{
    parser->nodes = chat_arena_take(
        parser->arena, parser->allocates * sizeof(*parser->nodes));
    if (parser->nodes == NULL) {
        return CHAT_ERROR;
    }

    parser->nnodes = parser->allocates;
    parser->allocates *= parser->allocates < CHAT_JSON_MANY ? 2 : 1;
    return CHAT_OK;
}


/*
 * Adds a value from start to p to the innermost array or object. *added is
 * NULL if the tree leaves it out.
 */
static inline const unsigned char *
add_value(chat_json_parser_t *parser, chat_json_type_e type, unsigned has,
          const unsigned char *start, const unsigned char *p,
          chat_json_t **added)
{
    chat_json_t      *node;
    chat_json_open_t *open = parser->open;

    *added = NULL;
    open->begun = 1;

    if (open->tail == NULL) {
        return p;
    }

    if (open->close == ']' && type < parser->least) {
        open->node->opaque = 1;
        return p;
    }

    if (parser->nnodes == 0 && allocate_nodes(parser) != CHAT_OK) {
        parser->rc = CHAT_ERROR;
        return NULL;
    }

    parser->nnodes--;
    node = parser->nodes++;

    *node = (chat_json_t){
        .start = (uint32_t) (start - parser->text),
        .end = (uint32_t) (p - parser->text),
        .key_start = parser->key_start,
        .key_end = parser->key_end,
        .type = type,
        .has = (unsigned char) has,
        .key_has = parser->key_has,
    };

    *open->tail = node;
    open->tail = &node->next;
    *added = node;
    return p;
}


/* Begins an array or object with its first bracket; close is the last one. */
static inline const unsigned char *
add_open(chat_json_parser_t *parser, chat_json_type_e type,
         unsigned char close, const unsigned char *p)
{
    chat_json_t *node;

    if (parser->open == &parser->opened[CHAT_JSON_DEPTH]) {
        parser->rc = CHAT_LIMIT;
        return NULL;
    }

    p = add_value(parser, type, 0, p, p + 1, &node);

    parser->open++;
    parser->open->node = node;
    parser->open->tail = node ? &node->child : NULL;
    parser->open->close = close;
    parser->open->begun = 0;
    return p;
}


/* Behind this word at p. */
static const unsigned char *
read_word(const chat_json_parser_t *parser, const unsigned char *p,
          const char *word)
{
    size_t len = strlen(word);

    return (size_t) (parser->end - p) >= len && memcmp(p, word, len) == 0
               ? p + len
               : NULL;
}


/* Behind the string at p, with both quotes. */
static inline const unsigned char *
read_string(const chat_json_parser_t *parser, const unsigned char *p,
            unsigned *has)
{
    const unsigned char *end = parser->end;

    p = chat_json_string_end(p + 1, end, has);
    return p != NULL && p != end ? p + 1 : NULL;
}


/* Reads one value; of an array or object only the bracket that opens it. */
static inline const unsigned char *
read_value(chat_json_parser_t *parser, const unsigned char *start)
{
    unsigned             has = 0;
    chat_json_t         *node;
    chat_json_type_e     type;
    const unsigned char *p;

    if (start == parser->end) {
        return NULL;
    }

    switch (*start) {
    case '"':
        type = CHAT_JSON_STRING;
        p = read_string(parser, start, &has);
        break;
    case '{':
        return add_open(parser, CHAT_JSON_OBJECT, '}', start);
    case '[':
        return add_open(parser, CHAT_JSON_ARRAY, ']', start);
    case 'n':
        type = CHAT_JSON_NULL;
        p = read_word(parser, start, "null");
        break;
    case 't':
        type = CHAT_JSON_TRUE;
        p = read_word(parser, start, "true");
        break;
    case 'f':
        type = CHAT_JSON_FALSE;
        p = read_word(parser, start, "false");
        break;
    default:
        type = CHAT_JSON_NUMBER;
        p = chat_json_number_end(start, parser->end);
        break;
    }

    return p ? add_value(parser, type, has, start, p, &node) : NULL;
}


/* Reads a member's key and the colon, up to the value. */
static inline const unsigned char *
read_key(chat_json_parser_t *parser, const unsigned char *p)
{
    unsigned             has = 0;
    const unsigned char *end = parser->end;

    if (p == end || *p != '"') {
        return NULL;
    }

    parser->key_start = (uint32_t) (p - parser->text);

    p = read_string(parser, p, &has);
    if (p == NULL) {
        return NULL;
    }

    parser->key_end = (uint32_t) (p - parser->text);
    parser->key_has = (unsigned char) has;

    p = skip_space(p, end);
    return p != end && *p == ':' ? skip_space(p + 1, end) : NULL;
}


/*
 * Reads what stands between two values: the ends of arrays and objects, then a
 * comma, unless an array or object has just begun, and the key of the next.
 */
static inline const unsigned char *
read_between(chat_json_parser_t *parser, const unsigned char *p)
{
    const unsigned char *end = parser->end;
    chat_json_open_t    *open = parser->open;

    for (p = skip_space(p, end);
         open != parser->opened && p != end && *p == open->close;
         p = skip_space(p, end))
    {
        p++;
        if (open->node != NULL) {
            open->node->end = (uint32_t) (p - parser->text);
        }

        open = --parser->open;
    }

    if (open == parser->opened) {
        return p == end || parser->least == CHAT_JSON_ARRAY ? p : NULL;
    }

    if (p == end) {
        return NULL;
    }

    if (open->begun) {
        if (*p != ',') {
            return NULL;
        }

        p = skip_space(p + 1, end);
    }

    parser->key_start = 0;
    parser->key_end = 0;

    return open->close == '}' ? read_key(parser, p) : p;
}


static chat_rc_e
parse(chat_json_doc_t *doc, chat_arena_t *arena, chat_str_t text,
      chat_json_type_e least)
{
    chat_json_parser_t   parser;
    const unsigned char *p;

    doc->text = text;
    doc->root = NULL;
    doc->arena = arena;
    doc->duplicate = 0;

    if (text.len > UINT32_MAX) {
        return CHAT_LIMIT;
    }

    if (text.len == 0) {
        return CHAT_BAD;
    }

    memset(&parser, 0, offsetof(chat_json_parser_t, opened));
    parser.text = text.data;
    parser.end = text.data + text.len;
    parser.rc = CHAT_BAD;
    parser.arena = arena;
    parser.allocates = CHAT_JSON_FEW;
    parser.least = least;
    parser.open = parser.opened;
    parser.opened[0].tail = &doc->root;
    parser.opened[0].close = '\0';

    p = skip_space(text.data, parser.end);

    do {
        p = read_value(&parser, p);
        p = p ? read_between(&parser, p) : NULL;
    } while (p != NULL && parser.open != parser.opened);

    if (p != NULL) {
        return CHAT_OK;
    }

    doc->root = NULL;

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
        ch <<= 4;
        ch |= p[i] <= '9' ? (uint32_t) (p[i] - '0')
                          : (uint32_t) ((p[i] | 0x20) - 'a' + 10);
    }

    return ch;
}


/*
 * Decodes the character or escape at *s (of a string that was parsed, so the
 * escapes are whole) into out and moves behind it; returns its bytes.
 */
static size_t
chat_json_decode(chat_str_t *s, unsigned char out[4])
{
    size_t   used = 2;
    uint32_t ch, low;

    static const unsigned char letters[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };

    if (s->data[0] != '\\') {
        out[0] = s->data[0];
        *s = chat_str(s->data + 1, s->len - 1);
        return 1;
    }

    ch = letters[s->data[1]];

    if (s->data[1] == 'u') {
        ch = chat_json_hex4(s->data + 2);
        used = 6;

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
    }

    *s = chat_str(s->data + used, s->len - used);

    return chat_utf8_put(ch, out);
}


/* The text between the quotes at start and end - 1. */
static chat_str_t
chat_json_inner(const chat_json_doc_t *doc, uint32_t start, uint32_t end)
{
    return chat_str(doc->text.data + start + 1, end - start - 2);
}


/* 1 if s, which has escapes, is this text. It is rare, so never inlined. */
static __attribute__((noinline)) int
chat_json_same_decoded(chat_str_t s, const char *text, size_t left)
{
    size_t        n;
    unsigned char ch[4];

    while (s.len != 0) {
        n = chat_json_decode(&s, ch);

        if (n > left || memcmp(ch, text, n) != 0) {
            return 0;
        }

        text += n;
        left -= n;
    }

    return left == 0;
}


/* 1 if the text is that of s, a string of which the scan found has. */
static inline int
chat_json_same(chat_str_t s, unsigned has, const char *text, size_t left)
{
    if ((has & CHAT_JSON_ESCAPED) == 0) {
        return s.len == left
               && (left == 0
                   || (s.data[0] == (unsigned char) text[0]
                       && memcmp(s.data, text, left) == 0));
    }

    return chat_json_same_decoded(s, text, left);
}


unsigned char *
chat_json_unescape(chat_str_t s, unsigned char *out)
{
    size_t               n;
    const unsigned char *escape;

    while (s.len != 0) {
        escape = memchr(s.data, '\\', s.len);
        n = escape ? (size_t) (escape - s.data) : s.len;

        memcpy(out, s.data, n);
        out += n;
        s = chat_str(s.data + n, s.len - n);
        out += s.len != 0 ? chat_json_decode(&s, out) : 0;
    }

    return out;
}


/* A caller looks at the value: see stream/chat_form.h. */
static void
chat_json_note(const chat_json_t *node)
{
    ((chat_json_t *) node)->read = 1;
}


chat_str_t
chat_json_string(chat_json_doc_t *doc, const chat_json_t *node)
{
    chat_str_t     s;
    unsigned char *p;

    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return chat_str(NULL, 0);
    }

    chat_json_note(node);
    s = chat_json_inner(doc, node->start, node->end);
    if ((node->has & CHAT_JSON_ESCAPED) == 0) {
        return s;
    }

    p = chat_arena_alloc(doc->arena, s.len + CHAT_JSON_ROOM);

    return p ? chat_str(p, (size_t) (chat_json_unescape(s, p) - p))
             : chat_str(NULL, 0);
}


int
chat_json_equals(chat_json_doc_t *doc, const chat_json_t *node,
                 const char *text, size_t len)
{
    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return 0;
    }

    chat_json_note(node);
    return chat_json_same(chat_json_inner(doc, node->start, node->end),
                          node->has, text, len);
}


static inline int
chat_json_key_equals(const chat_json_doc_t *doc, const chat_json_t *member,
                     const char *key, size_t len)
{
    return chat_json_same(
        chat_json_inner(doc, member->key_start, member->key_end),
        member->key_has, key, len);
}


int
chat_json_key_is(chat_json_doc_t *doc, const chat_json_t *member,
                 const char *key)
{
    return member != NULL && member->key_end != 0
           && chat_json_key_equals(doc, member, key, strlen(key));
}


chat_json_t *
chat_json_find(chat_json_doc_t *doc, const chat_json_t *object,
               const char *key, size_t len)
{
    chat_json_t *member, *found = NULL;

    if (object == NULL || object->type != CHAT_JSON_OBJECT) {
        return NULL;
    }

    for (member = object->child; member != NULL; member = member->next) {
        if (!chat_json_key_equals(doc, member, key, len)) {
            continue;
        }

        if (found != NULL) {
            doc->duplicate = 1;
        }

        found = member;
    }

    return found;
}


void
chat_json_set(chat_json_doc_t *doc, const chat_json_t *object,
              const chat_json_member_t *members, size_t n, chat_buf_t *out)
{
    size_t             i;
    uint32_t           had = 0;
    chat_str_t         key, value;
    const char        *comma = "{";
    const chat_json_t *node;

    for (node = object ? object->child : NULL; node; node = node->next) {
        for (i = 0; i < n && !chat_json_key_is(doc, node, members[i].key); i++)
        {
            /* void */
        }

        had |= i < n ? 1u << i : 0;
        key = chat_str(doc->text.data + node->key_start,
                       node->key_end - node->key_start);
        value = i < n ? members[i].value : chat_json_raw(doc, node);

        if (value.len != 0) {
            chat_buf_format(out, "%s%v:%v", comma, key, value);
            comma = ",";
        }
    }

    for (i = 0; i < n; i++) {
        if ((had & 1u << i) == 0 && members[i].value.len != 0) {
            chat_buf_format(out, "%s%j:%v", comma, chat_cstr(members[i].key),
                            members[i].value);
            comma = ",";
        }
    }

    chat_buf_puts(out, comma[0] == '{' ? "{}" : "}");
}


chat_str_t
chat_json_raw(const chat_json_doc_t *doc, const chat_json_t *node)
{
    if (node == NULL) {
        return chat_str(NULL, 0);
    }

    chat_json_note(node);
    return chat_str(doc->text.data + node->start, node->end - node->start);
}


int
chat_json_true(const chat_json_t *node)
{
    return node != NULL && node->type == CHAT_JSON_TRUE;
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

    if (node == NULL) {
        return 0;
    }

    for (child = node->child; child != NULL; child = child->next) {
        n++;
    }

    return n;
}
