// OPC UA by open62541: a server and clients over opc.tcp without security. Variables are monitored
// on every write (sampling interval 0) and published as often as the library can be told to; many
// writes, reads and monitored items go in one request. The server runs in one thread, and drops from
// a full queue, so the writer is held back.
#include "harness.h"
#include <arpa/inet.h>
#include <open62541/client.h>
#include <open62541/client_config_default.h>
#include <open62541/client_highlevel.h>
#include <open62541/client_subscriptions.h>
#include <open62541/server.h>
#include <open62541/server_config_default.h>
#include <sys/socket.h>

// Milliseconds between two publications: the library's timer is not finer.
#define PUBLISHING 0.1
// Items of one request.
#define AT_ONCE 10000
// Updates that may be on their way to the slowest subscriber.
#define AHEAD 8192

static const char *system_name, *place;
static UA_UInt16 port;

static UA_NodeId node(int i) { return UA_NODEID_NUMERIC(1, 10000 + i); }

static void choose_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(s, (struct sockaddr *)&a, sizeof a) || getsockname(s, (struct sockaddr *)&a, &size)) fail("no free port");
    port = ntohs(a.sin_port);
    close(s);
}

static void set_value(UA_Variant *v, char type, double x, UA_Int32 *whole, UA_Float *single, UA_Double *real, char *text, UA_String *string) {
    switch (type) {
    case 'i': *whole = x; UA_Variant_setScalar(v, whole, &UA_TYPES[UA_TYPES_INT32]); break;
    case 'f': *single = x; UA_Variant_setScalar(v, single, &UA_TYPES[UA_TYPES_FLOAT]); break;
    case 's': snprintf(text, 20, "%016ld", (long)x); *string = UA_STRING(text); UA_Variant_setScalar(v, string, &UA_TYPES[UA_TYPES_STRING]); break;
    default: *real = x; UA_Variant_setScalar(v, real, &UA_TYPES[UA_TYPES_DOUBLE]);
    }
}
struct holder { UA_Int32 whole; UA_Float single; UA_Double real; char text[20]; UA_String string; };
static void hold(UA_Variant *v, struct holder *h, char type, double x) { set_value(v, type, x, &h->whole, &h->single, &h->real, h->text, &h->string); }

static double value_of(const UA_Variant *v) {
    if (!v->data) return NAN;
    if (v->type == &UA_TYPES[UA_TYPES_INT32]) return *(UA_Int32 *)v->data;
    if (v->type == &UA_TYPES[UA_TYPES_FLOAT]) return *(UA_Float *)v->data;
    if (v->type == &UA_TYPES[UA_TYPES_DOUBLE]) return *(UA_Double *)v->data;
    char text[32] = "";
    const UA_String *s = v->data;
    memcpy(text, s->data, s->length < 31 ? s->length : 31);
    return atof(text);
}

// ---------------------------------------------------------------- the two ends

static UA_Server *server;
static UA_Client *client;

// Variables that hold `first`, or their index where it is below zero.
static void serve(int count, char type, double first) {
    static UA_ServerConfig config;
    if (UA_ServerConfig_setMinimal(&config, port, NULL)) fail("the server has no configuration");
    char url[64];
    snprintf(url, sizeof url, "opc.tcp://127.0.0.1:%d", port);
    UA_String_clear(&config.serverUrls[0]);
    config.serverUrls[0] = UA_STRING_ALLOC(url);
    config.publishingIntervalLimits.min = PUBLISHING;
    config.samplingIntervalLimits.min = 0;
    config.queueSizeLimits.max = 1 << 20;
    config.maxNotificationsPerPublish = 1 << 20;
    config.enableRetransmissionQueue = false;
    server = UA_Server_newWithConfig(&config);
    if (!server) fail("the server cannot be made");
    for (int i = 0; i < count; i++) {
        UA_VariableAttributes a = UA_VariableAttributes_default;
        struct holder h;
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        hold(&a.value, &h, type, first < 0 ? i : first);
        a.dataType = a.value.type->typeId;
        a.accessLevel = UA_ACCESSLEVELMASK_READ | UA_ACCESSLEVELMASK_WRITE;
        UA_StatusCode s = UA_Server_addVariableNode(server, node(i), UA_NS0ID(OBJECTSFOLDER), UA_NS0ID(ORGANIZES),
            UA_QUALIFIEDNAME(1, name), UA_NS0ID(BASEDATAVARIABLETYPE), a, NULL, NULL);
        if (s) fail(UA_StatusCode_name(s));
    }
    if (UA_Server_run_startup(server)) fail("the server cannot listen");
}

// The server in a process of its own, on the far end's CPU.
static pid_t serve_far(int count, char type, double first) {
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork_on(FAR);
    if (pid == 0) {
        serve(count, type, first);
        shared->ready = 1;
        for (;;) UA_Server_run_iterate(server, true);
    }
    while (!shared->ready && waitpid(pid, NULL, WNOHANG) == 0) nap_us(1000);
    if (!shared->ready) fail("the server did not start");
    return pid;
}

