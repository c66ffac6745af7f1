/*
 * body.c: sends one body again and again, and is the provider behind nginx.
 *
 * Usage: body; prints its port as a provider of a small answer of OpenAI Chat.
 * A line "PORT CONNECTIONS REQUESTS FILE" on its input sends the body in FILE
 * so many times to nginx; each "#SERIAL#" in it becomes a number of its own.
 * It prints how many answers were whole, and the seconds.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNS 256
#define MARK "#SERIAL#"

/* A connection: of a client, or (upstream) from nginx. */
typedef struct {
    int    fd;
    int    upstream;
    char   in[65536];
    size_t in_len;
    size_t skip; /* upstream: bytes of the body that are still to come */
    char  *out;  /* client: its request */
    size_t sent;
    int    waits; /* for an answer */
} conn_t;

static conn_t clients[CONNS], upstreams[CONNS];
static int    epoll_fd;
static char  *body;
static size_t body_len, text_len, marks[4096], nmarks;
static long   serial, to_send, to_come, whole;

static const char answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
    "67\r\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\","
    "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Warm.\"}}]}\n\n\r\n"
    "6d\r\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\","
    "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}"
    "\n\n\r\n"
    "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";


static void
fail(const char *what)
{
    fprintf(stderr, "body: %s\n", what);
    exit(1);
}


static void
poll_for(conn_t *conn, unsigned events, int op)
{
    struct epoll_event event = { .events = events, .data.ptr = conn };

    if (epoll_ctl(epoll_fd, op, conn->fd, &event) != 0) {
        fail("epoll_ctl");
    }
}


/* Writes what the socket takes of the client's request. */
static void
send_more(conn_t *conn)
{
    ssize_t n;

    while (conn->sent < text_len) {
        n = write(conn->fd, conn->out + conn->sent, text_len - conn->sent);

        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            fail("write");
        }

        conn->sent += (size_t) n;
    }
}


/* Begins the next request of a client. */
static void
begin(conn_t *conn)
{
    char   number[16];
    size_t i;

    if (to_send == 0) {
        conn->waits = 0;
        return;
    }

    to_send--;
    snprintf(number, sizeof(number), "%08ld", serial++);

    for (i = 0; i < nmarks; i++) {
        memcpy(conn->out + text_len - body_len + marks[i], number, 8);
    }

    conn->sent = 0;
    conn->in_len = 0;
    conn->waits = 1;
    send_more(conn);
}


static void
on_client(conn_t *conn, unsigned events)
{
    ssize_t n;

    if (events & EPOLLOUT) {
        send_more(conn);
    }

    for (;;) {
        n = read(conn->fd, conn->in + conn->in_len,
                 sizeof(conn->in) - conn->in_len);

        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            fail("nginx closed a connection");
        }

        conn->in_len += (size_t) n;

        if (conn->waits && conn->in_len > 5
            && memcmp(conn->in + conn->in_len - 5, "0\r\n\r\n", 5) == 0)
        {
            whole += memmem(conn->in, conn->in_len, "[DONE]", 6) != NULL;
            to_come--;
            begin(conn);
        }
    }
}


/* Reads a request from nginx to its end, and answers it. */
static void
on_upstream(conn_t *conn)
{
    char   *end, *length;
    ssize_t n;

    for (;;) {
        n = read(conn->fd, conn->in + conn->in_len,
                 sizeof(conn->in) - 1 - conn->in_len);

        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            close(conn->fd);
            conn->fd = -1;
            return;
        }

        if (conn->skip == 0) {
            conn->in_len += (size_t) n;
            conn->in[conn->in_len] = '\0';
            end = strstr(conn->in, "\r\n\r\n");
            if (end == NULL) {
                continue;
            }

            length = strcasestr(conn->in, "\ncontent-length:");
            conn->skip = length ? strtoul(length + 16, NULL, 10) : 0;
            n = conn->in + conn->in_len - end - 4;
        }

        conn->in_len = 0;
        conn->skip -= (size_t) n;

        if (conn->skip == 0
            && write(conn->fd, answer, sizeof(answer) - 1)
                   != sizeof(answer) - 1)
        {
            fail("answer");
        }
    }
}


