/*
 * source.c: the provider of the benchmark: OpenAI Chat streams from memory.
 *
 * Usage: source; prints its port. A request's query selects its answer: n
 * events of about `size` bytes, as fast as the client reads, in writes of 16
 * KB (cut anywhere), or with us=N one event per write, one every N
 * microseconds, the connections evenly spread over that time. One thread; all
 * bytes exist before the first request arrives.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNS 1024
#define WRITE 16384
#define EVENTS 4096
#define SPREAD 50 /* connections over which the events are spread in time */

typedef struct {
    int    fd;
    char   in[65536];
    size_t in_len;

    int    serving;
    long   left; /* events to send */
    long   us;   /* 0: as fast as possible */
    long   due;
    size_t at; /* next byte, or event, of the text */
    int    text;

    char   out[WRITE + 512];
    size_t out_len, out_sent;
    int    ended;
} conn_t;

/* The same events in two sizes, as one text; starts has their positions. */
typedef struct {
    int    size;
    int    tool; /* arguments of a call, else text */
    char  *data;
    size_t starts[EVENTS + 1];
} text_t;

static conn_t conns[CONNS];
static text_t texts[8];
static int    ntexts, nconns, epoll_fd;

static const char head[] = "HTTP/1.1 200 OK\r\n"
                           "Content-Type: text/event-stream\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n";

static const char first[] =
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
    "\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":"
    "{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";

static const char opened[] =
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
    "\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":"
    "{\"tool_calls\":[{\"index\":0,\"id\":\"call_Zq3nRb8TkW1xYd5LmC0vPs7A\","
    "\"type\":\"function\",\"function\":{\"name\":\"write\","
    "\"arguments\":\"\"}}]},\"finish_reason\":null}]}\n\n";

static const char last[] =
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
    "\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},"
    "\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";


static long
now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000L + ts.tv_nsec / 1000;
}


/* Events of this size on average, with words of different lengths. */
static int
text_of(int size, int tool)
{
    int     i, n;
    text_t *t;
    char   *p, id[256];

    for (i = 0; i < ntexts; i++) {
        if (texts[i].size == size && texts[i].tool == tool) {
            return i;
        }
    }

    if (ntexts == 8) {
        exit(1);
    }

    t = &texts[ntexts];
    t->size = size;
    t->tool = tool;
    t->data = p = malloc((size_t) (size + 512) * EVENTS);
    n = size - (tool ? 148 : 103);
    for (i = 0; i < 255; i++) {
        id[i] = "0123456789abcdef"[(i * i + i / 3) % 16];
    }
    id[n < 1 ? 1 : n > 200 ? 200 : n] = '\0';

    for (i = 0; i < EVENTS; i++) {
        t->starts[i] = (size_t) (p - t->data);
        p += sprintf(p,
                     "data: {\"id\":\"%s\",\"object\":"
                     "\"chat.completion.chunk\",\"choices\":[{\"index\":0,"
                     "\"delta\":{%s %.*s\"}%s}]}\n\n",
                     id,
                     tool ? "\"tool_calls\":[{\"index\":0,\"function\":"
                            "{\"arguments\":\""
                          : "\"content\":\"",
                     i % 7, "tokens", tool ? "}]}" : "");
    }

    t->starts[EVENTS] = (size_t) (p - t->data);
    return ntexts++;
}


static void
chunk(conn_t *c, const char *data, size_t len)
{
    c->out_len += (size_t) sprintf(c->out + c->out_len, "%zx\r\n", len);
    memcpy(c->out + c->out_len, data, len);
    c->out_len += len;
    memcpy(c->out + c->out_len, "\r\n", 2);
    c->out_len += 2;
}


static void
finish(conn_t *c)
{
    chunk(c, last, sizeof(last) - 1);
    c->out_len += (size_t) sprintf(c->out + c->out_len, "0\r\n\r\n");
    c->ended = 1;
}


/* Fills out with the next piece of the text. */
static void
fill(conn_t *c)
{
    char    piece[WRITE];
    size_t  n, len = 0, end, at;
    text_t *t = &texts[c->text];

    c->out_len = c->out_sent = 0;

    if (c->left == 0) {
        finish(c);
        return;
    }

    if (c->us != 0) {
        at = t->starts[c->at];
        chunk(c, t->data + at, t->starts[c->at + 1] - at);
        c->at = (c->at + 1) % EVENTS;
        c->left--;
        return;
    }

    /* left counts whole texts: n is a multiple of EVENTS. */
    end = t->starts[EVENTS];
    while (len < WRITE && c->left > 0) {
        n = end - c->at < WRITE - len ? end - c->at : WRITE - len;
        memcpy(piece + len, t->data + c->at, n);
        len += n;
        c->at += n;
        if (c->at == end) {
            c->at = 0;
            c->left -= EVENTS;
        }
    }

    chunk(c, piece, len);
}


