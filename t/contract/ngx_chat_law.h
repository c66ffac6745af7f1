/*
 * ngx_chat_law.h: a law of chat_store.h, tried on the store of this worker.
 *
 * A law is a function that is called step by step: ops of one step are
 * answered before the next one begins. Each call of the store is checked:
 * done() and notify() must not run inside it, and its arguments are wiped
 * right after it. Ops and watches are in memory of their own that is freed as
 * soon as the contract allows it. Must not know: which store it is.
 */

#ifndef NGX_CHAT_LAW_H
#define NGX_CHAT_LAW_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "facts/chat_store.h"

#define NGX_CHAT_LAW_OPS 8
#define NGX_CHAT_LAW_WATCHES 4
#define NGX_CHAT_LAW_KEYS 3
#define NGX_CHAT_LAW_TTL 60
#define NGX_CHAT_LAW_NO_OP (-1) /* in place of an op: NULL */

typedef struct ngx_chat_law_s       ngx_chat_law_t;
typedef struct ngx_chat_law_op_s    ngx_chat_law_op_t;
typedef struct ngx_chat_law_watch_s ngx_chat_law_watch_t;

typedef struct {
    const char *name; /* NULL ends a list */
    void (*step)(ngx_chat_law_t *law, ngx_uint_t step);
    ngx_uint_t seconds; /* it has; 0: 10 */
} ngx_chat_law_def_t;

/* An op and its last answer. */
struct ngx_chat_law_op_s {
    ngx_chat_law_t  *law;
    chat_store_op_t *op;
    unsigned         asked : 1; /* neither answered nor cancelled yet */
    unsigned         keep : 1;  /* op is not freed after it */
    unsigned         brief : 1; /* op is */
    const char      *needs;     /* of op, "field field"; NULL: none */
    size_t           nneeds;    /* of op in done() */
    ngx_uint_t       fired;     /* number of done() calls */
    chat_rc_e        rc;
    chat_fact_t     *facts; /* in the arena */
    size_t           n;
    chat_arena_t    *arena;
    void (*then)(ngx_chat_law_op_t *slot); /* called inside done() */
};

struct ngx_chat_law_watch_s {
    ngx_chat_law_t     *law;
    chat_store_watch_t *watch;
    ngx_uint_t          notified; /* number of notify() calls */
    ngx_uint_t          awaited;  /* the next step waits for this number */
    void (*then)(ngx_chat_law_watch_t *slot); /* called inside notify() */
};

struct ngx_chat_law_s {
    const ngx_chat_law_def_t *def;
    chat_store_t             *store;
    ngx_http_request_t       *request;
    chat_key_t                keys[NGX_CHAT_LAW_KEYS]; /* 0, 1 of one tag */
    ngx_chat_law_op_t         ops[NGX_CHAT_LAW_OPS];
    ngx_chat_law_watch_t      watches[NGX_CHAT_LAW_WATCHES];
    uint32_t                  ttl;    /* of the joins, seconds */
    void                     *data;   /* the law's own */
    ngx_uint_t                number; /* the same; and of _heard(), a count */
    ngx_uint_t                step;
    ngx_uint_t                steps;  /* total, to stop endless laws */
    ngx_uint_t                due;    /* answers */
    ngx_uint_t                inside; /* a call of the store */
    unsigned                  ended : 1;
    ngx_event_t               next;
    ngx_event_t               timer; /* of a pause */
    ngx_event_t               deadline;
    chat_buf_t                failed; /* empty: it holds so far */
    chat_buf_t                told;
};


/* ngx_chat_law.c */

void ngx_chat_law_init(ngx_chat_law_t *law, const ngx_chat_law_def_t *def,
                       chat_store_t *store, ngx_http_request_t *r);
void ngx_chat_law_destroy(ngx_chat_law_t *law);

/* Ends the law: it holds if nothing failed. Each law must call it. */
void ngx_chat_law_end(ngx_chat_law_t *law);

/* Fails the law; the first reason counts. */
void ngx_chat_law_fail(ngx_chat_law_t *law, const char *reason);
void ngx_chat_law_check(ngx_chat_law_t *law, ngx_uint_t holds,
                        const char *what);

/* The next step waits for this time; again: it is the same step. */
void ngx_chat_law_pause(ngx_chat_law_t *law, ngx_msec_t msec);
void ngx_chat_law_again(ngx_chat_law_t *law, ngx_msec_t msec);

/* The next step waits until watch w was notified once more. */
void ngx_chat_law_await(ngx_chat_law_t *law, ngx_uint_t w);

