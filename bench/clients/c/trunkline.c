// Trunkline's library for C: the far end of the Python clients, and both ends of the client in C.
//
//   trunkline serve VARIABLES              an engine with the f64 variables `bench/v0`, `bench/v1`, ..., all 0
//   trunkline publish VARIABLES            the same; after a line on standard input, it writes them in turn as fast as
//                                          possible, each with 1, 2, 3, ..., until standard input ends
//   trunkline stream PEER ELEMENTS         writes f64 that count up to the reader PEER, in calls of that many elements
//   trunkline cell call_cost SYSTEM [key=value ...]   measures calls in C
//
// The first two say `LISTENING PORT`.
#include "../../peers/c/harness.h"
#include <pthread.h>
#include <trunkline.h>

// Longer than any answer takes, in milliseconds.
#define PATIENCE 20000

static void check(tl_status status) {
    char message[512];
    if (status == TL_OK) return;
    tl_last_error_message(message, sizeof message, NULL);
    fail(message);
}

static tl_engine engine;

// Starts an engine, and returns its port.
static int host(int count) {
    size_t room = 200 + 60 * (size_t)count, size = 0;
    char *text = malloc(room), url[100];
    size += snprintf(text, room, "[engine]\nlisten = [\"127.0.0.1:0\"]\n[library]\nname = \"bench\"\n");
    const char *variable = "[[variable]]\nname = \"v%d\"\ntype = \"f64\"\ninitial = 0\n";
    for (int i = 0; i < count; i++) size += snprintf(text + size, room - size, variable, i);
    check(tl_engine_start(text, size, &engine));
    check(tl_engine_url(engine, url, sizeof url, NULL));
    free(text);
    return atoi(strrchr(url, ':') + 1);
}

static void wait_for_line(void) {
    for (int c; (c = getchar()) != '\n';)
        if (c == EOF) exit(0);
}

static volatile bool is_over;
static void *await_end(void *nothing) {
    while (getchar() != EOF) {}
    is_over = true;
    return nothing;
}

static void publish(int count) {
    tl_host_variable *variables = malloc(count * sizeof *variables);
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "bench/v%d", i);
        check(tl_engine_variable(engine, name, TL_NUL_TERMINATED, variables + i));
    }
    wait_for_line();
    pthread_t thread;
    if (pthread_create(&thread, NULL, await_end, NULL)) fail("no thread");
    for (double number = 1; !is_over; number++)
        for (int i = 0; i < count; i++) check(tl_host_write_f64(variables[i], number, NULL));
}

static void stream(const char *peer, size_t elements) {
    double *block = malloc(elements * sizeof *block), next = 0;
    tl_stream_writer writer;
    check(tl_stream_writer_create("bench/out", TL_NUL_TERMINATED, "f64", TL_NUL_TERMINATED, peer, TL_NUL_TERMINATED,
                                  10 * elements, 0, PATIENCE, &writer));
    // The reader closes the stream when it has measured.
    do {
        for (size_t i = 0; i < elements; i++) block[i] = next + i;
        next += elements;
    } while (tl_stream_write(writer, block, sizeof *block, elements, PATIENCE) == TL_OK);
    tl_stream_writer_abort(writer, "measured", TL_NUL_TERMINATED);
}

// ---------------------------------------------------------------- the near end in C

static tl_client client;
static tl_variable variables[CALLED];

static void put(int v, double x) { check(tl_write_f64(client, variables + v, &x, 1, PATIENCE, NULL)); }
static double get(int v) {
    double x;
    check(tl_read_f64(client, variables + v, 1, PATIENCE, &x, NULL));
    return x;
}
static void put_all(double first, int count) {
    double values[CALLED];
    for (int i = 0; i < count; i++) values[i] = first + i;
    check(tl_write_f64(client, variables, values, count, PATIENCE, NULL));
}
static void get_all(int count, double *values) { check(tl_read_f64(client, variables, count, PATIENCE, values, NULL)); }

static void measure(const char *system) {
    const char *place = pin(NEAR);
    volatile int *port = mmap(NULL, sizeof *port, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t far = fork_on(FAR);
    if (far == 0) {
        *port = host(CALLED);
        for (;;) pause();
    }
    while (!*port && waitpid(far, NULL, WNOHANG) == 0) nap_us(1000);
    if (!*port) fail("the engine did not start");
    char url[100], *names = malloc(20 * CALLED);
    snprintf(url, sizeof url, "%s127.0.0.1:%d", strstr(system, "shm") ? "tl://" : "tl+tcp://", *port);
    check(tl_connect(url, TL_NUL_TERMINATED, PATIENCE, &client));
    size_t size = 0;
    for (int i = 0; i < CALLED; i++) size += sprintf(names + size, "%sbench/v%d", i ? "\n" : "", i);
    check(tl_open(client, names, size, PATIENCE, variables, NULL, CALLED, NULL));
    call_cost_run(system, place, far, (struct calls){put, get, put_all, get_all});
    kill(far, SIGKILL);
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    if (!strcmp(what, "cell") && argc > 3) {
        setting_count = argc - 4, settings = argv + 4;
        measure(argv[3]);
    } else if (!strcmp(what, "serve") || !strcmp(what, "publish")) {
        printf("LISTENING %d\n", host(atoi(argv[2])));
        fflush(stdout);
        if (what[0] == 'p') publish(atoi(argv[2]));
        else wait_for_line();
    } else if (!strcmp(what, "stream") && argc > 3) stream(argv[2], atol(argv[3]));
    else
        fail("use: trunkline serve VARIABLES, trunkline publish VARIABLES, trunkline stream PEER ELEMENTS, or "
             "trunkline cell call_cost SYSTEM [key=value ...]");
    fflush(stdout);
    // The far end has no end of its own.
    _exit(0);
}
