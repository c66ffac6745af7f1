/*
 * yajl_tree.h: the tree of a JSON text as yajl reads it, to compare.
 *
 * A tree is a list of its values, in the order in which they begin; of an
 * array it has the objects alone. yajl
 * reports each token and how far it has read; a token begins after the white
 * space, commas and colons that follow the previous one. yajl is lenient with
 * UTF-8 and with \v and \f, so these are refused here.
 */

#ifndef YAJL_TREE_H
#define YAJL_TREE_H

#include "bytes/chat_utf8.h"
#include "json/chat_json.h"

#include <stdlib.h>
#include <yajl/yajl_parse.h>

typedef struct {
    uint32_t type;
    uint32_t start;
    uint32_t end;
    uint32_t key_start;
    uint32_t key_end;
    uint32_t depth;
} yajl_value_t;

typedef struct {
    yajl_handle yajl;
    chat_str_t  text;
    size_t      pos; /* one past the last token */
    chat_buf_t  values;
    uint32_t    key_start;
    uint32_t    key_end;
    uint32_t    depth;
    size_t      open[CHAT_JSON_DEPTH + 1]; /* position of each open value;
                                              SIZE_MAX: the tree lacks it */
    chat_rc_e   rc;                        /* why a callback failed */
} yajl_tree_t;


static inline int
yajl_tree_fail(yajl_tree_t *tree, chat_rc_e rc)
{
    tree->rc = rc;
    return 0;
}


/* Moves to the next token. */
static inline int
yajl_tree_skip(yajl_tree_t *tree)
{
    while (tree->pos < tree->text.len && tree->text.data[tree->pos] != '\0'
           && strchr(" \n\r\t,:", tree->text.data[tree->pos]) != NULL)
    {
        tree->pos++;
    }

    return tree->pos < tree->text.len && tree->text.data[tree->pos] != '\v'
                   && tree->text.data[tree->pos] != '\f'
               ? 1
               : yajl_tree_fail(tree, CHAT_BAD);
}


/* 1 if the tree has a value of this type here. */
static inline int
yajl_tree_has(const yajl_tree_t *tree, chat_json_type_e type)
{
    yajl_value_t parent;

    if (tree->depth == 0) {
        return 1;
    }

    if (tree->open[tree->depth] == SIZE_MAX) {
        return 0;
    }

    memcpy(&parent, tree->values.data + tree->open[tree->depth],
           sizeof(parent));
    return parent.type == CHAT_JSON_OBJECT || type == CHAT_JSON_OBJECT;
}


/* A value of len bytes; 0: up to where yajl is. */
static inline int
yajl_tree_add(yajl_tree_t *tree, chat_json_type_e type, size_t len)
{
    yajl_value_t value = { .type = (uint32_t) type, .depth = tree->depth };

    if (!yajl_tree_skip(tree)) {
        return 0;
    }

    value.start = (uint32_t) tree->pos;
    tree->pos = len ? tree->pos + len : yajl_get_bytes_consumed(tree->yajl);
    value.end = (uint32_t) tree->pos;
    value.key_start = tree->key_start;
    value.key_end = tree->key_end;
    tree->key_start = 0;
    tree->key_end = 0;

    if (yajl_tree_has(tree, type)) {
        chat_buf_add(&tree->values, chat_str(&value, sizeof(value)));
    }

    return 1;
}


static inline int
yajl_tree_null(void *ctx)
{
    return yajl_tree_add(ctx, CHAT_JSON_NULL, 4);
}


static inline int
yajl_tree_boolean(void *ctx, int value)
{
    return yajl_tree_add(ctx, value ? CHAT_JSON_TRUE : CHAT_JSON_FALSE,
                         value ? 4 : 5);
}


/* At the end of the text yajl has read past it. */
static inline int
yajl_tree_number(void *ctx, const char *value, size_t len)
{
    (void) value;
    return yajl_tree_add(ctx, CHAT_JSON_NUMBER, len);
}


static inline int
yajl_tree_string(void *ctx, const unsigned char *value, size_t len)
{
    (void) value;
    (void) len;
    return yajl_tree_add(ctx, CHAT_JSON_STRING, 0);
}


static inline int
yajl_tree_key(void *ctx, const unsigned char *value, size_t len)
{
    yajl_tree_t *tree = ctx;

    (void) value;
    (void) len;

    if (!yajl_tree_skip(tree)) {
        return 0;
    }

    tree->key_start = (uint32_t) tree->pos;
    tree->pos = yajl_get_bytes_consumed(tree->yajl);
    tree->key_end = (uint32_t) tree->pos;

    return 1;
}


