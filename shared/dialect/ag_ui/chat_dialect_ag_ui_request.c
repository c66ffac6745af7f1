/*
 * chat_dialect_ag_ui_request.c: the input of an AG-UI run.
 *
 * The body is the whole transcript of a thread. A client may keep the parallel
 * calls of one answer in a message each: the assistant's messages in a row are
 * one step, the tool messages behind them its results. A body can also answer
 * interrupts, as entries of resume. The interrupts are not in it, so such a
 * body is chained to its thread.
 * Promises: a resume is a continuation whatever the transcript ends with, as
 * an interrupt need not leave a message.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"

#include <stdlib.h>


chat_role_e
chat_ag_ui_role(chat_json_doc_t *doc, const chat_json_t *message)
{
    const chat_json_t *role = chat_json_get(doc, message, "role");

    if (chat_json_is(doc, role, "user")) {
        return CHAT_ROLE_USER;
    }

    if (chat_json_is(doc, role, "assistant")) {
        return CHAT_ROLE_ASSISTANT;
    }

    return chat_json_is(doc, role, "tool") ? CHAT_ROLE_RESULTS
                                           : CHAT_ROLE_ASIDE;
}


/* ---- the client's tools ---- */


static int
compare_names(const void *one, const void *two)
{
    const chat_str_t *a = one;
    const chat_str_t *b = two;

    return chat_str_compare(*a, *b);
}


chat_kind_e
chat_ag_ui_kind(const chat_ag_ui_own_t *own, chat_str_t name)
{
    if (own == NULL || own->ntools == 0
        || bsearch(&name, own->tools, own->ntools, sizeof(name), compare_names)
               != NULL)
    {
        return CHAT_KIND_CLIENT;
    }

    return CHAT_KIND_PROVIDER;
}


static chat_rc_e
read_tools(chat_json_doc_t *doc, chat_arena_t *arena, chat_ag_ui_own_t *own)
{
    size_t             n;
    const chat_json_t *tools, *node;

    tools = chat_json_get(doc, doc->root, "tools");
    n = tools && tools->type == CHAT_JSON_ARRAY ? chat_json_count(tools) : 0;

    if (n == 0 || n > CHAT_AG_UI_TOOLS_MAX) {
        return CHAT_OK;
    }

    own->tools = chat_arena_alloc(arena, n * sizeof(*own->tools));
    if (own->tools == NULL) {
        return CHAT_ERROR;
    }

    for (node = tools->child; node != NULL; node = node->next) {
        own->tools[own->ntools++] = chat_json_text(doc, node, "name");
    }

    qsort(own->tools, own->ntools, sizeof(*own->tools), compare_names);
    return CHAT_OK;
}


const void *
chat_ag_ui_own(const chat_request_t *rq, chat_arena_t *arena)
{
    size_t                  i;
    chat_ag_ui_own_t       *copy = chat_arena_alloc(arena, sizeof(*copy));
    const chat_ag_ui_own_t *own = rq->own;

    if (copy == NULL || chat_arena_dup(arena, own->run, &copy->run)) {
        return NULL;
    }

    copy->ntools = own->ntools;
    copy->tools = chat_arena_alloc(arena, own->ntools * sizeof(*own->tools));
    if (copy->tools == NULL) {
        return NULL;
    }

    for (i = 0; i < own->ntools; i++) {
        if (chat_arena_dup(arena, own->tools[i], &copy->tools[i])) {
            return NULL;
        }
    }

    return copy;
}


/* ---- the transcript ---- */


static chat_rc_e
message_calls(chat_transcript_t *t, const chat_json_t *message)
{
    chat_rc_e          rc = CHAT_OK;
    const chat_json_t *node, *list;

    list = chat_json_get(t->doc, message, "toolCalls");
    node = list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

    for (/* void */; node != NULL && rc == CHAT_OK; node = node->next) {
        chat_call_t call = { .node = node, .ready = 1, .in_last_message = 1 };

        if (node->type == CHAT_JSON_OBJECT) {
            call.id = chat_json_text(t->doc, node, "id");
            call.name = chat_ag_ui_call_name(t->doc, node);
            call.kind = chat_ag_ui_kind(t->rq->own, call.name);
            rc = chat_transcript_call(t, &call, 1);
        }
    }

    return rc;
}


static chat_rc_e
message_result(chat_transcript_t *t, const chat_json_t *message)
{
    return chat_transcript_result(
        t, chat_json_text(t->doc, message, "toolCallId"), CHAT_KIND_CLIENT,
        message, message);
}


/* 1 if the arguments are whole: they parse, or are too deep for that. */
static int
is_whole(chat_str_t args)
{
    chat_rc_e       rc;
    chat_arena_t   *arena;
    chat_json_doc_t doc;

    if (args.len == 0) {
        return 1;
    }

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return 0;
    }

    rc = chat_json_parse(&doc, arena, args);
    chat_arena_destroy(arena);
    return rc == CHAT_OK || rc == CHAT_LIMIT;
}


