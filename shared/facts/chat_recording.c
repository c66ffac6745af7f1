/*
 * chat_recording.c: see chat_recording.h.
 *
 * The head is text: a line with the status and the length of the message's id,
 * then that id, then the header lines. A reader checks these: others may write
 * to the store, and the lines become headers of an answer.
 */

#include "facts/chat_recording.h"
#include "facts/chat_facts.h"
#include "bytes/chat_table.h"
#include "sse/chat_position.h"

#define CHAT_RECORDING_FIRST 200 /* the statuses of a head */
#define CHAT_RECORDING_LAST 599


void
chat_recording_key(const chat_key_t *of, chat_str_t worker, chat_str_t request,
                   chat_key_t *key)
{
    chat_digest_of(&key->name, chat_cstr("stream"), chat_digest_str(&of->tag),
                   worker, request);
    key->tag = of->tag;
    key->tenant = of->tenant;
}


/* The worker in <worker>/<serial>; 0: it is none. */
static int
chat_recording_worker(chat_str_t feed, chat_str_t *worker)
{
    uint64_t serial;

    *worker = chat_str_cut(&feed, '/'); /* its name has no slash */
    return worker->len != 0 && chat_str_number(feed, &serial);
}


void
chat_recording_read(const chat_fact_t *facts, size_t n, chat_recording_t *out)
{
    size_t     i;
    chat_str_t field;

    memset(out, 0, sizeof(*out));

    for (i = 0; i < n; i++) {
        field = facts[i].field;

        out->head = chat_str_is(field, CHAT_RECORDING_HEAD) ? facts[i].value
                                                            : out->head;
        out->followed |= chat_str_starts(field, "feed/");
        out->over |= chat_str_is(field, CHAT_RECORDING_OVER);
        out->cleared |= chat_str_is(field, "cleared");
    }
}


size_t
chat_recording_feeds(const chat_fact_t *facts, size_t                   n,
                     int (*alive)(void *data, chat_str_t worker), void *data)
{
    size_t       i, feeds = 0;
    chat_str_t   feed, worker;
    chat_table_t gone;

    chat_table_init(&gone, chat_arena_scratch());

    for (i = 0; i < n; i++) {
        if (chat_str_after(facts[i].field, "gone/", &feed)) {
            (void) chat_table_put(&gone, feed);
        }
    }

    for (i = 0; i < n; i++) {
        feeds += chat_str_after(facts[i].field, "feed/", &feed)
                 && chat_recording_worker(feed, &worker)
                 && chat_table_find(&gone, feed) == NULL
                 && alive(data, worker);
    }

    return feeds;
}


/* 1 if the header concerns the producer's connection or client alone. */
static int
chat_recording_own(chat_str_t name)
{
    size_t i;

    static const char *const own[] = {
        "connection",     "keep-alive",        "proxy-connection", "te",
        "trailer",        "transfer-encoding", "upgrade",          "date",
        "content-length", "accept-ranges",     "set-cookie",       "server"
    };

    for (i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        if (chat_str_is_any_case(name, own[i])) {
            return 1;
        }
    }

    /* a follower has the same events, and resumes by the same name */
    return chat_str_starts_any_case(name, "x-chat-")
           && !chat_str_is_any_case(name, "x-chat-stream");
}


chat_rc_e
chat_recording_head_write(const chat_recording_head_t *head, chat_buf_t *out)
{
    chat_buf_format(out, "%u %d\n%v%v", head->status,
                    (uint64_t) head->message.len, head->message,
                    head->headers);
    return out->failed ? CHAT_ERROR : CHAT_OK;
}


