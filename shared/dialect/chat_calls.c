/*
 * chat_calls.c: the calls of one stream, in one table.
 *
 * Two keyed hash tables find a call; everything is in the stream's arena but
 * the pieces of arguments, which are freed as soon as a call is ready.
 */

#include "dialect/chat_calls.h"


void
chat_calls_init(chat_calls_t *calls, chat_arena_t *arena, size_t size)
{
    memset(calls, 0, sizeof(*calls));
    calls->arena = arena;
    calls->size = size;
    chat_table_init(&calls->ids, arena);
    chat_table_init(&calls->places, arena);
}


void
chat_calls_free(chat_calls_t *calls)
{
    chat_stream_call_t *call;

    for (call = calls->calls; call != NULL; call = call->next) {
        chat_buf_free(&call->args);
    }
}


/* Zeroed bytes that live as the stream; NULL without memory (failed). */
static void *
take(chat_calls_t *calls, size_t size)
{
    void *bytes = chat_arena_alloc(calls->arena, size);

    calls->failed |= bytes == NULL;

    return bytes;
}


/* Makes *to a copy of s, unless it is one; 0 without memory (failed). */
static int
keep(chat_calls_t *calls, chat_str_t s, chat_str_t *to)
{
    if (!chat_str_eq(*to, s) && chat_arena_dup(calls->arena, s, to) != CHAT_OK)
    {
        calls->failed = 1;
    }

    return !calls->failed;
}


static chat_known_t *
find_known(const chat_calls_t *calls, chat_str_t id)
{
    return id.len != 0 && id.len <= CHAT_ID_MAX
               ? chat_table_item(&calls->ids, id)
               : NULL;
}


/* The entry of this id, or a new one; the id is not copied. */
static chat_known_t *
add_known(chat_calls_t *calls, chat_str_t id)
{
    chat_known_t       *known;
    chat_table_entry_t *entry = chat_table_put(&calls->ids, id);

    if (entry != NULL && entry->item != NULL) {
        return entry->item;
    }

    known = entry ? take(calls, sizeof(*known)) : NULL;
    if (known == NULL) {
        calls->failed = 1;
        return NULL;
    }

    entry->item = known;
    known->id = id;
    known->next = calls->known;
    calls->known = known;

    return known;
}


/* Adds the calls of chat_calls_know(). */
static void
index_brought(chat_calls_t *calls)
{
    size_t             i, n = calls->nbrought;
    chat_known_t      *known;
    const chat_call_t *list = calls->brought;

    calls->nbrought = 0;

    for (i = n > CHAT_CALLS_MAX ? n - CHAT_CALLS_MAX : 0; i < n; i++) {
        if (list[i].id.len == 0 || list[i].id.len > CHAT_ID_MAX) {
            continue;
        }

        known = add_known(calls, list[i].id);
        if (known == NULL) {
            return;
        }

        known->brought = &list[i];
        known->has_fingerprint = 1;
        known->ready = list[i].ready;
        known->outcome = list[i].outcome;
        known->approval = list[i].approval;
        known->step = list[i].step == list[n - 1].step ? 0 : CHAT_STEP_BEFORE;
    }
}


void
chat_calls_know(chat_calls_t *calls, const chat_call_t *list, size_t n)
{
    calls->brought = list;
    calls->nbrought = n;
}


chat_known_t *
chat_calls_all_known(chat_calls_t *calls)
{
    if (calls->nbrought != 0) {
        index_brought(calls);
    }

    return calls->known;
}


chat_known_t *
chat_calls_known(chat_calls_t *calls, chat_str_t id)
{
    (void) chat_calls_all_known(calls);

    return find_known(calls, id);
}


chat_known_t *
chat_calls_learn(chat_calls_t *calls, chat_str_t id)
{
    chat_str_t    copy = { NULL, 0 };
    chat_known_t *known = chat_calls_known(calls, id);

    if (known != NULL || id.len == 0 || id.len > CHAT_ID_MAX) {
        return known;
    }

    return keep(calls, id, &copy) ? add_known(calls, copy) : NULL;
}


void *
chat_calls_find(const chat_calls_t *calls, chat_str_t id)
{
    const chat_known_t *known = find_known(calls, id);

    return known ? known->call : NULL;
}


void *
chat_calls_at(const chat_calls_t *calls, uint32_t place)
{
    return chat_table_item(&calls->places, chat_str(&place, sizeof(place)));
}


static chat_stream_call_t *
add_call(chat_calls_t *calls, uint32_t place)
{
    chat_stream_call_t *call = take(calls, calls->size);

    if (call != NULL) {
        call->place = place;
        call->next = calls->calls;
        calls->calls = call;
        calls->count++;
    }

    return call;
}


