/*
 * chat_dialect_ag_ui.c: AG-UI, the protocol between agents and their users.
 *
 * A request is the input of a run: the transcript of a thread. The assistant's
 * messages in a row are one step, as a client may keep each call of an answer
 * in a message of its own. A body with resume answers interrupts, which are
 * not in it: it is chained to its thread, and always a continuation.
 * A result is a tool message, stored whole. An external service gives a bare
 * value: the message is made of it, its id of the call's.
 * The answer is a run: JSON objects with a type. The client takes neither CRLF
 * nor [DONE]; nothing follows RUN_ERROR.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"
#include "json/chat_json_scan.h"

/* What most clients write between id and name of a call. */
#define CHAT_AG_UI_TYPE ",\"type\":\"function\",\"function\":{\"name\":"


/* ---- calls and results ---- */


const chat_json_t *
chat_ag_ui_tool_said(chat_json_doc_t *doc, const chat_json_t *message,
                     chat_outcome_e *outcome)
{
    int                failed;
    const chat_json_t *content, *error;

    chat_json_pick(doc, message, "content", &content, "error", &error, NULL,
                   NULL);
    failed = error != NULL && error->type == CHAT_JSON_STRING
             && error->end - error->start > 2;
    *outcome = failed ? CHAT_OUTCOME_ERROR : CHAT_OUTCOME_OK;

    return failed ? error : content;
}


/* ---- requests ---- */


chat_role_e
chat_ag_ui_role(chat_json_doc_t *doc, const chat_json_t *message,
                const chat_json_t **calls, const chat_json_t **id)
{
    chat_str_t         role;
    const chat_json_t *node;

    chat_json_pick(doc, message, "role", &node, "toolCalls", calls,
                   "toolCallId", id);
    role = chat_json_string(doc, node);

    return chat_str_is(role, "user")        ? CHAT_ROLE_USER
           : chat_str_is(role, "assistant") ? CHAT_ROLE_ASSISTANT
           : chat_str_is(role, "tool")      ? CHAT_ROLE_RESULTS
                                            : CHAT_ROLE_ASIDE;
}


chat_kind_e
chat_ag_ui_kind(const chat_request_t *rq, chat_str_t name)
{
    return rq == NULL || rq->tools.count == 0
                   || chat_table_find(&rq->tools, name) != NULL
               ? CHAT_KIND_CLIENT
               : CHAT_KIND_PROVIDER;
}


static void
read_tools(chat_transcript_t *t)
{
    chat_str_t         name;
    const chat_json_t *node =
        chat_json_first(chat_json_get(t->doc, t->doc->root, "tools"));

    chat_table_init(&t->rq->tools, t->arena);

    for (/* void */; node != NULL; node = node->next) {
        name = chat_json_text(t->doc, node, "name");

        if (chat_table_put(&t->rq->tools, name) == NULL) {
            chat_transcript_fail(t, CHAT_ERROR);
        }
    }
}


static chat_role_e
message_role(chat_transcript_t *t)
{
    return chat_ag_ui_role(t->doc, t->message, &t->member, &t->id);
}


static void
message_calls(chat_transcript_t *t)
{
    chat_call_t       *call;
    const chat_json_t *id, *function, *node = chat_json_first(t->member);

    for (/* void */; node != NULL; node = node->next) {
        chat_json_pick(t->doc, node, "id", &id, "function", &function, NULL,
                       NULL);
        call = chat_transcript_call(t, node, chat_json_string(t->doc, id));
        if (call != NULL) {
            call->kind = chat_ag_ui_kind(
                t->rq, chat_json_text(t->doc, function, "name"));
            call->in_last_message = 1;
        }
    }
}


static chat_str_t
call_args(chat_json_doc_t *doc, const chat_json_t *call,
          const chat_json_t **args)
{
    const chat_json_t *function = chat_json_get(doc, call, "function");

    *args = chat_json_get(doc, function, "arguments");

    return chat_json_text(doc, function, "name");
}


