/*
 * chat_dialect_gemini_body.c: the request bodies of Gemini.
 *
 * The user's contents of nothing but results make a continuation, any other
 * part makes the body fresh. Contents of the model that stand in a row are
 * one answer: clients keep each chunk of a stream as a content of its own.
 * Steps are read by chat_dialect_gemini_step.c.
 * Promises: odd elements are skipped; whether the answer is a stream is taken
 * from the URI, for no member says it.
 * Must not know: the stream, what a store has.
 */

#include "dialect/gemini/chat_dialect_gemini.h"


/* 1 if a content of the user's side has parts beside results. */
static int
chat_gemini_words(chat_json_doc_t *doc, const chat_json_t *content)
{
    const chat_json_t *parts = chat_gemini_parts(doc, content);
    const chat_json_t *part;

    for (part = chat_gemini_first(parts); part;
         part = chat_gemini_next(parts, part))
    {
        if (part->type == CHAT_JSON_OBJECT
            && chat_gemini_response(doc, part) == NULL) {
            return 1;
        }
    }

    return 0;
}


/* Hashes the words of a content. */
static chat_rc_e
chat_gemini_hash(chat_json_doc_t *doc, chat_arena_t *arena,
                 const chat_json_t *content, chat_digest_t *out)
{
    size_t             n = 0, size;
    chat_str_t        *strings;
    chat_digest_t     *digests;
    const chat_json_t *part, *text;
    const chat_json_t *parts = chat_gemini_parts(doc, content);

    size = chat_json_count(parts) + 1;
    strings = chat_arena_alloc(arena, size * sizeof(chat_str_t));
    digests = chat_arena_alloc(arena, size * sizeof(chat_digest_t));
    if (strings == NULL || digests == NULL) {
        return CHAT_ERROR;
    }

    for (part = chat_gemini_first(parts); part;
         part = chat_gemini_next(parts, part))
    {
        if (chat_gemini_response(doc, part)) {
            continue;
        }

        text = chat_json_get(doc, part, "text");

        if (text && text->type == CHAT_JSON_STRING) {
            strings[n++] = chat_json_string(doc, text);
            continue;
        }

        if (chat_json_digest(doc, part, &digests[n]) != CHAT_OK) {
            return CHAT_ERROR;
        }

        strings[n] = chat_str(digests[n].bytes, CHAT_DIGEST_SIZE);
        n++;
    }

    chat_digest_parts(strings, n, out);

    return CHAT_OK;
}


/* The class of the body, by what follows the model's last answer. */
static void
chat_gemini_class(chat_gemini_body_t *r)
{
    int                model = 0, words = 0, results = 0;
    const chat_json_t *node;

    for (node = chat_gemini_first(r->contents); node;
         node = chat_gemini_next(r->contents, node))
    {
        if (chat_gemini_is_model(r->doc, node)) {
            r->last = model ? r->last : node;
            model = 1;
            words = results = 0;
            continue;
        }

        model = 0;

        if (chat_gemini_words(r->doc, node)) {
            r->fresh = node;
            words = 1;

        } else if (chat_json_count(chat_gemini_parts(r->doc, node))) {
            results = 1;
        }
    }

    if (model) {
        return;
    }

    if (words) {
        r->rq->class = CHAT_CLASS_FRESH;

    } else if (results) {
        r->rq->class = CHAT_CLASS_CONTINUATION;
    }

    if (r->rq->class != CHAT_CLASS_OTHER) {
        r->answered = r->last;
    }
}


/* One answer of the model, of which this is the first content. */
static chat_rc_e
chat_gemini_answer(chat_gemini_body_t *r, const chat_json_t *content)
{
    size_t    n = r->rq->nsteps;
    chat_rc_e rc;

    rc = chat_gemini_step(r, content);

    if (rc == CHAT_OK && r->rq->nsteps > n) {
        rc = chat_turn_name(&r->turn, &r->rq->steps[n]);
    }

    r->turn.since++;

    return rc;
}


static chat_rc_e
chat_gemini_contents(chat_gemini_body_t *r)
{
    int                model, before = 0;
    chat_rc_e          rc;
    const chat_json_t *node;

    r->current = r->fresh == NULL;

    for (node = chat_gemini_first(r->contents); node;
         node = chat_gemini_next(r->contents, node))
    {
        model = chat_gemini_is_model(r->doc, node);

        if (model && !before) {
            rc = chat_gemini_answer(r, node);
            if (rc != CHAT_OK) {
                return rc;
            }

        } else if (!model && chat_gemini_words(r->doc, node)) {
            chat_turn_begin(&r->turn, node);
        }

        before = model;

        if (node == r->fresh) {
            r->current = 1;
            r->rq->turn = r->rq->ncalls;
        }
    }

    return chat_turn_name(&r->turn, &r->rq->next);
}


chat_rc_e
chat_gemini_request(chat_json_doc_t *doc, chat_arena_t *arena,
                    chat_request_t *rq)
{
    chat_rc_e          rc;
    chat_gemini_body_t r;

    memset(&r, 0, sizeof(chat_gemini_body_t));
    r.doc = doc;
    r.arena = arena;
    r.rq = rq;
    r.turn.doc = doc;
    r.turn.arena = arena;
    r.turn.hash = chat_gemini_hash;
    chat_twins_init(&r.ids, arena);
    chat_twins_init(&r.names, arena);
    chat_twins_init(&r.no_ids, arena);
    r.contents = chat_json_get(doc, doc->root, "contents");

    if (chat_gemini_first(r.contents) == NULL) {
        return CHAT_DECLINED;
    }

    rq->stream = chat_gemini_form(rq->uri) == CHAT_GEMINI_EVENTS;

    chat_gemini_class(&r);

    rc = chat_gemini_contents(&r);
    if (rc != CHAT_OK) {
        return rc;
    }

    chat_request_judge(rq);

    return doc->duplicate ? CHAT_BAD : CHAT_OK;
}
