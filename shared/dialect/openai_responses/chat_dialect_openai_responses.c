/*
 * chat_dialect_openai_responses.c: OpenAI's Responses API.
 *
 * Here: the types of items, requests, the answers that the module makes
 * itself, and the table; _stream.c reads answers.
 *
 * The input is a list of items. A step is a run of the model's items (calls,
 * reasoning, messages); it ends at the first item of the client, so the next
 * call or message of the model begins another step. Of c1 o1 c2 o2, from a
 * client that sends the results of parallel calls one by one, the last step is
 * {c2}. Too small a step is safe: the body goes upstream early, and the repair
 * completes a call that is left open in an earlier step.
 * Promises: only whole items are inserted. A payload is an item as a client
 * sent it, and goes in as it is; a bare value, as a service gives it, is
 * wrapped. An answer made here is one that the OpenAI libraries take.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"

#define CHAT_RESPONSES_ID 12 /* bytes of the digest in a made-up id */

/* clang-format off */

#define SHELL(stdout, stderr, outcome)                              \
    "\"output\":[{\"stdout\":" stdout ",\"stderr\":" stderr "," \
    "\"outcome\":{\"type\":" outcome "}}]"
#define TOOLS(status, list)                                              \
    "\"execution\":\"client\",\"status\":\"" status "\",\"tools\":" list

/* Its text has to say that it is an error. */
static const chat_responses_form_t as_text = {
    .text = "\"output\":%v", .error = "\"output\":%v", .wraps = 1
};

/* One command that printed the value, or that failed with it. */
static const chat_responses_form_t as_shell = {
    .raw = CHAT_JSON_ARRAY, .value = "\"output\":%v",
    .text = SHELL("%v", "\"\"", "\"exit\",\"exit_code\":0"),
    .error = SHELL("\"\"", "%v", "\"exit\",\"exit_code\":1"),
    .unknown = SHELL("\"\"", "%v", "\"timeout\"")
};

static const chat_responses_form_t as_patch = {
    .text = "\"status\":\"completed\",\"output\":%v",
    .error = "\"status\":\"failed\",\"output\":%v"
};

static const chat_responses_form_t as_screen = {
    .raw = CHAT_JSON_OBJECT, .value = "\"output\":%v"
};

static const chat_responses_form_t as_tools = {
    .raw = CHAT_JSON_ARRAY, .value = TOOLS("completed", "%v"),
    .error = TOOLS("completed", "[]"), .unknown = TOOLS("incomplete", "[]")
};

/* The first is the plain function call. */
static const chat_responses_type_t types[] = {

    { CHAT_STR("function_call"), "arguments", NULL,
      CHAT_STR("function_call_output"), "call_id", { "output", NULL },
      CHAT_KIND_CLIENT, &as_text },

    { CHAT_STR("custom_tool_call"), "input", NULL,
      CHAT_STR("custom_tool_call_output"), "call_id", { "output", NULL },
      CHAT_KIND_CLIENT, &as_text },

    { CHAT_STR("mcp_approval_request"), "arguments", NULL,
      CHAT_STR("mcp_approval_response"), "approval_request_id", { NULL, NULL },
      CHAT_KIND_APPROVAL, NULL },

    { CHAT_STR("local_shell_call"), "action", "command",
      CHAT_STR("local_shell_call_output"), "id", { "output", NULL },
      CHAT_KIND_CLIENT, &as_text },

    { CHAT_STR("shell_call"), "action", "commands",
      CHAT_STR("shell_call_output"), "call_id", { "output", NULL },
      CHAT_KIND_CLIENT, &as_shell },

    { CHAT_STR("apply_patch_call"), "operation", NULL,
      CHAT_STR("apply_patch_call_output"), "call_id", { "status", "output" },
      CHAT_KIND_CLIENT, &as_patch },

    { CHAT_STR("computer_call"), "action", NULL,
      CHAT_STR("computer_call_output"), "call_id", { "output", NULL },
      CHAT_KIND_CLIENT, &as_screen },

    { CHAT_STR("tool_search_call"), "arguments", NULL,
      CHAT_STR("tool_search_output"), "call_id", { "tools", NULL },
      CHAT_KIND_CLIENT, &as_tools },
};

