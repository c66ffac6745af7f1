/*
 * chat_status.h: the status of a node, as JSON and as Prometheus text.
 *
 * It shows the first CHAT_SHORT bytes of ids and conversations. These are
 * bytes that clients chose; the output is valid UTF-8 and JSON whatever they
 * are.
 */

#ifndef CHAT_STATUS_H
#define CHAT_STATUS_H

#include "bytes/chat_str.h"
#include "bytes/chat_arena.h"
#include "bytes/chat_buf.h"
#include "report/chat_metrics.h"

#define CHAT_SHORT 12          /* bytes of an id that are shown */
#define CHAT_STATUS_MEMBERS 16 /* of a batch */
#define CHAT_STATUS_BATCHES 256
#define CHAT_STATUS_EVENTS 64
#define CHAT_STATUS_NODE 64   /* bytes of a node's name, at most */
#define CHAT_STATUS_DETAIL 48 /* bytes, the last one 0 */

/* The beginning of an id. */
typedef struct {
    unsigned char len;
    unsigned char cut; /* there is more of it */
    unsigned char bytes[CHAT_SHORT];
} chat_short_t;

typedef enum {
    CHAT_MEMBER_MISSING,
    CHAT_MEMBER_RESULT,
    CHAT_MEMBER_APPROVAL
} chat_member_state_e;

typedef struct {
    chat_short_t  id;
    unsigned char approval; /* its kind: approval, else client */
    unsigned char state;    /* chat_member_state_e */
} chat_held_member_t;

typedef enum {
    CHAT_HELD_OPEN,     /* its stream runs, calls may come */
    CHAT_HELD_SEALED,   /* all calls are known */
    CHAT_HELD_STREAMING /* a request of it is upstream */
} chat_held_state_e;

/* A batch that requests wait for. */
typedef struct {
    unsigned char      name[8]; /* the first bytes */
    unsigned char      dialect; /* as chat_metrics_dialect() */
    unsigned char      state;   /* chat_held_state_e */
    chat_short_t       conversation;
    uint32_t           held; /* requests */
    uint32_t           missing;
    uint32_t           attempt;  /* the last one; 0: none */
    uint32_t           nmembers; /* all; CHAT_STATUS_MEMBERS are here */
    uint64_t           since;    /* ms since the epoch; 0: unknown */
    uint64_t           looked;   /* when it was last read, likewise */
    chat_held_member_t members[CHAT_STATUS_MEMBERS];
} chat_held_t;

typedef enum {
    CHAT_WHAT_HELD,
    CHAT_WHAT_MERGED,
    CHAT_WHAT_RELEASED,
    CHAT_WHAT_DROPPED,
    CHAT_WHAT_ATTACHED,
    CHAT_WHAT_INTERRUPTED,
    CHAT_WHAT_BOUNCED,
    CHAT_WHAT_EMPTY,
    CHAT_WHAT_CONFLICT,
    CHAT_WHAT_SUPERSEDED,
    CHAT_WHAT_UNMANAGED,
    CHAT_WHAT_BYPASS,
    CHAT_WHATS
} chat_what_e;

/* Something that the module did. */
typedef struct {
    uint64_t      n; /* from 1, in the order of a node */
    uint64_t      time;
    unsigned char what; /* chat_what_e */
    unsigned char dialect;
    unsigned char has_batch;
    unsigned char batch[8];
    chat_short_t  conversation;
    char          detail[CHAT_STATUS_DETAIL];
} chat_log_event_t;

typedef struct {
    chat_str_t        version;
    chat_str_t        nginx;
    chat_str_t        node; /* its name */
    uint64_t          time; /* ms since the epoch */
    const char       *store;
    uint64_t          zone_size; /* 0: there is none */
    uint64_t          zone_used;
    uint64_t          oldest;  /* ms, of the oldest hold */
    chat_metrics_t    metrics; /* the sum over workers */
    chat_held_t      *batches; /* the newest, oldest first */
    size_t            nbatches;
    uint64_t          more;   /* requests that wait for other batches */
    chat_log_event_t *events; /* the newest, oldest first */
    size_t            nevents;
} chat_status_t;

/* The first bytes of id, not in the middle of a character. */
void chat_short(chat_short_t *out, chat_str_t id);

/* The state of a store as its worst worker sees it. */
unsigned char chat_status_store(const chat_metrics_t *metrics);

void chat_status_json(const chat_status_t *status, chat_buf_t *out);
void chat_status_prometheus(const chat_status_t *status, chat_buf_t *out);

/*
 * Appends s as a JSON string: U+FFFD for bytes that are no character, and with
 * cut an ellipsis at its end.
 */
void chat_status_put(chat_buf_t *out, chat_str_t s, int cut);

void chat_status_put_short(chat_buf_t *out, const chat_short_t *id);

/* Microseconds as seconds, as a JSON number without an exponent. */
void chat_status_put_seconds(chat_buf_t *out, uint64_t us);

#endif /* CHAT_STATUS_H */
