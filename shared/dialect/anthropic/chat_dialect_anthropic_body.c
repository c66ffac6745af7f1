/*
 * chat_dialect_anthropic_body.c: the request bodies of Anthropic Messages.
 *
 * User messages of nothing but results make a continuation, any other block
 * makes the body fresh. With a thread the calls are at the provider: results
 * stand alone. Steps are read by chat_dialect_anthropic_step.c.
 * Promises: odd elements are skipped.
 * Must not know: the stream, what a store has.
 */

#include "dialect/anthropic/chat_dialect_anthropic.h"


/* 1 if a message has content beside tool results. */
static int
chat_anthropic_words(chat_json_doc_t *doc, const chat_json_t *message)
{
    const chat_json_t *content = chat_json_get(doc, message, "content");
    const chat_json_t *block = chat_anthropic_blocks(doc, message);

    if (content && content->type == CHAT_JSON_STRING) {
        return 1;
    }

    for (/* void */; block; block = block->next) {
        if (block->type == CHAT_JSON_OBJECT
            && !chat_anthropic_type(doc, block, "tool_result"))
        {
            return 1;
        }
    }

    return 0;
}


/*
 * Hashes the words of a message, whether they stand as a string or in blocks:
 * clients rewrite them to move a cache_control.
 */
static chat_rc_e
chat_anthropic_hash(chat_json_doc_t *doc, chat_arena_t *arena,
                    const chat_json_t *message, chat_digest_t *out)
{
    size_t             n = 0;
    chat_str_t        *parts;
    chat_digest_t     *digests;
    const chat_json_t *node, *content;

    content = chat_json_get(doc, message, "content");
    parts = chat_arena_alloc(arena, (chat_json_count(content) + 1)
                                        * sizeof(chat_str_t));
    digests = chat_arena_alloc(arena, (chat_json_count(content) + 1)
                                          * sizeof(chat_digest_t));
    if (parts == NULL || digests == NULL) {
        return CHAT_ERROR;
    }

    if (content && content->type == CHAT_JSON_STRING) {
        parts[n++] = chat_json_string(doc, content);
    }

    node = chat_anthropic_blocks(doc, message);

    for (/* void */; node; node = node->next) {
        if (chat_anthropic_type(doc, node, "tool_result")) {
            continue;
        }

        if (chat_anthropic_type(doc, node, "text")) {
            parts[n++] = chat_json_text(doc, node, "text");
            continue;
        }

        if (chat_json_digest(doc, node, &digests[n]) != CHAT_OK) {
            return CHAT_ERROR;
        }

        parts[n] = chat_str(digests[n].bytes, CHAT_DIGEST_SIZE);
        n++;
    }

    chat_digest_parts(parts, n, out);

    return CHAT_OK;
}


/* The class of the body, by what follows its last assistant message. */
static void
chat_anthropic_class(chat_anthropic_body_t *r)
{
    int                user = 0, words = 0, results = 0;
    const chat_json_t *node;

    for (node = r->messages->child; node; node = node->next) {
        user = chat_anthropic_role(r->doc, node, "user");

        if (chat_anthropic_role(r->doc, node, "assistant")) {
            r->last = node;
            words = results = 0;

        } else if (user && chat_anthropic_words(r->doc, node)) {
            r->fresh = node;
            words = 1;

        } else if (user && chat_anthropic_blocks(r->doc, node)) {
            results = 1;
        }
    }

    if (user && words) {
        r->rq->class = CHAT_CLASS_FRESH;

    } else if (user && results) {
        r->rq->class = CHAT_CLASS_CONTINUATION;
    }

    if (r->rq->class != CHAT_CLASS_OTHER) {
        r->answered = r->last;
    }
}


/* One result of a call that the body does not have. */
static chat_rc_e
chat_anthropic_bare(chat_anthropic_body_t *r, const chat_json_t *block)
{
    chat_call_t *call;

    if (r->rq->ncalls == CHAT_ANTHROPIC_CALLS) {
        return CHAT_LIMIT;
    }

    call = chat_request_add_call(r->rq, r->arena);
    if (call == NULL) {
        return CHAT_ERROR;
    }

    call->id = chat_json_text(r->doc, block, "tool_use_id");
    call->ready = 1;
    call->bare = 1;
    call->node = block;

    return chat_anthropic_result(r, block, call);
}


