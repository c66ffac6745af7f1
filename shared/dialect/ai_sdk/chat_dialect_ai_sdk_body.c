/*
 * chat_dialect_ai_sdk_body.c: the request body of the AI SDK's chat transport.
 *
 * The body is the whole transcript: messages, each with parts; or, where an
 * app has shaped it so, the last message alone. A call and its result are one
 * part, whose state says how far it has come. Parts of the type step-start
 * divide an assistant message into steps.
 * Promises: any body is survived; an unknown state or part is nobody's call to
 * answer. chat_dialect_ai_sdk_splice.c writes what is read here.
 * Must not know: streams, stores, policy.
 */

#include "dialect/ai_sdk/chat_dialect_ai_sdk.h"


/* A body that is being read. */
typedef struct {
    chat_json_doc_t   *doc;
    chat_arena_t      *arena;
    chat_request_t    *rq;
    const chat_json_t *user; /* the last user message, or NULL */
    const chat_json_t *left; /* the assistant message that a fresh turn comes
                                directly after, or NULL */
    const chat_json_t *last; /* of all messages */
    int                lone; /* there is no list, but this one message */
    uint32_t starts;         /* step-starts so far of the message read last */
    int      tail;           /* the last step of that message has calls
                                   that nothing was said after */
} chat_body_t;

/* What a step has. */
typedef struct {
    int calls;
    int lacking; /* a call of them lacks an answer or a decision */
    int text;    /* there is text after the last call */
} chat_glance_t;


/* The message behind this one, or NULL. */
static const chat_json_t *
chat_body_next(const chat_body_t *body, const chat_json_t *message)
{
    /* of a lone one the next is the body's next member */
    return body->lone ? NULL : message->next;
}


/* The call's result, by the part's state. */
static chat_rc_e
chat_body_result(chat_json_doc_t *doc, const chat_json_t *part,
                 chat_ai_sdk_part_e state, chat_call_t *call)
{
    const chat_json_t *output = chat_json_get(doc, part, "output");
    const chat_json_t *error = chat_json_get(doc, part, "errorText");
    const chat_json_t *early = chat_json_get(doc, part, "preliminary");
    const chat_json_t *node = NULL;

    switch (state) {
    case CHAT_PART_OK:
        call->outcome =
            chat_json_true(early) ? CHAT_OUTCOME_PARTIAL : CHAT_OUTCOME_OK;
        node = output;
        break;
    case CHAT_PART_ERROR:
        call->outcome = CHAT_OUTCOME_ERROR;
        node = error;
        break;
    case CHAT_PART_DENIED:
        call->outcome = CHAT_OUTCOME_DENIED;
        break;
    default:
        return CHAT_OK;
    }

    return chat_ai_sdk_result(doc, node, call->outcome, &call->payload,
                              &call->digest);
}


/*
 * The call's kind, and what is known of its approval. What was approved and
 * has brought a preliminary output is neither asked nor settled.
 */
