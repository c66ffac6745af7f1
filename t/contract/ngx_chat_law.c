/*
 * ngx_chat_law.c: the steps of a law, see ngx_chat_law.h.
 *
 * A step runs from a posted event of its own, never inside done() or notify().
 * It runs once all ops of the previous step are answered, its awaited
 * notifications have arrived, and its pause is over. Must not know: what the
 * laws say.
 */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "ngx_chat_law.h"
#include "../buf_printf.h"

#define NGX_CHAT_LAW_SECONDS 30
#define NGX_CHAT_LAW_STEPS 100000


static void ngx_chat_law_next(ngx_event_t *ev);
static void ngx_chat_law_waited(ngx_event_t *ev);
static void ngx_chat_law_late(ngx_event_t *ev);
static void ngx_chat_law_finish(ngx_chat_law_t *law);


static void
ngx_chat_law_digest(const char *what, ngx_uint_t k, chat_digest_t *out)
{
    u_char  name[128], *end;
    int64_t now = (int64_t) ngx_time();

    end =
        ngx_snprintf(name, sizeof(name), "%s/%P/%L/%ui/%ui/%ui", what, ngx_pid,
                     now, ngx_current_msec, (ngx_uint_t) ngx_random(), k);
    chat_digest(chat_str(name, (size_t) (end - name)), out);
}


/* Keys that were never used before. */
static void
ngx_chat_law_name_keys(ngx_chat_law_t *law)
{
    ngx_uint_t k;

    for (k = 0; k < NGX_CHAT_LAW_KEYS; k++) {
        ngx_chat_law_digest("tag", k, &law->keys[k].tag);
        ngx_chat_law_digest("name", k, &law->keys[k].name);
    }

    law->keys[1].tag = law->keys[0].tag;
}


void
ngx_chat_law_init(ngx_chat_law_t *law, const ngx_chat_law_def_t *def,
                  chat_store_t *store, ngx_http_request_t *r)
{
    ngx_uint_t i;

    ngx_memzero(law, sizeof(ngx_chat_law_t));
    law->def = def;
    law->store = store;
    law->request = r;
    law->ttl = NGX_CHAT_LAW_TTL;
    ngx_chat_law_name_keys(law);

    for (i = 0; i < NGX_CHAT_LAW_OPS; i++) {
        law->ops[i].law = law;
    }

    for (i = 0; i < NGX_CHAT_LAW_WATCHES; i++) {
        law->watches[i].law = law;
    }

    law->next.handler = ngx_chat_law_next;
    law->timer.handler = ngx_chat_law_waited;
    law->deadline.handler = ngx_chat_law_late;
    law->next.data = law->timer.data = law->deadline.data = law;
    law->next.log = law->timer.log = law->deadline.log = r->connection->log;

    ngx_add_timer(&law->deadline,
                  1000 * (def->seconds ? def->seconds : NGX_CHAT_LAW_SECONDS));
    ngx_post_event(&law->next, &ngx_posted_events);
}


void
ngx_chat_law_destroy(ngx_chat_law_t *law)
{
    ngx_uint_t i;

    if (law->next.posted) {
        ngx_delete_posted_event(&law->next);
    }

    if (law->timer.timer_set) {
        ngx_del_timer(&law->timer);
    }

    if (law->deadline.timer_set) {
        ngx_del_timer(&law->deadline);
    }

    for (i = 0; i < NGX_CHAT_LAW_OPS; i++) {
        ngx_chat_law_free_op(&law->ops[i]);
    }

    for (i = 0; i < NGX_CHAT_LAW_WATCHES; i++) {
        ngx_chat_law_free_watch(&law->watches[i]);
    }

    chat_buf_free(&law->failed);
    chat_buf_free(&law->told);
}


void
ngx_chat_law_end(ngx_chat_law_t *law)
{
    law->ended = 1;
}


void
ngx_chat_law_fail(ngx_chat_law_t *law, const char *reason)
{
    if (law->failed.len == 0) {
        chat_buf_printf(&law->failed, "step %u: %s", (unsigned) law->step,
                        reason);
    }
}


