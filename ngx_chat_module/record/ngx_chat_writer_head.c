/*
 * ngx_chat_writer_head.c: the piece 0 of a record.
 *
 * Status and header lines of an answer, as its client gets them and as those
 * who follow are to get them. Promises: lines that are of one connection, or
 * of one client alone, are not among them (chat_record_header() knows).
 * Must not know: wire formats, the store.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "record/ngx_chat_writer.h"


/* The header lines, as the client gets them. */
static void
ngx_chat_writer_lines(ngx_chat_ctx_t *ctx, chat_buf_t *lines)
{
    chat_buf_t              type = { 0 };
    ngx_table_elt_t        *h;
    ngx_http_request_t     *r = ctx->request;
    ngx_chat_headers_walk_t walk = { &r->headers_out.headers.part, 0 };

    chat_buf_add(&type, chat_str(r->headers_out.content_type.data,
                                 r->headers_out.content_type.len));

    if (r->headers_out.charset.len != 0
        && r->headers_out.content_type_len == r->headers_out.content_type.len)
    {
        chat_buf_puts(&type, "; charset=");
        chat_buf_add(&type, chat_str(r->headers_out.charset.data,
                                     r->headers_out.charset.len));
    }

    if (type.len != 0) {
        chat_record_header(lines, chat_cstr("Content-Type"),
                           chat_buf_str(&type));
    }

    chat_buf_free(&type);

    while ((h = ngx_chat_headers_next(&walk)) != NULL) {
        if (ctx->response.early
                ? ngx_chat_headers_counts(&r->headers_out.headers, h)
                : h->hash != 0)
        {
            chat_record_header(lines, chat_str(h->key.data, h->key.len),
                               chat_str(h->value.data, h->value.len));
        }
    }
}


ngx_int_t
ngx_chat_writer_head(ngx_chat_ctx_t *ctx, chat_buf_t *out)
{
    chat_rc_e          rc;
    chat_buf_t         lines = { 0 };
    chat_record_head_t head;

    ngx_chat_writer_lines(ctx, &lines);

    head.status = (uint32_t) ctx->request->headers_out.status;
    head.message = ctx->body.rq.last_message.len <= CHAT_ID_MAX
                       ? ctx->body.rq.last_message
                       : chat_str(NULL, 0);
    head.headers = chat_buf_str(&lines);
    rc = lines.failed ? CHAT_ERROR : chat_record_head_write(&head, out);
    chat_buf_free(&lines);

    return rc == CHAT_OK && out->len <= NGX_CHAT_WRITER_PIECE ? NGX_OK
                                                              : NGX_DECLINED;
}
