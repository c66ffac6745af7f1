/*
 * test_filter.c: the replay filter's verdicts, event by event.
 *
 * First the whole replay table: each state in which the client can have a
 * call against each event about it. Then what the table does not say.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stream/chat_filter.h"

#define SLOT 3

static chat_arena_t  *arena;
static chat_filter_t *filter;
static chat_call_t    known[2];
static chat_digest_t  same, other;


static void
begin_with(chat_replay_e mode, int strong_only, size_t n)
{
    chat_arena_destroy(arena);
    arena = chat_arena_create(0);
    filter = chat_filter_create(arena, mode, strong_only, known, n);
    assert_non_null(filter);
}


static void
begin(chat_replay_e mode, size_t n)
{
    begin_with(mode, 0, n);
}


/* The client's call c1 as it stands before the stream. */
static void
know(int ready, chat_outcome_e outcome, chat_approval_e approval)
{
    memset(known, 0, sizeof(known));
    memset(&same, 1, sizeof(same));
    memset(&other, 2, sizeof(other));
    known[0].id = chat_cstr("c1");
    known[0].name = chat_cstr("find");
    known[0].fingerprint = same;
    known[0].digest = same;
    known[0].ready = ready;
    known[0].outcome = outcome;
    known[0].approval = approval;
}


static chat_event_t
event(chat_event_e type, uint32_t slot, const char *id)
{
    chat_event_t e;

    memset(&e, 0, sizeof(e));
    e.type = type;
    e.slot = slot;
    e.id = chat_cstr(id);

    if (type == CHAT_EVENT_CALL_OPEN || type == CHAT_EVENT_CALL_READY) {
        e.name = chat_cstr("find");
    }

    return e;
}


static chat_verdict_e
call_open(uint32_t slot, const char *id)
{
    chat_event_t e = event(CHAT_EVENT_CALL_OPEN, slot, id);

    return chat_filter_event(filter, &e, NULL);
}


static chat_verdict_e
call_args(uint32_t slot, const char *id)
{
    chat_event_t e = event(CHAT_EVENT_CALL_ARGS, slot, id);

    return chat_filter_event(filter, &e, NULL);
}


static chat_verdict_e
call_ready(uint32_t slot, const char *id, const chat_digest_t *fingerprint)
{
    chat_event_t e = event(CHAT_EVENT_CALL_READY, slot, id);

    return chat_filter_event(filter, &e, fingerprint);
}


static chat_verdict_e
call_failed(uint32_t slot, const char *id, const chat_digest_t *fingerprint)
{
    chat_event_t e = event(CHAT_EVENT_CALL_READY, slot, id);

    e.failed = 1;
    return chat_filter_event(filter, &e, fingerprint);
}


static chat_verdict_e
call_ask(const char *id)
{
    chat_event_t e = event(CHAT_EVENT_CALL_ASK, 0, id);

    return chat_filter_event(filter, &e, NULL);
}


static chat_verdict_e
call_result(const char *id, chat_outcome_e outcome,
            const chat_digest_t *digest)
{
    chat_event_t e = event(CHAT_EVENT_CALL_RESULT, 0, id);

    e.outcome = outcome;
    e.digest = *digest;
    return chat_filter_event(filter, &e, NULL);
}


