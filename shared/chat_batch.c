/*
 * chat_batch.c: see chat_batch.h. This half reads facts; chat_batch_facts.c
 * names batches and writes facts.
 *
 * A fact is text: the field says what it is about, the value is a few words
 * separated by single spaces. Every reader below answers 0 for text that it
 * does not understand, and the fact is then as good as absent.
 */

#include "chat_batch.h"

#include <stdio.h>
#include <stdlib.h>

#define CHAT_MEMBERS_MAX 1024 /* a store with more of them is not believed */


/* What a reader works on: one fact, and the batch that it adds to. */
typedef struct {
    chat_batch_t *batch;
    chat_arena_t *arena;
    size_t        size; /* room in batch->members */
    int           failed;
} chat_batch_reader_t;


/* Cuts the next word off *s; an empty word where there is none. */
static chat_str_t
chat_batch_word(chat_str_t *s)
{
    chat_str_t           word = *s;
    const unsigned char *space;

    if (s->len == 0) {
        return word;
    }

    space = memchr(s->data, ' ', s->len);
    if (space == NULL) {
        *s = chat_str(s->data + s->len, 0);
        return word;
    }

    word.len = (size_t) (space - s->data);
    *s = chat_str(space + 1, s->len - word.len - 1);
    return word;
}


/*
 * 1 and *out if s is a decimal number of at most 18 digits, as it is written
 * here: two texts are never one number.
 */
static int
chat_batch_number(chat_str_t s, uint64_t *out)
{
    size_t   i;
    uint64_t n = 0;

    if (s.len == 0 || s.len > 18 || (s.data[0] == '0' && s.len > 1)) {
        return 0;
    }

    for (i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9') {
            return 0;
        }
        n = n * 10 + (s.data[i] - '0');
    }

    *out = n;
    return 1;
}


static int
chat_batch_digit(unsigned char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }

    return (c >= 'a' && c <= 'f') ? c - 'a' + 10 : -1;
}


/* 1 and out[16] if s is 32 hex digits. */
static int
chat_batch_hex(chat_str_t s, unsigned char *out)
{
    size_t i;
    int    high, low;

    if (s.len != 32) {
        return 0;
    }

    for (i = 0; i < 16; i++) {
        high = chat_batch_digit(s.data[2 * i]);
        low = chat_batch_digit(s.data[2 * i + 1]);
        if (high < 0 || low < 0) {
            return 0;
        }
        out[i] = (unsigned char) (high << 4 | low);
    }

    return 1;
}


const chat_member_t *
chat_batch_find(const chat_batch_t *batch, chat_str_t id)
{
    size_t i;

    for (i = 0; i < batch->nmembers; i++) {
        if (chat_str_eq(batch->members[i].id, id)) {
            return &batch->members[i];
        }
    }

    return NULL;
}


