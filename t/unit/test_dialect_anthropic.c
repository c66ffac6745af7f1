/*
 * test_dialect_anthropic.c: requests, splices, streams and answers of
 * Anthropic Messages.
 */

#include "dialect_run.h"

#define DIALECT (&chat_dialect_anthropic)

#define USER "{\"role\":\"user\",\"content\":\"hi\"}"
#define SAYS "{\"role\":\"assistant\",\"content\":\"done\"}"
#define TEXT "{\"type\":\"text\",\"text\":\"hi\"}"
#define USE(id)                      \
    "{\"type\":\"tool_use\",\"id\":" \
    "\"" id "\",\"name\":\"w\",\"input\":{\"a\":1}}"
#define SERVER(id)                               \
    "{\"type\":\"server_tool_use\",\"id\":\"" id \
    "\",\"name\":\"web\",\"input\":{}}"
#define RESULT(id) \
    "{\"type\":\"tool_result\",\"tool_use_id\":\"" id "\",\"content\":\"r\"}"
#define ASKS(blocks) "{\"role\":\"assistant\",\"content\":[" blocks "]}"
#define BRINGS(blocks) "{\"role\":\"user\",\"content\":[" blocks "]}"
#define BODY(messages) "{\"model\":\"m\",\"messages\":[" messages "]}"
#define THREAD(messages)                                    \
    "{\"thread\":{\"type\":\"continue\",\"previous_message" \
    "_id\":\"m1\"},\"messages\":[" messages "]}"

typedef struct {
    const char *body;
    chat_rc_e   rc;
    chat_class_e class;
    int      answers;
    unsigned steps;
    unsigned calls;
    unsigned settled;
    unsigned turn;
} class_case_t;

#define NONE 0, 0, 0, 0, 0