/* All other types that end in _call are executed on the server side. */
static const chat_responses_type_t server_type = {
    { NULL, 0 }, "arguments", NULL, { NULL, 0 }, NULL, { NULL, NULL },
    CHAT_KIND_PROVIDER, NULL
};

/* clang-format on */

#define CHAT_RESPONSES_TYPES (sizeof(types) / sizeof(types[0]))


/* The type of call that items of this type are, or that they answer. */
static const chat_responses_type_t *
find_type(chat_str_t type, int *answers)
{
    size_t i;

    for (i = 0; i < CHAT_RESPONSES_TYPES; i++) {
        *answers = chat_str_eq(type, types[i].answer);
        if (*answers || chat_str_eq(type, types[i].call)) {
            return &types[i];
        }
    }

    return type.len > 5 && chat_str_ends(type, "_call") ? &server_type : NULL;
}


/* A few types are the client's or the server's as the single call says. */
static chat_kind_e
call_kind(chat_json_doc_t *doc, const chat_json_t *item,
          const chat_responses_type_t *type)
{
    int                local = 1;
    const chat_json_t *environment;

    if (chat_str_is(type->call, "shell_call")) {
        environment = chat_json_get(doc, item, "environment");
        local = environment == NULL || environment->type == CHAT_JSON_NULL
                || chat_json_has(doc, environment, "type", "local");

    } else if (chat_str_is(type->call, "tool_search_call")) {
        local = chat_json_has(doc, item, "execution", "client");
    }

    return local ? type->kind : CHAT_KIND_PROVIDER;
}


/*
 * Reads a call of this type and call_id: all but its name. The model did not
 * wait for an async call, so no request waits for its result.
 */
static void
read_call(chat_json_doc_t *doc, const chat_json_t *item,
          const chat_json_t *call_id, chat_responses_call_t *call)
{
    const chat_json_t *id, *async, *status;

    chat_json_pick(doc, item, "id", &id, "async", &async, "status", &status);
    call->kind = chat_json_true(async) ? CHAT_KIND_PROVIDER
                                       : call_kind(doc, item, call->type);
    call->item = chat_json_string(doc, id);
    call->id = chat_json_string(doc, call_id);

    if (call->type->kind == CHAT_KIND_APPROVAL
        || (call->id.len == 0 && call->kind == CHAT_KIND_PROVIDER))
    {
        call->id = call->item;
    }

    /* calls of a program stay in_progress though their arguments are whole */
    call->cut_off = chat_json_is(doc, status, "incomplete");
}


/* The type of the call that the item is, name and call_id; NULL: none. */
static const chat_responses_type_t *
find_call(chat_json_doc_t *doc, const chat_json_t *item, chat_str_t *name,
          const chat_json_t **call_id)
{
    int                          answers;
    chat_str_t                   says;
    const chat_json_t           *node, *own;
    const chat_responses_type_t *type;

    chat_json_pick(doc, item, "type", &node, "name", &own, "call_id", call_id);
    says = chat_json_string(doc, node);
    *name = chat_json_string(doc, own);
    *name = name->len != 0 ? *name : says;
    type = find_type(says, &answers);
    return answers ? NULL : type;
}


int
chat_responses_call(chat_json_doc_t *doc, const chat_json_t *item,
                    chat_responses_call_t *call)
{
    const chat_json_t *call_id;

    call->type = find_call(doc, item, &call->name, &call_id);
    if (call->type != NULL) {
        read_call(doc, item, call_id, call);
    }

    return call->type != NULL;
}


