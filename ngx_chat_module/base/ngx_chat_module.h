/*
 * ngx_chat_module.h: what the files of the glue share: the context of a
 * request, and which file does what with it.
 *
 * The life of a request: ngx_chat_phase.c takes its events and carries out
 * actions; ngx_chat_body.c reads and parses the body; ngx_chat_decide.c asks
 * the store and sets the action (ctx->act);
 * ngx_chat_hold.c keeps it waiting; ngx_chat_complete.c completes its body;
 * ngx_chat_follow.c gives it another's answer; ngx_chat_reply.c answers in
 * place of an upstream; ngx_chat_filter.c passes the answer on;
 * ngx_chat_attempt.c tells the store what became of it. ngx_chat_results.c
 * takes external results.
 * Must not know: wire formats, how a store stores.
 */

#ifndef NGX_CHAT_MODULE_H
#define NGX_CHAT_MODULE_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "facts/chat_batch.h"
#include "dialect/chat_dialect.h"
#include "policy/chat_gate.h"
#include "policy/chat_merge.h"
#include "facts/chat_store.h"
#include "stream/chat_stream.h"
#include "follow/chat_follow.h"

#include "base/ngx_chat_conf.h"
#include "base/ngx_chat_headers.h"

/* $chat_verdict */
typedef enum {
    NGX_CHAT_VERDICT_NONE, /* not a request that we decide about */
    NGX_CHAT_VERDICT_PASSED,
    NGX_CHAT_VERDICT_HELD,
    NGX_CHAT_VERDICT_RELEASED,
    NGX_CHAT_VERDICT_ATTACHED,
    NGX_CHAT_VERDICT_EMPTY,
    NGX_CHAT_VERDICT_CONFLICT,
    NGX_CHAT_VERDICT_BOUNCED,
    NGX_CHAT_VERDICT_SUPERSEDED,
    NGX_CHAT_VERDICT_UNMANAGED,
    NGX_CHAT_VERDICT_REFUSED, /* past a bound */
    NGX_CHAT_VERDICT_BYPASS   /* the store could not be asked */
} ngx_chat_verdict_e;

typedef enum {
    NGX_CHAT_BODY,      /* awaits its body; then ASKING or GONE_ON */
    NGX_CHAT_ASKING,    /* awaits the store; then any of the next */
    NGX_CHAT_WAITING,   /* held or a sibling: awaits a change or its bound */
    NGX_CHAT_FOLLOWING, /* gets another request's answer */
    NGX_CHAT_GONE_ON,   /* awaits the upstream's answer */
    NGX_CHAT_ANSWERED   /* the module itself has answered */
} ngx_chat_state_e;

/* What happens to a request before it goes on or is answered. */
typedef enum {
    NGX_CHAT_EVENT_BODY,       /* the body was parsed */
    NGX_CHAT_EVENT_FACTS,      /* ctx->act was decided */
    NGX_CHAT_EVENT_PAYLOADS,   /* they were fetched; payloads.rc */
    NGX_CHAT_EVENT_HEAD,       /* the recording that it follows has begun */
    NGX_CHAT_EVENT_UNRECORDED, /* there is no recording to follow */
    NGX_CHAT_EVENT_TIMEOUT,    /* its hold has reached its bound */
    NGX_CHAT_EVENT_INDEXED     /* its stream is indexed, or cannot be */
} ngx_chat_event_e;

/* What is to be ended, in this order; each handler is safe at any time. */
typedef enum {
    /* the wait is over */
    NGX_CHAT_END_WATCH,
    NGX_CHAT_END_FOLLOW,
    NGX_CHAT_END_HOLD,
    NGX_CHAT_END_INDEX_HOLD,
    /* the request is over */
    NGX_CHAT_END_RESUME,
    NGX_CHAT_END_ORPHAN,
    NGX_CHAT_END_WRITER,
    NGX_CHAT_END_INDEX,
    NGX_CHAT_END_ATTEMPT,
    /* its pool is destroyed */
    NGX_CHAT_END_MEMORY,
    NGX_CHAT_ENDS
} ngx_chat_end_e;

typedef struct ngx_chat_ctx_s     ngx_chat_ctx_t;
typedef struct ngx_chat_lookup_s  ngx_chat_lookup_t;
typedef struct ngx_chat_follow_s  ngx_chat_follow_t;
typedef struct ngx_chat_writer_s  ngx_chat_writer_t;
typedef struct ngx_chat_orphan_s  ngx_chat_orphan_t;
typedef struct ngx_chat_indexed_s ngx_chat_indexed_t;
typedef struct ngx_chat_resume_s  ngx_chat_resume_t;
typedef struct ngx_chat_group_s   ngx_chat_group_t;
typedef struct ngx_chat_ask_s     ngx_chat_ask_t;

