/*
 * ngx_chat_shm.h: the store for one node, in a zone that its workers share.
 *
 * It keeps the laws of facts/chat_store.h. The zone holds batches of facts,
 * each with a log, and the table of workers; it survives a reload. Unless said
 * otherwise, the caller holds the zone's mutex.
 * Without memory, a tenant within its share evicts idle data, first that of
 * the largest tenant if it is past its share, and in the end batches for which
 * requests of that tenant wait. A tenant past its share evicts its own only.
 */

#ifndef NGX_CHAT_SHM_H
#define NGX_CHAT_SHM_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "base/ngx_chat_share.h"
#include "bytes/chat_mix.h"
#include "store/ngx_chat_store.h"

#define NGX_CHAT_SHM_SLOTS 128  /* workers, old generations included */
#define NGX_CHAT_SHM_PENDING 64 /* changed keys of one worker */
#define NGX_CHAT_SHM_NAME 48    /* bytes of a worker's name, at most */

typedef struct ngx_chat_shm_chunk_s ngx_chat_shm_chunk_t;
typedef struct ngx_chat_shm_fact_s  ngx_chat_shm_fact_t;
typedef struct ngx_chat_shm_batch_s ngx_chat_shm_batch_t;

/* A worker. */
typedef struct {
    ngx_pid_t  pid;        /* 0: free */
    ngx_uint_t generation; /* number of workers that have had this slot */
    u_char     name[NGX_CHAT_SHM_NAME]; /* slot.generation.pid and a 0 */
    ngx_uint_t npending;
    ngx_uint_t all; /* all keys count as changed: pending is full */
    uint64_t   pending[NGX_CHAT_SHM_PENDING]; /* prefixes of keys */
} ngx_chat_shm_slot_t;

/* What is evicted, in this order: logs of batches, and batches. */
typedef enum {
    NGX_CHAT_SHM_LOGS,
    NGX_CHAT_SHM_BATCHES,
    NGX_CHAT_SHM_KINDS
} ngx_chat_shm_kind_e;

/* A tenant that has batches. */
typedef struct {
    ngx_chat_share_t share;                    /* first; bytes */
    ngx_queue_t      used[NGX_CHAT_SHM_KINDS]; /* as in ngx_chat_shm_t */
    ngx_uint_t       batches;
} ngx_chat_shm_tenant_t;

/* The content of the zone. */
typedef struct {
    ngx_chat_shm_batch_t **buckets;  /* batches by the hash of their name */
    size_t                 nbuckets; /* below 2^32 */
    chat_mix_t             hash;     /* of nothing, with a secret key */
    ngx_queue_t used[NGX_CHAT_SHM_KINDS]; /* batches with a log, and all; the
                                             most recently used first */
    ngx_uint_t  log_pages;
    ngx_chat_shares_t   shares; /* tenants */
    time_t              warned; /* when the zone was last logged as full */
    ngx_uint_t          pruned; /* logged: something left before its time */
    ngx_chat_shm_slot_t slots[NGX_CHAT_SHM_SLOTS];
} ngx_chat_shm_t;

/* The eventfds of the slots, in each process. */
typedef struct {
    ngx_uint_t   used; /* configurations that have the zone */
    ngx_uint_t   n;
    ngx_socket_t fds[NGX_CHAT_SHM_SLOTS];
} ngx_chat_shm_events_t;

/* The zone in one configuration, and the store on it in this worker. */
typedef struct {
    ngx_chat_store_base_t  base; /* first: the store is in it */
    ngx_shm_zone_t        *zone;
    ngx_chat_shm_events_t *events;
    ngx_chat_shm_t        *sh;
    ngx_slab_pool_t       *shpool;
    ngx_int_t              slot;   /* of this worker; -1: none */
    ngx_event_t           *wakes;  /* of its eventfd; NULL: none */
    ngx_event_t            waking; /* posted while others are to be woken: */
    u_char                 woken[NGX_CHAT_SHM_SLOTS];
    u_char                 worker[NGX_CHAT_SHM_NAME]; /* the slot may have
                                                         another one later */
} ngx_chat_shm_ctx_t;

