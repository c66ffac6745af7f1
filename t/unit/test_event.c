/*
 * test_event.c: events, fingerprints, and the lists of a request.
 *
 * Which calls are equal, which are members, when one has a result: the model's
 * own rules, without a wire format.
 */

#include "model/chat_event.h"
#include "model/chat_request.h"
#include "../tenant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* Builds without ASan do not count. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t
allocated(void)
{
    return __sanitizer_get_current_allocated_bytes
               ? __sanitizer_get_current_allocated_bytes()
               : 0;
}


static chat_hash_t
fingerprint(const char *name, const char *args)
{
    chat_hash_t d;

    assert_int_equal(chat_fingerprint(&test_tenant, chat_cstr(name),
                                      chat_cstr(args), chat_arena_scratch(),
                                      &d),
                     CHAT_OK);

    return d;
}


static int
is_same(const char *args, const char *others)
{
    chat_hash_t a = fingerprint("search", args);
    chat_hash_t b = fingerprint("search", others);

    return chat_hash_eq(&a, &b);
}


static void
s15_key_order_is_the_same_call(void **state)
{
    assert_true(is_same("{\"a\":1,\"b\":{\"c\":2,\"d\":3}}",
                        " {\"b\": {\"d\":3,\"c\":2},\n\"a\" : 1}"));
}


static void
s106_numbers_are_the_same_call_however_written(void **state)
{
    assert_true(is_same("{\"n\":1.0}", "{\"n\":1}"));
    assert_true(is_same("{\"n\":1e3}", "{\"n\":1000}"));
    assert_true(
        is_same("{\"n\":12345678901234567}", "{\"n\":12345678901234568}"));
    assert_true(is_same("{\"s\":\"\\u00e9\"}", "{\"s\":\"\xc3\xa9\"}"));
}


static void
s14_other_arguments_are_another_call(void **state)
{
    chat_hash_t a, b;

    assert_false(is_same("{\"a\":1}", "{\"a\":2}"));
    assert_false(is_same("{\"a\":1}", "{\"a\":\"1\"}"));
    assert_false(is_same("{\"a\":1}", "{\"b\":1}"));
    assert_false(is_same("[1,2]", "[2,1]"));

    a = fingerprint("search", "{}");
    b = fingerprint("fetch", "{}");
    assert_false(chat_hash_eq(&a, &b));

    a = fingerprint("search", "1");
    b = fingerprint("search1", "");
    assert_false(chat_hash_eq(&a, &b));
}


static void
no_arguments_are_an_empty_object(void **state)
{
    assert_true(is_same("", "{}"));
    assert_true(is_same("", " { } "));
    assert_false(is_same("", "null"));
    assert_false(is_same("", "\"\""));
}


static void
arguments_that_are_no_json_count_as_bytes(void **state)
{
    size_t      i;
    char        deep[400];
    chat_hash_t a, b;

    assert_true(is_same("{\"a\":", "{\"a\":"));
    assert_false(is_same("{\"a\":", "{\"a\": "));
    assert_false(is_same("{\"a\":", "{\"b\":"));

    /* too deep to be parsed, but still a call */
    for (i = 0; i < 200; i++) {
        deep[i] = '[';
        deep[200 + i] = ']';
    }

    assert_int_equal(chat_fingerprint(&test_tenant, chat_cstr("f"),
                                      chat_str(deep, 400),
                                      chat_arena_scratch(), &a),
                     CHAT_OK);
    assert_int_equal(chat_fingerprint(&test_tenant, chat_cstr("f"),
                                      chat_str(deep, 400),
                                      chat_arena_scratch(), &b),
                     CHAT_OK);
    assert_true(chat_hash_eq(&a, &b));

    /* bytes that are not UTF-8 */
    assert_true(is_same("\"\xff\"", "\"\xff\""));
    assert_false(is_same("\"\xff\"", "\"\xfe\""));
}


static void
bytes_never_equal_a_value(void **state)
{
    chat_hash_t d, bytes;
    chat_mix_t  mix;

    d = fingerprint("f", "1");
    chat_mix_init(&mix, &test_tenant);
    chat_mix_add(&mix, chat_cstr("f"));
    chat_mix_add(&mix, chat_cstr("bytes"));
    chat_mix_add(&mix, chat_cstr("1"));
    chat_mix_end(&mix, bytes.bytes);
    assert_false(chat_hash_eq(&d, &bytes));
}