const chat_json_t *
chat_responses_args(chat_json_doc_t *doc, const chat_json_t *item,
                    const chat_responses_type_t *type)
{
    const chat_json_t *args, *core;

    args = chat_json_get(doc, item, type->args);

    /* a computer is given one action or a list of them */
    if (args == NULL) {
        args = chat_json_get(doc, item, "actions");
    }

    core = type->core ? chat_json_get(doc, args, type->core) : NULL;
    return core ? core : args;
}


/* ---- requests ---- */


typedef struct {
    chat_str_t                   chain; /* what the body is chained to */
    const chat_responses_type_t *type;  /* of the present item, or NULL */
} input_t;


static chat_role_e
message_role(chat_str_t role)
{
    return chat_str_is(role, "assistant") ? CHAT_ROLE_ASSISTANT
           : chat_str_is(role, "user")    ? CHAT_ROLE_USER
                                          : CHAT_ROLE_OTHER;
}


static chat_role_e
item_role(chat_transcript_t *t)
{
    int                answers;
    input_t           *input = t->data;
    chat_str_t         type;
    const chat_json_t *node, *role;

    chat_json_pick(t->doc, t->message, "type", &node, "role", &role, "call_id",
                   &t->id);
    type = chat_json_string(t->doc, node);
    input->type = NULL;

    if (chat_str_is(type, "message") || (node == NULL && role != NULL)) {
        return message_role(chat_json_string(t->doc, role));
    }

    /* clients refer by id to items of the model */
    if (chat_str_is(type, "reasoning") || chat_str_is(type, "item_reference"))
    {
        return CHAT_ROLE_ASSISTANT;
    }

    input->type = find_type(type, &answers);
    if (input->type == NULL || !answers) {
        return input->type ? CHAT_ROLE_ASSISTANT : CHAT_ROLE_ASIDE;
    }

    /* the AI SDK says call_id of every type */
    if (chat_json_string(t->doc, t->id).len == 0) {
        t->id = chat_json_get(t->doc, t->message, input->type->key);
    }

    /* the server's own searches come back in the transcript */
    return chat_json_has(t->doc, t->message, "execution", "server")
               ? CHAT_ROLE_ASIDE
               : CHAT_ROLE_RESULTS;
}


static void
item_call(chat_transcript_t *t)
{
    chat_call_t          *call = NULL;
    const input_t        *input = t->data;
    chat_responses_call_t read = { .type = input->type };

    if (input->type != NULL) {
        read_call(t->doc, t->message, t->id, &read);
        call = chat_transcript_call(t, t->message, read.id);
    }

    if (call != NULL) {
        call->kind = read.kind;
        call->ready = !read.cut_off;
        call->awaits = read.kind != CHAT_KIND_PROVIDER;
    }
}


static void
item_result(chat_transcript_t *t)
{
    const input_t *input = t->data;

    chat_transcript_result(t, chat_json_string(t->doc, t->id),
                           input->type->kind, t->message, t->message);
}


static chat_str_t
call_args(chat_json_doc_t *doc, const chat_json_t *item,
          const chat_json_t **args)
{
    chat_str_t                   name;
    const chat_json_t           *call_id;
    const chat_responses_type_t *type = find_call(doc, item, &name, &call_id);

    /* it was one before: there is no memory */
    if (type != NULL) {
        *args = chat_responses_args(doc, item, type);
    }

    return name;
}


/* Adds what an answer says: two members, where it has them. */
static chat_rc_e
hash_answer(chat_json_doc_t *doc, const chat_json_t *item, chat_mix_t *mix)
{
    int                          i, answers;
    chat_str_t                   name = chat_json_text(doc, item, "type");
    const chat_json_t           *says;
    const chat_responses_type_t *type = find_type(name, &answers);
    chat_rc_e                    rc = type != NULL ? CHAT_OK : CHAT_ERROR;

    for (i = 0; i < 2 && rc == CHAT_OK; i++) {
        says = type->says[i] ? chat_json_get(doc, item, type->says[i]) : NULL;
        rc = chat_json_mix(doc, says, mix);
    }

    return rc;
}


