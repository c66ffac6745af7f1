/*
 * ngx_chat_module.h: what the files of the glue share: the context of a
 * request, and which file does what with it.
 *
 * The life of a request: ngx_chat_phase.c reads and parses the body;
 * ngx_chat_decide.c asks the store and acts on the core's verdict;
 * ngx_chat_hold.c keeps it waiting; ngx_chat_complete.c completes its body;
 * ngx_chat_follow.c gives it another's answer; ngx_chat_reply.c answers in
 * place of an upstream; ngx_chat_filter.c passes the answer on;
 * ngx_chat_attempt.c tells the store what became of it. ngx_chat_results.c
 * takes results from outside of it all.
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

typedef struct ngx_chat_ctx_s     ngx_chat_ctx_t;
typedef struct ngx_chat_lookup_s  ngx_chat_lookup_t;
typedef struct ngx_chat_follow_s  ngx_chat_follow_t;
typedef struct ngx_chat_writer_s  ngx_chat_writer_t;
typedef struct ngx_chat_keep_s    ngx_chat_keep_t;
typedef struct ngx_chat_indexed_s ngx_chat_indexed_t;
typedef struct ngx_chat_resume_s  ngx_chat_resume_t;
typedef struct ngx_chat_group_s   ngx_chat_group_t;
typedef struct ngx_chat_ask_s     ngx_chat_ask_t;

/* A question to the store; its verbs are in store/ngx_chat_ask.h. */
struct ngx_chat_ask_s {
    chat_store_op_t op;
    ngx_chat_ctx_t *ctx; /* the request's */
    void (*done)(ngx_chat_ask_t *ask, chat_rc_e rc, const chat_fact_t *facts,
                 size_t n);
};

/* One question for the payloads of one step. */
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

    void (*next)(ngx_chat_ctx_t *ctx, ngx_int_t rc); /* no answer is due */

    ngx_chat_body_t     body;
    ngx_chat_barrier_t  barrier;
    ngx_chat_payloads_t payloads;
    ngx_chat_wait_t     wait;
    ngx_chat_attempt_t  attempt;
    ngx_chat_response_t response;

    ngx_chat_follow_t  *follow;  /* of another request's answer; or NULL */
    ngx_chat_writer_t  *writer;  /* of what the client is sent; or NULL */
    ngx_chat_indexed_t *indexed; /* where it can be found again; or NULL */
    char               *hold;    /* id of its indexed hold; or NULL */
    ngx_chat_resume_t  *resume;  /* of a client that comes back; or NULL */
    ngx_chat_keep_t    *keep;    /* once its upstream may outlive its client */

    unsigned managed : 1; /* its batch has a name */
    unsigned counted : 1; /* among the requests that are over */
};


extern ngx_module_t ngx_chat_module;

/* ngx_chat_conf_check.c */

/*
 * Refuses handlers that lack what they need, and warns of settings that do not
 * go together with chat.
 */
char *ngx_chat_check_location(ngx_conf_t *cf, ngx_chat_loc_conf_t *conf);

/* The same for what only the request to the upstream shows; once. */
void ngx_chat_check_answer(ngx_chat_ctx_t *ctx);

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

/* What a request is worked on with; NULL: no memory. */
ngx_chat_ctx_t *ngx_chat_create_ctx(ngx_http_request_t  *r,
                                    ngx_chat_loc_conf_t *conf);

/*
 * Parses ctx->body.text into ctx->body.rq. NGX_DECLINED: it is not chat;
 * NGX_ABORT: it is past a bound.
 */
ngx_int_t ngx_chat_parse(ngx_chat_ctx_t *ctx);

/* Lets the request go on to its content handler. */
void ngx_chat_go_on(ngx_chat_ctx_t *ctx, ngx_chat_verdict_e verdict);

/* What a request is named in claims and logs; ms since the epoch. */
uint64_t ngx_chat_now(void);

/* ngx_chat_name.c */

/* Fills q.key with what is to be asked first; CHAT_DECLINED: not managed. */
chat_rc_e ngx_chat_name(ngx_chat_ctx_t *ctx);

/*
 * Has the batch's own name in q.key, and then calls next(ctx, rc): NGX_OK, or
 * NGX_DECLINED (there is none). next may be called at once.
 */
void ngx_chat_name_find(ngx_chat_ctx_t *ctx,
                        void (*next)(ngx_chat_ctx_t *ctx, ngx_int_t rc));

