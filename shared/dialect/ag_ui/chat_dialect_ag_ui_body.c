/*
 * chat_dialect_ag_ui_body.c: the input of an AG-UI run.
 *
 * The body is the whole transcript of a thread. It brings tool messages at
 * its end, or entries of resume for what interrupted the last run: the
 * interrupts are not in a body, so such a body is chained, to its thread.
 * What the thread's last run left open has to be answered by one body.
 * Promises: odd messages are skipped; a resume is a continuation whatever the
 * transcript ends with, for an interrupt need not leave a message.
 * Must not know: the stream, what a store has.
 */

#include "dialect/ag_ui/chat_dialect_ag_ui.h"


/* Where the walk through the messages is. */
typedef struct {
    chat_ag_ui_body_t  body;
    const chat_json_t *last_user; /* of all messages */
    const chat_json_t *last_run;  /* first message of the last run */
    chat_turn_t        turn;
    const chat_json_t *run; /* assistant's messages in a row; or NULL */
    unsigned           current : 1; /* in the current turn */
} chat_ag_ui_walk_t;


static chat_rc_e
chat_ag_ui_hash(chat_json_doc_t *doc, chat_arena_t *arena,
                const chat_json_t *message, chat_digest_t *out)
{
    const chat_json_t *content = chat_json_get(doc, message, "content");

    return content ? chat_json_digest(doc, content, out) : CHAT_OK;
}


/* The run of the assistant's messages is over before end. */
static chat_rc_e
chat_ag_ui_run_end(chat_ag_ui_walk_t *w, const chat_json_t *end)
{
    chat_rc_e          rc;
    chat_request_t    *rq = w->body.rq;
    const chat_json_t *run = w->run;

    if (run == NULL) {
        return CHAT_OK;
    }

    w->run = NULL;

    rc = chat_ag_ui_step_read(&w->body, run, end);
    if (rc != CHAT_OK) {
        return rc;
    }

    if (w->body.count != 0
        && (w->current || run == w->last_run
            || chat_ag_ui_step_is_open(&w->body)))
    {
        rc = chat_ag_ui_step_add(&w->body);

        if (rc == CHAT_OK) {
            rc = chat_turn_name(&w->turn, &rq->steps[rq->nsteps - 1]);
        }

        if (rc != CHAT_OK) {
            return rc;
        }
        rq->answers = run == w->last_run;
    }

    w->turn.since++;
    return CHAT_OK;
}


static chat_rc_e
chat_ag_ui_message(chat_ag_ui_walk_t *w, const chat_json_t *message)
{
    chat_rc_e rc;

    switch (chat_ag_ui_role(w->body.doc, message)) {
    case CHAT_AG_UI_USER:
        rc = chat_ag_ui_run_end(w, message);
        if (rc != CHAT_OK) {
            return rc;
        }

        chat_turn_begin(&w->turn, message);

        if (message == w->last_user) {
            w->current = 1;
            w->body.rq->turn = w->body.rq->ncalls;
        }
        return CHAT_OK;

    case CHAT_AG_UI_ASSISTANT:
        if (w->run == NULL) {
            w->run = message;
        }
        return CHAT_OK;

    case CHAT_AG_UI_TOOL:
        return chat_ag_ui_run_end(w, message);

    default:
        return CHAT_OK;
    }
}


/* The class of the body by its messages alone, and what it looks back to. */
static void
chat_ag_ui_survey(chat_ag_ui_walk_t *w, const chat_json_t *messages)
{
    int                in_run = 0;
    chat_ag_ui_role_e  role, end = CHAT_AG_UI_ASIDE;
    const chat_json_t *node;

    for (node = messages->child; node != NULL; node = node->next) {
        role = chat_ag_ui_role(w->body.doc, node);
        if (role == CHAT_AG_UI_ASIDE) {
            continue;
        }

        if (role == CHAT_AG_UI_ASSISTANT && !in_run) {
            w->last_run = node;
        }

        in_run = role == CHAT_AG_UI_ASSISTANT;
        w->last_user = role == CHAT_AG_UI_USER ? node : w->last_user;
        end = role;
    }

    w->current = w->last_user == NULL;
    w->body.rq->class = end == CHAT_AG_UI_USER   ? CHAT_CLASS_FRESH
                        : end == CHAT_AG_UI_TOOL ? CHAT_CLASS_CONTINUATION
                                                 : CHAT_CLASS_OTHER;
}


