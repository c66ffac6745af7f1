/*
 * chat_edit.c: see chat_edit.h.
 *
 * Edits are collected in any order and sorted once: n log n.
 */

#include "bytes/chat_edit.h"

#include <stdlib.h>


chat_rc_e
chat_edits_add(chat_edits_t *edits, size_t pos, size_t len, chat_str_t text)
{
    chat_edit_t *edit = NULL;

    if (!edits->failed) {
        edit = chat_arena_push(edits->arena, &edits->items, &edits->count,
                               &edits->size, sizeof(*edit));
    }

    if (edit == NULL
        || chat_arena_dup(edits->arena, text, &edit->text) != CHAT_OK) {
        edits->failed = 1;
        return CHAT_ERROR;
    }

    edit->pos = pos;
    edit->len = len;
    edit->number = edits->count;
    return CHAT_OK;
}


static int
chat_edit_compare(const void *one, const void *two)
{
    const chat_edit_t *a = one, *b = two;

    if (a->pos != b->pos) {
        return a->pos < b->pos ? -1 : 1;
    }

    return a->number < b->number ? -1 : a->number > b->number;
}


chat_rc_e
chat_edits_apply(const chat_edits_t *edits, chat_str_t text, chat_buf_t *out)
{
    size_t             i, begin = 0, done = 0, len = text.len;
    size_t             before = out->len;
    const chat_edit_t *edit;

    if (edits->failed) {
        return CHAT_ERROR;
    }

    if (edits->count != 0) {
        qsort(edits->items, edits->count, sizeof(chat_edit_t),
              chat_edit_compare);
    }

    for (i = 0; i < edits->count; i++) {
        len += edits->items[i].text.len;
    }

    /* once: a body is long */
    (void) chat_buf_reserve(out, len);

    for (i = 0; i < edits->count; i++) {
        edit = &edits->items[i];

        /* beside an edit at the same place only insertions fit */
        if (edit->pos > text.len || edit->len > text.len - edit->pos
            || (edit->pos < done && (edit->pos != begin || edit->len != 0)))
        {
            out->len = before;
            return CHAT_BAD;
        }

        if (edit->pos > done) {
            chat_buf_add(out, chat_str(text.data + done, edit->pos - done));
        }

        chat_buf_add(out, edit->text);

        if (edit->pos + edit->len > done) {
            begin = edit->pos;
            done = edit->pos + edit->len;
        }
    }

    if (done < text.len) {
        chat_buf_add(out, chat_str(text.data + done, text.len - done));
    }

    return out->failed ? CHAT_ERROR : CHAT_OK;
}