static void
call_result(chat_transcript_t *t, chat_call_t *call)
{
    const input_t     *input = t->data;
    const chat_json_t *status, *output, *tools;

    if (call->bare) {
        call->kind = input->type->kind;
    }

    if (call->kind == CHAT_KIND_APPROVAL) {
        call->approval = chat_json_flag(t->doc, call->result, "approve")
                             ? CHAT_APPROVAL_GRANTED
                             : CHAT_APPROVAL_REFUSED;
        call->reason =
            chat_json_raw(t->doc, chat_json_typed(t->doc, call->result,
                                                  "reason", CHAT_JSON_STRING));
        return;
    }

    /* what the digest is made of must not stand twice */
    chat_json_pick(t->doc, call->result, "status", &status, "output", &output,
                   "tools", &tools);
    call->payload = chat_json_raw(t->doc, call->result);
    call->said = call->payload;
    call->value = call->result;
    call->hash = hash_answer;
    call->outcome = chat_json_is(t->doc, status, "failed") ? CHAT_OUTCOME_ERROR
                                                           : CHAT_OUTCOME_OK;
}


/* The class of the body. With open calls a developer's note is no new turn. */
static void
set_class(chat_transcript_t *t)
{
    int             results = t->tail[CHAT_ROLE_RESULTS] != 0;
    int             notes = t->tail[CHAT_ROLE_OTHER] != 0;
    const input_t  *input = t->data;
    chat_request_t *rq = t->rq;

    if (t->tail[CHAT_ROLE_USER] != 0 || (notes && !results && !t->has_step)) {
        rq->class = CHAT_CLASS_FRESH;

    } else if (t->matched != 0 || (results && input->chain.len != 0)) {
        rq->class = CHAT_CLASS_CONTINUATION;
    }

    rq->answers = rq->class == CHAT_CLASS_CONTINUATION
                  || (rq->class == CHAT_CLASS_FRESH && t->has_step);
}


/* ---- inserting results ---- */


/* The item that answers with a bare value. CHAT_BAD: none can. */
static chat_rc_e
write_value(const chat_responses_type_t *type, const chat_result_t *result,
            chat_json_type_e json, chat_buf_t *out)
{
    int                          ok = result->outcome == CHAT_OUTCOME_OK;
    chat_buf_t                  *text = chat_buf_scratch();
    const char                  *format;
    const chat_responses_form_t *form = type->form;

    if (form == NULL) {
        return CHAT_BAD;
    }

    if (ok && form->value != NULL && json == form->raw) {
        format = form->value;
        chat_buf_add(text, result->payload);

    } else {
        format = ok                                 ? form->text
                 : result->unknown && form->unknown ? form->unknown
                                                    : form->error;
        if (!ok && form->wraps) {
            chat_result_error_text(result, text);
        } else if (json == CHAT_JSON_STRING) {
            chat_buf_add(text, result->payload);
        } else {
            chat_buf_json(text, result->payload);
        }
    }

    if (format != NULL) {
        chat_buf_format(out, "{\"type\":\"%v\",\"%s\":%j,", type->answer,
                        type->key, result->id);
        chat_buf_format(out, format, chat_buf_str(text));
        chat_buf_puts(out, "}");
    }

    out->failed |= text->failed;
    return format != NULL ? CHAT_OK : CHAT_BAD;
}


/* 1 if the payload is an item that answers the call of this id. */
static int
is_answer(chat_json_doc_t *doc, chat_str_t id)
{
    input_t           input;
    chat_transcript_t t = { .doc = doc, .message = doc->root, .data = &input };

    return item_role(&t) == CHAT_ROLE_RESULTS
           && chat_str_eq(chat_json_string(doc, t.id), id);
}


static const char *
decision_text(const chat_result_t *result)
{
    return result->approval == CHAT_APPROVAL_GRANTED ? "true" : "false";
}


