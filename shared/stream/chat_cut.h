/*
 * chat_cut.h: takes dropped calls out of one frame.
 *
 * The frame's marks say which bytes belong to a call and where its index is.
 * Elements go with their commas; the indexes of those that stay are closed up,
 * for clients use them as places in an array. No other byte changes.
 */

#ifndef CHAT_CUT_H
#define CHAT_CUT_H

#include "bytes/chat_edit.h"
#include "dialect/chat_calls.h"

typedef enum {
    CHAT_CUT_KEEP,   /* the frame stays as it is */
    CHAT_CUT_DROP,   /* nothing of it is left */
    CHAT_CUT_CHANGED /* edits were added, or have failed for lack of memory */
} chat_cut_e;

/*
 * What becomes of the frame with this data. Each mark's opening has its final
 * verdict, and the calls that the frame opens have been told to
 * chat_calls_left().
 */
chat_cut_e chat_cut(const chat_events_t *events, const chat_calls_t *calls,
                    chat_str_t data, chat_edits_t *edits);

#endif /* CHAT_CUT_H */
