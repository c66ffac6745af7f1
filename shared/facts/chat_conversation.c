/*
 * chat_conversation.c: see chat_conversation.h.
 *
 * The value of stream/ and hold/ is "<worker> <dialect> <name>": the name of
 * the recording's key in hex digits, of which the id is the beginning. The
 * value of batch/ is the dialect and the batch's other name, if it has one.
 */

#include "facts/chat_conversation.h"
#include "bytes/chat_table.h"

#include <stdio.h>
#include <stdlib.h>

void
chat_listed_id(const chat_key_t *key, char *id)
{
    chat_digest_hex(&key->name, CHAT_LISTED_ID / 2, id);
}


int
chat_listed_is_id(chat_str_t id)
{
    unsigned char bytes[CHAT_LISTED_ID / 2];

    return chat_hex_read(id, bytes, sizeof(bytes));
}


static const char chat_listed_stream[] = "stream/";
static const char chat_listed_hold[] = "hold/";


static void
chat_listed_put(chat_facts_t *facts, const char *prefix,
                const chat_listed_t *listed)
{
    char       name[2 * CHAT_DIGEST_SIZE + 1];
    char       field[CHAT_LISTED_ID + 32];
    chat_buf_t value = { 0 };

    chat_digest_hex(&listed->name, CHAT_DIGEST_SIZE, name);
    (void) snprintf(field, sizeof(field), "%s%llu-%.*s", prefix,
                    (unsigned long long) listed->ms, CHAT_LISTED_ID, name);

    chat_buf_add(&value, listed->worker);
    chat_buf_puts(&value, " ");
    chat_buf_add(&value, listed->dialect);
    chat_buf_puts(&value, " ");
    chat_buf_puts(&value, name);

    chat_facts_buf(facts, field, &value);
}


void
chat_facts_listed(chat_facts_t *facts, const chat_listed_t *listed)
{
    chat_listed_put(facts, chat_listed_stream, listed);
}


void
chat_facts_held(chat_facts_t *facts, const chat_listed_t *listed)
{
    chat_listed_put(facts, chat_listed_hold, listed);
}


static void
chat_listed_fact(chat_facts_t *facts, const char *what, chat_str_t id,
                 const char *value)
{
    char field[CHAT_LISTED_ID + 8];

    (void) snprintf(field, sizeof(field), "%s%.*s", what, CHAT_LISTED_ID,
                    (const char *) id.data);
    chat_facts_add(facts, field, chat_cstr(value));
}


void
chat_facts_over(chat_facts_t *facts, chat_str_t id, chat_end_e end)
{
    chat_listed_fact(facts, "over/", id, chat_end_name(end));
}


void
chat_facts_stop(chat_facts_t *facts, chat_str_t id)
{
    chat_listed_fact(facts, "stop/", id, "1");
}


/* 1 and *out if the fact is one of a stream or, by its prefix, of a hold. */
static int
chat_listed_read(const chat_fact_t *fact, const char *prefix,
                 chat_listed_t *out)
{
    char       hex[2 * CHAT_DIGEST_SIZE + 1];
    chat_str_t value = fact->value;

    memset(out, 0, sizeof(*out));
    out->worker = chat_str_cut(&value, ' ');
    out->dialect = chat_str_cut(&value, ' ');

    if (!chat_str_after(fact->field, prefix, &out->id)
        || !chat_str_number(chat_str_cut(&out->id, '-'), &out->ms)
        || !chat_hex_read(value, out->name.bytes, CHAT_DIGEST_SIZE))
    {
        return 0;
    }

    chat_digest_hex(&out->name, CHAT_LISTED_ID / 2, hex);
    return chat_str_is(out->id, hex);
}


/* 1 if a comes before b: by time, of one time by id. */
static int
chat_listed_before(const chat_listed_t *a, const chat_listed_t *b)
{
    return a->ms != b->ms ? a->ms < b->ms
                          : memcmp(a->id.data, b->id.data, CHAT_LISTED_ID) < 0;
}


/* What else is said of the stream. */
static void
chat_listed_state(const chat_fact_t *facts, size_t n, chat_listed_t *out)
{
    size_t     i;
    chat_str_t id;

    for (i = 0; i < n; i++) {
        if (chat_str_after(facts[i].field, "over/", &id)
            && chat_str_eq(id, out->id)) {
            out->empty =
                chat_str_is(facts[i].value, chat_end_name(CHAT_END_NONE));
            out->end =
                out->empty ? CHAT_END_ABORTED : chat_end_find(facts[i].value);

        } else if (chat_str_after(facts[i].field, "stop/", &id)
                   && chat_str_eq(id, out->id))
        {
            out->stopped = 1;
        }
    }
}


