/*
 * ngx_chat_redis_client.h: commands to a Redis server, in order, whatever
 * becomes of the connection.
 *
 * Commands must bear to be sent twice: after a cut they are sent again. One
 * that somebody waits for fails at its deadline; one that nobody waits for
 * stays until it is answered, as long as there is room. Promises: done() of a
 * command comes once, from the event loop; at most NGX_CHAT_REDIS_PENDING
 * bytes wait. Must not know: facts, keys, scripts.
 */

#ifndef NGX_CHAT_REDIS_CLIENT_H
#define NGX_CHAT_REDIS_CLIENT_H

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#include "bytes/chat_arena.h"
#include "facts/chat_store.h"
#include "store/redis/ngx_chat_redis.h"

#define NGX_CHAT_REDIS_PENDING (32 * 1024 * 1024)

typedef struct ngx_chat_redis_cmd_s    ngx_chat_redis_cmd_t;
typedef struct ngx_chat_redis_client_s ngx_chat_redis_client_t;

struct ngx_chat_redis_cmd_s {
    ngx_queue_t   queue;
    chat_arena_t *arena; /* of itself and its arguments */
    const char  **argv;
    size_t       *len;
    size_t        argc;
    size_t        room;
    size_t        bytes;
    unsigned      slot; /* of its keys, if it has some */

    /*
     * reply, from now on done's own, is NULL where the server could not be
     * asked. done ends the command: frees it, or submits it again.
     */
    void (*done)(ngx_chat_redis_cmd_t *cmd, redisReply *reply);
    void            *data;
    chat_store_op_t *op;   /* who waits for it; NULL: nobody */
    redisReply      *kept; /* done's own, freed with it */
    ngx_uint_t       turn; /* done's own, and the next one */
    ngx_uint_t       heard;

    ngx_chat_redis_client_t *client; /* that it was submitted to */
    ngx_msec_t               born;   /* when it was submitted */
    ngx_msec_t               first;  /* of several submissions */
    ngx_uint_t               tries;  /* submissions before this one */
    ngx_uint_t               hops;   /* of these, without a pause */
    ngx_uint_t               serial; /* in this order those of a slot go */
    ngx_msec_t               deadline;
    unsigned                 failed : 1; /* no memory at some argument */
    unsigned                 keyed : 1;  /* it has a slot */
    unsigned                 asks : 1;   /* goes where its slot is not */
    unsigned                 sent : 1;
    unsigned                 setup : 1; /* goes out before all others */
    unsigned replayable : 1; /* what it has put is to stand at a new server */
    unsigned piece : 1; /* of a log: facts come first where room is short */
    unsigned again : 1; /* done's own */
};

struct ngx_chat_redis_client_s {
    ngx_chat_redis_conn_t conn;
    const ngx_str_t      *name; /* for logs */
    ngx_queue_t           cmds; /* in order */
    size_t                bytes;
    ngx_uint_t            setups;   /* greetings without a reply */
    ngx_queue_t           replayed; /* copies of answered ones, for a move */
    size_t                replayed_bytes;
    chat_store_state_e    state;

    ngx_event_t timer;  /* the next deadline */
    ngx_event_t retry;  /* to connect again */
    ngx_event_t giveup; /* WAVERING to AWAY */
    ngx_event_t flush;
    ngx_msec_t  backoff;
    ngx_msec_t  heard;      /* when the last reply came */
    ngx_msec_t  lost_at;    /* when the connection was lost */
    ngx_msec_t  up_at;      /* when it was there last */
    ngx_msec_t  complained; /* when the log was told of commands that failed */
    ngx_uint_t  was_up;
    u_char      told[128]; /* the reason that was logged last */
    size_t      told_len;

    /*
     * The owner's. seek finds out where the server is, and ends with move()
     * or lost(); NULL: it is where conf says.
     */
    void *data;
    void (*seek)(ngx_chat_redis_client_t *client);
    void (*greet)(ngx_chat_redis_client_t *client);   /* submits greetings */
    void (*changed)(ngx_chat_redis_client_t *client); /* state is new */

    /*
     * 1: the server is not the one to ask, and both have been taken. NULL: it
     * always is.
     */
    ngx_uint_t (*declined)(ngx_chat_redis_client_t *client,
                           ngx_chat_redis_cmd_t *cmd, redisReply *reply);

    /* A question waits so long for a connection, at least. */
    ngx_msec_t patience;
};

/*
 * Starts to connect, to conf's first host unless another one is set. The owner
 * has zeroed it and set its own.
 */
