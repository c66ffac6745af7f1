/*
 * chat_listed.c: see chat_listed.h.
 *
 * The value of a stream's fact is "<worker> <dialect> <name>", the name of
 * the record's key in hex digits, of which the id is the beginning.
 * Promises: as chat_listed.h. Must not know: stores, dialects, time.
 */

#include "chat_listed.h"
#include "chat_batch_read.h"

#include <stdio.h>


void
chat_listed_id(const chat_key_t *key, char *id)
{
    chat_digest_hex(&key->name, CHAT_LISTED_ID / 2, id);
}


int
chat_listed_is_id(chat_str_t id)
{
    size_t i;

    for (i = 0; i < id.len; i++) {
        if (!((id.data[i] >= '0' && id.data[i] <= '9')
              || (id.data[i] >= 'a' && id.data[i] <= 'f')))
        {
            return 0;
        }
    }

    return id.len == CHAT_LISTED_ID;
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

    chat_facts_add(facts, field, chat_buf_str(&value));
    facts->failed |= value.failed;
    chat_buf_free(&value);
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


/* 1 and *out if the fact lists a stream, or with its prefix a hold. */
static int
chat_listed_read(const chat_fact_t *fact, const char *prefix,
                 chat_listed_t *out)
{
    char       hex[2 * CHAT_DIGEST_SIZE + 1];
    chat_str_t rest, ms, value = fact->value;

    memset(out, 0, sizeof(*out));

    if (!chat_batch_under(fact->field, prefix, &rest)
        || rest.len < CHAT_LISTED_ID + 2)
    {
        return 0;
    }

    ms = chat_str(rest.data, rest.len - CHAT_LISTED_ID - 1);
    out->id = chat_str(ms.data + ms.len + 1, CHAT_LISTED_ID);
    out->worker = chat_batch_word(&value);
    out->dialect = chat_batch_word(&value);

    if (ms.data[ms.len] != '-' || !chat_batch_number(ms, &out->ms)
        || !chat_listed_is_id(out->id) || !chat_batch_name(value, &out->name))
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
        if (chat_batch_under(facts[i].field, "over/", &id)
            && chat_str_eq(id, out->id)) {
            out->empty =
                chat_str_is(facts[i].value, chat_end_name(CHAT_END_NONE));
            out->end =
                out->empty ? CHAT_END_ABORTED : chat_end_find(facts[i].value);

        } else if (chat_batch_under(facts[i].field, "stop/", &id)
                   && chat_str_eq(id, out->id))
        {
            out->stopped = 1;
        }
    }
}


/* The newest before this one (NULL: of all), or the one with the id. */
static int
chat_listed_next(const chat_fact_t *facts, size_t n, const char *prefix,
                 chat_str_t id, const chat_listed_t *before,
                 chat_listed_t *out)
{
    int           found = 0;
    size_t        i;
    chat_listed_t one;

    for (i = 0; i < n; i++) {
        if (chat_listed_read(&facts[i], prefix, &one)
            && (id.len == 0 || chat_str_eq(id, one.id))
            && (before == NULL || chat_listed_before(&one, before))
            && (!found || chat_listed_before(out, &one)))
        {
            *out = one;
            found = 1;
        }
    }

    return found;
}


/* alive NULL: one that has ended is as good. */
static chat_rc_e
chat_listed_search(const chat_fact_t *facts, size_t n, const char *prefix,
                   chat_str_t id, int (*alive)(void *data, chat_str_t worker),
                   void *data, chat_listed_t *out)
{
    size_t        looks;
    chat_listed_t before, *last = NULL;

    for (looks = 0; looks < CHAT_LISTED_LOOK; looks++) {
        if (!chat_listed_next(facts, n, prefix, id, last, out)) {
            return CHAT_DECLINED;
        }

        chat_listed_state(facts, n, out);

        if (alive == NULL ? id.len != 0 || !out->empty
                          : out->end == CHAT_END_NONE && !out->stopped
                                && alive(data, out->worker))
        {
            return CHAT_OK;
        }

        before = *out;
        last = &before;
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


chat_rc_e
chat_place_read(chat_str_t text, chat_place_t *out)
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

    out->given = chat_batch_number(number, &out->after);
    return out->given ? CHAT_OK : CHAT_BAD;
}