/*
 * Records what a client is sent, for others to follow: the hooks of record/
 * for response/, in each request that has gone on. A recording exists while
 * ctx->writer is set.
 */
typedef struct {
    /* the header is known: decides whether the answer is recorded */
    void (*begin)(ngx_chat_ctx_t *ctx);
    /* what the client is sent: pieces of a stream, or buffers */
    void (*pieces)(ngx_chat_ctx_t *ctx, const chat_piece_t *pieces, size_t n);
    void (*chain)(ngx_chat_ctx_t *ctx, ngx_chain_t *in);
    /* the call of the filter is over: writes what has come */
    void (*flush)(ngx_chat_ctx_t *ctx);
    /* all bytes have come; told: they say how the answer ended */
    void (*end)(ngx_chat_ctx_t *ctx, ngx_uint_t told);
    /* it cannot be recorded any further */
    void (*stop)(ngx_chat_ctx_t *ctx);
    /* where the recording is; NGX_DECLINED: there can be none */
    ngx_int_t (*key)(ngx_chat_ctx_t *ctx, chat_key_t *key);
    /* 1 if it is completed without its client, and without a follower */
    ngx_uint_t (*outlives)(ngx_chat_ctx_t *ctx);
} ngx_chat_recorder_t;

/* A question to the store; its verbs are in store/ngx_chat_ask.h. */
struct ngx_chat_ask_s {
    chat_store_op_t op;
    ngx_chat_ctx_t *ctx; /* the request's */
    void (*done)(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
                 size_t n);
};

/* One question for the payloads of one step. */
struct ngx_chat_lookup_s {
    ngx_chat_ask_t ask;    /* first */
    size_t         step;   /* index in rq.steps */
    ngx_uint_t     needed; /* the decision counts on all of its fields */
    chat_fact_t   *facts;  /* the answer, in the body's arena */
    size_t         count;
    ngx_uint_t     failed;
};

/* The body of a request, and what it says. */
typedef struct {
    ngx_str_t       text;
    chat_arena_t   *arena; /* of doc and rq; NULL while the request waits */
    chat_json_doc_t doc;
    chat_request_t  rq;
    chat_results_t  results; /* to be merged into it, or injected */
    chat_str_t      merged;  /* the text with them; or empty */
} ngx_chat_body_t;

/* The batch that a request answers, and what the store says of it. */
typedef struct {
    ngx_chat_ask_t    ask;  /* the question that the request waits for */
    chat_arena_t     *look; /* lives until the next look at the store */
    chat_question_t   q;
    u_char            id[NGX_INT_T_LEN + 1]; /* of the request, in claims */
    chat_decision_t   decision;
    chat_str_t       *fields; /* of the results that the store completes */
    size_t            nfields;
    chat_str_t       *missing; /* ids */
    size_t            nmissing;
    chat_str_t        cors;  /* header lines of the asking response */
    uint64_t          since; /* when the batch was first seen, ms */
    chat_call_t      *known; /* chained: calls of the batch */
    size_t            nknown;
    ngx_chat_group_t *group;  /* requests that wait for the batch; or NULL */
    ngx_queue_t       mates;  /* in the group */
    ngx_uint_t        polls;  /* for a chain that was not known */
    uint64_t          asked;  /* when the store was asked, us */
    uint64_t          asking; /* time spent on that, us */

    unsigned full : 1;     /* the store had no room */
    unsigned partial : 1;  /* the batch was seen incomplete */
    unsigned sealed : 1;   /* all its calls are known */
    unsigned opened : 1;   /* a stream has told of it */
    unsigned external : 1; /* the body has no result, but the store does */
    unsigned watching : 1;
    unsigned again : 1;    /* something changed while asking */
    unsigned rejoined : 1; /* what the store had lost is being joined */
} ngx_chat_barrier_t;

/* Payloads that are being fetched. */
typedef struct {
    ngx_chat_lookup_t *items;
    size_t             count;
    size_t             due;     /* answers */
    ngx_int_t          rc;      /* NGX_DECLINED: the body cannot take them */
    ngx_uint_t         merging; /* they go into the body */
} ngx_chat_payloads_t;