/* alive NULL: one that has ended is as good. */
static chat_rc_e
chat_listed_search(const chat_fact_t *facts, size_t n, const char *prefix,
                   chat_str_t id, int (*alive)(void *data, chat_str_t worker),
                   void *data, chat_listed_t *out)
{
    size_t        i, k, count = 0;
    chat_listed_t one, newest[CHAT_LISTED_LOOK];

    for (i = 0; i < n; i++) {
        if (!chat_listed_read(&facts[i], prefix, &one)
            || (id.len != 0 && !chat_str_eq(id, one.id)))
        {
            continue;
        }

        k = count < CHAT_LISTED_LOOK ? count++ : CHAT_LISTED_LOOK;

        for (; k > 0 && chat_listed_before(&newest[k - 1], &one); k--) {
            if (k < CHAT_LISTED_LOOK) {
                newest[k] = newest[k - 1];
            }
        }

        if (k < CHAT_LISTED_LOOK) {
            newest[k] = one;
        }
    }

    for (i = 0; i < count; i++) {
        *out = newest[i];
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
chat_listed_find(const chat_fact_t *facts, size_t n, chat_str_t id,
                 chat_listed_t *out)
{
    return chat_listed_search(facts, n, chat_listed_stream, id, NULL, NULL,
                              out);
}


chat_rc_e
chat_listed_running(const chat_fact_t *facts, size_t n, chat_str_t id,
                    int (*alive)(void *data, chat_str_t worker), void *data,
                    chat_listed_t *out)
{
    return chat_listed_search(facts, n, chat_listed_stream, id, alive, data,
                              out);
}


chat_rc_e
chat_listed_held(const chat_fact_t *facts, size_t                   n,
                 int (*alive)(void *data, chat_str_t worker), void *data,
                 chat_listed_t *out)
{
    return chat_listed_search(facts, n, chat_listed_hold, chat_str(NULL, 0),
                              alive, data, out);
}


/* A fact with a time, of a stream or a batch. */
typedef struct {
    const chat_fact_t *fact;
    uint64_t           ms;
    chat_str_t         id;   /* of a stream or a hold; empty: it is a batch */
    int                held; /* it is a hold */
} chat_dated_t;


/* By time, the newest first. */
static int
chat_dated_compare(const void *one, const void *two)
{
    const chat_dated_t *a = one, *b = two;

    return a->ms != b->ms ? (a->ms > b->ms ? -1 : 1)
                          : chat_str_compare(b->fact->field, a->fact->field);
}


/* 1 if the fact is stream/, hold/ or batch/<ms>-<id>. */
static int
chat_dated_read(const chat_fact_t *fact, chat_dated_t *out)
{
    int        is_batch;
    chat_str_t id = fact->field, kind = chat_str_cut(&id, '/');

    memset(out, 0, sizeof(*out));
    out->fact = fact;
    out->held = chat_str_is(kind, "hold");
    is_batch = chat_str_is(kind, "batch");

    if (!chat_str_number(chat_str_cut(&id, '-'), &out->ms)) {
        return 0;
    }

    if (!is_batch) {
        out->id = id;
    }

    return is_batch
           || (id.len != 0 && (out->held || chat_str_is(kind, "stream")));
}


/* What becomes of a stream or a hold, by its id. */
#define CHAT_LISTED_OVER 1
#define CHAT_LISTED_DROP 2


/* The entry of the stream that over/<id> or stop/<id> is about, or NULL. */
static chat_table_entry_t *
chat_listed_about(const chat_table_t *streams, const chat_fact_t *fact)
{
    chat_str_t id;

    return chat_str_after(fact->field, "over/", &id)
                   || chat_str_after(fact->field, "stop/", &id)
               ? chat_table_find(streams, id)
               : NULL;
}


size_t
chat_listed_surplus(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
                    chat_str_t **fields)
{
    size_t              i, k = 0, count = 0, batches = 0, over = 0;
    chat_str_t          id;
    chat_table_t        streams;
    chat_dated_t       *dated;
    chat_table_entry_t *entry;

    if (n <= CHAT_LISTED_MOST) {
        return 0;
    }

    chat_table_init(&streams, arena);
    dated = chat_arena_alloc(arena, n * sizeof(*dated));
    *fields = chat_arena_alloc(arena, n * sizeof(**fields));

    if (dated == NULL || *fields == NULL) {
        return 0;
    }

    for (i = 0; i < n; i++) {
        k += chat_dated_read(&facts[i], &dated[k]) != 0;

        if (chat_str_after(facts[i].field, "over/", &id)) {
            entry = chat_table_put(&streams, id);
            if (entry == NULL) {
                return 0;
            }
            entry->number = CHAT_LISTED_OVER;
        }
    }

    qsort(dated, k, sizeof(*dated), chat_dated_compare);

    /* the newest come first */
    for (i = 0; i < k; i++) {
        entry = chat_table_find(&streams, dated[i].id);

        if (dated[i].id.len == 0) {
            if (batches++ < CHAT_LISTED_KEPT) {
                continue;
            }

        } else if (entry != NULL
                   && (dated[i].held || over++ >= CHAT_LISTED_KEPT)) {
            entry->number = CHAT_LISTED_DROP;

        } else {
            continue;
        }

        (*fields)[count++] = dated[i].fact->field;
    }

    for (i = 0; i < n; i++) {
        entry = chat_listed_about(&streams, &facts[i]);
        if (entry != NULL && entry->number == CHAT_LISTED_DROP) {
            (*fields)[count++] = facts[i].field;
        }
    }

    return count;
}


chat_rc_e
chat_position_read(chat_str_t text, chat_position_t *out)
{
    chat_str_t number = text;

    memset(out, 0, sizeof(*out));

    if (text.len > CHAT_LISTED_ID && text.data[CHAT_LISTED_ID] == '-') {
        out->stream = chat_str(text.data, CHAT_LISTED_ID);
        number = chat_str(text.data + CHAT_LISTED_ID + 1,
                          text.len - CHAT_LISTED_ID - 1);

        if (!chat_listed_is_id(out->stream)) {
            return CHAT_BAD;
        }
    }

    out->given = chat_str_number(number, &out->after);
    return out->given ? CHAT_OK : CHAT_BAD;
}


#define CHAT_RECORDING_NAME (2 * CHAT_DIGEST_SIZE)

static const char chat_recording_prefix[] = "batch/";


chat_rc_e
chat_batch_record_key(const chat_scope_t *scope, chat_key_t *key)
{
    chat_str_t parts[3];

    if (scope->anonymous || scope->conversation.len == 0) {
        return CHAT_DECLINED;
    }

    key->tenant = chat_scope_tenant(scope);
    parts[0] = chat_cstr("record");
    parts[1] = chat_str(scope->tenant.bytes, CHAT_DIGEST_SIZE);
    parts[2] = scope->conversation;
    chat_digest_parts(parts, 3, &key->name);
    chat_scope_tag(scope, &key->tag);
    return CHAT_OK;
}


void
chat_facts_batch(chat_facts_t *facts, uint64_t ms,
                 const chat_recorded_t *recorded)
{
    char       hex[CHAT_RECORDING_NAME + 1], field[CHAT_RECORDING_NAME + 32];
    chat_buf_t value = { 0 };
    unsigned char i;

    chat_digest_hex(&recorded->names[0], CHAT_DIGEST_SIZE, hex);
    (void) snprintf(field, sizeof(field), "%s%llu-%s", chat_recording_prefix,
                    (unsigned long long) ms, hex);

    chat_buf_add(&value, recorded->dialect);
    for (i = 1; i < recorded->nnames; i++) {
        chat_digest_hex(&recorded->names[i], CHAT_DIGEST_SIZE, hex);
        chat_buf_printf(&value, " %s", hex);
    }

    chat_facts_buf(facts, field, &value);
}


/* 1 if the field is batch/<ms>-<name>, whose time and name go into *out. */
static int
chat_recording_parse(chat_str_t field, chat_recorded_t *out)
{
    chat_str_t name;

    return chat_str_after(field, chat_recording_prefix, &name)
           && chat_str_number(chat_str_cut(&name, '-'), &out->ms)
           && out->ms != 0
           && chat_hex_read(name, out->names[0].bytes, CHAT_DIGEST_SIZE);
}


/* 1 if a is newer than b; of one time the greater name is. */
static int
chat_recording_newer(const chat_recorded_t *a, const chat_recorded_t *b)
{
    return a->ms != b->ms
               ? a->ms > b->ms
               : memcmp(a->names[0].bytes, b->names[0].bytes, CHAT_DIGEST_SIZE)
                     > 0;
}


chat_rc_e
chat_batch_newest(const chat_fact_t *facts, size_t n, chat_recorded_t *newest)
{
    size_t          i;
    chat_str_t      value = { NULL, 0 };
    chat_recorded_t one;

    memset(&one, 0, sizeof(one));
    newest->nnames = 0;

    for (i = 0; i < n; i++) {
        if (chat_recording_parse(facts[i].field, &one)
            && (newest->nnames == 0 || chat_recording_newer(&one, newest)))
        {
            *newest = one;
            newest->nnames = 1;
            value = facts[i].value;
        }
    }

    if (newest->nnames == 0) {
        return CHAT_DECLINED;
    }

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
