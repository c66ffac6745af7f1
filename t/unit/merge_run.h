/*
 * merge_run.h: bodies of every dialect with results for some of their calls,
 * completed with stored results of other requests.
 *
 * A body of n calls has the results of those in a mask. Completed, it must be
 * the body that a client with all results would send; canonical texts are
 * compared.
 */

#ifndef MERGE_RUN_H
#define MERGE_RUN_H

#include "policy/chat_merge.h"
#include "gate_run.h"

#define ALL(n) ((1u << (n)) - 1)

/* How a dialect writes a body; %u is a call's number, %s its result. */
typedef struct {
    const chat_dialect_t *dialect;
    const char           *head;
    const char           *call;     /* one of them */
    const char           *answered; /* the call where it carries the result */
    const char           *middle;   /* between calls and results, NULL: none */
    const char           *result;
    const char           *tail;
    const char           *extra_tail; /* a fresh turn */
    const char           *chain;      /* head of a chained body, or NULL */
    const char           *error;      /* a call or result without an answer */
} form_t;

#define WHY                                                                \
    "The outcome of this call is unknown: no result and no decision came " \
    "before the conversation went on."
#define NOTE "\"" WHY "\""
#define IN_WORDS "\"{\\\"error\\\":\\\"" WHY "\\\"}\""
#define HI "{\"role\":\"user\",\"content\":\"hi\"}"

static const form_t forms[] = {
    { &chat_dialect_ai_sdk,
      "{\"id\":\"c\",\"messages\":[{\"id\":\"u\",\"role\":\"user\","
      "\"parts\":[{\"type\":\"text\",\"text\":\"hi\"}]},{\"id\":\"m\","
      "\"role\":\"assistant\",\"parts\":[{\"type\":\"step-start\"}",
      ",{\"type\":\"tool-f\",\"toolCallId\":\"call_%u\",\"state\":"
      "\"input-available\",\"input\":{\"n\":1.0}}",
      ",{\"type\":\"tool-f\",\"toolCallId\":\"call_%u\",\"state\":"
      "\"output-available\",\"input\":{\"n\":1.0},\"output\":\"%s\"}",
      NULL, NULL, "]}]}",
      "]},{\"id\":\"v\",\"role\":\"user\",\"parts\":[{\"type\":\"text\","
      "\"text\":\"more\"}]}]}",
      NULL,
      ",{\"type\":\"tool-f\",\"toolCallId\":\"call_%u\",\"state\":"
      "\"output-error\",\"input\":{\"n\":1.0},\"errorText\":" NOTE "}" },
    { &chat_dialect_openai_chat,
      "{\"model\":\"m\",\"messages\":[" HI ",{\"role\":\"assistant\","
      "\"content\":null,\"tool_calls\":[",
      "{\"id\":\"call_%u\",\"type\":\"function\",\"function\":{\"name\":"
      "\"f\",\"arguments\":\"{}\"}},",
      NULL, "]}",
      ",{\"role\":\"tool\",\"tool_call_id\":\"call_%u\",\"content\":"
      "\"%s\"}",
      "]}", "," HI "]}", NULL,
      ",{\"role\":\"tool\",\"tool_call_id\":\"call_%u\",\"content\":" IN_WORDS
      "}" },
    { &chat_dialect_openai_responses, "{\"model\":\"m\",\"input\":[" HI,
      ",{\"type\":\"function_call\",\"call_id\":\"call_%u\",\"name\":\"f\","
      "\"arguments\":\"{}\"}",
      NULL, "",
      ",{\"type\":\"function_call_output\",\"call_id\":\"call_%u\","
      "\"output\":\"%s\"}",
      "]}", "," HI "]}",
      "{\"model\":\"m\",\"previous_response_id\":\"resp_1\",\"input\":[",
      ",{\"type\":\"function_call_output\",\"call_id\":\"call_%u\","
      "\"output\":" IN_WORDS "}" },
    { &chat_dialect_anthropic,
      "{\"model\":\"m\",\"messages\":[" HI ",{\"role\":\"assistant\","
      "\"content\":[",
      "{\"type\":\"tool_use\",\"id\":\"call_%u\",\"name\":\"f\",\"input\":"
      "{}},",
      NULL, "]},{\"role\":\"user\",\"content\":[",
      ",{\"type\":\"tool_result\",\"tool_use_id\":\"call_%u\",\"content\":"
      "\"%s\"}",
      "]}]}", ",{\"type\":\"text\",\"text\":\"more\"}]}]}",
      "{\"model\":\"m\",\"thread\":{\"type\":\"continue\","
      "\"previous_message_id\":\"m1\"},\"messages\":[{\"role\":\"user\","
      "\"content\":[",
      ",{\"type\":\"tool_result\",\"tool_use_id\":\"call_%u\","
      "\"content\":" NOTE ",\"is_error\":true}" },
    { &chat_dialect_gemini,
      "{\"contents\":[{\"role\":\"user\",\"parts\":[{\"text\":\"hi\"}]},"
      "{\"role\":\"model\",\"parts\":[",
      "{\"functionCall\":{\"id\":\"call_%u\",\"name\":\"f\",\"args\":"
      "{}}},",
      NULL, "]},{\"role\":\"user\",\"parts\":[",
      ",{\"functionResponse\":{\"id\":\"call_%u\",\"name\":\"f\","
      "\"response\":{\"output\":\"%s\"}}}",
      "]}]}", ",{\"text\":\"more\"}]}]}", NULL,
      ",{\"functionResponse\":{\"id\":\"call_%u\",\"name\":\"f\","
      "\"response\":{\"error\":" NOTE "}}}" },
    { &chat_dialect_ag_ui,
      "{\"threadId\":\"t\",\"runId\":\"r\",\"messages\":[" HI
      ",{\"id\":\"m\",\"role\":\"assistant\",\"toolCalls\":[",
      "{\"id\":\"call_%u\",\"type\":\"function\",\"function\":{\"name\":"
      "\"f\",\"arguments\":\"{}\"}},",
      NULL, "]}",
      ",{\"id\":\"t-%1$u\",\"role\":\"tool\",\"toolCallId\":"
      "\"call_%1$u\",\"content\":\"%2$s\"}",
      "]}", "," HI "]}", NULL,
      ",{\"id\":\"result-call_%1$u\",\"role\":\"tool\",\"toolCallId\":"
      "\"call_%1$u\",\"content\":" NOTE ",\"error\":" NOTE "}" },
};