static void connect_client(void) {
    char url[64];
    snprintf(url, sizeof url, "opc.tcp://127.0.0.1:%d", port);
    client = UA_Client_new();
    UA_ClientConfig *config = UA_Client_getConfig(client);
    UA_ClientConfig_setDefault(config);
    config->timeout = 30000;
    config->outStandingPublishRequests = 10;
    UA_StatusCode s = UA_Client_connect(client, url);
    if (s) fail(UA_StatusCode_name(s));
}

typedef void (*on_change)(UA_Client *, UA_UInt32, void *, UA_UInt32, void *, UA_DataValue *);

static void subscribe(int count, int queue, on_change callback) {
    UA_CreateSubscriptionRequest request = UA_CreateSubscriptionRequest_default();
    request.requestedPublishingInterval = PUBLISHING;
    request.requestedMaxKeepAliveCount = 100000;
    request.requestedLifetimeCount = 400000;
    UA_CreateSubscriptionResponse made = UA_Client_Subscriptions_create(client, request, NULL, NULL, NULL);
    if (made.responseHeader.serviceResult) fail(UA_StatusCode_name(made.responseHeader.serviceResult));
    for (int first = 0; first < count; first += AT_ONCE) {
        int some = count - first < AT_ONCE ? count - first : AT_ONCE;
        UA_MonitoredItemCreateRequest *items = calloc(some, sizeof *items);
        void **contexts = calloc(some, sizeof *contexts);
        UA_Client_DataChangeNotificationCallback *callbacks = calloc(some, sizeof *callbacks);
        UA_Client_DeleteMonitoredItemCallback *deletes = calloc(some, sizeof *deletes);
        for (int i = 0; i < some; i++) {
            items[i] = UA_MonitoredItemCreateRequest_default(node(first + i));
            items[i].requestedParameters.samplingInterval = 0;
            items[i].requestedParameters.queueSize = queue;
            contexts[i] = (void *)(intptr_t)(first + i);
            callbacks[i] = callback;
        }
        UA_CreateMonitoredItemsRequest all;
        UA_CreateMonitoredItemsRequest_init(&all);
        all.subscriptionId = made.subscriptionId;
        all.timestampsToReturn = UA_TIMESTAMPSTORETURN_NEITHER;
        all.itemsToCreate = items;
        all.itemsToCreateSize = some;
        UA_CreateMonitoredItemsResponse answer = UA_Client_MonitoredItems_createDataChanges(client, all, contexts, callbacks, deletes);
        if (answer.responseHeader.serviceResult) fail(UA_StatusCode_name(answer.responseHeader.serviceResult));
        UA_CreateMonitoredItemsResponse_clear(&answer);
        free(items), free(contexts), free(callbacks), free(deletes);
    }
    UA_CreateSubscriptionResponse_clear(&made);
}

// ---------------------------------------------------------------- W1

static int seen;
static void on_tick(UA_Client *c, UA_UInt32 s, void *sc, UA_UInt32 m, void *context, UA_DataValue *value) {
    (void)c, (void)s, (void)sc, (void)m;
    seen++;
    round_trip_grid_notice((int)(intptr_t)context, (long)value_of(&value->value));
}
static void write_many(int count, char type, double first, double step) {
    static UA_WriteValue values[CALLED];
    static struct holder holders[CALLED];
    for (int i = 0; i < count; i++) {
        UA_WriteValue_init(values + i);
        values[i].nodeId = node(i);
        values[i].attributeId = UA_ATTRIBUTEID_VALUE;
        values[i].value.hasValue = true;
        hold(&values[i].value.value, holders + i, type, first + step * i);
    }
    UA_WriteRequest request;
    UA_WriteRequest_init(&request);
    request.nodesToWrite = values;
    request.nodesToWriteSize = count;
    UA_WriteResponse answer = UA_Client_Service_write(client, request);
    bool is_good = answer.responseHeader.serviceResult == 0 && answer.resultsSize == (size_t)count;
    for (size_t i = 0; i < answer.resultsSize; i++) is_good &= answer.results[i] == 0;
    if (!is_good) fail("a write was refused");
    UA_WriteResponse_clear(&answer);
}
static void send_tick(int count, const char *type, uint32_t tick) { write_many(count, type[0], tick, 0); }
static void wait_tick(long us) { UA_Client_run_iterate(client, us / 1000); }

static void run_round_trip_grid(void) {
    int count = number_of("n", 10);
    pid_t far = serve_far(count, text_of("type", "i32")[0], 0);
    connect_client();
    round_trip_grid.first = UINT32_MAX;
    subscribe(count, 64, on_tick);
    for (int k = 0; seen < count && k < 5000; k++) UA_Client_run_iterate(client, 1);
    round_trip_grid_run(system_name, place, far, send_tick, wait_tick);
    kill(far, SIGKILL);
}

// ---------------------------------------------------------------- W2

