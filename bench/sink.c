/*
 * sink.c: the clients of the benchmark: they read streams to their end.
 *
 * Usage: sink PORT PATH CONNECTIONS. Posts a chat request on each connection
 * at the same time and reads the answers, without the chunk framing. Prints a
 * line of JSON: the time, the payload's bytes, their checksum (over all
 * connections), and the number of complete streams.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

/* The kind of the next byte. */
typedef enum {
    HEAD, /* of the header; ends with an empty line */
    SIZE, /* of a chunk's size; ends with LF */
    DATA, /* of a chunk; ends with the chunk */
    TAIL, /* of the line end after a chunk; ends with LF */
    OVER  /* none: the last chunk has arrived */
} state_e;

typedef struct {
    int           fd;
    state_e       state;
    char          head[4096];
    size_t        head_len;
    unsigned long left; /* bytes of the chunk, or its size so far */
    unsigned long bytes;
    uLong         sum;
    int           ok; /* status 200 */
} stream_t;

static const char body[] = "{\"model\":\"m\",\"stream\":true,\"messages\":"
                           "[{\"role\":\"user\",\"content\":\"Hello\"}]}";


static double
now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double) ts.tv_sec * 1e3 + (double) ts.tv_nsec / 1e6;
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
        if (s->head_len == sizeof(s->head) - 1) {
            exit(1);
        }
        s->head[s->head_len++] = ch;
        if (s->head_len > 4
            && memcmp(s->head + s->head_len - 4, "\r\n\r\n", 4) == 0) {
            s->ok = strncmp(s->head, "HTTP/1.1 200", 12) == 0
                    && strstr(s->head, "chunked") != NULL;
            s->state = SIZE;
        }
        break;

    case SIZE:
        if (ch == '\n') {
            s->state = s->left ? DATA : OVER;
        } else if (ch != '\r') {
            s->left = s->left * 16 + digit(ch);
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

    while (n > 0) {
        if (s->state != DATA) {
            byte(s, *p++);
            n--;
            continue;
        }

        len = n < s->left ? n : s->left;
        s->sum = adler32(s->sum, (Bytef *) p, (uInt) len);
        s->bytes += len;
        s->left -= len;
        p += len;
        n -= len;
        if (s->left == 0) {
            s->state = TAIL;
        }
    }
}


static void
start(stream_t *s, int port, const char *path)
{
    int                n;
    char               request[1024];
    struct sockaddr_in in = { 0 };

    n = snprintf(request, sizeof(request),
                 "POST %s HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n"
                 "Authorization: Bearer bench\r\n"
                 "Content-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 path, sizeof(body) - 1, body);

    in.sin_family = AF_INET;
    in.sin_port = htons((unsigned short) port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->sum = adler32(0, NULL, 0);
    s->fd = socket(AF_INET, SOCK_STREAM, 0);

    if (connect(s->fd, (struct sockaddr *) &in, sizeof(in)) != 0
        || send(s->fd, request, (size_t) n, 0) != n
        || fcntl(s->fd, F_SETFL, O_NONBLOCK) != 0)
    {
        perror("sink");
        exit(1);
    }
}


/* Reads until all streams are over. */
static void
drain(stream_t *streams, int n)
{
    int                i, ready, efd = epoll_create1(0);
    char               buf[262144];
    ssize_t            len;
    stream_t          *s;
    struct epoll_event ev, events[64];

    for (i = 0; i < n; i++) {
        ev.events = EPOLLIN;
        ev.data.ptr = &streams[i];
        epoll_ctl(efd, EPOLL_CTL_ADD, streams[i].fd, &ev);
    }

    while (n > 0) {
        ready = epoll_wait(efd, events, 64, -1);
        for (i = 0; i < ready; i++) {
            s = events[i].data.ptr;
            len = recv(s->fd, buf, sizeof(buf), 0);
            if (len > 0) {
                take(s, buf, (size_t) len);
            }
            if (s->state == OVER || len == 0 || (len < 0 && errno != EAGAIN)) {
                close(s->fd);
                n--;
            }
        }
    }
}


int
main(int argc, char **argv)
{
    int           i, n, ok = 0;
    uLong         sum = 0;
    double        began;
    stream_t     *streams;
    unsigned long bytes = 0;

    if (argc != 4) {
        fprintf(stderr, "usage: sink PORT PATH CONNECTIONS\n");
        return 2;
    }

    n = atoi(argv[3]);
    streams = calloc((size_t) n, sizeof(*streams));
    began = now();

    for (i = 0; i < n; i++) {
        start(&streams[i], atoi(argv[1]), argv[2]);
    }

    drain(streams, n);

    for (i = 0; i < n; i++) {
        ok += streams[i].ok && streams[i].state == OVER;
        bytes += streams[i].bytes;
        sum = sum * 31 + streams[i].sum;
    }

    printf("{\"ms\":%.1f,\"bytes\":%lu,\"sum\":\"%lx\",\"ok\":%d}\n",
           now() - began, bytes, sum, ok);
    return ok == n ? 0 : 1;
}
