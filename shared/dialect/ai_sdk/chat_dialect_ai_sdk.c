/*
 * chat_dialect_ai_sdk.c: the AI SDK's chat transport (UI messages).
 *
 * Here: requests, what the module itself writes, and the row. The body is the
 * whole transcript: messages, each with parts; or, where an app has changed it
 * so, the last message alone. A call and its result are one part; its state
 * says how far it has come. Parts of the type step-start divide an assistant
 * message into steps.
 * Promises: a part of an unknown type or state is never a call to wait for;
 * a chunk has a type and members that versions 5 to 7 accept; what no client
 * takes in its present state is not written.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"


/* What the shared reader does not know of a body. */
typedef struct {
    const chat_json_t *last;   /* message of the list */
    chat_str_t         id;     /* of the message read last, */
    uint32_t           starts; /* its step-starts */
    int                text;   /* text stands behind its last call */
} body_t;


/* What a part of the assistant says, apart from the name of a tool. */
typedef struct {
    const chat_json_t *type, *id, *state, *input, *raw_input, *output, *error;
    const chat_json_t *approval, *provider, *preliminary;
} part_t;


/* ---- parts ---- */


/*
 * Reads a part in one walk, which notes each member that stands twice, also
 * those that only call_args() or an inserted result will need.
 */
static void
read_part(chat_json_doc_t *doc, const chat_json_t *node, part_t *part)
{
    const chat_json_t *it;

    *part = (part_t){ 0 };

    for (it = node->child; it != NULL; it = it->next) {
        (void) (chat_json_take(doc, it, "type", 0, &part->type)
                || chat_json_take(doc, it, "toolCallId", 0, &part->id)
                || chat_json_take(doc, it, "state", 0, &part->state)
                || chat_json_take(doc, it, "input", 0, &part->input)
                || chat_json_take(doc, it, "output", 0, &part->output)
                || chat_json_take(doc, it, "rawInput", 0, &part->raw_input)
                || chat_json_take(doc, it, "errorText", 0, &part->error)
                || chat_json_take(doc, it, "approval", 0, &part->approval)
                || chat_json_take(doc, it, "providerExecuted", 0,
                                  &part->provider)
                || chat_json_take(doc, it, "preliminary", 0,
                                  &part->preliminary));
    }
}


chat_ai_sdk_part_e
chat_ai_sdk_part_state(chat_json_doc_t *doc, const chat_json_t *node)
{
    size_t     i;
    chat_str_t state = chat_json_string(doc, node);

    static const struct {
        const char        *name;
        chat_ai_sdk_part_e state;
    } states[] = {
        { "output-available", CHAT_PART_OK }, /* most often */
        { "input-streaming", CHAT_PART_STREAMING },
        { "input-available", CHAT_PART_READY },
        { "approval-requested", CHAT_PART_ASKED },
        { "approval-responded", CHAT_PART_RESPONDED },
        { "output-error", CHAT_PART_ERROR },
        { "output-denied", CHAT_PART_DENIED },
    };

    for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (chat_str_is(state, states[i].name)) {
            return states[i].state;
        }
    }

    return CHAT_PART_UNKNOWN;
}


int
chat_ai_sdk_part_call(chat_json_doc_t *doc, const chat_json_t *part,
                      chat_str_t type, chat_str_t *name)
{
    if (chat_str_is(type, "dynamic-tool")) {
        *name = chat_json_text(doc, part, "toolName");
        return 1;
    }

    return chat_str_after(type, "tool-", name) && name->len != 0;
}


/*
 * Sets what the body says of the call's approval. A call that was approved and
 * has brought a preliminary output has none that counts.
 */
