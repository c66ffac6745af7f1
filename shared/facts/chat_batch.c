/*
 * chat_batch.c: see chat_batch.h.
 *
 * chat_facts.c writes what is read here. An attempt is the claim of its
 * number. Its answer, end and void name the claimant, and count only if that
 * claimant owns the claim, whether they came before it or after.
 */

#include "bytes/chat_mix.h"
#include "facts/chat_batch.h"

#include <stdlib.h>

/* What a reader works on: one fact, and the batch that it adds to. */
typedef struct {
    chat_batch_t *batch;
    chat_arena_t *arena;
    size_t        size; /* room in batch->members */
    size_t        twins;
    size_t        waits; /* room in batch->waits */
    size_t        attempts;
    size_t        others; /* facts that may be of an attempt */
    uint64_t      seal;   /* calls that the seal counts */
    int           failed;
} chat_batch_reader_t;


const chat_member_t *
chat_batch_find(const chat_batch_t *batch, chat_str_t id)
{
    const chat_table_entry_t *entry = chat_table_find(&batch->index, id);

    return entry != NULL && entry->number != 0
               ? &batch->members[entry->number - 1]
               : NULL;
}


static const chat_hash_t unknown;


int
chat_member_has_result(const chat_member_t *member,
                       const chat_hash_t   *fingerprint)
{
    return member->outcome != CHAT_OUTCOME_NONE
           && (fingerprint == NULL || chat_hash_eq(&member->answered, &unknown)
               || chat_hash_eq(&member->answered, fingerprint));
}


/* As chat_arena_push(); sets failed without memory. */
static void *
chat_batch_push(chat_batch_reader_t *reader, void *list, size_t *count,
                size_t *size, size_t bytes)
{
    void *item = chat_arena_push(reader->arena, list, count, size, bytes);

    reader->failed |= item == NULL;
    return item;
}


/* Cuts off a word; 1 if it is a hash, which is then in out. */
static int
cut_hash(chat_str_t *value, unsigned char out[16])
{
    int read =
        value->len >= 16 && (value->len == 16 || value->data[16] == ' ');

    if (read) {
        memcpy(out, value->data, 16);
        *value = chat_str(value->data + 16, value->len - 16);
    }

    (void) chat_str_cut(value, ' ');
    return read;
}


/* 1 if the fact parses: it is then in *member. */
typedef int (*chat_member_pt)(chat_member_t *member, const chat_fact_t *fact);


/* Reads a fact of the member with this id, which is made if it is new. */
static void
chat_batch_read_member(chat_batch_reader_t *reader, chat_str_t id,
                       const chat_fact_t *fact, chat_member_pt read)
{
    chat_batch_t       *batch = reader->batch;
    chat_table_entry_t *entry = chat_table_put(&batch->index, id);
    chat_member_t      *added,
        member = { .id = id, .entry = entry, .position = UINT32_MAX };

    if (entry == NULL) {
        reader->failed = 1;
        return;
    }

    if (entry->number != 0) {
        (void) read(&batch->members[entry->number - 1], fact);
        return;
    }

    if (!read(&member, fact)) {
        return;
    }

    added = chat_batch_push(reader, &batch->members, &batch->nmembers,
                            &reader->size, sizeof(*added));
    if (added != NULL) {
        *added = member;
        entry->number = batch->nmembers;
    }
}


static int
chat_member_read_call(chat_member_t *member, const chat_fact_t *fact)
{
    uint64_t   position;
    chat_str_t kind, value = fact->value;

    if (!chat_str_number(chat_str_cut(&value, ' '), &position)
        || position >= UINT32_MAX)
    {
        return 0;
    }

    kind = chat_str_cut(&value, ' ');
    if (!cut_hash(&value, member->fingerprint.bytes)) {
        return 0;
    }

    member->is_call = 1;
    member->position = (uint32_t) position;
    member->kind = member->asks || chat_str_is(kind, "a") ? CHAT_KIND_APPROVAL
                   : chat_str_is(kind, "p")               ? CHAT_KIND_PROVIDER
                                                          : CHAT_KIND_CLIENT;
    return 1;
}


static int
chat_member_read_ask(chat_member_t *member, const chat_fact_t *fact)
{
    member->asks = 1;
    member->kind = CHAT_KIND_APPROVAL;
    return 1;
}


