/*
 * test_cases.c: runs the golden transcripts of t/cases (its README.md has the
 * format).
 *
 * Each stream is cut into frames and read by its dialect: whole, byte by byte,
 * in two pieces at every cut (at most CUTS_MAX of them), from memory that ends
 * at an unreadable page, and with the frames of known forms left unread. All
 * must give the lines of the .events file.
 */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "stream/chat_form.h"
#include "gather.h"
#include "../buf_printf.h"
#include "../tenant.h"

#define CASES "t/cases"
#define CASES_MAX 512
#define CUTS_MAX 4096
#define FRAME_MAX 65536


typedef struct {
    char                  path[512]; /* without its ending */
    const chat_dialect_t *dialect;
} case_t;

typedef struct {
    const chat_dialect_t *dialect;
    chat_arena_t         *arena; /* lives as the stream */
    chat_arena_t         *frame; /* reset before each frame */
    void                 *state;
    chat_forms_t         *forms; /* NULL: all frames are read */
    int                   pieces;
    unsigned              number;
    chat_buf_t           *log;
} run_t;

static case_t            cases[CASES_MAX];
static struct CMUnitTest tests[CASES_MAX];
static size_t            ncases;


static int
file_read(const char *path, const char *ending, chat_buf_t *out)
{
    char   name[600];
    char   bytes[4096];
    FILE  *file;
    size_t n;

    snprintf(name, sizeof(name), "%s%s", path, ending);

    file = fopen(name, "rb");
    if (file == NULL) {
        return 0;
    }

    while ((n = fread(bytes, 1, sizeof(bytes), file)) > 0) {
        chat_buf_add(out, chat_str(bytes, n));
    }

    fclose(file);
    return 1;
}


static void
log_text(chat_buf_t *log, chat_str_t text)
{
    size_t i;

    chat_buf_puts(log, " text=");

    for (i = 0; i < text.len; i++) {
        if (text.data[i] < 0x20 || text.data[i] == 0x7f) {
            chat_buf_printf(log, "\\x%02x", text.data[i]);
        } else {
            chat_buf_add(log, chat_str(text.data + i, 1));
        }
    }
}


static void
log_string(chat_buf_t *log, const char *member, chat_str_t s)
{
    chat_buf_printf(log, " %s=", member);
    chat_buf_json(log, s);
}


static void
log_event(chat_buf_t *log, unsigned number, const chat_event_t *event)
{
    static const struct {
        const char *name;
        const char *members; /* Slot Kind Id (i: if any) Name Outcome
                                End Text */
    } types[] = {
        [CHAT_EVENT_TURN_OPEN] = { "TURN_OPEN", "I" },
        [CHAT_EVENT_STEP_OPEN] = { "STEP_OPEN", "i" },
        [CHAT_EVENT_CALL_OPEN] = { "CALL_OPEN", "SKIN" },
        [CHAT_EVENT_CALL_ARGS] = { "CALL_ARGS", "ST" },
        [CHAT_EVENT_CALL_READY] = { "CALL_READY", "SKINT" },
        [CHAT_EVENT_CALL_ASK] = { "CALL_ASK", "I" },
        [CHAT_EVENT_CALL_RESULT] = { "CALL_RESULT", "IOT" },
        [CHAT_EVENT_STEP_SEAL] = { "STEP_SEAL", "" },
        [CHAT_EVENT_STEP_RESET] = { "STEP_RESET", "" },
        [CHAT_EVENT_TURN_END] = { "TURN_END", "E" },
        [CHAT_EVENT_OPAQUE] = { "OPAQUE", "" },
    };
    static const char *const kinds[] = { "client", "approval", "provider" };
    const char              *members = types[event->type].members;

    chat_buf_printf(log, "%u %s", number, types[event->type].name);

    if (strchr(members, 'S') != NULL) {
        chat_buf_printf(log, " slot=%u", event->call->place);
    }
    if (strchr(members, 'K') != NULL) {
        chat_buf_printf(log, " kind=%s", kinds[event->kind]);
    }
    if (strchr(members, 'I') != NULL
        || (strchr(members, 'i') != NULL && event->id.len != 0))
    {
        log_string(log, "id", event->id);
    }
    if (strchr(members, 'N') != NULL) {
        log_string(log, "name", event->name);
    }
    if (strchr(members, 'O') != NULL) {
        chat_buf_printf(log, " outcome=%s",
                        chat_outcome_names[event->outcome]);
    }
    if (strchr(members, 'E') != NULL) {
        chat_buf_printf(log, " end=%s", chat_end_names[event->end]);
    }

    chat_buf_puts(log, event->whole ? " whole" : "");
    chat_buf_puts(log, event->unreadable ? " unreadable" : "");
    chat_buf_puts(log, event->failed ? " failed" : "");
    chat_buf_puts(log, event->implied ? " implied" : "");

    if (strchr(members, 'T') != NULL) {
        log_text(log, event->text);
    }

    chat_buf_puts(log, "\n");
}


