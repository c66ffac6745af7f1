/*
 * acts.c: what a test does in one worker to see the effect in another one.
 *
 * Arguments of the request: key (any text; the same in all workers), facts as
 * text, and others as described below. An act returns the store's answer. Must
 * not know: which worker it is in.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_chat_law.h"
#include "../buf_printf.h"

#define ACT_BURSTS 100
#define ACT_BURST 8 /* facts in each */
#define ACT_RACES 300


/* An argument of the request as text; empty if there is none. */
static const char *
act_arg(ngx_chat_law_t *law, const char *name)
{
    u_char   *p, *src, *dst;
    ngx_str_t value;

    if (ngx_http_arg(law->request, (u_char *) name, ngx_strlen(name), &value)
        != NGX_OK)
    {
        return "";
    }

    p = dst = ngx_pnalloc(law->request->pool, value.len + 1);
    if (p == NULL) {
        abort();
    }

    src = value.data;
    ngx_unescape_uri(&dst, &src, value.len, 0);
    *dst = '\0';
    return (const char *) p;
}


static ngx_uint_t
act_number(ngx_chat_law_t *law, const char *name)
{
    return (ngx_uint_t) atol(act_arg(law, name));
}


/* Key 0 of this act: what the test calls key, of a tenant (a number). */
static void
act_key(ngx_chat_law_t *law)
{
    law->keys[0].tenant = act_number(law, "tenant");
    chat_digest(chat_cstr(act_arg(law, "key")), &law->keys[0].name);
    chat_digest(chat_cstr("tag"), &law->keys[0].tag);
}


static const char *
act_rc(chat_rc_e rc)
{
    return rc == CHAT_OK ? "" : rc == CHAT_LIMIT ? "CHAT_LIMIT" : "CHAT_ERROR";
}


static void
act_tell(ngx_chat_law_t *law, ngx_uint_t i)
{
    chat_buf_puts(&law->told, act_rc(law->ops[i].rc));
    ngx_chat_law_write(&law->told, law->ops[i].facts, law->ops[i].n);
    ngx_chat_law_end(law);
}


static void
act_worker(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_buf_add(&law->told, law->store->worker);
    chat_buf_printf(&law->told, " %d", (int) ngx_pid);
    ngx_chat_law_end(law);
}


static const char *
act_state_of(const chat_store_t *store)
{
    return store->state == CHAT_STORE_UP            ? "up"
           : store->state == CHAT_STORE_UNAVAILABLE ? "away"
                                                    : "wavering";
}


static void
act_state(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_buf_puts(&law->told, act_state_of(law->store));
    ngx_chat_law_end(law);
}


/* of: a worker's name. */
static void
act_alive(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_buf_printf(
        &law->told, "%d",
        law->store->alive(law->store, chat_cstr(act_arg(law, "of"))));
    ngx_chat_law_end(law);
}


static void
act_join(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (step == 0) {
        act_key(law);
        ngx_chat_law_join(law, 0, 0, act_arg(law, "facts"));
    } else {
        act_tell(law, 0);
    }
}


/* A join without an op; it may still be pending when the act ends. */
static void
act_put(ngx_chat_law_t *law, ngx_uint_t step)
{
    act_key(law);
    ngx_chat_law_join(law, NGX_CHAT_LAW_NO_OP, 0, act_arg(law, "facts"));
    ngx_chat_law_flush(law);
    ngx_chat_law_end(law);
}


/* facts: the fields. */
static void
act_payloads(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (step == 0) {
        act_key(law);
        ngx_chat_law_payloads(law, 0, 0, act_arg(law, "facts"));
    } else {
        act_tell(law, 0);
    }
}


/* An entry of size bytes, or text. */
static void
act_append(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_str_t bytes = chat_cstr(act_arg(law, "text"));

    if (bytes.len == 0) {
        bytes.len = act_number(law, "size");
        bytes.data = ngx_pcalloc(law->request->pool, bytes.len + 1);
        if (bytes.data == NULL) {
            abort();
        }
    }

    act_key(law);
    ngx_chat_law_append(law, 0, act_number(law, "position"), bytes,
                        *act_arg(law, "last") != '\0',
                        act_number(law, "keep"));
    ngx_chat_law_flush(law);
    ngx_chat_law_end(law);
}


static void
act_read(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (step == 0) {
        act_key(law);
        ngx_chat_law_read_log(law, 0, 0, act_number(law, "position"));
    } else {
        act_tell(law, 0);
    }
}


