/*
 * ngx_chat_ctx.h: the context of a request, shared by all files of the glue.
 *
 * Each layer owns a part of it: request/ the body, the batch, the wait and
 * the attempt; response/ the answer and its recording; record/ the follower.
 * Lower layers report events by ctx->step() and never call request/.
 */

#ifndef NGX_CHAT_CTX_H
#define NGX_CHAT_CTX_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "bytes/chat_arena.h"
#include "dialect/chat_dialect.h"
#include "policy/chat_gate.h"
#include "policy/chat_merge.h"
#include "facts/chat_store.h"
#include "facts/chat_conversation.h"
#include "stream/chat_stream.h"

#include "base/ngx_chat_conf.h"
#include "base/ngx_chat_headers.h"

typedef enum {
    NGX_CHAT_BODY,      /* awaits its body; then ASKING or GONE_ON */
    NGX_CHAT_ASKING,    /* awaits the store; then any of the next */
    NGX_CHAT_WAITING,   /* held or a sibling: awaits a change or its bound */
    NGX_CHAT_FOLLOWING, /* gets another request's answer */
    NGX_CHAT_GONE_ON,   /* awaits the upstream's answer */
    NGX_CHAT_ANSWERED   /* the module itself has answered */
} ngx_chat_state_e;

/* What happens to a request. */
typedef enum {
    NGX_CHAT_EVENT_BODY,       /* NGINX has read the body */
    NGX_CHAT_EVENT_DECIDED,    /* ctx->act says what to do */
    NGX_CHAT_EVENT_PAYLOADS,   /* they were fetched; payloads.rc */
    NGX_CHAT_EVENT_HEAD,       /* the recording that it follows has begun */
    NGX_CHAT_EVENT_UNRECORDED, /* there is no recording to follow */
    NGX_CHAT_EVENT_TIMEOUT,    /* its wait has reached its bound */
    NGX_CHAT_EVENT_INDEXED,    /* its stream is indexed, or cannot be */
    NGX_CHAT_EVENT_ANSWER,     /* the answer's header: response.status */
    NGX_CHAT_EVENT_STREAM,     /* what was made of the stream is sent next */
    NGX_CHAT_EVENT_END         /* the answer is over; response.end, where it
                                  is not NONE, says how */
} ngx_chat_event_e;

/* Cleanups, in the order in which they run; each is safe at any time. */
typedef enum {
    /* the wait is over */
    NGX_CHAT_CLEANUP_WATCH,
    NGX_CHAT_CLEANUP_FOLLOW,
    NGX_CHAT_CLEANUP_HOLD,
    NGX_CHAT_CLEANUP_INDEX_HOLD,
    /* the request is over */
    NGX_CHAT_CLEANUP_ENDPOINT,
    NGX_CHAT_CLEANUP_ORPHAN,
    NGX_CHAT_CLEANUP_WRITER,
    NGX_CHAT_CLEANUP_INDEX,
    NGX_CHAT_CLEANUP_ATTEMPT,
    NGX_CHAT_CLEANUP_METRICS,
    /* its pool is destroyed */
    NGX_CHAT_CLEANUP_FILTER,
    NGX_CHAT_CLEANUP_MEMORY,
    NGX_CHAT_CLEANUPS
} ngx_chat_cleanup_e;

typedef struct ngx_chat_ctx_s     ngx_chat_ctx_t;
typedef struct ngx_chat_follow_s  ngx_chat_follow_t;
typedef struct ngx_chat_writer_s  ngx_chat_writer_t;
typedef struct ngx_chat_orphan_s  ngx_chat_orphan_t;
typedef struct ngx_chat_filter_s  ngx_chat_filter_t;
typedef struct ngx_chat_indexed_s ngx_chat_indexed_t;
typedef struct ngx_chat_resume_s  ngx_chat_resume_t;
typedef struct ngx_chat_results_s ngx_chat_results_t;
typedef struct ngx_chat_group_s   ngx_chat_group_t;
typedef struct ngx_chat_holder_s  ngx_chat_holder_t;
typedef struct ngx_chat_ask_s     ngx_chat_ask_t;
typedef struct ngx_chat_lookup_s  ngx_chat_lookup_t;

/* A query to the store; its verbs are in store/ngx_chat_ask.h. */
struct ngx_chat_ask_s {
    chat_store_op_t op;
    ngx_chat_ctx_t *ctx; /* the request's */
    void (*done)(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
                 size_t n);
};

/* A timer of a request; its verbs are below. */
typedef struct {
    ngx_event_t event; /* first */
    void (*fire)(ngx_chat_ctx_t *ctx);
} ngx_chat_timer_t;

/* One query for the payloads of one step. */
struct ngx_chat_lookup_s {
    ngx_chat_ask_t     ask;    /* first */
    ngx_chat_lookup_t *next;   /* of the request: for a later step */
    size_t             step;   /* index in rq.steps */
    ngx_uint_t         needed; /* the decision counts on all of its fields */
    chat_facts_t       facts;  /* the answer, in the body's arena */
};

