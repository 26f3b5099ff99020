/* A load generator: one thread, keep-alive connections, latencies counted from the intended time.
 *
 *   load closed  SECONDS WARM_SECONDS CONNECTIONS BODY_FILE EXPECT PORT PATH
 *   load count   REQUESTS CONNECTIONS BODY_FILE EXPECT PORT PATH
 *   load open    SECONDS RATE BODY_FILE EXPECT PORT PATH [PORT PATH ...]
 *   load streams ROUNDS CONNECTIONS BODY_FILE EXPECT_CHUNKS PORT PATH
 *
 * `closed`: every connection sends its next request as soon as it has the reply. `count`: the same for a fixed number
 * of requests. `open`: requests leave at fixed times whatever happens, RATE a second to each target, the targets taking
 * turns, so that the same instant is measured on all of them. `streams`: all connections read one stream each, ROUNDS
 * times; every chunk carries "@" and the nanosecond it was sent at by the fake upstream.
 * BENCH_HEADERS in the environment holds further header lines, each with its line end.
 * EXPECT is text that must stand in every reply. Prints one JSON object; any failed request is counted in "failed".
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

typedef struct { int port; char *request; size_t request_len; } Target;
typedef struct { int64_t *items; size_t len, cap; } Samples;
typedef struct Conn {
    int fd, target, busy, status, chunked, in_head, chunk_state, done_matched;
    size_t out_at, head_len, body_len, need, chunk_left, seen;
    int64_t intended, first, stamp;
    long chunks;
    int stamp_digits;
    char head[16384], body[1 << 18];
    struct Conn *next;
} Conn;

static Target targets[16];
static int target_count, poller, streaming, finished;
static const char *expect;
static long expected_chunks, failed, wanted = -1, started, completed;
static Samples total[16], first[16], chunk_times;
static Conn *idle[16];
static int64_t record_from, stop_at;
static char last_error[256];

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sample(Samples *s, int64_t value) {
    if (s->len == s->cap) s->items = realloc(s->items, (s->cap = s->cap ? s->cap * 2 : 4096) * sizeof *s->items);
    s->items[s->len++] = value;
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double at(const Samples *s, double q) { /* of sorted samples, in microseconds */
    return s->len ? (double)s->items[(size_t)(q * (double)(s->len - 1))] / 1000.0 : 0;
}

static void fail(Conn *c, const char *why) {
    failed++;
    snprintf(last_error, sizeof last_error, "%s (status %d)", why, c->status);
}

static int connect_to(Conn *c) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)targets[c->target].port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) return 0;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    return !epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e);
}

static Conn *new_conn(int target) {
    Conn *c = calloc(1, sizeof *c);
    c->target = target;
    c->fd = -1;
    return c;
}

static void push_out(Conn *c) {
    Target *t = &targets[c->target];
    while (c->busy && c->out_at < t->request_len) {
        ssize_t n = send(c->fd, t->request + c->out_at, t->request_len - c->out_at, MSG_NOSIGNAL);
        if (n < 0) return; /* not connected yet, or full: EPOLLOUT comes; a reset shows on reading */
        c->out_at += (size_t)n;
    }
}

static void start(Conn *c, int64_t intended) {
    started++;
    c->busy = c->in_head = 1;
    c->status = c->chunked = c->chunk_state = c->done_matched = c->stamp_digits = 0;
    c->out_at = c->head_len = c->body_len = c->need = c->chunk_left = c->seen = 0;
    c->chunks = 0;
    c->first = 0;
    c->intended = intended;
    if (c->fd < 0 && !connect_to(c)) { fail(c, "cannot connect"); c->busy = 0; return; }
    push_out(c);
}

/* Look at decoded bytes of the body: keep whole replies, scan streams for stamps and the terminator. */
static void body_bytes(Conn *c, const char *data, size_t n) {
    c->seen += n;
    if (!streaming) {
        if (!c->first) c->first = now_ns();
        if (n > sizeof c->body - c->body_len) n = sizeof c->body - c->body_len;
        memcpy(c->body + c->body_len, data, n);
        c->body_len += n;
        return;
    }
    static const char DONE[] = "[DONE]";
    int64_t now = now_ns();
    for (size_t i = 0; i < n; i++) {
        char b = data[i];
        if (b == '@') { c->stamp_digits = 1; c->stamp = 0; }
        else if (c->stamp_digits && b >= '0' && b <= '9') { c->stamp = c->stamp * 10 + (b - '0'); c->stamp_digits++; }
        else if (c->stamp_digits) {
            if (c->stamp_digits == 20) {
                if (!c->chunks++) c->first = now;
                if (now >= record_from) sample(&chunk_times, now - c->stamp);
            }
            c->stamp_digits = 0;
        }
        c->done_matched = b == DONE[c->done_matched] ? c->done_matched + 1 : b == '[';
        if (c->done_matched == 6) { c->done_matched = 0; c->body_len = 6; }
    }
}

