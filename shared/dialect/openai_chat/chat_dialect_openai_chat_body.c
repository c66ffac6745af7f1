/*
 * chat_dialect_openai_chat_body.c: the request bodies of Chat Completions.
 *
 * A step is an assistant message with tool_calls; its results are the tool
 * messages up to the next assistant message. A body that ends in such results
 * is a continuation, one that ends in a user's (or system's) words is fresh.
 * Promises: odd elements are skipped, every duplicate of an id is an entry of
 * its own; a call's place is the message after which its result belongs.
 * Must not know: the stream, what a store has.
 */

#include "dialect/openai_chat/chat_dialect_openai_chat.h"

#define CHAT_COMPLETIONS_CALLS 1024 /* of one step; bounds the matching */


typedef enum {
    CHAT_ROLE_OTHER,
    CHAT_ROLE_USER,
    CHAT_ROLE_SYSTEM, /* or developer */
    CHAT_ROLE_ASSISTANT,
    CHAT_ROLE_TOOL /* or the older function */
} chat_role_e;

typedef struct {
    chat_json_doc_t   *doc;
    chat_arena_t      *arena;
    chat_request_t    *rq;
    const chat_json_t *fresh;    /* the last message with new content */
    const chat_json_t *last;     /* the last assistant message */
    const chat_json_t *answered; /* the one whose step the body answers */
    chat_turn_t        turn;
    chat_call_t       *calls; /* of the message that is being read */
    size_t             count;
    size_t             size;
    chat_twins_t       ids;         /* of those calls */
    unsigned           current : 1; /* in the current turn */
} chat_completions_t;


static chat_role_e
chat_completions_role(chat_json_doc_t *doc, const chat_json_t *message)
{
    chat_str_t role = chat_json_text(doc, message, "role");

    if (chat_str_is(role, "user")) {
        return CHAT_ROLE_USER;
    }

    if (chat_str_is(role, "assistant")) {
        return CHAT_ROLE_ASSISTANT;
    }

    if (chat_str_is(role, "tool") || chat_str_is(role, "function")) {
        return CHAT_ROLE_TOOL;
    }

    if (chat_str_is(role, "system") || chat_str_is(role, "developer")) {
        return CHAT_ROLE_SYSTEM;
    }

    return CHAT_ROLE_OTHER;
}


static chat_rc_e
chat_completions_hash(chat_json_doc_t *doc, chat_arena_t *arena,
                      const chat_json_t *message, chat_digest_t *out)
{
    const chat_json_t *content = chat_json_get(doc, message, "content");

    return content ? chat_json_digest(doc, content, out) : CHAT_OK;
}


/* Notes one more call of the message that is being read. */
static chat_rc_e
chat_completions_note(chat_completions_t *r, const chat_json_t *node,
                      const chat_json_t *id)
{
    chat_call_t *call;

    if (r->count == CHAT_COMPLETIONS_CALLS) {
        return CHAT_LIMIT;
    }

    call =
        chat_arena_grow(r->arena, r->calls, r->count, &r->size, sizeof(*call));
    if (call == NULL) {
        return CHAT_ERROR;
    }

    r->calls = call;
    call = &r->calls[r->count++];

    call->id = chat_json_string(r->doc, id);
    call->kind = chat_openai_chat_kind(r->doc, node);
    call->ready = 1;
    call->node = node;

    return chat_twins_add(&r->ids, call->id, 0);
}


/* Notes the calls of an assistant message. */
static chat_rc_e
chat_completions_calls(chat_completions_t *r, const chat_json_t *message)
{
    chat_rc_e          rc;
    const chat_json_t *calls, *node;

    r->count = 0;
    chat_twins_reset(&r->ids);
    calls = chat_json_get(r->doc, message, "tool_calls");

    if (calls && calls->type == CHAT_JSON_ARRAY) {
        for (node = calls->child; node; node = node->next) {
            if (node->type != CHAT_JSON_OBJECT) {
                continue;
            }

            rc = chat_completions_note(r, node,
                                       chat_json_get(r->doc, node, "id"));
            if (rc != CHAT_OK) {
                return rc;
            }
        }
    }

    node = chat_json_get(r->doc, message, "function_call");

    if (node && node->type == CHAT_JSON_OBJECT) {
        return chat_completions_note(r, node, NULL);
    }

    return CHAT_OK;
}


