/*
 * chat_edit.c: see chat_edit.h.
 *
 * Edits are collected in any order, sorted once, and checked before the first
 * byte is written: n log n.
 */

#include "bytes/chat_edit.h"

#include <stdlib.h>

/* An edit with its number, so that the sort keeps the order of adding. */
typedef struct {
    const chat_edit_t *edit;
    size_t             number;
} chat_edit_item_t;


void
chat_edits_init(chat_edits_t *edits, chat_arena_t *arena)
{
    memset(edits, 0, sizeof(*edits));
    edits->arena = arena;
}


chat_rc_e
chat_edits_add(chat_edits_t *edits, size_t pos, size_t len, chat_str_t text)
{
    chat_edit_t *edit = NULL;

    if (!edits->failed) {
        edit = chat_arena_alloc(edits->arena, sizeof(chat_edit_t));
    }

    if (edit == NULL
        || chat_arena_dup(edits->arena, text, &edit->text) != CHAT_OK) {
        edits->failed = 1;
        return CHAT_ERROR;
    }

    edit->pos = pos;
    edit->len = len;
    edit->next = edits->first;

    edits->first = edit;
    edits->count++;

    return CHAT_OK;
}


chat_rc_e
chat_edits_buf(chat_edits_t *edits, size_t pos, size_t len,
               const chat_buf_t *text)
{
    edits->failed |= text->failed;

    return chat_edits_add(edits, pos, len, chat_buf_str(text));
}


static int
chat_edit_compare(const void *one, const void *two)
{
    const chat_edit_item_t *a = one, *b = two;

    if (a->edit->pos != b->edit->pos) {
        return a->edit->pos < b->edit->pos ? -1 : 1;
    }

    return a->number < b->number ? -1 : a->number > b->number;
}


static chat_edit_item_t *
chat_edits_sort(const chat_edits_t *edits)
{
    size_t             i;
    const chat_edit_t *edit;
    chat_edit_item_t  *items;

    if (edits->count > SIZE_MAX / sizeof(chat_edit_item_t)) {
        return NULL;
    }

    items = chat_arena_alloc(edits->arena,
                             edits->count * sizeof(chat_edit_item_t));
    if (items == NULL) {
        return NULL;
    }

    /* the list has the newest first */
    i = edits->count;

    for (edit = edits->first; edit != NULL; edit = edit->next) {
        i--;
        items[i].edit = edit;
        items[i].number = i;
    }

    qsort(items, edits->count, sizeof(chat_edit_item_t), chat_edit_compare);

    return items;
}


/* 1 if the sorted edits lie in a text of len bytes and do not overlap. */
static int
chat_edits_fit(const chat_edit_item_t *items, size_t n, size_t len)
{
    size_t             i, begin, end;
    const chat_edit_t *edit;

    begin = 0;
    end = 0;

    for (i = 0; i < n; i++) {
        edit = items[i].edit;

        if (edit->pos > len || edit->len > len - edit->pos) {
            return 0;
        }

        /* beside an edit at the same place only insertions fit */
        if (edit->pos < end && (edit->pos != begin || edit->len != 0)) {
            return 0;
        }

        if (edit->pos + edit->len > end) {
            begin = edit->pos;
            end = edit->pos + edit->len;
        }
    }

    return 1;
}


chat_rc_e
chat_edits_apply(const chat_edits_t *edits, chat_str_t text, chat_buf_t *out)
{
    size_t             i, done;
    const chat_edit_t *edit;
    chat_edit_item_t  *items;

    items = edits->failed ? NULL : chat_edits_sort(edits);
    if (items == NULL) {
        return CHAT_ERROR;
    }

    if (!chat_edits_fit(items, edits->count, text.len)) {
        return CHAT_BAD;
    }

    done = 0;

    for (i = 0; i < edits->count; i++) {
        edit = items[i].edit;

        if (edit->pos > done) {
            chat_buf_add(out, chat_str(text.data + done, edit->pos - done));
            done = edit->pos;
        }

        chat_buf_add(out, edit->text);

        if (edit->pos + edit->len > done) {
            done = edit->pos + edit->len;
        }
    }

    if (done < text.len) {
        chat_buf_add(out, chat_str(text.data + done, text.len - done));
    }

    return out->failed ? CHAT_ERROR : CHAT_OK;
}
