/*
 * ngx_chat_reply.c: answers that the module makes itself.
 *
 * Refusals, bounces, empty turns, and the comments that keep a waiting client
 * awake. Promises: always the dialect's own form, with the CORS headers that
 * the conversation's stream was served with. Must not know: why.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "facts/chat_recording.h"
#include "metrics/ngx_chat_metrics.h"
#include "response/ngx_chat_response.h"

#define NGX_CHAT_REPLY_LINE 64 /* bytes of a text with a status */


ngx_int_t
ngx_chat_answer_add_header(ngx_http_request_t *r, chat_str_t name,
                           chat_str_t value)
{
    ngx_table_elt_t *h = ngx_list_push(&r->headers_out.headers);

    if (h == NULL) {
        return NGX_ERROR;
    }

    *h = (ngx_table_elt_t){ .hash = 1,
                            .key = { name.len, (u_char *) name.data },
                            .value = { value.len, (u_char *) value.data } };
    return NGX_OK;
}


/* The same of literals. */
static ngx_int_t
add_literal(ngx_http_request_t *r, const char *name, const char *value)
{
    return ngx_chat_answer_add_header(r, chat_cstr(name), chat_cstr(value));
}


/* 1 if the answer has a header of this name, but not from text. */
static ngx_uint_t
has_header(ngx_http_request_t *r, chat_str_t name, chat_str_t text)
{
    ngx_table_elt_t        *h;
    ngx_chat_headers_walk_t walk = { &r->headers_out.headers.part, 0 };

    while ((h = ngx_chat_headers_next(&walk)) != NULL) {
        if (h->hash != 0 && h->key.len == name.len
            && ngx_strncasecmp(h->key.data, (u_char *) name.data, name.len)
                   == 0
            && (h->key.data < text.data
                || h->key.data >= text.data + text.len))
        {
            return 1;
        }
    }

    return 0;
}


