// Cyclone DDS: reliable, keep all, one instance per variable, unicast UDP on the loopback interface,
// batching of writes where nobody waits for each. It holds back a writer by itself.
#include "harness.h"
#include "update.h"
#include <dds/dds.h>

static const char *system_name, *place;
static dds_entity_t participant;

static const char *CONFIGURATION =
    "<CycloneDDS><Domain id=\"any\"><General><Interfaces><NetworkInterface name=\"lo\" multicast=\"false\"/>"
    "</Interfaces><AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
    "<MaxAutoParticipantIndex>60</MaxAutoParticipantIndex><Peers><Peer address=\"127.0.0.1\"/></Peers></Discovery>"
    "<Internal><SocketReceiveBufferSize min=\"default\"/></Internal></Domain></CycloneDDS>";

static dds_qos_t *quality(void) {
    dds_qos_t *q = dds_create_qos();
    dds_qset_reliability(q, DDS_RELIABILITY_RELIABLE, DDS_SECS(10));
    dds_qset_history(q, DDS_HISTORY_KEEP_ALL, 0);
    dds_qset_durability(q, DDS_DURABILITY_VOLATILE);
    dds_qset_writer_data_lifecycle(q, false);
    return q;
}
static void start(void) {
    setenv("CYCLONEDDS_URI", CONFIGURATION, 1);
    // Writes go together until a packet is full or they are flushed.
    dds_write_set_batch(true);
    participant = dds_create_participant(0, NULL, NULL);
    if (participant < 0) fail("no participant");
}
static dds_entity_t topic(const char *name) { return dds_create_topic(participant, &Peer_Update_desc, name, NULL, NULL); }
static dds_entity_t writer(const char *name) {
    dds_qos_t *q = quality();
    dds_entity_t w = dds_create_writer(participant, topic(name), q, NULL);
    dds_delete_qos(q);
    return w;
}
static dds_entity_t reader(const char *name, dds_listener_t *listener) {
    dds_qos_t *q = quality();
    dds_entity_t r = dds_create_reader(participant, topic(name), q, listener);
    dds_delete_qos(q);
    return r;
}
static void wait_readers(dds_entity_t w, unsigned count) {
    dds_publication_matched_status_t s = {0};
    for (int k = 0; s.current_count < count; k++) {
        if (k > 4000) fail("the other end was not found");
        nap_us(5000);
        dds_get_publication_matched_status(w, &s);
    }
}
static void wait_writer(dds_entity_t r) {
    dds_subscription_matched_status_t s = {0};
    for (int k = 0; s.current_count < 1; k++) {
        if (k > 4000) fail("the other end was not found");
        nap_us(5000);
        dds_get_subscription_matched_status(r, &s);
    }
}
static void drain(dds_entity_t r, void (*take)(int, double)) {
    void *samples[256] = {NULL};
    dds_sample_info_t infos[256];
    for (;;) {
        int n = dds_take(r, samples, infos, 256, 256);
        for (int i = 0; i < n; i++)
            if (infos[i].valid_data) take(((Peer_Update *)samples[i])->variable, ((Peer_Update *)samples[i])->value);
        if (n > 0) dds_return_loan(r, samples, n);
        if (n < 256) return;
    }
}
static dds_entity_t out;
static void put(int variable, double value) {
    Peer_Update update = {.variable = variable, .value = value};
    if (dds_write(out, &update) != 0) fail("a write was refused");
}
static void flush(void) { dds_write_flush(out); }

// ---------------------------------------------------------------- W1

static void take_echo(int variable, double value) { put(variable, value); }
static void take_tick(int variable, double value) { round_trip_grid_notice(variable, (long)value); }
static void on_tick(dds_entity_t r, void *a) { (void)a; drain(r, take_tick); }
static void send_tick(int count, const char *type, uint32_t tick) {
    (void)type;
    for (int i = 0; i < count; i++) put(i, tick);
    flush();
}
static void run_round_trip_grid(void) {
    struct shared *far = mmap(NULL, sizeof *far, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork_on(FAR);
    dds_listener_t *listener = dds_create_listener(NULL);
    if (pid == 0) {
        start();
        out = writer("back");
        // Not from a listener: its thread would wait for acknowledgements that it has to receive.
        dds_entity_t r = reader("there", NULL), waiting = dds_create_waitset(participant);
        dds_set_status_mask(r, DDS_DATA_AVAILABLE_STATUS);
        dds_waitset_attach(waiting, r, r);
        wait_writer(r);
        wait_readers(out, 1);
        far->ready = 1;
        for (;;) {
            dds_attach_t which;
            dds_waitset_wait(waiting, &which, 1, DDS_INFINITY);
            drain(r, take_echo);
            flush();
        }
    }
    start();
    out = writer("there");
    dds_lset_data_available(listener, on_tick);
    round_trip_grid.first = UINT32_MAX;
    reader("back", listener);
    wait_readers(out, 1);
    while (!far->ready) nap_us(1000);
    nap_us(300000);
    round_trip_grid_run(system_name, place, pid, send_tick, nap_us);
    kill(pid, SIGKILL);
}

// ---------------------------------------------------------------- W5, W6

static struct shared *share;
static double *next;
static void take_update(int variable, double value) { stream_take(share, next, variable, value); }
static void subscribe_in_child(struct shared *own, int count) {
    share = own, next = stream_expected(count);
    start();
    dds_entity_t r = reader("updates", NULL), waiting = dds_create_waitset(participant);
    dds_set_status_mask(r, DDS_DATA_AVAILABLE_STATUS);
    dds_waitset_attach(waiting, r, r);
    wait_writer(r);
    own->ready = 1;
    while (!own->stop) {
        dds_attach_t which;
        dds_waitset_wait(waiting, &which, 1, DDS_MSECS(200));
        drain(r, take_update);
    }
    _exit(0);
}
static void run_stream(const char *scenario) {
    struct stream s = stream_of(scenario, system_name, place);
    for (int j = 0; j < s.subscribers; j++)
        if (!(s.pids[j] = fork_on(FAR))) subscribe_in_child(s.shares + j, s.variables);
    start();
    out = writer("updates");
    wait_readers(out, s.subscribers);
    for (int j = 0; j < s.subscribers; j++) while (!s.shares[j].ready) nap_us(1000);
    nap_us(300000);
    stream_run(&s, 0, 0, put, flush, nap_10us);
}

int main(int argc, char **argv) {
    if (argc < 4) fail("use: cell SCENARIO SYSTEM [key=value ...]");
    setting_count = argc - 4, settings = argv + 4, system_name = argv[3];
    place = pin(NEAR);
    const char *scenario = argv[2];
    if (!strcmp(scenario, "round_trip_grid")) run_round_trip_grid();
    else if (!strcmp(scenario, "updates_to_one") || !strcmp(scenario, "updates_to_many")) run_stream(scenario);
    else fail("this system is not measured in that scenario");
    fflush(stdout);
    _exit(0);
}
