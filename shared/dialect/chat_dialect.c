/*
 * chat_dialect.c: the table of dialects, and which of them a request speaks.
 *
 * A path alone proves nothing: a request has the first dialect that accepts
 * its body. Other endpoints with a similar body have none. A body with
 * duplicate members where they matter is refused as ambiguous.
 */

#include "dialect/chat_dialect.h"

#include <stdio.h>

#define CHAT_SIGNATURE 32 /* members that a signature may have: bits */

/* Those of apps are first: these give routes any name, even a provider's. */
const chat_dialect_t *const chat_dialects[] = {
    &chat_dialect_ai_sdk,
    &chat_dialect_ag_ui,
    &chat_dialect_openai_responses,
    &chat_dialect_openai_chat,
    &chat_dialect_anthropic,
    &chat_dialect_gemini,
    NULL,
};


const size_t chat_dialect_count =
    sizeof(chat_dialects) / sizeof(chat_dialects[0]) - 1;


/* 1 if a client asked for the end of the stream: it is not to be retried. */
static int
is_stop(const chat_interruption_t *in)
{
    return strcmp(in->reason, "stopped") == 0;
}


void
chat_interruption_text(const chat_interruption_t *in,
                       char                       text[CHAT_INTERRUPTION_TEXT])
{
    (void) snprintf(text, CHAT_INTERRUPTION_TEXT, "%s (%s)%s",
                    is_stop(in) ? "The stream was stopped before its end"
                                : "Upstream connection error: the stream was "
                                  "terminated before its end",
                    in->reason, in->resumable ? "; it can be resumed" : "");
}


void *
chat_dialect_open(const chat_dialect_t *dialect, chat_arena_t *arena,
                  const chat_request_t *rq)
{
    chat_reader_t *reader = chat_arena_alloc(arena, dialect->reader_size);

    if (reader != NULL) {
        reader->arena = arena;
        reader->rq = rq;
        chat_calls_init(&reader->calls, arena, dialect->call_size);
    }

    return reader;
}


chat_rc_e
chat_dialect_frame(const chat_dialect_t *dialect, chat_reader_t *reader,
                   const chat_frame_t *frame, chat_json_doc_t *doc,
                   chat_events_t *events)
{
    chat_rc_e rc;

    reader->doc = doc;
    reader->events = events;
    reader->number_node = NULL;
    reader->changed = 0;

    /* some servers send {} to keep a connection */
    reader->idle = doc != NULL && doc->root->type == CHAT_JSON_OBJECT
                   && doc->root->child == NULL;

    if (!frame->has_data || frame->data.len == 0
        || (!reader->begun && reader->idle))
    {
        return CHAT_OK;
    }

    rc = dialect->read(reader, frame);
    reader->begun |= rc == CHAT_OK;

    if (events->failed || reader->calls.failed || (doc && doc->failed)) {
        return CHAT_ERROR;
    }

    if (reader->begun && events->count == 0) {
        chat_events_add(events, CHAT_EVENT_OPAQUE);
    }

    return reader->begun ? CHAT_OK : CHAT_DECLINED;
}


void
chat_dialect_interrupted(const chat_dialect_t      *dialect,
                         const chat_reader_t       *reader,
                         const chat_interruption_t *in, chat_buf_t *out)
{
    char           text[CHAT_INTERRUPTION_TEXT];
    chat_refusal_t refusal = { .status = is_stop(in) ? 500 : 503,
                               .code = "stream_interrupted",
                               .no_ids = 1,
                               .message = text,
                               .number = reader ? reader->number : 0 };

    if (dialect->interrupted != NULL) {
        dialect->interrupted(reader, in, out);
        return;
    }

    chat_interruption_text(in, text);
    dialect->refuse(&refusal, 1, out);
}


const chat_dialect_t *
chat_dialect_find(chat_str_t name)
{
    const chat_dialect_t *const *dialect;

    for (dialect = chat_dialects; *dialect != NULL; dialect++) {
        if (chat_str_is(name, (*dialect)->name)) {
            return *dialect;
        }
    }

    return NULL;
}


int
chat_path_ends(const char *const *ends, chat_str_t path)
{
    size_t     at;
    chat_str_t end;

    if (ends == NULL) {
        return 0;
    }

    while (path.len > 1 && path.data[path.len - 1] == '/') {
        path.len--;
    }

    for (/* void */; *ends != NULL; ends++) {
        end = chat_cstr(*ends);

        if (end.len == 0 || !chat_str_ends(path, *ends)) {
            continue;
        }

        at = path.len - end.len;

        /* an end may bring its own boundary: /messages, :generate */
        if (at == 0 || end.data[0] == '/' || end.data[0] == ':'
            || path.data[at - 1] == '/')
        {
            return 1;
        }
    }

    return 0;
}


chat_str_t
chat_uri_path(chat_str_t uri)
{
    return chat_str_cut(&uri, '?');
}


/*
 * What chooses the answer beside the messages: path, whether it is a stream,
 * key and value of each listed member; not the query, which has credentials.
 */
static void
say_members(const chat_dialect_t *dialect, const chat_request_t *rq,
            chat_transcript_digest_t *to)
{
    size_t      i;
    const char *key;

    chat_buf_add(to->text, chat_uri_path(rq->uri));
    chat_buf_puts(to->text, rq->stream ? "?stream" : "?");

    for (i = 0; i < CHAT_SIGNATURE && rq->members >> i != 0; i++) {
        if ((rq->members >> i & 1) != 0) {
            key = dialect->signature[i];
            chat_buf_puts(to->text, ",");
            chat_buf_puts(to->text, key);
            chat_buf_puts(to->text, ":");
            chat_json_canon(&to->doc,
                            chat_json_get(&to->doc, to->doc.root, key),
                            to->text);
        }
    }
}