/* Undo chunked transfer encoding; returns 1 at its end. */
static int dechunk(Conn *c, const char *data, size_t n) {
    while (n) {
        if (c->chunk_state == 0) { /* size line */
            if (*data == '\n') c->chunk_state = c->chunk_left ? 1 : 3;
            else if (*data >= '0' && *data <= '9') c->chunk_left = c->chunk_left * 16 + (size_t)(*data - '0');
            else if ((*data | 32) >= 'a' && (*data | 32) <= 'f')
                c->chunk_left = c->chunk_left * 16 + (size_t)((*data | 32) - 'a' + 10);
            data++; n--;
        } else if (c->chunk_state == 1) { /* data */
            size_t part = n < c->chunk_left ? n : c->chunk_left;
            body_bytes(c, data, part);
            data += part; n -= part; c->chunk_left -= part;
            if (!c->chunk_left) c->chunk_state = 2;
        } else if (c->chunk_state == 2) { /* line end after data */
            if (*data == '\n') c->chunk_state = 0;
            data++; n--;
        } else { /* line end after the last chunk */
            if (*data == '\n') return 1;
            data++; n--;
        }
    }
    return 0;
}

static int read_head(Conn *c) {
    c->head[c->head_len] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) return 0;
    *end = 0;
    c->status = atoi(c->head + 9);
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    c->chunked = strcasestr(c->head, "\r\ntransfer-encoding: chunked") != NULL;
    c->need = length ? strtoul(length + 17, NULL, 10) : 0;
    c->in_head = 0;
    size_t used = (size_t)(end + 4 - c->head);
    return (int)used;
}

static void next_request(Conn *c);

static void finish(Conn *c) {
    int64_t now = now_ns();
    c->busy = 0;
    completed++;
    if (c->status != 200) fail(c, "status");
    else if (streaming && (c->body_len != 6 || (expected_chunks && c->chunks != expected_chunks)))
        fail(c, "a stream is not whole");
    else if (!streaming && !memmem(c->body, c->body_len, expect, strlen(expect))) fail(c, "unexpected reply");
    else if (c->intended >= record_from) {
        sample(&total[c->target], now - c->intended);
        sample(&first[c->target], c->first - c->intended);
    }
    next_request(c);
}

static void received(Conn *c, const char *data, size_t n) {
    if (!c->busy) return;
    int done = 0;
    if (c->in_head) {
        size_t room = sizeof c->head - 1 - c->head_len, before = c->head_len;
        size_t part = n < room ? n : room;
        memcpy(c->head + c->head_len, data, part);
        c->head_len += part;
        int used = read_head(c);
        if (!used) return;
        data += (size_t)used - before;
        n -= (size_t)used - before;
    }
    if (c->chunked) done = dechunk(c, data, n);
    else { body_bytes(c, data, n); done = c->seen >= c->need; }
    if (done) finish(c);
}

static void lost(Conn *c) {
    close(c->fd);
    c->fd = -1;
    if (c->busy) { c->busy = 0; completed++; fail(c, "connection lost"); next_request(c); }
}

static void readable(Conn *c) {
    static char buffer[1 << 18];
    for (;;) {
        ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) { lost(c); return; }
        if (n < 0) return;
        int fd = c->fd;
        received(c, buffer, (size_t)n);
        if (c->fd != fd || (size_t)n < sizeof buffer) return;
    }
}

static int open_loop, clock_fd = -1;

static void next_request(Conn *c) {
    if (open_loop) {
        if (c->fd < 0) { free(c); return; }
        c->next = idle[c->target];
        idle[c->target] = c;
        return;
    }
    int64_t now = now_ns();
    if ((wanted >= 0 && started >= wanted) || (stop_at && now >= stop_at) || failed > 1000) { finished++; return; }
    start(c, now);
}

static void poll_once(int timeout_ms) {
    struct epoll_event events[256];
    int n = epoll_wait(poller, events, 256, timeout_ms);
    for (int i = 0; i < n; i++) {
        Conn *c = events[i].data.ptr;
        if (!c) { uint64_t ticks; if (read(clock_fd, &ticks, sizeof ticks) < 0) continue; continue; }
        if (c->fd < 0) continue;
        if (events[i].events & EPOLLOUT) push_out(c);
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
    }
}

