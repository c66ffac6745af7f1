/*
 * test_replay.c: the replay filter's verdicts, event by event.
 *
 * First the whole replay table: each state of a call at the client against
 * each event of it. Then cases outside the table.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "dialect/chat_dialect.h"
#include "stream/chat_replay.h"

#define PLACE 3

static chat_arena_t *arena;
static chat_calls_t  calls;
static chat_replay_t replay;
static chat_call_t   known[2];
static chat_hash_t   same, other;


static void
begin_with(int on, int strong_only, size_t n)
{
    chat_arena_destroy(arena);
    arena = chat_arena_create(0);
    chat_calls_init(&calls, arena, sizeof(chat_stream_call_t));
    chat_calls_know(&calls, known, n);
    assert_false(calls.failed);

    memset(&replay, 0, sizeof(replay));
    replay.calls = &calls;
    replay.on = on;
    replay.strong_only = strong_only;
}


static void
begin(int on, size_t n)
{
    begin_with(on, 0, n);
}


/* The client's call c1 before the stream. */
static void
know(int ready, chat_outcome_e outcome, chat_approval_e approval)
{
    memset(known, 0, sizeof(known));
    memset(&same, 1, sizeof(same));
    memset(&other, 2, sizeof(other));
    known[0].id = chat_cstr("c1");
    known[0].text = chat_cstr("{\"name\":\"find\"}");
    known[0].args = chat_dialect_openai_chat.form->args;
    known[0].fingerprint = same;
    known[0].printed = 1;
    known[0].digest = same;
    known[0].ready = ready;
    known[0].outcome = outcome;
    known[0].approval = approval;
}


/* An event of the call at this position, which is created if new. */
static chat_event_t
event(chat_event_e type, uint32_t place, const char *id)
{
    chat_event_t e;

    memset(&e, 0, sizeof(e));
    e.type = type;
    e.id = chat_cstr(id);
    e.call = chat_calls_at(&calls, place);

    if (e.call == NULL) {
        e.call = chat_calls_open_at(&calls, place, e.id, chat_str(NULL, 0));
    }

    if (type == CHAT_EVENT_CALL_OPEN || type == CHAT_EVENT_CALL_READY) {
        e.name = chat_cstr("find");
    }

    return e;
}


static chat_replay_verdict_e
judge(chat_event_t *e)
{
    chat_replay_judge(&replay, e);
    assert_false(calls.failed);
    return e->verdict;
}


static chat_replay_verdict_e
call_open(uint32_t place, const char *id)
{
    chat_event_t e = event(CHAT_EVENT_CALL_OPEN, place, id);

    return judge(&e);
}


static chat_replay_verdict_e
call_args(uint32_t place, const char *id)
{
    chat_event_t e = event(CHAT_EVENT_CALL_ARGS, place, id);

    return judge(&e);
}


static chat_replay_verdict_e
call_complete(uint32_t place, const char *id, const chat_hash_t *fingerprint,
              int failed)
{
    chat_event_t e = event(CHAT_EVENT_CALL_READY, place, id);

    e.failed = failed & 1;
    if (fingerprint != NULL) {
        e.digest = *fingerprint;
        e.has_digest = 1;
    }

    return judge(&e);
}


static chat_replay_verdict_e
call_ready(uint32_t place, const char *id, const chat_hash_t *fingerprint)
{
    return call_complete(place, id, fingerprint, 0);
}


static chat_replay_verdict_e
call_ask(const char *id)
{
    chat_event_t e = { .type = CHAT_EVENT_CALL_ASK, .id = chat_cstr(id) };

    return judge(&e);
}


static chat_replay_verdict_e
call_result(const char *id, chat_outcome_e outcome, const chat_hash_t *digest)
{
    chat_event_t e = { .type = CHAT_EVENT_CALL_RESULT, .id = chat_cstr(id) };

    e.outcome = outcome;
    e.digest = *digest;
    return judge(&e);
}


/* The newest opening of the call at this position. */
static const chat_opening_t *
opening_of(uint32_t place)
{
    const chat_stream_call_t *call = chat_calls_at(&calls, place);

    return call->opening;
}


