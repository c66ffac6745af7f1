/*
 * chat_dialect_openai_responses_body.c: requests of the Responses API.
 *
 * The input is a list of items. A step is a run of the model's items (calls,
 * reasoning, messages); it ends at the first item of the client, and so the
 * next call or message after an answer is of a new step. Of c1 o1 c2 o2 from
 * a client that answers its parallel calls one by one the last step is {c2}:
 * too small is safe, such a body passes early, and a call of an earlier step
 * that is left without an answer is completed by the repair.
 * Promises: linear; an answer is of a call at most CHAT_RESPONSES_BACK before
 * it.
 * Must not know: stores, policy.
 */

#include "dialect/openai_responses/chat_dialect_openai_responses.h"

#define CHAT_RESPONSES_BACK 512 /* calls between an answer and its call */


static void
chat_responses_user_text(chat_responses_body_t *body, chat_digest_t *out)
{
    if (body->user != NULL
        && chat_json_digest(body->doc, body->user, out) != CHAT_OK)
    {
        body->failed = 1;
    }
}


/* The client has its say: the present run, if there is one, is over. */
static void
chat_responses_run_end(chat_responses_body_t *body)
{
    size_t             i;
    chat_request_t    *rq = body->rq;
    const chat_step_t *step;

    if (!body->in_run) {
        return;
    }

    body->in_run = 0;

    if (body->has_step) {
        step = &rq->steps[rq->nsteps - 1];

        /* until it is answered, an answer's place is behind the whole run */
        for (i = step->first; i < step->first + step->count; i++) {
            rq->calls[i].place = body->last;
        }
    }
}


/* An item of the model. */
static void
chat_responses_run(chat_responses_body_t *body, const chat_json_t *item)
{
    if (!body->in_run) {
        body->in_run = 1;
        body->has_step = 0;
        body->runs++;
    }

    body->users = 0;
    body->others = 0;
    body->answers = 0;
    body->matched = 0;
    body->last = item;
    body->tail = item->next;
}


/* Notes a new call as one that awaits its answer. */
static chat_rc_e
chat_responses_await(chat_responses_body_t *body, const chat_call_t *call)
{
    size_t              i = body->rq->ncalls - 1;
    uint32_t           *before;
    chat_table_entry_t *entry;

    before = chat_arena_grow(body->arena, body->before, i, &body->nbefore,
                             sizeof(*before));
    if (before == NULL) {
        return CHAT_ERROR;
    }

    body->before = before;

    if (call->id.len == 0 || call->kind == CHAT_KIND_PROVIDER) {
        return CHAT_OK;
    }

    entry = chat_table_put(&body->open[call->kind == CHAT_KIND_APPROVAL],
                           call->id);
    if (entry == NULL) {
        return CHAT_ERROR;
    }

    before[i] = (uint32_t) entry->number;
    entry->number = i + 1;

    return CHAT_OK;
}


static void
chat_responses_run_call(chat_responses_body_t *body, const chat_json_t *item,
                        const chat_responses_call_t *call)
{
    chat_call_t *added;
    chat_step_t *step;

    if (!body->has_step) {
        step = chat_request_add_step(body->rq, body->arena);
        if (step == NULL) {
            body->failed = 1;
            return;
        }

        body->has_step = 1;
        step->first_id = call->id;
        step->since = (uint32_t) (body->runs - 1);
        chat_responses_user_text(body, &step->user_text);
    }

    added = chat_request_add_call(body->rq, body->arena);
    if (added == NULL) {
        body->failed = 1;
        return;
    }

    added->id = call->id;
    added->name = call->name;
    added->kind = call->kind;
    added->ready = !call->cut_off;
    added->node = item;

    if (chat_responses_await(body, added) != CHAT_OK) {
        body->failed = 1;
    }
}


/*
 * Gives the answer to the newest unanswered call of this id, and to its twins:
 * a call that stands twice in its step has one answer. 1 if there is one.
 */