static inline int
yajl_tree_begin(yajl_tree_t *tree, chat_json_type_e type)
{
    size_t at = yajl_tree_has(tree, type) ? tree->values.len : SIZE_MAX;

    if (!yajl_tree_skip(tree)) {
        return 0;
    }

    if (tree->depth == CHAT_JSON_DEPTH) {
        return yajl_tree_fail(tree, CHAT_LIMIT);
    }

    if (!yajl_tree_add(tree, type, 1)) {
        return 0;
    }

    tree->open[++tree->depth] = at;
    return 1;
}


static inline int
yajl_tree_object(void *ctx)
{
    return yajl_tree_begin(ctx, CHAT_JSON_OBJECT);
}


static inline int
yajl_tree_array(void *ctx)
{
    return yajl_tree_begin(ctx, CHAT_JSON_ARRAY);
}


static inline int
yajl_tree_end(void *ctx)
{
    size_t         at;
    yajl_value_t   value;
    yajl_tree_t   *tree = ctx;
    unsigned char *open;

    if (!yajl_tree_skip(tree)) {
        return 0;
    }

    tree->pos++;
    at = tree->open[tree->depth--];

    if (at != SIZE_MAX) {
        open = tree->values.data + at;
        memcpy(&value, open, sizeof(value));
        value.end = (uint32_t) tree->pos;
        memcpy(open, &value, sizeof(value));
    }

    return 1;
}


/* What chat_json_parse() should return; *values: the tree, to be freed. */
static inline chat_rc_e
yajl_tree(chat_str_t text, chat_buf_t *values)
{
    size_t      i;
    yajl_status status;
    yajl_tree_t tree = { .text = text, .rc = CHAT_ERROR };

    static const yajl_callbacks callbacks = {
        .yajl_null = yajl_tree_null,
        .yajl_boolean = yajl_tree_boolean,
        .yajl_number = yajl_tree_number,
        .yajl_string = yajl_tree_string,
        .yajl_start_map = yajl_tree_object,
        .yajl_map_key = yajl_tree_key,
        .yajl_end_map = yajl_tree_end,
        .yajl_start_array = yajl_tree_array,
        .yajl_end_array = yajl_tree_end,
    };

    memset(values, 0, sizeof(*values));

    if (text.len == 0 || !chat_utf8_is_valid(text)) {
        return CHAT_BAD;
    }

    tree.yajl = yajl_alloc(&callbacks, NULL, &tree);
    (void) yajl_config(tree.yajl, yajl_dont_validate_strings, 1);

    status = yajl_parse(tree.yajl, text.data, text.len);
    if (status == yajl_status_ok) {
        status = yajl_complete_parse(tree.yajl);
    }
    yajl_free(tree.yajl);

    *values = tree.values;

    if (status != yajl_status_ok || values->len == 0) {
        return status == yajl_status_client_canceled ? tree.rc : CHAT_BAD;
    }

    for (i = tree.pos; i < text.len; i++) {
        if (text.data[i] == '\0' || !strchr(" \n\r\t", text.data[i])) {
            return CHAT_BAD;
        }
    }

    return CHAT_OK;
}


/* Appends the tree of chat_json_parse() as such a list. */
static inline void
yajl_tree_list(const chat_json_t *node, uint32_t depth, chat_buf_t *values)
{
    yajl_value_t value;

    for (/* void */; node != NULL; node = node->next) {
        memset(&value, 0, sizeof(value));
        value.type = (uint32_t) node->type;
        value.start = node->start;
        value.end = node->end;
        value.key_start = node->key_start;
        value.key_end = node->key_end;
        value.depth = depth;
        chat_buf_add(values, chat_str(&value, sizeof(value)));
        yajl_tree_list(node->child, depth + 1, values);
    }
}


/* 1 if chat_json_parse() gives the same verdict as yajl, and the same tree. */
static inline int
yajl_tree_agrees(chat_json_doc_t *doc, chat_rc_e rc)
{
    int        same;
    chat_buf_t want, got = { 0 };

    same = rc == yajl_tree(doc->text, &want);

    if (rc == CHAT_OK) {
        yajl_tree_list(doc->root, 0, &got);
        same = same && chat_str_eq(chat_buf_str(&want), chat_buf_str(&got));
    }

    chat_buf_free(&want);
    chat_buf_free(&got);

    return same;
}


#endif /* YAJL_TREE_H */
