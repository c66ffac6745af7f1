/*
 * fuzz_body.c: any body is read, classified, completed and read again.
 *
 * The first byte chooses the dialect. Every call that the body leaves open
 * gets a result. Then the merged body is JSON and of the same class; no call
 * with a result is open; and everything else is still there, byte for byte if
 * the dialect only inserts, else by value. The same holds for a fresh turn
 * with errors for its open calls; then no call is left open.
 */

#include "policy/chat_gate.h"
#include "policy/chat_merge.h"
#include "fuzz_read.h"

#define FUZZ_SIZE 16384


static int
fuzz_dead(void *data, chat_str_t worker)
{
    return 0;
}


static int
fuzz_is_open(const chat_call_t *call)
{
    return chat_call_is_member(call) && !call->bare
           && !chat_call_is_settled(call);
}


/*
 * 1 if the step of the call has a result for its id, here or at another
 * occurrence.
 */
static int
fuzz_is_answered(const body_t *body, const chat_call_t *call)
{
    size_t             i;
    const chat_step_t *step = &body->rq.steps[call->step];

    for (i = step->first; i < step->first + step->count; i++) {
        if (chat_str_eq(body->rq.calls[i].id, call->id)
            && chat_call_is_settled(&body->rq.calls[i]))
        {
            return 1;
        }
    }

    return 0;
}


/*
 * 1 if calls of the step share an id in Gemini, where a result goes to the
 * first of them: a result may then move to another call.
 */
static int
fuzz_is_ambiguous(const body_t *body, const chat_call_t *call)
{
    size_t             i, k;
    const chat_call_t *calls = body->rq.calls;
    const chat_step_t *step = &body->rq.steps[call->step];

    if (body->dialect != &chat_dialect_gemini) {
        return 0;
    }

    for (i = step->first; i < step->first + step->count; i++) {
        for (k = step->first; k < i; k++) {
            if (chat_str_eq(calls[i].id, calls[k].id)) {
                return 1;
            }
        }
    }

    return 0;
}


/* Without stored results a body goes upstream exactly if it is complete. */
static void
fuzz_gate(body_t *body)
{
    size_t          i, dropped;
    chat_facts_t    facts;
    chat_batch_t    batch;
    chat_question_t q;
    chat_decision_t d;

    memset(&q, 0, sizeof(q));
    if (chat_gate_question(body->dialect, &body->rq, 128, body->arena, &q)
        != CHAT_OK)
    {
        return;
    }

    for (i = body->rq.steps[body->rq.nsteps - 1].first; i < body->rq.ncalls;
         i++) {
        NEED(!q.complete || !fuzz_is_open(&body->rq.calls[i])
             || fuzz_is_answered(body, &body->rq.calls[i]));
    }

    q.worker = chat_cstr("w");
    q.request = chat_cstr("1");
    chat_facts_init(&facts, body->arena);
    dropped = chat_gate_facts(&q, &body->rq, 1, 1 << 20, &facts);
    NEED(!facts.failed && dropped == 0);
    NEED(chat_batch_read(facts.items, facts.count, body->arena, &batch)
         == CHAT_OK);

    chat_gate_decide(&q, &batch, fuzz_dead, NULL, &d);
    NEED(d.verdict
         == (q.chained    ? CHAT_GATE_UNMANAGED
             : q.complete ? CHAT_GATE_CLAIM
                          : CHAT_GATE_HOLD));
}


/* A result for every open call; for a chain two that the body lacks. */
static void
fuzz_results(body_t *body, chat_results_t *results)
{
    size_t          i;
    chat_result_t  *result;
    chat_request_t *rq = &body->rq;

    chat_results_init(results, body->arena);
    results->items =
        chat_arena_alloc(body->arena, (rq->ncalls + 2) * sizeof(*result));
    NEED(results->items != NULL);

    for (i = 0; i < rq->ncalls; i++) {
        if (fuzz_is_open(&rq->calls[i]) && !rq->chained) {
            result = &results->items[results->count++];
            result->call = &rq->calls[i];
            result->id = result->call->id;
        }
    }

    for (i = 0; rq->chained && i < 2; i++) {
        result = &results->items[results->count++];
        result->id = chat_cstr(i ? "fuzz_1" : "fuzz_0");
        result->after = i && rq->ncalls ? &rq->calls[rq->ncalls - 1] : NULL;
    }

    for (i = 0; i < results->count; i++) {
        results->items[i].outcome = CHAT_OUTCOME_OK;
        results->items[i].payload = chat_cstr(
            body->dialect == &chat_dialect_ai_sdk ? "{\"x\":1}" : "\"r\"");
    }
}


