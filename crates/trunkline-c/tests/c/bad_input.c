/* Does everything that a program must not do: NULL, short buffers, closed and foreign handles, closing
 * during a wait, wrong texts, fork. Each gives an error code with a message, and nothing else happens. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static tl_engine engine;
static tl_client client;
static tl_readings readings;
static tl_variable a;

static void null_pointers(void) {
    double value = 0.0;
    size_t length = 0;
    EXPECT(TL_ERROR_NULL, tl_connect(NULL, 3, 0, &client));
    SAYS("url is NULL");
    EXPECT(TL_ERROR_NULL, tl_connect("tl:///", NUL, 0, NULL));
    EXPECT(TL_ERROR_NULL, tl_open(client, "rig/a", NUL, 9000, NULL, NULL, 1, NULL));
    EXPECT(TL_ERROR_NULL, tl_open(client, NULL, NUL, 9000, &a, NULL, 1, NULL));
    EXPECT(TL_ERROR_NULL, tl_read_f64(client, NULL, 1, 9000, &value, NULL));
    EXPECT(TL_ERROR_NULL, tl_read_f64(client, &a, 1, 9000, NULL, NULL));
    OK(tl_read_f64(client, NULL, 0, 9000, NULL, NULL));
    EXPECT(TL_ERROR_NULL, tl_write_f64(client, &a, NULL, 1, 9000, NULL));
    EXPECT(TL_ERROR_NULL, tl_readings_create(NULL));
    EXPECT(TL_ERROR_NULL, tl_readings_count(readings, NULL));
    EXPECT(TL_ERROR_NULL, tl_client_state(client, NULL));
    EXPECT(TL_ERROR_NULL, tl_find(client, "rig/*", NUL, 0, 9000, NULL, 100, &length));
    EXPECT(TL_ERROR_NULL, tl_find(client, "rig/*", NUL, 0, 9000, NULL, 0, NULL));
    EXPECT(TL_ERROR_NULL, tl_engine_start(NULL, NUL, &engine));
    EXPECT(TL_ERROR_NULL, tl_subscribe_callback(client, "rig/a", NUL, "latest", NUL, 0, NULL, NULL, NULL));
    EXPECT(TL_ERROR_NULL, tl_last_error_message(NULL, 10, NULL));
    EXPECT(TL_ERROR_NULL, tl_stream_options_create(NULL));
    EXPECT(TL_ERROR_NULL, tl_subscribe_patterns(client, NULL, 3, NULL, 0, "all", NUL, 0, NULL));
    EXPECT(TL_ERROR_NULL, tl_alarms(client, NULL, 0, NULL, 0, 0, NULL, 0, 9000, NULL));
    EXPECT(TL_ERROR_NULL, tl_act_on_alarms(client, NULL, 5, TL_ALARM_RESET, 0, NULL, 0, 9000, NULL, NULL, 0));
    EXPECT(TL_ERROR_NULL, tl_audit(client, NULL, 0, NULL, 0, TL_TIME_OPEN, 0, NULL));
    EXPECT(TL_ERROR_NULL, tl_controls(client, NULL, 0, 0, 9000, NULL, NULL));
    EXPECT(TL_ERROR_NULL, tl_take_control(client, NULL, 3, 0, 0, 0, 9000, NULL));
    EXPECT(TL_FAULT_BAD_NAME, tl_take_control(client, NULL, 0, 0, 0, 0, 9000, NULL));
}

static void handles_are_checked(void) {
    tl_readings closed;
    tl_subscription none;
    double value = 1.0;
    size_t count;
    uint64_t handle;
    EXPECT(TL_ERROR_NULL, tl_client_close(0));
    EXPECT(TL_ERROR_HANDLE, tl_client_close(0xdeadbeef));
    EXPECT(TL_ERROR_HANDLE, tl_client_close(UINT64_MAX));
    EXPECT(TL_ERROR_HANDLE_KIND, tl_client_close(readings));
    SAYS("a client");
    OK(tl_readings_create(&closed));
    OK(tl_readings_close(closed));
    EXPECT(TL_ERROR_HANDLE, tl_readings_close(closed));
    SAYS("closed");
    EXPECT(TL_ERROR_HANDLE, tl_readings_count(closed, &count));
    EXPECT(TL_ERROR_HANDLE, tl_read(client, &a, 1, 9000, closed));
    EXPECT(TL_ERROR_HANDLE, tl_read_f64(client ^ 1, &a, 1, 9000, &value, NULL));
    /* No number that is near a handle is one. */
    for (handle = client + 1; handle < client + 200; handle++) {
        EXPECT(TL_ERROR_HANDLE, tl_client_state(handle, NULL));
    }
    none = 0;
    EXPECT(TL_ERROR_NULL, tl_subscription_next(none, readings, 1, 0, NULL));
    EXPECT(TL_ERROR_HANDLE_KIND, tl_alarms_close(readings));
    EXPECT(TL_ERROR_HANDLE_KIND, tl_audit_next(client, 0, NULL, NULL));
    EXPECT(TL_ERROR_HANDLE_KIND, tl_controls_count(readings, &count));
    EXPECT(TL_ERROR_HANDLE_KIND, tl_stream_options_close(client));
    EXPECT(TL_ERROR_HANDLE_KIND, tl_stream_commit(client, 0, 0));
    EXPECT(TL_ERROR_HANDLE_KIND, tl_stream_release(client));
    EXPECT(TL_ERROR_NULL, tl_stream_reserve(0, 8, 1, 0, NULL));
}