chat_rc_e
chat_dialect_sign(const chat_dialect_t *dialect, const chat_json_doc_t *doc,
                  const chat_digest_t *key, chat_request_t *rq)
{
    chat_transcript_digest_t digest = { .doc = *doc,
                                        .text = chat_buf_scratch() };

    if ((rq->class != CHAT_CLASS_CONTINUATION
         && rq->class != CHAT_CLASS_PENDING)
        || !rq->answers || rq->nsteps == 0)
    {
        return CHAT_OK;
    }

    digest.doc.arena = chat_arena_scratch();
    chat_mix_init(&digest.mix, key);
    say_members(dialect, rq, &digest);

    if (!rq->chained) {
        chat_transcript_digest(dialect->form, rq, &digest);
    }

    chat_mix_add(&digest.mix, chat_buf_str(digest.text));
    chat_mix_end(&digest.mix, rq->signature);
    chat_arena_reset(digest.doc.arena);
    return digest.text->failed || digest.doc.failed ? CHAT_ERROR : CHAT_OK;
}


/* The keys that the body has, as bits; notes duplicates. */
static uint32_t
find_members(const char *const *keys, chat_json_doc_t *doc)
{
    size_t             i;
    uint32_t           found = 0;
    unsigned char      first;
    const chat_json_t *member;

    for (member = doc->root->child; member != NULL; member = member->next) {
        first = doc->text.data[member->key_start + 1];

        for (i = 0; keys[i] != NULL; i++) {
            if (((unsigned char) keys[i][0] == first || first == '\\')
                && chat_json_key_is(doc, member, keys[i], 0))
            {
                doc->duplicate |= found >> i & 1;
                found |= UINT32_C(1) << i;
                break;
            }
        }
    }

    return found;
}


chat_rc_e
chat_dialect_read(const chat_dialect_t *dialect, chat_json_doc_t *doc,
                  chat_arena_t *arena, chat_request_t *rq)
{
    chat_rc_e         rc;
    chat_transcript_t t = {
        .form = dialect->form,
        .doc = doc,
        .arena = arena,
        .scratch = doc->arena,
        .brief = *doc,
        .ids = { { .arena = doc->arena }, { .arena = doc->arena } },
        .rq = rq,
    };

    doc->arena = arena;
    rc = dialect->request(&t);
    rc = rc == CHAT_OK ? t.rc : rc;
    rc = doc->failed || t.brief.failed ? CHAT_ERROR : rc;
    doc->arena = t.scratch;
    rq->members = rc == CHAT_OK ? find_members(dialect->signature, doc) : 0;

    return rc == CHAT_OK && (doc->duplicate || t.brief.duplicate) ? CHAT_BAD
                                                                  : rc;
}


const chat_dialect_t *
chat_dialect_request(const chat_dialect_t *dialect, chat_str_t uri,
                     chat_json_doc_t *doc, chat_arena_t *arena,
                     chat_request_t *rq, chat_rc_e *rc)
{
    chat_str_t                   path = chat_uri_path(uri);
    const chat_dialect_t *const *each;

    *rc = CHAT_DECLINED;

    for (each = chat_dialects; *each && *rc == CHAT_DECLINED; each++) {
        if ((dialect != NULL ? *each == dialect
                             : (*each)->paths == NULL
                                   || chat_path_ends((*each)->paths, path))
            && !chat_path_ends((*each)->not_paths, path))
        {
            *rq = (chat_request_t){ .uri = uri,
                                    .tenant = rq->tenant,
                                    .named = rq->named };
            doc->duplicate = 0;
            *rc = chat_dialect_read(*each, doc, arena, rq);
        }
    }

    return *rc == CHAT_OK ? each[-1] : NULL;
}


void
chat_refusal_join(const chat_refusal_t *refusal, const char *format,
                  const char *comma, chat_buf_t *out)
{
    size_t i;

    for (i = 0; i < refusal->nids; i++) {
        chat_buf_puts(out, i != 0 ? comma : "");
        chat_buf_format(out, format, refusal->ids[i]);
    }
}


void
chat_refusal_text(const chat_refusal_t *refusal, chat_buf_t *out)
{
    chat_buf_puts(out, refusal->message);

    if (refusal->nids != 0) {
        chat_buf_puts(out, " (");
        chat_refusal_join(refusal, "%v", ", ", out);
        chat_buf_puts(out, ")");
    }
}


void
chat_refusal_ids(const chat_refusal_t *refusal, const char *key,
                 chat_buf_t *out)
{
    if (!refusal->no_ids) {
        chat_buf_format(out, ",\"%s\":[", key);
        chat_refusal_join(refusal, "%j", ",", out);
        chat_buf_puts(out, "]");
    }
}


void
chat_dialect_refuse(const chat_dialect_t *dialect,
                    const chat_refusal_t *refusal, int in_band,
                    chat_buf_t *out)
{
    if (dialect->provider || in_band) {
        dialect->refuse(refusal, in_band, out);
        return;
    }

    /* clients of apps expect no provider's words */
    chat_buf_format(out, "{\"error\":{\"code\":%j,\"message\":%j",
                    chat_cstr(refusal->code), chat_cstr(refusal->message));
    chat_refusal_ids(refusal, "toolCallIds", out);
    chat_buf_puts(out, "}}");
}
