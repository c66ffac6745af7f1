/*
 * chat_batch.c: reads facts; see chat_batch.h.
 *
 * What is said of calls, of the stream and of the batch is read here, attempts
 * in chat_batch_attempts.c; chat_batch_facts.c names batches and writes facts.
 * A fact that is not understood is as good as absent.
 */

#include "facts/chat_batch_read.h"

#include <stdlib.h>


/* What a reader works on: one fact, and the batch that it adds to. */
typedef struct {
    chat_batch_t *batch;
    chat_arena_t *arena;
    size_t        size; /* room in batch->members */
    size_t        twins;
    size_t        waits; /* room in batch->waits */
    int           failed;
} chat_batch_reader_t;


const chat_member_t *
chat_batch_find(const chat_batch_t *batch, chat_str_t id)
{
    const chat_table_entry_t *entry = chat_table_find(&batch->index, id);

    return entry != NULL ? &batch->members[entry->number] : NULL;
}


/* The member with this id, made if it is new; NULL without memory. */
static chat_member_t *
chat_batch_member(chat_batch_reader_t *reader, chat_str_t id)
{
    chat_batch_t       *batch = reader->batch;
    chat_member_t      *member;
    chat_table_entry_t *entry;

    member = (chat_member_t *) chat_batch_find(batch, id);
    if (member != NULL) {
        return member;
    }

    member = chat_arena_grow(reader->arena, batch->members, batch->nmembers,
                             &reader->size, sizeof(*member));
    if (member == NULL) {
        reader->failed = 1;
        return NULL;
    }

    batch->members = member;

    entry = chat_table_put(&batch->index, id);
    if (entry == NULL) {
        reader->failed = 1;
        return NULL;
    }

    entry->number = batch->nmembers;
    member = &batch->members[batch->nmembers++];
    member->id = id;
    member->position = UINT32_MAX;
    return member;
}


static void
chat_batch_read_wait(chat_batch_reader_t *reader, chat_str_t worker)
{
    chat_batch_t *batch = reader->batch;
    chat_str_t   *waits;

    waits = chat_arena_grow(reader->arena, batch->waits, batch->nwaits,
                            &reader->waits, sizeof(*waits));
    if (waits == NULL) {
        reader->failed = 1;
        return;
    }

    batch->waits = waits;
    batch->waits[batch->nwaits++] = worker;
}


static void
chat_batch_read_call(chat_batch_reader_t *reader, chat_str_t id,
                     chat_str_t value)
{
    uint64_t       position;
    chat_str_t     kind;
    chat_member_t *member;
    unsigned char  fingerprint[16];

    if (!chat_batch_number(chat_batch_word(&value), &position)
        || position >= UINT32_MAX)
    {
        return;
    }

    kind = chat_batch_word(&value);
    if (!chat_batch_hex(chat_batch_word(&value), fingerprint)) {
        return;
    }

    member = chat_batch_member(reader, id);
    if (member == NULL) {
        return;
    }

    member->is_call = 1;
    member->position = (uint32_t) position;
    member->kind = member->asks || chat_str_is(kind, "a") ? CHAT_KIND_APPROVAL
                   : chat_str_is(kind, "p")               ? CHAT_KIND_PROVIDER
                                                          : CHAT_KIND_CLIENT;
    memcpy(member->fingerprint, fingerprint, 16);
}


static void
chat_batch_read_ask(chat_batch_reader_t *reader, chat_str_t id)
{
    chat_member_t *member = chat_batch_member(reader, id);

    if (member != NULL) {
        member->asks = 1;
        member->kind = CHAT_KIND_APPROVAL;
    }
}


static void
chat_batch_read_result(chat_batch_reader_t *reader, chat_str_t id,
                       const chat_fact_t *fact)
{
    chat_str_t     value = fact->value;
    chat_str_t     word;
    chat_member_t *member;
    unsigned char  digest[16], answered[16];
    chat_outcome_e outcome;

    word = chat_batch_word(&value);
    outcome = chat_str_is(word, "o")   ? CHAT_OUTCOME_OK
              : chat_str_is(word, "e") ? CHAT_OUTCOME_ERROR
              : chat_str_is(word, "d") ? CHAT_OUTCOME_DENIED
                                       : CHAT_OUTCOME_NONE;

    if (outcome == CHAT_OUTCOME_NONE
        || !chat_batch_hex(chat_batch_word(&value), digest)
        || !chat_batch_hex(chat_batch_word(&value), answered))
    {
        return;
    }

    member = chat_batch_member(reader, id);
    if (member == NULL) {
        return;
    }

    member->outcome = outcome;
    member->has_payload = fact->has_payload;
    memcpy(member->digest, digest, 16);
    memcpy(member->answered, answered, 16);
}


static void
chat_batch_read_delivered(chat_batch_reader_t *reader, chat_str_t id)
{
    chat_member_t *member = chat_batch_member(reader, id);

    if (member != NULL) {
        member->delivered = 1;
    }
}


