/*
 * chat_edit.h: a list of small changes to a text, applied in one go.
 *
 * Bodies and frames are spliced, never re-serialised: every byte that no edit
 * names stays. The order of adding does not matter, except that edits at one
 * position are applied in the order in which they were added.
 */

#ifndef CHAT_EDIT_H
#define CHAT_EDIT_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"

/* One change: at byte pos, len bytes go and text comes in their place. */
typedef struct {
    size_t     pos;
    size_t     len;
    chat_str_t text;   /* in the list's arena */
    size_t     number; /* in the order of adding */
} chat_edit_t;

/* All zero but arena is an empty list. */
typedef struct {
    chat_arena_t *arena; /* of the caller; holds the edits and their texts */
    chat_edit_t  *items;
    size_t        count;
    size_t        size;   /* items that there is room for */
    int           failed; /* no memory: further changes are not added */
} chat_edits_t;

/*
 * Adds a change; text is copied. Failure is sticky: a caller may add without
 * checks, as chat_edits_apply() reports it. Returns CHAT_ERROR if the list has
 * failed, now or before.
 */
chat_rc_e chat_edits_add(chat_edits_t *edits, size_t pos, size_t len,
                         chat_str_t text);

/*
 * Appends text with all edits applied to out. CHAT_ERROR: the list or out has
 * failed, or there is no memory. CHAT_BAD: edits overlap or lie outside of
 * text. Nothing is appended then.
 */
chat_rc_e chat_edits_apply(const chat_edits_t *edits, chat_str_t text,
                           chat_buf_t *out);

#endif /* CHAT_EDIT_H */