/* An act that follows a log, or reads it once to its end. */
typedef struct {
    uint64_t   next;
    ngx_uint_t asked;
    ngx_uint_t seen; /* notifications before the read */
    ngx_uint_t pieces;
    ngx_uint_t gaps;
    ngx_uint_t last;
    size_t     bytes;
} act_log_t;


static void
act_log_ask(ngx_chat_law_t *law, act_log_t *log)
{
    log->asked = 1;
    log->seen = law->watches[0].notified;
    ngx_chat_law_read_log(law, 1, 0, log->next);
}


/* 1: no entry follows the answer. */
static ngx_uint_t
act_log_answered(ngx_chat_law_t *law, act_log_t *log)
{
    size_t             i;
    uint64_t           position;
    const chat_fact_t *piece;

    log->asked = 0;
    ngx_chat_law_check(law, law->ops[1].rc == CHAT_OK, "not answered");

    for (i = 0; i < law->ops[1].n; i++) {
        piece = &law->ops[1].facts[i];
        position = (uint64_t) ngx_atoi((u_char *) piece->field.data,
                                       piece->field.len);
        log->gaps += position != log->next;
        log->next = position + 1;
        log->last = chat_str_is(piece->value, "last");
        log->bytes += piece->payload.len;
        log->pieces++;
    }

    return log->last || law->ops[1].n == 0;
}


static void
act_log_tell(ngx_chat_law_t *law, const act_log_t *log)
{
    chat_buf_printf(&law->told, "%u pieces %lu bytes %u gaps%s",
                    (unsigned) log->pieces, (unsigned long) log->bytes,
                    (unsigned) log->gaps, log->last ? " last" : "");
    ngx_chat_law_end(law);
}


/* Watches with facts, and reads at each notification up to the last entry. */
static void
act_follow(ngx_chat_law_t *law, ngx_uint_t step)
{
    act_log_t *log = law->data;

    if (step == 0) {
        act_key(law);
        law->data = ngx_pcalloc(law->request->pool, sizeof(act_log_t));
        ngx_chat_law_watch(law, 0, 0, 0, act_arg(law, "facts"));

    } else if (!log->asked) {
        act_log_ask(law, log);

    } else if (act_log_answered(law, log)) {
        if (log->last) {
            act_log_tell(law, log);
        }
        law->watches[0].awaited = log->seen + 1;
    }
}


/* Reads all stored entries. */
static void
act_read_all(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (step == 0) {
        act_key(law);
        law->data = ngx_pcalloc(law->request->pool, sizeof(act_log_t));

    } else if (act_log_answered(law, law->data)) {
        act_log_tell(law, law->data);
        return;
    }

    act_log_ask(law, law->data);
}


static void
act_clear(ngx_chat_law_t *law, ngx_uint_t step)
{
    act_key(law);
    ngx_chat_law_clear(law, 0);
    ngx_chat_law_end(law);
}


/* One payload of size bytes. */
static void
act_big(ngx_chat_law_t *law, ngx_uint_t step)
{
    chat_fact_t fact;

    if (step > 0) {
        act_tell(law, 0);
        return;
    }

    act_key(law);
    fact.field = chat_cstr("big");
    fact.value = chat_cstr("o");
    fact.payload.len = act_number(law, "size");
    fact.payload.data = ngx_pcalloc(law->request->pool, fact.payload.len + 1);
    fact.has_payload = 1;

    if (fact.payload.data == NULL) {
        abort();
    }

    ngx_chat_law_join_facts(law, 0, 0, &fact, 1);
}


/*
 * Watches with facts, and looks again at each notification until the fact with
 * the field `until` exists; then returns all facts.
 */
static void
act_watch(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (step == 0) {
        act_key(law);
        ngx_chat_law_watch(law, 0, 0, 0, act_arg(law, "facts"));
        return;
    }

    if (step % 2 == 0) {
        law->number = law->watches[0].notified;
        ngx_chat_law_join(law, 0, 0, "");

    } else if (ngx_chat_law_find(law, 0, chat_cstr(act_arg(law, "until")))) {
        act_tell(law, 0);

    } else {
        law->watches[0].awaited = law->number + 1;
    }
}


/* Watches, and ends when it was notified and the store has that state. */
static void
act_hear(ngx_chat_law_t *law, ngx_uint_t step)
{
    const char *state = act_state_of(law->store);

    if (step == 0) {
        act_key(law);
        ngx_chat_law_watch(law, 0, 0, 0, "heard=1");

    } else if (step > 1 && ngx_strcmp(act_arg(law, "state"), state) == 0) {
        chat_buf_puts(&law->told, state);
        ngx_chat_law_end(law);

    } else {
        ngx_chat_law_await(law, 0);
    }
}