/* Adds those of lines, which outlive the request, that are not there yet. */
static ngx_int_t
add_lines(ngx_http_request_t *r, chat_str_t text)
{
    chat_str_t rest = text, name, value;

    while (chat_recording_header_next(&rest, &name, &value)) {
        /* a page takes none of them twice */
        if (!has_header(r, name, text)
            && ngx_chat_answer_add_header(r, name, value) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_chat_answer_lines(ngx_http_request_t *r, ngx_uint_t cors,
                      chat_buf_t *lines)
{
    chat_str_t              name;
    ngx_table_elt_t        *h;
    ngx_chat_headers_walk_t walk = { &r->headers_out.headers.part, 0 };

    while ((h = ngx_chat_headers_next(&walk)) != NULL) {
        name = ngx_chat_str(&h->key);

        if (ngx_chat_headers_counts(&r->headers_out.headers, h)
            && (!cors || chat_recording_is_cors(name)))
        {
            chat_recording_header(lines, name, ngx_chat_str(&h->value));
        }
    }
}


ngx_int_t
ngx_chat_answer_cors(ngx_chat_ctx_t *ctx)
{
    chat_str_t lines;

    return chat_arena_dup(ctx->kept, ctx->barrier.cors, &lines) == CHAT_OK
               ? add_lines(ctx->request, lines)
               : NGX_ERROR;
}


void
ngx_chat_answer_type(ngx_http_request_t *r, chat_str_t type)
{
    r->headers_out.content_type.data = (u_char *) type.data;
    r->headers_out.content_type.len = type.len;
    /* without parameters: NGINX compares types, and may add a charset */
    r->headers_out.content_type_len = chat_str_cut(&type, ';').len;
    r->headers_out.content_type_lowcase = NULL;
}


/* Header of an SSE answer (sse) or a JSON one. */
static ngx_int_t
send_header(ngx_chat_ctx_t *ctx, ngx_uint_t status, ngx_uint_t sse,
            off_t length)
{
    const char         *line = ctx->dialect->sse_header;
    ngx_http_request_t *r = ctx->request;

    ctx->response.mode = NGX_CHAT_ANSWER_LOCAL;
    r->disable_not_modified = 1; /* as of an upstream's answer */
    r->headers_out.status = status;
    r->headers_out.content_length_n = length;

    ngx_chat_answer_type(
        r, chat_cstr(sse ? "text/event-stream" : "application/json"));

    if (add_literal(r, "Cache-Control", "no-cache") != NGX_OK
        || (sse && add_literal(r, "X-Accel-Buffering", "no") != NGX_OK)
        || (sse && line != NULL && add_lines(r, chat_cstr(line)) != NGX_OK))
    {
        return NGX_ERROR;
    }

    return ngx_http_send_header(r);
}


/* out as one buffer in the pool; frees out. NULL: no memory. */
static ngx_buf_t *
to_buffer(ngx_http_request_t *r, chat_buf_t *out)
{
    ngx_buf_t *b = NULL;

    if (!out->failed && out->len != 0) {
        b = ngx_create_temp_buf(r->pool, out->len);
        if (b != NULL) {
            b->last = ngx_cpymem(b->last, out->data, out->len);
        }
    }

    chat_buf_free(out);
    return b;
}


static ngx_int_t
send_buffer(ngx_http_request_t *r, ngx_buf_t *b)
{
    ngx_chain_t out = { b, NULL };

    return ngx_http_output_filter(r, &out);
}


ngx_int_t
ngx_chat_answer_text(ngx_http_request_t *r, ngx_uint_t status,
                     const char *type, chat_buf_t *text)
{
    ngx_int_t  rc;
    ngx_buf_t *b = to_buffer(r, text);

    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->headers_out.status = status;
    r->headers_out.content_length_n = b->last - b->pos;
    ngx_chat_answer_type(r, chat_cstr(type));

    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }

    b->last_buf = r == r->main;
    b->last_in_chain = 1;
    return send_buffer(r, b);
}


ngx_int_t
ngx_chat_answer_beat(ngx_chat_ctx_t *ctx)
{
    ngx_buf_t *b;
    chat_buf_t out = { 0 };

    if (ctx->request->connection->buffered) {
        return NGX_OK; /* the client does not read */
    }

    chat_buf_puts(&out, ": chat-hold\n\n");
    b = to_buffer(ctx->request, &out);
    if (b == NULL) {
        return NGX_ERROR;
    }

    b->flush = 1;
    return send_buffer(ctx->request, b);
}


ngx_int_t
ngx_chat_answer_early(ngx_chat_ctx_t *ctx)
{
    size_t              size = sizeof(void *) * ngx_http_max_module;
    ngx_int_t           rc;
    ngx_http_request_t *r = ctx->request;

    ctx->response.filters = ngx_palloc(r->pool, size);
    if (ctx->response.filters == NULL) {
        return NGX_ERROR;
    }

    r->filter_need_in_memory = 1; /* of the answer that follows, too */
    rc = send_header(ctx, NGX_HTTP_OK, 1, -1);
    ctx->response.mode = NGX_CHAT_ANSWER_UPSTREAM;
    if (rc == NGX_ERROR || rc > NGX_OK) {
        return NGX_ERROR;
    }

    ngx_memcpy(ctx->response.filters, r->ctx, size);
    ctx->response.early = 1;
    return ngx_chat_answer_beat(ctx);
}


void
ngx_chat_answer_truncate(ngx_chat_ctx_t *ctx)
{
    ngx_http_request_t *r = ctx->request;

    ctx->response.truncated = 1;
    r->keepalive = 0;
    /* a FIN: a reset would take what is still on its way to the client */
    r->lingering_close = 1;
}


void
ngx_chat_answer_break(ngx_chat_ctx_t *ctx)
{
    /* a page around a subrequest ends on its own */
    if (ctx->dialect->provider && ctx->request == ctx->request->main) {
        ngx_chat_answer_truncate(ctx);
    }
}


/* Sends header and body and ends the request. b NULL: no memory. */
static void
end_answer(ngx_chat_ctx_t *ctx, ngx_uint_t status, ngx_uint_t sse,
           ngx_buf_t *b)
{
    ngx_int_t           rc;
    ngx_http_request_t *r = ctx->request;

    ngx_chat_cleanup(ctx, NGX_CHAT_CLEANUP_WATCH, NGX_CHAT_CLEANUP_INDEX_HOLD);
    ctx->state = NGX_CHAT_ANSWERED;
    ngx_chat_metrics_verdict(ctx);

    if (b == NULL) {
        ngx_http_finalize_request(r, ctx->response.early
                                         ? NGX_ERROR
                                         : NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    if (ctx->response.early) {
        ctx->response.mode = NGX_CHAT_ANSWER_LOCAL;

    } else {
        rc = send_header(ctx, status, sse, b->last - b->pos);
        if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
            ngx_http_finalize_request(r, rc);
            return;
        }
    }

    b->last_buf = !ctx->response.truncated;
    b->flush = ctx->response.truncated;
    ngx_http_finalize_request(r, send_buffer(ctx->request, b));
}


ngx_int_t
ngx_chat_answer_inject(ngx_chat_ctx_t *ctx)
{
    chat_buf_t     out = { 0 };
    chat_results_t injected;

    if (ctx->dialect->inject == NULL
        || ctx->body.rq.class != CHAT_CLASS_CONTINUATION)
    {
        return NGX_OK;
    }

    chat_results_init(&injected, ctx->body.arena);
    if (chat_results_injected(&ctx->body.results, &injected) != CHAT_OK) {
        return NGX_ERROR;
    }

    if (injected.count == 0) {
        return NGX_OK;
    }

    ctx->response.ninjected = injected.count;
    ctx->dialect->inject(injected.items, injected.count, &out);
    (void) chat_buf_move(&out, ctx->kept, &ctx->response.injected);
    return NGX_OK;
}


/* A refusal. */
typedef struct {
    const char *code;   /* NULL: the word of the reason */
    ngx_uint_t  status; /* HTTP; 0: that of the attempt */
    uint32_t    after;  /* Retry-After in seconds; 0: none */
    const char *text;
} reply_row_t;

static const reply_row_t replies[CHAT_REPLIES] = {
    [CHAT_REPLY_INCOMPLETE] = { "batch_incomplete", 409, 1,
                                "results of other tool calls in this step are "
                                "still missing, retry later" },
    [CHAT_REPLY_UNMERGED] = { "batch_incomplete", 409, 1,
                              "the stored results could not be inserted into "
                              "this request body, send all results of this "
                              "step in one request" },
    [CHAT_REPLY_SUPERSEDED] = { "superseded", 409, 0,
                                "the user has sent a newer message, these "
                                "results are no longer needed" },
    [CHAT_REPLY_CLEARED] = { "cleared", 409, 0,
                             "the stored results of this step were deleted, "
                             "send all results of this step in one request" },
    [CHAT_REPLY_CONFLICT] = { "conflict", 409, 0,
                              "another request has already received the "
                              "answer to these results, reload the "
                              "conversation" },
    [CHAT_REPLY_ABORTED] = { "aborted", 409, 1,
                             "another request carried these results and its "
                             "client disconnected before the answer ended, "
                             "send them again" },
    [CHAT_REPLY_STOPPED] = { "stopped", 409, 0,
                             "a client has stopped this answer, send a new "
                             "message to continue" },
    [CHAT_REPLY_LOOP] = { "loop", 429, 0,
                          "these results were sent upstream ten times within "
                          "a minute, wait a minute before sending them "
                          "again" },

    [CHAT_REPLY_UPSTREAM_STATUS] = { "upstream_error", 0, 0,
                                     "the upstream answered with HTTP " },
    [CHAT_REPLY_UPSTREAM_ERROR] = { "upstream_error", 502, 0,
                                    "the upstream reported an error instead "
                                    "of an answer to these results" },
    [CHAT_REPLY_NO_STREAM] = { "upstream_error", 502, 0,
                               "the upstream did not answer with an event "
                               "stream, send the request again" },
    [CHAT_REPLY_INTERRUPTED] = { "stream_interrupted", 502, 0, NULL },

    [CHAT_REPLY_STORE_UNAVAILABLE] = { "store_unavailable", 503, 1,
                                       "the server cannot read the state of "
                                       "this conversation, retry later" },
    [CHAT_REPLY_STORE_FULL] = { "store_full", 503, 1,
                                "the server has no room for the state of this "
                                "conversation, retry later" },
    [CHAT_REPLY_HELD_LIMIT] = { NULL, 503, 1,
                                "too many requests are waiting for tool "
                                "results, retry later" }
};


/*
 * The dialect's error, as a response body or (in_band) as an event. text: in
 * place of the row's; or NULL. NULL: no memory.
 */
static ngx_buf_t *
make_error(ngx_chat_ctx_t *ctx, chat_reply_e reply, ngx_uint_t status,
           const char *text, ngx_uint_t in_band)
{
    u_char             line[NGX_CHAT_REPLY_LINE];
    chat_buf_t         out = { 0 };
    chat_refusal_t     refusal = { 0 };
    const reply_row_t *row = &replies[reply];

    refusal.status = (unsigned) status;
    refusal.code = row->code ? row->code : chat_reasons[ctx->reason].word;
    refusal.message = text != NULL ? text : row->text;

    if (reply == CHAT_REPLY_UPSTREAM_STATUS) {
        ngx_snprintf(line, sizeof(line), "%s%ui%Z", row->text, status);
        refusal.message = (char *) line;
    }

    if (reply == CHAT_REPLY_INCOMPLETE || reply == CHAT_REPLY_UNMERGED) {
        refusal.ids = ctx->barrier.needs.missing;
        refusal.nids = ctx->barrier.needs.nmissing;
    }

    chat_dialect_refuse(ctx->dialect, &refusal, (int) in_band, &out);

    return to_buffer(ctx->request, &out);
}


ngx_buf_t *
ngx_chat_reply_in_band(ngx_chat_ctx_t *ctx, ngx_uint_t status)
{
    return status < 300
               ? make_error(ctx, CHAT_REPLY_NO_STREAM, NGX_HTTP_BAD_GATEWAY,
                            NULL, 1)
               : make_error(ctx, CHAT_REPLY_UPSTREAM_STATUS, status, NULL, 1);
}


/* Tells a client library what to do after the refusal. */
static ngx_int_t
add_advice(ngx_chat_ctx_t *ctx, ngx_uint_t status, uint32_t seconds)
{
    u_char *after;

    if (seconds != 0) {
        after = ngx_pnalloc(ctx->request->pool, NGX_INT32_LEN + 1);
        if (after == NULL) {
            return NGX_ERROR;
        }

        ngx_sprintf(after, "%uD%Z", seconds);
        return add_literal(ctx->request, "Retry-After", (char *) after);
    }

    return status == NGX_HTTP_CONFLICT
               ? add_literal(ctx->request, "X-Should-Retry", "false")
               : NGX_OK;
}


/* Refuses the request: with the row's status, or in band behind a 200. */
static void
refuse(ngx_chat_ctx_t *ctx, chat_reply_e reply, chat_reason_e reason,
       const char *text)
{
    uint32_t           after;
    ngx_buf_t         *b;
    ngx_uint_t         status;
    const reply_row_t *row = &replies[reply];

    ctx->reason = reason;
    status = row->status ? row->status : ctx->barrier.decision.status;
    after = row->after;

    if (reply == CHAT_REPLY_UPSTREAM_STATUS
        || reply == CHAT_REPLY_UPSTREAM_ERROR) {
        /* requests that are refused together come back together */
        after = ctx->barrier.decision.after;
        if (after == 0) {
            after = status == NGX_HTTP_SERVICE_UNAVAILABLE;
        }
    }

    b = make_error(ctx, reply, status, text, ctx->response.early);

    if (ctx->response.early) {
        ngx_chat_answer_break(ctx);

    } else if (add_advice(ctx, status, after) != NGX_OK) {
        b = NULL;
    }

    end_answer(ctx, status, ctx->response.early, b);
}


void
ngx_chat_reply_broken(ngx_chat_ctx_t *ctx, const char *reason)
{
    char                text[CHAT_INTERRUPTION_TEXT];
    chat_buf_t          out = { 0 };
    chat_interruption_t in = { reason, 0 };
    chat_reason_e why = chat_metrics_break(reason) == CHAT_BREAK_PRODUCER_LOST
                            ? CHAT_REASON_CONFLICT_PRODUCER_LOST
                            : CHAT_REASON_CONFLICT_INTERRUPTED;

    if (ctx->response.early) {
        ctx->reason = why;
        chat_dialect_interrupted(ctx->dialect, NULL, &in, &out);
        ngx_chat_answer_break(ctx);
        end_answer(ctx, NGX_HTTP_BAD_GATEWAY, 1,
                   to_buffer(ctx->request, &out));
        return;
    }

    chat_interruption_text(&in, text);
    refuse(ctx, CHAT_REPLY_INTERRUPTED, why, text);
}


/* Ends the request with a turn that injects what its transcript lacks. */
static void
reply_turn(ngx_chat_ctx_t *ctx, chat_reply_e reply, chat_reason_e reason)
{
    chat_rc_e       rc = CHAT_OK;
    chat_buf_t      out = { 0 };
    ngx_uint_t      sse = 1;
    chat_request_t *rq = &ctx->body.rq;
    chat_results_t  injected;

    chat_results_init(&injected, ctx->body.arena);

    if (ctx->body.arena != NULL) {
        (void) chat_results_injected(&ctx->body.results, &injected);
    }

    if (reply == CHAT_REPLY_BOUNCE) {
        ctx->dialect->bounce(rq, injected.items, injected.count, &out);
    } else {
        sse = (ngx_uint_t) rq->stream;
        rc = ctx->dialect->empty(rq, injected.items, injected.count, &out);
    }

    if (rc == CHAT_DECLINED) {
        chat_buf_free(&out);
        refuse(ctx, CHAT_REPLY_CONFLICT, CHAT_REASON_CONFLICT_NO_EMPTY_TURN,
               NULL);
        return;
    }

    ngx_chat_metrics_of(ctx->worker)->counts[CHAT_COUNT_INJECTED] +=
        injected.count;
    ctx->reason = reason;
    end_answer(ctx, NGX_HTTP_OK, sse, to_buffer(ctx->request, &out));
}


void
ngx_chat_reply(ngx_chat_ctx_t *ctx, chat_reply_e reply, chat_reason_e reason)
{
    switch (reply) {
    case CHAT_REPLY_EMPTY:
    case CHAT_REPLY_BOUNCE:
        reply_turn(ctx, reply, reason);
        return;

    case CHAT_REPLY_INTERRUPTED:
        ngx_chat_reply_broken(ctx, ctx->barrier.decision.lost ? "producer_lost"
                                                              : "upstream");
        return;

    default:
        refuse(ctx, reply, reason, NULL);
    }
}