static int
chat_member_read_result(chat_member_t *member, const chat_fact_t *fact)
{
    chat_str_t     value = fact->value, word = chat_str_cut(&value, ' ');
    chat_outcome_e outcome = chat_str_is(word, "o")   ? CHAT_OUTCOME_OK
                             : chat_str_is(word, "e") ? CHAT_OUTCOME_ERROR
                             : chat_str_is(word, "d") ? CHAT_OUTCOME_DENIED
                                                      : CHAT_OUTCOME_NONE;

    if (outcome == CHAT_OUTCOME_NONE || !cut_hash(&value, member->digest.bytes)
        || !cut_hash(&value, member->answered.bytes))
    {
        return 0;
    }

    if (!member->is_call && !chat_hash_eq(&member->answered, &unknown)) {
        member->is_call = 1;
        member->fingerprint = member->answered;
    }

    member->outcome = outcome;
    member->has_payload = fact->has_payload;
    member->payload = fact->payload;
    return 1;
}


static int
chat_member_read_delivered(chat_member_t *member, const chat_fact_t *fact)
{
    member->delivered = 1;
    return 1;
}


static int
chat_member_read_approval(chat_member_t *member, const chat_fact_t *fact)
{
    chat_approval_e approval =
        chat_str_is(fact->value, "g")   ? CHAT_APPROVAL_GRANTED
        : chat_str_is(fact->value, "r") ? CHAT_APPROVAL_REFUSED
                                        : CHAT_APPROVAL_NONE;
    if (approval == CHAT_APPROVAL_NONE) {
        return 0;
    }

    member->approval = approval;
    member->reason = fact->payload;
    return 1;
}