static ngx_uint_t act_losses; /* reported to this worker */
static void (*act_lost_before)(chat_store_t *store, int all);


static void
act_count_loss(chat_store_t *store, int all)
{
    act_losses++;

    if (act_lost_before != NULL) {
        act_lost_before(store, all);
    }
}


/* Counts losses from now on; returns the count so far. */
static void
act_losses_told(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (law->store->lost != act_count_loss) {
        act_lost_before = law->store->lost;
        law->store->lost = act_count_loss;
    }

    chat_buf_printf(&law->told, "%u", (unsigned) act_losses);
    ngx_chat_law_end(law);
}


/* Bursts of facts, one join each. */
static void
act_bursts(ngx_chat_law_t *law, ngx_uint_t step)
{
    char        field[ACT_BURST][24];
    size_t      i;
    chat_fact_t facts[ACT_BURST];

    act_key(law);

    if (step == ACT_BURSTS) {
        ngx_chat_law_end(law);
        return;
    }

    ngx_memzero(facts, sizeof(facts));

    for (i = 0; i < ACT_BURST; i++) {
        (void) snprintf(field[i], sizeof(field[i]), "b%u/%u", (unsigned) step,
                        (unsigned) i);
        facts[i].field = chat_cstr(field[i]);
        facts[i].value = chat_cstr("1");
        facts[i].payload = facts[i].field;
        facts[i].has_payload = i % 2 == 1;
    }

    ngx_chat_law_join_facts(law, 0, 0, facts, ACT_BURST);
}


/* Reads until all bursts are stored; a part of one must never be visible. */
static void
act_see_bursts(ngx_chat_law_t *law, ngx_uint_t step)
{
    if (step == 0) {
        act_key(law);

    } else {
        ngx_chat_law_check(law, law->ops[0].rc == CHAT_OK, "not answered");
        ngx_chat_law_check(law, law->ops[0].n % ACT_BURST == 0,
                           "a part of a join is visible");

        if (law->ops[0].n == ACT_BURSTS * ACT_BURST) {
            chat_buf_printf(&law->told, "%u reads", (unsigned) step);
            ngx_chat_law_end(law);
            return;
        }
    }

    ngx_chat_law_join(law, 0, 0, "");
}


/* Puts each of many facts for this worker; the answers must stay valid. */
static void
act_race(ngx_chat_law_t *law, ngx_uint_t step)
{
    char               field[24];
    u_char            *mine = law->data;
    chat_fact_t        fact;
    const chat_fact_t *found;

    if (step == 0) {
        act_key(law);
        mine = law->data = ngx_pcalloc(law->request->pool, ACT_RACES);
    }

    (void) snprintf(field, sizeof(field), "race/%u",
                    (unsigned) (step ? step - 1 : 0));

    if (step > 0) {
        found = ngx_chat_law_find(law, 0, chat_cstr(field));
        if (found == NULL) {
            ngx_chat_law_fail(law, "a join does not answer its own fact");
            return;
        }
        mine[step - 1] = chat_str_eq(found->value, law->store->worker);
    }

    if (step == ACT_RACES) {
        for (step = 0; step < ACT_RACES; step++) {
            chat_buf_puts(&law->told, mine[step] ? "+" : "-");
        }
        ngx_chat_law_end(law);
        return;
    }

    (void) snprintf(field, sizeof(field), "race/%u", (unsigned) step);
    ngx_memzero(&fact, sizeof(fact));
    fact.field = chat_cstr(field);
    fact.value = law->store->worker;
    ngx_chat_law_join_facts(law, 0, 0, &fact, 1);
}


const ngx_chat_law_def_t ngx_chat_acts[] = { { "worker", act_worker, 0 },
                                             { "state", act_state, 0 },
                                             { "alive", act_alive, 0 },
                                             { "join", act_join, 0 },
                                             { "put", act_put, 0 },
                                             { "payloads", act_payloads, 0 },
                                             { "append", act_append, 0 },
                                             { "read", act_read, 0 },
                                             { "follow", act_follow, 0 },
                                             { "read-all", act_read_all, 0 },
                                             { "clear", act_clear, 0 },
                                             { "big", act_big, 0 },
                                             { "watch", act_watch, 30 },
                                             { "hear", act_hear, 0 },
                                             { "losses", act_losses_told, 0 },
                                             { "bursts", act_bursts, 0 },
                                             { "see-bursts", act_see_bursts,
                                               30 },
                                             { "race", act_race, 30 },
                                             { NULL, NULL, 0 } };
