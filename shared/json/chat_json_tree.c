/*
 * chat_json_tree.c: reading the tree that chat_json_parse() built.
 *
 * Strings and keys are compared and handed out decoded, so that an escaped
 * letter makes no difference to anyone.
 * Promises: NULL and nodes of another type are answered as absent; nothing is
 * allocated but for strings with escapes; what is handed out is UTF-8.
 * Must not know: the parser, SSE, dialects.
 */

#include "json/chat_json.h"


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


static size_t
chat_json_utf8_put(uint32_t ch, unsigned char out[4])
{
    if (ch < 0x80) {
        out[0] = (unsigned char) ch;
        return 1;
    }

    if (ch < 0x800) {
        out[0] = (unsigned char) (0xc0 | ch >> 6);
        out[1] = (unsigned char) (0x80 | (ch & 0x3f));
        return 2;
    }

    if (ch < 0x10000) {
        out[0] = (unsigned char) (0xe0 | ch >> 12);
        out[1] = (unsigned char) (0x80 | (ch >> 6 & 0x3f));
        out[2] = (unsigned char) (0x80 | (ch & 0x3f));
        return 3;
    }

    out[0] = (unsigned char) (0xf0 | ch >> 18);
    out[1] = (unsigned char) (0x80 | (ch >> 12 & 0x3f));
    out[2] = (unsigned char) (0x80 | (ch >> 6 & 0x3f));
    out[3] = (unsigned char) (0x80 | (ch & 0x3f));

    return 4;
}


/*
 * Decodes the character or escape at *s (of a string that was parsed, so the
 * escapes are whole) into out and moves behind it; answers its bytes.
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

    return chat_json_utf8_put(ch, out);
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


chat_str_t
chat_json_string(chat_json_doc_t *doc, const chat_json_t *node)
{
    if (node == NULL || node->type != CHAT_JSON_STRING) {
        return chat_str(NULL, 0);
    }

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
    return node != NULL && node->type == CHAT_JSON_STRING
           && chat_json_same(chat_json_inner(doc, node->start, node->end),
                             text);
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


chat_str_t
chat_json_raw(const chat_json_doc_t *doc, const chat_json_t *node)
{
    if (node == NULL) {
        return chat_str(NULL, 0);
    }

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
    size_t     i;
    int64_t    value = 0;
    chat_str_t s;

    if (node == NULL || node->type != CHAT_JSON_NUMBER) {
        return -1;
    }

    s = chat_json_raw(doc, node);

    for (i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return -1;
        }

        value = value * 10 + (s.data[i] - '0');

        if (value > INT32_MAX) {
            return -1;
        }
    }

    return (int32_t) value;
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