static chat_rc_e
write_decision(const chat_responses_type_t *type, const chat_result_t *result,
               chat_buf_t *out)
{
    if (result->call != NULL && type->kind != CHAT_KIND_APPROVAL) {
        return CHAT_BAD;
    }

    chat_buf_format(out,
                    "{\"type\":\"mcp_approval_response\","
                    "\"approval_request_id\":%j,\"approve\":%s%s%v}",
                    result->id, decision_text(result),
                    result->payload.len != 0 ? ",\"reason\":" : "",
                    result->payload);

    return CHAT_OK;
}


/*
 * Appends the item that brings the result. CHAT_DECLINED: there is no item
 * that says that the outcome is unknown.
 */
static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_result_t *result,
             chat_json_doc_t *payload, chat_buf_t *out)
{
    chat_rc_e                    rc;
    chat_responses_call_t        call;
    const chat_responses_type_t *type = &types[0];

    if (result->call != NULL) {
        if (!chat_responses_call(doc, result->call->node, &call)) {
            return CHAT_BAD;
        }
        type = call.type;
    }

    /* what is not decided can only be refused */
    if (result->outcome == CHAT_OUTCOME_NONE
        || (result->unknown && type->kind == CHAT_KIND_APPROVAL))
    {
        return write_decision(type, result, out);
    }

    if (is_answer(payload, result->id)) {
        chat_buf_add(out, result->payload);
        return CHAT_OK;
    }

    rc = write_value(type, result, payload->root->type, out);

    return rc == CHAT_BAD && result->unknown ? CHAT_DECLINED : rc;
}


/* The body's own decision becomes the stored one. */
static chat_rc_e
rewrite_decision(chat_json_doc_t *doc, const chat_result_t *result,
                 const chat_json_t **node, chat_buf_t *out)
{
    chat_json_member_t members[] = {
        { "approve", chat_cstr(decision_text(result)) },
        { "reason", result->payload },
    };

    if (result->outcome != CHAT_OUTCOME_NONE
        || !chat_approval_is_decided(result->call->approval))
    {
        return CHAT_DECLINED;
    }

    *node = result->call->result;

    /* the body's reason is one for its own decision */
    if (result->payload.len == 0
        && chat_json_get(doc, *node, "reason") != NULL) {
        members[1].value = chat_cstr("null");
    }

    chat_json_set(doc, *node, members, 2, out);

    return CHAT_OK;
}


/* Before the first item. An input that is the user's words becomes a list. */
static chat_rc_e
find_front(chat_json_doc_t *doc, const chat_json_t *item, chat_front_t *front)
{
    chat_buf_t         text = { 0 };
    const chat_json_t *input = chat_json_get(doc, doc->root, "input");

    if (input == NULL) {
        return CHAT_BAD;
    }

    if (input->type != CHAT_JSON_STRING) {
        front->pos = input->start + 1;
        front->close = chat_cstr(chat_json_is_empty(input) ? "" : ",");
        return CHAT_OK;
    }

    front->pos = input->start;
    front->len = input->end - input->start;
    front->open = "[";
    chat_buf_format(&text, ",{\"role\":\"user\",\"content\":%v}]",
                    chat_json_raw(doc, input));

    return chat_buf_move(&text, doc->arena, &front->close);
}


static const chat_transcript_form_t form = {
    .list = "input",
    .content = "content",
    .role = item_role,
    .calls = item_call,
    .results = item_result,
    .args = call_args,
    .quoted = 1,
    .result = call_result,
    .class = set_class,
    .runs = 1,
    .late = 1,
    .write = write_result,
    .decides = 1,
    .rewrite = rewrite_decision,
    .front = find_front,
};


/* ---- the body ---- */