static void buffers_may_be_short(void) {
    char text[8] = "unused";
    size_t length = 0;
    tl_variable two[2] = {0, 0};
    double columns[1];
    memset(text, 'x', sizeof text);
    EXPECT(TL_ERROR_SHORT_BUFFER, tl_find(client, "rig/*", NUL, 0, 9000, text, 4, &length));
    CHECK(length > 4 && memcmp(text, "rig\0xxxx", 8) == 0);
    OK(tl_find(client, "rig/*", NUL, 0, 9000, NULL, 0, &length));
    EXPECT(TL_ERROR_SHORT_BUFFER, tl_open(client, "rig/a\nrig/b\nrig/mode", NUL, 9000, two, NULL, 2, &length));
    CHECK(length == 3 && two[0] == 0);
    OK(tl_open(client, "rig/a\nrig/b", NUL, 9000, two, NULL, 2, NULL));
    tl_read(client, two, 2, 9000, readings);
    EXPECT(TL_ERROR_SHORT_BUFFER,
           tl_readings_columns(readings, NULL, columns, NULL, NULL, NULL, NULL, NULL, 1, &length));
    CHECK(length == 2);
    /* The message is truncated between two characters. */
    EXPECT(TL_ERROR_ARGUMENT, tl_subscribe(client, "", 0, "all", NUL, 0, NULL));
    EXPECT(TL_ERROR_SHORT_BUFFER, tl_last_error_message(text, sizeof text, &length));
    CHECK(strlen(text) == 7 && length > 7);
}

static void texts_are_checked(void) {
    tl_client none = 1;
    tl_engine no_engine = 0;
    tl_subscription subscription;
    tl_status status;
    tl_variable variable = 1;
    EXPECT(TL_ERROR_TEXT, tl_open(client, "rig/\xff", NUL, 9000, &variable, &status, 1, NULL));
    SAYS("after byte 4");
    EXPECT(TL_ERROR_SYNTAX, tl_connect("http://x y", NUL, 0, &none));
    EXPECT(0, none);
    EXPECT(TL_ERROR_SYNTAX, tl_engine_start("[engine]\nlissten = 1", NUL, &no_engine));
    SAYS("listen");
    EXPECT(TL_ERROR_SYNTAX, tl_subscribe(client, "rig/a", NUL, "newest", NUL, 0, &subscription));
    SAYS("last:N");
    EXPECT(TL_ERROR_ARGUMENT, tl_subscribe(client, "rig/a", NUL, "all", NUL, 0x80, &subscription));
    EXPECT(TL_FAULT_UNKNOWN_NAME, tl_open(client, "rig/nope", NUL, 9000, &variable, &status, 1, NULL));
    CHECK(variable == 0 && status == TL_FAULT_UNKNOWN_NAME);
    EXPECT(TL_ERROR_ARGUMENT, tl_read(client, &variable, 1, 9000, readings));
    SAYS("variables[0]");
    EXPECT(TL_ERROR_ARGUMENT, tl_wait_connected(client, -5));
    EXPECT(TL_ERROR_ARGUMENT, tl_read(client, &variable, SIZE_MAX / 2, 9000, readings));
}

static void *wait_for_reading(void *subscription) {
    tl_readings own;
    size_t count;
    tl_status status;
    OK(tl_readings_create(&own));
    do {
        status = tl_subscription_next(*(tl_subscription *)subscription, own, 10, TL_FOREVER, &count);
    } while (status == TL_OK);
    OK(tl_readings_close(own));
    /* The handle may be closed before the call or during it. */
    CHECK(status == TL_ERROR_CLOSED || status == TL_ERROR_HANDLE);
    return NULL;
}