/* The same of the conversation's newest batch, whatever the body names. */
void ngx_chat_name_newest(ngx_chat_ctx_t *ctx,
                          void (*next)(ngx_chat_ctx_t *ctx, ngx_int_t rc));

/*
 * Takes the oldest batches and streams out of a conversation's record, whose
 * facts these are, so that a look at it stays short.
 */
void ngx_chat_name_trim(chat_store_t *store, const chat_key_t *key,
                        const chat_fact_t *facts, size_t n);

/*
 * Writes the batch of a request that waits into the conversation's record,
 * where no stream has: it can be settled from outside then.
 */
void ngx_chat_name_record(ngx_chat_ctx_t *ctx);

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

/* ngx_chat_decide.c */

/* A request whose body was recognised: asks the store, or lets it go on. */
void ngx_chat_gate(ngx_chat_ctx_t *ctx);

/* A look at its batch was answered; batch is valid where rc is CHAT_OK. */
void ngx_chat_gate_looked(ngx_chat_ctx_t *ctx, chat_rc_e rc,
                          const chat_batch_t *batch);

/*
 * The request waits for the store: puts facts (NULL: none) and asks for all
 * facts of the key; the continuation may end the request.
 */
void ngx_chat_gate_ask(ngx_chat_ctx_t *ctx, const chat_key_t *key,
                       const chat_facts_t *facts,
                       void (*done)(ngx_chat_ask_t *ask, chat_rc_e rc,
                                    const chat_fact_t *facts, size_t n));

/* The same of its batch, to decide anew. */
void ngx_chat_gate_look(ngx_chat_ctx_t *ctx, const chat_facts_t *facts);

/* Before a question: the request waits for the store. */
void ngx_chat_gate_waits(ngx_chat_ctx_t *ctx);

/* The continuation of a look. */
void ngx_chat_gate_done(ngx_chat_ask_t *ask, chat_rc_e rc,
                        const chat_fact_t *facts, size_t n);

/* Asks for the name of the batch once more, and then for the batch. */
void ngx_chat_gate_anew(ngx_chat_ctx_t *ctx);

/* ngx_chat_watch.c */

/* Looks at the batch once more, now or after the answer under way. */
void ngx_chat_watch_look(ngx_chat_ctx_t *ctx);

/*
 * Joins the facts, and looks whenever something changes from now on.
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_watch_begin(ngx_chat_ctx_t *ctx, const chat_facts_t *facts);

/* Requests of this worker that wait for the batch of this one. */
ngx_uint_t ngx_chat_watch_mates(ngx_chat_ctx_t *ctx);

void ngx_chat_watch_init(ngx_chat_main_conf_t *mcf);

/* Ends all dealings with the store; safe at any time. */
void ngx_chat_watch_end(ngx_chat_ctx_t *ctx);

/* ngx_chat_verdict.c */

/* Does what ctx->barrier.decision says. */
void ngx_chat_verdict_act(ngx_chat_ctx_t *ctx);

/* The bound of its hold is reached. */
void ngx_chat_verdict_bound(ngx_chat_ctx_t *ctx);

/* ngx_chat_away.c */

/* The store did not answer as it should: goes on, is refused, or waits on. */
void ngx_chat_away_failed(ngx_chat_ctx_t *ctx, chat_rc_e rc);

/* A request that must not go on without the store. */
void ngx_chat_away_refuse(ngx_chat_ctx_t *ctx);

/* A request that waits finds that the store has lost its facts. */
void ngx_chat_away_rejoin(ngx_chat_ctx_t *ctx);

/*
 * What another worker has put into a remote store may come after whoever was
 * told of it: ms until the next look, counted in *looks; 0: there is no point
 * in another one.
 */
ngx_msec_t ngx_chat_away_pause(const chat_store_t *store, ngx_uint_t *looks);

/* A chain that nothing is known of. 1: looks once more. */
ngx_uint_t ngx_chat_away_look_later(ngx_chat_ctx_t *ctx);

/* chat_store_t's lost(). */
void ngx_chat_away_lost(chat_store_t *store, int all);

/* ngx_chat_complete.c */

/*
 * Fetches the payloads of what the body lacks and the store has, puts them
 * in, and then calls next(ctx, rc): NGX_OK, NGX_DECLINED (the body cannot take
 * them), NGX_ERROR (the store failed). next may be called at once.
 */
void ngx_chat_complete(ngx_chat_ctx_t *ctx,
                       void (*next)(ngx_chat_ctx_t *ctx, ngx_int_t rc));

