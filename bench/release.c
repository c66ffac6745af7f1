/*
 * release.c: how long a batch's last result takes to reach the provider.
 *
 * It is the provider, too: prints its port. A line "HELD LAST BATCHES HISTORY"
 * on its input sends so many batches of two calls of OpenAI Chat, with HISTORY
 * bytes of messages before them: one client brings one result to port HELD and
 * is held; another, already connected, brings the other one to port LAST. A
 * line per batch: the worker of the held and of the last request (header
 * X-Worker); microseconds from before the last result is written until the
 * provider has its first bytes; and from the last client's first byte until
 * the held one has its first. After each a line of plain nginx at port LAST,
 * worker 0: a complete body, nothing held. The line "." ends them.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HOLD_MS 3 /* a request that arrived this long ago is held */
#define UPSTREAM 128
#define ROOM (1024 * 1024)

/* One connection and its received bytes. */
typedef struct {
    int    fd;
    char  *data;
    size_t len;
    double first; /* time of its first byte */
    int    over;
} side_t;

static side_t clients[2];
static side_t upstream[UPSTREAM];
static int    listening;
static double received; /* time of a request's first byte */
static int    requests; /* of this batch */
static char   ids[2][64];

static const char answer[] =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
    "67\r\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\","
    "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Warm.\"}}]}\n\n\r\n"
    "6d\r\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\","
    "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}"
    "\n\n\r\n"
    "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";


static double
now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double) ts.tv_sec * 1e6 + (double) ts.tv_nsec / 1e3;
}


static void
fail(const char *what)
{
    fprintf(stderr, "release: %s\n", what);
    exit(1);
}


static int
connected(int port)
{
    int                one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in in = { 0 };

    in.sin_family = AF_INET;
    in.sin_port = htons((unsigned short) port);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    if (connect(fd, (struct sockaddr *) &in, sizeof(in)) != 0) {
        fail("connect");
    }

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}


/* A request with the results of the mask, ready to be written. */
static char *
request(const char *path, int mask, int history)
{
    int   i, n;
    char *text = malloc(ROOM), *body = malloc(ROOM), *p = body;

    p += sprintf(p, "{\"model\":\"m\",\"stream\":true,\"messages\":[");

    for (n = history; n > 0; n -= 200) {
        p += sprintf(p, "{\"role\":\"%s\",\"content\":\"%0160d\"},",
                     n / 200 % 2 ? "user" : "assistant", n);
    }

    p += sprintf(p,
                 "{\"role\":\"user\",\"content\":\"Is it warm?\"},"
                 "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[");

    for (i = 0; i < 2; i++) {
        p += sprintf(p,
                     "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":"
                     "{\"name\":\"weather\",\"arguments\":"
                     "\"{\\\"city\\\":\\\"Town %d\\\"}\"}}",
                     i ? "," : "", ids[i], i);
    }

    p += sprintf(p, "]}");

    for (i = 0; i < 2; i++) {
        if (mask & 1 << i) {
            p += sprintf(p,
                         ",{\"role\":\"tool\",\"tool_call_id\":\"%s\","
                         "\"content\":\"{\\\"degrees\\\":2%d}\"}",
                         ids[i], i);
        }
    }

    p += sprintf(p, "]}");

    sprintf(text,
            "POST %s HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n"
            "Authorization: Bearer bench\r\n"
            "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
            path, (size_t) (p - body), body);
    free(body);
    return text;
}


static void
post(side_t *side, char *text)
{
    size_t len = strlen(text);

    if (write(side->fd, text, len) != (ssize_t) len) {
        fail("write");
    }

    free(text);
}


/* Reads the received bytes; 0: the other side closed. */
static int
take(side_t *side)
{
    ssize_t n =
        recv(side->fd, side->data + side->len, ROOM - 1 - side->len, 0);

    if (n <= 0) {
        return 0;
    }

    if (side->len == 0) {
        side->first = now();
    }

    side->len += (size_t) n;
    side->data[side->len] = '\0';
    return 1;
}


/* The provider: answers a whole request, which must have both results. */
static void
provide(side_t *side)
{
    int   i;
    char *body, *length;
    char  result[192];

    if (!take(side)) {
        close(side->fd);
        side->fd = -1;
        return;
    }

    body = strstr(side->data, "\r\n\r\n");
    length = strcasestr(side->data, "\r\nContent-Length: ");
    if (body == NULL || length == NULL
        || strlen(body + 4) < strtoul(length + 18, NULL, 10))
    {
        return;
    }

    for (i = 0; i < 2; i++) {
        sprintf(result, "\"tool_call_id\":\"%s\"", ids[i]);
        if (strstr(body, result) == NULL) {
            fail("the provider got half a batch");
        }
    }

    requests++;
    received = side->first;
    side->len = 0;
    if (write(side->fd, answer, sizeof(answer) - 1) < 0) {
        fail("answer");
    }
}