static void
run_frame(run_t *run, const chat_frame_t *frame)
{
    const chat_dialect_t *dialect = run->dialect;
    chat_reader_t        *reader = run->state;
    chat_event_t          event;
    chat_events_t         events;
    chat_json_doc_t       doc;
    chat_rc_e             rc;
    size_t                i, frames = 1;
    int                   parsed;

    run->number++;

    chat_arena_reset(run->frame);
    chat_events_init(&events, run->frame);

    if (run->forms != NULL
        && chat_forms_read(run->forms, frame->raw, FRAME_MAX, &event, &frames))
    {
        log_event(run->log, run->number, &event);
        gather(&reader->calls, &event);
        return;
    }

    parsed = frame->has_data
             && chat_json_parse(&doc, run->frame, frame->data) == CHAT_OK;

    rc = chat_dialect_frame(dialect, reader, frame, parsed ? &doc : NULL,
                            &events);

    if (rc == CHAT_DECLINED) {
        chat_buf_printf(run->log, "%u DECLINED\n", run->number);
        return;
    }

    assert_int_equal(rc, CHAT_OK);
    if (run->forms != NULL) {
        chat_forms_learn(run->forms, frame);
    }

    for (i = 0; i < events.count; i++) {
        log_event(run->log, run->number, &events.items[i]);
        gather(&reader->calls, &events.items[i]);
    }
}


static void
run_push(run_t *run, chat_sse_t *sse, chat_str_t input)
{
    chat_frame_t frame;

    chat_sse_feed(sse, input);

    for (;;) {
        switch (chat_sse_next(sse, &frame)) {
        case CHAT_SSE_FRAME:
            run->pieces = 0;
            run_frame(run, &frame);
            break;
        case CHAT_SSE_PIECE:
            if (!run->pieces) {
                chat_buf_printf(run->log, "%u PIECE\n", ++run->number);
            }
            run->pieces = 1;
            break;
        case CHAT_SSE_MORE:
            return;
        case CHAT_SSE_ERROR:
            fail_msg("no memory");
        }
    }
}


/* Reads the stream in pieces of these sizes: first, then step by step. */
static void
run_stream(const chat_dialect_t *dialect, const chat_request_t *rq,
           chat_str_t stream, size_t first, size_t step, chat_forms_t *forms,
           chat_buf_t *log)
{
    chat_sse_t sse;
    size_t     pos, len;
    run_t      run = { .dialect = dialect, .forms = forms, .log = log };

    log->len = 0;
    run.arena = chat_arena_create(0);
    run.frame = chat_arena_create(0);
    assert_non_null(run.arena);
    assert_non_null(run.frame);

    run.state = chat_dialect_open(dialect, run.arena, rq);
    assert_non_null(run.state);
    ((chat_reader_t *) run.state)->calls.tenant = &test_tenant;
    if (rq != NULL) {
        chat_calls_know(&((chat_reader_t *) run.state)->calls,
                        rq->calls + rq->turn, rq->ncalls - rq->turn);
    }
    if (forms != NULL) {
        memset(forms, 0, sizeof(*forms));
        forms->dialect = dialect;
        forms->reader = run.state;
        forms->arena = run.frame;
    }

    sse = (chat_sse_t){ .max_frame = FRAME_MAX };

    for (pos = 0; pos < stream.len; pos += len) {
        len = pos == 0 && first != 0 ? first : step;
        if (len > stream.len - pos) {
            len = stream.len - pos;
        }
        run_push(&run, &sse, chat_str(stream.data + pos, len));
    }

    if (chat_sse_tail(&sse).len != 0) {
        chat_buf_printf(log, "TAIL %zu\n", chat_sse_tail(&sse).len);
    }

    assert_false(log->failed);

    chat_calls_free(&((chat_reader_t *) run.state)->calls);
    chat_sse_free(&sse);
    chat_arena_destroy(run.frame);
    chat_arena_destroy(run.arena);
}


static void
same_lines(const chat_buf_t *log, const chat_buf_t *want, const char *how,
           size_t cut)
{
    if (chat_str_eq(chat_buf_str(log), chat_buf_str(want))) {
        return;
    }

    fail_msg("read %s (%zu), got:\n%.*s", how, cut, (int) log->len,
             (const char *) log->data);
}