/* A part of a payload, at most a page with its header. */
struct ngx_chat_shm_chunk_s {
    ngx_chat_shm_chunk_t *next;
    size_t                len;
    u_char                data[1];
};

/* A block of the slab that a batch has: facts, one after the other. */
typedef struct {
    ngx_queue_t queue; /* first; of the batch's blocks, the oldest first */
    uint32_t    size;
    uint32_t    used;  /* bytes, this header included */
    uint32_t    facts; /* in it; the batch counts as one */
} ngx_chat_shm_block_t;

struct ngx_chat_shm_fact_s {
    ngx_chat_shm_fact_t  *next;     /* of the batch; wait/ comes first */
    ngx_chat_shm_fact_t **link;     /* that points to this one */
    ngx_chat_shm_fact_t  *below[2]; /* in the tree of fields */
    ngx_chat_shm_chunk_t *payload;
    uint32_t              at; /* bytes from the start of its block */
    uint32_t              value_len;
    unsigned              field_len : 31;
    unsigned              has_payload : 1;
    u_char                data[1]; /* field, value */
};

/* It lies at the start of its first block. */
struct ngx_chat_shm_batch_s {
    ngx_chat_shm_block_t   block;
    ngx_chat_shm_batch_t  *next; /* in its bucket */
    ngx_chat_shm_batch_t **link; /* that points to this one */
    ngx_chat_shm_tenant_t *tenant;
    time_t                 expires;
    chat_digest_t          name;
    ngx_queue_t            zone[NGX_CHAT_SHM_KINDS]; /* in the zone's used */
    ngx_queue_t            own[NGX_CHAT_SHM_KINDS];  /* in its tenant's */
    ngx_chat_shm_fact_t   *first; /* from here on zeroed by a clear */
    ngx_chat_shm_fact_t  **end;   /* of the list of facts */
    ngx_chat_shm_fact_t   *root;
    ngx_chat_shm_fact_t   *claim; /* the last claim/ that was put, or NULL */
    uint32_t               count; /* of facts */
    unsigned               paid : 1; /* a payload is stored */
    unsigned               over : 1; /* the last claim's end or void is */

    struct {
        ngx_queue_t pages;
        ngx_uint_t  npages;
        uint64_t    next; /* position; entries before it are stored or lost */
    } log;
};


/* ngx_chat_shm_facts.c: memory, batches and facts */

/*
 * Returns size zeroed bytes, charged to the tenant (NULL: to none). Without
 * memory it evicts logs, and batches if that is the last kind; but not the
 * batch keep, nor for its log (last: LOGS) that log. NULL: no memory.
 */
void *ngx_chat_shm_alloc(ngx_chat_shm_ctx_t         *ctx,
                         ngx_chat_shm_tenant_t      *tenant,
                         const ngx_chat_shm_batch_t *keep, size_t size,
                         ngx_chat_shm_kind_e last);
void  ngx_chat_shm_free(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_tenant_t *tenant,
                        void *p, size_t size);

/* The batch becomes the most recently used one of this kind, or is none. */
void ngx_chat_shm_touch(ngx_chat_shm_ctx_t *ctx, ngx_chat_shm_batch_t *batch,
                        ngx_chat_shm_kind_e kind);
void ngx_chat_shm_unlink(ngx_chat_shm_batch_t *batch,
                         ngx_chat_shm_kind_e   kind);

/* In the master: the content of a new zone. NGX_ERROR: logged. */
ngx_int_t ngx_chat_shm_facts_init(ngx_chat_shm_ctx_t *ctx);

/* expect() of the store. */
void ngx_chat_shm_facts_expect(chat_store_t *store, const chat_key_t *key);

/* The batch, or NULL. It becomes the most recently used one. */
ngx_chat_shm_batch_t *ngx_chat_shm_facts_find(ngx_chat_shm_ctx_t *ctx,
                                              const chat_key_t   *key);

/* The same; creates a new batch. NULL: no memory. */
ngx_chat_shm_batch_t *ngx_chat_shm_facts_make(ngx_chat_shm_ctx_t *ctx,
                                              const chat_key_t   *key);

