/*
 * chat_dialect_ai_sdk_request.c: request bodies of the AI SDK's chat
 * transport.
 *
 * The body is the whole transcript: messages, each with parts; or, where an
 * app has changed it so, the last message alone. A call and its result are one
 * part, whose state says how far it has come. Parts of the type step-start
 * divide an assistant message into steps.
 * Promises: a part of an unknown type or state is never a call to wait for.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"


/* What the shared reader does not know of a body. */
typedef struct {
    const chat_json_t *last;   /* message of the list */
    uint32_t           starts; /* step-starts in the message read last */
    int                text;   /* text stands behind its last call */
} chat_ai_sdk_body_t;


/* ---- parts ---- */


chat_ai_sdk_part_e
chat_ai_sdk_part_state(chat_json_doc_t *doc, const chat_json_t *part)
{
    size_t             i;
    const chat_json_t *state = chat_json_get(doc, part, "state");

    static const struct {
        const char        *name;
        chat_ai_sdk_part_e state;
    } states[] = {
        { "input-streaming", CHAT_PART_STREAMING },
        { "input-available", CHAT_PART_READY },
        { "approval-requested", CHAT_PART_ASKED },
        { "approval-responded", CHAT_PART_RESPONDED },
        { "output-available", CHAT_PART_OK },
        { "output-error", CHAT_PART_ERROR },
        { "output-denied", CHAT_PART_DENIED },
    };

    for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (chat_json_is(doc, state, states[i].name)) {
            return states[i].state;
        }
    }

    return CHAT_PART_UNKNOWN;
}


int
chat_ai_sdk_part_is(chat_json_doc_t *doc, const chat_json_t *part,
                    const char *type)
{
    return chat_json_is(doc, chat_json_get(doc, part, "type"), type);
}


int
chat_ai_sdk_part_call(chat_json_doc_t *doc, const chat_json_t *part,
                      chat_str_t *name)
{
    chat_str_t type = chat_json_text(doc, part, "type");

    if (chat_str_is(type, "dynamic-tool")) {
        *name = chat_json_text(doc, part, "toolName");
        return 1;
    }

    if (chat_str_starts(type, "tool-") && type.len > strlen("tool-")) {
        *name =
            chat_str(type.data + strlen("tool-"), type.len - strlen("tool-"));
        return 1;
    }

    return 0;
}


/*
 * Sets what the body says of the call's approval. A call that was approved and
 * has brought a preliminary output has none that counts.
 */
static void
read_approval(chat_json_doc_t *doc, const chat_json_t *part,
              chat_ai_sdk_part_e state, chat_call_t *call)
{
    const chat_json_t *approval = chat_json_get(doc, part, "approval");
    const chat_json_t *approved = chat_json_get(doc, approval, "approved");
    int                asks, has, settled;

    asks = state == CHAT_PART_ASKED || state == CHAT_PART_RESPONDED;
    has = approval != NULL && approval->type == CHAT_JSON_OBJECT;
    settled = call->outcome != CHAT_OUTCOME_NONE
              && (call->outcome != CHAT_OUTCOME_PARTIAL
                  || call->kind == CHAT_KIND_PROVIDER);

    call->undecided = settled && has && approved == NULL;

    if (call->kind != CHAT_KIND_PROVIDER
        && (asks
            || (has && state != CHAT_PART_OK && state != CHAT_PART_ERROR)))
    {
        call->kind = CHAT_KIND_APPROVAL;
    }

    if (!asks
        && (!has || call->outcome == CHAT_OUTCOME_NONE
            || call->outcome == CHAT_OUTCOME_PARTIAL))
    {
        return;
    }

    call->approval = CHAT_APPROVAL_ASKED;

    if (state != CHAT_PART_ASKED && approved != NULL) {
        if (approved->type == CHAT_JSON_TRUE) {
            call->approval = CHAT_APPROVAL_GRANTED;

        } else if (approved->type == CHAT_JSON_FALSE) {
            call->approval = CHAT_APPROVAL_REFUSED;
        }

        call->reason =
            chat_json_raw(doc, chat_json_get(doc, approval, "reason"));
    }
}