/* What the body is chained to; empty: to nothing. */
static chat_str_t
chained_to(chat_json_doc_t *doc, chat_request_t *rq)
{
    chat_str_t         chain;
    const chat_json_t *conversation;

    conversation = chat_json_get(doc, doc->root, "conversation");
    if (conversation != NULL && conversation->type == CHAT_JSON_OBJECT) {
        conversation = chat_json_get(doc, conversation, "id");
    }
    rq->conversation = chat_json_string(doc, conversation);

    chain = chat_json_text(doc, doc->root, "previous_response_id");

    if (chain.len == 0) {
        chain = rq->conversation;
        rq->by_conversation = chain.len != 0;
    }

    return chain;
}


/* The id in a path that ends in /conversations/<id>/items; empty: another. */
static chat_str_t
items_of(chat_str_t path)
{
    size_t     len = path.len - strlen("/items"), at = len;
    chat_str_t id;

    while (at != 0 && path.data[at - 1] != '/') {
        at--;
    }

    id = chat_str(path.data + at, len - at);
    path.len = at;

    return chat_str_ends(path, "/conversations/") ? id : chat_str(NULL, 0);
}


/* Items that a client adds to a conversation: its results count. */
static chat_rc_e
read_items(chat_transcript_t *t)
{
    input_t            input = { .type = NULL };
    chat_str_t         id;
    chat_request_t    *rq = t->rq;
    const chat_json_t *items;

    id = items_of(chat_uri_path(rq->uri));
    items = chat_json_typed(t->doc, t->doc->root, "items", CHAT_JSON_ARRAY);

    if (id.len == 0 || items == NULL) {
        return CHAT_DECLINED;
    }

    rq->conversation = id;
    t->list = items;
    t->behind = items->child;
    t->data = &input;

    chat_transcript_tail(t, id);

    rq->chained = rq->ncalls != 0;
    rq->by_conversation = rq->chained;
    rq->answers = rq->chained;
    rq->class = rq->chained ? CHAT_CLASS_ITEMS : CHAT_CLASS_OTHER;

    return CHAT_OK;
}


static chat_rc_e
read_input(chat_transcript_t *t)
{
    input_t            read = { .type = NULL };
    chat_request_t    *rq = t->rq;
    chat_json_doc_t   *doc = t->doc;
    const chat_json_t *input = chat_json_get(doc, doc->root, "input");
    const chat_json_t *store = chat_json_get(doc, doc->root, "store");

    if (input == NULL || chat_json_get(doc, doc->root, "messages") != NULL
        || (input->type != CHAT_JSON_STRING && input->type != CHAT_JSON_ARRAY))
    {
        return CHAT_DECLINED;
    }

    rq->stream = chat_json_flag(doc, doc->root, "stream");
    rq->stored = store == NULL || store->type != CHAT_JSON_FALSE;
    read.chain = chained_to(doc, rq);
    t->data = &read;

    if (input->type == CHAT_JSON_STRING) {
        t->rq->next.words = input;
        t->tail[CHAT_ROLE_USER] = 1;
        input = NULL;
    }

    chat_transcript_read(t, input);

    if (read.chain.len != 0 && t->matched == 0
        && (t->tail[CHAT_ROLE_RESULTS] != 0
            || (rq->class == CHAT_CLASS_FRESH && !t->has_step)))
    {
        rq->answers = 1;
        chat_transcript_tail(t, read.chain);
    }

    return CHAT_OK;
}


static chat_rc_e
read_request(chat_transcript_t *t)
{
    return chat_str_ends(chat_uri_path(t->rq->uri), "/items") ? read_items(t)
                                                              : read_input(t);
}


/* ---- what the module itself writes ---- */