#define NGX_CHAT_LAW_HEARD 20 /* rounds */

/*
 * 1: watch w was notified, and the next step is `from` again. Notifications
 * may be spurious, so only this many in a row are an error.
 */
ngx_uint_t ngx_chat_law_heard(ngx_chat_law_t *law, ngx_uint_t w,
                              ngx_uint_t from);

/* Posts the next step if nothing is awaited; called at each event. */
void ngx_chat_law_proceed(ngx_chat_law_t *law);


/* ngx_chat_law_ask.c: the store's calls; i: the op, w: the watch, k: the key */

void ngx_chat_law_join_facts(ngx_chat_law_t *law, ngx_int_t i, ngx_uint_t k,
                             const chat_fact_t *facts, size_t n);
void ngx_chat_law_watch_facts(ngx_chat_law_t *law, ngx_uint_t w, ngx_int_t i,
                              ngx_uint_t k, const chat_fact_t *facts,
                              size_t n);

/* Facts as text: "field=value field=value+payload". */
void ngx_chat_law_join(ngx_chat_law_t *law, ngx_int_t i, ngx_uint_t k,
                       const char *text);
void ngx_chat_law_watch(ngx_chat_law_t *law, ngx_uint_t w, ngx_int_t i,
                        ngx_uint_t k, const char *text);
void ngx_chat_law_unwatch(ngx_chat_law_t *law, ngx_uint_t w);

/* Fields as text: "field field". */
void ngx_chat_law_payloads(ngx_chat_law_t *law, ngx_uint_t i, ngx_uint_t k,
                           const char *text);
void ngx_chat_law_payloads_of(ngx_chat_law_t *law, ngx_uint_t i, ngx_uint_t k,
                              const chat_fact_t *facts, size_t n);
void ngx_chat_law_drop_facts(ngx_chat_law_t *law, ngx_uint_t k,
                             const chat_fact_t *facts, size_t n);
void ngx_chat_law_drop(ngx_chat_law_t *law, ngx_uint_t k, const char *text);
void ngx_chat_law_append(ngx_chat_law_t *law, ngx_uint_t k, uint64_t position,
                         chat_str_t bytes, int last, uint64_t keep);
void ngx_chat_law_read_log(ngx_chat_law_t *law, ngx_uint_t i, ngx_uint_t k,
                           uint64_t position);
void ngx_chat_law_clear(ngx_chat_law_t *law, ngx_uint_t k);
void ngx_chat_law_flush(ngx_chat_law_t *law);
void ngx_chat_law_cancel(ngx_chat_law_t *law, ngx_uint_t i);

/* Frees the rest of op i, watch w. */
void ngx_chat_law_free_op(ngx_chat_law_op_t *slot);
void ngx_chat_law_free_watch(ngx_chat_law_watch_t *slot);


/* ngx_chat_law_text.c */

#define NGX_CHAT_LAW_FACTS 32 /* in one text */

/* Reads text, which the facts then point into; returns their number. */
size_t ngx_chat_law_read(const char *text, chat_fact_t *facts);

/* The facts by field, without wait/<worker>, in the same form. */
void ngx_chat_law_write(chat_buf_t *buf, const chat_fact_t *facts, size_t n);

/* Fails unless op i was answered with exactly these. */
void ngx_chat_law_expect(ngx_chat_law_t *law, ngx_uint_t i, const char *text);

/* The fact of this field in the answer to op i, or NULL. */
const chat_fact_t *ngx_chat_law_find(ngx_chat_law_t *law, ngx_uint_t i,
                                     chat_str_t field);


/* The laws, file by file. */
extern const ngx_chat_law_def_t ngx_chat_laws_of_joins[];
extern const ngx_chat_law_def_t ngx_chat_laws_of_bytes[];
extern const ngx_chat_law_def_t ngx_chat_laws_of_payloads[];
extern const ngx_chat_law_def_t ngx_chat_laws_of_ops[];
extern const ngx_chat_law_def_t ngx_chat_laws_of_watches[];
extern const ngx_chat_law_def_t ngx_chat_laws_of_unwatching[];
extern const ngx_chat_law_def_t ngx_chat_laws_of_workers[];
extern const ngx_chat_law_def_t ngx_chat_laws_of_logs[];
extern const ngx_chat_law_def_t ngx_chat_laws_of_pieces[];

/* Not laws: the acts of tests with several workers. */
extern const ngx_chat_law_def_t ngx_chat_acts[];

#endif /* NGX_CHAT_LAW_H */
