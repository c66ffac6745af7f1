/*
 * chat_transcript_digest.c: a digest of the messages before the step that a
 * body answers.
 *
 * Two requests may share an answer only if they ask for the same: then these
 * digests are equal.
 * Promises: key order, white space and escapes do not matter; the memory grows
 * with the longest message alone.
 * Must not know: what any wire format looks like.
 */

#include "dialect/chat_dialect.h"


#define CHAT_TRANSCRIPT_TEXT 65536 /* bytes that are hashed at once */


/* Takes the text into the digest, and empties it. */
static void
chat_transcript_fold(chat_transcript_digest_t *transcript)
{
    chat_str_t parts[2];

    parts[0] = chat_str(transcript->digest.bytes, CHAT_DIGEST_SIZE);
    parts[1] = chat_buf_str(&transcript->text);
    chat_digest_parts(parts, 2, &transcript->digest);
    transcript->text.len = 0;
}


/* The first message, or the only one; NULL: the body lists none. */
static const chat_json_t *
chat_transcript_first(const chat_dialect_t *dialect, chat_json_doc_t *doc)
{
    const chat_json_t *list = chat_json_get(doc, doc->root, dialect->messages);

    if (list == NULL) {
        list = chat_json_get(doc, doc->root, "message");
    }

    return list != NULL && list->type == CHAT_JSON_ARRAY ? list->child : list;
}


chat_rc_e
chat_dialect_transcript(const chat_dialect_t  *dialect,
                        const chat_json_doc_t *doc, chat_request_t *rq)
{
    uint32_t                 until;
    chat_rc_e                rc;
    chat_arena_t            *arena;
    const chat_call_t       *call;
    const chat_json_t       *message;
    chat_transcript_digest_t transcript = { .doc = *doc };

    if ((rq->class != CHAT_CLASS_CONTINUATION
         && rq->class != CHAT_CLASS_PENDING)
        || !rq->answers || rq->nsteps == 0 || rq->chained)
    {
        return CHAT_OK;
    }

    call = &rq->calls[rq->steps[rq->nsteps - 1].first];
    until = call->node != NULL ? call->node->start : 0;

    arena = chat_arena_create(0);
    if (arena == NULL) {
        return CHAT_ERROR;
    }

    transcript.doc.arena = arena;
    message = chat_transcript_first(dialect, &transcript.doc);

    for (/* void */; message != NULL && message->start < until;
         message = message->key_end == 0 ? message->next : NULL)
    {
        if (dialect->says != NULL) {
            dialect->says(&transcript, message, until);

        } else if (message->end <= until) {
            chat_json_canon(&transcript.doc, message, &transcript.text);
        }

        if (transcript.text.len >= CHAT_TRANSCRIPT_TEXT) {
            chat_transcript_fold(&transcript);
        }

        chat_arena_reset(arena);
    }

    chat_transcript_fold(&transcript);
    rc = transcript.text.failed ? CHAT_ERROR : CHAT_OK;
    rq->transcript = transcript.digest;
    chat_buf_free(&transcript.text);
    chat_arena_destroy(arena);
    return rc;
}