static void put(int v, double x) {
    UA_Variant value;
    struct holder h;
    hold(&value, &h, 'd', x);
    UA_StatusCode s = UA_Client_writeValueAttribute(client, node(v), &value);
    if (s) fail(UA_StatusCode_name(s));
}
static double get(int v) {
    UA_Variant value;
    UA_StatusCode s = UA_Client_readValueAttribute(client, node(v), &value);
    if (s) fail(UA_StatusCode_name(s));
    double x = value_of(&value);
    UA_Variant_clear(&value);
    return x;
}
static void put_all(double first, int count) { write_many(count, 'd', first, 1); }
static void get_all(int count, double *values) {
    static UA_ReadValueId ids[CALLED];
    for (int i = 0; i < count; i++) {
        UA_ReadValueId_init(ids + i);
        ids[i].nodeId = node(i);
        ids[i].attributeId = UA_ATTRIBUTEID_VALUE;
    }
    UA_ReadRequest request;
    UA_ReadRequest_init(&request);
    request.timestampsToReturn = UA_TIMESTAMPSTORETURN_NEITHER;
    request.nodesToRead = ids;
    request.nodesToReadSize = count;
    UA_ReadResponse answer = UA_Client_Service_read(client, request);
    if (answer.resultsSize != (size_t)count) fail("a read was refused");
    for (int i = 0; i < count; i++) values[i] = value_of(&answer.results[i].value);
    UA_ReadResponse_clear(&answer);
}

// ---------------------------------------------------------------- W5, W6

static struct shared *share;
static double *next;
static void on_update(UA_Client *c, UA_UInt32 s, void *sc, UA_UInt32 m, void *context, UA_DataValue *value) {
    (void)c, (void)s, (void)sc, (void)m;
    seen++;
    stream_take(share, next, (int)(intptr_t)context, value_of(&value->value));
}
static int ahead_of(int subscribers) { return AHEAD / subscribers < 512 ? 512 : AHEAD / subscribers; }
static void subscribe_in_child(struct shared *own, int count, int subscribers) {
    share = own, next = stream_expected(count);
    while (!own->ready) nap_us(1000);
    connect_client();
    subscribe(count, 2 * ahead_of(subscribers) / count + 10, on_update);
    while (seen < count) UA_Client_run_iterate(client, 1);
    own->ready = 2;
    while (!own->stop) UA_Client_run_iterate(client, 10);
    _exit(0);
}
static void post(int v, double x) {
    UA_Variant value;
    struct holder h;
    hold(&value, &h, 'd', x);
    if (UA_Server_writeValue(server, node(v), value)) fail("a write was refused");
}
static void iterate(void) { UA_Server_run_iterate(server, false); }

static void run_stream(const char *scenario) {
    struct stream s = stream_of(scenario, system_name, place);
    for (int j = 0; j < s.subscribers; j++)
        if (!(s.pids[j] = fork_on(FAR))) subscribe_in_child(s.shares + j, s.variables, s.subscribers);
    serve(s.variables, 'd', 0);
    for (int j = 0; j < s.subscribers; j++) s.shares[j].ready = 1;
    for (int j = 0; j < s.subscribers; j++) while (s.shares[j].ready != 2) iterate(), nap_us(20);
    stream_run(&s, 0, ahead_of(s.subscribers), post, iterate, iterate);
}

// ---------------------------------------------------------------- W8

static int wrong;
static void on_first(UA_Client *c, UA_UInt32 s, void *sc, UA_UInt32 m, void *context, UA_DataValue *value) {
    (void)c, (void)s, (void)sc, (void)m;
    seen++;
    wrong += value_of(&value->value) != (double)(intptr_t)context;
}
static double first_set(int count, double limit) {
    uint64_t start = now_ns();
    seen = 0;
    connect_client();
    subscribe(count, 1, on_first);
    while (seen < count && now_ns() - start < limit * 1e6) UA_Client_run_iterate(client, 1);
    double ms = (now_ns() - start) * 1e-6;
    if (seen < count) return -1;
    if (wrong) fail("a first value was wrong");
    UA_Client_delete(client);
    return ms;
}

int main(int argc, char **argv) {
    if (argc < 4) fail("use: cell SCENARIO SYSTEM [key=value ...]");
    setting_count = argc - 4, settings = argv + 4, system_name = argv[3];
    place = pin(NEAR);
    choose_port();
    const char *scenario = argv[2];
    if (!strcmp(scenario, "round_trip_grid")) run_round_trip_grid();
    else if (!strcmp(scenario, "call_cost")) {
        pid_t far = serve_far(CALLED, 'd', 0);
        connect_client();
        call_cost_run(system_name, place, far, (struct calls){put, get, put_all, get_all});
        kill(far, SIGKILL);
    } else if (!strcmp(scenario, "updates_to_one") || !strcmp(scenario, "updates_to_many")) run_stream(scenario);
    else if (!strcmp(scenario, "footprint")) {
        pid_t far = serve_far(number_of("vars", 1000), 'd', -1);
        footprint_run(system_name, place, far, first_set);
        kill(far, SIGKILL);
    } else fail("this system is not measured in that scenario");
    fflush(stdout);
    _exit(0);
}