/* An empty response, made up, but the same each time for the same step. */
static void
write_response(const chat_request_t *rq, const char *status, chat_buf_t *out)
{
    char               id[CHAT_RESPONSES_ID * 2 + 1];
    chat_digest_t      digest;
    const chat_step_t *step =
        rq->nsteps ? &rq->steps[rq->nsteps - 1] : &rq->next;

    chat_digest_of(&digest, rq->conversation, step->chain, step->first_id);
    chat_hex(digest.bytes, CHAT_RESPONSES_ID, id);

    chat_buf_format(
        out,
        "{\"id\":\"resp_chat_%s\",\"object\":\"response\",\"created_at\":0,"
        "\"status\":\"%s\",\"error\":null,\"incomplete_details\":null,"
        "\"instructions\":null,\"metadata\":{},\"model\":\"\",\"output\":[],"
        "\"parallel_tool_calls\":true,\"tool_choice\":\"auto\",\"tools\":[],"
        "\"usage\":%s}",
        id, status,
        strcmp(status, "completed") != 0
            ? "null"
            : "{\"input_tokens\":0,\"input_tokens_details\":"
              "{\"cached_tokens\":0},\"output_tokens\":0,"
              "\"output_tokens_details\":{\"reasoning_tokens\":0},"
              "\"total_tokens\":0}");
}


static chat_rc_e
empty(const chat_request_t *rq, const chat_result_t *results, size_t n,
      chat_buf_t *out)
{
    unsigned                 i;
    static const char *const events[][2] = {
        { "response.created", "in_progress" },
        { "response.in_progress", "in_progress" },
        { "response.completed", "completed" },
    };

    if (!rq->stream) {
        write_response(rq, "completed", out);
        return CHAT_OK;
    }

    for (i = 0; i < 3; i++) {
        chat_buf_format(out,
                        "event: %s\ndata: {\"type\":\"%s\","
                        "\"sequence_number\":%u,\"response\":",
                        events[i][0], events[i][0], i);
        write_response(rq, events[i][1], out);
        chat_buf_puts(out, "}\n\n");
    }

    return CHAT_OK;
}


/* "code", "message", "param" and "call_ids" of an error object. */
static void
write_error(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_format(out, "\"code\":%j,\"message\":%j,\"param\":%s",
                    chat_cstr(refusal->code), chat_cstr(refusal->message),
                    refusal->status < 500 ? "\"input\"" : "null");
    chat_refusal_ids(refusal, "call_ids", out);
}


/*
 * An event says it twice: documented is the flat form, but there are clients
 * that know only the one with "error", and those that throw only for that. A
 * client may save sequence_number and resume after it, so the event repeats
 * the last real one.
 */
static void
refuse(const chat_refusal_t *refusal, int in_band, chat_buf_t *out)
{
    if (in_band) {
        chat_buf_puts(out, "event: error\ndata: {\"type\":\"error\",");
        write_error(refusal, out);
        chat_buf_format(out, ",\"sequence_number\":%u,", refusal->number);
    } else {
        chat_buf_puts(out, "{");
    }

    chat_buf_format(out, "\"error\":{\"type\":\"%s\",",
                    refusal->status < 500 ? "invalid_request_error"
                                          : "server_error");
    write_error(refusal, out);
    chat_buf_puts(out, in_band ? "}}\n\n" : "}}");
}


const chat_dialect_t chat_dialect_openai_responses = {
    .name = "openai_responses",
    .form = &form,
    .provider = 1,
    .numbered = 1,
    .chains = 1,
    .takes_ids = 1,
    .only_decided = 1,
    .paths = CHAT_LIST("/responses", "/items"),
    .not_paths = CHAT_LIST("/responses/input_tokens", "/responses/compact"),
    .signature = CHAT_LIST(
        "model", "stream", "tools", "tool_choice", "parallel_tool_calls",
        "instructions", "temperature", "top_p", "max_output_tokens",
        "max_tool_calls", "text", "reasoning", "truncation", "include",
        "top_logprobs", "service_tier", "background", "prompt", "store"),
    .request = read_request,
    .reader_size = sizeof(chat_responses_reader_t),
    .call_size = sizeof(chat_responses_live_t),
    .read = chat_responses_read,
    .empty = empty,
    .refuse = refuse,
};