/* A body whose calls are in the provider's thread: results alone. */
static chat_rc_e
chat_anthropic_thread(chat_anthropic_body_t *r, chat_str_t previous)
{
    chat_rc_e          rc;
    chat_step_t       *step;
    const chat_json_t *node, *block;

    step = chat_request_add_step(r->rq, r->arena);
    if (step == NULL) {
        return CHAT_ERROR;
    }

    step->chain = previous;
    r->rq->chained = 1;
    r->rq->answers = r->rq->class != CHAT_CLASS_OTHER;

    for (node = r->messages->child; node; node = node->next) {
        block = chat_anthropic_blocks(r->doc, node);

        for (/* void */; block; block = block->next) {
            if (!chat_anthropic_type(r->doc, block, "tool_result")) {
                continue;
            }

            rc = chat_anthropic_bare(r, block);
            if (rc != CHAT_OK) {
                return rc;
            }
        }

        if (node == r->fresh) {
            chat_turn_begin(&r->turn, node);
            r->rq->turn = r->rq->ncalls;
        }
    }

    /* The words before are not here: what they led to stands for them. */
    chat_digest(previous, &r->turn.text);

    return chat_turn_name(&r->turn, &r->rq->next);
}


static chat_rc_e
chat_anthropic_messages(chat_anthropic_body_t *r)
{
    size_t             n;
    chat_rc_e          rc;
    const chat_json_t *node;

    r->current = r->fresh == NULL;

    for (node = r->messages->child; node; node = node->next) {
        if (chat_anthropic_role(r->doc, node, "assistant")) {
            n = r->rq->nsteps;

            rc = chat_anthropic_step(r, node);
            if (rc != CHAT_OK) {
                return rc;
            }

            if (r->rq->nsteps > n
                && chat_turn_name(&r->turn, &r->rq->steps[n]) != CHAT_OK) {
                return CHAT_ERROR;
            }

            r->turn.since++;

        } else if (chat_anthropic_role(r->doc, node, "user")
                   && chat_anthropic_words(r->doc, node))
        {
            chat_turn_begin(&r->turn, node);
        }

        if (node == r->fresh) {
            r->current = 1;
            r->rq->turn = r->rq->ncalls;
        }
    }

    return chat_turn_name(&r->turn, &r->rq->next);
}


chat_rc_e
chat_anthropic_request(chat_json_doc_t *doc, chat_arena_t *arena,
                       chat_request_t *rq)
{
    chat_rc_e             rc;
    chat_str_t            previous;
    const chat_json_t    *thread;
    chat_anthropic_body_t r;

    memset(&r, 0, sizeof(chat_anthropic_body_t));
    r.doc = doc;
    r.arena = arena;
    r.rq = rq;
    r.turn.doc = doc;
    r.turn.arena = arena;
    r.turn.hash = chat_anthropic_hash;
    chat_twins_init(&r.ids, arena);
    r.messages = chat_json_get(doc, doc->root, "messages");

    if (r.messages == NULL || r.messages->type != CHAT_JSON_ARRAY
        || chat_json_get(doc, r.messages->child, "parts"))
    {
        return CHAT_DECLINED;
    }

    thread = chat_json_get(doc, doc->root, "thread");
    previous = chat_json_text(doc, thread, "previous_message_id");

    rq->stream = chat_json_true(chat_json_get(doc, doc->root, "stream"));
    rq->stored = thread && thread->type == CHAT_JSON_OBJECT;

    chat_anthropic_class(&r);

    rc = previous.len && r.last == NULL ? chat_anthropic_thread(&r, previous)
                                        : chat_anthropic_messages(&r);
    if (rc != CHAT_OK) {
        return rc;
    }

    chat_request_judge(rq);

    return doc->duplicate ? CHAT_BAD : CHAT_OK;
}