#define FORMS (sizeof(forms) / sizeof(forms[0]))
#define AI_SDK (&forms[0])
#define OPENAI_CHAT (&forms[1])
#define RESPONSES (&forms[2])


/* Appends the text, without its comma at the start of an array. */
static inline void
form_item(chat_buf_t *out, const char *text, unsigned i, const char *value)
{
    char        item[512];
    const char *from = item;

    assert_true((size_t) snprintf(item, sizeof(item), text, i, value)
                < sizeof(item));
    if (out->len && out->data[out->len - 1] == '[' && item[0] == ',') {
        from++;
    }
    chat_buf_puts(out, from);
}


static inline void
form_call(const form_t *form, unsigned i, int answered, const char *value,
          chat_buf_t *out)
{
    form_item(out, answered && form->answered ? form->answered : form->call, i,
              value);
}


/* The body of n calls, those of mask with results, which name their source. */
static inline void
form_write(const form_t *form, unsigned n, unsigned mask, int extra,
           const char *source, chat_buf_t *out)
{
    unsigned i;

    out->len = 0;
    chat_buf_puts(out, form->head);

    for (i = 0; i < n; i++) {
        form_call(form, i, mask >> i & 1, source, out);
    }

    if (form->middle != NULL) {
        out->len -= out->data[out->len - 1] == ',';
        chat_buf_puts(out, form->middle);

        for (i = 0; i < n; i++) {
            if (mask >> i & 1) {
                form_item(out, form->result, i, source);
            }
        }
    }

    form_item(out, extra ? form->extra_tail : form->tail, 0, "");
}


/* A chained body with the results in this order of call numbers. */
static inline void
form_chain(const form_t *form, const char *order, chat_buf_t *out)
{
    out->len = 0;
    chat_buf_puts(out, form->chain);

    for (/* void */; *order; order++) {
        form_item(out, form->result, (unsigned) (*order - '0'), "r");
    }

    chat_buf_puts(out, form->tail);
}


/* A request that was read from a body. */
typedef struct {
    asker_t         a;
    chat_json_doc_t doc;
    const form_t   *form;
    chat_call_t     order[16]; /* chained: the calls of the store */
    size_t          norder;
    chat_results_t  results;
} taken_t;


