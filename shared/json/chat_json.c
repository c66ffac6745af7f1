/*
 * chat_json.c: see chat_json.h; the only file that includes yajl.
 *
 * yajl reports each token and how far it has read. A token begins behind the
 * white space, commas and colons that follow the one before. The parser is
 * strict where yajl is lenient (UTF-8, white space), does not recurse, and
 * never converts numbers: none is too long or too large. Strings and keys are
 * compared decoded, so that an escaped letter makes no difference.
 */

#include "bytes/chat_utf8.h"
#include "json/chat_json.h"

#include <yajl/yajl_parse.h>

/* An array or object whose end has not come yet. */
typedef struct {
    chat_json_t  *node;
    chat_json_t **tail; /* where its next child goes */
} chat_json_open_t;

typedef struct {
    chat_json_doc_t *doc;
    yajl_handle      yajl;
    size_t           pos; /* one past the last token */
    uint32_t         key_start;
    uint32_t         key_end;
    size_t           left; /* values that may yet come */
    uint32_t         depth;
    chat_json_open_t open[CHAT_JSON_DEPTH + 1]; /* [0]: around the root */
    chat_rc_e        rc;                        /* why a callback gave up */
} chat_json_parser_t;


static int
chat_json_is_space(unsigned char ch)
{
    return ch == ' ' || ch == '\n' || ch == '\r' || ch == '\t';
}


/* Moves to the next token. yajl takes \v and \f for white space too. */
static int
chat_json_skip(chat_json_parser_t *parser)
{
    unsigned char ch;
    chat_str_t    text = parser->doc->text;

    for (; parser->pos < text.len; parser->pos++) {
        ch = text.data[parser->pos];

        if (!chat_json_is_space(ch) && ch != ',' && ch != ':') {
            break;
        }
    }

    if (parser->pos < text.len && text.data[parser->pos] != '\v'
        && text.data[parser->pos] != '\f')
    {
        return 1;
    }

    parser->rc = CHAT_BAD;

    return 0;
}


/* A new node of len bytes (0: up to where yajl is) below the open one. */
static chat_json_t *
chat_json_node(chat_json_parser_t *parser, chat_json_type_e type, size_t len)
{
    chat_json_t      *node;
    chat_json_open_t *open;

    if (!chat_json_skip(parser)) {
        return NULL;
    }

    if (parser->left == 0) {
        parser->rc = CHAT_LIMIT;
        return NULL;
    }

    node = chat_arena_alloc(parser->doc->arena, sizeof(chat_json_t));
    if (node == NULL) {
        parser->rc = CHAT_ERROR;
        return NULL;
    }

    node->type = type;
    node->start = (uint32_t) parser->pos;
    parser->pos =
        len != 0 ? parser->pos + len : yajl_get_bytes_consumed(parser->yajl);
    node->end = (uint32_t) parser->pos;
    node->key_start = parser->key_start;
    node->key_end = parser->key_end;

    parser->key_start = 0;
    parser->key_end = 0;
    parser->left--;

    open = &parser->open[parser->depth];
    *open->tail = node;
    open->tail = &node->next;

    return node;
}


static int
chat_json_on_null(void *ctx)
{
    return chat_json_node(ctx, CHAT_JSON_NULL, 4) != NULL;
}


static int
chat_json_on_boolean(void *ctx, int value)
{
    return value ? chat_json_node(ctx, CHAT_JSON_TRUE, 4) != NULL
                 : chat_json_node(ctx, CHAT_JSON_FALSE, 5) != NULL;
}


static int
chat_json_on_number(void *ctx, const char *value, size_t len)
{
    /* at the end of the text yajl has read past it */
    return chat_json_node(ctx, CHAT_JSON_NUMBER, len) != NULL;
}


static int
chat_json_on_string(void *ctx, const unsigned char *value, size_t len)
{
    return chat_json_node(ctx, CHAT_JSON_STRING, 0) != NULL;
}


static int
chat_json_on_key(void *ctx, const unsigned char *value, size_t len)
{
    chat_json_parser_t *parser = ctx;

    if (!chat_json_skip(parser)) {
        return 0;
    }

    parser->key_start = (uint32_t) parser->pos;
    parser->pos = yajl_get_bytes_consumed(parser->yajl);
    parser->key_end = (uint32_t) parser->pos;

    return 1;
}


static int
chat_json_begin(chat_json_parser_t *parser, chat_json_type_e type)
{
    chat_json_t *node;

    if (parser->depth == CHAT_JSON_DEPTH) {
        parser->rc = CHAT_LIMIT;
        return 0;
    }

    node = chat_json_node(parser, type, 1);
    if (node == NULL) {
        return 0;
    }

    parser->depth++;
    parser->open[parser->depth].node = node;
    parser->open[parser->depth].tail = &node->child;

    return 1;
}


static int
chat_json_on_object(void *ctx)
{
    return chat_json_begin(ctx, CHAT_JSON_OBJECT);
}


static int
chat_json_on_array(void *ctx)
{
    return chat_json_begin(ctx, CHAT_JSON_ARRAY);
}


static int
chat_json_on_end(void *ctx)
{
    chat_json_parser_t *parser = ctx;

    if (!chat_json_skip(parser)) {
        return 0;
    }

    parser->pos++;
    parser->open[parser->depth].node->end = (uint32_t) parser->pos;
    parser->depth--;

    return 1;
}


