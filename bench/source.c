/*
 * source.c: the provider of the benchmark: it streams the events of a file.
 *
 * Usage: source DIR; prints its port. A request's query selects the answer:
 * f=FILE of DIR (default: small), the first event with the header, then as
 * fast as the client reads, in writes of 16 KB that end anywhere; with us=N an
 * event per write, one every N microseconds, the connections evenly spread
 * over that time. One thread; a file is read once.
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

#define CONNS 4096
#define WRITE 16384
#define TEXTS 256

typedef struct {
    char    name[64];
    char   *data;
    size_t *starts; /* of each event, and the end of the last one */
    size_t  count;
} text_t;

typedef struct {
    int    fd;
    char   in[16384];
    size_t in_len;
    size_t skip; /* bytes of the request's body that are still to come */

    int     serving;
    text_t *text;
    size_t  event; /* the next one, if paced */
    size_t  at;    /* the next byte */
    long    us;    /* 0: as fast as possible */

    char   out[WRITE * 2];
    size_t out_len, out_sent;
    int    ended;
} conn_t;

static conn_t      conns[CONNS];
static long        due[CONNS]; /* time of the next event; 0: not paced */
static int         nconns;     /* places in use, up to the last one */
static text_t      texts[TEXTS];
static int         ntexts, epoll_fd;
static const char *folder;

static const char head[] = "HTTP/1.1 200 OK\r\n"
                           "Content-Type: text/event-stream\r\n"
                           "Transfer-Encoding: chunked\r\n\r\n";


static void
fail(const char *what)
{
    fprintf(stderr, "source: %s\n", what);
    exit(1);
}


static long
now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000L + ts.tv_nsec / 1000;
}


/* Notes where each event of the text begins; they end with an empty line. */
static void
index_events(text_t *t, size_t size)
{
    char  *p = t->data, *end, *last = p + size;
    size_t room = 0;

    for (t->count = 0; p < last; t->count++) {
        if (t->count + 1 >= room) {
            room = room * 2 + 64;
            t->starts = realloc(t->starts, room * sizeof(size_t));
        }
        t->starts[t->count] = (size_t) (p - t->data);
        end = memmem(p, (size_t) (last - p), "\n\n", 2);
        p = end ? end + 2 : last;
    }

    if (t->count == 0 || t->starts[1] > WRITE) {
        fail("a file without events, or its first one is long");
    }
    t->starts[t->count] = size;
}


static text_t *
text_of(const char *name, size_t len)
{
    int     i;
    char    path[4096];
    FILE   *file;
    long    size;
    text_t *t;

    for (i = 0; i < ntexts; i++) {
        if (strlen(texts[i].name) == len
            && memcmp(texts[i].name, name, len) == 0) {
            return &texts[i];
        }
    }

    t = &texts[ntexts];
    if (ntexts++ == TEXTS || len >= sizeof(t->name)) {
        fail("too many files, or a name is too long");
    }
    memcpy(t->name, name, len);
    snprintf(path, sizeof(path), "%s/%s", folder, t->name);
    file = fopen(path, "r");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        fail(path);
    }

    size = ftell(file);
    rewind(file);
    t->data = malloc((size_t) size);
    if (fread(t->data, 1, (size_t) size, file) != (size_t) size) {
        fail(path);
    }
    fclose(file);
    index_events(t, (size_t) size);
    return t;
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


/* Fills out with the next bytes of the text. */
static void
fill(conn_t *c)
{
    text_t *t = c->text;
    size_t  end = c->at + WRITE;

    c->out_len = c->out_sent = 0;

    if (c->at == t->starts[t->count]) {
        c->out_len = (size_t) sprintf(c->out, "0\r\n\r\n");
        c->ended = 1;
        return;
    }

    if (c->us != 0) {
        end = t->starts[++c->event];
    } else if (end > t->starts[t->count]) {
        end = t->starts[t->count];
    }

    chunk(c, t->data + c->at, end - c->at);
    c->at = end;
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
            c->serving = c->serving && errno == EAGAIN;
            return 0;
        }
        c->out_sent += (size_t) n;
    }

    c->serving = c->serving && !c->ended;
    return c->serving;
}


