/*
 * ngx_chat_redis_client.h: commands to one Redis server, in order, over one
 * connection after another.
 *
 * Each command can be sent twice without harm: after a disconnection it is
 * sent again. An awaited command fails at its deadline. Any other
 * one stays until the server replies, as long as there is room. done() of a
 * command is called once, from the event loop.
 */

#ifndef NGX_CHAT_REDIS_CLIENT_H
#define NGX_CHAT_REDIS_CLIENT_H

#include <ngx_config.h>
#include <ngx_core.h>

#include "bytes/chat_arena.h"
#include "facts/chat_store.h"
#include "store/redis/ngx_chat_redis_conn.h"

typedef struct ngx_chat_redis_cmd_s    ngx_chat_redis_cmd_t;
typedef struct ngx_chat_redis_client_s ngx_chat_redis_client_t;

struct ngx_chat_redis_cmd_s {
    ngx_queue_t           queue;
    ngx_chat_redis_args_t args;
    chat_arena_t         *arena; /* of itself, and of the facts in its reply */
    size_t   head;  /* bytes of text before its facts, if resendable */
    size_t   needs; /* likewise before the number of its needs; 0: none */
    size_t   bytes; /* once it is submitted */
    unsigned slot;  /* of its keys, if is_keyed */

    /*
     * reply is done()'s to free; NULL: the server could not be reached. done()
     * ends the command: it frees it, or submits it again.
     */
    void (*done)(ngx_chat_redis_cmd_t *cmd, redisReply *reply);
    void            *data;
    chat_store_op_t *op;    /* its done() is to be called; NULL: none */
    redisReply      *reply; /* kept by the owner while it queries */
    chat_fact_t     *facts; /* that it has read */
    size_t           nfacts;

    ngx_chat_redis_client_t *client;        /* that it was submitted to */
    ngx_msec_t               queued;        /* when it was submitted first */
    ngx_msec_t               deadline;      /* of an awaited or sent one */
    ngx_uint_t               tries;         /* submissions before this one */
    ngx_uint_t               hops;          /* redirections without a pause */
    unsigned                 failed : 1;    /* no memory */
    unsigned                 is_keyed : 1;  /* it has a slot */
    unsigned                 is_asking : 1; /* goes behind an ASKING */
    unsigned                 is_sent : 1;
    unsigned                 is_setup : 1; /* sent before all others */
    unsigned is_resendable : 1; /* what it writes must survive a failover */
    unsigned is_log : 1; /* has half the room of facts; op has patience */
};

struct ngx_chat_redis_client_s {
    ngx_chat_redis_conn_t conn;
    chat_store_state_e    state;  /* as awaited commands see it */
    const ngx_str_t      *name;   /* for logs */
    ngx_queue_t           cmds;   /* in order, the sent ones first */
    size_t                bytes;  /* of these */
    ngx_uint_t            setups; /* of these, setup commands */
    ngx_queue_t           resend; /* copies of commands with a reply */
    size_t                resend_bytes;

    ngx_event_t deadline; /* the next one of a command */
    ngx_event_t give_up;  /* RECONNECTING to UNAVAILABLE */
    ngx_event_t flush;
    ngx_msec_t  replied; /* when the last reply came */
    ngx_msec_t  up_since;
    ngx_msec_t  logged_at; /* when a failed command was logged last */
    ngx_uint_t  was_up;
    ngx_uint_t  said;       /* the log has that it is unavailable */
    ngx_uint_t  in_setup;   /* setup() runs: what is submitted is a setup */
    ngx_uint_t  has_served; /* a keyed command, since it was UP before; at
                               first 1 */
    u_char      logged[48]; /* how the last reason or error in the log began */

    /* The owner's. */
    void *data;

    /*
     * Finds the server's address, and ends with ngx_chat_redis_client_move()
     * or ngx_chat_redis_client_disconnect(). NULL: conf has the address.
     */
    void (*locate)(ngx_chat_redis_client_t *client);

    /* Submits the setup commands, at least one. */
    void (*setup)(ngx_chat_redis_client_t *client);

    /* client->state has become UP or UNAVAILABLE. */
    void (*changed)(ngx_chat_redis_client_t *client);