/* The time that a request is held, or waits for another one's answer. */
typedef struct {
    ngx_queue_t queue; /* among the worker's */
    ngx_event_t timer;
    ngx_msec_t  started;
    ngx_msec_t  bound;  /* when the hold ends; 0: no bound */
    ngx_msec_t  total;  /* of a wait that is over */
    ngx_queue_t tenant; /* among its tenant's, while counted */
    size_t      weight; /* bytes that count as held */
    uint64_t    found;  /* when the batch was seen complete, us */
    ngx_uint_t  shown;  /* its batch among those in the status, from 1 */

    unsigned held : 1;    /* it waits */
    unsigned counted : 1; /* among its tenant's requests */
    unsigned yields : 1;  /* another request has taken its place */
} ngx_chat_wait_t;

/* The claim of a request. */
typedef struct {
    uint32_t    k;        /* the claim that stands; 0: none */
    uint32_t    claiming; /* one that may stand: void it on the way out */
    ngx_queue_t queue;    /* among the worker's, while live */
    unsigned    live : 1; /* its end is due */

    /* without a claim: delivered/ facts, put if the answer is 2xx */
    chat_facts_t carried;
} ngx_chat_attempt_t;

/* The answer to a request, from an upstream or the module. */
typedef struct {
    chat_stream_t *stream;
    ngx_str_t      injected;  /* events, sent before or behind the first one */
    size_t         ninjected; /* results in it */
    chat_follow_t  injector;  /* where they go */
    void         **filters;   /* early: what the filters keep of the request */
    ngx_chain_t   *free;
    ngx_chain_t   *busy;
    ngx_chain_t   *taken; /* input whose bytes go out as bytes of our own */
    uint32_t       status;
    chat_end_e     end; /* once it is finished */

    ngx_int_t   upstream_rc;
    const char *breaks;          /* why we end the upstream; or NULL */
    const char *upstream_reason; /* eof, reset, timeout, malformed, stall;
                                    NULL: it did not break off */
    ngx_event_t stall;           /* ends the silence of content */
    uint32_t    content;         /* frames of it that were seen */
    void (*upstream_finalize)(ngx_http_request_t *r, ngx_int_t rc);
    ngx_int_t (*upstream_init)(void *data);
    ngx_int_t (*upstream_filter)(void *data, ssize_t bytes);
    void  *upstream_data;
    size_t upstream_burst; /* bytes since it last made room for others */

    unsigned early : 1;       /* 200 and a comment were sent while waiting */
    unsigned local : 1;       /* the module has made it */
    unsigned suppressed : 1;  /* early, and the upstream's is no stream */
    unsigned passthrough : 1; /* hands off the stream for good */
    unsigned filtered : 1;    /* the header filter has seen it */
    unsigned injected_sent : 1;
    unsigned answered : 1;  /* answer/k or void/k was joined */
    unsigned has_last : 1;  /* last_buf was seen */
    unsigned finished : 1;  /* the stream's end is known */
    unsigned ended : 1;     /* end/k or void/k was joined */
    unsigned stopped : 1;   /* a client has asked to stop it */
    unsigned truncated : 1; /* it gets no last buffer */
    unsigned keepalive : 1; /* the client's, before the upstream ended */
} ngx_chat_response_t;

struct ngx_chat_ctx_s {
    ngx_http_request_t   *request;
    ngx_chat_loc_conf_t  *conf;
    ngx_chat_main_conf_t *main;
    ngx_chat_state_e      state;
    ngx_chat_verdict_e    verdict;
    const char           *reason;  /* of a refusal or bypass; or NULL */
    const chat_dialect_t *dialect; /* NULL: not recognised as chat */
    ngx_chat_headers_t    headers;
    chat_scope_t          scope;
    chat_arena_t         *kept;  /* lives as long as the request */
    ngx_uint_t           *freed; /* set when the context ends; or NULL */

    /* reports an event; it may end the request */
    void (*step)(ngx_chat_ctx_t *ctx, ngx_chat_event_e event);
    chat_act_t         act;       /* what is done with the request */
    ngx_chat_verdict_e passes_as; /* act PASS */
    void (*ends[NGX_CHAT_ENDS])(ngx_chat_ctx_t *ctx); /* registered; or NULL */

    ngx_chat_body_t     body;
    ngx_chat_barrier_t  barrier;
    ngx_chat_payloads_t payloads;
    ngx_chat_wait_t     wait;
    ngx_chat_attempt_t  attempt;
    ngx_chat_response_t response;

    ngx_chat_follow_t *follow; /* of another request's answer; or NULL */
    const ngx_chat_recorder_t *recorder; /* once it has gone on */
    ngx_chat_writer_t  *writer;    /* of what the client is sent; or NULL */
    const char         *stream_id; /* in the stream index; or NULL */
    ngx_chat_indexed_t *indexed;   /* where it can be found again; or NULL */
    char               *hold;      /* id of its indexed hold; or NULL */
    ngx_chat_resume_t  *resume;    /* of a client that comes back; or NULL */
    ngx_chat_orphan_t  *orphan; /* once its upstream may outlive its client */

