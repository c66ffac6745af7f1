/*
 * sim_body.c: bodies of clients, and what a provider reads in a body.
 *
 * A batch has up to four calls of one step. A result is a string that names
 * its call and its value, so that the provider can tell results apart. The
 * provider reads with the dialect's reader, and counts by itself how often
 * each result is in the text.
 */

#include <ngx_config.h>
#include <ngx_core.h>

#include "sim.h"

#define CHAT "/v1/chat/completions"
#define ANTHROPIC "/v1/messages"
#define RESPONSES "/v1/responses"
#define GEMINI "/v1beta/models/m:streamGenerateContent"

static char   text[8192];
static size_t len;


static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void
add(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    len += (size_t) vsnprintf(text + len, sizeof(text) - len, format, args);
    va_end(args);
}


/* Strong ids. */
static const char *const ids[SIM_CALLS] = { "call_a1B2c3D4e5F6g7H8",
                                            "call_b1B2c3D4e5F6g7H8",
                                            "call_c1B2c3D4e5F6g7H8",
                                            "call_d1B2c3D4e5F6g7H8" };


chat_str_t
sim_call_id(unsigned call)
{
    return sim.weak ? sim.ids[call] : chat_cstr(ids[call]);
}


/* Gemini gives a result without an id to a call by its name. */
static const char *
name_of(unsigned call)
{
    static const char *const names[SIM_CALLS] = { "dig0", "dig1", "dig2",
                                                  "dig3" };

    return sim.dialect == &chat_dialect_gemini ? names[call] : "dig";
}


chat_str_t
sim_call_name(unsigned call)
{
    return chat_cstr(name_of(call));
}


const char *
sim_uri(void)
{
    return sim.dialect == &chat_dialect_openai_chat        ? CHAT
           : sim.dialect == &chat_dialect_anthropic        ? ANTHROPIC
           : sim.dialect == &chat_dialect_openai_responses ? RESPONSES
           : sim.dialect == &chat_dialect_gemini           ? GEMINI
                                                           : "/api/chat";
}


void
sim_body_text(const sim_body_t *body, char out[64])
{
    snprintf(out, 64, "%s %.*s%s%s",
             body->kind == SIM_FRESH   ? "fresh"
             : body->kind == SIM_BATCH ? "asks"
                                       : "external",
             (int) sim.ncalls, body->values, body->variant ? " variant" : "",
             body->retry ? " retry" : "");
}


/* The part of the AI SDK with one call. */
static void
add_part(const sim_body_t *body, unsigned i)
{
    char value = body->values[i];

    add(",{\"type\":\"tool-dig\",\"toolCallId\":\"%s\",\"input\":{\"n\":%u},",
        ids[i], i);

    if (sim.approvals >> i & 1) {
        add("\"state\":\"approval-%s\",\"approval\":{\"id\":\"ap%u\"%s}}",
            value == '.' ? "requested" : "responded", i,
            value == 'g'   ? ",\"approved\":true"
            : value == 'r' ? ",\"approved\":false"
                           : "");
    } else if (value == '.') {
        add("\"state\":\"input-available\"}");
    } else {
        add("\"state\":\"output-available\",\"output\":\"R%u%c\"}", i, value);
    }
}


static void
ai_sdk(const sim_body_t *body)
{
    unsigned i;

    add("{\"id\":\"chat-1\",\"messages\":[{\"id\":\"u1\",\"role\":\"user\","
        "\"parts\":[{\"type\":\"text\",\"text\":\"go%u\"}]},"
        "{\"id\":\"m1\",\"role\":\"assistant\",\"parts\":["
        "{\"type\":\"step-start\"}",
        body->variant);

    for (i = 0; i < sim.ncalls; i++) {
        add_part(body, i);
    }

    add("]}");

    if (body->kind == SIM_FRESH) {
        add(",{\"id\":\"u2\",\"role\":\"user\",\"parts\":"
            "[{\"type\":\"text\",\"text\":\"next\"}]}");
    }

    add("]}");
}


