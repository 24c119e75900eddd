// EPICS Channel Access: libca, and the soft input/output controller of the Python package, whose
// records `int0..`, `dbl0..`, `str0..` are the variables. Monitors are dropped when a client is
// slower, so the writer is held back.
#include "harness.h"
#include <cadef.h>
#include <sys/stat.h>
#define OK(call) SEVCHK(call, #call)

static pid_t controller;
static const char *system_name, *place;

static void stop_controller(void) {
    if (controller) kill(controller, SIGKILL);
}

// A soft controller with `count` records of a kind, on an end's CPU.
static void start_controller(const char *kind, const char *record, int count, int end) {
    char folder[200], path[300];
    const char *given = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/trunkline-peer-XXXXXX", given ? given : P_tmpdir);
    if (!mkdtemp(folder)) fail("no folder for the records");
    snprintf(path, sizeof path, "%s/records.db", folder);
    FILE *f = fopen(path, "w");
    for (int i = 0; i < count; i++)
        fprintf(f, "record(%s, \"%s%d\") { %s field(PINI, \"YES\") }\n", record, kind, i, strcmp(kind, "str") ? "field(VAL, \"0\")" : "field(VAL, \"0\")");
    fclose(f);
    setenv("EPICS_CAS_INTF_ADDR_LIST", "127.0.0.1", 1);
    setenv("EPICS_CAS_BEACON_ADDR_LIST", "127.0.0.1", 1);
    setenv("EPICS_PVAS_INTF_ADDR_LIST", "127.0.0.1", 1);
    int in[2], out[2];
    if (pipe(in) || pipe(out)) fail("no pipe");
    controller = fork_on(end);
    if (controller == 0) {
        char python[400];
        ssize_t n = readlink("/proc/self/exe", python, sizeof python - 1);
        python[n > 0 ? n : 0] = 0;
        strcpy(strrchr(python, '/') + 1, "python");
        dup2(in[0], 0), dup2(out[1], 1), dup2(out[1], 2);
        close(in[1]), close(out[0]);
        execl(python, python, "-m", "epicscorelibs.ioc", "-d", path, NULL);
        _exit(127);
    }
    atexit(stop_controller);
    close(in[0]), close(out[1]);
    // It is ready when it says so; what it says later is of no interest.
    char text[4096] = "", piece[512];
    ssize_t n;
    while (!strstr(text, "iocRun: All initialization complete") && (n = read(out[0], piece, sizeof piece - 1)) > 0) {
        piece[n] = 0;
        size_t have = strlen(text);
        if (have + n >= sizeof text) memmove(text, text + have / 2, have - have / 2 + 1), have = strlen(text);
        if (have + n < sizeof text) strcat(text, piece);
    }
    if (!strstr(text, "iocRun: All initialization complete")) fail("the soft controller did not start");
    unlink(path), rmdir(folder);
}

static chid *open_all(const char *kind, int count) {
    chid *channels = malloc(count * sizeof *channels);
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%d", kind, i);
        OK(ca_create_channel(name, NULL, NULL, 0, channels + i));
    }
    OK(ca_pend_io(30));
    return channels;
}

static chid *channels;
static volatile long seen;

static void on_tick(struct event_handler_args a) {
    if (a.status != ECA_NORMAL) return;
    long tick = a.type == DBR_LONG ? *(const dbr_long_t *)a.dbr : a.type == DBR_STRING ? atol(a.dbr) : (long)*(const dbr_double_t *)a.dbr;
    __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED);
    round_trip_grid_notice((long)a.usr, tick);
}

static void send_tick(int count, const char *type, uint32_t tick) {
    dbr_long_t whole = tick;
    dbr_double_t real = tick;
    dbr_string_t text;
    snprintf(text, sizeof text, "%016u", tick);
    for (int i = 0; i < count; i++) {
        if (type[0] == 'i') ca_put(DBR_LONG, channels[i], &whole);
        else if (type[0] == 's') ca_put(DBR_STRING, channels[i], text);
        else ca_put(DBR_DOUBLE, channels[i], &real);
    }
    ca_flush_io();
}

static void run_round_trip_grid(void) {
    const char *type = text_of("type", "i32");
    const char *kind = type[0] == 'i' ? "int" : type[0] == 's' ? "str" : "dbl";
    int count = number_of("n", 10), dbr = type[0] == 'i' ? DBR_LONG : type[0] == 's' ? DBR_STRING : DBR_DOUBLE;
    start_controller(kind, type[0] == 'i' ? "longout" : type[0] == 's' ? "stringout" : "ao", count, FAR);
    OK(ca_context_create(ca_enable_preemptive_callback));
    channels = open_all(kind, count);
    // Nothing is noticed yet.
    round_trip_grid.first = UINT32_MAX;
    for (long i = 0; i < count; i++) OK(ca_create_subscription(dbr, 1, channels[i], DBE_VALUE, on_tick, (void *)i, NULL));
    ca_flush_io();
    for (int k = 0; seen < count && k < 10000; k++) nap_us(1000);
    round_trip_grid_run(system_name, place, controller, send_tick, nap_us);
}