/* 0: the socket's buffer is full, or the answer is complete. */
static int
flush(conn_t *c)
{
    ssize_t n;

    while (c->out_sent < c->out_len) {
        n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent,
                 MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) {
                c->serving = 0;
            }
            return 0;
        }
        c->out_sent += (size_t) n;
    }

    if (c->ended) {
        c->serving = 0;
        return 0;
    }

    return 1;
}


static void
pump(conn_t *c)
{
    while (c->serving && flush(c)) {
        if (c->us != 0) {
            if (c->due > now()) {
                return;
            }
            c->due += c->us;
        }
        fill(c);
    }
}


static long
option(const char *line, const char *name, long otherwise)
{
    const char *p = strstr(line, name);

    return p ? atol(p + strlen(name)) : otherwise;
}


static void
answer(conn_t *c)
{
    char *line_end = strstr(c->in, "\r\n");

    *line_end = '\0';
    c->left = option(c->in, "n=", EVENTS);
    c->us = option(c->in, "us=", 0);
    c->text = text_of((int) option(c->in, "size=", 200),
                      option(c->in, "tool=", 0) != 0);
    c->due = now() + c->us * (nconns++ % SPREAD) / SPREAD;
    c->at = 0;
    c->ended = 0;
    c->serving = 1;
    c->out_sent = 0;
    c->out_len = sizeof(head) - 1;
    memcpy(c->out, head, c->out_len);
    chunk(c, first, sizeof(first) - 1);
    if (texts[c->text].tool) {
        chunk(c, opened, sizeof(opened) - 1);
    }
    c->in_len = 0;
    pump(c);
}


static void
readable(conn_t *c)
{
    char   *body;
    ssize_t n;

    for (;;) {
        n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - 1 - c->in_len, 0);
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            close(c->fd);
            c->fd = 0;
            c->serving = 0;
            return;
        }

        c->in_len += (size_t) n;
        c->in[c->in_len] = '\0';
        body = strstr(c->in, "\r\n\r\n");
        if (body != NULL
            && c->in + c->in_len - (body + 4)
                   >= option(c->in, "Content-Length: ", 0))
        {
            answer(c);
        }
    }
}


static void
accepted(int listening)
{
    int                fd, i, one = 1;
    struct epoll_event ev = { 0 };

    fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
    for (i = 0; fd >= 0 && i < CONNS; i++) {
        if (conns[i].fd == 0) {
            conns[i].fd = fd;
            conns[i].in_len = 0;
            conns[i].serving = 0;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
            ev.events = EPOLLIN | EPOLLOUT | EPOLLET;
            ev.data.ptr = &conns[i];
            epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
            return;
        }
    }
}


/* Microseconds until the next event is due; -1: none. */
static long
wait_time(void)
{
    int  i;
    long at = -1;

    for (i = 0; i < CONNS; i++) {
        if (conns[i].serving && conns[i].us != 0
            && (at < 0 || conns[i].due < at)) {
            at = conns[i].due;
        }
    }

    if (at < 0) {
        return -1;
    }

    at -= now();
    return at > 0 ? at : 0;
}


static void
loop(int listening)
{
    int                i, n;
    long               us;
    conn_t            *c;
    struct timespec    ts;
    struct epoll_event events[64];

    for (;;) {
        us = wait_time();
        ts.tv_sec = us / 1000000;
        ts.tv_nsec = us % 1000000 * 1000;

        n = epoll_pwait2(epoll_fd, events, 64, us < 0 ? NULL : &ts, NULL);

        for (i = 0; i < n; i++) {
            c = events[i].data.ptr;
            if (c == NULL) {
                accepted(listening);
                continue;
            }
            if (events[i].events & EPOLLIN) {
                readable(c);
            }
            if (c->fd != 0 && c->serving && c->us == 0) {
                pump(c);
            }
        }

        for (i = 0; i < CONNS && us >= 0; i++) {
            if (conns[i].serving && conns[i].us != 0) {
                pump(&conns[i]);
            }
        }
    }
}


int
main(void)
{
    int                fd;
    socklen_t          len;
    struct epoll_event ev = { 0 };
    struct sockaddr_in in = { 0 };

    len = sizeof(in);
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    /* Sleeps are not rounded up. */
    prctl(PR_SET_TIMERSLACK, 1000);
    /* End with the parent process. */
    prctl(PR_SET_PDEATHSIG, 15);

    fd = socket(AF_INET, SOCK_STREAM, 0);
    epoll_fd = epoll_create1(0);
    ev.events = EPOLLIN;
    if (fd < 0 || bind(fd, (struct sockaddr *) &in, len) != 0
        || listen(fd, 1024) != 0
        || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
    {
        perror("source");
        return 1;
    }

    getsockname(fd, (struct sockaddr *) &in, &len);
    printf("%d\n", ntohs(in.sin_port));
    fflush(stdout);
    loop(fd);
}
