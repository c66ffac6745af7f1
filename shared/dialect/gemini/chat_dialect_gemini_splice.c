/*
 * chat_dialect_gemini_splice.c: puts results into a Gemini body.
 *
 * A result is a functionResponse part, in the content where the results of
 * its step stand, else at the front of the content behind the model's, or in
 * one of its own where that cannot take it.
 * Promises: results stand in the model's order of calls, as far as those that
 * are there do; a result has an id exactly if its call has one; nothing else
 * is touched, above all no part of the model's with its thoughtSignature.
 * Must not know: where results come from.
 */

#include "dialect/gemini/chat_dialect_gemini.h"

/* A step in the body, and where its results go. */
typedef struct {
    chat_json_doc_t   *doc;
    const chat_json_t *contents;
    chat_edits_t      *edits;
    const chat_json_t *model; /* the last content of the answer */
    const chat_json_t *front; /* the part that those at the front precede */
    const chat_json_t *empty; /* where there is none: the list, or NULL */
    int                count; /* of results in neither's place */
} chat_gemini_place_t;


/* 1 if the payload is all of a functionResponse; see chat_gemini_result(). */
static int
chat_gemini_whole(chat_json_doc_t *doc, const chat_json_t *payload,
                  chat_str_t name)
{
    const chat_json_t *response = chat_json_get(doc, payload, "response");

    return response && response->type == CHAT_JSON_OBJECT
           && chat_json_get(doc, payload, "parts")
           && chat_str_eq(chat_json_text(doc, payload, "name"), name);
}


/* The part of one result. */
static chat_rc_e
chat_gemini_part(chat_json_doc_t *doc, const chat_result_t *result,
                 chat_buf_t *out)
{
    chat_rc_e       rc;
    chat_str_t      id;
    chat_json_doc_t payload;

    rc = chat_json_parse(&payload, doc->arena, result->payload);
    if (rc != CHAT_OK) {
        return rc == CHAT_ERROR ? CHAT_ERROR : CHAT_BAD;
    }

    chat_buf_puts(out, "{\"functionResponse\":");

    if (chat_gemini_whole(&payload, payload.root, result->call->name)) {
        chat_buf_add(out, result->payload);
        chat_buf_puts(out, "}");
        return CHAT_OK;
    }

    id = chat_json_text(doc, result->call->node, "id");

    if (id.len) {
        chat_buf_puts(out, "{\"id\":");
        chat_buf_json(out, id);
        chat_buf_puts(out, ",\"name\":");
    } else {
        chat_buf_puts(out, "{\"name\":");
    }

    chat_buf_json(out, result->call->name);
    chat_buf_puts(out, ",\"response\":");

    /* The provider takes objects alone. */
    if (payload.root->type == CHAT_JSON_OBJECT) {
        chat_buf_add(out, result->payload);
        chat_buf_puts(out, "}}");
        return CHAT_OK;
    }

    chat_buf_puts(out, result->outcome == CHAT_OUTCOME_OK ? "{\"output\":"
                                                          : "{\"error\":");
    chat_buf_add(out, result->payload);
    chat_buf_puts(out, "}}}");

    return CHAT_OK;
}


static chat_rc_e
chat_gemini_insert(chat_gemini_place_t *at, size_t pos, const char *head,
                   const char *tail, const chat_result_t *result)
{
    chat_rc_e  rc = CHAT_OK;
    chat_buf_t text = { 0 };

    chat_buf_puts(&text, head);

    if (result) {
        rc = chat_gemini_part(at->doc, result, &text);
    }

    chat_buf_puts(&text, tail);

    if (rc == CHAT_OK) {
        rc = chat_edits_buf(at->edits, pos, 0, &text);
    }

    chat_buf_free(&text);

    return rc;
}