/* One event of the table; F or D. */
static char
verdict_on(const char *what)
{
    chat_verdict_e v = CHAT_VERDICT_WAIT;

    begin(CHAT_REPLAY_ID_ARGS, known[0].id.len != 0);

    if (strcmp(what, "start, equal") == 0) {
        (void) call_open(SLOT, "c1");
        (void) call_ready(SLOT, "c1", &same);
        v = chat_filter_verdict(filter, SLOT, 0);
    } else if (strcmp(what, "start, other") == 0) {
        (void) call_open(SLOT, "c1");
        (void) call_ready(SLOT, "c1", &other);
        v = chat_filter_verdict(filter, SLOT, 0);
    } else if (strcmp(what, "delta") == 0) {
        v = call_args(SLOT, "c1");
    } else if (strcmp(what, "available") == 0) {
        v = call_ready(SLOT, "c1", &same);
    } else if (strcmp(what, "input-error") == 0) {
        v = call_failed(SLOT, "c1", &other);
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

    assert_int_not_equal(v, CHAT_VERDICT_WAIT);
    return v == CHAT_VERDICT_DROP ? 'D' : 'F';
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
    chat_event_t e = event(CHAT_EVENT_CALL_OPEN, SLOT, "c1");

    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(CHAT_REPLAY_ID_ARGS, 1);
    e.name = chat_cstr("else");
    assert_int_equal(chat_filter_event(filter, &e, NULL),
                     CHAT_VERDICT_FORWARD);
    assert_int_equal(chat_filter_count(filter)->reused, 1);

    /* No name says nothing. */
    begin(CHAT_REPLAY_ID_ARGS, 1);
    e.name = chat_str(NULL, 0);
    assert_int_equal(chat_filter_event(filter, &e, NULL), CHAT_VERDICT_WAIT);
}


static void
a_verdict_is_latched(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(CHAT_REPLAY_ID_ARGS, 1);
    assert_int_equal(call_open(SLOT, "c1"), CHAT_VERDICT_WAIT);
    assert_int_equal(call_args(SLOT, "c1"), CHAT_VERDICT_WAIT);
    chat_filter_settle(filter, CHAT_VERDICT_FORWARD);
    assert_int_equal(call_args(SLOT, "c1"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(SLOT, "c1", &same), CHAT_VERDICT_FORWARD);
    assert_int_equal(chat_filter_count(filter)->replays, 0);

    /* What was forwarded is what the client has from now on. */
    assert_int_equal(call_result("c1", CHAT_OUTCOME_ERROR, &other),
                     CHAT_VERDICT_FORWARD);
}


static void
an_id_may_be_corrected(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    known[1] = known[0];
    known[1].id = chat_cstr("c2");
    known[1].fingerprint = other;

    begin(CHAT_REPLAY_ID_ARGS, 2);
    assert_int_equal(call_open(SLOT, "c1"), CHAT_VERDICT_WAIT);
    assert_int_equal(call_ready(SLOT, "c2", &other), CHAT_VERDICT_DROP);

    begin(CHAT_REPLAY_ID_ARGS, 2);
    assert_int_equal(call_open(SLOT, "c1"), CHAT_VERDICT_WAIT);
    assert_int_equal(call_ready(SLOT, "c2", &same), CHAT_VERDICT_FORWARD);

    begin(CHAT_REPLAY_ID_ARGS, 2);
    assert_int_equal(call_open(SLOT, "new"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(SLOT, "c1", &same), CHAT_VERDICT_FORWARD);
}


static void
the_last_entry_of_an_id_counts(void **state)
{
    know(0, CHAT_OUTCOME_NONE, CHAT_APPROVAL_NONE);
    known[1] = known[0];
    known[1].ready = 1;
    begin(CHAT_REPLAY_ID_ARGS, 2);
    assert_int_equal(call_ready(SLOT, "c1", &same), CHAT_VERDICT_DROP);
}


static void
a_fingerprint_that_is_not_known_is_no_replay(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(CHAT_REPLAY_ID_ARGS, 1);
    assert_int_equal(call_open(SLOT, "c1"), CHAT_VERDICT_WAIT);
    assert_int_equal(call_ready(SLOT, "c1", NULL), CHAT_VERDICT_FORWARD);
}


static void
s05_openings_within_one_stream(void **state)
{
    begin(CHAT_REPLAY_ID_ARGS, 0);
    assert_int_equal(call_open(0, "c1"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_open(0, "c1"), CHAT_VERDICT_DROP);
    assert_int_equal(chat_filter_generation(filter, 0), 0);
    assert_int_equal(call_args(0, "c1"), CHAT_VERDICT_FORWARD);

    assert_int_equal(call_open(1, "c1"), CHAT_VERDICT_DROP);
    assert_int_equal(call_args(1, "c1"), CHAT_VERDICT_DROP);
    assert_int_equal(call_ready(1, "c1", &same), CHAT_VERDICT_DROP);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_VERDICT_FORWARD);

    /* Ready now: a further one is a replay, or another call. */
    assert_int_equal(call_open(0, "c1"), CHAT_VERDICT_WAIT);
    assert_int_equal(chat_filter_generation(filter, 0), 1);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_VERDICT_DROP);
    assert_int_equal(call_open(0, "c1"), CHAT_VERDICT_WAIT);
    assert_int_equal(call_ready(0, "c1", &other), CHAT_VERDICT_FORWARD);

    assert_int_equal(chat_filter_verdict(filter, 0, 0), CHAT_VERDICT_FORWARD);
    assert_int_equal(chat_filter_verdict(filter, 0, 1), CHAT_VERDICT_DROP);
    assert_int_equal(chat_filter_verdict(filter, 0, 2), CHAT_VERDICT_FORWARD);
}


/* Opens the call under a name. */
static chat_verdict_e
call_named(uint32_t slot, const char *id, const char *name)
{
    chat_event_t e = event(CHAT_EVENT_CALL_OPEN, slot, id);

    e.name = chat_cstr(name);
    return chat_filter_event(filter, &e, NULL);
}


static void
s126_a_running_call_opened_under_another_name_is_forwarded(void **state)
{
    chat_str_t ids[4];

    begin(CHAT_REPLAY_ID_ARGS, 0);
    assert_int_equal(call_named(0, "c1", "find"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_named(0, "c1", "find"), CHAT_VERDICT_DROP);
    assert_int_equal(call_named(0, "c1", "else"), CHAT_VERDICT_FORWARD);
    assert_int_equal(chat_filter_generation(filter, 0), 1);
    assert_int_equal(call_named(0, "c1", "else"), CHAT_VERDICT_DROP);
    assert_int_equal(chat_filter_count(filter)->replays, 2);

    /* The call is half-open once, and ends once. */
    assert_int_equal(chat_filter_half_open(filter, ids, 4), 1);
    assert_int_equal(call_args(0, "c1"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_VERDICT_FORWARD);
    assert_int_equal(chat_filter_half_open(filter, ids, 4), 0);

    /* In another slot, too. */
    begin(CHAT_REPLAY_ID_ARGS, 0);
    assert_int_equal(call_named(0, "c1", "find"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_named(1, "c1", "else"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(1, "c1", &same), CHAT_VERDICT_FORWARD);
}


static void
s126_a_replay_that_waits_is_let_go_by_another_name(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(CHAT_REPLAY_ID_ARGS, 1);
    assert_int_equal(call_named(0, "c1", "find"), CHAT_VERDICT_WAIT);
    assert_int_equal(call_named(0, "c1", "else"), CHAT_VERDICT_FORWARD);
    assert_int_equal(chat_filter_verdict(filter, 0, 0), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_VERDICT_FORWARD);
}


static void
s111_a_weak_id_is_no_replay_where_the_model_may_reuse_it(void **state)
{
    static const char *const weak[] = { "call_0", "functions.w:0", "c1" };
    size_t                   i;

    for (i = 0; i < sizeof(weak) / sizeof(weak[0]); i++) {
        know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
        known[0].id = chat_cstr(weak[i]);
        begin_with(CHAT_REPLAY_ID_ARGS, 1, 1);
        assert_int_equal(call_open(0, weak[i]), CHAT_VERDICT_FORWARD);
        assert_int_equal(call_open(1, weak[i]), CHAT_VERDICT_FORWARD);
        assert_int_equal(call_ready(0, weak[i], &same), CHAT_VERDICT_FORWARD);
        assert_int_equal(call_ready(1, weak[i], &same), CHAT_VERDICT_FORWARD);
        assert_int_equal(call_args(2, weak[i]), CHAT_VERDICT_FORWARD);
        assert_int_equal(call_ready(3, weak[i], &same), CHAT_VERDICT_FORWARD);
        assert_int_equal(call_result(weak[i], CHAT_OUTCOME_DENIED, &other),
                         CHAT_VERDICT_FORWARD);

        begin_with(CHAT_REPLAY_ID, 1, 1);
        assert_int_equal(call_open(0, weak[i]), CHAT_VERDICT_FORWARD);
    }
}


static void
s112_a_strong_id_is_a_replay_everywhere(void **state)
{
    static const char *strong = "call_WvbU2m4QkPq8sT1xYz5A7cDe";

    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    known[0].id = chat_cstr(strong);
    begin_with(CHAT_REPLAY_ID_ARGS, 1, 1);
    assert_int_equal(call_open(0, strong), CHAT_VERDICT_WAIT);
    assert_int_equal(call_ready(0, strong, &same), CHAT_VERDICT_DROP);
    assert_int_equal(call_args(1, strong), CHAT_VERDICT_DROP);
}


static void
calls_without_an_id_are_forwarded(void **state)
{
    begin(CHAT_REPLAY_ID, 0);
    assert_int_equal(call_open(0, ""), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_open(1, ""), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(0, "", &same), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(1, "", &same), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ask(""), CHAT_VERDICT_FORWARD);
}


static void
half_open_calls_in_order(void **state)
{
    chat_str_t ids[4];

    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(CHAT_REPLAY_ID_ARGS, 1);
    (void) call_open(0, "b");
    (void) call_open(1, "c1");
    (void) call_open(2, "a");
    (void) call_open(3, "d");
    (void) call_ready(2, "a", &same);
    chat_filter_settle(filter, CHAT_VERDICT_DROP);
    assert_int_equal(chat_filter_half_open(filter, ids, 4), 2);
    assert_true(chat_str_is(ids[0], "b"));
    assert_true(chat_str_is(ids[1], "d"));
    assert_int_equal(chat_filter_half_open(filter, ids, 1), 1);
}


static void
past_the_bound_all_is_forwarded(void **state)
{
    char     id[16];
    size_t   used;
    uint32_t i;

    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_NONE);
    begin(CHAT_REPLAY_ID_ARGS, 1);

    for (i = 0; i < 4096; i++) {
        (void) snprintf(id, sizeof(id), "x%u", i % 4095);
        (void) call_open(i, id);
    }
    assert_int_equal(call_args(4095, "x0"), CHAT_VERDICT_DROP);

    used = chat_arena_used(arena);
    assert_int_equal(call_open(4096, "c1"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(4096, "c1", &same), CHAT_VERDICT_FORWARD);

    /* A slot that had another verdict begins anew. */
    assert_int_equal(chat_filter_generation(filter, 4095), 0);
    assert_int_equal(call_open(4095, "y"), CHAT_VERDICT_FORWARD);
    assert_int_equal(chat_filter_generation(filter, 4095), 1);
    assert_int_equal(call_args(4095, "y"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(4095, "y", &same), CHAT_VERDICT_FORWARD);
    assert_int_equal(chat_arena_used(arena), used);
}


static void
off_forwards_all_and_counts(void **state)
{
    know(1, CHAT_OUTCOME_OK, CHAT_APPROVAL_GRANTED);
    begin(CHAT_REPLAY_OFF, 1);
    assert_int_equal(call_open(0, "c1"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_open(0, "c1"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ready(0, "c1", &same), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_args(0, "c1"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_ask("c1"), CHAT_VERDICT_FORWARD);
    assert_int_equal(call_result("c1", CHAT_OUTCOME_DENIED, &same),
                     CHAT_VERDICT_FORWARD);
    assert_int_equal(chat_filter_count(filter)->opened, 1);
    assert_int_equal(chat_filter_count(filter)->replays, 0);
    assert_int_equal(chat_filter_count(filter)->results, 0);
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
        TEST(s126_a_running_call_opened_under_another_name_is_forwarded),
        TEST(s126_a_replay_that_waits_is_let_go_by_another_name),
        TEST(s111_a_weak_id_is_no_replay_where_the_model_may_reuse_it),
        TEST(s112_a_strong_id_is_a_replay_everywhere),
        TEST(calls_without_an_id_are_forwarded),
        TEST(half_open_calls_in_order),
        TEST(past_the_bound_all_is_forwarded),
        TEST(off_forwards_all_and_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