void
ngx_chat_law_check(ngx_chat_law_t *law, ngx_uint_t holds, const char *what)
{
    if (!holds) {
        ngx_chat_law_fail(law, what);
    }
}


void
ngx_chat_law_pause(ngx_chat_law_t *law, ngx_msec_t msec)
{
    ngx_add_timer(&law->timer, msec);
}


void
ngx_chat_law_again(ngx_chat_law_t *law, ngx_msec_t msec)
{
    law->step--;
    ngx_chat_law_pause(law, msec);
}


void
ngx_chat_law_await(ngx_chat_law_t *law, ngx_uint_t w)
{
    law->watches[w].awaited = law->watches[w].notified + 1;
}


ngx_uint_t
ngx_chat_law_heard(ngx_chat_law_t *law, ngx_uint_t w, ngx_uint_t from)
{
    if (law->watches[w].notified == 0) {
        return 0;
    }

    law->watches[w].notified = law->watches[w].awaited = 0;
    ngx_chat_law_check(law, ++law->number < NGX_CHAT_LAW_HEARD,
                       "notified though there was nothing to tell");
    law->step = from - 1;
    return 1;
}


void
ngx_chat_law_proceed(ngx_chat_law_t *law)
{
    ngx_uint_t w;

    if (law->failed.len == 0 && !law->ended) {
        if (law->due != 0 || law->timer.timer_set) {
            return;
        }

        for (w = 0; w < NGX_CHAT_LAW_WATCHES; w++) {
            if (law->watches[w].notified < law->watches[w].awaited) {
                return;
            }
        }
    }

    ngx_post_event(&law->next, &ngx_posted_events);
}


static void
ngx_chat_law_next(ngx_event_t *ev)
{
    ngx_chat_law_t *law = ev->data;

    if (law->failed.len == 0 && !law->ended) {
        if (law->steps++ == NGX_CHAT_LAW_STEPS) {
            ngx_chat_law_fail(law, "it does not come to an end");
        } else {
            law->def->step(law, law->step);
            law->step++;
        }
    }

    if (law->failed.len != 0 || law->ended) {
        ngx_chat_law_finish(law);
    } else {
        ngx_chat_law_proceed(law);
    }
}


static void
ngx_chat_law_waited(ngx_event_t *ev)
{
    ngx_chat_law_proceed(ev->data);
}


static void
ngx_chat_law_late(ngx_event_t *ev)
{
    ngx_uint_t      w;
    ngx_chat_law_t *law = ev->data;

    for (w = 0; w < NGX_CHAT_LAW_WATCHES; w++) {
        if (law->watches[w].notified < law->watches[w].awaited) {
            ngx_chat_law_fail(law, "waited in vain for notify()");
        }
    }

    ngx_chat_law_fail(law, law->due ? "waited in vain for done()"
                                    : "waited in vain");
    ngx_chat_law_proceed(law);
}


/* The answer to the request: ok, or not ok and the reason. */
static void
ngx_chat_law_finish(ngx_chat_law_t *law)
{
    ngx_buf_t          *b;
    ngx_int_t           rc = NGX_HTTP_INTERNAL_SERVER_ERROR;
    ngx_uint_t          failed = law->failed.len != 0;
    chat_buf_t         *text = failed ? &law->failed : &law->told;
    ngx_chain_t         out;
    ngx_connection_t   *c = law->request->connection;
    ngx_http_request_t *r = law->request;

    b = ngx_create_temp_buf(r->pool, sizeof("not ok \n") + text->len);

    if (b != NULL) {
        b->last = ngx_sprintf(b->last, "%sok%s", failed ? "not " : "",
                              text->len ? " " : "");
        b->last = ngx_cpymem(b->last, text->len ? (char *) text->data : "",
                             text->len);
        *b->last++ = '\n';
        b->last_buf = 1;
        ngx_chat_law_destroy(law);
        out.buf = b;
        out.next = NULL;

        r->headers_out.status = NGX_HTTP_OK;
        r->headers_out.content_length_n = b->last - b->pos;
        rc = ngx_http_send_header(r);

        if (rc == NGX_OK) {
            rc = ngx_http_output_filter(r, &out);
        }
    }

    ngx_http_finalize_request(r, rc);
    ngx_http_run_posted_requests(c);
}