/* The blocks would stay until the process makes the next fingerprint. */
static void
a_fingerprint_leaves_no_memory_behind(void **state)
{
    size_t      i, before;
    chat_buf_t  args = { 0 };
    chat_hash_t hash;
    chat_call_t call = { .tenant = &test_tenant, .hash = chat_json_mix };

    for (i = 0; i < 100000; i++) {
        chat_buf_puts(&args, i == 0 ? "[{}" : ",{}");
    }

    chat_buf_puts(&args, "]");
    before = allocated();
    assert_int_equal(chat_fingerprint(&test_tenant, chat_cstr("f"),
                                      chat_buf_str(&args),
                                      chat_arena_scratch(), &hash),
                     CHAT_OK);
    call.said = chat_buf_str(&args);
    assert_non_null(chat_call_digest(&call));
    assert_int_equal(allocated(), before);
    chat_buf_free(&args);
}


static void
events_keep_their_order(void **state)
{
    size_t        i;
    chat_arena_t *arena = chat_arena_create(0);
    chat_event_t *event;
    chat_events_t events = { 0 };

    events.arena = arena;

    for (i = 0; i < 100; i++) {
        event = chat_events_add(&events, CHAT_EVENT_CALL_ARGS);
        assert_non_null(event);
        assert_null(event->call);
        assert_int_equal(event->digest.bytes[0], 0);
        assert_int_equal(event->id.len, 0);
        event->digest.bytes[0] = (unsigned char) i;
        event->id = chat_cstr("x");
    }

    assert_int_equal(events.count, 100);

    for (i = 0; i < 100; i++) {
        assert_int_equal(events.items[i].type, CHAT_EVENT_CALL_ARGS);
        assert_int_equal(events.items[i].digest.bytes[0], i);
    }

    /* used again: nothing remains of the last frame */
    events.count = 0;
    event = chat_events_add(&events, CHAT_EVENT_OPAQUE);
    assert_int_equal(event->type, CHAT_EVENT_OPAQUE);
    assert_int_equal(event->id.len, 0);

    chat_arena_destroy(arena);
}


static void
without_memory_nothing_is_added(void **state)
{
    size_t         count;
    chat_arena_t  *arena = chat_arena_create(4000);
    chat_events_t  events = { 0 };
    chat_request_t rq = { 0 };

    events.arena = arena;
    while (!events.failed) {
        (void) chat_events_add(&events, CHAT_EVENT_OPAQUE);
        assert_true(events.count < 1000);
    }

    /* the failure is sticky, even with memory available again */
    chat_arena_reset(arena);
    count = events.count;
    chat_events_add(&events, CHAT_EVENT_CALL_OPEN)->id = chat_cstr("x");
    chat_events_mark(&events, NULL)->place = 1;
    assert_true(events.failed);
    assert_int_equal(events.count, count);
    assert_int_equal(events.nmarks, 0);

    assert_non_null(chat_request_add_step(&rq, arena));
    while (chat_request_add_call(&rq, arena) != NULL) {
        assert_true(rq.ncalls < 1000);
    }

    assert_int_equal(rq.nsteps, 1);
    assert_int_equal(rq.steps[0].count, rq.ncalls);

    chat_arena_destroy(arena);
}


static void
calls_belong_to_the_last_step(void **state)
{
    size_t         i, k;
    chat_arena_t  *arena = chat_arena_create(0);
    chat_request_t rq = { 0 };

    /* step i has i % 4 calls */
    for (i = 0; i < 50; i++) {
        assert_non_null(chat_request_add_step(&rq, arena));

        for (k = 0; k < i % 4; k++) {
            assert_non_null(chat_request_add_call(&rq, arena));
            rq.calls[rq.ncalls - 1].id = chat_cstr("x");
        }
    }

    assert_int_equal(rq.nsteps, 50);
    assert_int_equal(rq.ncalls, 73);

    for (i = 0, k = 0; i < 50; i++) {
        assert_int_equal(rq.steps[i].first, k);
        assert_int_equal(rq.steps[i].count, i % 4);

        for (/* void */; k < rq.steps[i].first + rq.steps[i].count; k++) {
            assert_int_equal(rq.calls[k].step, i);
            assert_true(chat_str_is(rq.calls[k].id, "x"));
        }
    }

    chat_arena_destroy(arena);
}