static const yajl_callbacks chat_json_callbacks = {
    .yajl_null = chat_json_on_null,
    .yajl_boolean = chat_json_on_boolean,
    .yajl_number = chat_json_on_number,
    .yajl_string = chat_json_on_string,
    .yajl_start_map = chat_json_on_object,
    .yajl_map_key = chat_json_on_key,
    .yajl_end_map = chat_json_on_end,
    .yajl_start_array = chat_json_on_array,
    .yajl_end_array = chat_json_on_end,
};


static chat_rc_e
chat_json_run(chat_json_parser_t *parser)
{
    chat_str_t  text = parser->doc->text;
    yajl_status status;

    status = yajl_parse(parser->yajl, text.data, text.len);
    if (status == yajl_status_ok) {
        status = yajl_complete_parse(parser->yajl);
    }

    if (status == yajl_status_client_canceled) {
        return parser->rc;
    }

    if (status != yajl_status_ok || parser->doc->root == NULL) {
        return CHAT_BAD;
    }

    for (; parser->pos < text.len; parser->pos++) {
        if (!chat_json_is_space(text.data[parser->pos])) {
            return CHAT_BAD;
        }
    }

    return CHAT_OK;
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

    if (text.len == 0 || !chat_utf8_is_valid(text)) {
        return CHAT_BAD;
    }

    parser.doc = doc;
    parser.pos = 0;
    parser.key_start = 0;
    parser.key_end = 0;
    parser.left = CHAT_JSON_FREE + text.len / CHAT_JSON_VALUE;
    parser.left =
        parser.left < CHAT_JSON_NODES ? parser.left : CHAT_JSON_NODES;
    parser.depth = 0;
    parser.open[0].node = NULL;
    parser.open[0].tail = &doc->root;
    parser.rc = CHAT_ERROR;

    parser.yajl = yajl_alloc(&chat_json_callbacks, NULL, &parser);
    if (parser.yajl == NULL) {
        return CHAT_ERROR;
    }

    (void) yajl_config(parser.yajl, yajl_dont_validate_strings, 1);

    rc = chat_json_run(&parser);

    yajl_free(parser.yajl);

    if (rc != CHAT_OK) {
        doc->root = NULL;
    }

    return rc;
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
    size_t      used = 2;
    uint32_t    ch, low;
    const char *at;

    static const char letters[] = "bfnrt";
    static const char meanings[] = "\b\f\n\r\t";

    if (s->data[0] != '\\' || s->len < 2) {
        out[0] = s->data[0];
        *s = chat_str(s->data + 1, s->len - 1);
        return 1;
    }

    at = memchr(letters, s->data[1], sizeof(letters) - 1);

    if (at != NULL) {
        ch = (unsigned char) meanings[at - letters];

    } else if (s->data[1] == 'u' && s->len >= 6) {
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

    } else {
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


static int
chat_json_is_plain(chat_str_t s)
{
    return s.len == 0 || memchr(s.data, '\\', s.len) == NULL;
}


static int
chat_json_same(chat_str_t s, const char *text)
{
    size_t        n, left = strlen(text);
    unsigned char ch[4];

    if (chat_json_is_plain(s)) {
        return chat_str_eq(s, chat_str(text, left));
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


static chat_str_t
chat_json_unescape(chat_json_doc_t *doc, chat_str_t s)
{
    unsigned char *p, *end;

    if (chat_json_is_plain(s)) {
        return s;
    }

    /* no escape is shorter than what it stands for, but out[4] is whole */
    p = chat_arena_alloc(doc->arena, s.len + 4);
    if (p == NULL) {
        return chat_str(NULL, 0);
    }

    for (end = p; s.len != 0; /* void */) {
        end += chat_json_decode(&s, end);
    }

    return chat_str(p, (size_t) (end - p));
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
    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return chat_str(NULL, 0);
    }

    chat_json_note(node);
    return chat_json_unescape(doc,
                              chat_json_inner(doc, node->start, node->end));
}


chat_str_t
chat_json_text(chat_json_doc_t *doc, const chat_json_t *object,
               const char *key)
{
    return chat_json_string(doc, chat_json_get(doc, object, key));
}


chat_str_t
chat_json_key(chat_json_doc_t *doc, const chat_json_t *member)
{
    if (member == NULL || member->key_end == 0) {
        return chat_str(NULL, 0);
    }

    return chat_json_unescape(
        doc, chat_json_inner(doc, member->key_start, member->key_end));
}


int
chat_json_is(chat_json_doc_t *doc, const chat_json_t *node, const char *text)
{
    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return 0;
    }

    chat_json_note(node);
    return chat_json_same(chat_json_inner(doc, node->start, node->end), text);
}


int
chat_json_key_is(chat_json_doc_t *doc, const chat_json_t *member,
                 const char *key)
{
    return member != NULL && member->key_end != 0
           && chat_json_same(
               chat_json_inner(doc, member->key_start, member->key_end), key);
}


chat_json_t *
chat_json_get(chat_json_doc_t *doc, const chat_json_t *object, const char *key)
{
    chat_json_t *member, *found = NULL;

    if (object == NULL || object->type != CHAT_JSON_OBJECT) {
        return NULL;
    }

    for (member = object->child; member != NULL; member = member->next) {
        if (!chat_json_key_is(doc, member, key)) {
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