static void
chat_batch_read_twin(chat_batch_reader_t *reader, chat_str_t claimant,
                     chat_str_t value)
{
    chat_twin_t  *added, twin = { .claimant = claimant };
    chat_batch_t *batch = reader->batch;

    if (!cut_hash(&value, twin.content)
        || !chat_str_number(chat_str_cut(&value, ' '), &twin.retry))
    {
        return;
    }

    added = chat_batch_push(reader, &batch->twins, &batch->ntwins,
                            &reader->twins, sizeof(*added));
    if (added != NULL) {
        *added = twin;
    }
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
 * A claim without a readable value counts too, without a claimant: no other
 * claim of its number can stand.
 */
static void
chat_batch_read_claim(chat_batch_reader_t *reader, chat_str_t number,
                      chat_str_t value)
{
    uint32_t        k;
    chat_attempt_t *attempt = NULL;

    if (chat_batch_attempt_number(number, &k)) {
        attempt = chat_batch_push(reader, &reader->batch->attempts,
                                  &reader->batch->nattempts, &reader->attempts,
                                  sizeof(*attempt));
    }

    if (attempt == NULL) {
        return;
    }

    attempt->k = k;
    attempt->worker = chat_str_cut(&value, ' ');
    attempt->request = chat_str_cut(&value, ' ');
    (void) cut_hash(&value, attempt->signature);
    (void) cut_hash(&value, attempt->retry_key);
    (void) chat_str_number(chat_str_cut(&value, ' '), &attempt->ms);
    attempt->results = value;
}


/* Reads a fact that is not of a member. */
static void
chat_batch_read_plain(chat_batch_reader_t *reader, const chat_fact_t *fact)
{
    chat_str_t    rest, *wait;
    chat_batch_t *batch = reader->batch;

    batch->broken |= chat_str_is(fact->field, "broken");
    batch->partial |= chat_str_is(fact->field, "partial");
    batch->superseded |= chat_str_is(fact->field, "superseded");
    batch->cleared |= chat_str_is(fact->field, "cleared");

    if (chat_str_is(fact->field, "seal")) {
        batch->sealed = 1;
        (void) chat_str_number(fact->value, &reader->seal);

    } else if (chat_str_is(fact->field, "since")) {
        (void) chat_str_number(fact->value, &batch->since);

    } else if (chat_str_is(fact->field, "open")) {
        batch->open = 1;
        batch->cors = fact->value;
        batch->producer = chat_str_cut(&batch->cors, '\n');

    } else if (chat_str_after(fact->field, "wait/", &rest)) {
        wait = chat_batch_push(reader, &batch->waits, &batch->nwaits,
                               &reader->waits, sizeof(*wait));
        if (wait != NULL) {
            *wait = rest;
        }

    } else if (chat_str_after(fact->field, "twin/", &rest)) {
        chat_batch_read_twin(reader, rest, fact->value);

    } else if (chat_str_after(fact->field, "claim/", &rest)) {
        chat_batch_read_claim(reader, rest, fact->value);

    } else {
        reader->others++;
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


static int
chat_batch_attempt_compare(const void *one, const void *two)
{
    const chat_attempt_t *a = one, *b = two;

    return a->k < b->k ? -1 : a->k > b->k;
}


/* What a fact <event>/<k>/<worker>/<request> says of the attempt. */
static void
chat_batch_read_attempt_event(const chat_fact_t *fact, chat_batch_t *batch)
{
    uint64_t       number;
    chat_str_t     claimant = fact->field, value = fact->value, event, k;
    chat_attempt_t wanted, *attempt;

    event = chat_str_cut(&claimant, '/');
    k = chat_str_cut(&claimant, '/');

    if (!chat_batch_attempt_number(k, &wanted.k)) {
        return;
    }

    attempt = bsearch(&wanted, batch->attempts, batch->nattempts,
                      sizeof(*attempt), chat_batch_attempt_compare);

    if (attempt == NULL || attempt->worker.len == 0
        || !chat_str_eq(chat_str_cut(&claimant, '/'), attempt->worker)
        || claimant.len == 0 || !chat_str_eq(claimant, attempt->request))
    {
        return; /* not its claimant's */
    }

    attempt->is_void |= chat_str_is(event, "void");

    if (chat_str_is(event, "end")) {
        attempt->end = chat_end_find(chat_str_cut(&value, ' '));
        attempt->whole = value.len != 0;
        event = chat_cstr("answer");
    }

    if (!chat_str_number(value, &number)) {
        return;

    } else if (chat_str_is(event, "answer") && number < 1000) {
        attempt->answer = (uint32_t) number;

    } else if (chat_str_is(event, "after") && number <= CHAT_AFTER_MAX) {
        attempt->after = (uint32_t) number;

    } else if ((chat_str_is(event, "record")
                || chat_str_is(event, "unrecorded"))
               && number > attempt->recording
               && number <= CHAT_RECORDING_IMPOSSIBLE)
    {
        attempt->recording = (chat_recording_mode_e) number;
    }
}


/* Of 32 bits no hash keeps ids apart that are chosen to collide. */
static void
chat_carried_id(chat_str_t id, char *out)
{
    uint64_t                   hash;
    chat_mix_t                 mix;
    static const chat_digest_t key = { "which call of its step is result" };

    chat_mix_init(&mix, &key);
    hash = chat_mix_hash(mix, id);
    memcpy(out, &hash, CHAT_CARRIED_ID);
}


void
chat_carried(chat_str_t id, chat_outcome_e outcome, const chat_hash_t *digest,
             char *out)
{
    chat_carried_id(id, out);
    memcpy(out + CHAT_CARRIED_ID, digest->bytes,
           CHAT_CARRIED - CHAT_CARRIED_ID);
    out[CHAT_CARRIED_ID] ^= (char) outcome;
}


static int
chat_carried_compare(const void *one, const void *two)
{
    return memcmp(one, two, CHAT_CARRIED);
}


static int
chat_carried_compare_ids(const void *one, const void *two)
{
    return memcmp(one, two, CHAT_CARRIED_ID);
}


chat_str_t
chat_carried_text(char *list, size_t n)
{
    if (n > 1) {
        qsort(list, n, CHAT_CARRIED, chat_carried_compare);
    }

    return chat_str(list, n * CHAT_CARRIED);
}


int
chat_carried_has(chat_str_t results, chat_str_t id)
{
    char wanted[CHAT_CARRIED_ID];

    chat_carried_id(id, wanted);

    return results.len != 0
           && bsearch(wanted, results.data, results.len / CHAT_CARRIED,
                      CHAT_CARRIED, chat_carried_compare_ids)
                  != NULL;
}


/* 1 if a claim carries a result that its claimant had not read. */
static int
chat_carried_is_open(const char *one)
{
    return memcmp(one + CHAT_CARRIED_ID, unknown.bytes,
                  CHAT_CARRIED - CHAT_CARRIED_ID)
           == 0;
}


/*
 * Completes the results of a claim by the stored ones, which it has been put
 * together with: facts never change.
 */
static chat_rc_e
chat_batch_read_carried(const chat_batch_t *batch, chat_arena_t *arena,
                        chat_str_t *results)
{
    char   one[CHAT_CARRIED], *found, *list;
    size_t i, n = results->len / CHAT_CARRIED;

    list = (char *) results->data;
    for (i = 0; i < n && !chat_carried_is_open(list + i * CHAT_CARRIED); i++) {
        /* void */
    }

    if (i == n) {
        return CHAT_OK;
    }

    if (chat_arena_dup(arena, *results, results) != CHAT_OK) {
        return CHAT_ERROR;
    }

    for (i = 0; i < batch->nmembers; i++) {
        if (batch->members[i].outcome == CHAT_OUTCOME_NONE) {
            continue;
        }

        chat_carried(batch->members[i].id, batch->members[i].outcome,
                     &batch->members[i].digest, one);
        found = bsearch(one, results->data, n, CHAT_CARRIED,
                        chat_carried_compare_ids);
        if (found != NULL && chat_carried_is_open(found)) {
            memcpy(found, one, CHAT_CARRIED);
        }
    }

    return CHAT_OK;
}


/* Puts the claims in order, each once, and reads what became of them. */
static void
chat_batch_read_attempts(const chat_fact_t *facts, size_t n,
                         chat_batch_reader_t *reader)
{
    size_t          i, kept = 0;
    chat_batch_t   *batch = reader->batch;
    chat_attempt_t *list = batch->attempts;

    if (batch->nattempts == 0) {
        return;
    }

    qsort(list, batch->nattempts, sizeof(*list), chat_batch_attempt_compare);

    for (i = 0; i < batch->nattempts; i++) {
        if (kept == 0 || list[i].k != list[kept - 1].k) {
            list[kept++] = list[i];
        }
    }

    batch->nattempts = kept;

    for (i = 0; i < n; i++) {
        chat_batch_read_attempt_event(&facts[i], batch);
    }

    for (i = 0; i < kept; i++) {
        reader->failed |=
            chat_batch_read_carried(batch, reader->arena, &list[i].results)
            != CHAT_OK;

        if (list[i].answer >= 200 && list[i].answer < 300) {
            batch->answered = list[i];
        }
    }

    batch->last = list[kept - 1];

    /* a request may have joined its time after one that claimed at once */
    if (batch->since == 0 || (list[0].ms != 0 && list[0].ms < batch->since)) {
        batch->since = list[0].ms;
    }
}


static int
chat_batch_compare(const void *one, const void *two)
{
    const chat_member_t *a = one, *b = two;

    if (a->position != b->position) {
        return a->position < b->position ? -1 : 1;
    }

    return chat_str_compare(a->id, b->id);
}


/* The reader of a fact of a member, and the member's id; NULL: another one. */
static chat_member_pt
chat_member_reader(chat_str_t field, chat_str_t *id)
{
    return chat_str_after(field, "call/", id)       ? chat_member_read_call
           : chat_str_after(field, "ask/", id)      ? chat_member_read_ask
           : chat_str_after(field, "result/", id)   ? chat_member_read_result
           : chat_str_after(field, "approval/", id) ? chat_member_read_approval
           : chat_str_after(field, "delivered/", id)
               ? chat_member_read_delivered
               : NULL;
}


chat_rc_e
chat_batch_read(const chat_fact_t *facts, size_t n, chat_arena_t *arena,
                chat_batch_t *batch)
{
    size_t              i, calls = 0;
    chat_str_t          id;
    chat_member_pt      read;
    chat_batch_reader_t reader;

    memset(batch, 0, sizeof(*batch));
    memset(&reader, 0, sizeof(reader));
    reader.batch = batch;
    reader.arena = arena;
    chat_table_init(&batch->index, arena);

    for (i = 0; i < n; i++) {
        read = chat_member_reader(facts[i].field, &id);

        if (read != NULL) {
            chat_batch_read_member(&reader, id, &facts[i], read);
        } else {
            chat_batch_read_plain(&reader, &facts[i]);
        }
    }

    if (!reader.failed) {
        chat_batch_read_attempts(facts, reader.others ? n : 0, &reader);
    }

    if (reader.failed) {
        return CHAT_ERROR;
    }

    if (batch->nmembers > 1) {
        qsort(batch->members, batch->nmembers, sizeof(*batch->members),
              chat_batch_compare);
    }

    for (i = 0; i < batch->nmembers; i++) {
        batch->members[i].entry->number = i + 1;
        batch->ncalls += batch->members[i].is_call != 0;
        calls += batch->members[i].is_call
                 && batch->members[i].kind != CHAT_KIND_PROVIDER;
    }

    /* a store that was emptied meanwhile lacks the first ones */
    batch->sealed = batch->sealed && reader.seal <= calls;
    return CHAT_OK;
}


int
chat_attempt_expire_dead(chat_attempt_t *attempt,
                         int (*alive)(void *data, chat_str_t worker),
                         void *data)
{
    if (attempt->k == 0 || attempt->is_void || attempt->end != CHAT_END_NONE
        || alive(data, attempt->worker))
    {
        return 0;
    }

    attempt->end = CHAT_END_INTERRUPTED;
    return 1;
}


int
chat_carried_agree(chat_str_t one, chat_str_t other)
{
    int    order;
    size_t i = 0, k = 0;

    while (i + CHAT_CARRIED <= one.len && k + CHAT_CARRIED <= other.len) {
        order = memcmp(one.data + i, other.data + k, CHAT_CARRIED_ID);

        if (order == 0
            && memcmp(one.data + i, other.data + k, CHAT_CARRIED) != 0) {
            return 0;
        }

        i += order <= 0 ? CHAT_CARRIED : 0;
        k += order >= 0 ? CHAT_CARRIED : 0;
    }

    return 1;
}