/* The body of a request, and what it says. */
typedef struct {
    ngx_buf_t      *header_in; /* of the request, while its body is read */
    ngx_str_t       text;
    chat_arena_t   *arena; /* of doc, later of rq; NULL while the request
                              waits */
    chat_arena_t   *kept;  /* of rq; NULL once the tree is freed */
    chat_json_doc_t doc;
    chat_request_t  rq;
    chat_results_t  results; /* to be merged into it, or injected */
    chat_str_t      merged;  /* the text with them; or empty */

    unsigned lacks : 1; /* by chat_request_lacks() */
} ngx_chat_body_t;

/* The batch that a request answers, and what the store says of it. */
typedef struct {
    ngx_chat_ask_t    ask;  /* the query that the request waits for */
    chat_arena_t     *look; /* lives until the next look at the store */
    chat_question_t   q;
    u_char            id[CHAT_DIGITS]; /* where q.request is */
    chat_decision_t   decision;
    chat_needs_t      needs;
    chat_str_t        cors;  /* header lines of the asking response */
    uint64_t          since; /* when the batch was first seen, ms */
    chat_call_t      *known; /* chained: calls of the batch */
    size_t            nknown;
    ngx_chat_group_t *group;  /* requests that wait for the batch; or NULL */
    ngx_queue_t       mates;  /* in the group */
    ngx_uint_t        polls;  /* for a batch that was not known */
    uint64_t          asked;  /* when the store was asked, us */
    uint64_t          asking; /* time spent on that, us */

    unsigned full : 1;    /* the store had no room */
    unsigned partial : 1; /* the batch was seen incomplete */
    unsigned sealed : 1;  /* all its calls are known */
    unsigned opened : 1;  /* a stream has told of it */
    unsigned indexed : 1; /* only the conversation index names it */
    unsigned watching : 1;
    unsigned again : 1;    /* something changed while asking */
    unsigned rejoined : 1; /* what the store had lost is being joined */
} ngx_chat_barrier_t;

/* Payloads that are being fetched. */
typedef struct {
    chat_facts_t       early; /* came with the claim; have an arena */
    ngx_chat_lookup_t *items; /* in the body's arena */
    size_t             due;   /* answers */
    ngx_int_t          rc;    /* NGX_DECLINED: the body cannot take them */
} ngx_chat_payloads_t;

/* The time that a request is held, or waits for another one's answer. */
typedef struct {
    ngx_queue_t        queue; /* among the worker's */
    ngx_chat_timer_t   timer;
    ngx_msec_t         started;
    ngx_msec_t         bound;  /* when the wait ends; 0: no bound */
    uint32_t           k;      /* the attempt that it waits for; 0: none */
    ngx_msec_t         total;  /* of a wait that is over */
    ngx_chat_holder_t *holder; /* its tenant, while it counts as held */
    ngx_queue_t        tenant; /* among the holder's */
    size_t             weight; /* bytes that count as held */
    uint64_t           found;  /* when the batch was seen complete, us */
    ngx_uint_t         shown; /* its batch among those in the status, from 1 */

    chat_reason_e yields; /* another request has taken its place; or 0 */

    unsigned held : 1; /* it waits */
} ngx_chat_wait_t;

/* The claim of a request. */
typedef struct {
    uint32_t    k;         /* the claim that stands; 0: none */
    uint32_t    claiming;  /* one that may stand: void it on the way out */
    ngx_queue_t queue;     /* among the worker's, while live */
    unsigned    live : 1;  /* its end is due */
    unsigned    unput : 1; /* answer/k waits for bytes, or for the end */

    /* without a claim: delivered/ facts, put if the answer is 2xx */
    chat_facts_t delivered;
} ngx_chat_attempt_t;

typedef enum {
    NGX_CHAT_ANSWER_UPSTREAM,
    NGX_CHAT_ANSWER_LOCAL,     /* the module has made it */
    NGX_CHAT_ANSWER_SUPPRESSED /* early, and the upstream's is no stream: an
                                  error event takes its place */
} ngx_chat_answer_e;

/* The answer to a request, from an upstream or the module. */
typedef struct {
    chat_stream_t *stream;
    chat_str_t  injected;  /* events to be sent, before or behind the first */
    size_t      ninjected; /* results in it */
    void      **filters;   /* early: what the filters keep of the request */
    uint32_t    status;
    chat_end_e  end; /* once it is finished */
    ngx_int_t   upstream_rc;
    const char *upstream_reason; /* eof, reset, timeout, malformed, stall;
                                       NULL: it did not break off */

    ngx_chat_answer_e mode;

    unsigned early : 1;     /* 200 and a comment were sent while waiting */
    unsigned answered : 1;  /* the status is known */
    unsigned has_last : 1;  /* last_buf was seen */
    unsigned finished : 1;  /* the stream's end is known */
    unsigned ended : 1;     /* end/k or void/k was joined */
    unsigned stopped : 1;   /* a client has asked to stop it */
    unsigned truncated : 1; /* it gets no last buffer */
    unsigned recorded : 1;  /* it has had a writer, which says when it ends */
} ngx_chat_response_t;

