/*
 * chat_batch.c: see chat_batch.h.
 *
 * chat_facts.c writes what is read here. An attempt is the claim of its
 * number. Its answer, end and void name the claimant, and count only if that
 * claimant owns the claim, whether they came before it or after.
 */

#include "facts/chat_batch.h"

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

    if (!chat_str_number(chat_str_cut(&value, ' '), &position)
        || position >= UINT32_MAX)
    {
        return;
    }

    kind = chat_str_cut(&value, ' ');
    if (!chat_hex_read(chat_str_cut(&value, ' '), fingerprint, 16)) {
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

    word = chat_str_cut(&value, ' ');
    outcome = chat_str_is(word, "o")   ? CHAT_OUTCOME_OK
              : chat_str_is(word, "e") ? CHAT_OUTCOME_ERROR
              : chat_str_is(word, "d") ? CHAT_OUTCOME_DENIED
                                       : CHAT_OUTCOME_NONE;

    if (outcome == CHAT_OUTCOME_NONE
        || !chat_hex_read(chat_str_cut(&value, ' '), digest, 16)
        || !chat_hex_read(chat_str_cut(&value, ' '), answered, 16))
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
        chat_hex_read(chat_str_cut(&value, ' '), twin->content, 16)
        && chat_str_number(chat_str_cut(&value, ' '), &twin->retry);
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
        (void) chat_str_number(fact->value, &batch->since);

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
        if (chat_str_after(facts[i].field, "message/", &message)
            && (id.len == 0 || chat_str_eq(message, id)))
        {
            return 1;
        }
    }

    return 0;
}


/* 1 if s is the number of an attempt. */
static int
chat_batch_attempt_number(chat_str_t s, uint32_t *k)
{
    uint64_t n;

    if (!chat_str_number(s, &n) || n == 0 || n > CHAT_ATTEMPTS_MAX) {
        return 0;
    }

    *k = (uint32_t) n;
    return 1;
}


/*
 * A claim that says nothing counts too, as one of nobody: it stands in the
 * way of every other of its number.
 */
static int
chat_batch_read_claim(const chat_fact_t *fact, chat_attempt_t *attempt)
{
    chat_str_t rest, value = fact->value;

    memset(attempt, 0, sizeof(*attempt));

    if (!chat_str_after(fact->field, "claim/", &rest)
        || !chat_batch_attempt_number(rest, &attempt->k))
    {
        return 0;
    }

    attempt->worker = chat_str_cut(&value, ' ');
    attempt->request = chat_str_cut(&value, ' ');
    (void) chat_hex_read(chat_str_cut(&value, ' '), attempt->signature, 16);
    (void) chat_hex_read(chat_str_cut(&value, ' '), attempt->retry_key, 16);
    (void) chat_str_number(chat_str_cut(&value, ' '), &attempt->ms);

    /* a worker of an older version says no more */
    attempt->described =
        chat_hex_read(chat_str_cut(&value, ' '), attempt->transcript, 16);
    attempt->results = value;
    return 1;
}


static int
chat_batch_attempt_compare(const void *one, const void *two)
{
    const chat_attempt_t *a = one;
    const chat_attempt_t *b = two;

    return a->k < b->k ? -1 : a->k > b->k;
}


/* All claims in order of their numbers, each once; *count of them. */
static chat_attempt_t *
chat_batch_read_claims(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
                       size_t *count)
{
    size_t         i, kept, claims = 0;
    chat_attempt_t attempt, *list;

    for (i = 0; i < n; i++) {
        claims += chat_batch_read_claim(&facts[i], &attempt) != 0;
    }

    list = chat_arena_alloc(arena, (claims + 1) * sizeof(*list));
    if (list == NULL) {
        return NULL;
    }

    for (i = 0, kept = 0; kept < claims; i++) {
        kept += chat_batch_read_claim(&facts[i], &list[kept]) != 0;
    }

    qsort(list, claims, sizeof(*list), chat_batch_attempt_compare);

    for (i = 0, kept = 0; i < claims; i++) {
        if (kept == 0 || list[i].k != list[kept - 1].k) {
            list[kept++] = list[i];
        }
    }

    *count = kept;
    return list;
}