/*
 * Counts an opening of the call; NULL: of a new one. A running call that is
 * opened again under its name does not count. 0: past the bound.
 */
static int
count_opening(chat_calls_t *calls, const chat_stream_call_t *call,
              chat_str_t id, chat_str_t name)
{
    int again = call != NULL && !call->ready && chat_str_eq(call->id, id)
                && chat_str_eq(call->name, name);

    if (!again && calls->opened == CHAT_OPENED_MAX) {
        return 0;
    }

    calls->opened += !again;
    return 1;
}


void *
chat_calls_open(chat_calls_t *calls, chat_str_t id, chat_str_t name)
{
    chat_known_t       *known;
    chat_stream_call_t *call = chat_calls_find(calls, id);

    if (id.len == 0 || id.len > CHAT_ID_MAX || name.len > CHAT_ID_MAX
        || !count_opening(calls, call, id, name))
    {
        return NULL;
    }

    if (call == NULL) {
        known = chat_calls_learn(calls, id);
        call = known ? add_call(calls, calls->count) : NULL;
        if (call == NULL) {
            return NULL;
        }

        known->call = call;
        call->known = known;
        call->id = known->id;
    }

    call->ready = 0;

    return keep(calls, name, &call->name) ? call : NULL;
}


void *
chat_calls_open_at(chat_calls_t *calls, uint32_t place, chat_str_t id,
                   chat_str_t name)
{
    chat_table_entry_t *entry;
    chat_stream_call_t *call = chat_calls_at(calls, place);

    if (!count_opening(calls, call, id, name)) {
        return NULL;
    }

    if (call == NULL) {
        call = add_call(calls, place);
        if (call == NULL) {
            return NULL;
        }

        entry = chat_table_put(&calls->places,
                               chat_str(&call->place, sizeof(place)));
        if (entry == NULL) {
            calls->failed = 1;
            return NULL;
        }
        entry->item = call;
    }

    call->ready = 0;

    return keep(calls, id, &call->id) && keep(calls, name, &call->name) ? call
                                                                        : NULL;
}


chat_opening_t *
chat_calls_opening(chat_calls_t *calls, chat_stream_call_t *call)
{
    chat_opening_t *opening = take(calls, sizeof(*opening));

    if (opening == NULL) {
        return NULL;
    }

    if (calls->last != NULL) {
        calls->last->later = opening;
    } else {
        calls->first = opening;
    }

    calls->last = opening;
    call->opening = opening;

    return opening;
}


static void
args_drop(chat_calls_t *calls, chat_stream_call_t *call)
{
    calls->args -= call->args.len;
    chat_buf_free(&call->args);
}


void
chat_calls_args_free(chat_calls_t *calls, chat_stream_call_t *call)
{
    args_drop(calls, call);
    call->gathers = 0;
    call->lost = 0;
}


void
chat_calls_args_add(chat_calls_t *calls, chat_stream_call_t *call,
                    chat_str_t text)
{
    if (!call->gathers || call->lost) {
        return;
    }

    if (text.len <= calls->max_args - calls->args) {
        chat_buf_add(&call->args, text);
        if (!call->args.failed) {
            calls->args += text.len;
            return;
        }
    }

    /* It has no fingerprint any more: it takes no room from the others. */
    args_drop(calls, call);
    call->lost = 1;
}


/* The number of dropped places below this one. */
static size_t
rank_of(const chat_calls_t *calls, uint32_t place)
{
    size_t low = 0, middle, high = calls->ndropped;

    while (low < high) {
        middle = low + (high - low) / 2;
        if (calls->dropped[middle] < place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }

    return low;
}


uint32_t
chat_calls_below(const chat_calls_t *calls, uint32_t base, uint32_t place)
{
    return (uint32_t) (rank_of(calls, place) - rank_of(calls, base));
}


void
chat_calls_left(chat_calls_t *calls, const chat_stream_call_t *call,
                int dropped)
{
    size_t    rank = rank_of(calls, call->place);
    uint32_t *at;
    int listed = rank < calls->ndropped && calls->dropped[rank] == call->place;

    calls->nleft++;
    calls->nfewer += dropped != 0;

    if (dropped && !listed) {
        if (chat_arena_push(calls->arena, &calls->dropped, &calls->ndropped,
                            &calls->dropped_size, sizeof(*at))
            == NULL)
        {
            calls->failed = 1;
            return;
        }

        at = &calls->dropped[rank];
        memmove(at + 1, at, (calls->ndropped - 1 - rank) * sizeof(*at));
        *at = call->place;

    } else if (!dropped && listed) {
        at = &calls->dropped[rank];
        memmove(at, at + 1, (--calls->ndropped - rank) * sizeof(*at));
    }
}