/* One event of the table; F or D. */
static char
verdict_on(const char *what)
{
    chat_replay_verdict_e v = CHAT_REPLAY_WAIT;

    begin(1, known[0].id.len != 0);

    if (strcmp(what, "start, equal") == 0) {
        (void) call_open(PLACE, "c1");
        (void) call_ready(PLACE, "c1", &same);
        v = opening_of(PLACE)->verdict;
    } else if (strcmp(what, "start, other") == 0) {
        (void) call_open(PLACE, "c1");
        (void) call_ready(PLACE, "c1", &other);
        v = opening_of(PLACE)->verdict;
    } else if (strcmp(what, "delta") == 0) {
        v = call_args(PLACE, "c1");
    } else if (strcmp(what, "available") == 0) {
        v = call_ready(PLACE, "c1", &same);
    } else if (strcmp(what, "input-error") == 0) {
        v = call_complete(PLACE, "c1", &other, 1);
    } else if (strcmp(what, "ask") == 0) {
        v = call_ask("c1");
    } else if (strcmp(what, "equal output") == 0) {
        v = call_result("c1", CHAT_OUTCOME_OK, &same);
    } else if (strcmp(what, "other output") == 0) {
        v = call_result("c1", CHAT_OUTCOME_OK, &other);
    } else if (strcmp(what, "preliminary") == 0) {
        v = call_result("c1", CHAT_OUTCOME_PARTIAL, &other);
    } else if (strcmp(what, "output-error") == 0) {
        v = call_result("c1", CHAT_OUTCOME_ERROR, &other);
    } else if (strcmp(what, "denied") == 0) {
        v = call_result("c1", CHAT_OUTCOME_DENIED, &same);
    }

    assert_int_not_equal(v, CHAT_REPLAY_WAIT);
    return v == CHAT_REPLAY_DROP ? 'D' : 'F';
}


static void
s01_s12_the_replay_table(void **state)
{
    size_t i, k;

    static const struct {
        int             ready;
        chat_outcome_e  outcome;
        chat_approval_e approval;
    } states[] = {
        { 0, CHAT_OUTCOME_NONE, CHAT_APPROVAL_NONE }, /* absent */
        { 0, CHAT_OUTCOME_NONE, CHAT_APPROVAL_NONE }, /* input-streaming */
        { 1, CHAT_OUTCOME_NONE, CHAT_APPROVAL_NONE }, /* input-available */
        { 1, CHAT_OUTCOME_NONE, CHAT_APPROVAL_ASKED },
        { 1, CHAT_OUTCOME_NONE, CHAT_APPROVAL_GRANTED },
        { 1, CHAT_OUTCOME_NONE, CHAT_APPROVAL_REFUSED },
        { 1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE },
        { 1, CHAT_OUTCOME_ERROR, CHAT_APPROVAL_NONE },
        { 1, CHAT_OUTCOME_DENIED, CHAT_APPROVAL_REFUSED },
    };

    static const struct {
        const char *event;
        const char *verdicts; /* one per state */
    } rows[] = {
        { "start, equal", "FFDDDDDDD" }, { "start, other", "FFFFFFFFF" },
        { "delta", "FFDDDDDDD" },        { "available", "FFDDDDDDD" },
        { "input-error", "FFFFDDDDD" },  { "ask", "FFFFDDDDD" },
        { "equal output", "FFFFFFFDD" }, { "other output", "FFFFFFFDD" },
        { "preliminary", "FFFFFFDDD" },  { "output-error", "FFFFFFDFD" },
        { "denied", "FFFFDFDDD" },
    };

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (k = 0; k < sizeof(states) / sizeof(states[0]); k++) {
            know(states[k].ready, states[k].outcome, states[k].approval);
            if (k == 0) {
                known[0].id = chat_str(NULL, 0);
            }

            if (verdict_on(rows[i].event) != rows[i].verdicts[k]) {
                fail_msg("%s in state %zu", rows[i].event, k);
            }
        }
    }
}


static void
s14_another_name_is_another_call(void **state)
{
    chat_event_t e;

    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(1, 1);
    e = event(CHAT_EVENT_CALL_OPEN, PLACE, "c1");
    e.name = chat_cstr("else");
    assert_int_equal(judge(&e), CHAT_REPLAY_FORWARD);
    assert_int_equal(replay.count.reused, 1);

    /* A missing name does not matter. */
    begin(1, 1);
    e = event(CHAT_EVENT_CALL_OPEN, PLACE, "c1");
    e.name = chat_str(NULL, 0);
    assert_int_equal(judge(&e), CHAT_REPLAY_WAIT);
}