/* The first result behind the answer; NULL: there is none. */
static const chat_json_t *
chat_gemini_find_result(const chat_gemini_place_t *at)
{
    const chat_json_t *node, *parts, *part;

    for (node = at->model->next; node && !chat_gemini_is_model(at->doc, node);
         node = node->next)
    {
        parts = chat_gemini_parts(at->doc, node);

        if (parts == NULL || parts->type != CHAT_JSON_ARRAY) {
            continue;
        }

        for (part = parts->child; part; part = part->next) {
            if (chat_gemini_response(at->doc, part)) {
                return part;
            }
        }
    }

    return NULL;
}


/* What results at the front stand before, or in. */
static void
chat_gemini_find_front(chat_gemini_place_t *at)
{
    const chat_json_t *parts = NULL;

    at->empty = NULL;
    at->front = chat_gemini_find_result(at);

    if (at->front == NULL && at->model->next) {
        parts = chat_gemini_parts(at->doc, at->model->next);
    }

    if (parts && parts->type == CHAT_JSON_ARRAY) {
        at->front = parts->child;
        at->empty = at->front ? NULL : parts;
    }
}


/*
 * The place of the answer that has this call, at or behind that of the last
 * one; 0: it is in no such body.
 */
static int
chat_gemini_find(chat_gemini_place_t *at, const chat_call_t *call)
{
    const chat_json_t *next, *node;

    node = at->model ? at->model : at->contents->child;

    while (node && node->end < call->node->end) {
        node = node->next;
    }

    for (next = node; next && chat_gemini_is_model(at->doc, next);
         next = next->next)
    {
        node = next;
    }

    at->model = node;
    at->count = 0;

    if (node == NULL) {
        return 0;
    }

    chat_gemini_find_front(at);

    return 1;
}


/* Ends a content of our own, if there is one. */
static chat_rc_e
chat_gemini_close(chat_gemini_place_t *at)
{
    return at->count && at->empty == NULL
               ? chat_gemini_insert(at, at->model->end, "]}", "", NULL)
               : CHAT_OK;
}


static chat_rc_e
chat_gemini_put(chat_gemini_place_t *at, const chat_result_t *result)
{
    int                first;
    const chat_json_t *place = result->call->place;

    if (place) {
        return chat_gemini_insert(at, place->end, ",", "", result);
    }

    if (at->front) {
        return chat_gemini_insert(at, at->front->start, "", ",", result);
    }

    first = at->count++ == 0;

    if (at->empty) {
        return chat_gemini_insert(at, at->empty->start + 1, first ? "" : ",",
                                  "", result);
    }

    return chat_gemini_insert(at, at->model->end,
                              first ? ",{\"role\":\"user\",\"parts\":[" : ",",
                              "", result);
}


chat_rc_e
chat_gemini_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                   const chat_result_t *results, size_t n, chat_edits_t *edits)
{
    size_t                i;
    chat_rc_e             rc = CHAT_OK;
    uint32_t              step = UINT32_MAX;
    const chat_call_t    *call;
    const chat_result_t **map, *result;
    chat_gemini_place_t   at = { 0 };

    at.doc = doc;
    at.edits = edits;
    at.contents = chat_json_get(doc, doc->root, "contents");

    if (at.contents == NULL || at.contents->type != CHAT_JSON_ARRAY) {
        return n ? CHAT_BAD : CHAT_OK;
    }

    map = chat_results_map(rq, results, n, 0, edits->arena);
    if (map == NULL) {
        return CHAT_ERROR;
    }

    /* Edits at one place are applied as added: in the order of the calls. */
    for (i = 0; i < rq->ncalls && rc == CHAT_OK; i++) {
        call = &rq->calls[i];

        result = map[i];
        if (result == NULL) {
            continue;
        }

        if (call->step != step) {
            rc = chat_gemini_close(&at);
            step = call->step;

            if (rc == CHAT_OK && !chat_gemini_find(&at, call)) {
                rc = CHAT_BAD;
            }
        }

        if (rc == CHAT_OK) {
            rc = chat_gemini_put(&at, result);
        }
    }

    return rc == CHAT_OK ? chat_gemini_close(&at) : rc;
}
