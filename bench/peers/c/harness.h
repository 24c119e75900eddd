// What the C and C++ programs have in common: clocks, processes, the loops of the scenarios, and
// one line of JSON per cell, as the project's own bench writes them.
//
//   PROGRAM cell SCENARIO SYSTEM [key=value ...]
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_SUBSCRIBERS 64
// Ticks before the measured ones, as in the project's own loop.
#define WARM_UP_TICKS 2

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline void nap_us(long us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&t, NULL);
}

static inline void fail(const char *sentence) {
    fprintf(stderr, "%s\n", sentence);
    exit(1);
}

// ---------------------------------------------------------------- settings

static int setting_count;
static char **settings;

static inline const char *text_of(const char *key, const char *otherwise) {
    size_t n = strlen(key);
    for (int i = 0; i < setting_count; i++)
        if (!strncmp(settings[i], key, n) && settings[i][n] == '=') return settings[i] + n + 1;
    return otherwise;
}

static inline long number_of(const char *key, long otherwise) {
    const char *text = text_of(key, NULL);
    return text ? atol(text) : otherwise;
}

// ---------------------------------------------------------------- placement

enum { NEAR, FAR, ANY };

// Puts this thread, and what it starts from now on, on its end's CPU.
static inline const char *pin(int end) {
    cpu_set_t all, one;
    CPU_ZERO(&all);
    for (int c = 0; c < CPU_SETSIZE; c++) CPU_SET(c, &all);
    sched_setaffinity(0, sizeof all, &all);
    sched_getaffinity(0, sizeof all, &all);
    int cpu[2] = {-1, -1};
    for (int c = 0; c < CPU_SETSIZE && cpu[1] < 0; c++)
        if (CPU_ISSET(c, &all)) cpu[cpu[0] >= 0] = c;
    if (end != ANY) {
        CPU_ZERO(&one);
        CPU_SET(cpu[end == FAR && cpu[1] >= 0], &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    return cpu[1] >= 0 ? "cross" : "same";
}

// A child on an end's CPU that ends with its parent; 0 in the child.
static inline pid_t fork_on(int end) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) fail("no process could be started");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(end);
    }
    return pid;
}

// ---------------------------------------------------------------- usage

struct usage { double cpu_ns, voluntary; };

// Of all threads of a process.
static inline struct usage usage_of(pid_t pid) {
    struct usage u = {0, 0};
    char path[400], line[256];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, e->d_name);
        FILE *f = fopen(path, "r");
        double ns = 0;
        if (f && fscanf(f, "%lf", &ns) == 1) u.cpu_ns += ns;
        if (f) fclose(f);
        snprintf(path, sizeof path, "/proc/%d/task/%s/status", pid, e->d_name);
        f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f)) {
            double n;
            if (sscanf(line, "voluntary_ctxt_switches: %lf", &n) == 1) u.voluntary += n;
        }
        if (f) fclose(f);
    }
    if (tasks) closedir(tasks);
    return u;
}

static inline void loopback(double *bytes, double *packets) {
    char line[512];
    FILE *f = fopen("/proc/net/dev", "r");
    *bytes = *packets = 0;
    while (f && fgets(line, sizeof line, f)) {
        char *c = strstr(line, "lo:");
        if (c && sscanf(c + 3, "%lf %lf", bytes, packets) == 2) break;
    }
    if (f) fclose(f);
}

// ---------------------------------------------------------------- rows

struct row {
    const char *scenario, *system, *placement, *waiting;
    char name[80], figures[2000], invalid[1000];
};

static inline struct row row_of(const char *scenario, const char *system, const char *placement) {
    struct row r = {scenario, system, placement, "sleeping", "", "", ""};
    return r;
}

static inline void figure(struct row *r, const char *name, double value) {
    size_t n = strlen(r->figures);
    if (isfinite(value))
        snprintf(r->figures + n, sizeof r->figures - n, "%s\"%s\":%.9g", n ? "," : "", name, value);
}

static inline void invalid(struct row *r, const char *format, ...) {
    char sentence[200];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    size_t n = strlen(r->invalid);
    snprintf(r->invalid + n, sizeof r->invalid - n, "%s\"%s\"", n ? "," : "", sentence);
}

