// EPICS pvAccess by pvxs: a server with mailbox variables. Monitors are squashed when a client is
// slower, so the writer is held back.
#include "harness.h"
#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <vector>
#include <pvxs/client.h>
#include <pvxs/nt.h>
#include <pvxs/server.h>
#include <pvxs/sharedpv.h>
using namespace pvxs;

// Updates of a variable that a monitor has room for.
static const int QUEUE = 64;
static const char *system_name, *place;

static std::string name_of(int i) { return "v" + std::to_string(i); }

struct Served {
    std::vector<server::SharedPV> variables;
    std::vector<Value> values;
    server::Server server;
};

// Variables that hold `first`, or their index where it is below zero.
static Served serve(int count, char type, double first) {
    Served s;
    auto conf = server::Config::fromEnv();
    conf.interfaces = {"127.0.0.1"};
    conf.auto_beacon = false;
    s.server = conf.build();
    auto source = server::StaticSource::build();
    Value top = nt::NTScalar{type == 'i' ? TypeCode::Int32 : type == 's' ? TypeCode::String : TypeCode::Float64}.create();
    for (int i = 0; i < count; i++) {
        auto variable = server::SharedPV::buildMailbox();
        auto value = top.cloneEmpty();
        double held = first < 0 ? i : first;
        if (type == 's') value["value"] = std::to_string((long)held);
        else value["value"] = held;
        variable.open(value);
        source.add(name_of(i), variable);
        s.variables.push_back(variable);
        s.values.push_back(value.cloneEmpty());
    }
    s.server.addSource("all", source.source(), 0);
    s.server.start();
    return s;
}

// The server in a process of its own, on the far end's CPU.
static pid_t serve_far(int count, char type, double first) {
    auto shared = (struct shared *)mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork_on(FAR);
    if (pid == 0) {
        auto s = serve(count, type, first);
        shared->ready = 1;
        for (;;) pause();
    }
    while (!shared->ready) nap_us(1000);
    return pid;
}

static client::Context context() {
    auto conf = client::Config::fromEnv();
    conf.addressList = {"127.0.0.1"};
    conf.autoAddrList = false;
    return conf.build();
}

static std::unique_ptr<client::Context> near;
static std::list<std::shared_ptr<client::Operation>> writing;

static void send_tick(int count, const char *type, uint32_t tick) {
    while (writing.size() > (size_t)count * 20) writing.pop_front();
    char text[20];
    snprintf(text, sizeof text, "%016u", tick);
    for (int i = 0; i < count; i++) {
        // The type is known, so that no get precedes the put.
        auto put = near->put(name_of(i)).fetchPresent(false);
        if (type[0] == 's') put.set("value", std::string(text));
        else if (type[0] == 'i') put.set("value", int32_t(tick));
        else put.set("value", double(tick));
        writing.push_back(put.exec());
    }
}

static void run_round_trip_grid() {
    const char *type = text_of("type", "i32");
    int count = number_of("n", 10);
    pid_t server = serve_far(count, type[0], 0);
    near.reset(new client::Context(context()));
    std::atomic<int> seen{0};
    round_trip_grid.first = UINT32_MAX;
    std::vector<std::shared_ptr<client::Subscription>> subscriptions;
    for (int i = 0; i < count; i++)
        subscriptions.push_back(near->monitor(name_of(i)).record("queueSize", QUEUE).event([&seen, i, type](client::Subscription &s) {
            try {
                while (auto x = s.pop()) {
                    seen++;
                    round_trip_grid_notice(i, type[0] == 's' ? atol(x["value"].as<std::string>().c_str()) : x["value"].as<int64_t>());
                }
            } catch (std::exception &) {
            }
        }).exec());
    for (int k = 0; seen < count && k < 10000; k++) nap_us(1000);
    round_trip_grid_run(system_name, place, server, send_tick, nap_us);
    kill(server, SIGKILL);
}