static void
chat_body_approval(chat_json_doc_t *doc, const chat_json_t *part,
                   chat_ai_sdk_part_e state, chat_call_t *call)
{
    const chat_json_t *approval = chat_json_get(doc, part, "approval");
    const chat_json_t *approved = chat_json_get(doc, approval, "approved");
    const chat_json_t *reason = chat_json_get(doc, approval, "reason");
    int                asks, has;

    asks = state == CHAT_PART_ASKED || state == CHAT_PART_RESPONDED;
    has = approval != NULL && approval->type == CHAT_JSON_OBJECT;

    if (chat_json_true(chat_json_get(doc, part, "providerExecuted"))) {
        call->kind = CHAT_KIND_PROVIDER;

    } else if (asks
               || (has && state != CHAT_PART_OK && state != CHAT_PART_ERROR)) {
        call->kind = CHAT_KIND_APPROVAL;
    }

    if (!asks
        && (!has || state < CHAT_PART_OK
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

        call->reason = chat_json_raw(doc, reason);
    }
}


static chat_rc_e
chat_body_call(chat_body_t *body, const chat_json_t *message,
               const chat_json_t *part, chat_str_t name)
{
    chat_json_doc_t   *doc = body->doc;
    chat_ai_sdk_part_e state = chat_ai_sdk_part_state(doc, part);
    const chat_json_t *input = chat_json_get(doc, part, "input");
    const chat_json_t *raw = chat_json_get(doc, part, "rawInput");
    chat_call_t       *call;

    if (chat_request_is_full(body->rq)) {
        return CHAT_LIMIT;
    }

    call = chat_request_add_call(body->rq, body->arena);
    if (call == NULL) {
        return CHAT_ERROR;
    }

    call->id = chat_json_text(doc, part, "toolCallId");
    call->name = name;
    call->node = part;
    call->ready = state > CHAT_PART_STREAMING;
    call->dynamic = chat_ai_sdk_part_is(doc, part, "dynamic-tool");
    call->in_last_message = message == body->last;

    if (chat_body_result(doc, part, state, call) != CHAT_OK) {
        return CHAT_ERROR;
    }

    chat_body_approval(doc, part, state, call);
    call->undecided = chat_ai_sdk_part_undecided(doc, part) & 1;

    return chat_fingerprint(name,
                            chat_json_raw(doc, input != NULL ? input : raw),
                            &call->fingerprint);
}


/* Looks over the parts [part, end) of a step. */
static chat_glance_t
chat_body_glance(chat_body_t *body, const chat_json_t *part,
                 const chat_json_t *end)
{
    chat_glance_t glance = { 0, 0, 0 };
    chat_str_t    name;

    for (/* void */; part != end; part = part->next) {
        if (chat_ai_sdk_part_call(body->doc, part, &name)) {
            glance.calls = 1;
            glance.text = 0;
            glance.lacking |= chat_ai_sdk_part_unanswered(body->doc, part)
                              || chat_ai_sdk_part_undecided(body->doc, part);

        } else if (chat_ai_sdk_part_is(body->doc, part, "text")) {
            glance.text = 1;
        }
    }

    return glance;
}


static chat_rc_e
chat_body_step(chat_body_t *body, const chat_json_t *message,
               const chat_json_t *part, const chat_json_t *end)
{
    chat_json_doc_t *doc = body->doc;
    chat_step_t     *step;
    chat_call_t     *calls;
    chat_str_t       name;
    chat_rc_e        rc;

    step = chat_request_add_step(body->rq, body->arena);
    if (step == NULL) {
        return CHAT_ERROR;
    }

    step->message = chat_json_text(doc, message, "id");
    step->ordinal = body->starts != 0 ? body->starts - 1 : 0;

    for (/* void */; part != end; part = part->next) {
        if (!chat_ai_sdk_part_call(doc, part, &name)) {
            continue;
        }

        rc = chat_body_call(body, message, part, name);
        if (rc != CHAT_OK) {
            return rc;
        }
    }

    calls = body->rq->calls;
    step = &body->rq->steps[body->rq->nsteps - 1];
    step->first_id = calls[step->first].id;

    return CHAT_OK;
}


/*
 * Reads the steps of an assistant message. Those with calls are listed if they
 * are of the current turn; of an older one those that can be repaired, and
 * the one that a fresh turn leaves behind.
 */
static chat_rc_e
chat_body_message(chat_body_t *body, const chat_json_t *message, int current)
{
    chat_json_doc_t   *doc = body->doc;
    const chat_json_t *parts = chat_json_get(doc, message, "parts");
    const chat_json_t *part, *end;
    chat_glance_t      glance;
    chat_rc_e          rc;
    int                left;

    body->starts = 0;
    body->tail = 0;

    if (parts == NULL || parts->type != CHAT_JSON_ARRAY) {
        return CHAT_OK;
    }

    for (part = parts->child; part != NULL; part = end) {
        if (chat_ai_sdk_part_is(doc, part, "step-start")) {
            body->starts++;
            part = part->next;
        }

        end = part;
        while (end != NULL && !chat_ai_sdk_part_is(doc, end, "step-start")) {
            end = end->next;
        }

        glance = chat_body_glance(body, part, end);
        left = message == body->left && end == NULL && !glance.text;
        body->tail = glance.calls && end == NULL && (current || left);

        if (!glance.calls || !(current || left || glance.lacking)) {
            continue;
        }

        rc = chat_body_step(body, message, part, end);
        if (rc != CHAT_OK) {
            return rc;
        }
    }

    return CHAT_OK;
}


/* Finds the last message, the last user message, and what that one left. */
static void
chat_body_survey(chat_body_t *body, const chat_json_t *first)
{
    const chat_json_t *message, *role, *before = NULL;
    int                user, was_user = 0;

    for (message = first; message != NULL;
         message = chat_body_next(body, message)) {
        role = chat_json_get(body->doc, message, "role");
        user = chat_json_is(body->doc, role, "user");

        if (user) {
            if (!was_user) {
                body->left = before;
            }
            body->user = message;
        }

        was_user = user;
        before = message;
    }

    body->last = before;

    if (!was_user) {
        body->left = NULL;
    }
}


static chat_rc_e
chat_body_messages(chat_body_t *body, const chat_json_t *first)
{
    chat_request_t    *rq = body->rq;
    const chat_json_t *message, *role;
    chat_rc_e          rc;
    int                current = body->user == NULL;

    for (message = first; message != NULL;
         message = chat_body_next(body, message)) {
        if (message == body->user) {
            current = 1;
            rq->turn = rq->ncalls;
            continue;
        }

        role = chat_json_get(body->doc, message, "role");
        if (!chat_json_is(body->doc, role, "assistant")) {
            continue;
        }

        rc = chat_body_message(body, message, current);
        if (rc != CHAT_OK) {
            return rc;
        }

        if (message == body->left || message == body->last) {
            rq->answers = body->tail;
        }
    }

    return CHAT_OK;
}


/* What the last step makes of the request: has the client settled a call? */
static chat_class_e
chat_body_brings(const chat_request_t *rq)
{
    const chat_step_t *step = &rq->steps[rq->nsteps - 1];
    chat_class_e class = CHAT_CLASS_OTHER;
    size_t i;

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
chat_body_classify(chat_body_t *body, const chat_json_t *trigger)
{
    chat_json_doc_t   *doc = body->doc;
    chat_request_t    *rq = body->rq;
    const chat_json_t *role = chat_json_get(doc, body->last, "role");

    if (chat_json_is(doc, trigger, "regenerate-message")) {
        rq->class = CHAT_CLASS_REGENERATE;
        rq->regenerates = chat_json_text(doc, doc->root, "messageId");

        if (chat_str_eq(rq->regenerates, rq->last_message)) {
            /* the user's message, whose answer is made anew */
            rq->regenerates.len = 0;
        }

    } else if (body->last == body->user) {
        rq->class = CHAT_CLASS_FRESH;

    } else if (chat_json_is(doc, role, "assistant") && rq->answers
               && (trigger == NULL || trigger->type == CHAT_JSON_NULL
                   || chat_json_is(doc, trigger, "submit-message")))
    {
        rq->class = chat_body_brings(rq);
        rq->next.message = rq->last_message;
        rq->next.ordinal = body->starts;
    }

    if (rq->class == CHAT_CLASS_OTHER || rq->class == CHAT_CLASS_REGENERATE) {
        rq->answers = 0;
    }
}


/* The first of the messages, or the only one; NULL: there is none. */
static const chat_json_t *
chat_body_first(chat_body_t *body)
{
    const chat_json_t *messages, *message;

    messages = chat_json_get(body->doc, body->doc->root, "messages");
    if (messages != NULL) {
        return messages->type == CHAT_JSON_ARRAY ? messages->child : NULL;
    }

    message = chat_json_get(body->doc, body->doc->root, "message");
    body->lone = 1;

    return message != NULL && message->type == CHAT_JSON_OBJECT ? message
                                                                : NULL;
}


chat_rc_e
chat_ai_sdk_request(chat_json_doc_t *doc, chat_arena_t *arena,
                    chat_request_t *rq)
{
    chat_body_t        body = { .doc = doc, .arena = arena, .rq = rq };
    chat_rc_e          rc;
    const chat_json_t *first, *role, *parts;

    doc->duplicate = 0;

    first = chat_body_first(&body);
    if (first == NULL) {
        return CHAT_DECLINED;
    }

    chat_body_survey(&body, first);

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

    rc = chat_body_messages(&body, first);
    if (rc != CHAT_OK) {
        return rc;
    }

    chat_body_classify(&body, chat_json_get(doc, doc->root, "trigger"));

    return doc->duplicate ? CHAT_BAD : CHAT_OK;
}


const chat_json_t *
chat_ai_sdk_last_message(chat_json_doc_t *doc)
{
    chat_body_t        body = { .doc = doc };
    const chat_json_t *first = chat_body_first(&body);

    if (first != NULL) {
        chat_body_survey(&body, first);
    }

    return body.last;
}