static int
chat_responses_match(chat_responses_body_t *body, const chat_json_t *item,
                     chat_str_t id, const chat_responses_type_t *answer)
{
    size_t              newest;
    uint32_t            step;
    chat_call_t        *call;
    chat_request_t     *rq = body->rq;
    chat_table_entry_t *entry;

    entry =
        chat_table_find(&body->open[answer->kind == CHAT_KIND_APPROVAL], id);
    newest = entry ? entry->number : 0;

    if (newest == 0 || rq->ncalls - newest >= CHAT_RESPONSES_BACK) {
        return 0;
    }

    step = rq->calls[newest - 1].step;

    while (entry->number != 0) {
        call = &rq->calls[entry->number - 1];
        if (call->step != step) {
            break;
        }

        chat_responses_settle(body->doc, call, item, answer);
        entry->number = body->before[entry->number - 1];
    }

    return 1;
}


static void
chat_responses_answered(chat_responses_body_t *body, const chat_json_t *item,
                        chat_str_t id, const chat_responses_type_t *answer)
{
    chat_responses_run_end(body);
    body->answers++;
    body->matched += (size_t) chat_responses_match(body, item, id, answer);
}


static void
chat_responses_message(chat_responses_body_t *body, const chat_json_t *item)
{
    const chat_json_t *role;

    role = chat_json_get(body->doc, item, "role");

    if (chat_json_is(body->doc, role, "assistant")) {
        chat_responses_run(body, item);
        return;
    }

    chat_responses_run_end(body);

    if (!chat_json_is(body->doc, role, "user")) {
        body->others++;
        return;
    }

    body->users++;
    body->user = chat_json_get(body->doc, item, "content");
    body->runs = 0;
    body->turn = body->rq->nsteps;
}


static void
chat_responses_item(chat_responses_body_t *body, const chat_json_t *item)
{
    chat_str_t                   id;
    chat_json_doc_t             *doc = body->doc;
    const chat_json_t           *type;
    chat_responses_call_t        call;
    const chat_responses_type_t *answer;

    type = chat_json_get(doc, item, "type");

    if (chat_json_is(doc, type, "message")
        || (type == NULL && chat_json_get(doc, item, "role") != NULL))
    {
        chat_responses_message(body, item);

    } else if (chat_responses_call(doc, item, &call)) {
        chat_responses_run(body, item);
        chat_responses_run_call(body, item, &call);

    } else if ((answer = chat_responses_answer(doc, item, &id)) != NULL) {
        chat_responses_answered(body, item, id, answer);

    } else if (chat_json_is(doc, type, "reasoning")
               || chat_json_is(doc, type, "item_reference"))
    {
        /* clients refer by id to what the model said */
        chat_responses_run(body, item);
    }
}


/* What kind of request it is, and which step it answers. */
static chat_rc_e
chat_responses_class(chat_responses_body_t *body, chat_str_t chain)
{
    chat_rc_e       rc;
    chat_request_t *rq = body->rq;

    /* a developer's note is no word of the user's to calls that are open */
    if (body->users != 0
        || (body->others != 0 && body->answers == 0 && !body->has_step))
    {
        rq->class = CHAT_CLASS_FRESH;

    } else if (body->matched != 0 || (body->answers != 0 && chain.len != 0)) {
        rq->class = CHAT_CLASS_CONTINUATION;
    }

    rq->chained = chain.len != 0 && body->matched == 0
                  && (body->answers != 0
                      || (rq->class == CHAT_CLASS_FRESH && !body->has_step));

    rq->answers =
        rq->class == CHAT_CLASS_CONTINUATION
        || (rq->class == CHAT_CLASS_FRESH && body->has_step
            && chat_responses_step_has(rq, &rq->steps[rq->nsteps - 1], 0));

    rc = chat_responses_keep(body);

    if (rc == CHAT_OK && rq->chained) {
        rq->answers = 1;
        rc = chat_responses_chain(body, chain);

        if (body->users != 0) {
            rq->turn = rq->ncalls;
        }
    }

    return rc;
}