static void *wait_for_client(void *other) {
    tl_status status = tl_wait_connected(*(tl_client *)other, TL_FOREVER);
    CHECK(status == TL_ERROR_CLOSED || status == TL_ERROR_HANDLE);
    return NULL;
}

static void closing_ends_waits(void) {
    pthread_t thread;
    tl_subscription subscription;
    tl_client other = 0;
    tl_status status;

    OK(tl_subscribe(client, "rig/a", NUL, "latest", NUL, 0, &subscription));
    CHECK(pthread_create(&thread, NULL, wait_for_reading, &subscription) == 0);
    OK(tl_subscription_close(subscription));
    CHECK(pthread_join(thread, NULL) == 0);

    /* Nothing listens at this port. */
    status = tl_connect("tl+tcp://127.0.0.1:9", NUL, 0, &other);
    CHECK(status == TL_OK && other != 0);
    CHECK(pthread_create(&thread, NULL, wait_for_client, &other) == 0);
    OK(tl_client_close(other));
    CHECK(pthread_join(thread, NULL) == 0);

    /* The subscription of a closed client. */
    {
        char url[64];
        size_t count;
        OK(tl_engine_url(engine, url, sizeof url, NULL));
        OK(tl_connect(url, NUL, 20000, &other));
        OK(tl_subscribe(other, "rig/a", NUL, "latest", NUL, 0, &subscription));
        CHECK(pthread_create(&thread, NULL, wait_for_reading, &subscription) == 0);
        OK(tl_client_close(other));
        CHECK(pthread_join(thread, NULL) == 0);
        do {
            status = tl_subscription_next(subscription, readings, 1, 0, &count);
        } while (status == TL_OK);
        EXPECT(TL_ERROR_CLOSED, status);
        OK(tl_subscription_close(subscription));
    }
}

/* The ends of a stream in this process, whose reader is created by a thread of its own. */
static uint16_t port;
static tl_stream_reader reader;

static void *create_reader(void *type) {
    OK(tl_stream_reader_create("bad/in", NUL, type, NUL, NULL, 0, 8, port, 20000, &reader));
    return NULL;
}

static void *read_without_end(void *unused) {
    double element;
    size_t count;
    tl_status status;
    (void)unused;
    do {
        status = tl_stream_read(reader, &element, sizeof element, 1, 1, TL_FOREVER, &count);
    } while (status == TL_OK);
    CHECK(status == TL_ERROR_CLOSED || status == TL_ERROR_HANDLE);
    return NULL;
}

static void ends_of_streams_are_checked(void) {
    pthread_t thread;
    tl_stream_writer writer;
    double elements[3] = {1.0, 2.0, 3.0};
    const void *lent;
    void *room;
    size_t count;
    char url[64], type[] = "f64";
    OK(tl_engine_url(engine, url, sizeof url, NULL));
    port = (uint16_t)atoi(strrchr(url, ':') + 1);
    EXPECT(TL_ERROR_SYNTAX, tl_stream_writer_create("bad/out", NUL, "f65", NUL, NULL, 0, 8, port, 0, &writer));
    EXPECT(TL_ERROR_HANDLE_KIND,
           tl_stream_writer_create_with("bad/out", NUL, "f64", NUL, NULL, 0, client, 0, &writer));
    CHECK(pthread_create(&thread, NULL, create_reader, type) == 0);
    OK(tl_stream_writer_create("bad/out", NUL, "f64", NUL, "bad/in", NUL, 8, port, 20000, &writer));
    CHECK(pthread_join(thread, NULL) == 0);
    EXPECT(TL_ERROR_NULL, tl_stream_write(writer, NULL, 8, 1, 0));
    EXPECT(TL_FAULT_WRONG_TYPE, tl_stream_write(writer, elements, 4, 1, 0));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_write(writer, elements, 8, SIZE_MAX / 4, 0));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_reserve(writer, 8, SIZE_MAX / 4, 0, &room));
    EXPECT(TL_ERROR_NULL, tl_stream_reserve(writer, 8, 1, 0, NULL));
    EXPECT(TL_ERROR_NULL, tl_stream_acquire(reader, 8, 0, 1, 0, NULL, &count));
    EXPECT(TL_ERROR_NULL, tl_stream_read(reader, NULL, 8, 0, 1, 0, &count));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_flush(writer, 9, 0));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_flush(writer, TL_UNTIL_DURABLE, 9000));
    /* Memory that is lent stays, whoever wants to close its end. */
    OK(tl_stream_reserve(writer, 8, 3, 9000, &room));
    memcpy(room, elements, sizeof elements);
    EXPECT(TL_ERROR_BUSY, tl_stream_writer_abort(writer, NULL, 0));
    OK(tl_stream_commit(writer, 3, 9000));
    OK(tl_stream_acquire(reader, 8, 3, 8, 9000, &lent, &count));
    EXPECT(TL_ERROR_BUSY, tl_stream_reader_destroy(reader));
    CHECK(count == 3 && memcmp(lent, elements, sizeof elements) == 0);
    OK(tl_stream_release(reader));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_release(reader));
    /* Closing ends the wait of another thread. */
    CHECK(pthread_create(&thread, NULL, read_without_end, NULL) == 0);
    OK(tl_stream_reader_close(reader));
    CHECK(pthread_join(thread, NULL) == 0);
    EXPECT(TL_ERROR_HANDLE, tl_stream_reader_close(reader));
    OK(tl_stream_writer_close(writer, 9000, NULL));
    EXPECT(TL_ERROR_HANDLE, tl_stream_writer_close(writer, 0, NULL));
}

