/*
 * chat_conversation.c: see chat_conversation.h.
 *
 * The value of stream/ and hold/ is "<worker> <dialect> <name>": the name of
 * the recording's key in hex digits, of which the id is the beginning. The
 * value of batch/ is the dialect and the batch's other name, if it has one.
 */

#include "facts/chat_conversation.h"
#include "bytes/chat_table.h"

#include <stdlib.h>

#define CHAT_LISTED_NAME (2 * CHAT_DIGEST_SIZE) /* digits */

/* The kinds of entries with a time. */
#define CHAT_LISTED_BATCH (CHAT_LISTED_HOLD + 1)
#define CHAT_LISTED_KINDS (CHAT_LISTED_BATCH + 1)

static const char *const chat_listed_kinds[CHAT_LISTED_KINDS] = {
    [CHAT_LISTED_STREAM] = "stream",
    [CHAT_LISTED_HOLD] = "hold",
    [CHAT_LISTED_BATCH] = "batch",
};

/* The fact <kind>/<ms>-<id>. */
typedef struct {
    const chat_fact_t *fact;
    unsigned           kind;
    uint64_t           ms;
    chat_str_t         id; /* of a batch its name */
} chat_dated_t;


chat_rc_e
chat_conversation_index_key(const chat_scope_t *scope, chat_key_t *key)
{
    if (scope->anonymous || scope->conversation.len == 0) {
        return CHAT_DECLINED;
    }

    key->tenant = chat_scope_tenant(scope);
    chat_digest_of(&key->name, chat_cstr("record"),
                   chat_digest_str(&scope->tenant), scope->conversation);
    chat_scope_tag(scope, &key->tag);
    return CHAT_OK;
}


void
chat_listed_id(const chat_key_t *key, char *id)
{
    chat_hex(key->name.bytes, CHAT_LISTED_ID / 2, id);
}


int
chat_listed_is_id(chat_str_t id)
{
    unsigned char bytes[CHAT_LISTED_ID / 2];

    return chat_hex_read(id, bytes, sizeof(bytes));
}


void
chat_facts_listed(chat_facts_t *facts, chat_listed_kind_e kind,
                  const chat_listed_t *listed)
{
    char name[CHAT_LISTED_NAME + 1];

    chat_hex(listed->name.bytes, CHAT_DIGEST_SIZE, name);
    chat_facts_put(facts, "%s/%d-%v", "%v %v %s", chat_listed_kinds[kind],
                   listed->ms, chat_str(name, CHAT_LISTED_ID), listed->worker,
                   listed->dialect, name);
}


void
chat_facts_batch(chat_facts_t *facts, uint64_t ms,
                 const chat_indexed_batch_t *recorded)
{
    const unsigned char *name = recorded->names[0].bytes;
    const unsigned char *other = recorded->names[1].bytes;

    chat_facts_put(facts, "batch/%d-%x%x",
                   recorded->nnames > 1 ? "%v %x%x" : "%v", ms, name,
                   name + 16, recorded->dialect, other, other + 16);
}


/* 1 if the fact is an entry with a time. */
static int
chat_dated_read(const chat_fact_t *fact, chat_dated_t *out)
{
    chat_str_t id = fact->field, kind = chat_str_cut(&id, '/');

    out->fact = fact;

    for (out->kind = 0; out->kind < CHAT_LISTED_KINDS; out->kind++) {
        if (chat_str_is(kind, chat_listed_kinds[out->kind])) {
            break;
        }
    }

    if (out->kind == CHAT_LISTED_KINDS
        || !chat_str_number(chat_str_cut(&id, '-'), &out->ms) || out->ms == 0)
    {
        return 0;
    }

    out->id = id;
    return id.len != 0;
}


/* The newest first; of one time the one with the greater id. */
static int
chat_dated_compare(const void *one, const void *two)
{
    const chat_dated_t *a = one, *b = two;

    return a->ms != b->ms ? (a->ms > b->ms ? -1 : 1)
                          : chat_str_compare(b->id, a->id);
}


/* 1 and *out if the entry, a stream or a hold, can be read. */
static int
chat_listed_read(const chat_dated_t *entry, chat_listed_t *out)
{
    char       id[CHAT_LISTED_ID + 1];
    chat_str_t value = entry->fact->value;

    memset(out, 0, sizeof(*out));
    out->id = entry->id;
    out->ms = entry->ms;
    out->worker = chat_str_cut(&value, ' ');
    out->dialect = chat_str_cut(&value, ' ');

    if (!chat_hex_read(value, out->name.bytes, CHAT_DIGEST_SIZE)) {
        return 0;
    }

    chat_hex(out->name.bytes, CHAT_LISTED_ID / 2, id);
    return chat_str_is(out->id, id);
}


/* Reads how the stream ended, and whether a client has stopped it. */
static void
chat_listed_state(const chat_fact_t *facts, size_t n, chat_listed_t *out)
{
    size_t     i;
    chat_str_t id, fact;

    for (i = 0; i < n; i++) {
        id = facts[i].field;
        fact = chat_str_cut(&id, '/');

        if (!chat_str_eq(id, out->id)) {
            continue;
        }

        out->stopped |= chat_str_is(fact, "stop");

        if (chat_str_is(fact, "over")) {
            out->empty =
                chat_str_is(facts[i].value, chat_end_names[CHAT_END_NONE]);
            out->end =
                out->empty ? CHAT_END_ABORTED : chat_end_find(facts[i].value);
        }
    }
}


/*
 * The newest entry of the kind, and with this id unless that is empty, that
 * is older than *bound (NULL: any), which it replaces. 0: there is none.
 */