/* The result of a call is a tool message, that of an interrupt an entry. */
static void
call_result(chat_transcript_t *t, chat_call_t *call)
{
    const chat_json_t *said = call->result;

    if (!call->bare) {
        said = chat_ag_ui_tool_said(t->doc, call->result, &call->outcome);

    } else {
        /* an interrupt that comes again is a new one, never a replay */
        call->ready = 0;
        call->outcome = chat_json_has(t->doc, said, "status", "cancelled")
                            ? CHAT_OUTCOME_DENIED
                            : CHAT_OUTCOME_OK;
    }

    chat_transcript_value(t, said, CHAT_AG_UI_NO_CONTENT, call);
    call->payload = chat_json_raw(t->doc, call->result);
}


/* ---- inserting results ---- */


/* 1 if it is a tool message as clients send it, else a service's value. */
static int
is_message(const chat_result_t *result, chat_json_doc_t *payload)
{
    const chat_json_t *calls, *id;

    return chat_ag_ui_role(payload, payload->root, &calls, &id)
               == CHAT_ROLE_RESULTS
           && chat_str_eq(chat_json_string(payload, id), result->id);
}


/* A member with the value: the content is a text. */
static void
put_text(const char *key, const chat_json_doc_t *value, chat_buf_t *out)
{
    chat_buf_format(out,
                    value->root->type == CHAT_JSON_STRING ? ",\"%s\":%v"
                                                          : ",\"%s\":%j",
                    key, value->text);
}


/* A tool message; one that a client has sent goes in as it was, with an id. */
static chat_rc_e
write_message(const chat_result_t *result, chat_json_doc_t *payload,
              chat_buf_t *out)
{
    int                sent;
    size_t             from;
    const chat_json_t *root = payload->root;

    if (root == NULL) {
        return CHAT_BAD;
    }

    sent = is_message(result, payload);

    if (sent && chat_json_text(payload, root, "id").len != 0) {
        chat_buf_add(out, result->payload);
        return CHAT_OK;
    }

    chat_buf_puts(out, "{\"id\":");
    from = out->len;
    chat_buf_format(out, "result-%v", result->id);
    chat_buf_quote(out, from);

    if (sent) {
        chat_buf_format(out, ",%v",
                        chat_str(payload->text.data + root->start + 1,
                                 root->end - root->start - 1));
        return CHAT_OK;
    }

    chat_buf_format(out, ",\"role\":\"tool\",\"toolCallId\":%j", result->id);
    put_text("content", payload, out);

    if (result->outcome == CHAT_OUTCOME_ERROR) {
        put_text("error", payload, out);
    }

    chat_buf_puts(out, "}");

    return CHAT_OK;
}


/* An entry of resume; one that a client has sent goes in as it was. */
static chat_rc_e
write_entry(const chat_result_t *result, chat_json_doc_t *payload,
            chat_buf_t *out)
{
    if (result->outcome != CHAT_OUTCOME_NONE
        && chat_str_eq(chat_json_text(payload, payload->root, "interruptId"),
                       result->id))
    {
        chat_buf_add(out, result->payload);
        return CHAT_OK;
    }

    chat_buf_format(out, "{\"interruptId\":%j,\"status\":", result->id);

    if (result->outcome == CHAT_OUTCOME_OK) {
        chat_buf_format(out, "\"resolved\",\"payload\":%v}", result->payload);

    } else if (result->outcome == CHAT_OUTCOME_NONE && !result->unknown) {
        /* what agents expect where a call needs an approval */
        chat_buf_format(
            out, "\"resolved\",\"payload\":{\"approved\":%s%s%v}}",
            result->approval == CHAT_APPROVAL_GRANTED ? "true" : "false",
            result->payload.len != 0 ? ",\"reason\":" : "", result->payload);

    } else {
        /* An unanswered interrupt is sent as cancelled. */
        chat_buf_puts(out, "\"cancelled\"}");
    }

    return CHAT_OK;
}