/*
 * Marks the noted calls that a tool message answers. place becomes the
 * message after which the call's result stands, or would have to.
 */
static void
chat_completions_match(chat_completions_t *r, const chat_json_t *message)
{
    size_t             i;
    chat_role_e        role;
    const chat_json_t *node;

    for (node = message->next; node; node = node->next) {
        role = chat_completions_role(r->doc, node);

        if (role == CHAT_ROLE_ASSISTANT) {
            break;
        }

        if (role != CHAT_ROLE_TOOL) {
            continue;
        }

        i = chat_twins_first(&r->ids,
                             chat_json_text(r->doc, node, "tool_call_id"));

        /* twins have their result all at once */
        for (; i != CHAT_TWINS_NONE && r->calls[i].place == NULL;
             i = chat_twins_next(&r->ids, i))
        {
            r->calls[i].place = node;
            r->calls[i].outcome = CHAT_OUTCOME_OK;
        }
    }

    for (i = 0; i < r->count; i++) {
        if (r->calls[i].place == NULL) {
            r->calls[i].place = message;
        }

        message = r->calls[i].place;
    }
}


/* 1 if the transcript can do without the noted calls. */
static int
chat_completions_past(const chat_completions_t *r, const chat_json_t *message)
{
    size_t i;

    if (r->current || message == r->answered) {
        return 0;
    }

    for (i = 0; i < r->count; i++) {
        if (chat_call_is_member(&r->calls[i])
            && !chat_call_is_settled(&r->calls[i])) {
            return 0;
        }
    }

    return 1;
}


/* What is costly to know of a call: its fingerprint, and its result. */
static chat_rc_e
chat_completions_detail(chat_completions_t *r, chat_call_t *call)
{
    chat_str_t               arguments;
    const chat_call_t       *twin;
    const chat_json_t       *node;
    static const chat_str_t  nothing = CHAT_STR("\"\"");
    const chat_json_t *const function =
        chat_openai_chat_function(r->doc, call->node);

    call->name = chat_json_text(r->doc, function, "name");
    arguments = chat_openai_chat_arguments(r->doc, function);

    if (chat_fingerprint(call->name, arguments, &call->fingerprint)) {
        return CHAT_ERROR;
    }

    if (call->outcome == CHAT_OUTCOME_NONE) {
        return CHAT_OK;
    }

    /* its twin before it has been given the same result */
    twin = &r->calls[chat_twins_first(&r->ids, call->id)];
    if (twin != call) {
        call->payload = twin->payload;
        call->digest = twin->digest;
        return CHAT_OK;
    }

    node = chat_json_get(r->doc, call->place, "content");

    if (node == NULL) {
        call->payload = nothing;
        chat_digest(nothing, &call->digest);
        return CHAT_OK;
    }

    call->payload = chat_json_raw(r->doc, node);
    return chat_json_digest(r->doc, node, &call->digest);
}


/* An assistant message: a step, if it has calls and they are of interest. */
static chat_rc_e
chat_completions_step(chat_completions_t *r, const chat_json_t *message)
{
    size_t       i;
    chat_rc_e    rc;
    chat_step_t *step;

    rc = chat_completions_calls(r, message);
    if (rc != CHAT_OK || r->count == 0) {
        return rc;
    }

    chat_completions_match(r, message);

    if (chat_completions_past(r, message)) {
        return CHAT_OK;
    }

    step = chat_request_add_step(r->rq, r->arena);
    if (step == NULL) {
        return CHAT_ERROR;
    }

    for (i = 0; i < r->count; i++) {
        rc = chat_completions_detail(r, &r->calls[i]);

        if (rc == CHAT_OK) {
            rc = chat_request_put_call(r->rq, r->arena, &r->calls[i]);
        }

        if (rc != CHAT_OK) {
            return rc;
        }
    }

    step->first_id = r->calls[0].id;
    r->rq->answers = message == r->answered;

    return chat_turn_name(&r->turn, step);
}