    unsigned managed : 1; /* its batch has a name */
    unsigned counted : 1; /* among the requests that are over */
};


extern ngx_module_t ngx_chat_module;

/* ngx_chat_conf_check.c */

/*
 * Refuses chat_results and chat_resume without chat_tenant; warns where the
 * bodies of chat requests would go through a file.
 */
char *ngx_chat_check_location(ngx_conf_t *cf, ngx_chat_loc_conf_t *conf);

/* ngx_chat_variables.c */
ngx_int_t ngx_chat_add_variables(ngx_conf_t *cf);

/* ngx_chat_phase.c */

/* The phase handler (PRECONTENT). */
ngx_int_t ngx_chat_handler(ngx_http_request_t *r);

/*
 * The whole body of the request as one run of bytes. NGX_DECLINED: it is
 * longer than max.
 */
ngx_int_t ngx_chat_read_body(ngx_http_request_t *r, size_t max,
                             ngx_str_t *body);

/* The context of the request, after internal redirects too; or NULL. */
ngx_chat_ctx_t *ngx_chat_get_ctx(ngx_http_request_t *r);

/* Runs the registered ends of this range. */
void ngx_chat_end(ngx_chat_ctx_t *ctx, ngx_chat_end_e from, ngx_chat_end_e to);

/* The context that a request is worked on with; NULL: no memory. */
ngx_chat_ctx_t *ngx_chat_create_ctx(ngx_http_request_t  *r,
                                    ngx_chat_loc_conf_t *conf);

/* ms since the epoch */
uint64_t ngx_chat_now(void);

/* ngx_chat_decide.c */

/*
 * Drops the oldest batches and streams from a conversation's index, whose
 * facts these are, so that a look at it stays short.
 */
void ngx_chat_decide_trim(chat_store_t *store, const chat_key_t *key,
                          const chat_fact_t *facts, size_t n);

/*
 * ms until a remote store may show what another worker has put, counted in
 * *polls; 0: there is no point in another look.
 */
ngx_msec_t ngx_chat_decide_pause(const chat_store_t *store, ngx_uint_t *polls);

/* chat_store_t's lost(). */
void ngx_chat_decide_lost(chat_store_t *store, int all);

/* ngx_chat_value.c */

/* The value of a directive; the captures of the request stay as they are. */
ngx_int_t ngx_chat_value(ngx_http_request_t *r, ngx_http_complex_value_t *of,
                         ngx_str_t *value);

/* ngx_chat_tenant.c */

/*
 * The digest of scope and tenant that every name of the request begins with.
 * NGX_DECLINED: the tenant is empty; NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_tenant(ngx_http_request_t        *r,
                          const ngx_chat_loc_conf_t *conf,
                          chat_digest_t             *tenant);

/*
 * Fills in the tenant of ctx->scope, whose conversation is known. Warns, once
 * per worker, of an empty one, and of a conversation that was seen under
 * another tenant before. NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_tenant_find(ngx_chat_ctx_t *ctx);

/* ngx_chat_complete.c */

/* Puts events with ctx->body.results into ctx->response.injected. */
ngx_int_t ngx_chat_complete_inject(ngx_chat_ctx_t *ctx);

/* ngx_chat_hold.c */

/* Looks at the batch once more, now or after the answer under way. */
void ngx_chat_watch_look(ngx_chat_ctx_t *ctx);

ngx_int_t ngx_chat_hold_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle);

/* ngx_chat_reply.c */

/*
 * Ends the request with the reply; in band where 200 was sent. EMPTY and
 * BOUNCE inject ctx->body.results.
 */
void ngx_chat_reply(ngx_chat_ctx_t *ctx, chat_reply_e reply);

/*
 * The answer of another request, which this one waits for, broke off: 502 with
 * the dialect's error, or its interrupted event where 200 was sent.
 */
void ngx_chat_reply_broken(ngx_chat_ctx_t *ctx, const char *reason);

/*
 * The dialect's error for an upstream that answered with this status, or 2xx
 * without an event stream, as one buffer in the pool; NULL: no memory.
 */
ngx_buf_t *ngx_chat_reply_in_band(ngx_chat_ctx_t *ctx, ngx_uint_t status);

/* The CORS headers of the asking response, where the answer has none. */
ngx_int_t ngx_chat_answer_cors(ngx_chat_ctx_t *ctx);

/*
 * The response ends without its end (HTTP/1.1: no last chunk, then FIN;
 * HTTP/2: RST_STREAM), once all that was written has been sent. The caller
 * sends no last buffer, and finalizes the request as after one.
 */