/* The same, but only gathers ctx->body.results, to be told. */
void ngx_chat_collect(ngx_chat_ctx_t *ctx,
                      void (*next)(ngx_chat_ctx_t *ctx, ngx_int_t rc));

/* Puts events with ctx->body.results into ctx->response.injected. */
ngx_int_t ngx_chat_complete_inject(ngx_chat_ctx_t *ctx);

/* ngx_chat_follow.c */

/* Waits for the fate of the attempt that was seen last, as a follower. */
void ngx_chat_follow_wait(ngx_chat_ctx_t *ctx);

/*
 * Gives the client the answer of that attempt; late: it had been answered
 * when this request came. Where there is no record: otherwise(ctx), now or
 * later.
 */
void ngx_chat_follow(ngx_chat_ctx_t *ctx, ngx_uint_t late,
                     void (*otherwise)(ngx_chat_ctx_t *ctx));

/* Follows no more; safe at any time. */
void ngx_chat_follow_leave(ngx_chat_ctx_t *ctx);

/* Its memory, when the request's pool ends. */
void ngx_chat_follow_free(ngx_chat_ctx_t *ctx);

/* ngx_chat_hold.c */

/* Begins to wait, or goes on waiting. bounded: a hold, not a sibling. */
void ngx_chat_hold(ngx_chat_ctx_t *ctx, ngx_uint_t bounded);

/* The wait is over (also where there was none). */
void ngx_chat_hold_end(ngx_chat_ctx_t *ctx);

/* Its hold ends as at its bound, soon: another request takes its place. */
void ngx_chat_hold_yield(ngx_chat_ctx_t *ctx);

/* ngx_chat_quota.c */

ngx_int_t ngx_chat_quota_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle);

/*
 * The limit that keeps one more request from waiting, as $chat_reason has it;
 * NULL: there is room, maybe in place of others, which end.
 */
const char *ngx_chat_quota_limit(ngx_chat_ctx_t *ctx);

/* The request waits, and does not any more (also where it never did). */
void ngx_chat_quota_enter(ngx_chat_ctx_t *ctx);
void ngx_chat_quota_leave(ngx_chat_ctx_t *ctx);

ngx_int_t ngx_chat_hold_init(ngx_chat_main_conf_t *mcf, ngx_cycle_t *cycle);

/* ngx_chat_reply.c */

/* Sends 200 and a comment to a client that waits. */
ngx_int_t ngx_chat_answer_early(ngx_chat_ctx_t *ctx);

/* One more comment. */
ngx_int_t ngx_chat_answer_beat(ngx_chat_ctx_t *ctx);

/*
 * Ends the request. refuse: status with the dialect's error; by its in-band
 * error where 200 was sent. bounce and empty tell ctx->body.results first.
 */
void ngx_chat_answer_refuse(ngx_chat_ctx_t *ctx, ngx_uint_t status,
                            const char *code, const char *message);
/*
 * The answer of another request, which this one waits for, broke off: 502 with
 * the dialect's error, or its interrupted event where 200 was sent.
 */
void ngx_chat_answer_broken(ngx_chat_ctx_t *ctx, const char *reason);
void ngx_chat_answer_bounce(ngx_chat_ctx_t *ctx);
void ngx_chat_answer_empty(ngx_chat_ctx_t *ctx);

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

/* The refusal as one buffer in the pool; NULL: no memory. */
ngx_buf_t *ngx_chat_answer_in_band(ngx_chat_ctx_t *ctx, ngx_uint_t status,
                                   const char *code, const char *message);

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

/*
 * The results of a body that was complete by itself become mergeable: others
 * lack them, or its own attempt came to nothing.
 */
void ngx_chat_attempt_keep_results(ngx_chat_ctx_t *ctx);

/* Its claim is its attempt from now on, as far as it has one. */
void ngx_chat_attempt_begin(ngx_chat_ctx_t *ctx);

/*
 * Notes the results that a request without an attempt brings or got inserted,
 * where the provider keeps the conversation: a 2xx answer delivers them.
 */
void ngx_chat_attempt_carries(ngx_chat_ctx_t *ctx);

/* 1 if no upstream has had a byte of the request, nor its client an answer. */
ngx_uint_t ngx_chat_attempt_unsent(ngx_chat_ctx_t *ctx);

/* Our claim/k, and nothing will be sent. */
void ngx_chat_attempt_void(ngx_chat_ctx_t *ctx, uint32_t k);

#endif /* NGX_CHAT_MODULE_H */
