/* A fake OpenAI-compatible model server, fast enough to measure proxies with.
 *
 *   upstream PORT
 *
 * The path says how to behave, so that any client with a configurable base URL can ask for it: each segment of one
 * letter and digits is an option, as in /w50000/v1/chat/completions.
 *   w  microseconds before the first byte of the reply     (0)
 *   n  chunks of a streamed reply                          (100)
 *   p  microseconds between chunks                         (10000)
 *   l  bytes of text in each chunk or in a whole reply      (about)
 *   j  reply as a judge would: the nonce of the prompt and the label "safe"
 * A request whose body asks for a stream gets one; each chunk carries "@" and the nanosecond it was sent at.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { IDLE, WAITING, STREAMING };
#define HIGH_WATER (256 * 1024)

typedef struct {
    int fd, state, generation, paused, streamed;
    char *in, *out;
    size_t in_len, in_cap, out_len, out_at, out_cap, used;
    int64_t due, period;
    long chunks, sent, text, judge;
} Conn;
typedef struct { int64_t due; Conn *conn; int generation; } Timer;

static Timer *heap;
static size_t heap_len, heap_cap;
static int poller, alarm_fd;
static Conn *free_list[65536];
static size_t free_len;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void push(Conn *c) {
    if (heap_len == heap_cap) heap = realloc(heap, (heap_cap = heap_cap ? heap_cap * 2 : 256) * sizeof *heap);
    size_t i = heap_len++;
    Timer t = {c->due, c, c->generation};
    for (; i && heap[(i - 1) / 2].due > t.due; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = t;
}

static Timer pop(void) {
    Timer top = heap[0], last = heap[--heap_len];
    size_t i = 0;
    for (size_t kid; (kid = 2 * i + 1) < heap_len; i = kid) {
        if (kid + 1 < heap_len && heap[kid + 1].due < heap[kid].due) kid++;
        if (heap[kid].due >= last.due) break;
        heap[i] = heap[kid];
    }
    heap[i] = last;
    return top;
}

static void put(Conn *c, const char *data, size_t n) {
    if (c->out_len + n > c->out_cap) c->out = realloc(c->out, c->out_cap = (c->out_len + n) * 2);
    memcpy(c->out + c->out_len, data, n);
    c->out_len += n;
}

static void drop(Conn *c) {
    close(c->fd);
    c->fd = -1;
    c->generation++;
    c->in_len = c->out_len = c->out_at = 0;
    c->state = IDLE;
    if (free_len < sizeof free_list / sizeof *free_list) free_list[free_len++] = c;
}

/* Returns 0 when the connection is gone. */
static int flush(Conn *c) {
    while (c->out_at < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) { drop(c); return 0; }
            return 1;
        }
        c->out_at += (size_t)n;
    }
    c->out_len = c->out_at = 0;
    return 1;
}

static const char FILLER[] = "violet umbrella over a quiet harbour ";

static void fill(char *to, long n) {
    for (long i = 0; i < n; i++) to[i] = FILLER[(size_t)i % (sizeof FILLER - 1)];
}