void ngx_chat_answer_truncate(ngx_chat_ctx_t *ctx);

/*
 * Truncates the response behind an error event, where clients of the dialect
 * may ignore that event (dialect->breaks). The caller then asks
 * ctx->response.truncated for the kind of its last buffer.
 */
void ngx_chat_answer_break(ngx_chat_ctx_t *ctx);

/*
 * The dialect's event for a stream that broke off, for a client that was sent
 * none of its events, as one buffer in the pool; NULL: no memory.
 */
ngx_buf_t *ngx_chat_answer_interrupted(ngx_chat_ctx_t *ctx, const char *reason,
                                       ngx_uint_t resumable);

/*
 * The answer of a content handler: the text whole, which is freed, and what
 * the handler is to return or the request to be finalized with.
 */
ngx_int_t ngx_chat_answer_text(ngx_http_request_t *r, ngx_uint_t status,
                               const char *type, chat_buf_t *text);

/* A response header; key and value must outlive the request. */
ngx_int_t ngx_chat_answer_add_header(ngx_http_request_t *r, ngx_str_t key,
                                     ngx_str_t value);

/* ngx_chat_results.c */

/* chat_results: the content handler of results from outside. */
char *ngx_chat_conf_results(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* ngx_chat_filter.c */

/* 1 if a Content-Type is that of an event stream. */
ngx_uint_t ngx_chat_filter_is_event_stream(chat_str_t type);

/* What the directives say of reading a stream; the rest of sc is zeroed. */
void ngx_chat_filter_conf(ngx_chat_loc_conf_t  *conf,
                          const chat_dialect_t *dialect,
                          chat_stream_conf_t   *sc);

ngx_int_t ngx_chat_filter_init(ngx_conf_t *cf);

/* ngx_chat_resume.c */

/* chat_resume: the content handler of clients that come back. */
char *ngx_chat_conf_resume(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* ngx_chat_upstream.c */

/*
 * Ends the upstream as one that sends nothing more. NGX_OK: the request may be
 * gone; NGX_AGAIN: its client has to take something first; NGX_DECLINED: it
 * has no stream that we read.
 */
ngx_int_t ngx_chat_upstream_break(ngx_chat_ctx_t *ctx, const char *reason);

/* ngx_chat_orphan.c */

/* Stands between the client's leaving and the upstream; safe at any time. */
void ngx_chat_orphan_hook(ngx_chat_ctx_t *ctx);

/* The client is gone. 1: the upstream is kept, for now at least. */
ngx_uint_t ngx_chat_orphan_begin(ngx_chat_ctx_t *ctx);

/* 1 if the client is gone and the upstream is kept. */
ngx_uint_t ngx_chat_orphan_is(ngx_chat_ctx_t *ctx);

/* There is nothing to be kept: the answer ends as it does without us. */
void ngx_chat_orphan_cancel(ngx_chat_ctx_t *ctx);

/* The request is over. */
void ngx_chat_orphan_close(ngx_chat_ctx_t *ctx);

/* ngx_chat_stall.c */
char *ngx_chat_conf_stall(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

/* The stream has begun, or got on; its silence is bounded from now on. */
void ngx_chat_stall_begin(ngx_chat_ctx_t *ctx);
void ngx_chat_stall_progress(ngx_chat_ctx_t *ctx);

/* The client has taken what waited for it: that wait was no silence. */
void ngx_chat_stall_restart(ngx_chat_ctx_t *ctx);

/* It is over; safe at any time. */
void ngx_chat_stall_end(ngx_chat_ctx_t *ctx);

/* ngx_chat_attempt.c */

#define NGX_CHAT_LOG_ID 12 /* bytes of an id in a line of the log */

/*
 * Writes the first bytes of an id at p, "-" for none, and answers where they
 * end: enough to find it, too little to use it.
 */
u_char *ngx_chat_log_id(u_char *p, chat_str_t id);

/* The answer's header is known: answer/k or void/k. */
void ngx_chat_attempt_answer(ngx_chat_ctx_t *ctx, uint32_t status);

/* The facts that the stream has come up with. */
void ngx_chat_attempt_facts(ngx_chat_ctx_t *ctx);

/* The answer is over: end/k, and one line in the log. */
void ngx_chat_attempt_end(ngx_chat_ctx_t *ctx, chat_end_e end);

/* 1 if no upstream has had a byte of the request, nor its client an answer. */
ngx_uint_t ngx_chat_attempt_unsent(ngx_chat_ctx_t *ctx);

#endif /* NGX_CHAT_MODULE_H */