static void
pump(conn_t *c)
{
    long *next = &due[c - conns];

    while (c->serving && flush(c)) {
        if (c->us != 0) {
            if (*next > now()) {
                return;
            }
            *next += c->us;
        }
        fill(c);
    }

    if (!c->serving) {
        *next = 0;
    } else if (c->us != 0 && c->out_sent < c->out_len) {
        *next += 1000; /* the reader is slow */
    }
}


static long
option(const char *line, const char *name, long otherwise)
{
    const char *p = strcasestr(line, name);

    return p ? atol(p + strlen(name)) : otherwise;
}


static void
answer(conn_t *c)
{
    const char *name;
    static long served;

    *strstr(c->in, "\r\n") = '\0';
    name = strstr(c->in, "f=");
    name = name ? name + 2 : "small";
    c->text = text_of(name, strcspn(name, "& "));
    c->us = option(c->in, "&us=", 0);
    if (c->us != 0) {
        due[c - conns] = now() + c->us * (served++ * 618 % 1000) / 1000 + 1;
    }
    c->event = 1;
    c->at = c->text->starts[1];
    c->ended = 0;
    c->serving = 1;
    c->out_sent = 0;
    c->out_len = sizeof(head) - 1;
    memcpy(c->out, head, c->out_len);
    chunk(c, c->text->data, c->at);
    c->in_len = 0;
    pump(c);
}


static void
closed(conn_t *c)
{
    close(c->fd);
    c->fd = 0;
    c->serving = 0;
    due[c - conns] = 0;
}


/* Reads requests; their bodies are dropped. */
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
            closed(c);
            return;
        }

        if (c->skip > 0) {
            c->skip -= (size_t) n;
        } else {
            c->in_len += (size_t) n;
            c->in[c->in_len] = '\0';
            body = strstr(c->in, "\r\n\r\n");
            if (body == NULL) {
                continue;
            }
            c->skip = (size_t) (option(c->in, "\ncontent-length: ", 0)
                                - (c->in + c->in_len - body - 4));
        }

        if (c->skip == 0) {
            answer(c);
        } else if (c->in_len > sizeof(c->in) / 2) {
            /* The line of the request stays. */
            c->in_len = (size_t) (strstr(c->in, "\r\n") + 2 - c->in);
        }
    }
}


static void
accepted(int listening)
{
    int                fd, i, one = 1;
    struct epoll_event ev = { 0 };

    while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        for (i = 0; i < CONNS && conns[i].fd != 0; i++) {
            /* void */
        }
        if (i == CONNS) {
            fail("too many connections");
        }
        nconns = i >= nconns ? i + 1 : nconns;
        conns[i].fd = fd;
        conns[i].in_len = conns[i].skip = 0;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        ev.events = EPOLLIN | EPOLLOUT | EPOLLET;
        ev.data.ptr = &conns[i];
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
    }
}


/* Microseconds until the next event is due; -1: none. */
static long
wait_time(void)
{
    int  i;
    long at = 0;

    for (i = 0; i < nconns; i++) {
        if (due[i] != 0 && (at == 0 || due[i] < at)) {
            at = due[i];
        }
    }

    if (at == 0) {
        return -1;
    }

    at -= now();
    return at > 0 ? at : 0;
}


static void
loop(int listening)
{
    int                i, n;
    long               us, time;
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

        time = now();
        for (i = 0; i < nconns && us >= 0; i++) {
            if (due[i] != 0 && due[i] <= time) {
                pump(&conns[i]);
            }
        }
    }
}


int
main(int argc, char **argv)
{
    int                fd;
    socklen_t          len;
    struct epoll_event ev = { 0 };
    struct sockaddr_in in = { 0 };

    if (argc != 2) {
        fail("usage: source DIR");
    }
    folder = argv[1];

    len = sizeof(in);
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    /* Sleeps are not rounded up. */
    prctl(PR_SET_TIMERSLACK, 1000);
    /* End with the parent process. */
    prctl(PR_SET_PDEATHSIG, 15);

    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    epoll_fd = epoll_create1(0);
    ev.events = EPOLLIN;
    if (fd < 0 || bind(fd, (struct sockaddr *) &in, len) != 0
        || listen(fd, CONNS) != 0
        || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0)
    {
        fail("listen");
    }

    getsockname(fd, (struct sockaddr *) &in, &len);
    printf("%d\n", ntohs(in.sin_port));
    fflush(stdout);
    loop(fd);
}
