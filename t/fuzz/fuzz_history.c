/*
 * fuzz_history.c: a message of any body is replayed to a client that resumes.
 *
 * The client gets a stream of events of limited size, each one JSON object in
 * one data: line. The same holds with later results of the body's calls,
 * however the stream is cut.
 */

#include "follow/chat_follow.h"
#include "fuzz_read.h"

#define FUZZ_SIZE 16384


/* Each event must be one JSON object in one data: line. */
static void
fuzz_told(body_t *body, chat_str_t told)
{
    chat_sse_t      sse;
    chat_frame_t    frame;
    chat_json_doc_t doc;

    sse = (chat_sse_t){ .max_frame = 0 };
    chat_sse_feed(&sse, told);

    while (chat_sse_next(&sse, &frame) == CHAT_SSE_FRAME) {
        NEED(frame.has_data
             && frame.raw.len == frame.data.len + strlen("data: \n\n"));
        NEED(chat_json_parse(&doc, body->arena, frame.data) == CHAT_OK);
        NEED(chat_json_string(&doc, chat_json_get(&doc, doc.root, "type")).len
             != 0);
        NEED(!doc.duplicate);
    }

    NEED(chat_sse_tail(&sse).len == 0);
    chat_sse_free(&sse);
}


/* The same with results of these calls, in pieces of this size. */
static void
fuzz_settle(body_t *body, const chat_result_t *results, size_t n,
            chat_str_t told, size_t piece, chat_buf_t *out)
{
    size_t             len;
    chat_rc_e          rc;
    chat_follow_t      follow;
    chat_follow_conf_t conf;

    memset(&conf, 0, sizeof(conf));
    conf.dialect = body->dialect;
    conf.results = results;
    conf.nresults = n;
    NEED(chat_follow_init(&follow, &conf) == CHAT_OK);

    while (told.len != 0) {
        len = told.len < piece ? told.len : piece;
        rc = chat_follow(&follow, chat_str(told.data, len), out);
        NEED(rc == (n != 0 ? CHAT_OK : CHAT_DECLINED));
        told = chat_str(told.data + len, told.len - len);
    }

    chat_follow_end(&follow, out);
    chat_follow_free(&follow);
}


/*
 * However it is cut, it stays a stream, and the client must not run the calls.
 */
static void
fuzz_settled(body_t *body, chat_str_t told)
{
    size_t         i, n;
    chat_buf_t     whole = { 0 }, cut = { 0 };
    chat_result_t *results;

    n = body->rq.ncalls < 8 ? body->rq.ncalls : 8;
    results = chat_arena_alloc(body->arena, (n + 1) * sizeof(*results));
    NEED(results != NULL);

    for (i = 0; i < n; i++) {
        results[i].id = body->rq.calls[i].id;
        results[i].outcome = CHAT_OUTCOME_OK + i % 3;
        results[i].payload = chat_cstr(i % 3 == 1 ? "\"e\"" : "[\n1]");
    }

    fuzz_settle(body, results, n, told, told.len, &whole);
    fuzz_settle(body, results, n, told, 7, &cut);
    NEED(chat_str_eq(chat_buf_str(&whole), chat_buf_str(&cut)));
    NEED((whole.len != 0) == (n != 0));

    if (n != 0) {
        fuzz_told(body, chat_buf_str(&whole));
    }

    chat_buf_free(&whole);
    chat_buf_free(&cut);
}


/* The history of a body for a resuming client: well-formed and limited. */
static void
fuzz_history(body_t *body)
{
    chat_rc_e  rc;
    chat_buf_t told = { 0 };

    rc = body->dialect->history(&body->doc, &told);
    NEED(rc == CHAT_OK || rc == CHAT_DECLINED);
    NEED((rc == CHAT_OK) == (told.len != 0));
    NEED(told.len <= 100 + 10 * body->doc.text.len);

    if (told.len != 0) {
        fuzz_told(body, chat_buf_str(&told));
        fuzz_settled(body, chat_buf_str(&told));
    }

    chat_buf_free(&told);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    body_t         body;
    unsigned char *text;

    if (size == 0 || size > FUZZ_SIZE) {
        return 0;
    }

    text = malloc(size);
    NEED(text != NULL);
    memcpy(text, data, size);

    /* as in the seeds of fuzz_body: the dialect's index comes first */
    if (fuzz_read(&body, &chat_dialect_ai_sdk, chat_str(text + 1, size - 1))) {
        fuzz_history(&body);
    }

    chat_arena_destroy(body.arena);
    free(text);

    return 0;
}