static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_json_doc_t *payload, chat_buf_t *out)
{
    return result->call != NULL ? write_message(result, payload, out)
                                : write_entry(result, payload, out);
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
    front->close = chat_cstr(",");

    return CHAT_OK;
}


/* ---- comparing two transcripts ---- */


static inline int
is_said(const chat_json_t *value)
{
    return value != NULL && value->type != CHAT_JSON_NULL
           && (value->end - value->start != 2
               || value->type != CHAT_JSON_STRING);
}


static void
say(chat_transcript_digest_t *to, const char *text, const chat_json_t *value)
{
    if (is_said(value)) {
        chat_buf_puts(to->text, text);
        chat_json_canon(&to->doc, value, to->text);
    }
}


/*
 * The value *next, if text and value stand at this place as say() says them,
 * else NULL; moves behind it.
 */
static inline __attribute__((always_inline)) const chat_json_t *
stands(const chat_json_doc_t *doc, const char *text, uint32_t *at,
       const chat_json_t **next)
{
    const chat_json_t *value = *next;

    if (value == NULL || value->start != *at + strlen(text)
        || memcmp(doc->text.data + *at, text, strlen(text)) != 0
        || (value->has & CHAT_JSON_VARIED) != 0 || !is_said(value))
    {
        return NULL;
    }

    *at = value->end;
    *next = value->next;
    return value;
}


/* The calls of an assistant's message, each by id, name and arguments. */
static void
say_calls(chat_transcript_digest_t *to, const chat_json_t *call)
{
    uint32_t           at;
    chat_json_doc_t   *doc = &to->doc;
    const chat_json_t *id, *function, *name, *args, *next;

    for (/* void */; call != NULL; call = call->next) {
        at = call->start;
        next = call->child;
        id = stands(doc, "{\"id\":", &at, &next);
        function = next ? next->next : NULL;
        next = function ? function->child : NULL;

        if (id != NULL && stands(doc, CHAT_AG_UI_TYPE, &at, &next)
            && stands(doc, ",\"arguments\":", &at, &next) && next == NULL
            && function->next == NULL)
        {
            chat_buf_add(to->text, chat_str(doc->text.data + call->start,
                                            at - call->start));
            continue;
        }

        chat_json_pick(doc, call, "id", &id, "function", &function, NULL,
                       NULL);
        chat_json_pick(doc, function, "name", &name, "arguments", &args, NULL,
                       NULL);
        say(to, "{\"id\":", id);
        say(to, CHAT_AG_UI_TYPE, name);
        say(to, ",\"arguments\":", args);
    }
}


static inline int
is_known(chat_str_t role)
{
    return chat_str_is(role, "user") || chat_str_is(role, "assistant")
           || chat_str_is(role, "tool") || chat_str_is(role, "system")
           || chat_str_is(role, "developer");
}


/*
 * Two pages of one thread have the same words, calls and results, but not
 * always the same message ids, and one page may lack reasoning and activity. A
 * message without words and calls leaves no trace. Behind their ids most stand
 * in the body as they are said.
 */
static void
message_says(chat_transcript_digest_t *to, const chat_json_t *message,
             uint32_t until)
{
    uint32_t           start, end, at = message->start;
    chat_json_doc_t   *doc = &to->doc;
    const chat_json_t *next = message->child;
    const chat_json_t *role, *content, *calls, *of, *error = NULL;

    (void) stands(doc, "{\"id\":", &at, &next);
    start = at;
    role = stands(doc, ",\"role\":", &at, &next);
    of = stands(doc, ",\"toolCallId\":", &at, &next);
    content = stands(doc, ",\"content\":", &at, &next);
    end = at;
    calls = stands(doc, ",\"toolCalls\":", &at, &next);

    if (next != NULL) {
        chat_json_pick(doc, message, "role", &role, "content", &content,
                       "toolCalls", &calls);
        chat_json_pick(doc, message, "toolCallId", &of, "error", &error, NULL,
                       NULL);
    }

    if (message->end > until || !is_known(chat_json_string(doc, role))) {
        return;
    }

    if (next == NULL && content != NULL) {
        chat_buf_add(to->text, chat_str(doc->text.data + start, end - start));

    } else if (next != NULL || of != NULL) {
        say(to, ",\"error\":", error);
        say(to, ",\"role\":", is_said(content) ? role : NULL);
        say(to, ",\"toolCallId\":", of);
        say(to, ",\"content\":", content);
    }

    say_calls(to, chat_json_first(calls));
}