static void
read_approval(chat_json_doc_t *doc, const chat_json_t *approval,
              chat_ai_sdk_part_e state, chat_call_t *call)
{
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


static void
read_call(chat_transcript_t *t, const part_t *part, chat_call_t *call)
{
    body_t            *body = t->data;
    chat_step_t       *step = &t->rq->steps[t->rq->nsteps - 1];
    chat_ai_sdk_part_e state = chat_ai_sdk_part_state(t->doc, part->state);

    call->kind =
        chat_json_true(part->provider) ? CHAT_KIND_PROVIDER : CHAT_KIND_CLIENT;
    call->ready = state != CHAT_PART_UNKNOWN && state != CHAT_PART_STREAMING;
    call->in_last_message = t->message == body->last;
    call->outcome = state == CHAT_PART_DENIED           ? CHAT_OUTCOME_DENIED
                    : state == CHAT_PART_ERROR          ? CHAT_OUTCOME_ERROR
                    : state != CHAT_PART_OK             ? CHAT_OUTCOME_NONE
                    : chat_json_true(part->preliminary) ? CHAT_OUTCOME_PARTIAL
                                                        : CHAT_OUTCOME_OK;
    read_approval(t->doc, part->approval, state, call);

    /* the call is its own result, unless it awaits it or a decision */
    if (state != CHAT_PART_READY && state != CHAT_PART_ASKED) {
        call->result = call->node;
    }

    if (body->id.data == NULL) {
        body->id = chat_json_text(t->doc, t->message, "id");
    }

    step->message = body->id;
    step->ordinal = body->starts != 0 ? body->starts - 1 : 0;
}


/* ---- the transcript ---- */


static chat_role_e
message_role(chat_transcript_t *t)
{
    chat_str_t         role;
    const chat_json_t *node;

    chat_json_pick(t->doc, t->message, "role", &node, "parts", &t->member,
                   NULL, NULL);
    role = chat_json_string(t->doc, node);

    return chat_str_is(role, "user")        ? CHAT_ROLE_USER
           : chat_str_is(role, "assistant") ? CHAT_ROLE_ASSISTANT
                                            : CHAT_ROLE_OTHER;
}


static void
message_calls(chat_transcript_t *t)
{
    part_t             part;
    body_t            *body = t->data;
    chat_str_t         name, type;
    chat_call_t       *call;
    const chat_json_t *node = chat_json_first(t->member);

    *body = (body_t){ .last = body->last };

    for (/* void */; node != NULL; node = node->next) {
        read_part(t->doc, node, &part);
        type = chat_json_string(t->doc, part.type);

        if (chat_str_is(type, "step-start")) {
            body->starts++;
            t->has_step = 0;

        } else if (chat_ai_sdk_part_call(t->doc, node, type, &name)) {
            body->text = 0;
            call = chat_transcript_call(t, node,
                                        chat_json_string(t->doc, part.id));
            if (call != NULL) {
                call->dynamic = chat_str_is(type, "dynamic-tool") & 1;
                read_call(t, &part, call);
            }

        } else if (chat_str_is(type, "text")) {
            body->text = 1;
        }
    }
}


static chat_str_t
call_args(chat_json_doc_t *doc, const chat_json_t *part,
          const chat_json_t **args)
{
    chat_str_t         name = { NULL, 0 };
    const chat_json_t *input, *raw, *type;

    chat_json_pick(doc, part, "type", &type, "input", &input, "rawInput",
                   &raw);

    *args = input != NULL ? input : raw;
    (void) chat_ai_sdk_part_call(doc, part, chat_json_string(doc, type),
                                 &name);
    return name;
}


static void
call_result(chat_transcript_t *t, chat_call_t *call)
{
    int failed = call->outcome == CHAT_OUTCOME_ERROR;

    if (call->outcome != CHAT_OUTCOME_NONE
        && call->outcome != CHAT_OUTCOME_DENIED) {
        chat_transcript_value(
            t,
            chat_json_get(t->doc, call->node, failed ? "errorText" : "output"),
            failed ? CHAT_AI_SDK_NO_ERROR : CHAT_AI_SDK_NO_OUTPUT, call);
    }
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
    const body_t      *body = t->data;

    if (t->end == CHAT_ROLE_USER) {
        rq->answers =
            t->has_step && !body->text && t->tail[CHAT_ROLE_OTHER] == 0;
    }

    if (chat_json_is(doc, trigger, "regenerate-message")) {
        rq->class = CHAT_CLASS_REGENERATE;
        rq->regenerates = chat_json_text(doc, doc->root, "messageId");

        if (chat_str_eq(rq->regenerates, rq->last_message)) {
            /* the user's message: its answer is made anew */
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


/* What a result that is written says. */
static chat_str_t
payload_of(const chat_result_t *result)
{
    return result->payload.len != 0 ? result->payload
           : result->outcome == CHAT_OUTCOME_ERROR
               ? chat_cstr(CHAT_AI_SDK_NO_ERROR)
               : chat_cstr(CHAT_AI_SDK_NO_OUTPUT);
}


/* The approval with the decision in it, without a reason for the other one. */
static void
put_decision(chat_json_doc_t *doc, const chat_json_t *approval,
             chat_approval_e decision, chat_str_t reason, chat_buf_t *out)
{
    int                granted = decision == CHAT_APPROVAL_GRANTED;
    const chat_json_t *had = chat_json_get(doc, approval, "reason");
    const chat_json_t *approved = chat_json_get(doc, approval, "approved");
    chat_json_member_t members[] = {
        { "approved", chat_cstr(granted ? "true" : "false") },
        { "reason", reason },
    };

    if (reason.len == 0 && had != NULL) {
        members[1].value =
            approved != NULL && chat_json_true(approved) != granted
                ? chat_cstr("\"\"")
                : chat_json_raw(doc, had);
    }

    chat_json_set(doc, approval, members, 2, out);
}


/*
 * The approval of a part that gets a result: one that does not say how it was
 * decided is invalid in a settled part, so it says so or goes. A denial
 * without an approval is invalid likewise, and gets one.
 */
static void
put_approval(chat_json_doc_t *doc, const chat_json_t *part,
             const chat_result_t *result, chat_buf_t *out)
{
    int                denied = result->outcome == CHAT_OUTCOME_DENIED;
    const chat_json_t *approval = chat_json_get(doc, part, "approval");
    chat_approval_e    decision =
        denied ? CHAT_APPROVAL_REFUSED : result->approval;

    if (decision == CHAT_APPROVAL_NONE
        && chat_json_flag(doc, approval, "approved"))
    {
        chat_buf_add(out, chat_json_raw(doc, approval));

    } else if (!denied && decision != CHAT_APPROVAL_GRANTED) {
        return;

    } else if (approval != NULL && approval->type == CHAT_JSON_OBJECT) {
        put_decision(doc, approval, decision, chat_str(NULL, 0), out);

    } else if (denied) {
        chat_buf_format(out, "{\"id\":%j,\"approved\":false}",
                        result->call->id);
    }
}


/*
 * The decision of an approval in a settled part, if it fits the outcome: with
 * any other the part would stay invalid.
 */
static chat_rc_e
decide_settled(chat_json_doc_t *doc, const chat_result_t *result,
               const chat_json_t **node, chat_buf_t *out)
{
    const chat_call_t *call = result->call;

    if (call->outcome == CHAT_OUTCOME_PARTIAL
        || result->approval
               != (call->outcome == CHAT_OUTCOME_DENIED
                       ? CHAT_APPROVAL_REFUSED
                       : CHAT_APPROVAL_GRANTED))
    {
        return CHAT_DECLINED;
    }

    *node = chat_json_get(doc, *node, "approval");
    put_decision(doc, *node, result->approval, chat_str(NULL, 0), out);
    return CHAT_OK;
}


/* Makes the part a settled one, or one with a decision. */
static chat_rc_e
rewrite_part(chat_json_doc_t *doc, const chat_result_t *result,
             const chat_json_t **node, chat_buf_t *out)
{
    int                n = 5, ok = result->outcome == CHAT_OUTCOME_OK;
    int                error = result->outcome == CHAT_OUTCOME_ERROR;
    chat_buf_t        *text = chat_buf_scratch();
    chat_str_t         none = { NULL, 0 }, value = payload_of(result);
    const chat_json_t *approval =
        chat_json_typed(doc, *node, "approval", CHAT_JSON_OBJECT);
    chat_json_member_t members[] = {
        { "state", chat_cstr(ok      ? "\"output-available\""
                             : error ? "\"output-error\""
                                     : "\"output-denied\"") },
        { "approval", none },
        { "output", ok ? value : none },
        { "errorText", error ? value : none },
        { "preliminary", none },
    };

    if (chat_json_get(doc, *node, "state") == NULL
        || result->outcome == CHAT_OUTCOME_PARTIAL)
    {
        return CHAT_BAD;
    }

    if (result->outcome != CHAT_OUTCOME_NONE) {
        put_approval(doc, *node, result, text);

    } else if (result->call->undecided) {
        return decide_settled(doc, result, node, out);

    } else if (approval == NULL || !chat_approval_is_decided(result->approval))
    {
        return CHAT_BAD;

    } else {
        members[0].value = chat_cstr("\"approval-responded\"");
        n = 2;
        put_decision(doc, approval, result->approval, result->payload, text);
    }

    members[1].value = chat_buf_str(text);
    chat_json_set(doc, *node, members, n, out);
    out->failed |= text->failed;
    return CHAT_OK;
}


/* ---- comparing two transcripts ---- */


#define SAID 8 /* members of a part that say something, if it does */


/* Finds them in order, the text first; returns the type of the part. */
static chat_str_t
find_said(chat_json_doc_t *doc, const chat_json_t *part,
          const chat_json_t *said[SAID])
{
    const chat_json_t *node, *type = NULL;

    memset(said, 0, SAID * sizeof(*said));

    for (node = part->child; node != NULL; node = node->next) {
        (void) (chat_json_take(doc, node, "type", 0, &type)
                || chat_json_take(doc, node, "text", 0, &said[0])
                || chat_json_take(doc, node, "toolCallId", 0, &said[1])
                || chat_json_take(doc, node, "input", 0, &said[2])
                || chat_json_take(doc, node, "output", 0, &said[3])
                || chat_json_take(doc, node, "errorText", 0, &said[4])
                || chat_json_take(doc, node, "url", 0, &said[5])
                || chat_json_take(doc, node, "mediaType", 0, &said[6])
                || chat_json_take(doc, node, "data", 0, &said[7]));
    }

    return chat_json_string(doc, type);
}


/*
 * 1 if the part can be something that the model is told. The SDK does not send
 * it an empty text.
 */
static int
part_says(chat_json_doc_t *doc, chat_str_t type, const chat_json_t *text,
          const chat_json_t *role)
{
    chat_str_t name;

    if (chat_str_is(type, "text")) {
        return text != NULL && text->type == CHAT_JSON_STRING
               && text->end - text->start != 2;
    }

    return chat_ai_sdk_part_call(doc, NULL, type, &name)
           || chat_str_is(type, "file")
           || (chat_str_starts(type, "data-")
               && chat_json_is(doc, role, "user"));
}


static void
message_says(chat_transcript_digest_t *transcript, const chat_json_t *message,
             uint32_t until)
{
    size_t             i;
    chat_str_t         type;
    chat_buf_t        *text = transcript->text;
    chat_json_doc_t   *doc = &transcript->doc;
    const chat_json_t *role, *part, *said[SAID];

    chat_json_pick(doc, message, "role", &role, "parts", &part, NULL, NULL);
    role = role != NULL && role->type == CHAT_JSON_STRING ? role : NULL;
    part = chat_json_first(part);

    for (/* void */; part != NULL && part->end <= until; part = part->next) {
        type = find_said(doc, part, said);

        if (part_says(doc, type, said[0], role)) {
            chat_buf_puts(text, role != NULL ? "" : "\"\"");
            chat_json_canon(doc, role, text);

            for (i = 0; i < SAID; i++) {
                if (said[i] != NULL) {
                    chat_json_canon_member(doc, said[i], text);
                }
            }
        }

        /* one message can be the whole transcript */
        if (text->len >= CHAT_TRANSCRIPT_TEXT) {
            chat_mix_add(&transcript->mix, chat_buf_str(text));
            text->len = 0;
        }
    }
}


/* ---- the body ---- */


static const chat_transcript_form_t form = {
    .list = "messages",
    .role = message_role,
    .calls = message_calls,
    .args = call_args,
    .unique = 1,
    .result = call_result,
    .class = set_class,
    .rewrite = rewrite_part,
    .says = message_says,
};


/* The list of messages, or the only message; NULL: there is none. */
static const chat_json_t *
find_messages(chat_json_doc_t *doc)
{
    const chat_json_t *list = chat_json_get(doc, doc->root, "messages");

    return list == NULL
               ? chat_json_typed(doc, doc->root, "message", CHAT_JSON_OBJECT)
           : list->type == CHAT_JSON_ARRAY ? list
                                           : NULL;
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


static chat_rc_e
read_request(chat_transcript_t *t)
{
    body_t           body = { 0 };
    chat_request_t  *rq = t->rq;
    chat_json_doc_t *doc = t->doc;

    body.last = chat_ai_sdk_last_message(doc);

    if (!chat_json_typed(doc, body.last, "role", CHAT_JSON_STRING)
        || !chat_json_typed(doc, body.last, "parts", CHAT_JSON_ARRAY))
    {
        return CHAT_DECLINED;
    }

    rq->stream = 1;
    rq->conversation = chat_json_text(doc, doc->root, "id");
    rq->last_message = chat_json_text(doc, body.last, "id");

    t->data = &body;
    chat_transcript_read(t, find_messages(doc));

    /* what it leaves behind is kept, but not answered */
    rq->answers &= rq->class != CHAT_CLASS_REGENERATE;
    return CHAT_OK;
}


/* ---- what the module itself writes ---- */


/*
 * A client fails on a result of a call that is not in its last message, and
 * has no chunk for an approval that was decided elsewhere: these are left out.
 */
void
chat_ai_sdk_tell(const chat_result_t *results, size_t n, chat_buf_t *out)
{
    int                  ok;
    size_t               i;
    chat_str_t           value;
    const chat_result_t *result;

    for (i = 0; i < n; i++) {
        result = &results[i];

        if (result->call == NULL || !result->call->in_last_message) {
            continue;
        }

        ok = result->outcome == CHAT_OUTCOME_OK;
        value = payload_of(result);

        if (ok || result->outcome == CHAT_OUTCOME_ERROR) {
            chat_buf_format(
                out,
                "data: {\"type\":\"tool-output-%s\",\"toolCallId\":%j,"
                "\"%s\":%l%s}\n\n",
                ok ? "available" : "error", result->call->id,
                ok ? "output" : "errorText", value,
                result->call->dynamic ? ",\"dynamic\":true" : "");

        } else if (result->outcome == CHAT_OUTCOME_DENIED) {
            chat_buf_format(
                out,
                "data: "
                "{\"type\":\"tool-output-denied\",\"toolCallId\":%j}\n\n",
                result->call->id);
        }
    }
}


static void
bounce(const chat_request_t *rq, const chat_result_t *results, size_t n,
       chat_buf_t *out)
{
    chat_ai_sdk_tell(results, n, out);
    chat_buf_puts(out, "data: {\"type\":\"start\"}\n\n"
                       "data: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n");
}


/*
 * A turn that adds one empty step: after a turn that adds nothing the client
 * would send the same again at once. It takes the new step over only with a
 * further write behind it: a second start with its own message's id.
 */
static chat_rc_e
empty(const chat_request_t *rq, const chat_result_t *results, size_t n,
      chat_buf_t *out)
{
    if (rq->last_message.len == 0) {
        return CHAT_DECLINED;
    }

    chat_ai_sdk_tell(results, n, out);
    chat_buf_format(out,
                    "data: {\"type\":\"start\"}\n\n"
                    "data: {\"type\":\"start-step\"}\n\n"
                    "data: {\"type\":\"start\",\"messageId\":%j}\n\n"
                    "data: {\"type\":\"finish-step\"}\n\n"
                    "data: {\"type\":\"finish\"}\n\ndata: [DONE]\n\n",
                    rq->last_message);

    return CHAT_OK;
}


static void
interrupted(const chat_reader_t *reader, const chat_interruption_t *in,
            chat_buf_t *out)
{
    const chat_ai_sdk_call_t *own;
    const chat_opening_t     *opening =
        chat_calls_half_open(reader ? reader->calls.first : NULL);

    /* a call without the end of its input would stay half open */
    for (/* void */; opening != NULL;
         opening = chat_calls_half_open(opening->later))
    {
        own = (const chat_ai_sdk_call_t *) opening->known->call;

        chat_buf_format(out,
                        "data: {\"type\":\"tool-input-error\","
                        "\"toolCallId\":%j,\"toolName\":%j,\"input\":{},"
                        "\"errorText\":\"The stream broke off before the "
                        "input was complete.\"%s}\n\n",
                        own->call.id, own->call.name,
                        own->dynamic ? ",\"dynamic\":true" : "");
    }

    chat_buf_format(out,
                    "data: {\"type\":\"data-chat-interrupted\",\"data\":"
                    "{\"reason\":%j,\"resumable\":%s},"
                    "\"transient\":true}\n\n"
                    "data: {\"type\":\"error\",\"errorText\":"
                    "\"The answer broke off before it was complete "
                    "(stream_interrupted: %s)%s.\"}\n\n",
                    chat_cstr(in->reason), in->resumable ? "true" : "false",
                    in->reason, in->resumable ? "; it can be resumed" : "");
}


static void
refuse(const chat_refusal_t *refusal, int in_band, chat_buf_t *out)
{
    size_t from;

    chat_buf_puts(out, "data: {\"type\":\"error\",\"errorText\":");
    from = out->len;
    chat_buf_format(out, "%s: ", refusal->code);
    chat_refusal_text(refusal, out);
    chat_buf_quote(out, from);
    chat_buf_puts(out, "}\n\n");
}


static chat_rc_e
find_message(chat_json_doc_t *doc, const chat_json_t **id)
{
    *id = chat_json_typed(doc, doc->root, "messageId", CHAT_JSON_STRING);

    return chat_json_has(doc, doc->root, "type", "start") ? CHAT_OK
                                                          : CHAT_DECLINED;
}


const chat_dialect_t chat_dialect_ai_sdk = {
    .name = "ai_sdk",
    /* an app may add others: these choose the answer wherever they occur */
    .signature = CHAT_LIST("model", "system", "tools"),
    .form = &form,
    .weak_by_message = 1,
    .one_by_one = 1,
    .sse_header = "x-vercel-ai-ui-message-stream: v1",
    .request = read_request,
    .reader_size = sizeof(chat_ai_sdk_reader_t),
    .call_size = sizeof(chat_ai_sdk_call_t),
    .read = chat_ai_sdk_read,
    .message = find_message,
    .history = chat_ai_sdk_history,
    .resolve_pending = chat_ai_sdk_resolve_pending,
    .interrupted = interrupted,
    .empty = empty,
    .bounce = bounce,
    .inject = chat_ai_sdk_tell,
    .refuse = refuse,
};