static const class_case_t classes[] = {
    { "[]", CHAT_DECLINED, 0, NONE },
    { "{\"messages\":7}", CHAT_DECLINED, 0, NONE },
    { "{\"messages\":[{\"role\":\"user\",\"parts\":[]}]}", CHAT_DECLINED, 0,
      NONE },
    { "{\"messages\":[],\"messages\":[]}", CHAT_BAD, 0, NONE },
    { BODY(""), CHAT_OK, CHAT_CLASS_OTHER, NONE },
    { BODY(USER), CHAT_OK, CHAT_CLASS_FRESH, NONE },
    { BODY(BRINGS(TEXT)), CHAT_OK, CHAT_CLASS_FRESH, NONE },
    { BODY(USER "," SAYS), CHAT_OK, CHAT_CLASS_OTHER, NONE },
    { BODY("1,null,{},{\"role\":3},{\"role\":\"user\",\"content\":{}}"),
      CHAT_OK, CHAT_CLASS_OTHER, NONE },
    { BODY(USER "," ASKS("1,null,{},{\"type\":\"tool_use\"}," USE(
          "a")) "," BRINGS("1,{\"type\":\"tool_result\"}," RESULT("a"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    /* s60: calls without any result are no continuation */
    { BODY(USER "," ASKS(USE("a"))), CHAT_OK, CHAT_CLASS_OTHER, 0, 1, 1, 0,
      0 },
    { BODY(USER "," ASKS(USE("a")) "," BRINGS("")), CHAT_OK, CHAT_CLASS_OTHER,
      0, 1, 1, 0, 0 },
    { BODY(USER
           "," ASKS(TEXT "," USE("a") "," USE("b")) "," BRINGS(RESULT("b"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    /* two user messages are one to the provider */
    { BODY(USER "," ASKS(USE("a") "," USE("b")) "," BRINGS(
          RESULT("b")) "," BRINGS(RESULT("a"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 2, 0 },
    /* s35: a result of an unknown call */
    { BODY(USER "," ASKS(USE("a")) "," BRINGS(RESULT("z"))), CHAT_OK,
      CHAT_CLASS_OTHER, 0, 1, 1, 0, 0 },
    { BODY(BRINGS(RESULT("z"))), CHAT_OK, CHAT_CLASS_OTHER, NONE },
    /* s41, s42: earlier steps are listed where a call has no result */
    { BODY(USER "," ASKS(USE("a")) "," USER
                                   "," ASKS(USE("b")) "," BRINGS(RESULT("b"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 1, 1 },
    { BODY(USER "," ASKS(USE("a")) "," BRINGS(RESULT(
          "a")) "," SAYS "," USER "," ASKS(USE("b")) "," BRINGS(RESULT("b"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 1, 1, 0 },
    { BODY(USER "," ASKS(USE("a")) "," BRINGS(RESULT("a")) "," ASKS(
          USE("b")) "," BRINGS(RESULT("b"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 2, 2, 2, 0 },
    /* s43: the server's calls wait for nobody, and nobody is their answer */
    { BODY(USER "," ASKS(SERVER("s") "," USE("a")) "," BRINGS(RESULT("a"))),
      CHAT_OK, CHAT_CLASS_CONTINUATION, 1, 1, 2, 1, 0 },
    { BODY(USER "," ASKS(SERVER("s")) "," BRINGS(RESULT("s"))), CHAT_OK,
      CHAT_CLASS_OTHER, 0, 1, 1, 0, 0 },
    { BODY(USER "," ASKS(SERVER("s")) "," USER), CHAT_OK, CHAT_CLASS_FRESH, 0,
      1, 1, 0, 1 },
    { BODY(USER "," ASKS(SERVER("s")) "," USER "," SAYS "," USER), CHAT_OK,
      CHAT_CLASS_FRESH, NONE },
    /* s98: results and new words are a fresh turn */
    { BODY(USER
           "," ASKS(USE("a") "," USE("b")) "," BRINGS(RESULT("a") "," TEXT)),
      CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 2, 1, 2 },
    { BODY(USER "," ASKS(USE("a")) "," BRINGS(RESULT("a")) "," USER), CHAT_OK,
      CHAT_CLASS_FRESH, 1, 1, 1, 1, 1 },
    { BODY(USER "," ASKS(USE("a")) "," USER), CHAT_OK, CHAT_CLASS_FRESH, 1, 1,
      1, 0, 1 },
    /* threads */
    { THREAD(BRINGS(RESULT("a") "," RESULT("b"))), CHAT_OK,
      CHAT_CLASS_CONTINUATION, 1, 1, 2, 2, 0 },
    { THREAD(BRINGS(RESULT("a") "," TEXT)), CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 1,
      1, 1 },
    { THREAD(USER), CHAT_OK, CHAT_CLASS_FRESH, 1, 1, 0, 0, 0 },
};


static void
s41_s42_s43_s60_s98_classes(void **state)
{
    size_t              i, k;
    body_t              body;
    unsigned            settled;
    chat_buf_t          got = { 0 };
    char                want[1024];
    const class_case_t *c;

    for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        c = &classes[i];
        body_read(&body, DIALECT, chat_cstr(c->body));

        for (k = settled = 0; k < body.rq.ncalls; k++) {
            settled += chat_call_is_settled(&body.rq.calls[k]);
        }

        if (body.rc != CHAT_OK) {
            memset(&body.rq, 0, sizeof(body.rq));
        }

        got.len = 0;
        chat_buf_printf(&got, "%d %d %d %zu %zu %u %zu %s", body.rc,
                        body.rq.class, body.rq.answers, body.rq.nsteps,
                        body.rq.ncalls, settled, body.rq.turn, c->body);
        snprintf(want, sizeof(want), "%d %d %d %u %u %u %u %s", c->rc,
                 c->class, c->answers, c->steps, c->calls, c->settled, c->turn,
                 c->body);
        text_equals(&got, want);

        body_free(&body);
    }

    chat_buf_free(&got);
}


static void
names_of_steps_follow_the_transcript(void **state)
{
    body_t first, second, third, fourth;

    body_read(&first, DIALECT, chat_cstr(BODY(USER)));
    body_read(
        &second, DIALECT,
        chat_cstr(BODY(BRINGS(
            "{\"type\":\"text\",\"text\":\"hi\","
            "\"cache_control\":{}}") "," ASKS(SERVER("s") "," USE("a")) "," BRINGS(RESULT("a")))));
    body_read(&third, DIALECT,
              chat_cstr(BODY(USER "," ASKS(USE("a")) "," BRINGS(
                  RESULT("a")) "," ASKS(USE("b")) "," BRINGS(RESULT("b")))));

    assert_int_equal(first.rq.next.since, 0);

    /* A cache_control that moves changes no name. */
    assert_true(chat_digest_eq(&second.rq.steps[0].user_text,
                               &first.rq.next.user_text));
    assert_int_equal(second.rq.steps[0].since, 0);
    assert_true(chat_str_is(second.rq.steps[0].first_id, "s"));

    assert_int_equal(third.rq.steps[1].since, 1);
    assert_int_equal(third.rq.next.since, 2);
    assert_true(
        chat_digest_eq(&third.rq.next.user_text, &first.rq.next.user_text));

    body_read(&fourth, DIALECT,
              chat_cstr(BODY(USER "," ASKS(USE("a")) "," BRINGS(
                  RESULT("a")) "," SAYS "," USER)));
    assert_int_equal(fourth.rq.next.since, 0);
    body_free(&fourth);

    body_free(&first);
    body_free(&second);
    body_free(&third);
}


static void
s15_s34_s106_calls_and_results_are_read(void **state)
{
    body_t        body;
    chat_digest_t want;

    body_read(
        &body, DIALECT,
        chat_cstr(BODY(
            USER ",{\"role\":\"assistant\",\"content\":[{\"type\":"
                 "\"tool_use\",\"id\":\"a\",\"name\":\"w\",\"input\":"
                 "{\"b\":1.0,\"a\":1e3}}," USE("b") "," USE("c") "]}," BRINGS(
                     "{\"type\":\"tool_result\",\"tool_use_id\":"
                     "\"a\",\"is_error\":true,\"content\":[ 1 ]},"
                     "{\"type\":\"tool_result\",\"tool_use_id\":"
                     "\"b\"}"))));

    chat_fingerprint(chat_cstr("w"), chat_cstr("{\"a\":1000,\"b\":1}"), &want);
    assert_true(chat_digest_eq(&body.rq.calls[0].fingerprint, &want));
    assert_int_equal(body.rq.calls[0].outcome, CHAT_OUTCOME_ERROR);
    assert_true(chat_str_is(body.rq.calls[0].payload, "[ 1 ]"));
    assert_int_equal(body.rq.calls[1].outcome, CHAT_OUTCOME_OK);
    assert_true(chat_str_is(body.rq.calls[1].payload, "\"\""));
    assert_int_equal(body.rq.calls[2].outcome, CHAT_OUTCOME_NONE);

    body_free(&body);
}


/* As the provider has it: the results first, each call one of them. */
static void
strict_check(chat_str_t text, unsigned n, int ordered, int words)
{
    char               id[8];
    unsigned           i, seen = 0, last = 0;
    chat_str_t         got;
    chat_arena_t      *arena = chat_arena_create(0);
    chat_json_doc_t    doc;
    const chat_json_t *node;

    assert_int_equal(chat_json_parse(&doc, arena, text), CHAT_OK);
    node = chat_json_get(&doc, doc.root, "messages")->child->next->next;
    assert_true(chat_json_is(&doc, chat_json_get(&doc, node, "role"), "user"));
    assert_null(node->next);
    node = chat_json_get(&doc, node, "content")->child;

    for (i = 0; i < n; i++, node = node->next) {
        assert_non_null(node);
        assert_true(chat_json_is(&doc, chat_json_get(&doc, node, "type"),
                                 "tool_result"));
        got = chat_json_string(&doc, chat_json_get(&doc, node, "tool_use_id"));
        assert_int_equal(got.len, 2);
        assert_int_equal(seen & 1u << (got.data[1] - '0'), 0);
        seen |= 1u << (got.data[1] - '0');

        if (ordered) {
            assert_true(i == 0 || got.data[1] > last);
        }
        last = got.data[1];

        snprintf(id, sizeof(id), "r%c", got.data[1]);
        assert_true(
            chat_json_is(&doc, chat_json_get(&doc, node, "content"), id));
    }

    assert_int_equal(seen, (1u << n) - 1);
    assert_int_equal(node != NULL, words);
    chat_arena_destroy(arena);
}


/* One subset of n calls that is there in one order, the rest in another. */
static void
splice_one(unsigned n, unsigned present, const unsigned *order, int words)
{
    int           ordered = 1, last = -1;
    char          payloads[4][8];
    size_t        k, m = 0;
    body_t        body, after;
    unsigned      i, count = 0;
    chat_buf_t    text = { 0 }, merged = { 0 };
    chat_result_t results[4];

    chat_buf_puts(&text, "{ \"messages\":[" USER ",\n{\"role\":\"assistant\","
                         "\"content\":[" SERVER("s"));
    for (i = 0; i < n; i++) {
        chat_buf_printf(&text,
                        ",{\"type\":\"tool_use\",\"id\":\"c%u\","
                        "\"name\":\"w\"}",
                        i);
    }
    chat_buf_puts(&text, "]},{\"role\":\"user\",\"content\":[ ");

    for (i = 0; i < n; i++) {
        if (present & 1u << order[i]) {
            chat_buf_printf(&text,
                            "%s{\"type\":\"tool_result\",\"content\":\"r%u\","
                            "\"cache_control\":{},\"tool_use_id\":\"c%u\"}",
                            count++ ? " , " : "", order[i], order[i]);
            ordered = ordered && (int) order[i] > last;
            last = (int) order[i];
        }
    }
    if (words) {
        chat_buf_puts(&text, count ? "," TEXT : TEXT);
    }
    chat_buf_puts(&text, " ]}], \"x\":1.0}");

    body_read(&body, DIALECT, chat_buf_str(&text));
    assert_int_equal(body.rc, CHAT_OK);

    for (i = 0; i < n; i++) {
        k = order[i] + 1;
        assert_int_equal(chat_call_is_settled(&body.rq.calls[k]),
                         present >> order[i] & 1);

        if (!(present & 1u << order[i])) {
            snprintf(payloads[m], sizeof(payloads[m]), "\"r%u\"", order[i]);
            memset(&results[m], 0, sizeof(results[m]));
            results[m].call = &body.rq.calls[k];
            results[m].id = body.rq.calls[k].id;
            results[m].outcome =
                order[i] ? CHAT_OUTCOME_OK : CHAT_OUTCOME_ERROR;
            results[m].payload = chat_cstr(payloads[m]);
            m++;
        }
    }

    body_splice(&body, DIALECT, results, m, &merged);
    strict_check(chat_buf_str(&merged), n, ordered, words);
    assert_true(text_is_within(chat_buf_str(&text), chat_buf_str(&merged)));

    body_read(&after, DIALECT, chat_buf_str(&merged));
    assert_int_equal(after.rq.class,
                     words ? CHAT_CLASS_FRESH : CHAT_CLASS_CONTINUATION);
    for (k = 1; k < after.rq.ncalls; k++) {
        assert_true(chat_call_is_settled(&after.rq.calls[k]));
    }
    if (!(present & 1)) {
        assert_int_equal(after.rq.calls[1].outcome, CHAT_OUTCOME_ERROR);
    }

    body_free(&after);
    body_free(&body);
    chat_buf_free(&text);
    chat_buf_free(&merged);
}


static void
s59_spliced_bodies_pass_a_strict_provider(void **state)
{
    unsigned n, i, present, order[8], count = 2;

    for (n = 2; n <= 4; n++, count *= n) {
        for (present = 0; present < 1u << n; present++) {
            for (i = 0; i < count; i++) {
                permute(i, n, order);
                splice_one(n, present, order, 0);
                splice_one(n, present, order, 1);
            }
        }
    }
}


/* Fills every unanswered call of the body with "late". */
static void
splice_late(const char *text, const char *want)
{
    size_t        i, n = 0;
    body_t        body;
    chat_buf_t    merged = { 0 };
    chat_result_t results[8];

    body_read(&body, DIALECT, chat_cstr(text));
    assert_int_equal(body.rc, CHAT_OK);

    for (i = 0; i < body.rq.ncalls; i++) {
        if (chat_call_is_member(&body.rq.calls[i])
            && !chat_call_is_settled(&body.rq.calls[i]))
        {
            memset(&results[n], 0, sizeof(results[n]));
            results[n].call = &body.rq.calls[i];
            results[n].id = body.rq.calls[i].id;
            results[n].outcome = CHAT_OUTCOME_OK;
            results[n++].payload = chat_cstr("\"late\"");
        }
    }

    body_splice(&body, DIALECT, results, n, &merged);
    text_equals(&merged, want);

    body_free(&body);
    chat_buf_free(&merged);
}


#define LATE(id)                                      \
    "{\"type\":\"tool_result\",\"tool_use_id\":\"" id \
    "\",\"content\":\"late\"}"


static void
s32_duplicates_are_entries_of_their_own(void **state)
{
    splice_late(
        BODY(USER "," ASKS(USE("a")) "," BRINGS(TEXT) "," ASKS(USE("a") "," USE(
            "a")) "," BRINGS(TEXT) "," ASKS(USE("a")) "," BRINGS(RESULT("a"))),
        BODY(USER "," ASKS(USE("a")) "," BRINGS(LATE("a") "," TEXT) "," ASKS(
            USE("a") "," USE(
                "a")) "," BRINGS(LATE("a") "," TEXT) "," ASKS(USE("a")) "," BRINGS(RESULT("a"))));
}


static void
results_get_a_message_of_their_own(void **state)
{
    splice_late(
        BODY(USER "," ASKS(USE("a") "," USE("b")) "," USER "," ASKS(USE("c"))),
        BODY(USER "," ASKS(USE("a") "," USE("b")) "," BRINGS(LATE(
            "a") "," LATE("b")) "," USER
                                "," ASKS(USE("c")) "," BRINGS(LATE("c"))));

    /* blocks before the results: the front is still the front */
    splice_late(BODY(USER "," ASKS(USE("a") "," USE("b")) "," BRINGS(
                    TEXT "," RESULT("a"))),
                BODY(USER "," ASKS(USE("a") "," USE("b")) "," BRINGS(
                    LATE("b") "," TEXT "," RESULT("a"))));
}


static void
threads_take_results_without_calls(void **state)
{
    size_t                   i;
    body_t                   body;
    chat_buf_t               merged = { 0 };
    chat_result_t            results[2] = { 0 };
    static const char *const cases[][2] = {
        { THREAD(BRINGS(RESULT("c"))),
          THREAD(BRINGS(RESULT("c") "," LATE("a") "," LATE("b"))) },
        { THREAD(BRINGS(TEXT)),
          THREAD(BRINGS(LATE("a") "," LATE("b") "," TEXT)) },
        { THREAD(BRINGS("")), THREAD(BRINGS(LATE("a") "," LATE("b"))) },
        { THREAD(USER), THREAD(BRINGS(LATE("a") "," LATE("b")) "," USER) },
    };

    results[0].id = chat_cstr("a");
    results[1].id = chat_cstr("b");
    results[0].outcome = results[1].outcome = CHAT_OUTCOME_OK;
    results[0].payload = results[1].payload = chat_cstr("\"late\"");

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        body_read(&body, DIALECT, chat_cstr(cases[i][0]));
        assert_true(body.rq.chained);
        assert_true(body.rq.stored);
        assert_true(chat_str_is(body.rq.steps[0].chain, "m1"));

        if (i == 0) {
            assert_true(body.rq.calls[0].bare);
            assert_true(chat_str_is(body.rq.calls[0].id, "c"));
        }

        merged.len = 0;
        body_splice(&body, DIALECT, results, 2, &merged);
        text_equals(&merged, cases[i][1]);
        body_free(&body);
    }

    /* a transcript with its calls is no chain */
    body_read(
        &body, DIALECT,
        chat_cstr(THREAD(USER "," ASKS(USE("a")) "," BRINGS(RESULT("a")))));
    assert_false(body.rq.chained);
    assert_int_equal(body.rq.class, CHAT_CLASS_CONTINUATION);
    body_free(&body);

    chat_buf_free(&merged);
}


/* Frames; that of a block is given its index. */
#define FRAME(type, rest) \
    "event: " type "\ndata: {\"type\":\"" type "\"" rest "}\n\n"
#define MESSAGE FRAME("message_start", ",\"message\":{\"id\":\"t\"}")
#define START(index, block)      \
    FRAME("content_block_start", \
          ",\"index\":" index ",\"content_block\":{\"type\":" block "}")
#define DELTA(index, delta)      \
    FRAME("content_block_delta", \
          ",\"index\":" index ",\"delta\":{\"type\":" delta "}")
#define STOP(index) FRAME("content_block_stop", ",\"index\":" index)
#define TOOL(id) "\"tool_use\",\"id\":\"" id "\",\"name\":\"w\",\"input\":{}"
#define JSON(text) "\"input_json_delta\",\"partial_json\":\"" text "\""
#define WORDS "\"text_delta\",\"text\":\"a\""
#define CALL(index, id) \
    START(index, TOOL(id)) DELTA(index, JSON("{}")) STOP(index)
#define PROSE(index) \
    START(index, "\"text\",\"text\":\"\"") DELTA(index, WORDS) STOP(index)
#define REASON(reason) \
    FRAME("message_delta", ",\"delta\":{\"stop_reason\":\"" reason "\"}")
#define END FRAME("message_stop", "")

typedef struct {
    const char *text;
    const char *log;
} stream_case_t;

static const stream_case_t streams[] = {
    { MESSAGE FRAME("ping", "") PROSE("0") REASON("end_turn") END,
      "T x x x x S E:finished " },
    { FRAME("ping", "") MESSAGE END, "x T E:finished " },
    { MESSAGE PROSE("0") CALL("1", "a") CALL("2", "b") REASON("tool_use") END,
      "T x x x o1:a a1 r1:a o2:b a2 r2:b S E:finished " },
    /* no arguments */
    { MESSAGE START("0", TOOL("a")) STOP("0") REASON("tool_use") END,
      "T o0:a r0:a S E:finished " },
    /* truncated, then never stopped */
    { MESSAGE CALL("0", "a") REASON("max_tokens") END,
      "T o0:a a0 r0:a x E:finished " },
    { MESSAGE START("0", TOOL("a")) REASON("model_context_window_exceeded"),
      "T o0:a x " },
    { MESSAGE REASON("pause_turn") END, "T S E:finished " },
    { MESSAGE FRAME("message_delta", ",\"delta\":{\"stop_reason\":null}"),
      "T x " },
    /* s43: the server's calls */
    { MESSAGE START("0", "\"server_tool_use\",\"id\":\"s\"") STOP("0")
          START("1", "\"mcp_tool_use\",\"id\":\"m\"") STOP("1")
              START("2", "\"mcp_tool_result\",\"tool_use_id\":\"m\"") STOP("2")
                  REASON("end_turn") END,
      "T o0p:s r0p:s o1p:m r1p:m x x S E:finished " },
    /* s73: errors */
    { MESSAGE FRAME("error", ",\"error\":{\"type\":\"overloaded_error\"}"),
      "T E:failed " },
    { FRAME("error", ",\"error\":{}") END, "E:failed x " },
    /* the data says what it is */
    { "event: ping\ndata: {\"type\":\"message_start\"}\n\n"
      "data: {\"type\":\"message_stop\"}\n\n",
      "T E:finished " },
    /* a second message in one stream has calls of its own */
    { MESSAGE START("0", TOOL("a")) MESSAGE CALL("0", "b") REASON("tool_use")
          END,
      "T o0:a T o65536:b a65536 r65536:b S E:finished " },
    /* odd things */
    { ": hi\n\n" MESSAGE "data: nothing\n\ndata: []\n\ndata: {}\n\n" FRAME(
          "new_thing", "") FRAME("content_block_start", "")
          FRAME("content_block_stop", ",\"index\":-1")
              FRAME("content_block_delta", ",\"index\":70000")
                  DELTA("5", JSON("x")) STOP("5") START("6", "\"tool_use\"")
                      DELTA("6", WORDS) START("6", TOOL("a"))
                          DELTA("6", "\"input_json_delta\"") STOP("6"),
      "T x x x x x x x x x o6: x x a6 r6: " },
};


static void
s43_s72_s73_events_of_streams(void **state)
{
    size_t i;

    for (i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        run_expect(DIALECT, streams[i].text, streams[i].log);
    }
}


/* The arguments of the only call of the stream. */
static void
arguments_are(const char *text, const char *want)
{
    void           *reader;
    size_t          i;
    chat_sse_t      sse;
    chat_buf_t      args = { 0 };
    chat_frame_t    frame;
    chat_arena_t   *arena = chat_arena_create(0);
    chat_events_t   events;
    chat_json_doc_t doc;

    reader = DIALECT->open(arena, NULL);
    chat_sse_init(&sse, 0);
    chat_sse_feed(&sse, chat_cstr(text));

    while (chat_sse_next(&sse, &frame) == CHAT_SSE_FRAME) {
        memset(&events, 0, sizeof(events));
        events.arena = arena;
        assert_int_equal(chat_json_parse(&doc, arena, frame.data), CHAT_OK);
        assert_int_equal(DIALECT->read(reader, arena, &frame, &doc, &events),
                         CHAT_OK);

        for (i = 0; i < events.count; i++) {
            if (events.items[i].type == CHAT_EVENT_CALL_READY
                && events.items[i].whole) {
                args.len = 0;
            }
            chat_buf_add(&args, events.items[i].text);
        }
    }

    text_equals(&args, want);
    chat_sse_free(&sse);
    chat_buf_free(&args);
    chat_arena_destroy(arena);
}


static void
arguments_come_in_pieces_or_whole(void **state)
{
#define INPUT "\"tool_use\",\"id\":\"a\",\"name\":\"w\",\"input\":{\"b\":1}"
    arguments_are(MESSAGE START("0", INPUT) STOP("0"), "{\"b\":1}");
    arguments_are(MESSAGE START("0", TOOL("a")) STOP("0"), "{}");
    arguments_are(MESSAGE START("0", TOOL("a")) DELTA("0", JSON("")) STOP("0"),
                  "{}");
    arguments_are(MESSAGE START("0", INPUT) DELTA("0", JSON("{\\\"c"))
                      DELTA("0", JSON("\\\":2}")) STOP("0"),
                  "{\"c\":2}");
}


static void
foreign_streams_are_declined(void **state)
{
    size_t                   i;
    run_t                    run;
    static const char *const foreign[] = {
        "data: {\"type\":\"start\"}\n\n",
        "data: {\"type\":\"error\",\"errorText\":\"x\"}\n\n",
        "data: {\"choices\":[]}\n\n",
        "data: [DONE]\n\n",
        "data: hello\n\n",
    };

    for (i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        run_stream(&run, DIALECT, chat_cstr(foreign[i]), NULL);
        assert_true(run.declined);
        run_free(&run);
    }
}


static void
boring_frames_are_text_only(void **state)
{
    run_t run;

    run_stream(&run, DIALECT,
               chat_cstr(DELTA("0", WORDS) MESSAGE DELTA("0", WORDS)
                             DELTA("0", "\"thinking_delta\"") FRAME("ping", "")
                                 START("1", TOOL("a"))
                                     DELTA("1", JSON("\\\"type\\\":"
                                                     "\\\"text_delta\\\""))
                                         STOP("1") REASON("end_turn")),
               NULL);
    assert_int_equal(run.boring, 3);
    run_free(&run);
}


static const char *const drop_a[] = { "a", NULL };
static const char *const drop_both[] = { "a", "b", NULL };


static void
s20_blocks_behind_a_dropped_one_move_up(void **state)
{
    run_without(DIALECT,
                MESSAGE PROSE("0") CALL("1", "a") CALL("2", "b") PROSE("3")
                    REASON("tool_use") END,
                drop_a,
                MESSAGE PROSE("0") CALL("1", "b") PROSE("2") REASON("tool_use")
                    END);

    run_without(DIALECT,
                MESSAGE CALL("0", "a") CALL("9", "x") CALL("10", "b")
                    CALL("11", "y") REASON("tool_use") END,
                drop_both,
                MESSAGE CALL("8", "x") CALL("9", "y") REASON("tool_use") END);
}


static void
s18_all_calls_go_and_the_reason_is_end_turn(void **state)
{
    run_without(DIALECT,
                MESSAGE CALL("0", "a") CALL("1", "b") PROSE("2")
                    REASON("tool_use") END,
                drop_both, MESSAGE PROSE("0") REASON("end_turn") END);

    run_without(DIALECT, MESSAGE CALL("0", "a") REASON("max_tokens") END,
                drop_a, MESSAGE  REASON("max_tokens") END);
}


static void
a_second_message_is_numbered_by_itself(void **state)
{
    run_without(DIALECT,
                MESSAGE CALL("0", "a") PROSE("1") MESSAGE PROSE("0")
                    CALL("1", "x"),
                drop_a, MESSAGE PROSE("0") MESSAGE PROSE("0") CALL("1", "x"));
}


static void
s71_interrupted_is_an_error_and_no_end(void **state)
{
    run_t               run;
    chat_buf_t          out = { 0 };
    chat_interruption_t in = { "reset", 0, NULL, 0 };

    chat_buf_puts(&out, MESSAGE);
    DIALECT->interrupted(NULL, &in, &out);

    run_stream(&run, DIALECT, chat_buf_str(&out), NULL);
    text_equals(&run.log, "T E:failed ");
    assert_true(
        text_is_within(chat_cstr("event: error\n"), chat_buf_str(&out)));
    assert_true(
        text_is_within(chat_cstr("stream_interrupted"), chat_buf_str(&out)));

    run_free(&run);
    chat_buf_free(&out);
}


static void
refusals_are_well_formed(void **state)
{
    run_t          run;
    chat_buf_t     out = { 0 };
    chat_str_t     ids[] = { CHAT_STR("a\"b"), CHAT_STR("c") };
    chat_refusal_t refusal = { 409, "batch_incomplete", "wait", ids, 2 };
    chat_request_t rq = { 0 };

    assert_true(DIALECT->no_empty);
    assert_int_equal(DIALECT->empty(&rq, NULL, 0, &out), CHAT_DECLINED);
    assert_int_equal(out.len, 0);

    DIALECT->refuse(&refusal, &out);
    text_has_error(chat_buf_str(&out), "code", "batch_incomplete");
    text_has_error(chat_buf_str(&out), "message", "wait");
    text_has_error(chat_buf_str(&out), "type", "invalid_request_error");
    assert_true(text_is_within(
        chat_cstr("\"tool_use_ids\":[\"a\\\"b\",\"c\"]"), chat_buf_str(&out)));

    out.len = 0;
    DIALECT->refuse_in_band(&refusal, &out);
    run_stream(&run, DIALECT, chat_buf_str(&out), NULL);
    text_equals(&run.log, "E:failed ");
    run_free(&run);

    chat_buf_free(&out);
}


static void
recordings_are_read(void **state)
{
    run_recordings(DIALECT, "anthropic");
}


int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s41_s42_s43_s60_s98_classes),
        cmocka_unit_test(names_of_steps_follow_the_transcript),
        cmocka_unit_test(s15_s34_s106_calls_and_results_are_read),
        cmocka_unit_test(s59_spliced_bodies_pass_a_strict_provider),
        cmocka_unit_test(s32_duplicates_are_entries_of_their_own),
        cmocka_unit_test(results_get_a_message_of_their_own),
        cmocka_unit_test(threads_take_results_without_calls),
        cmocka_unit_test(s43_s72_s73_events_of_streams),
        cmocka_unit_test(arguments_come_in_pieces_or_whole),
        cmocka_unit_test(foreign_streams_are_declined),
        cmocka_unit_test(boring_frames_are_text_only),
        cmocka_unit_test(s20_blocks_behind_a_dropped_one_move_up),
        cmocka_unit_test(s18_all_calls_go_and_the_reason_is_end_turn),
        cmocka_unit_test(a_second_message_is_numbered_by_itself),
        cmocka_unit_test(s71_interrupted_is_an_error_and_no_end),
        cmocka_unit_test(refusals_are_well_formed),
        cmocka_unit_test(recordings_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
