/*
 * fuzz_json.c: the tree equals yajl's, and the canonical form is unique.
 *
 * The spans of a parsed text nest, keep their order and can be parsed alone,
 * to a value of the same canonical form.
 */

#include "fuzz.h"
#include "yajl_tree.h"

#define FUZZ_SIZE 4096 /* each value is parsed again: keep it fast */


/* The canonical form of a text that must parse. */
static void
fuzz_canon(chat_str_t text, chat_buf_t *out)
{
    chat_arena_t   *arena;
    chat_json_doc_t doc;

    arena = chat_arena_create(0);
    NEED(arena != NULL);
    NEED(chat_json_parse(&doc, arena, text) == CHAT_OK);

    chat_json_canon(&doc, doc.root, out);
    NEED(!out->failed);

    chat_arena_destroy(arena);
}


static void
fuzz_value(chat_json_doc_t *doc, const chat_json_t *node)
{
    chat_buf_t here, alone;

    memset(&here, 0, sizeof(chat_buf_t));
    memset(&alone, 0, sizeof(chat_buf_t));

    chat_json_canon(doc, node, &here);
    fuzz_canon(chat_json_raw(doc, node), &alone);

    NEED(chat_str_eq(chat_buf_str(&here), chat_buf_str(&alone)));

    chat_buf_free(&here);
    chat_buf_free(&alone);
}


static void
fuzz_key(chat_json_doc_t *doc, const chat_json_t *node)
{
    char          *name;
    size_t         len;
    unsigned char *end;

    NEED(doc->text.data[node->key_start] == '"');
    NEED(doc->text.data[node->key_end - 1] == '"');
    NEED(node->key_start + 2 <= node->key_end);

    len = node->key_end - node->key_start - 2;
    name = malloc(len + CHAT_JSON_ROOM + 1);
    NEED(name != NULL);

    end =
        chat_json_unescape(chat_str(doc->text.data + node->key_start + 1, len),
                           (unsigned char *) name);
    *end = '\0';

    if (strlen(name) == (size_t) (end - (unsigned char *) name)) {
        NEED(chat_json_key_is(doc, node, name, 0));
    }

    free(name);
}


static void
fuzz_tree(chat_json_doc_t *doc, const chat_json_t *node, size_t from,
          size_t to)
{
    const chat_json_t *child;

    if (node->key_end != 0) {
        NEED(node->key_start >= from && node->key_end <= node->start);
        fuzz_key(doc, node);
    }

    NEED(node->start >= from && node->start < node->end && node->end <= to);

    (void) chat_json_string(doc, node);
    (void) chat_json_index(doc, node);

    from = node->start + 1;

    for (child = node->child; child != NULL; child = child->next) {
        NEED((child->key_end != 0) == (node->type == CHAT_JSON_OBJECT));
        fuzz_tree(doc, child, from, node->end - 1);
        from = child->end;
    }

    fuzz_value(doc, node);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    chat_rc_e       rc;
    unsigned char  *text;
    chat_arena_t   *arena;
    chat_json_doc_t doc;

    text = malloc(size + (size == 0));
    arena = chat_arena_create(0);
    NEED(text != NULL && arena != NULL);
    if (size != 0) {
        memcpy(text, data, size);
    }

    rc = chat_json_parse(&doc, arena, chat_str(text, size));

    NEED(rc == CHAT_OK || rc == CHAT_BAD || rc == CHAT_LIMIT);
    NEED((rc == CHAT_OK) == (doc.root != NULL));
    NEED(yajl_tree_agrees(&doc, rc));

    if (rc == CHAT_OK && size <= FUZZ_SIZE) {
        fuzz_tree(&doc, doc.root, 0, size);
    }

    chat_arena_destroy(arena);
    free(text);

    return 0;
}