/* 1 if line is "Name: value", the name a token, the value without controls. */
static int
chat_recording_is_header(chat_str_t line)
{
    size_t i = 0;

    static const char others[] = "!#$%&'*+-.^_`|~0123456789";

    while (i < line.len
           && ((unsigned) ((line.data[i] | 0x20) - 'a') < 26
               || memchr(others, line.data[i], sizeof(others) - 1) != NULL))
    {
        i++;
    }

    if (i == 0 || line.len - i < 2 || memcmp(line.data + i, ": ", 2) != 0) {
        return 0;
    }

    for (i += 2; i < line.len; i++) {
        if ((line.data[i] < 0x20 && line.data[i] != '\t')
            || line.data[i] == 0x7f) {
            return 0;
        }
    }

    return 1;
}


void
chat_recording_header(chat_buf_t *headers, chat_str_t name, chat_str_t value)
{
    size_t start = headers->len;

    if (chat_recording_own(name)) {
        return;
    }

    chat_buf_format(headers, "%v: %v\n", name, value);

    if (!headers->failed
        && !chat_recording_is_header(
            chat_str(headers->data + start, headers->len - start - 1)))
    {
        headers->len = start;
    }
}


int
chat_recording_header_next(chat_str_t *headers, chat_str_t *name,
                           chat_str_t *value)
{
    chat_str_t line, rest;

    while (headers->len != 0) {
        line = rest = chat_str_cut(headers, '\n');
        *name = chat_str_cut(&rest, ':');

        if (line.len - name->len >= 2) {
            *value =
                chat_str(line.data + name->len + 2, line.len - name->len - 2);
            return 1;
        }
    }

    return 0;
}


int
chat_recording_is_cors(chat_str_t name)
{
    return chat_str_starts_any_case(name, "access-control-")
           || chat_str_is_any_case(name, "vary");
}


int
chat_recording_admits(chat_str_t lines, chat_str_t origin)
{
    int        found = 0;
    chat_str_t name, value;

    while (chat_recording_header_next(&lines, &name, &value)) {
        if (!chat_str_is_any_case(name, "access-control-allow-origin")) {
            continue;
        }

        if (!chat_str_is(value, "*")
            && (origin.len == 0 || !chat_str_eq(value, origin)))
        {
            return 0;
        }

        found = 1;
    }

    return found;
}


void
chat_recording_cors(chat_buf_t *out, chat_str_t lines, chat_str_t origin)
{
    int admitted = lines.len <= CHAT_RECORDING_CORS_MAX
                   && chat_recording_admits(lines, origin);
    chat_str_t name, value;

    while (admitted && chat_recording_header_next(&lines, &name, &value)) {
        if (chat_recording_is_cors(name)) {
            chat_recording_header(out, name, value);
        }
    }
}


chat_rc_e
chat_recording_head_read(chat_str_t bytes, chat_recording_head_t *out)
{
    uint64_t   status, len;
    chat_str_t line, end, word;

    if (!chat_line_cut(&bytes, &line, &end) || !chat_str_is(end, "\n")) {
        return CHAT_BAD;
    }

    word = chat_str_cut(&line, ' ');
    if (!chat_str_number(word, &status) || status < CHAT_RECORDING_FIRST
        || status > CHAT_RECORDING_LAST || !chat_str_number(line, &len)
        || len > bytes.len)
    {
        return CHAT_BAD;
    }

    out->status = (uint32_t) status;
    out->message = chat_str(bytes.data, (size_t) len);
    bytes = chat_str(bytes.data + len, bytes.len - (size_t) len);
    out->headers = bytes;

    while (chat_line_cut(&bytes, &line, &end)) {
        if (!chat_str_is(end, "\n") || !chat_recording_is_header(line)) {
            return CHAT_BAD;
        }
    }

    return CHAT_OK;
}


size_t
chat_recording_cut(chat_str_t bytes, size_t max)
{
    size_t               n;
    const unsigned char *p = bytes.data;

    if (bytes.len <= max) {
        return bytes.len;
    }

    for (n = max; n > 1; n--) {
        /* an empty line, of LF or CR LF */
        if (p[n - 1] == '\n'
            && (p[n - 2] == '\n'
                || (n > 2 && p[n - 2] == '\r' && p[n - 3] == '\n')))
        {
            return n;
        }
    }

    return max;
}