static void
chat_batch_read_approval(chat_batch_reader_t *reader, chat_str_t id,
                         chat_str_t value)
{
    chat_member_t *member;

    if (!chat_str_is(value, "g") && !chat_str_is(value, "r")) {
        return;
    }

    member = chat_batch_member(reader, id);
    if (member != NULL) {
        member->approval = value.data[0] == 'g' ? CHAT_APPROVAL_GRANTED
                                                : CHAT_APPROVAL_REFUSED;
    }
}


static void
chat_batch_read_twin(chat_batch_reader_t *reader, chat_str_t claimant,
                     chat_str_t value)
{
    chat_twin_t  *twin;
    chat_batch_t *batch = reader->batch;

    twin = chat_arena_grow(reader->arena, batch->twins, batch->ntwins,
                           &reader->twins, sizeof(*twin));
    if (twin == NULL) {
        reader->failed = 1;
        return;
    }

    batch->twins = twin;
    twin = &batch->twins[batch->ntwins];
    twin->claimant = claimant;
    batch->ntwins +=
        chat_batch_hex(chat_batch_word(&value), twin->content)
        && chat_batch_number(chat_batch_word(&value), &twin->retry);
}


static void
chat_batch_read_open(chat_batch_t *batch, chat_str_t value)
{
    const unsigned char *line;

    batch->open = 1;
    batch->producer = value;

    line = value.len ? memchr(value.data, '\n', value.len) : NULL;
    if (line != NULL) {
        batch->producer.len = (size_t) (line - value.data);
        batch->cors = chat_str(line + 1, value.len - batch->producer.len - 1);
    }
}


/* A fact that stands alone, not under a call or an attempt. */
static void
chat_batch_read_plain(chat_batch_t *batch, const chat_fact_t *fact)
{
    if (chat_str_is(fact->field, "since")) {
        (void) chat_batch_number(fact->value, &batch->since);

    } else if (chat_str_is(fact->field, "open")) {
        chat_batch_read_open(batch, fact->value);

    } else if (chat_str_is(fact->field, "seal")) {
        batch->sealed = 1;

    } else if (chat_str_is(fact->field, "broken")) {
        batch->broken = 1;

    } else if (chat_str_is(fact->field, "partial")) {
        batch->partial = 1;

    } else if (chat_str_is(fact->field, "superseded")) {
        batch->superseded = 1;

    } else if (chat_str_is(fact->field, "cleared")) {
        batch->cleared = 1;
    }
}


int
chat_batch_has_message(const chat_fact_t *facts, size_t n, chat_str_t id)
{
    size_t     i;
    chat_str_t message;

    for (i = 0; i < n; i++) {
        if (chat_batch_under(facts[i].field, "message/", &message)
            && (id.len == 0 || chat_str_eq(message, id)))
        {
            return 1;
        }
    }

    return 0;
}


static int
chat_batch_compare(const void *one, const void *two)
{
    size_t               len;
    int                  rc;
    const chat_member_t *a = one;
    const chat_member_t *b = two;

    if (a->position != b->position) {
        return a->position < b->position ? -1 : 1;
    }

    len = a->id.len < b->id.len ? a->id.len : b->id.len;
    rc = len ? memcmp(a->id.data, b->id.data, len) : 0;
    if (rc != 0) {
        return rc;
    }

    return a->id.len < b->id.len ? -1 : a->id.len > b->id.len;
}


chat_rc_e
chat_batch_read(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
                chat_batch_t *batch)
{
    size_t              i;
    chat_str_t          id;
    chat_batch_reader_t reader;

    memset(batch, 0, sizeof(*batch));
    memset(&reader, 0, sizeof(reader));
    reader.batch = batch;
    reader.arena = arena;
    chat_table_init(&batch->index, arena);

    for (i = 0; i < n; i++) {
        if (chat_batch_under(facts[i].field, "call/", &id)) {
            chat_batch_read_call(&reader, id, facts[i].value);

        } else if (chat_batch_under(facts[i].field, "ask/", &id)) {
            chat_batch_read_ask(&reader, id);

        } else if (chat_batch_under(facts[i].field, "result/", &id)) {
            chat_batch_read_result(&reader, id, &facts[i]);

        } else if (chat_batch_under(facts[i].field, "wait/", &id)) {
            chat_batch_read_wait(&reader, id);

        } else if (chat_batch_under(facts[i].field, "approval/", &id)) {
            chat_batch_read_approval(&reader, id, facts[i].value);

        } else if (chat_batch_under(facts[i].field, "delivered/", &id)) {
            chat_batch_read_delivered(&reader, id);

        } else if (chat_batch_under(facts[i].field, "twin/", &id)) {
            chat_batch_read_twin(&reader, id, facts[i].value);

        } else {
            chat_batch_read_plain(batch, &facts[i]);
        }
    }

    if (reader.failed
        || chat_batch_read_attempts(facts, n, arena, batch) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    if (batch->nmembers > 1) {
        qsort(batch->members, batch->nmembers, sizeof(*batch->members),
              chat_batch_compare);
    }

    for (i = 0; i < batch->nmembers; i++) {
        chat_table_find(&batch->index, batch->members[i].id)->number = i;
    }

    return CHAT_OK;
}
