// The limit: plain TCP with the least code that does the same work. A record is 16 bytes: which variable, whether
// its value is to be replaced, and the value. The answer is the record with the variable's value.
//
//   raw serve                              answers records
//   raw stream ELEMENTS                    sends blocks of f64 that count up, as fast as they are taken
//   raw cell call_cost raw-tcp [key=value ...]   measures calls in C
//
// The first two say `LISTENING PORT`, serve one connection, and end with it.
#include "../../peers/c/harness.h"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

struct record { int32_t variable, is_put; double value; };

static int listening(int *port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr *place = (struct sockaddr *)&a;
    if (bind(s, place, sizeof a) || listen(s, 1) || getsockname(s, place, &size)) fail("no free port");
    *port = ntohs(a.sin_port);
    return s;
}

static void no_delay(int s) {
    int yes = 1;
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static int accepted(int listener) {
    int s = accept(listener, NULL, NULL);
    if (s < 0) fail("no connection");
    no_delay(s);
    return s;
}

// Returns false once the other end has closed the connection.
static bool send_all(int s, const void *from, size_t size) {
    for (const char *at = from; size;) {
        ssize_t n = send(s, at, size, MSG_NOSIGNAL);
        if (n <= 0) return false;
        at += n, size -= n;
    }
    return true;
}

static void answer(int listener) {
    static double values[CALLED];
    static struct record records[8192];
    int s = accepted(listener);
    size_t have = 0;
    for (ssize_t n; (n = recv(s, (char *)records + have, sizeof records - have, 0)) > 0;) {
        have += n;
        size_t whole = have / sizeof *records;
        for (struct record *r = records; r < records + whole; r++) {
            double *value = values + (uint32_t)r->variable % CALLED;
            if (r->is_put) *value = r->value;
            r->value = *value;
        }
        if (!send_all(s, records, whole * sizeof *records)) return;
        memmove(records, records + whole, have -= whole * sizeof *records);
    }
}

static void stream(int listener, size_t elements) {
    double *block = malloc(elements * sizeof *block), next = 0;
    int s = accepted(listener);
    do {
        for (size_t i = 0; i < elements; i++) block[i] = next + i;
        next += elements;
    } while (send_all(s, block, elements * sizeof *block));
}

// ---------------------------------------------------------------- the near end in C

static int connection;
static struct record records[CALLED];

static void exchange(int count) {
    size_t size = count * sizeof *records;
    if (!send_all(connection, records, size)) fail("the far end is gone");
    if (recv(connection, records, size, MSG_WAITALL) != (ssize_t)size) fail("the far end is gone");
}
static void put(int v, double x) { records[0] = (struct record){v, 1, x}; exchange(1); }
static double get(int v) { records[0] = (struct record){v, 0, 0}; exchange(1); return records[0].value; }
static void put_all(double first, int count) {
    for (int i = 0; i < count; i++) records[i] = (struct record){i, 1, first + i};
    exchange(count);
}
static void get_all(int count, double *values) {
    for (int i = 0; i < count; i++) records[i] = (struct record){i, 0, 0};
    exchange(count);
    for (int i = 0; i < count; i++) values[i] = records[i].value;
}

static void measure(const char *system) {
    const char *place = pin(NEAR);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int port, listener = listening(&port);
    pid_t far = fork_on(FAR);
    if (far == 0) {
        answer(listener);
        _exit(0);
    }
    a.sin_port = htons(port);
    connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(connection, (struct sockaddr *)&a, sizeof a)) fail("no connection");
    no_delay(connection);
    call_cost_run(system, place, far, (struct calls){put, get, put_all, get_all});
    kill(far, SIGKILL);
}

int main(int argc, char **argv) {
    if (argc > 3 && !strcmp(argv[1], "cell")) {
        setting_count = argc - 4, settings = argv + 4;
        measure(argv[3]);
        return 0;
    }
    bool is_stream = argc > 2 && !strcmp(argv[1], "stream");
    if (!is_stream && !(argc > 1 && !strcmp(argv[1], "serve")))
        fail("use: raw serve, raw stream ELEMENTS, or raw cell call_cost SYSTEM [key=value ...]");
    int port, listener = listening(&port);
    printf("LISTENING %d\n", port);
    fflush(stdout);
    if (is_stream) stream(listener, atol(argv[2]));
    else answer(listener);
    return 0;
}