/* Reads the body and makes the first join with it. */
static inline void
take(taken_t *t, const form_t *form, chat_str_t text)
{
    chat_rc_e  rc;
    chat_str_t own;

    memset(t, 0, sizeof(*t));
    t->a.rq.tenant = &test_tenant;
    t->form = form;
    t->a.arena = chat_arena_create(0);
    assert_non_null(t->a.arena);
    assert_int_equal(chat_arena_dup(t->a.arena, text, &own), CHAT_OK);
    assert_int_equal(chat_json_parse(&t->doc, t->a.arena, own), CHAT_OK);

    if (chat_dialect_request(form->dialect, chat_cstr("/"), &t->doc,
                             t->a.arena, &t->a.rq, &rc)
        == NULL)
    {
        fail_msg("%s: %.*s", form->dialect->name, (int) text.len, text.data);
    }

    chat_results_init(&t->results, t->a.arena);

    if (t->a.rq.answers && t->a.rq.ncalls != 0) {
        asker_open(&t->a, form->dialect, 'A');
        (void) asker_join(&t->a);
    }
}


static inline void
drop(taken_t *t)
{
    asker_end(&t->a);
}


/* The calls of a chain, as nginx keeps them. */
static inline void
take_order(taken_t *t, const chat_batch_t *batch)
{
    size_t i;

    for (i = 0; t->a.rq.chained && i < batch->nmembers; i++) {
        if (batch->members[i].is_call) {
            t->order[t->norder].kind = batch->members[i].kind;
            t->order[t->norder].outcome = batch->members[i].outcome;
            t->order[t->norder].delivered =
                (t->a.rq.by_conversation && batch->members[i].delivered) & 1;
            t->order[t->norder].approval = batch->members[i].approval;
            t->order[t->norder++].id = batch->members[i].id;
        }
    }
}


/* Collects the stored results of the request's last step. */
static inline void
collect(taken_t *t, int approvals)
{
    size_t       i, k, found = 0;
    chat_fact_t  facts[64];
    chat_batch_t batch;
    chat_needs_t needs;

    assert_int_equal(
        chat_batch_read(store.facts, store.count, t->a.arena, &batch),
        CHAT_OK);
    assert_int_equal(chat_gate_needs(&t->a.q, &batch, t->a.arena, &needs),
                     CHAT_OK);
    take_order(t, &batch);

    for (i = 0; i < needs.nfields; i++) {
        for (k = 0; k < store.count; k++) {
            if (store.facts[k].has_payload
                && chat_str_eq(store.facts[k].field, needs.fields[i]))
            {
                facts[found++] = store.facts[k];
            }
        }
    }

    assert_int_equal(found, needs.nfields);
    assert_int_equal(chat_results_collect(
                         &t->results, &t->a.rq,
                         &t->a.rq.steps[t->a.rq.nsteps - 1], facts, found,
                         t->norder ? t->order : NULL, t->norder, approvals),
                     CHAT_OK);
}


/* The body with the stored results. */
static inline void
complete(taken_t *t, chat_buf_t *out)
{
    out->len = 0;
    collect(t, t->a.rq.class == CHAT_CLASS_CONTINUATION);
    assert_int_equal(
        chat_merge(t->form->dialect, &t->doc, &t->a.rq, &t->results, out),
        CHAT_OK);
}


/* Both texts are the same JSON. */
static inline void
same(const chat_buf_t *got, const chat_buf_t *want)
{
    int               i;
    chat_json_doc_t   doc;
    chat_arena_t     *arena = chat_arena_create(0);
    chat_buf_t        canon[2] = { { 0 }, { 0 } };
    const chat_buf_t *text[2] = { got, want };

    for (i = 0; i < 2; i++) {
        if (chat_json_parse(&doc, arena, chat_buf_str(text[i])) != CHAT_OK) {
            fail_msg("no JSON: %.*s", (int) text[i]->len, text[i]->data);
        }
        chat_json_canon(&doc, doc.root, &canon[i]);
    }

    if (!chat_str_eq(chat_buf_str(&canon[0]), chat_buf_str(&canon[1]))) {
        fail_msg("got  %.*s\nwant %.*s", (int) canon[0].len, canon[0].data,
                 (int) canon[1].len, canon[1].data);
    }

    chat_buf_free(&canon[0]);
    chat_buf_free(&canon[1]);
    chat_arena_destroy(arena);
}


#endif /* MERGE_RUN_H */