/* What becomes of a call in this state. */
static chat_outcome_e
part_outcome(chat_json_doc_t *doc, const chat_json_t *part,
             chat_ai_sdk_part_e state)
{
    switch (state) {
    case CHAT_PART_OK:
        return chat_json_true(chat_json_get(doc, part, "preliminary"))
                   ? CHAT_OUTCOME_PARTIAL
                   : CHAT_OUTCOME_OK;

    case CHAT_PART_ERROR:
        return CHAT_OUTCOME_ERROR;

    case CHAT_PART_DENIED:
        return CHAT_OUTCOME_DENIED;

    default:
        return CHAT_OUTCOME_NONE;
    }
}


static chat_rc_e
read_call(chat_transcript_t *t, const chat_json_t *message,
          const chat_json_t *part, chat_str_t name)
{
    chat_rc_e                 rc;
    chat_call_t               call = { .node = part, .name = name };
    chat_step_t              *step;
    chat_ai_sdk_part_e        state = chat_ai_sdk_part_state(t->doc, part);
    const chat_ai_sdk_body_t *body = t->data;

    if (chat_json_true(chat_json_get(t->doc, part, "providerExecuted"))) {
        call.kind = CHAT_KIND_PROVIDER;
    }

    call.id = chat_json_text(t->doc, part, "toolCallId");
    call.ready = state != CHAT_PART_UNKNOWN && state != CHAT_PART_STREAMING;
    call.dynamic = chat_ai_sdk_part_is(t->doc, part, "dynamic-tool");
    call.in_last_message = message == body->last;
    call.outcome = part_outcome(t->doc, part, state);
    read_approval(t->doc, part, state, &call);

    /* the call is its own result, unless it awaits it or a decision */
    if (state != CHAT_PART_READY && state != CHAT_PART_ASKED) {
        call.result = part;
    }

    rc = chat_transcript_call(t, &call, 0);

    if (rc == CHAT_OK) {
        step = &t->rq->steps[t->rq->nsteps - 1];
        step->message = chat_json_text(t->doc, message, "id");
        step->ordinal = body->starts != 0 ? body->starts - 1 : 0;
    }

    return rc;
}


/* ---- the transcript ---- */


static chat_role_e
message_role(chat_json_doc_t *doc, const chat_json_t *message)
{
    const chat_json_t *role = chat_json_get(doc, message, "role");

    return chat_json_is(doc, role, "user")        ? CHAT_ROLE_USER
           : chat_json_is(doc, role, "assistant") ? CHAT_ROLE_ASSISTANT
                                                  : CHAT_ROLE_OTHER;
}


static chat_rc_e
message_calls(chat_transcript_t *t, const chat_json_t *message)
{
    chat_rc_e           rc = CHAT_OK;
    chat_str_t          name;
    const chat_json_t  *part, *parts = chat_json_get(t->doc, message, "parts");
    chat_ai_sdk_body_t *body = t->data;

    body->starts = 0;
    body->text = 0;

    part = parts && parts->type == CHAT_JSON_ARRAY ? parts->child : NULL;

    for (/* void */; part != NULL && rc == CHAT_OK; part = part->next) {
        if (chat_ai_sdk_part_is(t->doc, part, "step-start")) {
            body->starts++;
            t->has_step = 0;

        } else if (chat_ai_sdk_part_call(t->doc, part, &name)) {
            body->text = 0;
            rc = read_call(t, message, part, name);

        } else if (chat_ai_sdk_part_is(t->doc, part, "text")) {
            body->text = 1;
        }
    }

    return rc;
}


static chat_str_t
call_args(chat_transcript_t *t, chat_call_t *call)
{
    chat_json_doc_t   *doc = t->doc;
    const chat_json_t *input = chat_json_get(doc, call->node, "input");
    const chat_json_t *raw = chat_json_get(doc, call->node, "rawInput");

    /* what an inserted result changes must not stand twice */
    (void) chat_json_get(doc, call->node, "output");
    (void) chat_json_get(doc, call->node, "errorText");
    (void) chat_json_get(doc, call->node, "preliminary");

    return chat_json_raw(doc, input != NULL ? input : raw);
}


