/*
 * chat_filter_table.c: what the replay filter remembers of a stream.
 *
 * Ids are in a chat_table_t, openings in a chained table by slot; both are in
 * the arena of the stream, and nothing is ever taken out.
 * Promises: past CHAT_OPENINGS_MAX nothing is allocated any more.
 * Must not know: when a call is dropped.
 */

#include "stream/chat_filter_table.h"
#include "facts/chat_batch.h"


chat_seen_t *
chat_filter_table_find(const chat_filter_table_t *table, chat_str_t id)
{
    chat_table_entry_t *entry;

    if (id.len == 0 || id.len > CHAT_ID_MAX) {
        return NULL;
    }

    entry = chat_table_find(&table->ids, id);

    return entry ? entry->item : NULL;
}


/* A new entry; the id is not copied. NULL without memory. */
static chat_seen_t *
chat_filter_table_insert(chat_filter_table_t *table, chat_str_t id)
{
    chat_seen_t        *seen;
    chat_table_entry_t *entry;

    seen = chat_arena_alloc(table->arena, sizeof(*seen));
    entry = seen ? chat_table_put(&table->ids, id) : NULL;
    if (entry == NULL) {
        return NULL;
    }

    entry->item = seen;
    seen->id = id;
    seen->next = table->seen;
    table->seen = seen;
    return seen;
}


chat_seen_t *
chat_filter_table_seen(chat_filter_table_t *table, chat_str_t id)
{
    chat_str_t   copy;
    chat_seen_t *seen = chat_filter_table_find(table, id);

    if (seen != NULL || id.len == 0 || id.len > CHAT_ID_MAX
        || chat_filter_table_full(table)
        || chat_arena_dup(table->arena, id, &copy) != CHAT_OK)
    {
        return seen;
    }

    return chat_filter_table_insert(table, copy);
}


chat_rc_e
chat_filter_table_init(chat_filter_table_t *table, chat_arena_t *arena,
                       const chat_call_t *known, size_t n)
{
    size_t       i;
    chat_seen_t *seen;

    table->arena = arena;
    chat_table_init(&table->ids, arena);

    for (i = n > CHAT_KNOWN_MAX ? n - CHAT_KNOWN_MAX : 0; i < n; i++) {
        if (known[i].id.len == 0 || known[i].id.len > CHAT_ID_MAX) {
            continue;
        }

        seen = chat_filter_table_find(table, known[i].id);
        if (seen == NULL) {
            seen = chat_filter_table_insert(table, known[i].id);
        }
        if (seen == NULL) {
            return CHAT_ERROR;
        }

        seen->name = known[i].name;
        seen->fingerprint = known[i].fingerprint;
        seen->has_fingerprint = 1;
        seen->ready = known[i].ready;
        seen->outcome = known[i].outcome;
        seen->digest = known[i].digest;
        seen->approval = known[i].approval;
        seen->step = known[i].step == known[n - 1].step ? 0 : CHAT_SEEN_BEFORE;
    }

    return CHAT_OK;
}


void
chat_filter_table_forget(chat_filter_table_t *table)
{
    chat_seen_t    *seen;
    chat_opening_t *opening;

    /* the upstream may say so again and again */
    if (table->fresh) {
        return;
    }

    table->fresh = 1;

    for (opening = table->first; opening; opening = opening->later) {
        if (opening->seen != NULL && opening->seen->step == table->step) {
            opening->ready = 1;
        }
    }

    for (seen = table->seen; seen != NULL; seen = seen->next) {
        if (seen->step == table->step) {
            seen->opening = NULL;
            seen->ready = 0;
            seen->dropped = 0;
            seen->outcome = CHAT_OUTCOME_NONE;
            seen->in_stream = CHAT_OUTCOME_NONE;
            seen->approval = CHAT_APPROVAL_NONE;
        }
    }
}


static size_t
chat_filter_table_bucket(uint32_t slot)
{
    return chat_table_number(slot) % CHAT_SLOT_BUCKETS;
}


/* The next older opening of the same slot, from this one on; or NULL. */
static chat_opening_t *
chat_filter_table_same(chat_opening_t *opening, uint32_t slot)
{
    while (opening != NULL && opening->slot != slot) {
        opening = opening->older;
    }

    return opening;
}


chat_opening_t *
chat_filter_table_opening(const chat_filter_table_t *table, uint32_t slot)
{
    return chat_filter_table_same(table->slots[chat_filter_table_bucket(slot)],
                                  slot);
}


const chat_opening_t *
chat_filter_table_generation(const chat_filter_table_t *table, uint32_t slot,
                             uint32_t generation)
{
    chat_opening_t *older, *opening;

    opening = chat_filter_table_opening(table, slot);

    while (opening != NULL && opening->generation > generation) {
        older = chat_filter_table_same(opening->older, slot);
        if (older == NULL || older->generation < generation) {
            break;
        }
        opening = older;
    }

    return opening;
}


/* The slot's last record, made to look like a new one. */
static chat_opening_t *
chat_filter_table_reuse(chat_opening_t *opening)
{
    if (opening == NULL) {
        return NULL;
    }

    if (opening->seen != NULL && opening->seen->opening == opening) {
        opening->seen->opening = NULL;
    }

    opening->seen = NULL;
    opening->name = chat_str(NULL, 0);
    opening->ready = 0;
    opening->generation++;
    return opening;
}


chat_opening_t *
chat_filter_table_record(chat_filter_table_t *table, uint32_t slot)
{
    chat_opening_t *opening, *last, **bucket;

    last = chat_filter_table_opening(table, slot);
    if (chat_filter_table_full(table)) {
        return chat_filter_table_reuse(last);
    }

    opening = chat_arena_alloc(table->arena, sizeof(*opening));
    if (opening == NULL) {
        return chat_filter_table_reuse(last);
    }

    bucket = &table->slots[chat_filter_table_bucket(slot)];
    opening->slot = slot;
    opening->generation = last ? last->generation + 1 : 0;
    opening->older = *bucket;
    *bucket = opening;

    if (table->last != NULL) {
        table->last->later = opening;
    } else {
        table->first = opening;
    }
    table->last = opening;

    table->nopenings++;
    return opening;
}