static void run_open(double seconds, double rate) {
    int64_t step = (int64_t)(1e9 / rate / target_count), began = now_ns() + 100000000;
    long arrivals = (long)(seconds * rate) * target_count;
    int clock = clock_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poller, EPOLL_CTL_ADD, clock, &e);
    open_loop = 1;
    for (long k = 0; k < arrivals; k++) {
        int64_t due = began + k * step;
        while (now_ns() < due) {
            struct itimerspec t = {.it_value = {due / 1000000000, due % 1000000000}};
            timerfd_settime(clock, TFD_TIMER_ABSTIME, &t, NULL);
            poll_once(-1);
        }
        int target = (int)(k % target_count);
        Conn *c = idle[target];
        if (c) idle[target] = c->next;
        else c = new_conn(target);
        start(c, due);
    }
    for (int64_t until = now_ns() + 30000000000LL; completed < started && now_ns() < until;) poll_once(100);
    if (completed < started) { failed += started - completed; snprintf(last_error, sizeof last_error, "no reply"); }
}

static void add_target(const char *port, const char *path, const char *body, size_t body_len) {
    Target *t = &targets[target_count++];
    t->port = atoi(port);
    const char *extra = getenv("BENCH_HEADERS");
    t->request = malloc(body_len + 8192);
    int n = snprintf(t->request, 8192,
        "POST %s HTTP/1.1\r\nhost: 127.0.0.1:%s\r\ncontent-type: application/json\r\naccept: */*\r\n"
        "authorization: Bearer sk-bench-0000000000000000000000000000\r\nuser-agent: bench\r\n%s"
        "content-length: %zu\r\n\r\n", path, port, extra ? extra : "", body_len);
    memcpy(t->request + n, body, body_len);
    t->request_len = (size_t)n + body_len;
}

static char *read_file(const char *path, size_t *len) {
    FILE *f = fopen(path, "rb");
    if (!f) { perror(path); exit(2); }
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*len + 1);
    if (fread(data, 1, *len, f) != *len) exit(2);
    data[*len] = 0;
    fclose(f);
    return data;
}

static void print_array(const char *name, const Samples *s) {
    printf(",\"%s\":[", name);
    for (size_t i = 0; i < s->len; i++) printf("%s%.1f", i ? "," : "", (double)s->items[i] / 1000.0);
    printf("]");
}

static void print_summary(const char *name, Samples *s) {
    qsort(s->items, s->len, sizeof *s->items, ascending);
    printf(",\"%s\":{\"n\":%zu,\"p50\":%.1f,\"p95\":%.1f,\"p99\":%.1f,\"max\":%.1f}", name, s->len, at(s, 0.5),
           at(s, 0.95), at(s, 0.99), at(s, 1));
}

int main(int argc, char **argv) {
    if (argc < 7) { fprintf(stderr, "usage: load closed|count|open|streams ...; see the head of load.c\n"); return 2; }
    const char *mode = argv[1];
    int closed = !strcmp(mode, "closed"), open = !strcmp(mode, "open"), base = closed ? 5 : 4;
    streaming = !strcmp(mode, "streams");
    size_t body_len;
    char *body = read_file(argv[base], &body_len);
    expect = argv[base + 1];
    if (strstr(body, "\"stream\":true")) streaming = 1;
    expected_chunks = streaming ? atol(expect) : 0;
    for (int i = base + 2; i + 1 < argc && target_count < 16; i += 2) add_target(argv[i], argv[i + 1], body, body_len);
    poller = epoll_create1(0);
    int64_t began = now_ns();
    if (open) {
        run_open(atof(argv[2]), atof(argv[3]));
    } else {
        int connections = atoi(argv[base - 1]);
        if (closed) {
            record_from = began + (int64_t)(atof(argv[3]) * 1e9);
            stop_at = record_from + (int64_t)(atof(argv[2]) * 1e9);
        } else {
            wanted = streaming ? atol(argv[2]) * connections : atol(argv[2]);
        }
        for (int i = 0; i < connections; i++) start(new_conn(0), now_ns());
        int64_t patience = now_ns() + 300000000000LL;
        while (finished < connections && now_ns() < patience) {
            poll_once(100);
            if (stop_at && now_ns() > stop_at + 20000000000LL) break;
        }
        if (finished < connections) { failed += connections - finished; snprintf(last_error, 99, "no reply in time"); }
    }
    int64_t ended = now_ns();
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"completed\":%ld,\"failed\":%ld,\"error\":\"%s\",\"seconds\":%.6f,\"generator_cpu_s\":%.6f", completed,
           failed, last_error, (double)(ended - began) / 1e9, cpu);
    if (open) {
        for (int i = 0; i < target_count; i++) {
            char name[32];
            snprintf(name, sizeof name, "total_%d", i);
            print_array(name, &total[i]);
            snprintf(name, sizeof name, "first_%d", i);
            print_array(name, &first[i]);
        }
    } else {
        print_summary("total", &total[0]);
        print_summary("first", &first[0]);
    }
    if (streaming) print_summary("chunk", &chunk_times);
    printf("}\n");
    return 0;
}