static chat_rc_e
call_result(chat_transcript_t *t, chat_call_t *call)
{
    const char *key =
        call->outcome == CHAT_OUTCOME_ERROR ? "errorText" : "output";

    return call->outcome != CHAT_OUTCOME_NONE ? chat_ai_sdk_result(
               t->doc, chat_json_get(t->doc, call->node, key), call->outcome,
               &call->payload, &call->digest)
                                              : CHAT_OK;
}


/* A continuation has an answer to a call of its step. */
static chat_class_e
class_of_step(const chat_request_t *rq)
{
    size_t             i;
    const chat_step_t *step = &rq->steps[rq->nsteps - 1];
    chat_class_e class = CHAT_CLASS_OTHER;

    for (i = step->first; i < step->first + step->count; i++) {
        if (rq->calls[i].kind != CHAT_KIND_PROVIDER
            && chat_call_is_settled(&rq->calls[i]))
        {
            return CHAT_CLASS_CONTINUATION;
        }

        if (chat_call_is_member(&rq->calls[i])) {
            class = CHAT_CLASS_PENDING;
        }
    }

    return class;
}


static void
set_class(chat_transcript_t *t)
{
    chat_json_doc_t   *doc = t->doc;
    chat_request_t    *rq = t->rq;
    const chat_json_t *trigger = chat_json_get(doc, doc->root, "trigger");
    const chat_ai_sdk_body_t *body = t->data;

    if (t->end == CHAT_ROLE_USER) {
        rq->answers =
            t->has_step && !body->text && t->tail[CHAT_ROLE_OTHER] == 0;
    }

    if (chat_json_is(doc, trigger, "regenerate-message")) {
        rq->class = CHAT_CLASS_REGENERATE;
        rq->regenerates = chat_json_text(doc, doc->root, "messageId");

        if (chat_str_eq(rq->regenerates, rq->last_message)) {
            /* the user's message, whose answer is made anew */
            rq->regenerates.len = 0;
        }

    } else if (t->end == CHAT_ROLE_USER) {
        rq->class = CHAT_CLASS_FRESH;

    } else if (t->end == CHAT_ROLE_ASSISTANT && t->has_step
               && (trigger == NULL || trigger->type == CHAT_JSON_NULL
                   || chat_json_is(doc, trigger, "submit-message")))
    {
        rq->class = class_of_step(rq);
        rq->answers = rq->class != CHAT_CLASS_OTHER;
        rq->next.message = rq->last_message;
        rq->next.ordinal = body->starts;
    }
}


/* ---- inserting results ---- */


/* A member that goes, with the comma and white space that go with it. */
static chat_rc_e
remove_member(const chat_json_t *object, const chat_json_t *member,
              const chat_json_t *keep, chat_edits_t *edits)
{
    const chat_json_t *m, *before = NULL;
    chat_str_t         nothing = CHAT_STR("");

    if (member == NULL) {
        return CHAT_OK;
    }

    /* Before the member that surely stays each takes the comma behind it,
       after that one each takes the comma before it: so no two overlap, and
       one comma stays between any two that stay. */
    if (member->start < keep->start) {
        return chat_edits_add(edits, member->key_start,
                              member->next->key_start - member->key_start,
                              nothing);
    }

    for (m = object->child; m != member; m = m->next) {
        before = m;
    }

    return chat_edits_add(edits, before->end, member->end - before->end,
                          nothing);
}


/* Puts text in the place of the value. */
static chat_rc_e
replace_value(const chat_json_t *value, chat_str_t text, chat_edits_t *edits)
{
    return chat_edits_add(edits, value->start, value->end - value->start,
                          text);
}


/* 1 if the body has the opposite decision. */
static int
reverses(const chat_json_t *approved, chat_approval_e decision)
{
    return approved != NULL
           && chat_json_true(approved) != (decision == CHAT_APPROVAL_GRANTED);
}


/*
 * Writes approved, and the reason where there is one, into an approval object;
 * all else in it stays.
 */
