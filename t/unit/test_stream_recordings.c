/*
 * test_stream_recordings.c: real answers of providers, in pieces.
 *
 * If available (recordings.h), each must pass byte for byte, be finished, and
 * give the store its calls: whole, in pieces of one size, and cut at random
 * places, a hundred times each.
 */

#include "known_calls.h"
#include "recordings.h"
#include "stream_run.h"

#define CUT_RUNS 100

static stream_t    s;
static const char *dialect;
static uint32_t    seed;


static uint32_t
next_random(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint32_t) ((uint64_t) seed * below >> 32);
}


/* The whole stream in pieces; step 0: random sizes around an average. */
static void
push_all(chat_str_t text, size_t step, stream_run_t *run)
{
    size_t              i, n, len;
    uint32_t            most = 2 + next_random(4096);
    chat_stream_t      *stream = chat_stream_create(&s.conf);
    const chat_piece_t *pieces;

    memset(run, 0, sizeof(*run));
    assert_non_null(stream);

    for (i = 0; i < text.len; i += len) {
        len = step ? step : next_random(next_random(4) ? most : 4) + 1;
        len = len < text.len - i ? len : text.len - i;
        stream_push(run, stream, (const char *) text.data + i, len);
    }

    assert_int_equal(chat_stream_finish(stream, NULL, 0, &pieces, &n),
                     CHAT_OK);
    stream_note(run, stream, pieces, n, chat_str(NULL, 0));
    stream_note_facts(run, stream);
    run->info = *chat_stream_info(stream);
    run->count = chat_stream_info(stream)->replay;
    chat_stream_destroy(stream);
}


/* The number of facts about calls; with given set, those with this prefix. */
static size_t
count_calls(const stream_run_t *run, const char *given, const char *rest)
{
    size_t      i, n = 0;
    const char *fact;

    for (i = 0; i < run->nfacts; i++) {
        fact = strchr(run->facts[i], ' ') + 1;

        if (given == NULL) {
            n += strncmp(fact, "call/", 5) == 0;

        } else {
            n += strncmp(fact, given, strlen(given)) == 0
                 && strstr(fact, rest) != NULL;
        }
    }

    return n;
}


/*
 * Each call has one fact under each of the step's names; no other call has
 * one.
 */
static void
calls_are_told(const char *name, const known_calls_t *known,
               const stream_run_t *run)
{
    char                field[300], rest[128];
    chat_buf_t          shown;
    size_t              i, found, all = 0;
    chat_hash_t         fingerprint;
    const known_call_t *call;

    for (i = 0; i < known->count; i++) {
        call = &known->calls[i];
        assert_int_equal(chat_fingerprint(&test_tenant, chat_cstr(call->name),
                                          chat_buf_str(&call->args),
                                          chat_arena_scratch(), &fingerprint),
                         CHAT_OK);
        shown = (chat_buf_t){ 0 };
        stream_show(&shown, chat_str(fingerprint.bytes, 16));
        (void) snprintf(field, sizeof(field), "call/%s=", call->id);
        (void) snprintf(rest, sizeof(rest), " %c %.*s\n",
                        call->approval ? 'a' : 'c', (int) shown.len,
                        (const char *) shown.data);
        chat_buf_free(&shown);

        found = count_calls(run, field, rest);
        if (found == 0) {
            fail_msg("%s: call %s is not told", name, call->id);
        }
        all += found;
    }

    if (count_calls(run, NULL, NULL) != all) {
        fail_msg("%s: %zu calls are told, %zu are known", name,
                 count_calls(run, NULL, NULL), all);
    }
}


static void
passes(const char *name, chat_str_t text)
{
    size_t              i;
    stream_run_t        run, first;
    known_calls_t       known;
    static const size_t steps[] = { 1 << 24, 1, 7, 4096 };

    known_read(&known, dialect, text);

    for (i = 0; i < CUT_RUNS + 4; i++) {
        seed = (uint32_t) i;
        stream_begin(&s, dialect, NULL);
        s.conf.max_event = 1 << 20;
        push_all(text, i < 4 ? steps[i] : 0, &run);

        if (run.info.foreign || run.info.end != CHAT_END_FINISHED
            || run.count.replays != 0
            || !chat_str_eq(chat_buf_str(&run.out), text))
        {
            fail_msg("%s, way %zu: end %s, %u replays", name, i,
                     chat_end_names[run.info.end], run.count.replays);
        }

        calls_are_told(name, &known, &run);

        if (i == 0) {
            print_message("%s: %zu calls\n", name, known.count);
            first = run;
        } else {
            assert_int_equal(run.info.calls, first.info.calls);
            stream_run_free(&run);
        }

        stream_end(&s);
    }

    stream_run_free(&first);
    known_free(&known);
}


static void
recordings_pass_byte_for_byte(void **state)
{
    dialect = *state;
    recordings_all(dialect, passes);
}


int
main(void)
{
    static char responses[] = "openai_responses", chat[] = "openai_chat";
    static char anthropic[] = "anthropic";
    static char gemini[] = "gemini";

    const struct CMUnitTest tests[] = {
        { "responses_recordings_pass_byte_for_byte",
          recordings_pass_byte_for_byte, NULL, NULL, responses },
        { "chat_recordings_pass_byte_for_byte", recordings_pass_byte_for_byte,
          NULL, NULL, chat },
        { "anthropic_recordings_pass_byte_for_byte",
          recordings_pass_byte_for_byte, NULL, NULL, anthropic },
        { "gemini_recordings_pass_byte_for_byte",
          recordings_pass_byte_for_byte, NULL, NULL, gemini },
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