static int
fuzz_was_merged(const chat_results_t *results, chat_str_t id)
{
    size_t i;

    for (i = 0; i < results->count; i++) {
        if (chat_str_eq(results->items[i].id, id)) {
            return 1;
        }
    }

    return 0;
}


/* The members that a result changes in a part of the AI SDK. */
static int
fuzz_is_changed(chat_json_doc_t *doc, const chat_json_t *member)
{
    size_t                   i;
    static const char *const keys[] = { "state", "output", "errorText",
                                        "approval", "preliminary" };

    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (chat_json_key_is(doc, member, keys[i], 0)) {
            return 1;
        }
    }

    return 0;
}


/* The text of the value without the members that may change. */
static void
fuzz_keep(chat_json_doc_t *doc, const chat_json_t *node, chat_buf_t *out)
{
    size_t             at = node->start;
    const chat_json_t *child;

    for (child = node->child; child != NULL; child = child->next) {
        if (node->type == CHAT_JSON_ARRAY) {
            chat_buf_add(out,
                         chat_str(doc->text.data + at, child->start - at));
        } else if (!fuzz_is_changed(doc, child)) {
            chat_buf_add(out, chat_str(doc->text.data + child->key_start,
                                       child->key_end - child->key_start));
        }

        if (node->type == CHAT_JSON_ARRAY || !fuzz_is_changed(doc, child)) {
            fuzz_keep(doc, child, out);
        }

        at = child->end;
    }

    if (node->child == NULL || node->type == CHAT_JSON_ARRAY) {
        chat_buf_add(out, chat_str(doc->text.data + at, node->end - at));
    }
}


/* Checks that everything unrelated to a result stays. */
static void
fuzz_is_kept(body_t *before, body_t *after)
{
    size_t     i, k = 0;
    chat_str_t from = before->doc.text, to = after->doc.text;
    chat_buf_t one = { 0 }, two = { 0 };

    if (before->dialect != &chat_dialect_ai_sdk) {
        for (i = 0; i < to.len && k < from.len; i++) {
            k += from.data[k] == to.data[i];
        }
        NEED(k == from.len);
        return;
    }

    fuzz_keep(&before->doc, before->doc.root, &one);
    fuzz_keep(&after->doc, after->doc.root, &two);
    NEED(!one.failed && !two.failed);
    NEED(chat_str_eq(chat_buf_str(&one), chat_buf_str(&two)));
    chat_buf_free(&one);
    chat_buf_free(&two);
}


static void
fuzz_judge(body_t *body, const chat_results_t *results, chat_str_t merged)
{
    size_t             i;
    body_t             again;
    const chat_call_t *call;

    NEED(fuzz_read(&again, body->dialect, merged));

    /* a body without results is no continuation, but may become one */
    NEED(again.rq.class == body->rq.class
         || ((body->rq.class == CHAT_CLASS_OTHER
              || body->rq.class == CHAT_CLASS_PENDING || body->rq.chained)
             && again.rq.class == CHAT_CLASS_CONTINUATION));

    /* a resume of AG-UI answers interrupts: a call of such an id stays open */
    for (i = 0; i < again.rq.ncalls; i++) {
        call = &again.rq.calls[i];

        if (fuzz_is_open(call) && fuzz_was_merged(results, call->id)
            && !(body->rq.chained && body->dialect->transcript))
        {
            NEED(body->dialect != &chat_dialect_ai_sdk);
            NEED(fuzz_is_answered(&again, call)
                 || fuzz_is_ambiguous(&again, call));
        }
    }

    fuzz_is_kept(body, &again);
    chat_arena_destroy(again.arena);
}