/* What the body is chained to; empty: to nothing. */
static chat_str_t
chat_responses_chained_to(chat_json_doc_t *doc, chat_request_t *rq)
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


static const char chat_responses_end[] = "/items";


/* The id in a path that ends in /conversations/<id>/items; empty: another. */
static chat_str_t
chat_responses_items_of(chat_str_t path)
{
    size_t            len;
    chat_str_t        id;
    static const char before[] = "/conversations/";

    path.len -= sizeof(chat_responses_end) - 1;

    for (len = 0; len < path.len; len++) {
        if (path.data[path.len - 1 - len] == '/') {
            break;
        }
    }

    id = chat_str(path.data + path.len - len, len);
    path.len -= len;

    return chat_str_ends(path, before) ? id : chat_str(NULL, 0);
}


/* Items that a client adds to a conversation: its results count. */
static chat_rc_e
chat_responses_items(chat_responses_body_t *body)
{
    chat_rc_e          rc;
    chat_str_t         id;
    chat_request_t    *rq = body->rq;
    const chat_json_t *items;

    id = chat_responses_items_of(chat_uri_path(rq->uri));
    items = chat_json_get(body->doc, body->doc->root, "items");

    if (id.len == 0 || items == NULL || items->type != CHAT_JSON_ARRAY) {
        return CHAT_DECLINED;
    }

    rq->conversation = id;
    body->tail = items->child;

    rc = chat_responses_chain(body, id);

    if (rc == CHAT_OK && rq->ncalls != 0) {
        rq->class = CHAT_CLASS_ITEMS;
        rq->chained = 1;
        rq->by_conversation = 1;
        rq->answers = 1;
    }

    return rc == CHAT_OK && body->doc->duplicate ? CHAT_BAD : rc;
}


chat_rc_e
chat_responses_request(chat_json_doc_t *doc, chat_arena_t *arena,
                       chat_request_t *rq)
{
    chat_rc_e             rc;
    chat_str_t            chain;
    const chat_json_t    *input, *item, *store;
    chat_responses_body_t body;

    memset(&body, 0, sizeof(body));
    body.doc = doc;
    body.arena = arena;
    body.rq = rq;
    chat_table_init(&body.open[0], arena);
    chat_table_init(&body.open[1], arena);

    if (chat_str_ends(chat_uri_path(rq->uri), chat_responses_end)) {
        return chat_responses_items(&body);
    }

    input = chat_json_get(doc, doc->root, "input");

    if (input == NULL || chat_json_get(doc, doc->root, "messages") != NULL
        || (input->type != CHAT_JSON_STRING && input->type != CHAT_JSON_ARRAY))
    {
        return CHAT_DECLINED;
    }

    rq->stream = chat_json_true(chat_json_get(doc, doc->root, "stream"));
    store = chat_json_get(doc, doc->root, "store");
    rq->stored = store == NULL || store->type != CHAT_JSON_FALSE;

    chain = chat_responses_chained_to(doc, rq);

    if (input->type == CHAT_JSON_STRING) {
        body.user = input;
        body.users = 1;

    } else {
        body.tail = input->child;
        for (item = input->child; item != NULL; item = item->next) {
            chat_responses_item(&body, item);
        }
    }

    chat_responses_run_end(&body);

    rc = body.failed ? CHAT_ERROR : chat_responses_class(&body, chain);
    if (rc != CHAT_OK) {
        return rc;
    }

    chat_responses_user_text(&body, &rq->next.user_text);
    rq->next.since = (uint32_t) body.runs;

    if (body.failed) {
        return CHAT_ERROR;
    }

    return doc->duplicate ? CHAT_BAD : CHAT_OK;
}