/* The member with this id, made if it is new; NULL without memory or room. */
static chat_member_t *
chat_batch_member(chat_batch_reader_t *reader, chat_str_t id)
{
    size_t         size;
    chat_batch_t  *batch = reader->batch;
    chat_member_t *member;

    member = (chat_member_t *) chat_batch_find(batch, id);
    if (member != NULL) {
        return member;
    }

    if (batch->nmembers == CHAT_MEMBERS_MAX) {
        return NULL;
    }

    if (batch->nmembers == reader->size) {
        size = reader->size ? reader->size * 2 : 8;
        member = chat_arena_alloc(reader->arena, size * sizeof(*member));
        if (member == NULL) {
            reader->failed = 1;
            return NULL;
        }
        if (batch->nmembers != 0) {
            memcpy(member, batch->members, batch->nmembers * sizeof(*member));
        }
        batch->members = member;
        reader->size = size;
    }

    member = &batch->members[batch->nmembers++];
    memset(member, 0, sizeof(*member));
    member->id = id;
    member->position = UINT32_MAX;
    return member;
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
    member->kind = chat_str_is(kind, "a")   ? CHAT_KIND_APPROVAL
                   : chat_str_is(kind, "p") ? CHAT_KIND_PROVIDER
                                            : CHAT_KIND_CLIENT;
    memcpy(member->fingerprint, fingerprint, 16);
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


/* The rest of field behind prefix into *rest; 0 if it does not begin so. */
static int
chat_batch_under(chat_str_t field, const char *prefix, chat_str_t *rest)
{
    size_t len = strlen(prefix);

    if (!chat_str_starts(field, prefix)) {
        return 0;
    }

    *rest = chat_str(field.data + len, field.len - len);
    return 1;
}


/* 1 if the fact is prefix/<k>. */
static int
chat_batch_numbered(const chat_fact_t *fact, const char *prefix, uint32_t *k)
{
    uint64_t   n;
    chat_str_t rest;

    if (!chat_batch_under(fact->field, prefix, &rest)
        || !chat_batch_number(rest, &n) || n == 0 || n > CHAT_ATTEMPTS_MAX)
    {
        return 0;
    }

    *k = (uint32_t) n;
    return 1;
}


static chat_end_e
chat_batch_end(chat_str_t value)
{
    int end;

    for (end = CHAT_END_FINISHED; end <= CHAT_END_INTERRUPTED; end++) {
        if (chat_str_is(value, chat_end_name((chat_end_e) end))) {
            return (chat_end_e) end;
        }
    }

    return CHAT_END_NONE;
}


/* 1 if the fact says that this claimant has sent nothing. */
static int
chat_batch_is_void(const chat_fact_t *fact, const chat_attempt_t *attempt)
{
    char       expected[256];
    chat_str_t rest;

    (void) snprintf(
        expected, sizeof(expected), "%u/%.*s/%.*s", (unsigned) attempt->k,
        (int) attempt->worker.len, (const char *) attempt->worker.data,
        (int) attempt->request.len, (const char *) attempt->request.data);

    return chat_batch_under(fact->field, "void/", &rest)
           && chat_str_is(rest, expected);
}


/* Collects all that the facts say of attempt k. */
static void
chat_batch_read_attempt(const chat_fact_t *facts, size_t n, uint32_t k,
                        chat_attempt_t *attempt)
{
    size_t     i;
    uint64_t   status;
    uint32_t   number;
    chat_str_t value;

    memset(attempt, 0, sizeof(*attempt));
    attempt->k = k;

    for (i = 0; i < n; i++) {
        value = facts[i].value;

        if (chat_batch_numbered(&facts[i], "claim/", &number) && number == k) {
            attempt->worker = chat_batch_word(&value);
            attempt->request = chat_batch_word(&value);
            (void) chat_batch_hex(chat_batch_word(&value), attempt->signature);
            (void) chat_batch_hex(chat_batch_word(&value), attempt->retry_key);

        } else if (chat_batch_numbered(&facts[i], "answer/", &number)
                   && number == k) {
            if (chat_batch_number(value, &status) && status < 1000) {
                attempt->answer = (uint32_t) status;
            }

        } else if (chat_batch_numbered(&facts[i], "end/", &number)
                   && number == k) {
            attempt->end = chat_batch_end(value);
        }
    }

    for (i = 0; i < n && attempt->worker.len != 0; i++) {
        if (chat_batch_is_void(&facts[i], attempt)) {
            attempt->is_void = 1;
        }
    }
}


static void
chat_batch_read_attempts(const chat_fact_t *facts, size_t n,
                         chat_batch_t *batch)
{
    size_t   i;
    uint64_t status;
    uint32_t k, last = 0, answered = 0;

    for (i = 0; i < n; i++) {
        if (chat_batch_numbered(&facts[i], "claim/", &k) && k > last) {
            last = k;
        }

        if (chat_batch_numbered(&facts[i], "answer/", &k) && k > answered
            && chat_batch_number(facts[i].value, &status) && status >= 200
            && status < 300)
        {
            answered = k;
        }
    }

    if (last != 0) {
        chat_batch_read_attempt(facts, n, last, &batch->last);
    }

    if (answered != 0) {
        chat_batch_read_attempt(facts, n, answered, &batch->answered);
    }
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

    for (i = 0; i < n; i++) {
        if (chat_batch_under(facts[i].field, "call/", &id)) {
            chat_batch_read_call(&reader, id, facts[i].value);

        } else if (chat_batch_under(facts[i].field, "result/", &id)) {
            chat_batch_read_result(&reader, id, &facts[i]);

        } else if (chat_batch_under(facts[i].field, "approval/", &id)) {
            chat_batch_read_approval(&reader, id, facts[i].value);

        } else {
            chat_batch_read_plain(batch, &facts[i]);
        }
    }

    if (reader.failed) {
        return CHAT_ERROR;
    }

    chat_batch_read_attempts(facts, n, batch);

    if (batch->nmembers > 1) {
        qsort(batch->members, batch->nmembers, sizeof(*batch->members),
              chat_batch_compare);
    }

    return CHAT_OK;
}