/* A copy of s that ends directly before an unreadable page. */
static chat_str_t
guarded(chat_str_t s, void **block, size_t *size)
{
    size_t         page = (size_t) sysconf(_SC_PAGESIZE);
    size_t         room = (s.len / page + 1) * page;
    unsigned char *at;

    *size = room + page;
    *block = mmap(NULL, *size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(*block != MAP_FAILED);

    at = (unsigned char *) *block + room - s.len;
    memcpy(at, s.data, s.len);
    assert_int_equal(
        mprotect((unsigned char *) *block + room, page, PROT_NONE), 0);

    return chat_str(at, s.len);
}


static void
run_all(const chat_dialect_t *dialect, const chat_request_t *rq,
        chat_str_t stream, const chat_buf_t *want)
{
    chat_buf_t   log = { 0 };
    chat_forms_t forms = { 0 };
    chat_str_t   copy;
    void        *block;
    size_t       size, cut;

    run_stream(dialect, rq, stream, 0, stream.len, NULL, &log);
    same_lines(&log, want, "whole", 0);

    run_stream(dialect, rq, stream, 0, stream.len, &forms, &log);
    same_lines(&log, want, "by forms", 0);

    run_stream(dialect, rq, stream, 0, 1, NULL, &log);
    same_lines(&log, want, "byte by byte", 0);

    copy = guarded(stream, &block, &size);
    run_stream(dialect, rq, copy, 0, copy.len, NULL, &log);
    same_lines(&log, want, "at a page's end", 0);
    munmap(block, size);

    for (cut = 1; cut < stream.len; cut += stream.len / CUTS_MAX + 1) {
        run_stream(dialect, rq, stream, cut, stream.len, NULL, &log);
        same_lines(&log, want, "cut at", cut);
    }

    chat_buf_free(&log);
}


/* Writes the missing expectation, to be read before it is committed. */
static void
write_events(const case_t *one, const chat_request_t *rq, chat_str_t stream)
{
    char       name[600];
    FILE      *file;
    chat_buf_t log = { 0 };

    run_stream(one->dialect, rq, stream, 0, stream.len, NULL, &log);

    snprintf(name, sizeof(name), "%s.events", one->path);
    file = fopen(name, "wb");
    assert_non_null(file);
    fwrite(log.data, 1, log.len, file);
    fclose(file);

    chat_buf_free(&log);
}


static void
run_case(void **state)
{
    const case_t   *one = *state;
    chat_buf_t      stream = { 0 }, want = { 0 }, body = { 0 };
    chat_json_doc_t doc;
    chat_request_t  rq;
    chat_arena_t   *arena = chat_arena_create(0);
    int             has;

    assert_non_null(one->dialect);
    assert_true(file_read(one->path, ".sse", &stream));

    rq = (chat_request_t){ .tenant = &test_tenant };

    has = file_read(one->path, ".json", &body);
    if (has) {
        assert_int_equal(chat_json_parse(&doc, arena, chat_buf_str(&body)),
                         CHAT_OK);
        assert_int_equal(chat_dialect_read(one->dialect, &doc, arena, &rq),
                         CHAT_OK);
    }

    if (file_read(one->path, ".events", &want)) {
        run_all(one->dialect, has ? &rq : NULL, chat_buf_str(&stream), &want);

    } else if (getenv("CHAT_CASES_WRITE") != NULL) {
        write_events(one, has ? &rq : NULL, chat_buf_str(&stream));

    } else {
        fail_msg("%s.events is missing", one->path);
    }

    chat_arena_destroy(arena);
    chat_buf_free(&stream);
    chat_buf_free(&want);
    chat_buf_free(&body);
}


static int
is_case(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');

    return end != NULL && strcmp(end, ".sse") == 0;
}


static int
is_folder(const struct dirent *entry)
{
    return strchr(entry->d_name, '.') == NULL;
}


static void
find_cases(const char *folder)
{
    char            path[300];
    struct dirent **entries;
    int             i, n;
    case_t         *one;

    snprintf(path, sizeof(path), CASES "/%s", folder);

    n = scandir(path, &entries, is_case, alphasort);

    for (i = 0; i < n; i++) {
        if (ncases < CASES_MAX) {
            one = &cases[ncases];
            one->dialect = chat_dialect_find(chat_cstr(folder));
            snprintf(one->path, sizeof(one->path), "%s/%.*s", path,
                     (int) strlen(entries[i]->d_name) - 4, entries[i]->d_name);

            tests[ncases].name = one->path + strlen(CASES "/");
            tests[ncases].test_func = run_case;
            tests[ncases].initial_state = one;
            ncases++;
        }
        free(entries[i]);
    }

    if (n >= 0) {
        free(entries);
    }
}


int
main(void)
{
    struct dirent **entries;
    int             i, n;

    n = scandir(CASES, &entries, is_folder, alphasort);

    for (i = 0; i < n; i++) {
        find_cases(entries[i]->d_name);
        free(entries[i]);
    }

    if (n >= 0) {
        free(entries);
    }

    if (ncases == 0) {
        fprintf(stderr, "no cases in " CASES ": run it in the root folder\n");
        return 1;
    }

    return _cmocka_run_group_tests("cases", tests, ncases, NULL, NULL);
}