/* An answer to an interrupt. */
static chat_rc_e
chat_ag_ui_resume_entry(chat_ag_ui_body_t *body, const chat_json_t *entry,
                        chat_str_t id)
{
    chat_call_t       *call;
    const chat_json_t *status = chat_json_get(body->doc, entry, "status");

    if (chat_request_is_full(body->rq)) {
        return CHAT_LIMIT;
    }

    call = chat_request_add_call(body->rq, body->arena);
    if (call == NULL) {
        return CHAT_ERROR;
    }

    call->id = id;
    call->bare = 1;
    call->kind = CHAT_KIND_CLIENT;
    call->node = entry;
    call->outcome = chat_json_is(body->doc, status, "cancelled")
                        ? CHAT_OUTCOME_DENIED
                        : CHAT_OUTCOME_OK;
    call->payload = chat_json_raw(body->doc, entry);

    return chat_json_digest(body->doc, entry, &call->digest);
}


/* The entries of resume: a step of their own, chained to the thread. */
static chat_rc_e
chat_ag_ui_resume(chat_ag_ui_body_t *body)
{
    chat_rc_e          rc;
    chat_str_t         id;
    chat_step_t       *step;
    chat_request_t    *rq = body->rq;
    const chat_json_t *list, *node;

    list = chat_json_get(body->doc, body->doc->root, "resume");
    node = list && list->type == CHAT_JSON_ARRAY ? list->child : NULL;

    for (/* void */; node != NULL; node = node->next) {
        id = chat_json_text(body->doc, node, "interruptId");
        if (id.len == 0 || rq->conversation.len == 0) {
            continue;
        }

        if (!rq->chained) {
            step = chat_request_add_step(rq, body->arena);
            if (step == NULL) {
                return CHAT_ERROR;
            }

            step->chain = rq->conversation;
            rq->class = CHAT_CLASS_CONTINUATION;
            rq->chained = 1;
            rq->by_conversation = 1;
            rq->answers = 1;
        }

        rc = chat_ag_ui_resume_entry(body, node, id);
        if (rc != CHAT_OK) {
            return rc;
        }
    }

    return CHAT_OK;
}


/* Thread, run and tools. CHAT_DECLINED: it is another dialect's body. */
static chat_rc_e
chat_ag_ui_head(chat_ag_ui_body_t *body, const chat_json_t **messages)
{
    chat_json_doc_t   *doc = body->doc;
    chat_ag_ui_own_t  *own;
    const chat_json_t *thread = chat_json_get(doc, doc->root, "threadId");
    const chat_json_t *run = chat_json_get(doc, doc->root, "runId");
    const chat_json_t *list = chat_json_get(doc, doc->root, "messages");

    if (thread == NULL || thread->type != CHAT_JSON_STRING || run == NULL
        || run->type != CHAT_JSON_STRING || list == NULL
        || list->type != CHAT_JSON_ARRAY)
    {
        return CHAT_DECLINED;
    }

    own = chat_arena_alloc(body->arena, sizeof(*own));
    if (own == NULL || chat_ag_ui_tools(doc, body->arena, own) != CHAT_OK) {
        return CHAT_ERROR;
    }

    own->run = chat_json_string(doc, run);
    body->own = own;
    body->rq->own = own;
    body->rq->stream = 1;
    body->rq->conversation = chat_json_string(doc, thread);
    *messages = list;

    return CHAT_OK;
}


chat_rc_e
chat_ag_ui_request(chat_json_doc_t *doc, chat_arena_t *arena,
                   chat_request_t *rq)
{
    chat_rc_e          rc;
    chat_ag_ui_walk_t  w;
    const chat_json_t *messages, *node;

    memset(&w, 0, sizeof(w));
    w.body.doc = doc;
    w.body.arena = arena;
    w.body.rq = rq;
    w.turn.doc = doc;
    w.turn.arena = arena;
    w.turn.hash = chat_ag_ui_hash;
    chat_twins_init(&w.body.ids, arena);

    rc = chat_ag_ui_head(&w.body, &messages);
    if (rc != CHAT_OK) {
        return rc;
    }

    chat_ag_ui_survey(&w, messages);

    for (node = messages->child; node && rc == CHAT_OK; node = node->next) {
        rc = chat_ag_ui_message(&w, node);
    }

    if (rc == CHAT_OK) {
        rc = chat_ag_ui_run_end(&w, NULL);
    }

    if (rc == CHAT_OK) {
        rc = chat_turn_name(&w.turn, &rq->next);
    }

    if (rc != CHAT_OK) {
        return rc;
    }

    chat_request_judge(rq);
    rc = chat_ag_ui_resume(&w.body);

    return rc == CHAT_OK && doc->duplicate ? CHAT_BAD : rc;
}