static chat_rc_e
write_decision(chat_json_doc_t *doc, const chat_json_t *approval,
               chat_approval_e decision, chat_str_t reason,
               chat_edits_t *edits)
{
    const chat_json_t *approved = chat_json_get(doc, approval, "approved");
    const chat_json_t *had = chat_json_get(doc, approval, "reason");
    const char        *word;
    chat_buf_t         added = { 0 };
    chat_rc_e          rc = CHAT_OK;

    word = decision == CHAT_APPROVAL_GRANTED ? "true" : "false";

    if (approved != NULL) {
        rc = replace_value(approved, chat_cstr(word), edits);
    } else {
        chat_buf_printf(&added, "\"approved\":%s", word);
    }

    if (rc == CHAT_OK && had != NULL
        && (reason.len != 0 || reverses(approved, decision)))
    {
        /* a reason for the other decision must not stay */
        rc = replace_value(had, reason.len != 0 ? reason : chat_cstr("\"\""),
                           edits);

    } else if (reason.len != 0) {
        chat_buf_puts(&added, added.len != 0 ? ",\"reason\":" : "\"reason\":");
        chat_buf_add(&added, reason);
    }

    if (rc == CHAT_OK && added.len != 0) {
        if (approval->child != NULL) {
            chat_buf_puts(&added, ",");
        }
        rc = chat_edits_buf(edits, approval->start + 1, 0, &added);
    }

    chat_buf_free(&added);

    return rc;
}


/*
 * What becomes of the approval of a part that gets a result: one that does not
 * say how it was decided is invalid in a settled part, so it says so or goes.
 * A denial without an approval is invalid likewise: *text gets one.
 */
static chat_rc_e
write_approval(chat_json_doc_t *doc, const chat_json_t *part,
               const chat_json_t *state, const chat_result_t *result,
               chat_buf_t *text, chat_edits_t *edits)
{
    const chat_json_t *approval = chat_json_get(doc, part, "approval");
    chat_str_t         none = CHAT_STR("");
    chat_approval_e    decision = result->approval;
    int                has;

    has = approval != NULL && approval->type == CHAT_JSON_OBJECT;

    if (result->outcome == CHAT_OUTCOME_DENIED) {
        decision = CHAT_APPROVAL_REFUSED;

    } else if (decision == CHAT_APPROVAL_NONE
               && chat_json_true(chat_json_get(doc, approval, "approved")))
    {
        return CHAT_OK;

    } else if (decision != CHAT_APPROVAL_GRANTED) {
        return remove_member(part, approval, state, edits);
    }

    if (has) {
        return write_decision(doc, approval, decision, none, edits);
    }

    if (result->outcome == CHAT_OUTCOME_DENIED) {
        chat_buf_puts(text, ",\"approval\":{\"id\":");
        chat_buf_json(text, result->call->id);
        chat_buf_puts(text, ",\"approved\":false}");
    }

    return remove_member(part, approval, state, edits);
}


/*
 * Makes the part a settled one. What is new follows the state's value in the
 * same edit.
 */
static chat_rc_e
write_result(chat_json_doc_t *doc, const chat_json_t *part,
             const chat_json_t *state, const chat_result_t *result,
             chat_buf_t *text, chat_edits_t *edits)
{
    const chat_json_t *output = chat_json_get(doc, part, "output");
    const chat_json_t *error = chat_json_get(doc, part, "errorText");
    const chat_json_t *early = chat_json_get(doc, part, "preliminary");
    const chat_json_t *own = NULL;
    const char        *key = NULL;
    chat_str_t         value = result->payload;

    switch (result->outcome) {
    case CHAT_OUTCOME_OK:
        chat_buf_puts(text, "\"output-available\"");
        key = ",\"output\":";
        own = output;
        output = NULL;
        break;
    case CHAT_OUTCOME_ERROR:
        chat_buf_puts(text, "\"output-error\"");
        key = ",\"errorText\":";
        own = error;
        error = NULL;
        break;
    case CHAT_OUTCOME_DENIED:
        chat_buf_puts(text, "\"output-denied\"");
        break;
    default:
        return CHAT_BAD;
    }

    if (value.len == 0) {
        value =
            chat_cstr(result->outcome == CHAT_OUTCOME_OK ? "null" : "\"\"");
    }

    if (own != NULL) {
        if (replace_value(own, value, edits) != CHAT_OK) {
            return CHAT_ERROR;
        }

    } else if (key != NULL) {
        chat_buf_puts(text, key);
        chat_buf_add(text, value);
    }

    if (remove_member(part, output, state, edits) != CHAT_OK
        || remove_member(part, error, state, edits) != CHAT_OK
        || remove_member(part, early, state, edits) != CHAT_OK)
    {
        return CHAT_ERROR;
    }

    return write_approval(doc, part, state, result, text, edits);
}