/* ---- the body ---- */


static const chat_transcript_form_t form = {
    .list = "messages",
    .content = "content",
    .role = message_role,
    .calls = message_calls,
    .results = chat_transcript_message,
    .args = call_args,
    .quoted = 1,
    .result = call_result,
    .mixed = CHAT_CLASS_CONTINUATION,
    .runs = 1,
    .write = write_result,
    .decides = 1,
    .front = find_front,
    .says = message_says,
};


/*
 * A call without a result is not ready if its arguments broke off. Those that
 * are too deep to be parsed are whole.
 */
static void
find_broken(chat_transcript_t *t)
{
    size_t          i;
    chat_rc_e       rc;
    chat_str_t      name, args;
    chat_call_t    *call;
    chat_json_doc_t doc;

    for (i = 0; t->rc == CHAT_OK && i < t->rq->ncalls; i++) {
        call = &t->rq->calls[i];

        if (call->result == NULL) {
            rc = chat_call_read(call, t->scratch, &name, &args);
            rc = args.len != 0 ? chat_json_parse(&doc, t->scratch, args) : rc;
            chat_transcript_fail(t, rc == CHAT_ERROR ? rc : CHAT_OK);
            call->ready = rc != CHAT_BAD;
        }
    }
}


/* The entries of resume: a step of their own, chained to the thread. */
static void
read_resume(chat_transcript_t *t)
{
    chat_str_t         id;
    chat_request_t    *rq = t->rq;
    const chat_json_t *node =
        chat_json_first(chat_json_get(t->doc, t->doc->root, "resume"));

    for (/* void */; node != NULL && t->rc == CHAT_OK; node = node->next) {
        id = chat_json_text(t->doc, node, "interruptId");
        if (id.len == 0 || rq->conversation.len == 0) {
            continue;
        }

        if (!rq->chained) {
            rq->class = CHAT_CLASS_CONTINUATION;
            rq->by_conversation = 1;
            rq->answers = 1;
            chat_transcript_chain(t, rq->conversation);
        }

        chat_transcript_bare(t, id, node);
    }
}


static chat_rc_e
read_request(chat_transcript_t *t)
{
    chat_json_doc_t   *doc = t->doc;
    const chat_json_t *run, *thread, *list, *root = doc->root;

    run = chat_json_typed(doc, root, "runId", CHAT_JSON_STRING);
    if (run == NULL) {
        return CHAT_DECLINED;
    }

    thread = chat_json_typed(doc, root, "threadId", CHAT_JSON_STRING);
    list = chat_json_typed(doc, root, "messages", CHAT_JSON_ARRAY);
    if (thread == NULL || list == NULL) {
        return CHAT_DECLINED;
    }

    t->rq->run = chat_json_string(doc, run);
    t->rq->stream = 1;
    t->rq->conversation = chat_json_string(doc, thread);

    read_tools(t);
    chat_transcript_read(t, list);
    find_broken(t);
    chat_transcript_end(t);
    read_resume(t);
    return CHAT_OK;
}


/* ---- what the module itself writes ---- */


static void
run_event(const chat_request_t *rq, const char *type, chat_buf_t *out)
{
    chat_buf_format(out,
                    "data: {\"type\":\"%s\",\"threadId\":%j,\"runId\":%j}\n\n",
                    type, rq->conversation, rq->run);
}