static void
s43_members_are_what_the_client_must_answer(void **state)
{
    chat_call_t call = { 0 };

    call.id = chat_cstr("c");
    call.ready = 1;
    assert_true(chat_call_is_member(&call));

    call.kind = CHAT_KIND_APPROVAL;
    assert_true(chat_call_is_member(&call));

    call.kind = CHAT_KIND_PROVIDER;
    assert_false(chat_call_is_member(&call));

    call.kind = CHAT_KIND_CLIENT;
    call.ready = 0;
    assert_false(chat_call_is_member(&call));

    call.ready = 1;
    call.id = chat_cstr("");
    assert_false(chat_call_is_member(&call));
}


static void
s10_a_preliminary_output_settles_nothing(void **state)
{
    size_t      i;
    chat_call_t call = { 0 };

    static const int settles[] = {
        [CHAT_OUTCOME_NONE] = 0,    [CHAT_OUTCOME_OK] = 1,
        [CHAT_OUTCOME_ERROR] = 1,   [CHAT_OUTCOME_DENIED] = 1,
        [CHAT_OUTCOME_PARTIAL] = 0,
    };
    static const int decides[] = {
        [CHAT_APPROVAL_NONE] = 0,
        [CHAT_APPROVAL_ASKED] = 0,
        [CHAT_APPROVAL_GRANTED] = 1,
        [CHAT_APPROVAL_REFUSED] = 1,
    };

    for (i = 0; i < sizeof(settles) / sizeof(settles[0]); i++) {
        call.outcome = (chat_outcome_e) i;
        assert_int_equal(chat_call_is_settled(&call), settles[i]);
    }

    for (i = 0; i < sizeof(decides) / sizeof(decides[0]); i++) {
        call.outcome = CHAT_OUTCOME_NONE;
        call.approval = (chat_approval_e) i;
        assert_int_equal(chat_call_is_settled(&call), decides[i]);

        call.outcome = CHAT_OUTCOME_PARTIAL;
        assert_int_equal(chat_call_is_settled(&call), decides[i]);
    }
}


static void
words_are_the_models(void **state)
{
    assert_string_equal(chat_outcome_names[CHAT_OUTCOME_NONE], "none");
    assert_string_equal(chat_outcome_names[CHAT_OUTCOME_OK], "ok");
    assert_string_equal(chat_outcome_names[CHAT_OUTCOME_ERROR], "error");
    assert_string_equal(chat_outcome_names[CHAT_OUTCOME_DENIED], "denied");
    assert_string_equal(chat_outcome_names[CHAT_OUTCOME_PARTIAL], "partial");
    assert_string_equal(chat_end_names[CHAT_END_NONE], "none");
    assert_string_equal(chat_end_names[CHAT_END_FINISHED], "finished");
    assert_string_equal(chat_end_names[CHAT_END_FAILED], "failed");
    assert_string_equal(chat_end_names[CHAT_END_ABORTED], "aborted");
    assert_string_equal(chat_end_names[CHAT_END_INTERRUPTED], "interrupted");
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s15_key_order_is_the_same_call),
        cmocka_unit_test(s106_numbers_are_the_same_call_however_written),
        cmocka_unit_test(s14_other_arguments_are_another_call),
        cmocka_unit_test(no_arguments_are_an_empty_object),
        cmocka_unit_test(arguments_that_are_no_json_count_as_bytes),
        cmocka_unit_test(bytes_never_equal_a_value),
        cmocka_unit_test(a_fingerprint_leaves_no_memory_behind),
        cmocka_unit_test(events_keep_their_order),
        cmocka_unit_test(without_memory_nothing_is_added),
        cmocka_unit_test(calls_belong_to_the_last_step),
        cmocka_unit_test(s43_members_are_what_the_client_must_answer),
        cmocka_unit_test(s10_a_preliminary_output_settles_nothing),
        cmocka_unit_test(words_are_the_models),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
