/*
 * ngx_chat_headers.c: see ngx_chat_headers.h.
 *
 * A header list has several parts; ngx_chat_headers_next() walks over them.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "base/ngx_chat_ctx.h"


ngx_table_elt_t *
ngx_chat_headers_next(ngx_chat_headers_walk_t *walk)
{
    ngx_table_elt_t *h;

    while (walk->part != NULL && walk->i == walk->part->nelts) {
        walk->part = walk->part->next;
        walk->i = 0;
    }

    h = walk->part ? walk->part->elts : NULL;
    return h ? &h[walk->i++] : NULL;
}


/* 1 if the header has this name. */
static ngx_inline ngx_uint_t
named(const ngx_table_elt_t *h, const char *name)
{
    return chat_str_is_any_case(ngx_chat_str(&h->key), name);
}


ngx_table_elt_t *
ngx_chat_headers_find(ngx_list_t *headers, const char *name)
{
    ngx_table_elt_t        *h;
    ngx_chat_headers_walk_t walk = { &headers->part, 0 };

    do {
        h = ngx_chat_headers_next(&walk);
    } while (h != NULL && (h->hash == 0 || !named(h, name)));

    return h;
}


ngx_uint_t
ngx_chat_headers_counts(ngx_list_t *headers, const ngx_table_elt_t *h)
{
    ngx_table_elt_t        *one;
    ngx_chat_headers_walk_t walk = { &headers->part, 0 };

    while ((one = ngx_chat_headers_next(&walk)) != h) {
        if (one->hash != 0 && one->key.len == h->key.len
            && ngx_strncasecmp(one->key.data, h->key.data, h->key.len) == 0
            && chat_str_eq(ngx_chat_str(&one->value), ngx_chat_str(&h->value)))
        {
            return 0;
        }
    }

    return h->hash != 0;
}


/* 1 if the content type is application/json or ends with +json. */
static ngx_uint_t
is_json(const ngx_str_t *type)
{
    chat_str_t parameters = ngx_chat_str(type);
    chat_str_t name = chat_str_cut(&parameters, ';');

    while (name.len != 0 && name.data[name.len - 1] == ' ') {
        name.len--;
    }

    return chat_str_is_any_case(name, "application/json")
           || (name.len > 5
               && chat_str_is_any_case(chat_str(name.data + name.len - 5, 5),
                                       "+json"));
}


/* 1 if the header signs the body, or contains a digest of it. */
static ngx_uint_t
signs(const ngx_table_elt_t *h)
{
    chat_str_t value = ngx_chat_str(&h->value);

    return named(h, "digest") || named(h, "content-digest")
           || named(h, "repr-digest") || named(h, "content-md5")
           || named(h, "signature") || named(h, "x-amz-content-sha256")
           || (named(h, "authorization")
               && (chat_str_starts_any_case(value, "aws4-")
                   || chat_str_starts_any_case(value, "signature ")));
}


static void
note(ngx_table_elt_t *h, ngx_chat_headers_t *out, ngx_uint_t blank)
{
    ngx_int_t     retry;
    chat_digest_t digest;

    if (chat_str_starts_any_case(ngx_chat_str(&h->key), "x-chat-")) {
        if (named(h, NGX_CHAT_HEADERS_ATTEMPT)) {
            out->attempt = h;
            out->relayed = ngx_chat_str(&h->value);
        }

        h->value.len = blank ? 0 : h->value.len;

    } else if (named(h, "content-encoding")) {
        out->encoded = 1;

    } else if (named(h, "origin")) {
        out->origin = ngx_chat_str(&h->value);

    } else if (named(h, "x-stainless-retry-count")) {
        retry = ngx_atoi(h->value.data, h->value.len);
        out->retry = retry == NGX_ERROR ? 0 : ngx_min(retry, 255);

    } else if (named(h, "idempotency-key")) {
        if (h->value.len != 0) {
            chat_digest(ngx_chat_str(&h->value), &digest);
            ngx_memcpy(out->retry_key, digest.bytes, sizeof(out->retry_key));
        }

    } else if (signs(h)) {
        out->digested = 1;
    }
}


void
ngx_chat_headers_scan(ngx_http_request_t *r, ngx_chat_headers_t *out,
                      ngx_uint_t blank)
{
    ngx_table_elt_t        *h;
    ngx_chat_headers_walk_t walk = { &r->headers_in.headers.part, 0 };

    ngx_memzero(out, sizeof(*out));

    if (r->headers_in.content_type != NULL) {
        out->json = is_json(&r->headers_in.content_type->value);
    }

    while ((h = ngx_chat_headers_next(&walk)) != NULL) {
        note(h, out, blank);
    }
}


void
ngx_chat_headers_name_attempt(ngx_http_request_t *r, ngx_table_elt_t *h,
                              ngx_str_t value)
{
    if (h == NULL) {
        h = ngx_list_push(&r->headers_in.headers);
        if (h == NULL) {
            return;
        }

        ngx_memzero(h, sizeof(*h));
        ngx_str_set(&h->key, NGX_CHAT_HEADERS_ATTEMPT);
        h->lowcase_key = h->key.data;
        h->hash = ngx_hash_key(h->key.data, h->key.len);
    }

    h->value = value;
}


uint32_t
ngx_chat_headers_after(ngx_http_request_t *r)
{
    time_t           seconds = 0;
    ngx_table_elt_t *h =
        ngx_chat_headers_find(&r->headers_out.headers, "retry-after");

    if (h != NULL) {
        seconds = ngx_atotm(h->value.data, h->value.len);
    }

    if (seconds == NGX_ERROR) {
        /* a date; an invalid one is past */
        seconds =
            ngx_parse_http_time(h->value.data, h->value.len) - ngx_time();
    }

    return seconds <= 0 ? 0 : (uint32_t) ngx_min(seconds, CHAT_AFTER_MAX);
}