/* 1 if the text is <worker>/<request> of the attempt's claim. */
static int
chat_batch_is_claimant(const chat_attempt_t *attempt, chat_str_t text)
{
    size_t len = attempt->worker.len;

    return len != 0 && text.len > len && text.data[len] == '/'
           && chat_str_eq(chat_str(text.data, len), attempt->worker)
           && chat_str_eq(chat_str(text.data + len + 1, text.len - len - 1),
                          attempt->request);
}


/*
 * The attempt that a fact prefix/<k>/<worker>/<request> is about; NULL: the
 * fact is another, or of one that is not the claimant of k.
 */
static chat_attempt_t *
chat_batch_attempt_of(const chat_fact_t *fact, const char *prefix,
                      chat_attempt_t *list, size_t count)
{
    chat_str_t           rest, claimant;
    chat_attempt_t       wanted, *found;
    const unsigned char *slash;

    if (!chat_str_after(fact->field, prefix, &rest) || rest.len == 0) {
        return NULL;
    }

    slash = memchr(rest.data, '/', rest.len);
    if (slash == NULL) {
        return NULL;
    }

    claimant =
        chat_str(slash + 1, rest.len - (size_t) (slash + 1 - rest.data));
    rest.len = (size_t) (slash - rest.data);
    if (!chat_batch_attempt_number(rest, &wanted.k)) {
        return NULL;
    }

    found = bsearch(&wanted, list, count, sizeof(*list),
                    chat_batch_attempt_compare);

    return found != NULL && chat_batch_is_claimant(found, claimant) ? found
                                                                    : NULL;
}


/* What one fact says of the attempt that is its own. */
static void
chat_batch_read_deed(const chat_fact_t *fact, chat_attempt_t *list,
                     size_t count)
{
    uint64_t        number;
    chat_attempt_t *attempt;

    attempt = chat_batch_attempt_of(fact, "void/", list, count);
    if (attempt != NULL) {
        attempt->is_void = 1;
        return;
    }

    attempt = chat_batch_attempt_of(fact, "answer/", list, count);
    if (attempt != NULL) {
        if (chat_str_number(fact->value, &number) && number < 1000) {
            attempt->answer = (uint32_t) number;
        }
        return;
    }

    attempt = chat_batch_attempt_of(fact, "after/", list, count);
    if (attempt != NULL) {
        if (chat_str_number(fact->value, &number) && number <= CHAT_AFTER_MAX)
        {
            attempt->after = (uint32_t) number;
        }
        return;
    }

    attempt = chat_batch_attempt_of(fact, "end/", list, count);
    if (attempt != NULL) {
        attempt->end = chat_end_find(fact->value);
    }
}


