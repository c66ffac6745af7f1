/*
 * chat_status.h: the status of a node, as JSON and as Prometheus text.
 *
 * Dashboards read its names: none is renamed. It shows the first CHAT_SHORT
 * bytes of ids and conversations. Clients choose these bytes; the output is
 * valid UTF-8 and JSON whatever they are.
 */

#ifndef CHAT_STATUS_H
#define CHAT_STATUS_H

#include "bytes/chat_str.h"
#include "bytes/chat_buf.h"
#include "dialect/chat_dialect.h"
#include "policy/chat_reason.h"

/* Counters: each worker has its own, a reader adds those of a node up. */

#define CHAT_METRICS_DIALECTS 8 /* at most, and one more: none */
#define CHAT_METRICS_ENDS 4
#define CHAT_METRICS_BUCKETS 16
#define CHAT_METRICS_STORES 3

/* How an interrupted response broke off. */
typedef enum {
    CHAT_BREAK_EOF,
    CHAT_BREAK_RESET,
    CHAT_BREAK_TIMEOUT,
    CHAT_BREAK_STALL,
    CHAT_BREAK_MALFORMED,
    CHAT_BREAK_UPSTREAM, /* an error event of the upstream */
    CHAT_BREAK_TOO_SLOW, /* of a follower, as is the next */
    CHAT_BREAK_INCOMPLETE,
    CHAT_BREAK_PRODUCER_LOST, /* of followers and of waiting requests */
    CHAT_BREAKS
} chat_break_e;

typedef enum {
    CHAT_COUNT_REPLAYS,
    CHAT_COUNT_ID_REUSE,
    CHAT_COUNT_MERGED,        /* results inserted into bodies */
    CHAT_COUNT_INJECTED,      /* results injected for clients without them */
    CHAT_COUNT_OVERSIZED,     /* bodies, steps, frames, results past a limit */
    CHAT_COUNT_EXTERNAL,      /* external results */
    CHAT_COUNT_STORE_FULL,    /* requests for which the store had no room */
    CHAT_COUNT_HOLDS_REFUSED, /* requests that were not allowed to wait */
    CHAT_COUNT_DRY_RUNS,      /* requests that chat_dry_run only observed */
    CHAT_COUNTS
} chat_count_e;

typedef enum {
    CHAT_TIMING_HOLD,    /* how long a request waited */
    CHAT_TIMING_STORE,   /* how long the store took */
    CHAT_TIMING_RELEASE, /* from the last result to going on */
    CHAT_TIMINGS
} chat_timing_e;

typedef struct {
    uint64_t buckets[CHAT_METRICS_BUCKETS + 1]; /* not cumulative; +Inf */
    uint64_t sum;                               /* microseconds */
} chat_timing_t;

/* The current state of a worker; ends with it. Only uint64_t. */
typedef struct {
    uint64_t workers;
    uint64_t stores[CHAT_METRICS_STORES]; /* workers by chat_store_state_e */
    uint64_t holds;
    uint64_t streams; /* recorded ones, and their bytes and readers */
    uint64_t bytes;
    uint64_t followers;
} chat_metrics_now_t;

/* Only uint64_t; all but now never decrease. */
typedef struct {
    uint64_t      requests[CHAT_METRICS_DIALECTS][CHAT_VERDICTS];
    uint64_t      reasons[CHAT_REASONS];
    uint64_t      turns[CHAT_METRICS_DIALECTS][CHAT_METRICS_ENDS];
    uint64_t      breaks[CHAT_BREAKS];
    uint64_t      counts[CHAT_COUNTS];
    chat_timing_t timings[CHAT_TIMINGS];

    chat_metrics_now_t now;
} chat_metrics_t;

/* The names of JSON members and Prometheus labels. */
extern const char *const chat_break_names[CHAT_BREAKS];
extern const char *const chat_count_names[CHAT_COUNTS];
extern const char *const chat_timing_names[CHAT_TIMINGS];
extern const char *const chat_store_state_names[CHAT_METRICS_STORES];

/* Upper bounds of the buckets, in microseconds. */
extern const uint64_t chat_timing_bounds[CHAT_TIMINGS][CHAT_METRICS_BUCKETS];

/* A dialect is counted at its index in chat_dialects; past the last: none. */
size_t      chat_metrics_dialect(const chat_dialect_t *dialect);
const char *chat_metrics_dialect_name(size_t dialect);

/* How the answer of this chat_stream_info() reason broke off; NULL: reset. */
chat_break_e chat_metrics_break(const char *reason);

void chat_metrics_time(chat_metrics_t *metrics, chat_timing_e timing,
                       uint64_t us);

/* sum += one, member by member; of a worker that does not run, without now. */
void chat_metrics_add(chat_metrics_t *sum, const chat_metrics_t *one,
                      int running);


/* The status of a node. */