static int
chat_dated_next(const chat_fact_t *facts, size_t n, unsigned kind,
                chat_str_t id, chat_dated_t *bound)
{
    size_t       i;
    chat_dated_t entry, newest = { 0 };

    for (i = 0; i < n; i++) {
        if (chat_dated_read(&facts[i], &entry) && entry.kind == kind
            && (id.len == 0 || chat_str_eq(id, entry.id))
            && (bound->fact == NULL || chat_dated_compare(bound, &entry) < 0)
            && (newest.fact == NULL
                || chat_dated_compare(&entry, &newest) < 0))
        {
            newest = entry;
        }
    }

    *bound = newest;
    return newest.fact != NULL;
}


chat_rc_e
chat_listed_running(const chat_fact_t *facts, size_t n,
                    chat_listed_kind_e kind, chat_str_t                id,
                    int (*alive)(void *data, chat_str_t worker), void *data,
                    chat_listed_t *out)
{
    size_t       i;
    chat_dated_t bound = { 0 };

    for (i = 0;
         i < CHAT_LISTED_LOOK && chat_dated_next(facts, n, kind, id, &bound);
         i++)
    {
        if (!chat_listed_read(&bound, out)) {
            continue;
        }

        chat_listed_state(facts, n, out);

        if (alive == NULL ? id.len != 0 || !out->empty
                          : out->end == CHAT_END_NONE && !out->stopped
                                && alive(data, out->worker))
        {
            return CHAT_OK;
        }
    }

    return CHAT_DECLINED;
}


chat_rc_e
chat_batch_newest(const chat_fact_t *facts, size_t n,
                  chat_indexed_batch_t *newest)
{
    size_t       i = 0;
    chat_str_t   value, any = { NULL, 0 };
    chat_dated_t best = { 0 };

    do {
        if (i++ == CHAT_LISTED_LOOK
            || !chat_dated_next(facts, n, CHAT_LISTED_BATCH, any, &best))
        {
            return CHAT_DECLINED;
        }
    } while (
        !chat_hex_read(best.id, newest->names[0].bytes, CHAT_DIGEST_SIZE));

    value = best.fact->value;
    newest->ms = best.ms;
    newest->nnames = 1;
    newest->dialect = chat_str_cut(&value, ' ');

    while (newest->nnames < CHAT_NAMES_MAX
           && chat_hex_read(chat_str_cut(&value, ' '),
                            newest->names[newest->nnames].bytes,
                            CHAT_DIGEST_SIZE))
    {
        newest->nnames++;
    }

    return CHAT_OK;
}


/*
 * Reads all entries with a time, the newest first, and the ids of those that
 * have ended. CHAT_ERROR: no memory.
 */
static chat_rc_e
chat_dated_sort(const chat_fact_t *facts, size_t n, chat_dated_t *entries,
                size_t *count, chat_table_t *ended)
{
    size_t     i;
    chat_str_t id;

    *count = 0;

    for (i = 0; i < n; i++) {
        *count += chat_dated_read(&facts[i], &entries[*count]) != 0;

        if (chat_str_after(facts[i].field, "over/", &id)
            && chat_table_put(ended, id) == NULL)
        {
            return CHAT_ERROR;
        }
    }

    qsort(entries, *count, sizeof(*entries), chat_dated_compare);
    return CHAT_OK;
}


size_t
chat_listed_surplus(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
                    chat_str_t **fields)
{
    size_t              i, entries, count = 0, seen[CHAT_LISTED_KINDS] = { 0 };
    chat_str_t          id;
    chat_table_t        ended;
    chat_dated_t       *dated;
    chat_table_entry_t *end;

    /* of those that have ended, as a batch has */
    static const size_t kept[CHAT_LISTED_KINDS] = {
        [CHAT_LISTED_STREAM] = CHAT_LISTED_KEPT,
        [CHAT_LISTED_HOLD] = 0,
        [CHAT_LISTED_BATCH] = CHAT_LISTED_KEPT,
    };

    chat_table_init(&ended, arena);
    dated = chat_arena_alloc(arena, n * sizeof(*dated));
    *fields = chat_arena_alloc(arena, n * sizeof(**fields));

    if (n <= CHAT_LISTED_MOST || dated == NULL || *fields == NULL
        || chat_dated_sort(facts, n, dated, &entries, &ended) != CHAT_OK)
    {
        return 0;
    }

    for (i = 0; i < entries; i++) {
        end = chat_table_find(&ended, dated[i].id);

        if ((end == NULL && dated[i].kind != CHAT_LISTED_BATCH)
            || seen[dated[i].kind]++ < kept[dated[i].kind])
        {
            continue;
        }

        (*fields)[count++] = dated[i].fact->field;

        if (end != NULL) {
            end->number = 1; /* it goes */
        }
    }

    for (i = 0; i < n; i++) {
        end = chat_str_after(facts[i].field, "over/", &id)
                      || chat_str_after(facts[i].field, "stop/", &id)
                  ? chat_table_find(&ended, id)
                  : NULL;
        if (end != NULL && end->number != 0) {
            (*fields)[count++] = facts[i].field;
        }
    }

    return count;
}


chat_rc_e
chat_position_read(chat_str_t text, chat_position_t *out)
{
    chat_str_t number = text, stream = chat_str_cut(&number, '-');

    memset(out, 0, sizeof(*out));

    if (stream.len < text.len && chat_listed_is_id(stream)) {
        out->stream = stream;
    } else {
        number = text;
    }

    out->given = chat_str_number(number, &out->after);
    return out->given ? CHAT_OK : CHAT_BAD;
}