static void reply_whole(Conn *c) {
    static char body[1 << 20], head[256];
    char text[1 << 16];
    const char *nonce = c->judge ? memmem(c->in, c->used, "nonce", 5) : NULL;
    if (c->judge) {
        char word[65] = "";
        for (const char *p = nonce; p && p < c->in + c->used; p++) { /* the nonce is the first 16 hex digits after it */
            size_t n = strspn(p, "0123456789abcdef");
            if (n >= 16 && n < sizeof word) { memcpy(word, p, n); word[n] = 0; break; }
            p += n;
        }
        snprintf(text, sizeof text, "{\\\"nonce\\\": \\\"%s\\\", \\\"label\\\": \\\"safe\\\"}", word);
    } else {
        long n = c->text ? c->text : 870;
        if (n > (long)sizeof text - 1) n = sizeof text - 1;
        fill(text, n);
        text[n] = 0;
    }
    int n = snprintf(body, sizeof body,
        "{\"id\":\"chatcmpl-bench0000000000000000\",\"object\":\"chat.completion\",\"created\":1700000000,"
        "\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\","
        "\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":150,"
        "\"completion_tokens\":200,\"total_tokens\":350},\"system_fingerprint\":\"fp_bench\"}", text);
    int h = snprintf(head, sizeof head,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n", n);
    put(c, head, (size_t)h);
    put(c, body, (size_t)n);
}

static void put_chunk(Conn *c, const char *data, int n) {
    char size[16];
    put(c, size, (size_t)snprintf(size, sizeof size, "%x\r\n", n));
    put(c, data, (size_t)n);
    put(c, "\r\n", 2);
}

#define FRAME "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000," \
              "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{%s},\"finish_reason\":%s}]}\n\n"

static void stream_step(Conn *c) {
    char frame[4096], delta[2048], text[1024];
    if (c->sent < c->chunks) {
        long n = c->text ? c->text : 20;
        if (n > 900) n = 900;
        fill(text, n);
        for (long i = 0; i < n; i++) /* a proxy may hold an open word back: that is its policy, not its speed */
            if (text[i] == ' ') text[i] = ',';
        text[n] = 0;
        snprintf(delta, sizeof delta, "%s\"content\":\"@%019lld,%s,\"", c->sent ? "" : "\"role\":\"assistant\",",
                 (long long)now_ns(), text);
        put_chunk(c, frame, snprintf(frame, sizeof frame, FRAME, delta, "null"));
        c->sent++;
        c->due += c->period;
    } else {
        put_chunk(c, frame, snprintf(frame, sizeof frame, FRAME, "", "\"stop\""));
        put_chunk(c, "data: [DONE]\n\n", 14);
        put(c, "0\r\n\r\n", 5);
        c->state = IDLE;
    }
}

static long option(const char *path, size_t n, char letter, long otherwise) {
    for (size_t i = 0; i + 2 < n; i++)
        if (path[i] == '/' && path[i + 1] == letter) {
            size_t digits = strspn(path + i + 2, "0123456789");
            if (digits && (path[i + 2 + digits] == '/' || path[i + 2 + digits] == ' ')) return atol(path + i + 2);
        }
    return otherwise;
}

static int serve_next(Conn *c);

static void begin(Conn *c, const char *path, size_t path_len, size_t used, int stream) {
    c->used = used;
    c->chunks = option(path, path_len, 'n', 100);
    c->period = option(path, path_len, 'p', 10000) * 1000;
    c->text = option(path, path_len, 'l', 0);
    c->judge = option(path, path_len, 'j', 0);
    long wait = option(path, path_len, 'w', 0);
    c->streamed = stream;
    c->sent = 0;
    c->state = WAITING;
    c->due = now_ns() + (int64_t)wait * 1000;
    if (wait) push(c);
}

/* The wait is over: reply, or begin to stream. Returns 0 when the connection is gone. */
static int answer(Conn *c) {
    if (!c->streamed) {
        reply_whole(c);
        c->state = IDLE;
    } else {
        static const char HEAD[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
                                   "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
        put(c, HEAD, sizeof HEAD - 1);
        c->state = STREAMING;
        stream_step(c);
        if (c->state == STREAMING) push(c);
    }
    memmove(c->in, c->in + c->used, c->in_len - c->used);
    c->in_len -= c->used;
    return flush(c);
}

static int refuse(Conn *c, const char *status) {
    char text[128];
    put(c, text, (size_t)snprintf(text, sizeof text, "HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                                  status));
    if (flush(c)) drop(c);
    return 0;
}

/* Serve what is complete in the buffer. Returns 0 when the connection is gone. */
static int serve_next(Conn *c) {
    while (c->state == IDLE && c->in_len) {
        c->in[c->in_len] = 0;
        char *end = strstr(c->in, "\r\n\r\n");
        if (!end) return 1;
        char *body = end + 4, *length = NULL, *chunked = NULL;
        *end = 0;
        length = strcasestr(c->in, "\r\ncontent-length:");
        chunked = strcasestr(c->in, "\r\ntransfer-encoding: chunked");
        size_t need = length ? strtoul(length + 17, NULL, 10) : 0;
        *end = '\r';
        if (chunked) {
            char *last = memmem(body, c->in_len - (size_t)(body - c->in), "0\r\n\r\n", 5);
            if (!last) return 1;
            need = (size_t)(last + 5 - body);
        }
        size_t used = (size_t)(body - c->in) + need;
        if (c->in_len < used) return 1;
        char *path = strchr(c->in, ' '), *path_end = path ? strchr(path + 1, ' ') : NULL;
        if (!path || !path_end || path_end > end) return refuse(c, "400 Bad Request");
        int asked_up = !strncmp(c->in, "GET ", 4); /* routers ask whether a server is up; any answer says so */
        if (!asked_up && !memmem(c->in, (size_t)(path_end - c->in), "/chat/completions", 17))
            return refuse(c, "404 Not Found");
        char *ask = memmem(body, need, "\"stream\":", 9);
        int stream = ask && strspn(ask + 9, " ") < 8 && !strncmp(ask + 9 + strspn(ask + 9, " "), "true", 4);
        begin(c, path + 1, (size_t)(path_end - path), used, stream);
        if (c->due <= now_ns() && !answer(c)) return 0;
    }
    return 1;
}

static void take(Conn *c) {
    for (;;) {
        if (c->in_len + 65536 + 1 > c->in_cap) c->in = realloc(c->in, c->in_cap = c->in_cap * 2 + 65536 + 1);
        ssize_t n = recv(c->fd, c->in + c->in_len, 65536, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) { drop(c); return; }
        if (n < 0) return;
        c->in_len += (size_t)n;
        if (!serve_next(c) || n < 65536) return;
    }
}

static void run_timers(void) {
    int64_t now = now_ns();
    while (heap_len && heap[0].due <= now) {
        Timer t = pop();
        Conn *c = t.conn;
        if (t.generation != c->generation || c->fd < 0) continue;
        if (c->state == WAITING) {
            if (answer(c) && c->state == IDLE) serve_next(c);
        } else if (c->state == STREAMING) {
            if (c->out_len - c->out_at > HIGH_WATER) { c->paused = 1; continue; }
            stream_step(c);
            if (!flush(c)) continue;
            if (c->state == STREAMING) push(c);
            else serve_next(c);
        }
    }
}

static void arm(void) {
    struct itimerspec t = {0};
    if (heap_len) {
        int64_t due = heap[0].due > 0 ? heap[0].due : 1;
        t.it_value.tv_sec = due / 1000000000;
        t.it_value.tv_nsec = due % 1000000000;
    }
    timerfd_settime(alarm_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static void accept_all(int listener) {
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Conn *c = free_len ? free_list[--free_len] : calloc(1, sizeof *c);
        c->fd = fd;
        c->state = IDLE;
        c->paused = 0;
        struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) { fprintf(stderr, "usage: upstream PORT\n"); return 2; }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1024)) { perror("upstream"); return 1; }
    poller = epoll_create1(0);
    alarm_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &listener};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
    e.data.ptr = &alarm_fd;
    epoll_ctl(poller, EPOLL_CTL_ADD, alarm_fd, &e);
    for (;;) {
        struct epoll_event events[256];
        arm();
        int n = epoll_wait(poller, events, 256, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &listener) { accept_all(listener); continue; }
            if (events[i].data.ptr == &alarm_fd) {
                uint64_t ticks;
                if (read(alarm_fd, &ticks, sizeof ticks) < 0) continue;
                continue;
            }
            Conn *c = events[i].data.ptr;
            if (c->fd >= 0 && (events[i].events & EPOLLOUT) && c->out_len && !flush(c)) continue;
            if (c->fd >= 0 && c->paused && c->out_len - c->out_at <= HIGH_WATER) {
                c->paused = 0;
                if (c->state == STREAMING) push(c);
            }
            if (c->fd >= 0 && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) take(c);
        }
        run_timers();
    }
}
