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

typedef struct {
    const unsigned char *text;
    const unsigned char *at; /* what was read ends here */
    const unsigned char *end;
    chat_arena_t        *arena;
    chat_json_t         *nodes; /* the next one of those allocated */
    size_t               nnodes;
    size_t               allocates; /* so many, when there are none */
    uint32_t             key_start;
    uint32_t             key_end;
    unsigned             key_has;
    unsigned             has; /* of the string that was read last */
    uint32_t             depth;
    chat_json_open_t     open[CHAT_JSON_DEPTH + 1]; /* [0]: around the root */
} chat_json_parser_t;


static void
skip_space(chat_json_parser_t *parser)
{
    const unsigned char *p = parser->at;

    while (p < parser->end
           && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
    {
        p++;
    }

    parser->at = p;
}


/*
 * Adds a value that ends here to the innermost array or object; *node is NULL
 * if the tree leaves it out.
 */
static chat_rc_e
add_value(chat_json_parser_t *parser, chat_json_type_e type,
          const unsigned char *start, chat_json_t **node)
{
    chat_json_open_t *open = &parser->open[parser->depth];

    *node = NULL;
    open->begun = 1;

    if (open->tail == NULL) {
        return CHAT_OK;
    }

    if (open->close == ']' && type != CHAT_JSON_OBJECT) {
        open->node->opaque = 1;
        return CHAT_OK;
    }

    if (parser->nnodes == 0) {
        parser->nodes = chat_arena_take(
            parser->arena, parser->allocates * sizeof(*parser->nodes));
        if (parser->nodes == NULL) {
            return CHAT_ERROR;
        }

        parser->nnodes = parser->allocates;
        parser->allocates *= parser->allocates < CHAT_JSON_MANY ? 2 : 1;
    }

    parser->nnodes--;
    *node = parser->nodes++;

    **node = (chat_json_t){
        .type = type,
        .start = (uint32_t) (start - parser->text),
        .end = (uint32_t) (parser->at - parser->text),
        .key_start = parser->key_start,
        .key_end = parser->key_end,
        .plain_key = (parser->key_has & CHAT_JSON_ESCAPED) == 0,
        .plain = (parser->has & CHAT_JSON_ESCAPED) == 0,
        .varied = (parser->has & CHAT_JSON_VARIED) != 0,
    };

    *open->tail = *node;
    open->tail = &(*node)->next;
    return CHAT_OK;
}


static chat_rc_e
add_scalar(chat_json_parser_t *parser, chat_json_type_e type,
           const unsigned char *start)
{
    chat_json_t *node;

    return add_value(parser, type, start, &node);
}


/* Begins an array or object with its first bracket; close is the last one. */
static chat_rc_e
add_open(chat_json_parser_t *parser, chat_json_type_e type,
         unsigned char close)
{
    chat_rc_e         rc;
    chat_json_t      *node;
    chat_json_open_t *open;

    if (parser->depth == CHAT_JSON_DEPTH) {
        return CHAT_LIMIT;
    }

    parser->at++;
    rc = add_value(parser, type, parser->at - 1, &node);

    open = &parser->open[++parser->depth];
    open->node = node;
    open->tail = node ? &node->child : NULL;
    open->close = close;
    open->begun = 0;
    return rc;
}


static chat_rc_e
read_word(chat_json_parser_t *parser, chat_json_type_e type, const char *word)
{
    size_t               len = strlen(word);
    const unsigned char *start = parser->at;

    if ((size_t) (parser->end - start) < len || memcmp(start, word, len) != 0)
    {
        return CHAT_BAD;
    }

    parser->at += len;
    return add_scalar(parser, type, start);
}


/* Moves behind the string that starts here with its opening quote. */
static int
read_string(chat_json_parser_t *parser)
{
    const unsigned char *end;

    parser->has = 0;
    end = chat_json_string_end(parser->at + 1, parser->end, &parser->has);
    if (end == NULL || end == parser->end) {
        return 0;
    }

    parser->at = end + 1;
    return 1;
}


/* Reads one value; of an array or object only the bracket that opens it. */
static chat_rc_e
read_value(chat_json_parser_t *parser)
{
    const unsigned char *end, *start = parser->at;

    if (start == parser->end) {
        return CHAT_BAD;
    }

    switch (*start) {
    case '"':
        return read_string(parser)
                   ? add_scalar(parser, CHAT_JSON_STRING, start)
                   : CHAT_BAD;
    case '{':
        return add_open(parser, CHAT_JSON_OBJECT, '}');
    case '[':
        return add_open(parser, CHAT_JSON_ARRAY, ']');
    case 'n':
        return read_word(parser, CHAT_JSON_NULL, "null");
    case 't':
        return read_word(parser, CHAT_JSON_TRUE, "true");
    case 'f':
        return read_word(parser, CHAT_JSON_FALSE, "false");
    default:
        end = chat_json_number_end(start, parser->end);
        parser->at = end;
        return end ? add_scalar(parser, CHAT_JSON_NUMBER, start) : CHAT_BAD;
    }
}


/* Reads a member's key and the colon, up to the value. */
static chat_rc_e
read_key(chat_json_parser_t *parser)
{
    if (parser->at == parser->end || *parser->at != '"') {
        return CHAT_BAD;
    }

    parser->key_start = (uint32_t) (parser->at - parser->text);
    if (!read_string(parser)) {
        return CHAT_BAD;
    }

    parser->key_end = (uint32_t) (parser->at - parser->text);
    parser->key_has = parser->has;
    skip_space(parser);

    if (parser->at == parser->end || *parser->at != ':') {
        return CHAT_BAD;
    }

    parser->at++;
    skip_space(parser);
    return CHAT_OK;
}


/*
 * Reads what stands between two values: the ends of arrays and objects, then a
 * comma, unless an array or object has just begun, and the key of the next.
 */
static chat_rc_e
read_between(chat_json_parser_t *parser)
{
    unsigned char     ch;
    chat_json_open_t *open;

    for (;;) {
        open = &parser->open[parser->depth];
        skip_space(parser);

        if (parser->depth == 0) {
            return parser->at == parser->end ? CHAT_OK : CHAT_BAD;
        }

        if (parser->at == parser->end) {
            return CHAT_BAD;
        }

        ch = *parser->at;

        if (ch != open->close) {
            break;
        }

        parser->at++;
        parser->depth--;
        if (open->node != NULL) {
            open->node->end = (uint32_t) (parser->at - parser->text);
        }
    }

    if (open->begun) {
        if (ch != ',') {
            return CHAT_BAD;
        }

        parser->at++;
        skip_space(parser);
    }

    parser->key_start = 0;
    parser->key_end = 0;

    return open->close == '}' ? read_key(parser) : CHAT_OK;
}


chat_rc_e
chat_json_parse(chat_json_doc_t *doc, chat_arena_t *arena, chat_str_t text)
{
    chat_rc_e          rc;
    chat_json_parser_t parser;

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

    memset(&parser, 0, offsetof(chat_json_parser_t, open));
    parser.text = text.data;
    parser.at = text.data;
    parser.end = text.data + text.len;
    parser.arena = arena;
    parser.allocates = CHAT_JSON_FEW;
    parser.open[0].tail = &doc->root;
    parser.open[0].close = '\0';

    skip_space(&parser);

    do {
        rc = read_value(&parser);
        rc = rc == CHAT_OK ? read_between(&parser) : rc;
    } while (rc == CHAT_OK && parser.depth != 0);

    if (rc != CHAT_OK) {
        doc->root = NULL;
    }

    /* a text that is not UTF-8 is no JSON, whatever else it is */
    return rc == CHAT_LIMIT && !chat_utf8_is_valid(text) ? CHAT_BAD : rc;
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

    if (s->data[0] != '\\' || s->len < 2) {
        out[0] = s->data[0];
        *s = chat_str(s->data + 1, s->len - 1);
        return 1;
    }

    ch = letters[s->data[1]];

    if (s->data[1] == 'u' && s->len >= 6) {
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

    } else if (ch == 0) {
        ch = s->data[1];
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


/* 1 if the text is that of s, which has escapes unless it is plain. */
static int
chat_json_same(chat_str_t s, int plain, const char *text, size_t left)
{
    size_t        n;
    unsigned char ch[4];

    if (plain) {
        return s.len == left && memcmp(s.data, text, left) == 0;
    }

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


/* The decoded text in the arena; data is NULL without memory. */
static chat_str_t
chat_json_decoded(chat_json_doc_t *doc, chat_str_t s)
{
    unsigned char *p = chat_arena_alloc(doc->arena, s.len + CHAT_JSON_ROOM);

    return p ? chat_str(p, (size_t) (chat_json_unescape(s, p) - p))
             : chat_str(NULL, 0);
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
    chat_str_t s;

    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return chat_str(NULL, 0);
    }

    chat_json_note(node);
    s = chat_json_inner(doc, node->start, node->end);

    return node->plain ? s : chat_json_decoded(doc, s);
}


chat_str_t
chat_json_text(chat_json_doc_t *doc, const chat_json_t *object,
               const char *key)
{
    return chat_json_string(doc, chat_json_get(doc, object, key));
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
                          node->plain, text, len);
}


int
chat_json_key_is(chat_json_doc_t *doc, const chat_json_t *member,
                 const char *key)
{
    return member != NULL && member->key_end != 0
           && chat_json_same(
               chat_json_inner(doc, member->key_start, member->key_end),
               member->plain_key, key, strlen(key));
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
        if (member->plain_key
                ? member->key_end - member->key_start != len + 2
                      || memcmp(doc->text.data + member->key_start + 1, key,
                                len)
                             != 0
                : !chat_json_key_is(doc, member, key))
        {
            continue;
        }

        if (found != NULL) {
            doc->duplicate = 1;
        }

        found = member;
    }

    return found;
}


chat_json_t *
chat_json_typed(chat_json_doc_t *doc, const chat_json_t *object,
                const char *key, chat_json_type_e type)
{
    chat_json_t *node = chat_json_get(doc, object, key);

    return node != NULL && node->type == type ? node : NULL;
}


chat_json_t *
chat_json_first(chat_json_doc_t *doc, const chat_json_t *object,
                const char *key)
{
    chat_json_t *list = chat_json_typed(doc, object, key, CHAT_JSON_ARRAY);

    return list != NULL ? list->child : NULL;
}


int
chat_json_has(chat_json_doc_t *doc, const chat_json_t *object, const char *key,
              const char *text)
{
    return chat_json_is(doc, chat_json_get(doc, object, key), text);
}


int
chat_json_flag(chat_json_doc_t *doc, const chat_json_t *object,
               const char *key)
{
    return chat_json_true(chat_json_get(doc, object, key));
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