static chat_rc_e
write_part(chat_json_doc_t *doc, const chat_json_t *part,
           const chat_result_t *result, chat_buf_t *text, chat_edits_t *edits)
{
    const chat_json_t *state = chat_json_get(doc, part, "state");
    const chat_json_t *approval = chat_json_get(doc, part, "approval");
    chat_rc_e          rc;

    if (state == NULL) {
        return CHAT_BAD;
    }

    if (result->outcome == CHAT_OUTCOME_NONE) {
        if (approval == NULL || approval->type != CHAT_JSON_OBJECT
            || !chat_approval_is_decided(result->approval))
        {
            return CHAT_BAD;
        }

        chat_buf_puts(text, "\"approval-responded\"");
        rc = write_decision(doc, approval, result->approval, result->payload,
                            edits);
    } else {
        rc = write_result(doc, part, state, result, text, edits);
    }

    if (rc != CHAT_OK) {
        return rc;
    }

    return chat_edits_buf(edits, state->start, state->end - state->start,
                          text);
}


chat_rc_e
chat_ai_sdk_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                   const chat_result_t *results, size_t n, chat_edits_t *edits)
{
    chat_buf_t text = { 0 };
    chat_rc_e  rc = CHAT_OK;
    size_t     i;

    for (i = 0; i < n && rc == CHAT_OK; i++) {
        if (results[i].call == NULL || results[i].call->node == NULL) {
            rc = CHAT_BAD;
            break;
        }

        text.len = 0;
        rc = write_part(doc, results[i].call->node, &results[i], &text, edits);
    }

    chat_buf_free(&text);

    return rc;
}


chat_rc_e
chat_ai_sdk_mend(chat_json_doc_t *doc, const chat_request_t *rq,
                 chat_approval_e (*decided)(void *data, chat_str_t id),
                 void *data, chat_edits_t *edits)
{
    const chat_json_t *approval;
    const chat_call_t *call;
    chat_str_t         none = CHAT_STR("");
    chat_approval_e    fits;
    size_t             i;

    for (i = 0; i < rq->ncalls; i++) {
        call = &rq->calls[i];
        approval = chat_json_get(doc, call->node, "approval");

        if (call->outcome == CHAT_OUTCOME_NONE
            || call->outcome == CHAT_OUTCOME_PARTIAL || approval == NULL
            || approval->type != CHAT_JSON_OBJECT
            || chat_json_get(doc, approval, "approved") != NULL)
        {
            continue;
        }

        /* Any other decision would leave the part as invalid as it is. */
        fits = call->outcome == CHAT_OUTCOME_DENIED ? CHAT_APPROVAL_REFUSED
                                                    : CHAT_APPROVAL_GRANTED;

        if (decided(data, call->id) == fits
            && write_decision(doc, approval, fits, none, edits) != CHAT_OK)
        {
            return CHAT_ERROR;
        }
    }

    return CHAT_OK;
}


/* ---- the body ---- */


/* The form lacks what inserts results: they go into the parts of the calls. */
static const chat_transcript_form_t form = {
    .role = message_role,
    .calls = message_calls,
    .args = call_args,
    .result = call_result,
    .class = set_class,
};