/* A call without a result whose arguments broke off is not ready. */
static chat_str_t
call_args(chat_transcript_t *t, chat_call_t *call)
{
    chat_str_t args = chat_ag_ui_call_args(t->doc, call->node);

    call->ready = call->result != NULL || is_whole(args);

    return args;
}


/* The result of a call is a tool message, that of an interrupt an entry. */
static chat_rc_e
call_result(chat_transcript_t *t, chat_call_t *call)
{
    const chat_json_t *status = chat_json_get(t->doc, call->result, "status");

    call->payload = chat_json_raw(t->doc, call->result);

    if (!call->bare) {
        return chat_ag_ui_tool_result(t->doc, call->result, &call->outcome,
                                      &call->digest);
    }

    /* an interrupt that comes again is a new one, never a replay */
    call->ready = 0;
    call->outcome = chat_json_is(t->doc, status, "cancelled")
                        ? CHAT_OUTCOME_DENIED
                        : CHAT_OUTCOME_OK;

    return chat_json_digest(t->doc, call->result, &call->digest);
}


/* ---- inserting results ---- */


/* A tool message; one that a client has sent goes in as it was. */
static chat_rc_e
write_message(const chat_result_t *result, chat_arena_t *arena,
              chat_buf_t *out)
{
    chat_rc_e         rc;
    chat_ag_ui_tool_t tool;

    rc = chat_ag_ui_tool_read(result, arena, &tool);
    if (rc != CHAT_OK) {
        return rc;
    }

    if (tool.id.len != 0) {
        chat_buf_add(out, result->payload);
        return CHAT_OK;
    }

    chat_buf_puts(out, "{\"id\":");
    chat_ag_ui_tool_id(result, &tool, out);
    chat_buf_puts(out, ",\"role\":\"tool\",\"toolCallId\":");
    chat_buf_json(out, result->id);
    chat_buf_puts(out, ",\"content\":");
    chat_buf_add(out, tool.content.len ? tool.content : chat_cstr("\"\""));

    if (tool.error.len != 0) {
        chat_buf_puts(out, ",\"error\":");
        chat_buf_add(out, tool.error);
    }

    chat_buf_puts(out, "}");
    return CHAT_OK;
}


/* What agents expect as the answer where a call needs an approval. */
static void
write_decision(const chat_result_t *result, chat_buf_t *out)
{
    chat_buf_printf(
        out, ",\"status\":\"resolved\",\"payload\":{\"approved\":%s",
        result->approval == CHAT_APPROVAL_GRANTED ? "true" : "false");

    if (result->payload.len != 0) {
        chat_buf_puts(out, ",\"reason\":");
        chat_buf_add(out, result->payload);
    }

    chat_buf_puts(out, "}}");
}


/* An entry of resume; one that a client has sent goes in as it was. */
static chat_rc_e
write_entry(const chat_result_t *result, chat_arena_t *arena, chat_buf_t *out)
{
    int             decision = result->outcome == CHAT_OUTCOME_NONE;
    chat_rc_e       rc;
    chat_json_doc_t value;

    if (!decision) {
        rc = chat_json_parse(&value, arena, result->payload);
        if (rc != CHAT_OK) {
            return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_BAD;
        }

        if (chat_str_eq(chat_json_text(&value, value.root, "interruptId"),
                        result->id)) {
            chat_buf_add(out, result->payload);
            return CHAT_OK;
        }
    }

    chat_buf_puts(out, "{\"interruptId\":");
    chat_buf_json(out, result->id);

    if (decision && !result->unknown) {
        write_decision(result, out);

    } else if (result->outcome == CHAT_OUTCOME_OK) {
        chat_buf_puts(out, ",\"status\":\"resolved\",\"payload\":");
        chat_buf_add(out, result->payload);
        chat_buf_puts(out, "}");

    } else {
        /* An unanswered interrupt is sent as cancelled. */
        chat_buf_puts(out, ",\"status\":\"cancelled\"}");
    }

    return CHAT_OK;
}


static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_arena_t *arena, chat_buf_t *out)
{
    return result->call != NULL ? write_message(result, arena, out)
                                : write_entry(result, arena, out);
}


/* Only entries of resume may have none before them. */
static chat_rc_e
find_front(chat_json_doc_t *doc, const chat_json_t *message,
           chat_front_t *front)
{
    const chat_json_t *list = chat_json_get(doc, doc->root, "resume");

    if (message != NULL || list == NULL || list->child == NULL) {
        return CHAT_BAD;
    }

    front->pos = list->child->start;
    front->open = "";
    front->close = ",";

    return CHAT_OK;
}


static const chat_transcript_form_t form = {
    .list = "messages",
    .role = chat_ag_ui_role,
    .calls = message_calls,
    .results = message_result,
    .args = call_args,
    .result = call_result,
    .mixed = CHAT_CLASS_CONTINUATION,
    .runs = 1,
    .write = write_result,
    .front = find_front,
};


