/*
 * chat_cut.c: takes dropped calls out of one frame.
 *
 * The data is JSON that was parsed, so that what stands between two elements
 * of a list is white space and one comma.
 */

#include "stream/chat_cut.h"

#include <stdio.h>

typedef struct {
    const chat_events_t *events;
    const chat_calls_t  *calls;
    chat_str_t           data;
    chat_edits_t        *edits;
    uint32_t             end;   /* of what was cut last */
    int                  front; /* nothing stays before that in its list */
} chat_cut_t;


static int
is_gone(const chat_mark_t *mark)
{
    return mark->opening != NULL && mark->opening->verdict == CHAT_REPLAY_DROP;
}


static void
replace(chat_cut_t *cut, chat_span_t span, const char *text)
{
    (void) chat_edits_add(cut->edits, span.start, span.end - span.start,
                          chat_cstr(text));
}


/* Closes up the index of what stays. */
static void
renumber(chat_cut_t *cut, const chat_mark_t *mark)
{
    char     text[16];
    uint32_t below;

    if (mark->digits.end == 0) {
        return;
    }

    below =
        chat_calls_below(cut->calls, mark->place - mark->index, mark->place);

    if (below != 0 && below <= mark->index) {
        (void) snprintf(text, sizeof(text), "%u",
                        (unsigned) (mark->index - below));
        replace(cut, mark->digits, text);
    }
}


static int
is_space(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}


/* Where the white space that ends at this byte begins. */
static uint32_t
skip_back(chat_str_t data, uint32_t at)
{
    while (at > 0 && is_space(data.data[at - 1])) {
        at--;
    }

    return at;
}


static uint32_t
skip_on(chat_str_t data, uint32_t at)
{
    while (at < data.len && is_space(data.data[at])) {
        at++;
    }

    return at;
}


/*
 * Cuts the element behind those that were cut before. With it goes the comma
 * before it, or, where nothing of its list stays before it, the one behind it.
 */
static void
cut_element(chat_cut_t *cut, chat_span_t span)
{
    chat_str_t data = cut->data;
    uint32_t   before = skip_back(data, span.start);
    uint32_t   behind = skip_on(data, span.end);

    if (before > 0 && data.data[before - 1] == ',') {
        before = skip_back(data, before - 1);
        cut->front = cut->front && before == cut->end;
    } else {
        cut->front = 1;
    }

    cut->end = span.end;

    if (!cut->front) {
        span.start = before;
    } else if (behind < data.len && data.data[behind] == ',') {
        span.end = skip_on(data, behind + 1);
    }

    replace(cut, span, "");
}


/* What becomes of the elements of one list. */
static void
cut_list(chat_cut_t *cut, const chat_mark_t *mark, const chat_mark_t *end)
{
    size_t             gone = 0;
    const chat_mark_t *each;
    const char        *filler = cut->events->filler;

    for (each = mark; each < end; each++) {
        gone += is_gone(each);
    }

    if (mark->list.end != 0 && mark + gone == end) {
        if (filler != NULL) {
            replace(cut, mark->list, filler);
        } else {
            cut_element(cut, mark->list);
        }
        return;
    }

    for (each = mark; each < end; each++) {
        if (each->instead != NULL) {
            if (chat_calls_all_dropped(cut->calls)) {
                replace(cut, each->at, each->instead);
            }

        } else if (!is_gone(each)) {
            renumber(cut, each);

        } else if (each->at.end != 0) {
            cut_element(cut, each->at);
        }
    }
}


/* 1 if all that the frame says is of dropped calls. */
static int
is_empty(const chat_events_t *events)
{
    size_t i;

    for (i = 0; i < events->nmarks; i++) {
        if (!is_gone(&events->marks[i])) {
            return 0;
        }
    }

    return !events->keeps;
}


chat_cut_e
chat_cut(const chat_events_t *events, const chat_calls_t *calls,
         chat_str_t data, chat_edits_t *edits)
{
    chat_cut_t         cut = { events, calls, data, edits, 0, 0 };
    const chat_mark_t *end, *last, *mark = events->marks;

    if (events->nmarks == 0) {
        return CHAT_CUT_KEEP; /* there is no list */
    }

    last = mark + events->nmarks;

    if (is_empty(events)) {
        return CHAT_CUT_DROP;
    }

    for (/* void */; mark < last; mark = end) {
        end = mark + 1;

        while (mark->list.end != 0 && end < last
               && end->list.start == mark->list.start)
        {
            end++;
        }

        cut_list(&cut, mark, end);
    }

    return edits->count != 0 || edits->failed ? CHAT_CUT_CHANGED
                                              : CHAT_CUT_KEEP;
}