/* The list of messages, or the only message; NULL: there is none. */
static const chat_json_t *
find_messages(chat_json_doc_t *doc)
{
    const chat_json_t *list, *message;

    list = chat_json_get(doc, doc->root, "messages");
    if (list != NULL) {
        return list->type == CHAT_JSON_ARRAY ? list : NULL;
    }

    message = chat_json_get(doc, doc->root, "message");

    return message && message->type == CHAT_JSON_OBJECT ? message : NULL;
}


const chat_json_t *
chat_ai_sdk_last_message(chat_json_doc_t *doc)
{
    const chat_json_t *last = NULL, *node, *list = find_messages(doc);

    for (node = chat_list_first(list); node != NULL;
         node = chat_list_next(list, node))
    {
        last = node;
    }

    return last;
}


chat_rc_e
chat_ai_sdk_request(chat_json_doc_t *doc, chat_arena_t *arena,
                    chat_request_t *rq)
{
    chat_rc_e          rc;
    chat_transcript_t  t;
    chat_ai_sdk_body_t body = { 0 };
    const chat_json_t *role, *parts;

    body.last = chat_ai_sdk_last_message(doc);
    role = chat_json_get(doc, body.last, "role");
    parts = chat_json_get(doc, body.last, "parts");

    if (role == NULL || role->type != CHAT_JSON_STRING || parts == NULL
        || parts->type != CHAT_JSON_ARRAY)
    {
        return CHAT_DECLINED;
    }

    rq->stream = 1;
    rq->conversation = chat_json_text(doc, doc->root, "id");
    rq->last_message = chat_json_text(doc, body.last, "id");

    chat_transcript_init(&t, &form, doc, arena, rq);
    t.data = &body;

    rc = chat_transcript_read(&t, find_messages(doc));

    /* what it leaves behind is kept, but not answered */
    rq->answers &= rq->class != CHAT_CLASS_REGENERATE;

    return rc == CHAT_OK && doc->duplicate ? CHAT_BAD : rc;
}


/* ---- comparing two transcripts ---- */


/* What of each part counts; a part without any of it does not count. */
static const char *const counts[] = {
    "text",  "url",    "mediaType", "data", "toolCallId",
    "input", "output", "errorText", NULL,
};


/* 1 if the part can be something that the model is told. */
static int
part_says(chat_json_doc_t *doc, const chat_json_t *part, int user)
{
    chat_str_t name;

    return chat_ai_sdk_part_is(doc, part, "text")
           || chat_ai_sdk_part_is(doc, part, "file")
           || chat_ai_sdk_part_call(doc, part, &name)
           || (user
               && chat_str_starts(chat_json_text(doc, part, "type"), "data-"));
}


/* 1 if it is an empty text: the SDK does not send it to the model. */
static int
is_no_text(const chat_json_t *value, const char *key)
{
    return strcmp(key, "text") == 0 && value->type == CHAT_JSON_STRING
           && value->end - value->start == 2;
}


static void
say(chat_transcript_digest_t *transcript, const chat_json_t *part,
    chat_str_t role)
{
    int                said = 0;
    const char *const *key;
    const chat_json_t *value;
    chat_buf_t        *text = &transcript->text;

    for (key = counts; *key != NULL; key++) {
        value = chat_json_get(&transcript->doc, part, *key);
        if (value == NULL || is_no_text(value, *key)) {
            continue;
        }

        if (!said) {
            chat_buf_json(text, role);
            said = 1;
        }

        chat_buf_puts(text, *key);
        chat_json_canon(&transcript->doc, value, text);
    }
}


void
chat_ai_sdk_says(chat_transcript_digest_t *transcript,
                 const chat_json_t *message, uint32_t until)
{
    int                user;
    chat_str_t         role;
    chat_json_doc_t   *doc = &transcript->doc;
    const chat_json_t *part, *parts = chat_json_get(doc, message, "parts");

    if (parts == NULL || parts->type != CHAT_JSON_ARRAY) {
        return;
    }

    role = chat_json_text(doc, message, "role");
    user = chat_str_is(role, "user");

    for (part = parts->child; part != NULL && part->end <= until;
         part = part->next)
    {
        if (part_says(doc, part, user)) {
            say(transcript, part, role);
        }
    }
}