static volatile int done;
static void on_done(struct event_handler_args a) { (void)a; done++; }
// The calling thread does the input, the faster way for one caller.
static void wait_done(int count) {
    ca_flush_io();
    while (done < count) ca_pend_event(1e-6);
}
static void put(int v, double x) { done = 0; ca_put_callback(DBR_DOUBLE, channels[v], &x, on_done, NULL); wait_done(1); }
static double get(int v) { double x = NAN; ca_get(DBR_DOUBLE, channels[v], &x); ca_pend_io(5); return x; }
static void put_all(double first, int count) {
    double x = first;
    for (int i = 0; i < count - 1; i++, x++) ca_put(DBR_DOUBLE, channels[i], &x);
    put(count - 1, x);
}
static void get_all(int count, double *values) {
    for (int i = 0; i < count; i++) ca_get(DBR_DOUBLE, channels[i], values + i);
    ca_pend_io(10);
}

// ---------------------------------------------------------------- W5, W6

static struct shared *share;
static double *next;
static volatile long subscribed;
static void on_update(struct event_handler_args a) {
    if (a.status != ECA_NORMAL) return;
    __atomic_fetch_add(&subscribed, 1, __ATOMIC_RELAXED);
    stream_take(share, next, (long)a.usr, *(const dbr_double_t *)a.dbr);
}
static void subscribe_in_child(struct shared *own, int count) {
    share = own, next = stream_expected(count);
    OK(ca_context_create(ca_enable_preemptive_callback));
    chid *all = open_all("dbl", count);
    for (long i = 0; i < count; i++) OK(ca_create_subscription(DBR_DOUBLE, 1, all[i], DBE_VALUE, on_update, (void *)i, NULL));
    ca_flush_io();
    while (subscribed < count) nap_us(1000);
    own->ready = 1;
    while (!own->stop) nap_us(1000);
    _exit(0);
}
static void put_update(int v, double x) { ca_put(DBR_DOUBLE, channels[v], &x); }
static void flush_updates(void) { ca_flush_io(); }

static void run_stream(const char *scenario) {
    static char where[100];
    snprintf(where, sizeof where, "%s (the server between them on any CPU)", place);
    struct stream s = stream_of(scenario, system_name, where);
    start_controller("dbl", "ao", s.variables, ANY);
    for (int j = 0; j < s.subscribers; j++)
        if (!(s.pids[j] = fork_on(FAR))) subscribe_in_child(s.shares + j, s.variables);
    OK(ca_context_create(ca_enable_preemptive_callback));
    channels = open_all("dbl", s.variables);
    for (int j = 0; j < s.subscribers; j++) while (!s.shares[j].ready) nap_us(1000);
    // A monitor has room for a few updates of a record.
    stream_run(&s, controller, s.variables < 16 ? 16 : 2 * s.variables, put_update, flush_updates, nap_10us);
}

// ---------------------------------------------------------------- W8

static void on_first(struct event_handler_args a) { if (a.status == ECA_NORMAL) __atomic_fetch_add(&seen, 1, __ATOMIC_RELAXED); }
static double first_set(int count, double limit) {
    uint64_t start = now_ns();
    seen = 0;
    OK(ca_context_create(ca_enable_preemptive_callback));
    chid *all = malloc(count * sizeof *all);
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "dbl%d", i);
        OK(ca_create_channel(name, NULL, NULL, 0, all + i));
    }
    bool in_time = ca_pend_io(limit / 1e3) == ECA_NORMAL;
    for (long i = 0; in_time && i < count; i++) ca_create_subscription(DBR_DOUBLE, 1, all[i], DBE_VALUE, on_first, (void *)i, NULL);
    ca_flush_io();
    while (in_time && seen < count && (in_time = now_ns() - start < limit * 1e6)) nap_us(100);
    double ms = (now_ns() - start) * 1e-6;
    ca_context_destroy();
    free(all);
    return in_time ? ms : -1;
}

int main(int argc, char **argv) {
    if (argc < 4) fail("use: cell SCENARIO SYSTEM [key=value ...]");
    setting_count = argc - 4, settings = argv + 4, system_name = argv[3];
    place = pin(NEAR);
    setenv("EPICS_CA_ADDR_LIST", "127.0.0.1", 1);
    setenv("EPICS_CA_AUTO_ADDR_LIST", "NO", 1);
    const char *scenario = argv[2];
    if (!strcmp(scenario, "round_trip_grid")) run_round_trip_grid();
    else if (!strcmp(scenario, "call_cost")) {
        start_controller("dbl", "ao", CALLED, FAR);
        OK(ca_context_create(ca_disable_preemptive_callback));
        channels = open_all("dbl", CALLED);
        call_cost_run(system_name, place, controller, (struct calls){put, get, put_all, get_all});
    } else if (!strcmp(scenario, "updates_to_one") || !strcmp(scenario, "updates_to_many")) run_stream(scenario);
    else if (!strcmp(scenario, "footprint")) {
        start_controller("dbl", "ao", number_of("vars", 1000), FAR);
        footprint_run(system_name, place, controller, first_set);
    } else fail("this system is not measured in that scenario");
    stop_controller();
    fflush(stdout);
    _exit(0);
}