struct ngx_chat_ctx_s {
    ngx_http_request_t   *request;
    ngx_chat_loc_conf_t  *conf;
    ngx_chat_worker_t    *worker;
    ngx_chat_state_e      state;
    chat_reason_e         reason;   /* of its verdict, so far */
    const chat_dialect_t *expected; /* by "chat"; NULL: any */
    const chat_dialect_t *dialect;  /* NULL: not recognised as chat */
    ngx_chat_headers_t    headers;
    chat_scope_t          scope;
    chat_arena_t         *kept;  /* lives as long as the request */
    ngx_uint_t           *freed; /* set when the context ends; or NULL */

    /* reports an event; it may end the request */
    void (*step)(ngx_chat_ctx_t *ctx, ngx_chat_event_e event);
    chat_act_t act; /* what is done with the request */
    void (*cleanups[NGX_CHAT_CLEANUPS])(ngx_chat_ctx_t *ctx); /* or NULL */

    ngx_chat_body_t     body;
    ngx_chat_barrier_t  barrier;
    ngx_chat_payloads_t payloads;
    ngx_chat_wait_t     wait;
    ngx_chat_attempt_t  attempt;
    ngx_chat_response_t response;

    ngx_chat_follow_t  *follow;    /* of another request's answer; or NULL */
    ngx_chat_writer_t  *writer;    /* of what the client is sent; or NULL */
    const char         *stream_id; /* in the stream index; or NULL */
    ngx_chat_indexed_t *indexed;   /* where it can be found again; or NULL */
    char hold_id[CHAT_LISTED_ID + 1]; /* of its indexed hold; or empty */
    ngx_chat_resume_t  *resume;       /* of chat_resume; or NULL */
    ngx_chat_results_t *results;      /* of chat_results; or NULL */
    ngx_chat_filter_t  *filter;       /* of an upstream's answer; or NULL */
    ngx_chat_orphan_t  *orphan; /* once its upstream may outlive its client */

    ngx_uint_t managed; /* its batch has a name */
    ngx_uint_t counted; /* among the requests that are over */
};


extern ngx_module_t ngx_chat_module;

/* ms since the epoch */
uint64_t ngx_chat_now(void);

/* Fills a key that no client or provider can guess. NGX_ERROR: logged. */
ngx_int_t ngx_chat_random(void *key, size_t size, ngx_log_t *log);

/* The context of the request, after internal redirects too; or NULL. */
ngx_chat_ctx_t *ngx_chat_get_ctx(ngx_http_request_t *r);

/*
 * A new context, which ends with the request; the caller sets step() and
 * registers cleanups. NULL: no memory.
 */
ngx_chat_ctx_t *ngx_chat_create_ctx(ngx_http_request_t  *r,
                                    ngx_chat_loc_conf_t *conf);

/* Sets q.worker and q.request: the name of the request in claims. */
void ngx_chat_name(ngx_chat_ctx_t *ctx);

/* Frees the tree of the body, and what rq points to. */
void ngx_chat_ctx_free_body(ngx_chat_ctx_t *ctx);

/* Prepares an event; the one of a request is better an ngx_chat_timer_t. */
void ngx_chat_event_set(ngx_event_t *ev, ngx_event_handler_pt handler,
                        void *data, ngx_log_t *log);

/* Stops the event's timer, and takes the event out of the posted ones. */
void ngx_chat_event_cancel(ngx_event_t *ev);

/*
 * Sets the timer: fire() is called with the log context of the request, and
 * posted requests run after it. It may end the request. The timer is stopped
 * by ngx_chat_event_cancel(&timer->event), which is safe at any time.
 */
void ngx_chat_timer(ngx_chat_ctx_t *ctx, ngx_chat_timer_t *timer,
                    ngx_msec_t msec, void (*fire)(ngx_chat_ctx_t *ctx));

static inline chat_str_t
ngx_chat_str(const ngx_str_t *s)
{
    return chat_str(s->data, s->len);
}


/* worker_shutdown_timeout, ms; 0: none. */
ngx_msec_t ngx_chat_shutdown_timeout(void);

/* Runs the registered cleanups of this range. */
void ngx_chat_cleanup(ngx_chat_ctx_t *ctx, ngx_chat_cleanup_e from,
                      ngx_chat_cleanup_e to);

#define NGX_CHAT_LOG_ID 12 /* bytes of an id in a line of the log */

/*
 * Writes at most so many bytes of the text at p, with "?" for those that may
 * not be in a line of the log; returns their end.
 */
u_char *ngx_chat_log_text(u_char *p, chat_str_t text, size_t most);

/*
 * Writes the first bytes of an id at p, "-" for none, and returns their end:
 * enough to find it, too little to use it.
 */
u_char *ngx_chat_log_id(u_char *p, chat_str_t id);

/* ngx_chat_value.c */

/* The value of a directive; the captures of the request stay as they are. */
ngx_int_t ngx_chat_value(ngx_http_request_t *r, ngx_http_complex_value_t *of,
                         ngx_str_t *value);

#endif /* NGX_CHAT_CTX_H */