/* Reads batch->last and batch->answered. CHAT_ERROR without memory. */
static chat_rc_e
chat_batch_read_attempts(const chat_fact_t *facts, size_t n,
                         chat_arena_t *arena, chat_batch_t *batch)
{
    size_t          i, count;
    chat_attempt_t *list;

    list = chat_batch_read_claims(facts, n, arena, &count);
    if (list == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; count != 0 && i < n; i++) {
        chat_batch_read_deed(&facts[i], list, count);
    }

    batch->attempts = count ? list : NULL;
    batch->nattempts = count;

    for (i = 0; i < count; i++) {
        if (list[i].answer >= 200 && list[i].answer < 300) {
            batch->answered = list[i];
        }
        batch->last = list[i];
    }

    return CHAT_OK;
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
        if (chat_str_after(facts[i].field, "call/", &id)) {
            chat_batch_read_call(&reader, id, facts[i].value);

        } else if (chat_str_after(facts[i].field, "ask/", &id)) {
            chat_batch_read_ask(&reader, id);

        } else if (chat_str_after(facts[i].field, "result/", &id)) {
            chat_batch_read_result(&reader, id, &facts[i]);

        } else if (chat_str_after(facts[i].field, "wait/", &id)) {
            chat_batch_read_wait(&reader, id);

        } else if (chat_str_after(facts[i].field, "approval/", &id)) {
            chat_batch_read_approval(&reader, id, facts[i].value);

        } else if (chat_str_after(facts[i].field, "delivered/", &id)) {
            chat_batch_read_delivered(&reader, id);

        } else if (chat_str_after(facts[i].field, "twin/", &id)) {
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


int
chat_attempt_bury(chat_attempt_t *attempt,
                  int (*alive)(void *data, chat_str_t worker), void *data)
{
    if (attempt->k == 0 || attempt->is_void || attempt->end != CHAT_END_NONE
        || alive(data, attempt->worker))
    {
        return 0;
    }

    attempt->end = CHAT_END_INTERRUPTED;
    return 1;
}


#define CHAT_CARRIED_ID 8    /* digits */
#define CHAT_CARRIED_TEXT 24 /* digits of one result */


void
chat_carried(chat_carried_t *carried, chat_str_t id, chat_outcome_e outcome,
             const unsigned char *digest)
{
    chat_digest_t of;

    memset(carried, 0, sizeof(*carried));
    chat_digest(id, &of);
    memcpy(carried->id, of.bytes, sizeof(carried->id));
    memcpy(carried->value, digest, sizeof(carried->value));
    carried->value[0] ^= (unsigned char) outcome;
}


static int
chat_carried_compare(const void *one, const void *two)
{
    int                   rc;
    const chat_carried_t *a = one, *b = two;

    rc = memcmp(a->id, b->id, sizeof(a->id));
    if (rc != 0) {
        return rc;
    }

    if (a->stored != b->stored) {
        return a->stored - b->stored;
    }

    return memcmp(a->value, b->value, sizeof(a->value));
}


chat_str_t
chat_results_text(chat_carried_t *list, size_t n, chat_arena_t *arena)
{
    char           hex[CHAT_CARRIED_TEXT + 1];
    size_t         i, count = 0;
    chat_digest_t  digest;
    unsigned char *text;

    text = chat_arena_alloc(arena, n * CHAT_CARRIED_TEXT + 1);
    if (text == NULL) {
        return chat_str(NULL, 0);
    }

    if (n > 1) {
        qsort(list, n, sizeof(*list), chat_carried_compare);
    }

    for (i = 0; i < n; i++) {
        if (i != 0
            && memcmp(list[i].id, list[i - 1].id, sizeof(list[i].id)) == 0) {
            continue;
        }

        memcpy(digest.bytes, list[i].id, 4);
        memcpy(digest.bytes + 4, list[i].value, 8);
        chat_digest_hex(&digest, CHAT_CARRIED_TEXT / 2, hex);
        memcpy(text + count * CHAT_CARRIED_TEXT, hex, CHAT_CARRIED_TEXT);
        count++;
    }

    return chat_str(text, count * CHAT_CARRIED_TEXT);
}


int
chat_results_agree(chat_str_t one, chat_str_t other)
{
    int    order;
    size_t i = 0, k = 0;

    while (i + CHAT_CARRIED_TEXT <= one.len
           && k + CHAT_CARRIED_TEXT <= other.len) {
        order = memcmp(one.data + i, other.data + k, CHAT_CARRIED_ID);

        if (order == 0
            && memcmp(one.data + i, other.data + k, CHAT_CARRIED_TEXT) != 0) {
            return 0;
        }

        i += order <= 0 ? CHAT_CARRIED_TEXT : 0;
        k += order >= 0 ? CHAT_CARRIED_TEXT : 0;
    }

    return 1;
}