struct calls {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    tl_subscription subscription;
    int readings;
    int is_closed;
};

static void count_and_close(void *context, const tl_reading *reading, const tl_event *event,
                            const char *text, size_t length) {
    struct calls *calls = context;
    (void)text;
    (void)length;
    pthread_mutex_lock(&calls->mutex);
    CHECK((reading == NULL) != (event == NULL));
    CHECK(!calls->is_closed);
    if (reading && calls->subscription) {
        calls->readings++;
        /* A callback may end its own subscription. */
        OK(tl_subscription_close(calls->subscription));
        calls->is_closed = 1;
        pthread_cond_signal(&calls->changed);
    }
    pthread_mutex_unlock(&calls->mutex);
}

static void callback_may_close_its_subscription(void) {
    struct calls calls;
    double value = 4.0;
    memset(&calls, 0, sizeof calls);
    pthread_mutex_init(&calls.mutex, NULL);
    pthread_cond_init(&calls.changed, NULL);
    OK(tl_write_f64(client, &a, &value, 1, 9000, NULL));
    pthread_mutex_lock(&calls.mutex);
    OK(tl_subscribe_callback(client, "rig/a", NUL, "latest", NUL, 0, count_and_close, &calls,
                             &calls.subscription));
    while (!calls.is_closed) {
        pthread_cond_wait(&calls.changed, &calls.mutex);
    }
    pthread_mutex_unlock(&calls.mutex);
    EXPECT(TL_ERROR_HANDLE, tl_subscription_close(calls.subscription));
    CHECK(calls.readings == 1);
    OK(tl_flush(client, 9000, NULL));
}

/* Memory of this process in pages. */
static long pages(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &all, &resident) == 2);
    fclose(file);
    return resident;
}

static void many_handles_are_opened_and_closed(void) {
    long count = CYCLES, i, before = pages();
    for (i = 0; i < count; i++) {
        tl_readings one;
        tl_writes two;
        tl_stream_options three;
        OK(tl_stream_options_create(&three));
        OK(tl_stream_options_close(three));
        OK(tl_readings_create(&one));
        OK(tl_writes_create(client, &two));
        OK(tl_writes_add_f64(two, a, 1.0));
        OK(tl_readings_close(one));
        OK(tl_writes_close(two));
    }
    for (i = 0; i < count / 100; i++) {
        tl_subscription subscription;
        OK(tl_subscribe(client, "rig/a", NUL, "latest", NUL, 0, &subscription));
        OK(tl_subscription_close(subscription));
    }
    /* 32 MiB: what is lost in every cycle would be far more. */
    CHECK(pages() - before < 8192);
}

static void forked_process_is_refused(void) {
    pid_t child = fork();
    int status = 0;
    CHECK(child >= 0);
    if (child == 0) {
        int32_t state;
        if (tl_client_state(client, &state) == TL_ERROR_FORKED) {
            execlp("true", "true", (char *)NULL);
        }
        _exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    start(configuration, &engine, &client);
    OK(tl_open(client, "rig/a", NUL, 9000, &a, NULL, 1, NULL));
    OK(tl_readings_create(&readings));
    null_pointers();
    handles_are_checked();
    buffers_may_be_short();
    texts_are_checked();
    closing_ends_waits();
    ends_of_streams_are_checked();
    callback_may_close_its_subscription();
    many_handles_are_opened_and_closed();
    forked_process_is_refused();
    OK(tl_readings_close(readings));
    OK(tl_client_close(client));
    EXPECT(TL_ERROR_HANDLE, tl_client_close(client));
    OK(tl_engine_close(engine, 1000));
    EXPECT(TL_ERROR_HANDLE, tl_engine_close(engine, 1000));
    return 0;
}