/* The class of the body, by what follows its last assistant message. */
static void
chat_completions_class(chat_completions_t *r, const chat_json_t *messages)
{
    int                tools = 0, fresh = 0, astray = 0;
    chat_role_e        role, end = CHAT_ROLE_OTHER;
    const chat_json_t *node;

    for (node = messages->child; node; node = node->next) {
        if (node->type != CHAT_JSON_OBJECT) {
            continue;
        }

        role = chat_completions_role(r->doc, node);
        end = role;

        switch (role) {
        case CHAT_ROLE_ASSISTANT:
            r->last = node;
            tools = fresh = astray = 0;
            break;

        case CHAT_ROLE_TOOL:
            tools = 1;
            astray |= fresh;
            break;

        case CHAT_ROLE_USER:
        case CHAT_ROLE_SYSTEM:
            r->fresh = node;
            fresh = 1;
            break;

        case CHAT_ROLE_OTHER:
            astray = 1;
            break;
        }
    }

    if (end == CHAT_ROLE_USER || end == CHAT_ROLE_SYSTEM) {
        r->rq->class = CHAT_CLASS_FRESH;

    } else if (end == CHAT_ROLE_TOOL && tools && !fresh) {
        r->rq->class = CHAT_CLASS_CONTINUATION;
    }

    if (r->rq->class != CHAT_CLASS_OTHER && !astray) {
        r->answered = r->last;
    }
}


static chat_rc_e
chat_completions_messages(chat_completions_t *r, const chat_json_t *messages)
{
    chat_rc_e          rc;
    const chat_json_t *node;

    r->current = r->fresh == NULL;

    for (node = messages->child; node; node = node->next) {
        switch (chat_completions_role(r->doc, node)) {
        case CHAT_ROLE_USER:
            chat_turn_begin(&r->turn, node);
            break;

        case CHAT_ROLE_ASSISTANT:
            rc = chat_completions_step(r, node);
            if (rc != CHAT_OK) {
                return rc;
            }

            r->turn.since++;
            break;

        default:
            break;
        }

        if (node == r->fresh) {
            r->current = 1;
            r->rq->turn = r->rq->ncalls;
        }
    }

    return chat_turn_name(&r->turn, &r->rq->next);
}


/* 1 if the body looks like Chat Completions, and not like its neighbours. */
static int
chat_completions_shape(chat_json_doc_t *doc, const chat_json_t *messages)
{
    const chat_json_t *first;

    if (messages == NULL || messages->type != CHAT_JSON_ARRAY) {
        return 0;
    }

    first = messages->child;

    return first && chat_json_text(doc, first, "role").len
           && chat_json_get(doc, first, "parts") == NULL;
}


chat_rc_e
chat_openai_chat_request(chat_json_doc_t *doc, chat_arena_t *arena,
                         chat_request_t *rq)
{
    chat_rc_e          rc;
    const chat_json_t *messages;
    chat_completions_t r;

    messages = chat_json_get(doc, doc->root, "messages");

    if (!chat_completions_shape(doc, messages)) {
        return CHAT_DECLINED;
    }

    memset(&r, 0, sizeof(chat_completions_t));
    r.doc = doc;
    r.arena = arena;
    r.rq = rq;
    r.turn.doc = doc;
    r.turn.arena = arena;
    r.turn.hash = chat_completions_hash;
    chat_twins_init(&r.ids, arena);

    rq->stream = chat_json_true(chat_json_get(doc, doc->root, "stream"));

    chat_completions_class(&r, messages);

    rc = chat_completions_messages(&r, messages);
    if (rc != CHAT_OK) {
        return rc;
    }

    chat_request_judge(rq);

    return doc->duplicate ? CHAT_BAD : CHAT_OK;
}