static inline void slept(struct row *r, const char *name, double switches, double waits) {
    figure(r, name, switches / waits);
    if ((switches + 1) / waits < 0.9) r->waiting = "mixed";
}

static inline void emit(const struct row *r) {
    printf("{\"scenario\":\"%s\",\"system\":\"%s\",\"case\":\"%s\",\"repeat\":1,\"placement\":\"%s\","
           "\"waiting\":\"%s\",\"figures\":{%s},\"invalid\":[%s]}\n",
           r->scenario, r->system, r->name, r->placement, r->waiting, r->figures, r->invalid);
    fflush(stdout);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median_of(double *values, int count) {
    qsort(values, count, sizeof *values, by_size);
    return count == 0 ? NAN : count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// ---------------------------------------------------------------- W1

struct round_trip_grid {
    int count, ticks;
    uint32_t first;
    uint64_t *sent, *seen;
    uint32_t *last;
    volatile uint64_t wrong;
};
static struct round_trip_grid round_trip_grid;

// From a callback: a variable shows a tick.
static inline void round_trip_grid_notice(int variable, long tick) {
    uint64_t at = now_ns();
    if (tick <= (long)round_trip_grid.first) return;
    long number = tick - round_trip_grid.first;
    if (variable < 0 || variable >= round_trip_grid.count || number > round_trip_grid.ticks || (uint32_t)tick <= round_trip_grid.last[variable]) {
        round_trip_grid.wrong++;
        return;
    }
    round_trip_grid.last[variable] = tick;
    round_trip_grid.seen[(size_t)variable * round_trip_grid.ticks + number - 1] = at;
}

// Writes a tick to all variables and hands it over; waits up to some microseconds for notifications
// where the caller's thread is the one that takes them.
typedef void (*round_trip_grid_send)(int count, const char *type, uint32_t tick);
typedef void (*round_trip_grid_wait)(long us);

static inline void round_trip_grid_run(const char *system, const char *placement, pid_t far, round_trip_grid_send send, round_trip_grid_wait wait) {
    const char *type = text_of("type", "i32");
    char *periods = strdup(text_of("periods", "10:100")), *rest = NULL;
    uint32_t first = 1;
    round_trip_grid.count = number_of("n", 10);
    for (char *one = strtok_r(periods, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        int period, ticks;
        if (sscanf(one, "%d:%d", &period, &ticks) != 2) fail("write periods as period:ticks");
        int all = ticks + WARM_UP_TICKS;
        round_trip_grid.ticks = all;
        round_trip_grid.first = first;
        round_trip_grid.wrong = 0;
        round_trip_grid.sent = (uint64_t *)calloc(all, 8);
        round_trip_grid.seen = (uint64_t *)calloc((size_t)round_trip_grid.count * all, 8);
        round_trip_grid.last = (uint32_t *)calloc(round_trip_grid.count, 4);
        struct usage near = {0, 0}, beyond = {0, 0};
        uint64_t next = now_ns() + period * 1000000ull;
        for (int tick = 1; tick <= all; tick++, next += period * 1000000ull) {
            for (int64_t left; (left = (int64_t)(next - now_ns())) > 0;) wait(left / 1000 + 1);
            if (tick == WARM_UP_TICKS + 1) near = usage_of(getpid()), beyond = usage_of(far);
            round_trip_grid.sent[tick - 1] = now_ns();
            send(round_trip_grid.count, type, first + tick);
        }
        uint64_t until = next + 500000000ull;
        for (int left = 1; left && now_ns() < until;) {
            wait(1000);
            left = 0;
            for (int i = 0; i < round_trip_grid.count; i++) left += round_trip_grid.last[i] != first + all;
        }
        struct usage n = usage_of(getpid()), b = usage_of(far);
        struct row r = row_of("round_trip_grid", system, placement);
        snprintf(r.name, sizeof r.name, "n=%d t=%d type=%s", round_trip_grid.count, period, type);
        double *times = (double *)malloc(sizeof(double) * round_trip_grid.count * ticks), sum = 0, squares = 0;
        size_t m = 0;
        int unfinished = 0;
        for (int i = 0; i < round_trip_grid.count; i++) {
            unfinished += round_trip_grid.last[i] != first + all;
            for (int k = WARM_UP_TICKS; k < all; k++) {
                uint64_t seen = round_trip_grid.seen[(size_t)i * all + k];
                if (seen) sum += times[m++] = (seen - round_trip_grid.sent[k]) * 1e-3;
            }
        }
        double wanted = (double)round_trip_grid.count * ticks;
        figure(&r, "ticks", ticks);
        figure(&r, "never_notified_percent", 100.0 * (wanted - m) / wanted);
        if (m) {
            qsort(times, m, sizeof *times, by_size);
            for (size_t i = 0; i < m; i++) squares += (times[i] - sum / m) * (times[i] - sum / m);
            figure(&r, "mean_us", sum / m);
            figure(&r, "median_us", times[(m + 1) / 2 - 1]);
            figure(&r, "p99_us", times[(size_t)ceil(m * 0.99) - 1]);
            figure(&r, "max_us", times[m - 1]);
            figure(&r, "variance_us2", squares / m);
        }
        figure(&r, "near_cpu_us_per_tick", (n.cpu_ns - near.cpu_ns) / 1e3 / ticks);
        figure(&r, "far_cpu_us_per_tick", (b.cpu_ns - beyond.cpu_ns) / 1e3 / ticks);
        slept(&r, "near_switches_per_wait", n.voluntary - near.voluntary, 2.0 * ticks);
        slept(&r, "far_switches_per_wait", b.voluntary - beyond.voluntary, ticks);
        if (round_trip_grid.wrong) invalid(&r, "%llu notifications out of order", (unsigned long long)round_trip_grid.wrong);
        if (unfinished) invalid(&r, "%d variables never showed the last value", unfinished);
        emit(&r);
        first += all;
    }
}

// ---------------------------------------------------------------- W2

#define CALLED 1000
struct calls {
    void (*put)(int variable, double value);
    double (*get)(int variable);
    void (*put_all)(double first, int count);
    void (*get_all)(int count, double *values);
};

static inline void call_cost_run(const char *system, const char *placement, pid_t far, struct calls c) {
    int calls = number_of("calls", 1000), passes = number_of("passes", 9);
    char *operations = strdup(text_of("operations", "sync-put,async-put,sync-get,async-get")), *rest = NULL;
    double first = 1, *values = (double *)malloc(sizeof(double) * calls);
    if (calls > CALLED) fail("the peers are called 1000 times");
    c.put_all(0, CALLED);
    for (char *op = strtok_r(operations, ",", &rest); op; op = strtok_r(NULL, ",", &rest)) {
        bool is_sync = !strncmp(op, "sync", 4), is_put = strstr(op, "put") != NULL;
        double elapsed[64], cpu[64], beyond[64], bytes[64], packets[64], near_switches = 0, far_switches = 0;
        for (int pass = 0; pass <= passes && pass < 64; pass++) {
            struct usage near = usage_of(getpid()), away = usage_of(far);
            double b0, p0, b1, p1;
            loopback(&b0, &p0);
            uint64_t cpu0 = clock_ns(CLOCK_PROCESS_CPUTIME_ID), start = now_ns();
            if (is_sync && is_put) for (int i = 0; i < calls; i++) c.put(i, first + i);
            else if (is_sync) for (int i = 0; i < calls; i++) values[i] = c.get(i);
            else if (is_put) c.put_all(first, calls);
            else c.get_all(calls, values);
            elapsed[pass] = (now_ns() - start) * 1e-6;
            cpu[pass] = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu0) * 1e-6;
            loopback(&b1, &p1);
            struct usage n = usage_of(getpid()), a = usage_of(far);
            beyond[pass] = (a.cpu_ns - away.cpu_ns) * 1e-6;
            bytes[pass] = b1 - b0, packets[pass] = p1 - p0;
            if (pass) near_switches += n.voluntary - near.voluntary, far_switches += a.voluntary - away.voluntary;
            if (is_put) {
                c.get_all(calls, values);
                for (int i = 0; i < calls; i++)
                    if (values[i] != first + i) fail("a variable does not hold what was put");
                first += calls;
            }
        }
        struct row r = row_of("call_cost", system, placement);
        snprintf(r.name, sizeof r.name, "op=%s calls=%d", op, calls);
        figure(&r, "calls", calls);
        figure(&r, "elapsed_ms", median_of(elapsed + 1, passes));
        figure(&r, "near_cpu_ms", median_of(cpu + 1, passes));
        figure(&r, "far_cpu_ms", median_of(beyond + 1, passes));
        figure(&r, "loopback_bytes", median_of(bytes + 1, passes));
        figure(&r, "loopback_packets", median_of(packets + 1, passes));
        if (is_sync) {
            slept(&r, "near_switches_per_wait", near_switches, (double)passes * calls);
            slept(&r, "far_switches_per_wait", far_switches, (double)passes * calls);
        }
        emit(&r);
    }
}

// ---------------------------------------------------------------- W5, W6

// Memory that the writer shares with each subscriber: how far it is, which holds back the writer of
// a system that would drop or queue without end.
struct shared { volatile uint64_t got, wrong, ready, stop; char apart[96]; };

struct stream {
    const char *scenario, *system, *placement;
    int variables, subscribers;
    struct shared *shares;
    pid_t pids[MOST_SUBSCRIBERS];
    double *next;
};

static inline struct stream stream_of(const char *scenario, const char *system, const char *placement) {
    struct stream s = {scenario, system, placement, (int)number_of("vars", 100), (int)number_of("subs", 1), NULL, {0}, NULL};
    s.shares = (struct shared *)mmap(NULL, MOST_SUBSCRIBERS * sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return s;
}

// In a subscriber: an update has come. Values of each variable are 1, 2, 3.
static inline void stream_take(struct shared *share, double *next, int variable, double value) {
    if (value <= 0) return;
    if (value != next[variable]) share->wrong++;
    next[variable] = value + 1;
    __atomic_store_n(&share->got, share->got + 1, __ATOMIC_RELEASE);
}

static inline double *stream_expected(int variables) {
    double *next = (double *)malloc(sizeof(double) * variables);
    for (int i = 0; i < variables; i++) next[i] = 1;
    return next;
}

static inline uint64_t stream_slowest(const struct stream *s) {
    uint64_t least = UINT64_MAX;
    for (int j = 0; j < s->subscribers; j++)
        if (__atomic_load_n(&s->shares[j].got, __ATOMIC_ACQUIRE) < least) least = s->shares[j].got;
    return least;
}

static inline uint64_t stream_total(const struct stream *s) {
    uint64_t total = 0;
    for (int j = 0; j < s->subscribers; j++) total += __atomic_load_n(&s->shares[j].got, __ATOMIC_ACQUIRE);
    return total;
}

static inline double stream_readers_ns(const struct stream *s) {
    double ns = 0;
    for (int j = 0; j < s->subscribers; j++) ns += usage_of(s->pids[j]).cpu_ns;
    return ns;
}

// Writes for the measured time. `ahead` updates may be on their way, 0: the system holds back by
// itself. `idle` is called while the writer waits. `broker` is 0 where there is none.
static inline void stream_run(struct stream *s, pid_t broker, uint64_t ahead, void (*put)(int, double), void (*flush)(void), void (*idle)(void)) {
    uint64_t warm = number_of("warm_ms", 1000) * 1000000ull, measured = number_of("ms", 1000) * 1000000ull;
    uint64_t start = now_ns(), begun = 0, sent = 0, sent_then = 0, got_then = 0, writer_then = 0;
    double others_then = 0, readers_then = 0, broker_then = 0;
    bool is_stuck = false;
    for (;;) {
        for (int at = 0; at < 100; at++, sent++) {
            put(sent % s->variables, sent / s->variables + 1);
            if (!ahead || sent + 1 < stream_slowest(s) + ahead) continue;
            flush();
            for (uint64_t since = now_ns(); sent + 1 >= stream_slowest(s) + ahead && !is_stuck;) {
                idle();
                is_stuck = now_ns() - since > 1000000000ull;
            }
        }
        uint64_t now = now_ns();
        if (!begun && now >= start + warm) {
            begun = now, sent_then = sent, got_then = stream_total(s);
            writer_then = clock_ns(CLOCK_THREAD_CPUTIME_ID);
            others_then = (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) - writer_then;
            readers_then = stream_readers_ns(s);
            broker_then = broker ? usage_of(broker).cpu_ns : 0;
        }
        if (is_stuck || (begun && now >= begun + measured)) break;
    }
    if (!begun) begun = now_ns();
    flush();
    double writer = clock_ns(CLOCK_THREAD_CPUTIME_ID) - writer_then;
    double others = (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID) - others_then;
    uint64_t last = now_ns(), wanted = sent * s->subscribers, wrong = 0;
    while (stream_total(s) < wanted && now_ns() - last < 3000000000ull) idle();
    double seconds = (now_ns() - begun) * 1e-9, backlog = (now_ns() - last) * 1e-6;
    double readers = stream_readers_ns(s) - readers_then;
    if (broker) others += usage_of(broker).cpu_ns - broker_then;
    uint64_t got = stream_total(s);
    for (int j = 0; j < s->subscribers; j++) wrong += s->shares[j].wrong;
    struct row r = row_of(s->scenario, s->system, s->placement);
    if (!strcmp(s->scenario, "updates_to_one")) snprintf(r.name, sizeof r.name, "vars=%d", s->variables);
    else snprintf(r.name, sizeof r.name, "subs=%d vars=%d", s->subscribers, s->variables);
    double written = sent > sent_then ? sent - sent_then : 1, taken = got > got_then ? got - got_then : 1;
    figure(&r, "updates", got);
    figure(&r, "updates_per_s", taken / seconds);
    figure(&r, "writer_ns_per_update", writer / written);
    figure(&r, "engine_ns_per_update", others > 0 ? others / written : 0);
    figure(&r, "client_ns_per_update", readers / taken);
    figure(&r, "backlog_ms", backlog);
    if (got != wanted) invalid(&r, "%llu updates were to be taken and %llu were", (unsigned long long)wanted, (unsigned long long)got);
    if (wrong) invalid(&r, "%llu updates out of order", (unsigned long long)wrong);
    if (got == wanted && backlog > seconds * 100) invalid(&r, "the subscriber was %.0f ms behind at the end", backlog);
    emit(&r);
    for (int j = 0; j < s->subscribers; j++) s->shares[j].stop = 1;
}

static inline void nap_10us(void) { nap_us(10); }
static inline void nothing(void) {}

// ---------------------------------------------------------------- W8

// One pass: connects, subscribes, returns when every variable has shown its value, or not in time.
static inline void footprint_run(const char *system, const char *placement, pid_t far, double (*pass_ms)(int count, double limit_ms)) {
    int count = number_of("vars", 1000), passes = number_of("passes", 5), done = 0;
    double limit = number_of("limit_ms", 20000), elapsed[64], cpu[64], beyond[64];
    struct row r = row_of("footprint", system, placement);
    snprintf(r.name, sizeof r.name, "what=connect vars=%d", count);
    for (int pass = 0; pass <= passes && pass < 60; pass++) {
        double away = usage_of(far).cpu_ns, own = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        double ms = pass_ms(count, limit);
        if (ms < 0) {
            invalid(&r, "not within %.0f s", limit / 1e3);
            break;
        }
        // The first pass finds caches cold and is not counted, unless it is the only one.
        if (pass || ms > 2000) {
            elapsed[done] = ms;
            cpu[done] = (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - own) * 1e-6;
            beyond[done++] = (usage_of(far).cpu_ns - away) * 1e-6;
        }
        if (ms > 2000) break;
    }
    figure(&r, "passes", done);
    figure(&r, "elapsed_ms", median_of(elapsed, done));
    figure(&r, "near_cpu_ms", median_of(cpu, done));
    figure(&r, "far_cpu_ms", median_of(beyond, done));
    emit(&r);
}