#define CHAT_SHORT 12          /* bytes of an id that are shown */
#define CHAT_STATUS_MEMBERS 16 /* of a batch */
#define CHAT_STATUS_BATCHES 256
#define CHAT_STATUS_EVENTS 64
#define CHAT_STATUS_TIMELINE 512 /* events of a worker; those of a timeline */
#define CHAT_STATUS_CARRIED 4    /* ids of an event */
#define CHAT_STATUS_NODE 64      /* bytes of a node's name and 0, at most */
#define CHAT_STATUS_DETAIL 48    /* bytes, the last one 0 */

/* The beginning of an id. */
typedef struct {
    unsigned char len;
    unsigned char cut; /* the id is longer */
    unsigned char bytes[CHAT_SHORT];
} chat_short_t;

typedef enum {
    CHAT_MEMBER_MISSING,
    CHAT_MEMBER_RESULT,
    CHAT_MEMBER_APPROVAL
} chat_member_state_e;

typedef struct {
    chat_short_t  id;
    unsigned char approval; /* 1: an approval; 0: a client's call */
    unsigned char state;    /* chat_member_state_e */
} chat_held_member_t;

typedef enum {
    CHAT_HELD_OPEN,     /* its stream runs, calls may come */
    CHAT_HELD_SEALED,   /* all calls are known */
    CHAT_HELD_STREAMING /* a request of it is upstream */
} chat_held_state_e;

/* A batch that requests wait for; in the table of a worker, a request. */
typedef struct {
    uint64_t           n;       /* of the last write in this node, from 1 */
    unsigned char      name[8]; /* the first bytes */
    unsigned char      dialect; /* as chat_metrics_dialect() */
    unsigned char      state;   /* chat_held_state_e */
    chat_short_t       conversation;
    uint32_t           held; /* requests */
    uint32_t           missing;
    uint32_t           attempt;  /* the last one; 0: none */
    uint32_t           nmembers; /* of the batch; the first ones are here */
    uint64_t           since;    /* ms since the epoch; 0: unknown */
    chat_held_member_t members[CHAT_STATUS_MEMBERS];
} chat_status_batch_t;

/* What an event reports: a chat_reason_e, or one of these. */
typedef enum {
    CHAT_WHAT_MERGED = CHAT_REASONS,
    CHAT_WHAT_DROPPED,
    CHAT_WHAT_INTERRUPTED,
    CHAT_WHAT_EXTERNAL, /* external results; from here on: timelines only */
    CHAT_WHAT_LEFT,     /* the client of a held request */
    CHAT_WHAT_ENDED,    /* an attempt */
    CHAT_WHATS
} chat_what_e;

/* An action of the module. */
typedef struct {
    uint64_t      n;    /* from 1, in the order of the node */
    uint64_t      time; /* ms since the epoch */
    unsigned char what; /* chat_reason_e or chat_what_e */
    unsigned char dialect;
    unsigned char has_batch;
    unsigned char batch[8];
    chat_short_t  conversation;
    uint32_t      hash;       /* of the whole conversation id */
    uint32_t      attempt;    /* of the request, or that it follows; or 0 */
    uint64_t      connection; /* its number in the log */
    uint32_t      pid;
    uint32_t      ncarried; /* results that the request brought; the first: */
    chat_short_t  carried[CHAT_STATUS_CARRIED];
    char          detail[CHAT_STATUS_DETAIL];
} chat_log_event_t;

typedef struct {
    chat_str_t           version;
    chat_str_t           nginx;
    chat_str_t           node; /* its name */
    uint64_t             time; /* ms since the epoch */
    const char          *store;
    uint64_t             zone_size; /* bytes; 0: there is no zone */
    uint64_t             zone_used;
    uint64_t             oldest;  /* ms, of the oldest hold */
    chat_metrics_t       metrics; /* the sum over workers */
    chat_status_batch_t *batches; /* the newest, oldest first */
    size_t               nbatches;
    uint64_t             more;   /* requests that wait for other batches */
    chat_log_event_t    *events; /* the newest, oldest first */
    size_t               nevents;
} chat_status_t;

/* Sets out to the first bytes of id; does not split a character. */
void chat_short(chat_short_t *out, chat_str_t id);

void chat_status_json(const chat_status_t *status, chat_buf_t *out);

/* Only time, node and events. */
void chat_status_timeline(const chat_status_t *status, chat_buf_t *out);

void chat_status_prometheus(const chat_status_t *status, chat_buf_t *out);


/* For both formats. */

/* The worst store state of the workers. */
size_t chat_status_store(const chat_metrics_t *metrics);

/*
 * Appends s as a JSON string: U+FFFD for bytes that are no character, and with
 * cut an ellipsis at its end.
 */
void chat_status_put(chat_buf_t *out, chat_str_t s, int cut);

/* Appends microseconds as seconds, a JSON number without an exponent. */
void chat_status_put_seconds(chat_buf_t *out, uint64_t us);

#endif /* CHAT_STATUS_H */