/*
 * Puts a fact, whole or not at all, if absent. 1: added, 0: it was there,
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_chat_shm_facts_put(ngx_chat_shm_ctx_t   *ctx,
                                 ngx_chat_shm_batch_t *batch,
                                 const chat_fact_t    *fact);

/* The fact of this field, or NULL; in logarithmic time. */
ngx_chat_shm_fact_t *ngx_chat_shm_facts_get(ngx_chat_shm_ctx_t   *ctx,
                                            ngx_chat_shm_batch_t *batch,
                                            chat_str_t            field);

/* Frees the fact of this field, if there is one. */
void ngx_chat_shm_facts_drop(ngx_chat_shm_ctx_t   *ctx,
                             ngx_chat_shm_batch_t *batch, chat_str_t field);

/* Notifies the workers that watch the batch, and the last claimant's. */
void ngx_chat_shm_facts_notify(ngx_chat_shm_ctx_t         *ctx,
                               const ngx_chat_shm_batch_t *batch);

/* Frees all facts and the log. */
void ngx_chat_shm_facts_clear(ngx_chat_shm_ctx_t   *ctx,
                              ngx_chat_shm_batch_t *batch);

/* Frees the least recently used batch, and the one with a log, if expired. */
void ngx_chat_shm_facts_expire(ngx_chat_shm_ctx_t *ctx);

/* Adds a copy of the fact to the reply; payload: with its payload. */
void ngx_chat_shm_facts_copy(const ngx_chat_shm_fact_t *fact,
                             ngx_uint_t payload, chat_facts_t *reply);


/* ngx_chat_shm_log.c: the log of a batch, at most a 16th of the zone */

/*
 * Appends an entry if its position is above the last one. The pages of entries
 * before trim are used again, and without memory more pages of the front. 1:
 * readers find something new, if only that the entry is lost.
 */
ngx_uint_t ngx_chat_shm_log_put(ngx_chat_shm_ctx_t   *ctx,
                                ngx_chat_shm_batch_t *batch, uint64_t position,
                                chat_str_t bytes, int last, uint64_t trim);

/*
 * Returns the entries from position on, as read() of chat_store_t; if none of
 * them is left, one empty entry at the next position. NULL: no memory.
 */
chat_facts_t *ngx_chat_shm_log_read(ngx_chat_shm_ctx_t   *ctx,
                                    ngx_chat_shm_batch_t *batch,
                                    uint64_t              position);

/* Frees all entries. */
void ngx_chat_shm_log_clear(ngx_chat_shm_ctx_t   *ctx,
                            ngx_chat_shm_batch_t *batch);


/*
 * ngx_chat_shm_workers.c: the table of workers, and how one wakes another
 *
 * The master makes an eventfd for each slot with the zone. All later workers
 * inherit them, so that a new worker can wake an old one.
 */

/* In the master, with a new zone: makes the eventfds. */
ngx_int_t ngx_chat_shm_workers_create(ngx_chat_shm_ctx_t *ctx, ngx_log_t *log);

/* A configuration ends: a cleanup handler, data is the context. */
void ngx_chat_shm_workers_close(void *data);

/* Without the mutex, in a new worker: takes a slot. NGX_ERROR: logged. */
ngx_int_t ngx_chat_shm_workers_join(ngx_chat_shm_ctx_t *ctx,
                                    ngx_cycle_t        *cycle);

/* Tells a worker that a key has changed. */
void ngx_chat_shm_workers_notify(ngx_chat_shm_ctx_t *ctx, chat_str_t worker,
                                 uint64_t prefix);

/* alive() of the store, with or without the mutex. */
int ngx_chat_shm_alive(chat_store_t *store, chat_str_t worker);


/* ngx_chat_store_shm.c: the store, without the mutex */

/*
 * A zone of this size (bytes), to be called while the configuration is read.
 * tag is the module's. NULL: no memory.
 */
void *ngx_chat_store_shm_add(ngx_conf_t *cf, size_t size, void *tag);

/*
 * In a new worker: the store on that zone, or NULL if this worker cannot take
 * part (it was logged).
 */
chat_store_t *ngx_chat_store_shm_open(void *zone, ngx_cycle_t *cycle);

/* In a worker that exits. */
void ngx_chat_store_shm_close(chat_store_t *store);

#endif /* NGX_CHAT_SHM_H */
