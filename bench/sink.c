/*
 * sink.c: the clients of the benchmark: they send requests and read the
 * answers to their ends.
 *
 * Usage: sink PORT FILE CONNECTIONS TIMES RAMP SERIAL. Each connection sends
 * the request in FILE so many times, one after the other; RAMP microseconds
 * lie between the first requests of two connections. Each "#SERIAL#" of a
 * request becomes a number of its own, from SERIAL on. Prints a line of JSON:
 * the time, the number of complete answers with status 200, their bytes
 * without the framing, their checksum, and microseconds from a request to the
 * first byte of its answer (p50, p99).
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#define MARK "#SERIAL#"
#define MARKS 4096

/* The kind of the next byte. */
typedef enum {
    HEAD, /* of the header; ends with an empty line */
    SIZE, /* of a chunk's size; ends with LF */
    DATA, /* of a chunk; ends with the chunk */
    TAIL, /* of the line end after a chunk; ends with LF */
    OVER  /* none: the answer is complete */
} state_e;

typedef struct {
    int           fd;
    char         *request;
    size_t        sent;
    int           left; /* requests to send */
    double        since;
    int           waits; /* for the first byte */
    state_e       state;
    char          head[8192];
    size_t        head_len;
    unsigned long size; /* bytes of the chunk that are to come */
    uLong         sum;
    int           good; /* status 200, chunked */
} stream_t;

static char         *text; /* the request */
static size_t        text_len, marks[MARKS], nmarks;
static long          serial;
static int           epoll_fd, open_streams, whole;
static unsigned long bytes, sums;
static double       *firsts;
static size_t        nfirsts;


static void
fail(const char *what)
{
    fprintf(stderr, "sink: %s\n", what);
    exit(1);
}


static double
now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double) ts.tv_sec * 1e6 + (double) ts.tv_nsec / 1e3;
}


static void
read_request(const char *name)
{
    long  size;
    char *at;
    FILE *file = fopen(name, "r");

    if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
        fail(name);
    }

    size = ftell(file);
    rewind(file);
    text = malloc((size_t) size + 1);
    text_len = fread(text, 1, (size_t) size, file);
    text[text_len] = '\0';
    fclose(file);

    for (at = text; (at = strstr(at, MARK)) != NULL; at += 8) {
        if (nmarks == MARKS) {
            fail("too many marks");
        }
        marks[nmarks++] = (size_t) (at - text);
    }
}


static void
finish(stream_t *s)
{
    close(s->fd);
    s->fd = -1;
    open_streams--;
}


static void
send_more(stream_t *s)
{
    ssize_t n;

    while (s->sent < text_len) {
        n = send(s->fd, s->request + s->sent, text_len - s->sent,
                 MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) {
                finish(s);
            }
            return;
        }
        s->sent += (size_t) n;
    }
}


/* Begins the next request of a connection. */
static void
begin(stream_t *s)
{
    char   number[24];
    size_t i;

    if (s->left-- == 0) {
        finish(s);
        return;
    }

    snprintf(number, sizeof(number), "%08ld", serial++ % 100000000);
    for (i = 0; i < nmarks; i++) {
        memcpy(s->request + marks[i], number, 8);
    }

    s->state = HEAD;
    s->head_len = s->sent = s->size = 0;
    s->sum = adler32(0, NULL, 0);
    s->waits = 1;
    s->since = now();
    send_more(s);
}


static void
start(stream_t *s, int port, int times)
{
    int                one = 1;
    struct sockaddr_in in = { .sin_family = AF_INET };
    struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };

    in.sin_port = htons((unsigned short) port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->fd = socket(AF_INET, SOCK_STREAM, 0);
    s->left = times;
    s->request = nmarks ? malloc(text_len) : text;
    memcpy(s->request, text, nmarks ? text_len : 0);

    if (connect(s->fd, (struct sockaddr *) &in, sizeof(in)) != 0
        || fcntl(s->fd, F_SETFL, O_NONBLOCK) != 0)
    {
        fail("connect");
    }

    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    ev.data.ptr = s;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->fd, &ev) != 0) {
        fail("epoll_ctl");
    }
    begin(s);
}


static unsigned long
digit(char ch)
{
    return (unsigned long) (ch <= '9' ? ch - '0' : (ch | 32) - 'a' + 10);
}