static void
fuzz_merge(body_t *body)
{
    chat_rc_e      rc;
    chat_buf_t     merged = { 0 };
    chat_results_t results;

    fuzz_results(body, &results);
    rc = chat_merge(body->dialect, &body->doc, &body->rq, &results, &merged);
    NEED(rc == CHAT_OK || rc == CHAT_BAD);

    if (rc == CHAT_BAD) {
        NEED(merged.len == 0);

    } else if (results.count == 0) {
        NEED(chat_str_eq(chat_buf_str(&merged), body->doc.text));

    } else {
        fuzz_judge(body, &results, chat_buf_str(&merged));
    }

    chat_buf_free(&merged);
}


/*
 * 1 if the call gets no error: it, or another of its id, can still run or is a
 * screenshot.
 */
static int
fuzz_is_spared(body_t *body, const chat_call_t *call)
{
    size_t             i;
    const chat_call_t *twin;

    for (i = 0; i < body->rq.ncalls; i++) {
        twin = &body->rq.calls[i];

        if (chat_str_eq(twin->id, call->id)
            && (chat_approval_is_decided(twin->approval)
                || chat_json_is(&body->doc,
                                chat_json_get(&body->doc, twin->node, "type"),
                                "computer_call")))
        {
            return 1;
        }
    }

    return 0;
}


/* Errors for all open calls; chained: of three calls without results. */
static chat_rc_e
fuzz_errors(body_t *body, chat_results_t *results)
{
    size_t          i;
    chat_rc_e       rc;
    chat_call_t     order[3];
    chat_request_t *rq = &body->rq;

    chat_results_init(results, body->arena);
    rc = chat_results_open(results, rq, 1);

    if (rc != CHAT_OK || !rq->chained) {
        return rc;
    }

    memset(order, 0, sizeof(order));
    for (i = 0; i < 3; i++) {
        order[i].id = chat_cstr(i == 0 ? "fuzz_0" : i == 1 ? "fuzz_1" : "k");
    }

    return chat_results_open_chain(results, rq, &rq->steps[rq->nsteps - 1],
                                   order, 3);
}


static void
fuzz_repair(body_t *body)
{
    size_t             i;
    body_t             again;
    chat_rc_e          rc;
    chat_buf_t         merged = { 0 };
    chat_results_t     results;
    const chat_call_t *call;

    if (body->rq.class != CHAT_CLASS_FRESH) {
        return;
    }

    rc = fuzz_errors(body, &results);
    NEED(rc == CHAT_OK || rc == CHAT_LIMIT);

    if (rc == CHAT_OK) {
        NEED(
            chat_merge(body->dialect, &body->doc, &body->rq, &results, &merged)
            == CHAT_OK);
        NEED(fuzz_read(&again, body->dialect, chat_buf_str(&merged)));
        /* a developer's note beside answers is no new turn */
        NEED(again.rq.class == CHAT_CLASS_FRESH || body->rq.chained);

        for (i = 0; i < again.rq.ncalls; i++) {
            call = &again.rq.calls[i];
            NEED(!fuzz_is_open(call) || fuzz_is_answered(&again, call)
                 || fuzz_is_spared(&again, call)
                 || fuzz_is_ambiguous(&again, call));
        }

        fuzz_is_kept(body, &again);
        chat_arena_destroy(again.arena);
    }

    chat_buf_free(&merged);
}


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t                which;
    body_t                body;
    unsigned char        *text;
    const chat_dialect_t *dialect;

    if (size == 0 || size > FUZZ_SIZE) {
        return 0;
    }

    text = malloc(size);
    NEED(text != NULL);
    memcpy(text, data + 1, size - 1);

    which = (unsigned char) (data[0] - '0') % chat_dialect_count;
    dialect = chat_dialects[which];

    if (fuzz_read(&body, dialect, chat_str(text, size - 1))) {
        fuzz_gate(&body);
        fuzz_merge(&body);
        chat_arena_destroy(body.arena);

        NEED(fuzz_read(&body, dialect, chat_str(text, size - 1)));
        fuzz_repair(&body);
    }

    chat_arena_destroy(body.arena);
    free(text);

    return 0;
}
