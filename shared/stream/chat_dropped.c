/*
 * chat_dropped.c: which slots of a stream are dropped, for renumbering.
 *
 * A sorted array. Promises: a slot stands in it at most once, and exactly
 * while its newest opening is a dropped one.
 * Must not know: why a call is dropped, wire formats.
 */

#include "stream/chat_dropped.h"

#include <stdlib.h>


/* Where slot is, or where it would have to be. */
static size_t
chat_dropped_place(const chat_dropped_t *dropped, uint32_t slot)
{
    size_t low = 0, middle, high = dropped->view.count;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (dropped->list[middle] < slot) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }

    return low;
}


static chat_rc_e
chat_dropped_insert(chat_dropped_t *dropped, size_t place, uint32_t slot)
{
    size_t    size;
    uint32_t *list;

    if (dropped->view.count == dropped->size) {
        size = dropped->size ? dropped->size * 2 : 16;
        list = realloc(dropped->list, size * sizeof(*list));
        if (list == NULL) {
            return CHAT_ERROR;
        }
        dropped->list = list;
        dropped->size = size;
        dropped->view.dropped = list;
    }

    list = dropped->list + place;
    memmove(list + 1, list, (dropped->view.count - place) * sizeof(*list));
    *list = slot;
    dropped->view.count++;
    return CHAT_OK;
}


chat_rc_e
chat_dropped_note(chat_dropped_t *dropped, uint32_t slot, int is_dropped)
{
    size_t    place = chat_dropped_place(dropped, slot);
    chat_rc_e rc = CHAT_OK;
    uint32_t *list;
    int       listed;

    listed = place < dropped->view.count && dropped->list[place] == slot;

    dropped->opened++;
    dropped->dropped += is_dropped != 0;
    dropped->view.all = dropped->dropped == dropped->opened;

    if (is_dropped && !listed) {
        rc = chat_dropped_insert(dropped, place, slot);

    } else if (!is_dropped && listed) {
        list = dropped->list + place;
        dropped->view.count--;
        memmove(list, list + 1, (dropped->view.count - place) * sizeof(*list));
    }

    return rc;
}


void
chat_dropped_free(chat_dropped_t *dropped)
{
    free(dropped->list);
}