static void
byte(stream_t *s, char ch)
{
    switch (s->state) {
    case HEAD:
        if (s->head_len == 0 && (ch == '\r' || ch == '\n')) {
            break; /* the last line end of the answer before */
        }
        if (s->head_len == sizeof(s->head) - 1) {
            fail("a long header");
        }
        s->head[s->head_len++] = ch;
        s->head[s->head_len] = '\0';
        if (s->head_len > 4
            && memcmp(s->head + s->head_len - 4, "\r\n\r\n", 4) == 0) {
            s->good = strncmp(s->head, "HTTP/1.1 200", 12) == 0
                      && strcasestr(s->head, "chunked") != NULL;
            s->state = s->good ? SIZE : OVER;
        }
        break;

    case SIZE:
        if (ch == '\n') {
            s->state = s->size ? DATA : OVER;
        } else if (ch != '\r') {
            s->size = s->size * 16 + digit(ch);
        }
        break;

    case TAIL:
        if (ch == '\n') {
            s->state = SIZE;
        }
        break;

    default:
        break;
    }
}


static void
take(stream_t *s, char *p, size_t n)
{
    size_t len;

    while (n > 0 && s->state != OVER) {
        if (s->state != DATA) {
            byte(s, *p++);
            n--;
            continue;
        }

        if (s->waits) {
            s->waits = 0;
            firsts[nfirsts++] = now() - s->since;
        }
        len = n < s->size ? n : s->size;
        s->sum = adler32(s->sum, (Bytef *) p, (uInt) len);
        bytes += len;
        s->size -= len;
        p += len;
        n -= len;
        if (s->size == 0) {
            s->state = TAIL;
        }
    }
}


/* What the socket has; the last chunk's line end may come later. */
static void
readable(stream_t *s)
{
    static char buf[262144];
    ssize_t     n;

    for (;;) {
        n = recv(s->fd, buf, sizeof(buf), 0);
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n > 0) {
            take(s, buf, (size_t) n);
        }
        if (s->state == OVER && s->good) {
            whole++;
            sums += s->sum;
            begin(s);
        } else if (n <= 0 || s->state == OVER) {
            finish(s);
        }
        if (s->fd < 0) {
            return;
        }
    }
}


static int
less(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}


/* Begins all streams, in time, and serves them to their ends. */
static void
run(stream_t *streams, int n, int port, int times, long ramp)
{
    int                i, ready, started = 0;
    double             wait, from = now();
    stream_t          *s;
    struct epoll_event events[64];

    while (started < n || open_streams > 0) {
        while (started < n && now() >= from + (double) (started * ramp)) {
            open_streams++;
            start(&streams[started++], port, times);
        }

        wait = from + (double) (started * ramp) - now();
        wait = wait < 0 ? 0 : wait;
        ready = epoll_wait(epoll_fd, events, 64,
                           started == n ? -1 : (int) (wait / 1e3));
        for (i = 0; i < ready; i++) {
            s = events[i].data.ptr;
            if (s->fd >= 0 && events[i].events & EPOLLOUT) {
                send_more(s);
            }
            if (s->fd >= 0 && events[i].events & ~(unsigned) EPOLLOUT) {
                readable(s);
            }
        }
    }
}


int
main(int argc, char **argv)
{
    int       n, times;
    double    began = now();
    stream_t *streams;

    if (argc != 7) {
        fail("usage: sink PORT FILE CONNECTIONS TIMES RAMP SERIAL");
    }

    prctl(PR_SET_PDEATHSIG, 15);
    read_request(argv[2]);
    n = atoi(argv[3]);
    times = atoi(argv[4]);
    serial = atol(argv[6]);
    streams = calloc((size_t) n, sizeof(*streams));
    firsts = calloc((size_t) n * (size_t) times, sizeof(*firsts));
    epoll_fd = epoll_create1(0);
    run(streams, n, atoi(argv[1]), times, atol(argv[5]));

    qsort(firsts, nfirsts, sizeof(*firsts), less);
    printf("{\"ms\":%.1f,\"whole\":%d,\"bytes\":%lu,\"sum\":\"%lx\","
           "\"p50\":%.1f,\"p99\":%.1f}\n",
           (now() - began) / 1e3, whole, bytes, sums,
           nfirsts ? firsts[nfirsts / 2] : 0,
           nfirsts ? firsts[nfirsts * 99 / 100] : 0);
    return 0;
}