static std::shared_ptr<client::Operation> start_put(int v, double x) { return near->put(name_of(v)).fetchPresent(false).set("value", x).exec(); }
static void put(int v, double x) { start_put(v, x)->wait(5); }
static double get(int v) { return near->get(name_of(v)).exec()->wait(5)["value"].as<double>(); }
static void put_all(double first, int count) {
    std::vector<std::shared_ptr<client::Operation>> all;
    for (int i = 0; i < count; i++) all.push_back(start_put(i, first + i));
    for (auto &one : all) one->wait(10);
}
static void get_all(int count, double *values) {
    std::vector<std::shared_ptr<client::Operation>> all;
    for (int i = 0; i < count; i++) all.push_back(near->get(name_of(i)).exec());
    for (int i = 0; i < count; i++) values[i] = all[i]->wait(10)["value"].as<double>();
}

static void run_call_cost() {
    pid_t server = serve_far(CALLED, 'f', 0);
    near.reset(new client::Context(context()));
    // Channels stay connected between calls.
    std::vector<std::shared_ptr<client::Connect>> kept;
    for (int i = 0; i < CALLED; i++) kept.push_back(near->connect(name_of(i)).exec());
    call_cost_run(system_name, place, server, {put, get, put_all, get_all});
    kill(server, SIGKILL);
}

static void subscribe_in_child(struct shared *own, int count) {
    while (!own->ready) nap_us(1000);
    auto client = context();
    double *next = stream_expected(count);
    std::atomic<int> seen{0};
    std::vector<std::shared_ptr<client::Subscription>> subscriptions;
    for (int i = 0; i < count; i++)
        subscriptions.push_back(client.monitor(name_of(i)).record("queueSize", QUEUE).event([&seen, own, next, i](client::Subscription &s) {
            try {
                while (auto x = s.pop()) {
                    seen++;
                    stream_take(own, next, i, x["value"].as<double>());
                }
            } catch (std::exception &) {
            }
        }).exec());
    while (seen < count) nap_us(1000);
    own->ready = 2;
    while (!own->stop) nap_us(1000);
    _exit(0);
}

static Served *posting;
static void post(int v, double x) {
    auto value = posting->values[v].cloneEmpty();
    value["value"] = x;
    posting->variables[v].post(value);
}

static void run_stream(const char *scenario) {
    auto s = stream_of(scenario, system_name, place);
    for (int j = 0; j < s.subscribers; j++)
        if (!(s.pids[j] = fork_on(FAR))) subscribe_in_child(s.shares + j, s.variables);
    auto served = serve(s.variables, 'f', 0);
    posting = &served;
    for (int j = 0; j < s.subscribers; j++) s.shares[j].ready = 1;
    for (int j = 0; j < s.subscribers; j++) while (s.shares[j].ready != 2) nap_us(1000);
    stream_run(&s, 0, (uint64_t)s.variables * QUEUE / 2, post, nothing, nap_10us);
}

static double first_set(int count, double limit) {
    uint64_t start = now_ns();
    auto client = context();
    std::atomic<int> seen{0};
    std::vector<std::shared_ptr<client::Subscription>> subscriptions;
    for (int i = 0; i < count; i++)
        subscriptions.push_back(client.monitor(name_of(i)).event([&seen, i](client::Subscription &s) {
            try {
                while (auto x = s.pop()) seen += x["value"].as<double>() == i;
            } catch (std::exception &) {
            }
        }).exec());
    while (seen < count && now_ns() - start < limit * 1e6) nap_us(100);
    double ms = (now_ns() - start) * 1e-6;
    // What closing takes is not measured, nor waited for where it would take long.
    if (seen < count) return -1;
    return ms;
}

int main(int argc, char **argv) {
    if (argc < 4) fail("use: cell SCENARIO SYSTEM [key=value ...]");
    setting_count = argc - 4, settings = argv + 4, system_name = argv[3];
    place = pin(NEAR);
    std::string scenario = argv[2];
    try {
        if (scenario == "round_trip_grid") run_round_trip_grid();
        else if (scenario == "call_cost") run_call_cost();
        else if (scenario == "updates_to_one" || scenario == "updates_to_many") run_stream(argv[2]);
        else if (scenario == "footprint") {
            pid_t server = serve_far(number_of("vars", 1000), 'f', -1);
            footprint_run(system_name, place, server, first_set);
            kill(server, SIGKILL);
        } else fail("this system is not measured in that scenario");
    } catch (std::exception &error) {
        fail(error.what());
    }
    fflush(stdout);
    _exit(0);
}