static void
tell(const chat_result_t *results, size_t n, chat_buf_t *out)
{
    size_t               i;
    chat_buf_t           text = { 0 };
    chat_str_t           id, content;
    chat_arena_t        *arena = chat_arena_create(0);
    chat_outcome_e       outcome;
    chat_json_doc_t      doc;
    const chat_json_t   *said;
    const chat_result_t *result;

    for (i = 0; arena != NULL && i < n; i++) {
        result = &results[i];
        chat_arena_reset(arena);

        /* an interrupt is no call: there is no event that answers it */
        if (result->call == NULL || result->outcome == CHAT_OUTCOME_NONE
            || chat_json_parse(&doc, arena, result->payload) != CHAT_OK)
        {
            continue;
        }

        text.len = 0;
        (void) write_message(result, &doc, &text);
        if (chat_json_parse(&doc, arena, chat_buf_str(&text)) != CHAT_OK) {
            continue;
        }

        id = chat_json_raw(&doc, chat_json_get(&doc, doc.root, "id"));
        said = chat_json_get(&doc, doc.root, "content");
        said = said ? said : chat_ag_ui_tool_said(&doc, doc.root, &outcome);
        content = chat_json_raw(&doc, said);

        chat_buf_format(
            out,
            "data: {\"type\":\"TOOL_CALL_RESULT\",\"messageId\":%l,"
            "\"toolCallId\":%j,\"content\":%l,\"role\":\"tool\"}\n\n",
            id, result->id,
            content.len ? content : chat_cstr(CHAT_AG_UI_NO_CONTENT));
    }

    chat_buf_free(&text);
    chat_arena_destroy(arena);
}


static chat_rc_e
empty(const chat_request_t *rq, const chat_result_t *results, size_t n,
      chat_buf_t *out)
{
    run_event(rq, "RUN_STARTED", out);
    tell(results, n, out);
    run_event(rq, "RUN_FINISHED", out);

    return CHAT_OK;
}


static void
interrupted(const chat_reader_t *reader, const chat_interruption_t *in,
            chat_buf_t *out)
{
    chat_buf_format(out,
                    "data: {\"type\":\"RUN_ERROR\",\"message\":\"The run was "
                    "interrupted before its end (%s)%s.\","
                    "\"code\":\"stream_interrupted\"}\n\n",
                    in->reason, in->resumable ? "; it can be resumed" : "");
}


static void
refuse(const chat_refusal_t *refusal, int in_band, chat_buf_t *out)
{
    size_t from;

    chat_buf_puts(out, "data: {\"type\":\"RUN_ERROR\",\"message\":");
    from = out->len;
    chat_refusal_text(refusal, out);
    chat_buf_quote(out, from);
    chat_buf_format(out, ",\"code\":%j}\n\n", chat_cstr(refusal->code));
}


/*
 * A run that ends well makes the client forget the interrupts that it waits
 * for. A client that has answered some of them is told of an error.
 */
static void
bounce(const chat_request_t *rq, const chat_result_t *results, size_t n,
       chat_buf_t *out)
{
    chat_refusal_t refusal = { .status = 409,
                               .code = "batch_incomplete",
                               .message = "This answer is kept, but the run "
                                          "cannot be resumed yet." };

    if (rq->chained) {
        refuse(&refusal, 1, out);
        return;
    }

    (void) empty(rq, results, n, out);
}


const chat_dialect_t chat_dialect_ag_ui = {
    .name = "ag_ui",
    .form = &form,
    /* not "state" and "context", in which two tabs of one page differ */
    .signature = CHAT_LIST("tools", "forwardedProps"),
    .transcript = 1,
    .inject_after = "RUN_STARTED",
    .request = read_request,
    .reader_size = sizeof(chat_ag_ui_reader_t),
    .call_size = sizeof(chat_ag_ui_live_t),
    .read = chat_ag_ui_read,
    .interrupted = interrupted,
    .empty = empty,
    .bounce = bounce,
    .inject = tell,
    .refuse = refuse,
};