chat_rc_e
chat_ag_ui_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                  const chat_result_t *results, size_t n, chat_edits_t *edits)
{
    return chat_transcript_splice(&form, doc, rq, results, n, edits);
}


/* ---- the body ---- */


/* The entries of resume: a step of their own, chained to the thread. */
static chat_rc_e
read_resume(chat_transcript_t *t)
{
    chat_rc_e          rc = CHAT_OK;
    chat_str_t         id;
    chat_request_t    *rq = t->rq;
    const chat_json_t *list, *node;

    list = chat_json_get(t->doc, t->doc->root, "resume");
    node = list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

    for (/* void */; node != NULL && rc == CHAT_OK; node = node->next) {
        id = chat_json_text(t->doc, node, "interruptId");
        if (id.len == 0 || rq->conversation.len == 0) {
            continue;
        }

        if (!rq->chained) {
            rq->class = CHAT_CLASS_CONTINUATION;
            rq->by_conversation = 1;
            rq->answers = 1;
            rc = chat_transcript_chain(t, rq->conversation);
        }

        if (rc == CHAT_OK) {
            rc = chat_transcript_bare(t, id, node);
        }
    }

    return rc;
}


chat_rc_e
chat_ag_ui_request(chat_json_doc_t *doc, chat_arena_t *arena,
                   chat_request_t *rq)
{
    chat_rc_e          rc;
    chat_ag_ui_own_t  *own;
    chat_transcript_t  t;
    const chat_json_t *thread = chat_json_get(doc, doc->root, "threadId");
    const chat_json_t *run = chat_json_get(doc, doc->root, "runId");
    const chat_json_t *list = chat_json_get(doc, doc->root, "messages");

    if (thread == NULL || thread->type != CHAT_JSON_STRING || run == NULL
        || run->type != CHAT_JSON_STRING || list == NULL
        || list->type != CHAT_JSON_ARRAY)
    {
        return CHAT_DECLINED;
    }

    own = chat_arena_alloc(arena, sizeof(*own));
    if (own == NULL || read_tools(doc, arena, own) != CHAT_OK) {
        return CHAT_ERROR;
    }

    own->run = chat_json_string(doc, run);
    rq->own = own;
    rq->stream = 1;
    rq->conversation = chat_json_string(doc, thread);

    chat_transcript_init(&t, &form, doc, arena, rq);

    rc = chat_transcript_end(&t, chat_transcript_read(&t, list));
    if (rc == CHAT_OK) {
        rc = read_resume(&t);
    }

    return rc == CHAT_OK && doc->duplicate ? CHAT_BAD : rc;
}


/* ---- comparing two transcripts ---- */


static void
say(chat_transcript_digest_t *transcript, const char *what,
    const chat_json_t *value)
{
    if (value == NULL || value->type == CHAT_JSON_NULL
        || (value->type == CHAT_JSON_STRING && value->end - value->start == 2))
    {
        return;
    }

    chat_buf_puts(&transcript->text, what);
    chat_json_canon(&transcript->doc, value, &transcript->text);
}


/* The calls of an assistant's message, each by id, name and arguments. */
static void
say_calls(chat_transcript_digest_t *transcript, const chat_json_t *list)
{
    chat_json_doc_t   *doc = &transcript->doc;
    const chat_json_t *call, *function;

    call = list != NULL && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

    for (/* void */; call != NULL; call = call->next) {
        function = chat_json_get(doc, call, "function");
        say(transcript, "call", chat_json_get(doc, call, "id"));
        say(transcript, "name", chat_json_get(doc, function, "name"));
        say(transcript, "arguments",
            chat_json_get(doc, function, "arguments"));
    }
}


/*
 * Two pages of one thread have the same words, calls and results, but not
 * always the same message ids, and one page may lack reasoning and activity. A
 * message without words and calls leaves no trace.
 */
void
chat_ag_ui_says(chat_transcript_digest_t *transcript,
                const chat_json_t *message, uint32_t until)
{
    chat_json_doc_t   *doc = &transcript->doc;
    const chat_json_t *content = chat_json_get(doc, message, "content");
    const chat_json_t *role = chat_json_get(doc, message, "role");

    if (message->end > until) {
        return;
    }

    switch (chat_ag_ui_role(doc, message)) {
    case CHAT_ROLE_USER:
        say(transcript, "user", content);
        break;

    case CHAT_ROLE_ASSISTANT:
        say(transcript, "assistant", content);
        break;

    case CHAT_ROLE_RESULTS:
        say(transcript, "of", chat_json_get(doc, message, "toolCallId"));
        say(transcript, "error", chat_json_get(doc, message, "error"));
        say(transcript, "tool", content);
        break;

    default:
        if (!chat_json_is(doc, role, "system")
            && !chat_json_is(doc, role, "developer"))
        {
            return;
        }
        say(transcript, "system", content);
    }

    say_calls(transcript, chat_json_get(doc, message, "toolCalls"));
}