    /*
     * 1: another server must get the command; command and reply have been
     * taken. NULL: never.
     */
    ngx_uint_t (*redirect)(ngx_chat_redis_client_t *client,
                           ngx_chat_redis_cmd_t *cmd, redisReply *reply);

    /* An awaited command waits so long for a connection, at least. */
    ngx_msec_t patience;
};

/*
 * Starts to connect, to conn.host unless there is a locate(). The owner has
 * zeroed the client and set its part, conn.host and name.
 */
void ngx_chat_redis_client_open(ngx_chat_redis_client_t     *client,
                                const ngx_chat_redis_conf_t *conf);

/*
 * Connects to the server at this host instead. If it is another host, the
 * resend buffer is sent first.
 */
void ngx_chat_redis_client_move(ngx_chat_redis_client_t     *client,
                                const ngx_chat_redis_host_t *host);

/* Closes the connection, if there is one, and connects again after a while. */
void ngx_chat_redis_client_disconnect(ngx_chat_redis_client_t *client,
                                      const char              *why);

/* Drops everything without any done(). It may be opened again. */
void ngx_chat_redis_client_close(ngx_chat_redis_client_t *client);

/* Logs an error reply, the same one at most once a minute. */
void ngx_chat_redis_log_error(ngx_chat_redis_client_t *client,
                              const redisReply        *reply);

/*
 * A new command of these words, which are separated by spaces. Without memory
 * the command has failed: it can be used like any other, but not submitted.
 */
ngx_chat_redis_cmd_t *ngx_chat_redis_cmd_create(
    const char *words,
    void (*done)(ngx_chat_redis_cmd_t *cmd, redisReply *reply), void *data);

void ngx_chat_redis_cmd_free(ngx_chat_redis_cmd_t *cmd);

/* Adds a copy of an argument. */
void ngx_chat_redis_cmd_add(ngx_chat_redis_cmd_t *cmd, chat_str_t arg);
void ngx_chat_redis_cmd_number(ngx_chat_redis_cmd_t *cmd, uint64_t arg);

/* The argument at this byte of the text; *at becomes that of the next one. */
chat_str_t ngx_chat_redis_cmd_arg(const ngx_chat_redis_cmd_t *cmd, size_t *at);

/* Adds arguments as ngx_chat_redis_words(). */
void ngx_chat_redis_cmd_printf(ngx_chat_redis_cmd_t *cmd, const char *format,
                               ...);

/* A done() that frees command and reply. */
void ngx_chat_redis_ignore(ngx_chat_redis_cmd_t *cmd, redisReply *reply);

/*
 * Takes the command. NGX_DECLINED: it is freed, because the server is
 * unavailable (for awaited ones), there is no room, or it has failed.
 */
ngx_int_t ngx_chat_redis_submit(ngx_chat_redis_client_t *client,
                                ngx_chat_redis_cmd_t    *cmd);

/* The same again, from done() or a redirection. A declined one fails. */
void ngx_chat_redis_resubmit(ngx_chat_redis_client_t *client,
                             ngx_chat_redis_cmd_t    *cmd);

/* The command behind cmd (NULL: the first one) in a queue; NULL: none. */
ngx_chat_redis_cmd_t *ngx_chat_redis_next(const ngx_queue_t          *cmds,
                                          const ngx_chat_redis_cmd_t *cmd);

/* Takes the first command out of a queue that is no client's; NULL: none. */
ngx_chat_redis_cmd_t *ngx_chat_redis_take(ngx_queue_t *cmds);

/* 1 if a request awaits the command: it fails at its deadline. */
static ngx_inline ngx_uint_t
ngx_chat_redis_is_awaited(const ngx_chat_redis_cmd_t *cmd)
{
    return cmd->op != NULL && !cmd->is_log;
}


/* Takes a command out of the client. */
void ngx_chat_redis_remove(ngx_chat_redis_client_t *client,
                           ngx_chat_redis_cmd_t    *cmd);

/* Sends the unsent commands; of a connection in setup, setup commands only. */
void ngx_chat_redis_flush(ngx_event_t *ev);

/* Moves the resend buffer before all commands, of which none is sent. */
void ngx_chat_redis_resend(ngx_chat_redis_client_t *client);

#endif /* NGX_CHAT_REDIS_CLIENT_H */