static void
a_verdict_is_latched(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(1, 1);
    assert_int_equal(call_open(PLACE, "c1"), CHAT_REPLAY_WAIT);
    assert_int_equal(call_args(PLACE, "c1"), CHAT_REPLAY_WAIT);
    chat_replay_decide(&replay, CHAT_REPLAY_FORWARD);
    assert_int_equal(call_args(PLACE, "c1"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ready(PLACE, "c1", &same), CHAT_REPLAY_FORWARD);
    assert_int_equal(replay.count.replays, 0);

    /* The client has all forwarded events from now on. */
    assert_int_equal(call_result("c1", CHAT_OUTCOME_ERROR, &other),
                     CHAT_REPLAY_FORWARD);
}


static void
an_id_may_be_corrected(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    known[1] = known[0];
    known[1].id = chat_cstr("c2");
    known[1].fingerprint = other;

    begin(1, 2);
    assert_int_equal(call_open(PLACE, "c1"), CHAT_REPLAY_WAIT);
    assert_int_equal(call_ready(PLACE, "c2", &other), CHAT_REPLAY_DROP);

    begin(1, 2);
    assert_int_equal(call_open(PLACE, "c1"), CHAT_REPLAY_WAIT);
    assert_int_equal(call_ready(PLACE, "c2", &same), CHAT_REPLAY_FORWARD);

    begin(1, 2);
    assert_int_equal(call_open(PLACE, "new"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ready(PLACE, "c1", &same), CHAT_REPLAY_FORWARD);
}


static void
the_last_entry_of_an_id_counts(void **state)
{
    know(0, CHAT_OUTCOME_NONE, CHAT_APPROVAL_NONE);
    known[1] = known[0];
    known[1].ready = 1;
    begin(1, 2);
    assert_int_equal(call_ready(PLACE, "c1", &same), CHAT_REPLAY_DROP);
}


static void
a_fingerprint_that_is_not_known_is_no_replay(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(1, 1);
    assert_int_equal(call_open(PLACE, "c1"), CHAT_REPLAY_WAIT);
    assert_int_equal(call_ready(PLACE, "c1", NULL), CHAT_REPLAY_FORWARD);
}


static void
s05_openings_within_one_stream(void **state)
{
    const chat_opening_t *first, *second, *third;

    begin(1, 0);
    assert_int_equal(call_open(0, "c1"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_open(0, "c1"), CHAT_REPLAY_DROP);
    first = opening_of(0);
    assert_ptr_equal(first, calls.first);
    assert_int_equal(call_args(0, "c1"), CHAT_REPLAY_FORWARD);

    assert_int_equal(call_open(1, "c1"), CHAT_REPLAY_DROP);
    assert_int_equal(call_args(1, "c1"), CHAT_REPLAY_DROP);
    assert_int_equal(call_ready(1, "c1", &same), CHAT_REPLAY_DROP);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_REPLAY_FORWARD);

    /* The call is ready: a further opening is a replay, or another call. */
    assert_int_equal(call_open(0, "c1"), CHAT_REPLAY_WAIT);
    second = opening_of(0);
    assert_ptr_not_equal(first, second);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_REPLAY_DROP);
    assert_int_equal(call_open(0, "c1"), CHAT_REPLAY_WAIT);
    assert_int_equal(call_ready(0, "c1", &other), CHAT_REPLAY_FORWARD);
    third = opening_of(0);

    assert_int_equal(first->verdict, CHAT_REPLAY_FORWARD);
    assert_int_equal(second->verdict, CHAT_REPLAY_DROP);
    assert_int_equal(third->verdict, CHAT_REPLAY_FORWARD);
}


/* Opens the call under a name. */
static chat_replay_verdict_e
call_named(uint32_t place, const char *id, const char *name)
{
    chat_event_t e = event(CHAT_EVENT_CALL_OPEN, place, id);

    e.name = chat_cstr(name);
    return judge(&e);
}


/* The ids of half-open calls, at most 4; returns how many. */
static size_t
half_open(chat_str_t *ids)
{
    size_t                n = 0;
    const chat_opening_t *opening = chat_calls_half_open(calls.first);

    for (/* void */; opening != NULL && n < 4;
         opening = chat_calls_half_open(opening->later))
    {
        ids[n++] = opening->known->id;
    }

    return n;
}


static unsigned nreads;


static chat_str_t
read_counted(chat_json_doc_t *doc, const chat_json_t *call,
             const chat_json_t **args)
{
    nreads++;
    return chat_dialect_openai_chat.form->args(doc, call, args);
}


/* An upstream may repeat a call often, and its text may be a whole body. */
static void
the_name_of_a_call_is_read_once(void **state)
{
    char     text[2000];
    unsigned i;

    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    known[0].args = read_counted;
    nreads = 0;
    begin(1, 1);

    for (i = 0; i < 3; i++) {
        assert_int_equal(call_open(PLACE, "c1"), CHAT_REPLAY_WAIT);
        assert_int_equal(call_ready(PLACE, "c1", &same), CHAT_REPLAY_DROP);
    }

    assert_int_equal(call_named(PLACE, "c1", "else"), CHAT_REPLAY_FORWARD);
    assert_int_equal(nreads, 1);

    /* however long it is */
    (void) snprintf(text, sizeof(text), "{\"name\":\"%01500d\"}", 0);
    known[0].text = chat_cstr(text);
    begin(1, 1);
    assert_int_equal(call_open(PLACE, "c1"), CHAT_REPLAY_FORWARD);
}


static void
s126_a_running_call_opened_under_another_name_is_forwarded(void **state)
{
    chat_str_t ids[4];

    begin(1, 0);
    assert_int_equal(call_named(0, "c1", "find"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_named(0, "c1", "find"), CHAT_REPLAY_DROP);
    assert_int_equal(call_named(0, "c1", "else"), CHAT_REPLAY_FORWARD);
    assert_ptr_equal(calls.last, opening_of(0));
    assert_ptr_not_equal(calls.first, opening_of(0));
    assert_int_equal(call_named(0, "c1", "else"), CHAT_REPLAY_DROP);
    assert_int_equal(replay.count.replays, 2);

    /* The call opens once and ends once. */
    assert_int_equal(half_open(ids), 1);
    assert_int_equal(call_args(0, "c1"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_REPLAY_FORWARD);
    assert_int_equal(half_open(ids), 0);

    /* In another slot, too. */
    begin(1, 0);
    assert_int_equal(call_named(0, "c1", "find"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_named(1, "c1", "else"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ready(1, "c1", &same), CHAT_REPLAY_FORWARD);
}


static void
s126_a_replay_that_waits_is_let_go_by_another_name(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(1, 1);
    assert_int_equal(call_named(0, "c1", "find"), CHAT_REPLAY_WAIT);
    assert_int_equal(call_named(0, "c1", "else"), CHAT_REPLAY_FORWARD);
    assert_int_equal(calls.first->verdict, CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_REPLAY_FORWARD);
}


static void
s111_a_weak_id_is_no_replay_where_the_model_may_reuse_it(void **state)
{
    static const char *const weak[] = { "call_0", "functions.w:0", "c1" };
    size_t                   i;

    for (i = 0; i < sizeof(weak) / sizeof(weak[0]); i++) {
        know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
        known[0].id = chat_cstr(weak[i]);
        begin_with(1, 1, 1);
        assert_int_equal(call_open(0, weak[i]), CHAT_REPLAY_FORWARD);
        assert_int_equal(call_open(1, weak[i]), CHAT_REPLAY_FORWARD);
        assert_int_equal(call_ready(0, weak[i], &same), CHAT_REPLAY_FORWARD);
        assert_int_equal(call_ready(1, weak[i], &same), CHAT_REPLAY_FORWARD);
        assert_int_equal(call_args(2, weak[i]), CHAT_REPLAY_FORWARD);
        assert_int_equal(call_ready(3, weak[i], &same), CHAT_REPLAY_FORWARD);
        assert_int_equal(call_result(weak[i], CHAT_OUTCOME_DENIED, &other),
                         CHAT_REPLAY_FORWARD);
    }
}


static void
s112_a_strong_id_is_a_replay_everywhere(void **state)
{
    static const char *strong = "call_WvbU2m4QkPq8sT1xYz5A7cDe";

    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    known[0].id = chat_cstr(strong);
    begin_with(1, 1, 1);
    assert_int_equal(call_open(0, strong), CHAT_REPLAY_WAIT);
    assert_int_equal(call_ready(0, strong, &same), CHAT_REPLAY_DROP);
    assert_int_equal(call_args(1, strong), CHAT_REPLAY_DROP);
}


static void
calls_without_an_id_are_forwarded(void **state)
{
    begin(1, 0);
    assert_int_equal(call_open(0, ""), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_open(1, ""), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ready(0, "", &same), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ready(1, "", &same), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ask(""), CHAT_REPLAY_FORWARD);
}


static void
half_open_calls_in_order(void **state)
{
    chat_str_t ids[4];

    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(1, 1);
    (void) call_open(0, "b");
    (void) call_open(1, "c1");
    (void) call_open(2, "a");
    (void) call_open(3, "d");
    (void) call_ready(2, "a", &same);
    chat_replay_decide(&replay, CHAT_REPLAY_DROP);
    assert_int_equal(half_open(ids), 2);
    assert_true(chat_str_is(ids[0], "b"));
    assert_true(chat_str_is(ids[1], "d"));
}


static void
past_the_bound_nothing_is_opened(void **state)
{
    char     id[16];
    size_t   used;
    uint32_t i;

    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(1, 1);

    for (i = 0; i < CHAT_OPENED_MAX; i++) {
        (void) snprintf(id, sizeof(id), "x%u", i % 4095);
        assert_non_null(
            chat_calls_open_at(&calls, i, chat_cstr(id), chat_str(NULL, 0)));
        (void) call_open(i, id);
    }
    assert_int_equal(call_args(4095, "x0"), CHAT_REPLAY_DROP);

    used = chat_arena_used(arena);
    assert_null(
        chat_calls_open_at(&calls, i, chat_cstr("c1"), chat_cstr("find")));
    assert_null(chat_calls_open(&calls, chat_cstr("c1"), chat_cstr("find")));
    assert_null(
        chat_calls_open_at(&calls, 0, chat_cstr("y"), chat_cstr("find")));

    /*
     * A running call may be opened again under its name, any number of times.
     */
    assert_non_null(
        chat_calls_open_at(&calls, 0, chat_cstr("x0"), chat_str(NULL, 0)));
    assert_int_equal(call_open(0, "x0"), CHAT_REPLAY_DROP);
    assert_int_equal(chat_arena_used(arena), used);
    assert_false(calls.failed);
}


/* Calls are removed in any order, and a position may be reused. */
static void
a_place_counts_the_dropped_ones_below_it(void **state)
{
    size_t             i;
    chat_stream_call_t call = { 0 };

    static const struct {
        uint32_t place;
        int      dropped;
    } rows[] = { { 5, 1 }, { 0, 0 }, { 1, 1 }, { 7, 1 },
                 { 2, 1 }, { 7, 0 }, { 5, 1 } };

    begin(0, 0);
    assert_int_equal(chat_calls_below(&calls, 0, 9), 0);
    assert_false(chat_calls_all_dropped(&calls));

    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        call.place = rows[i].place;
        chat_calls_left(&calls, &call, rows[i].dropped);
        assert_int_equal(chat_calls_all_dropped(&calls), i == 0);
    }

    assert_int_equal(calls.ndropped, 3);
    assert_int_equal(chat_calls_below(&calls, 0, 0), 0);
    assert_int_equal(chat_calls_below(&calls, 0, 1), 0);
    assert_int_equal(chat_calls_below(&calls, 0, 2), 1);
    assert_int_equal(chat_calls_below(&calls, 0, 6), 3);
    assert_int_equal(chat_calls_below(&calls, 0, 9), 3);
    assert_int_equal(chat_calls_below(&calls, 2, 6), 2);
    assert_int_equal(chat_calls_below(&calls, 3, 4), 0);
}


static void
off_forwards_all_and_counts(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_GRANTED);
    begin(0, 1);
    assert_int_equal(call_open(0, "c1"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_open(0, "c1"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_args(0, "c1"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_ask("c1"), CHAT_REPLAY_FORWARD);
    assert_int_equal(call_result("c1", CHAT_OUTCOME_DENIED, &same),
                     CHAT_REPLAY_FORWARD);
    assert_int_equal(replay.count.opened, 1);
    assert_int_equal(replay.count.replays, 0);
    assert_int_equal(replay.count.results, 0);
}


static int
teardown(void **state)
{
    chat_arena_destroy(arena);
    arena = NULL;
    return 0;
}


#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(s01_s12_the_replay_table),
        TEST(s14_another_name_is_another_call),
        TEST(a_verdict_is_latched),
        TEST(an_id_may_be_corrected),
        TEST(the_last_entry_of_an_id_counts),
        TEST(a_fingerprint_that_is_not_known_is_no_replay),
        TEST(s05_openings_within_one_stream),
        TEST(the_name_of_a_call_is_read_once),
        TEST(s126_a_running_call_opened_under_another_name_is_forwarded),
        TEST(s126_a_replay_that_waits_is_let_go_by_another_name),
        TEST(s111_a_weak_id_is_no_replay_where_the_model_may_reuse_it),
        TEST(s112_a_strong_id_is_a_replay_everywhere),
        TEST(calls_without_an_id_are_forwarded),
        TEST(half_open_calls_in_order),
        TEST(past_the_bound_nothing_is_opened),
        TEST(a_place_counts_the_dropped_ones_below_it),
        TEST(off_forwards_all_and_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