void ngx_chat_redis_client_open(ngx_chat_redis_client_t     *client,
                                const ngx_chat_redis_conf_t *conf,
                                ngx_log_t                   *log);

/*
 * Leaves the server where it was, and connects to it where it is. Another host
 * is told once more what the last one was told in its last seconds.
 */
void ngx_chat_redis_client_move(ngx_chat_redis_client_t     *client,
                                const ngx_chat_redis_host_t *host);

/* There is no connection, and why; it is tried again after a while. */
void ngx_chat_redis_client_lost(ngx_chat_redis_client_t *client,
                                const char              *why);

/* Drops everything; no done() is called. It may be opened again. */
void ngx_chat_redis_client_close(ngx_chat_redis_client_t *client);

/* A new command without arguments; NULL: no memory. */
ngx_chat_redis_cmd_t *ngx_chat_redis_cmd_create(void);
void                  ngx_chat_redis_cmd_free(ngx_chat_redis_cmd_t *cmd);

/* Adds an argument; what is given is copied. */
void ngx_chat_redis_cmd_add(ngx_chat_redis_cmd_t *cmd, chat_str_t arg);
void ngx_chat_redis_cmd_puts(ngx_chat_redis_cmd_t *cmd, const char *arg);

/* The same for a key, which gives the command its slot. */
void ngx_chat_redis_cmd_key(ngx_chat_redis_cmd_t *cmd, chat_str_t key);
void ngx_chat_redis_cmd_number(ngx_chat_redis_cmd_t *cmd, ngx_uint_t arg);

/* A done() for a command whose answer is no matter. */
void ngx_chat_redis_ignore(ngx_chat_redis_cmd_t *cmd, redisReply *reply);

/*
 * Takes the command. NGX_DECLINED: it is not taken, and still the caller's:
 * the server is away (only where somebody waits), there is no room, or
 * an argument failed.
 */
ngx_int_t ngx_chat_redis_submit(ngx_chat_redis_client_t *client,
                                ngx_chat_redis_cmd_t    *cmd);

/*
 * The newest command, or the one before it, if it has not been sent, to add
 * arguments to (and then ngx_chat_redis_grown()); or NULL.
 */
ngx_chat_redis_cmd_t *ngx_chat_redis_unsent(ngx_chat_redis_client_t    *client,
                                            const ngx_chat_redis_cmd_t *newer);
void ngx_chat_redis_grown(ngx_chat_redis_client_t *client, size_t bytes);

/* Takes out the first command of a queue, not a client's; NULL: none. */
ngx_chat_redis_cmd_t *ngx_chat_redis_take(ngx_queue_t *cmds);

/* 1 if a command of this slot is among these. */
ngx_uint_t ngx_chat_redis_has_slot(const ngx_queue_t *cmds, unsigned slot);

/*
 * Between the files of the client. remove: takes a command out. arm: sets the
 * timer for the first deadline. flush: sends what has not been sent, as far
 * as the greetings allow. expire: fails the commands whose waiters have no
 * more time, or all of them; one that has been sent is found by its
 * connection's end. unsend: the connection has ended. empty: frees all.
 */
void ngx_chat_redis_remove(ngx_chat_redis_client_t *client,
                           ngx_chat_redis_cmd_t    *cmd);
void ngx_chat_redis_arm(ngx_chat_redis_client_t *client);
void ngx_chat_redis_flush(ngx_event_t *ev);
void ngx_chat_redis_expire(ngx_chat_redis_client_t *client, ngx_uint_t all);
void ngx_chat_redis_unsend(ngx_chat_redis_client_t *client);
void ngx_chat_redis_empty(ngx_chat_redis_client_t *client);

/*
 * Keeps a copy of a command that has been answered; for a while, and within
 * bounds. remind: puts these before all commands, of which none is sent.
 */
void ngx_chat_redis_replay_add(ngx_chat_redis_client_t    *client,
                               const ngx_chat_redis_cmd_t *cmd);
void ngx_chat_redis_replay(ngx_chat_redis_client_t *client);

/* Logs an error reply, the same one at most once a minute. */
void ngx_chat_redis_log_error(ngx_chat_redis_client_t *client,
                              const redisReply        *reply);

/* 1 if reply is an error that begins so. */
ngx_uint_t ngx_chat_redis_is_error(const redisReply *reply,
                                   const char       *prefix);

/* 1 if reply says that the server takes no writes. */
ngx_uint_t ngx_chat_redis_is_readonly(const redisReply *reply);

#endif /* NGX_CHAT_REDIS_CLIENT_H */
