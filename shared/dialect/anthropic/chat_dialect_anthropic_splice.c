/*
 * chat_dialect_anthropic_splice.c: puts results into Anthropic Messages.
 *
 * A result is a tool_result block at the front of the user message behind its
 * assistant message. Where that message cannot take blocks, one of results
 * alone is put before it: the provider takes consecutive user messages as
 * one. Promises: results stand in the model's order of calls, as far as those
 * that are there do, and before any other block; no id gets a second one; no
 * cache_control moves.
 * Must not know: where results come from.
 */

#include "dialect/anthropic/chat_dialect_anthropic.h"

/* A place in the body where blocks go in. */
typedef struct {
    chat_edits_t      *edits;
    const chat_json_t *message; /* the user message, or what to stand beside */
    int                own;     /* blocks go into a new message */
    int                before;  /* the new one goes before message */
    int                count;   /* of blocks that went in here */
} chat_anthropic_place_t;


static chat_rc_e
chat_anthropic_insert(chat_anthropic_place_t *at, size_t pos, const char *head,
                      const char *tail, const chat_result_t *result)
{
    chat_rc_e  rc;
    chat_buf_t text = { 0 };

    chat_buf_puts(&text, head);

    if (result) {
        chat_buf_puts(&text, "{\"type\":\"tool_result\",\"tool_use_id\":");
        chat_buf_json(&text, result->id);
        chat_buf_puts(&text, ",\"content\":");
        chat_buf_add(&text, result->payload);
        chat_buf_puts(&text, result->outcome == CHAT_OUTCOME_OK
                                 ? "}"
                                 : ",\"is_error\":true}");
    }

    chat_buf_puts(&text, tail);

    rc = chat_edits_buf(at->edits, pos, 0, &text);

    chat_buf_free(&text);

    return rc;
}


/* Ends a message of our own, if there is one. */
static chat_rc_e
chat_anthropic_close(chat_anthropic_place_t *at)
{
    if (!at->own || at->count == 0) {
        return CHAT_OK;
    }

    return at->before
               ? chat_anthropic_insert(at, at->message->start, "]},", "", NULL)
               : chat_anthropic_insert(at, at->message->end, "]}", "", NULL);
}


/* Puts one result behind the block after, or at the front where it is NULL. */
static chat_rc_e
chat_anthropic_put(chat_json_doc_t *doc, chat_anthropic_place_t *at,
                   const chat_json_t *after, const chat_result_t *result)
{
    int                again = at->count++ > 0;
    const chat_json_t *content;

    if (at->own) {
        return chat_anthropic_insert(
            at, at->before ? at->message->start : at->message->end,
            again        ? ","
            : at->before ? "{\"role\":\"user\",\"content\":["
                         : ",{\"role\":\"user\",\"content\":[",
            "", result);
    }

    if (after) {
        return chat_anthropic_insert(at, after->end, ",", "", result);
    }

    content = chat_json_get(doc, at->message, "content");

    if (content->child) {
        return chat_anthropic_insert(at, content->child->start, "", ",",
                                     result);
    }

    return chat_anthropic_insert(at, content->start + 1, again ? "," : "", "",
                                 result);
}


/* 1 if the message is one that blocks can be put into. */
static int
chat_anthropic_takes(chat_json_doc_t *doc, const chat_json_t *message)
{
    const chat_json_t *content = chat_json_get(doc, message, "content");

    return content && content->type == CHAT_JSON_ARRAY
           && chat_anthropic_role(doc, message, "user");
}


/* Where the results of this assistant message's calls go. */
static void
chat_anthropic_find(chat_json_doc_t *doc, const chat_json_t *assistant,
                    chat_anthropic_place_t *at)
{
    at->own = !chat_anthropic_takes(doc, assistant->next);
    at->message = at->own ? assistant : assistant->next;
    at->count = 0;
}


/* The results of a thread: each behind the one that it is to follow. */
static chat_rc_e
chat_anthropic_thread(chat_json_doc_t *doc, const chat_result_t *results,
                      size_t n, chat_anthropic_place_t *at)
{
    size_t    i;
    chat_rc_e rc;

    at->message = chat_json_get(doc, doc->root, "messages")->child;

    if (at->message == NULL) {
        return CHAT_BAD;
    }

    at->own = !chat_anthropic_takes(doc, at->message);
    at->before = at->own;

    for (i = 0; i < n; i++) {
        if (results[i].outcome == CHAT_OUTCOME_NONE) {
            continue;
        }

        rc = chat_anthropic_put(
            doc, at, results[i].after ? results[i].after->node : NULL,
            &results[i]);
        if (rc != CHAT_OK) {
            return rc;
        }
    }

    return chat_anthropic_close(at);
}


chat_rc_e
chat_anthropic_splice(chat_json_doc_t *doc, const chat_request_t *rq,
                      const chat_result_t *results, size_t n,
                      chat_edits_t *edits)
{
    size_t                 i;
    const chat_call_t     *call;
    const chat_json_t     *assistant = NULL;
    const chat_result_t  **map, *result;
    chat_anthropic_place_t at = { 0 };

    at.edits = edits;

    if (rq->chained) {
        return chat_anthropic_thread(doc, results, n, &at);
    }

    map = chat_results_map(rq, results, n, 1, edits->arena);
    if (map == NULL) {
        return CHAT_ERROR;
    }

    /* Edits at one place are applied as added: in the order of the calls. */
    for (i = 0; i < rq->ncalls; i++) {
        call = &rq->calls[i];

        result = map[i];
        if (result == NULL) {
            continue;
        }

        if (call->node != assistant) {
            if (chat_anthropic_close(&at) != CHAT_OK) {
                return CHAT_ERROR;
            }

            assistant = call->node;
            chat_anthropic_find(doc, assistant, &at);
        }

        if (chat_anthropic_put(doc, &at, call->place, result) != CHAT_OK) {
            return CHAT_ERROR;
        }
    }

    return chat_anthropic_close(&at);
}