static void
on_accept(int fd)
{
    int i, one = 1, new = accept4(fd, NULL, NULL, SOCK_NONBLOCK);

    for (i = 0; i < CONNS && upstreams[i].fd >= 0; i++) {
        /* void */
    }

    if (new < 0 || i == CONNS) {
        fail("accept");
    }

    setsockopt(new, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    upstreams[i].fd = new;
    upstreams[i].upstream = 1;
    upstreams[i].in_len = 0;
    upstreams[i].skip = 0;
    poll_for(&upstreams[i], EPOLLIN | EPOLLET, EPOLL_CTL_ADD);
}


static void
read_body(const char *name)
{
    char *at;
    FILE *file = fopen(name, "r");

    if (file == NULL) {
        fail(name);
    }

    free(body);
    body = malloc(16 << 20);
    body_len = fread(body, 1, (16 << 20) - 1, file);
    body[body_len] = '\0';
    fclose(file);

    nmarks = 0;
    for (at = body; (at = strstr(at, MARK)) != NULL; at += 8) {
        if (nmarks == sizeof(marks) / sizeof(marks[0])) {
            fail("too many marks");
        }
        marks[nmarks++] = (size_t) (at - body);
    }
}


static void
connect_client(conn_t *conn, int port)
{
    int                one = 1, len;
    struct sockaddr_in in = { .sin_family = AF_INET };

    in.sin_port = htons((unsigned short) port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    conn->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(conn->fd, (struct sockaddr *) &in, sizeof(in)) != 0) {
        fail("connect");
    }

    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fcntl(conn->fd, F_SETFL, O_NONBLOCK);

    conn->out = malloc(body_len + 512);
    len = sprintf(conn->out,
                  "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\n"
                  "Authorization: Bearer bench\r\nContent-Length: %zu\r\n"
                  "Content-Type: application/json\r\n\r\n",
                  body_len);
    memcpy(conn->out + len, body, body_len);
    text_len = (size_t) len + body_len;
    poll_for(conn, EPOLLIN | EPOLLOUT | EPOLLET, EPOLL_CTL_ADD);
}


/* One round of events. */
static void
serve(int listening)
{
    int                i, n;
    conn_t            *conn;
    struct epoll_event events[64];

    n = epoll_wait(epoll_fd, events, 64, -1);

    for (i = 0; i < n; i++) {
        conn = events[i].data.ptr;

        if (conn == NULL) {
            on_accept(listening);
        } else if (conn->upstream) {
            on_upstream(conn);
        } else {
            on_client(conn, events[i].events);
        }
    }
}


static double
run(int port, int nclients, long requests, int listening)
{
    int             i;
    struct timespec from, to;

    whole = 0;
    to_send = requests;
    to_come = requests;

    for (i = 0; i < nclients; i++) {
        connect_client(&clients[i], port);
    }

    clock_gettime(CLOCK_MONOTONIC, &from);

    for (i = 0; i < nclients; i++) {
        begin(&clients[i]);
    }

    while (to_come > 0) {
        serve(listening);
    }

    clock_gettime(CLOCK_MONOTONIC, &to);

    for (i = 0; i < nclients; i++) {
        close(clients[i].fd);
        free(clients[i].out);
    }

    return (double) (to.tv_sec - from.tv_sec)
           + (double) (to.tv_nsec - from.tv_nsec) / 1e9;
}


int
main(void)
{
    int                i, port, nclients, listening;
    char               line[4096], file[4096];
    long               requests;
    double             seconds;
    socklen_t          len = sizeof(struct sockaddr_in);
    struct epoll_event event = { .events = EPOLLIN };
    struct sockaddr_in in = { .sin_family = AF_INET };

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    epoll_fd = epoll_create1(0);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listening = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(listening, (struct sockaddr *) &in, sizeof(in)) != 0
        || listen(listening, CONNS) != 0
        || getsockname(listening, (struct sockaddr *) &in, &len) != 0
        || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listening, &event) != 0)
    {
        fail("listen");
    }

    for (i = 0; i < CONNS; i++) {
        upstreams[i].fd = -1;
    }

    printf("%d\n", ntohs(in.sin_port));
    fflush(stdout);

    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (sscanf(line, "%d %d %ld %4095s", &port, &nclients, &requests, file)
                != 4
            || nclients < 1 || nclients > CONNS)
        {
            fail("what?");
        }

        read_body(file);
        seconds = run(port, nclients, requests, listening);
        printf("%ld %.3f\n", whole, seconds);
        fflush(stdout);
    }

    return 0;
}