static void
openai_chat(const sim_body_t *body)
{
    unsigned i;

    add("{\"model\":\"m\",\"stream\":true,\"messages\":["
        "{\"role\":\"user\",\"content\":\"go%u\"},"
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[",
        body->variant);

    for (i = 0; i < sim.ncalls; i++) {
        add("%s{\"id\":\"%s\",\"type\":\"function\",\"function\":"
            "{\"name\":\"dig\",\"arguments\":\"{\\\"n\\\":%u}\"}}",
            i ? "," : "", ids[i], i);
    }

    add("]}");

    for (i = 0; i < sim.ncalls; i++) {
        if (body->values[i] != '.') {
            add(",{\"role\":\"tool\",\"tool_call_id\":\"%s\","
                "\"content\":\"R%u%c\"}",
                ids[i], i, body->values[i]);
        }
    }

    add("%s]}", body->kind == SIM_FRESH
                    ? ",{\"role\":\"user\",\"content\":\"next\"}"
                    : "");
}


static void
anthropic(const sim_body_t *body)
{
    unsigned i, n = 0;

    add("{\"model\":\"m\",\"stream\":true,\"max_tokens\":9,\"messages\":["
        "{\"role\":\"user\",\"content\":\"go%u\"},"
        "{\"role\":\"assistant\",\"content\":[",
        body->variant);

    for (i = 0; i < sim.ncalls; i++) {
        add("%s{\"type\":\"tool_use\",\"id\":\"%s\",\"name\":\"dig\","
            "\"input\":{\"n\":%u}}",
            i ? "," : "", ids[i], i);
    }

    add("]},{\"role\":\"user\",\"content\":[");

    for (i = 0; i < sim.ncalls; i++) {
        if (body->values[i] != '.') {
            add("%s{\"type\":\"tool_result\",\"tool_use_id\":\"%s\","
                "\"content\":\"R%u%c\"}",
                n++ ? "," : "", ids[i], i, body->values[i]);
        }
    }

    add("%s]}]}", body->kind == SIM_FRESH
                      ? n ? ",{\"type\":\"text\",\"text\":\"next\"}"
                          : "{\"type\":\"text\",\"text\":\"next\"}"
                      : "");
}


static void
openai_responses(const sim_body_t *body)
{
    unsigned i, n = 0;

    add("{\"model\":\"m%u\",\"stream\":true,"
        "\"previous_response_id\":\"resp_1\",\"input\":[",
        body->variant);

    for (i = 0; i < sim.ncalls; i++) {
        if (body->values[i] != '.') {
            add("%s{\"type\":\"function_call_output\",\"call_id\":\"%s\","
                "\"output\":\"R%u%c\"}",
                n++ ? "," : "", ids[i], i, body->values[i]);
        }
    }

    if (body->kind == SIM_FRESH) {
        add("%s{\"role\":\"user\",\"content\":\"next\"}", n ? "," : "");
    }

    add("]}");
}


/* A member with the id of a call, unless it has none. */
static void
add_id(unsigned call)
{
    if (!sim.weak) {
        add("\"id\":\"%s\",", ids[call]);
    }
}


static void
gemini(const sim_body_t *body)
{
    unsigned i, n = 0;

    add("{\"contents\":[{\"role\":\"user\",\"parts\":["
        "{\"text\":\"go%u\"}]},{\"role\":\"model\",\"parts\":[",
        body->variant);

    for (i = 0; i < sim.ncalls; i++) {
        add("%s{\"functionCall\":{", i ? "," : "");
        add_id(i);
        add("\"name\":\"%s\",\"args\":{\"n\":%u}}}", name_of(i), i);
    }

    add("]},{\"role\":\"user\",\"parts\":[");

    for (i = 0; i < sim.ncalls; i++) {
        if (body->values[i] != '.') {
            add("%s{\"functionResponse\":{", n++ ? "," : "");
            add_id(i);
            add("\"name\":\"%s\",\"response\":{\"output\":\"R%u%c\"}}}",
                name_of(i), i, body->values[i]);
        }
    }

    add("%s]}]}", body->kind != SIM_FRESH ? ""
                  : n                     ? ",{\"text\":\"next\"}"
                                          : "{\"text\":\"next\"}");
}


static void
external(const sim_body_t *body)
{
    char     value;
    unsigned i, n = 0;

    add("[");

    for (i = 0; i < sim.ncalls; i++) {
        value = body->values[i];

        if (value == '.') {
            continue;
        }

        add("%s{\"conversation\":\"" SIM_USER "\",\"toolCallId\":\"%.*s\",",
            n++ ? "," : "", (int) sim_call_id(i).len,
            (const char *) sim_call_id(i).data);

        if (sim.approvals >> i & 1) {
            add("\"approved\":%s}", value == 'g' ? "true" : "false");
        } else {
            add("\"output\":\"R%u%c\"}", i, value);
        }
    }

    add("]");
}


chat_str_t
sim_body(const sim_body_t *body)
{
    chat_str_t copy;

    len = 0;

    if (body->kind == SIM_EXTERNAL) {
        external(body);
    } else if (sim.dialect == &chat_dialect_gemini) {
        gemini(body);
    } else if (sim.dialect == &chat_dialect_ai_sdk) {
        ai_sdk(body);
    } else if (sim.dialect == &chat_dialect_openai_chat) {
        openai_chat(body);
    } else if (sim.dialect == &chat_dialect_anthropic) {
        anthropic(body);
    } else {
        openai_responses(body);
    }

    if (chat_arena_dup(sim.arena, chat_str(text, len), &copy) != CHAT_OK) {
        sim_violated("model", "no memory");
    }

    return copy;
}


/* How often a text is in another. */
static unsigned
count_of(chat_str_t in, const char *what)
{
    size_t      n = strlen(what);
    unsigned    count = 0;
    const char *p = (const char *) in.data, *end = p + in.len;

    for (; (p = memmem(p, (size_t) (end - p), what, n)) != NULL; p += n) {
        count++;
    }

    return count;
}


/* The value of a call in the text by its own count; '!': more than one. */
static char
value_in(chat_str_t in, unsigned call)
{
    char     what[16], value = '.';
    unsigned i, n, all = 0;

    for (i = 0; i < 2; i++) {
        snprintf(what, sizeof(what), "R%u%c", call, "xy"[i]);
        n = count_of(in, what);
        all += n;
        value = n ? "xy"[i] : value;
    }

    return all > 1 ? '!' : value;
}


int
sim_body_read(chat_str_t in, char values[SIM_CALLS])
{
    int                n = 0;
    unsigned           i;
    size_t             k;
    chat_rc_e          rc;
    chat_arena_t      *arena = chat_arena_create(0);
    chat_request_t     rq;
    chat_json_doc_t    doc;
    const chat_call_t *call;

    rq = (chat_request_t){ .tenant = &sim.tenant };
    memset(values, '.', SIM_CALLS);
    memset(&doc, 0, sizeof(doc));

    if (chat_json_parse(&doc, arena, in) != CHAT_OK
        || chat_dialect_request(sim.dialect, chat_cstr(sim_uri()), &doc, arena,
                                &rq, &rc)
               == NULL)
    {
        chat_arena_destroy(arena);
        return -1;
    }

    for (i = 0; i < sim.ncalls; i++) {
        values[i] = value_in(in, i);
    }

    for (k = 0; k < rq.ncalls; k++) {
        call = &rq.calls[k];

        for (i = 0; i < sim.ncalls && !chat_str_eq(call->id, sim_call_id(i));
             i++) {
            /* void */
        }

        if (i == sim.ncalls || values[i] != '.') {
            continue;
        }

        if (chat_outcome_is_final(call->outcome)) {
            values[i] = 'e';

        } else if (chat_approval_is_decided(call->approval)) {
            values[i] = call->approval == CHAT_APPROVAL_GRANTED ? 'g' : 'r';
        }
    }

    for (i = 0; i < sim.ncalls; i++) {
        n += values[i] != '.';
    }

    chat_arena_destroy(arena);
    return n;
}