static void
accepted(void)
{
    int i, one = 1;

    for (i = 0; i < UPSTREAM; i++) {
        if (upstream[i].fd < 0) {
            upstream[i].fd = accept(listening, NULL, NULL);
            upstream[i].len = 0;
            setsockopt(upstream[i].fd, IPPROTO_TCP, TCP_NODELAY, &one,
                       sizeof(one));
            return;
        }
    }

    fail("too many upstream connections");
}


/* Serves until the clients are done, or for some milliseconds. */
static void
serve(int nclients, double ms)
{
    int           i, n, wait;
    double        end = now() + ms * 1e3;
    side_t       *sides[UPSTREAM + 3];
    struct pollfd fds[UPSTREAM + 3];

    for (;;) {
        n = 0;
        fds[n++].fd = listening;
        for (i = 0; i < UPSTREAM; i++) {
            if (upstream[i].fd >= 0) {
                sides[n] = &upstream[i];
                fds[n++].fd = upstream[i].fd;
            }
        }
        for (i = 0; i < nclients; i++) {
            if (!clients[i].over) {
                sides[n] = &clients[i];
                fds[n++].fd = clients[i].fd;
            }
        }
        for (i = 0; i < n; i++) {
            fds[i].events = POLLIN;
        }

        wait = (int) ((end - now()) / 1e3);
        if (end < now()
            || (nclients && clients[0].over && clients[nclients - 1].over)) {
            return;
        }

        poll(fds, (nfds_t) n, wait < 0 ? 0 : wait);

        for (i = 1; i < n; i++) {
            if (fds[i].revents == 0) {
                continue;
            }
            if (sides[i] >= clients && sides[i] < clients + 2) {
                sides[i]->over = !take(sides[i]);
            } else {
                provide(sides[i]);
            }
        }

        if (fds[0].revents) {
            accepted();
        }
    }
}


static void
names(int number)
{
    int                i, j;
    static const char  set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOP";
    unsigned long long state;

    for (i = 0; i < 2; i++) {
        state = (unsigned long long) (number * 2 + i) * 2654435761u
                + (unsigned long long) getpid() * 40503u + 12345;
        strcpy(ids[i], "call_");
        for (j = 5; j < 29; j++) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            ids[i][j] = set[(state >> 33) % (sizeof(set) - 1)];
        }
        ids[i][29] = '\0';
    }
}


static int
worker(const side_t *side)
{
    const char *p = strstr(side->data, "X-Worker: ");

    if (p == NULL) {
        fail("an answer without X-Worker");
    }

    return atoi(p + 10);
}


static void
begin(const int *ports, int n)
{
    int i;

    requests = 0;
    for (i = 0; i < n; i++) {
        clients[i].fd = connected(ports[i]);
        clients[i].len = 0;
        clients[i].over = 0;
    }
}


static void
batch(const int *ports, int history)
{
    double start;
    char  *half, *other;

    begin(ports, 2);
    half = request("/v1/chat/completions", 1, history);
    other = request("/v1/chat/completions", 2, history);

    post(&clients[0], half);
    serve(0, HOLD_MS);
    if (requests != 0) {
        fail("half a batch went on");
    }

    start = now();
    post(&clients[1], other);
    serve(2, 5000);

    if (requests != 1 || !clients[0].over || !clients[1].over) {
        fail("a batch was not released once");
    }

    printf("%d %d %.1f %.1f\n", worker(&clients[0]), worker(&clients[1]),
           received - start, clients[0].first - clients[1].first);
    close(clients[0].fd);
    close(clients[1].fd);
}


/* A complete body through plain nginx: the base time of a request. */
static void
plain(int port, int history)
{
    double start;
    char  *text;

    begin(&port, 1);
    text = request("/plain/v1/chat/completions", 3, history);
    serve(0, HOLD_MS);

    start = now();
    post(&clients[0], text);
    serve(1, 5000);

    if (requests != 1) {
        fail("no answer of plain nginx");
    }

    printf("0 %d %.1f 0\n", worker(&clients[0]), received - start);
    close(clients[0].fd);
}


int
main(void)
{
    int                i, ports[2], batches, history, number = 0;
    socklen_t          len;
    struct sockaddr_in in = { 0 };

    len = sizeof(in);
    prctl(PR_SET_PDEATHSIG, 15);

    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listening = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listening, (struct sockaddr *) &in, len) != 0
        || listen(listening, 64) != 0)
    {
        fail("listen");
    }

    getsockname(listening, (struct sockaddr *) &in, &len);
    printf("%d\n", ntohs(in.sin_port));
    fflush(stdout);

    for (i = 0; i < UPSTREAM; i++) {
        upstream[i].fd = -1;
        upstream[i].data = malloc(ROOM);
    }
    clients[0].data = malloc(ROOM);
    clients[1].data = malloc(ROOM);

    while (scanf("%d %d %d %d", &ports[0], &ports[1], &batches, &history)
           == 4) {
        for (i = 0; i < batches; i++) {
            names(number++);
            batch(ports, history);
            plain(ports[1], history);
        }
        printf(".\n");
        fflush(stdout);
    }

    return 0;
}
