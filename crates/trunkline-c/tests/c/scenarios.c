/* Uses every group of functions on an engine in this process, and ends with 0 if all results are right. */
#include <math.h>

#include "expect.h"

#define ALL "rig/a\nrig/b\nrig/mode\nrig/note\nrig/shape\nrig/big\nrig/raw"
enum { A, B, MODE, NOTE, SHAPE, BIG, RAW, COUNT };

static tl_engine engine;
static tl_client client;
static tl_variable v[COUNT];
static tl_readings readings;

static void values_are_written_and_read(void) {
    double numbers[2] = {2.5, -7.0}, back[3];
    int64_t integers[2] = {INT64_MIN, 2}, big = 0;
    tl_status statuses[3];
    tl_variable mixed[3];
    char text[32];
    size_t length = 0;
    tl_type type;
    tl_reading reading;

    EXPECT(TL_FAULT_NO_VALUE, tl_read_f64(client, v, 1, 9000, back, statuses));
    CHECK(isnan(back[0]) && statuses[0] == TL_FAULT_NO_VALUE);
    OK(tl_write_f64(client, v, numbers, 2, 9000, NULL));
    OK(tl_read_f64(client, v, 2, 9000, back, NULL));
    CHECK(back[0] == 2.5 && back[1] == -7.0);
    OK(tl_write_i64(client, &v[B], integers, 2, 9000, statuses));
    OK(tl_read_i64(client, &v[B], 2, 9000, integers, NULL));
    CHECK(integers[0] == INT64_MIN && integers[1] == 2);
    OK(tl_read_text(client, v[MODE], 9000, text, sizeof text, &length));
    CHECK(strcmp(text, "AUTO") == 0 && length == 4);
    OK(tl_write_text(client, v[MODE], "OFF", NUL, 9000));
    OK(tl_write_text(client, v[NOTE], "a\0b", 3, 9000));
    OK(tl_read_text(client, v[NOTE], 9000, text, sizeof text, &length));
    CHECK(length == 3 && memcmp(text, "a\0b", 4) == 0);
    OK(tl_write_text(client, v[BIG], "18446744073709551615", NUL, 9000));
    EXPECT(TL_FAULT_OUT_OF_RANGE, tl_read_i64(client, &v[BIG], 1, 9000, &big, NULL));
    OK(tl_variable_type(client, v[MODE], &type, text, sizeof text, NULL));
    CHECK(type == TL_TYPE_ENUM && strcmp(text, "enum(OFF, MANUAL, AUTO)") == 0);

    mixed[0] = v[A];
    mixed[1] = v[NOTE];
    mixed[2] = v[MODE];
    EXPECT(TL_FAULT_WRONG_TYPE, tl_read_f64(client, mixed, 3, 9000, back, statuses));
    SAYS("rig/note");
    CHECK(back[0] == 2.5 && isnan(back[1]) && back[2] == 0.0);
    CHECK(statuses[0] == TL_OK && statuses[1] == TL_FAULT_WRONG_TYPE && statuses[2] == TL_OK);

    OK(tl_read(client, v, 4, 9000, readings));
    OK(tl_readings_count(readings, &length));
    CHECK(length == 4);
    OK(tl_readings_get(readings, 0, &reading));
    CHECK(reading.value == 2.5 && reading.item == 0 && reading.data_type == TL_TYPE_F64);
    CHECK(reading.own && reading.has_value && reading.stale_ns == -1 && (reading.quality & 3) == 0);
    OK(tl_readings_text(readings, 2, text, sizeof text, NULL));
    CHECK(strcmp(text, "OFF") == 0);
    EXPECT(TL_ERROR_ARGUMENT, tl_readings_get(readings, 4, &reading));
}

static void rules_refuse_writes(void) {
    double values[2] = {101.0, 1.0};
    double half = 0.5;
    tl_status statuses[2];
    tl_variable two[2];
    two[0] = v[A];
    two[1] = v[B];
    EXPECT(TL_FAULT_OUT_OF_RANGE, tl_write_f64(client, two, values, 2, 9000, statuses));
    SAYS("rig/a");
    CHECK(statuses[0] == TL_FAULT_OUT_OF_RANGE && statuses[1] == TL_OK);
    EXPECT(TL_FAULT_OUT_OF_RANGE, tl_write_f64(client, &v[MODE], &half, 1, 9000, NULL));
    EXPECT(TL_FAULT_WRONG_TYPE, tl_write_f64(client, &v[NOTE], &half, 1, 9000, NULL));
    EXPECT(TL_FAULT_INVALID_VALUE, tl_write_text(client, v[MODE], "FAST", NUL, 9000));
}

static void batches_and_groups_report_each_write(void) {
    tl_writes writes;
    tl_outcome first, second;
    uint64_t commit = 99;
    double shape[3] = {1.0, 2.0, 3.5}, back[4];
    size_t count = 0;
    char sentence[200];
    uint8_t bytes[3] = {1, 0, 255}, bytes_back[3];

    OK(tl_writes_create(client, &writes));
    EXPECT(TL_ERROR_ARGUMENT, tl_writes_set_verb(writes, TL_VERB_FORCE));
    OK(tl_writes_add_f64(writes, v[A], 12.0));
    OK(tl_writes_add_array_f64(writes, v[SHAPE], shape, 3));
    OK(tl_writes_add_bytes(writes, v[RAW], bytes, 3));
    OK(tl_writes_outcome(writes, 0, &first, NULL, 0, NULL));
    CHECK(first.outcome == TL_OUTCOME_NONE);
    OK(tl_write_batch(writes, 9000, NULL, 0));
    OK(tl_writes_outcome(writes, 0, &first, NULL, 0, NULL));
    CHECK(first.outcome == TL_OUTCOME_APPLIED && first.sequence > 0);
    OK(tl_read(client, &v[SHAPE], 3, 9000, readings));
    OK(tl_readings_array_f64(readings, 0, back, 4, &count));
    CHECK(count == 3 && back[2] == 3.5);
    OK(tl_readings_bytes(readings, 2, bytes_back, 3, &count));
    CHECK(count == 3 && memcmp(bytes, bytes_back, 3) == 0);

    OK(tl_writes_clear(writes));
    OK(tl_writes_add_f64(writes, v[A], 13.0));
    OK(tl_writes_add_i64(writes, v[B], 13));
    OK(tl_write_group(writes, 9000, &commit));
    CHECK(commit > 0);

    /* A group with a refused write writes nothing. */
    OK(tl_writes_clear(writes));
    OK(tl_writes_add_i64(writes, v[B], 14));
    OK(tl_writes_add_f64(writes, v[A], 200.0));
    EXPECT(TL_FAULT_OUT_OF_RANGE, tl_write_group(writes, 9000, &commit));
    SAYS("rig/a");
    CHECK(commit == 0);
    OK(tl_writes_outcome(writes, 0, &second, sentence, sizeof sentence, NULL));
    CHECK(second.status == TL_FAULT_GROUP_REFUSED && sentence[0] != 0);

    /* A write at an old position is refused. */
    OK(tl_writes_clear(writes));
    OK(tl_writes_add_f64(writes, v[A], 15.0));
    OK(tl_writes_expect(writes, first.epoch, first.sequence));
    EXPECT(TL_FAULT_CONFLICT, tl_write_batch(writes, 9000, NULL, 0));

    /* Forcing. */
    OK(tl_writes_clear(writes));
    OK(tl_writes_add_f64(writes, v[A], 16.0));
    OK(tl_writes_set_verb(writes, TL_VERB_FORCE));
    OK(tl_write_batch(writes, 9000, NULL, 0));
    OK(tl_writes_clear(writes));
    OK(tl_writes_add_order(writes, v[A], TL_VERB_UNFORCE));
    OK(tl_write_batch(writes, 9000, NULL, 0));
    OK(tl_writes_close(writes));
}

static void untracked_writes_are_flushed(void) {
    tl_writes writes;
    tl_write_counts before, after;
    int i;
    OK(tl_flush(client, 9000, &before));
    OK(tl_writes_create(client, &writes));
    for (i = 0; i < 10; i++) {
        OK(tl_writes_add_i64(writes, v[B], i));
    }
    OK(tl_write_untracked(writes, 9000));
    OK(tl_flush(client, 9000, &after));
    CHECK(after.issued - before.issued == 10 && after.applied - before.applied == 10);
    OK(tl_writes_close(writes));
}

static void subscriptions_have_a_queue(void) {
    tl_subscription subscription;
    tl_event event;
    size_t count;
    double values[8];
    int64_t lost[8];
    uint64_t sequences[8];
    uint32_t items[8];
    tl_reading newest;
    int32_t has;
    char text[300];
    int seen = 0, i;
    double last = 0.0;
    int64_t missed = 0;

    OK(tl_subscribe(client, "rig/a\nrig/nothing", NUL, "last:2", NUL, 0, &subscription));
    /* First the connection, then the current value and the fault of the second name, in any order. */
    while (seen != 3) {
        OK(tl_subscription_next(subscription, readings, 8, 9000, &count));
        OK(tl_readings_event(readings, &event, text, sizeof text, NULL));
        if (count > 0) {
            seen |= 1;
        }
        if (event.kind == TL_EVENT_ITEM_ERROR) {
            CHECK(event.item == 1 && event.status == TL_FAULT_UNKNOWN_NAME && text[0] != 0);
            seen |= 2;
        }
    }
    OK(tl_subscription_item_name(subscription, 0, text, sizeof text, NULL));
    CHECK(strcmp(text, "rig/a") == 0);
    EXPECT(TL_ERROR_TIMEOUT, tl_subscription_next(subscription, readings, 8, 0, &count));
    CHECK(count == 0);

    /* Ten updates for a buffer of two: what is dropped is counted. */
    for (i = 0; i < 10; i++) {
        double value = 20.0 + i;
        OK(tl_write_f64(client, v, &value, 1, 9000, NULL));
    }
    while (last != 29.0) {
        OK(tl_subscription_next(subscription, readings, 8, 9000, &count));
        OK(tl_readings_columns(readings, items, values, NULL, NULL, sequences, lost, NULL, 8, &count));
        for (i = 0; i < (int)count; i++) {
            CHECK(items[i] == 0 && lost[i] >= 0);
            last = values[i];
            missed += lost[i] + 1;
        }
    }
    CHECK(missed == 10);
    OK(tl_subscription_value(subscription, 0, &newest, &has));
    CHECK(has == 1 && newest.value == 29.0);
    OK(tl_subscription_close(subscription));
    EXPECT(TL_ERROR_HANDLE, tl_subscription_next(subscription, readings, 8, 0, &count));
}

static void find_why_snapshot_lease(void) {
    char text[4096];
    int64_t instant = 0;
    int32_t is_consistent = 0;
    tl_status status;
    OK(tl_find(client, "rig/*", NUL, 0, 9000, text, sizeof text, NULL));
    CHECK(strcmp(text, "rig/a\nrig/b\nrig/big\nrig/mode\nrig/note\nrig/raw\nrig/shape") == 0);
    OK(tl_why(client, "rig/a", NUL, 9000, text, sizeof text, NULL));
    CHECK(strlen(text) > 20);
    OK(tl_snapshot(client, v, 3, 9000, readings, &instant, &is_consistent));
    CHECK(is_consistent == 1 && instant > 0);
    OK(tl_lease(client, v, 1, 60000, 9000, &status));
    OK(tl_lease(client, v, 1, 0, 9000, NULL));
    EXPECT(TL_FAULT_NOT_LEASED, tl_lease(client, v, 1, 0, 9000, NULL));
}

static void engine_without_connection(void) {
    tl_client local;
    tl_host_variable a, mode, none = 0;
    tl_variable twice;
    double value;
    uint64_t sequence;
    OK(tl_engine_deploy(engine, "[[variable]]\nname = \"x\"\ntype = \"f64\"\n", NUL));
    OK(tl_engine_client(engine, &local));
    OK(tl_open(local, "program/x", NUL, 9000, &twice, NULL, 1, NULL));
    EXPECT(TL_ERROR_ARGUMENT, tl_read_f64(client, &twice, 1, 9000, &value, NULL));
    SAYS("no variable of this client");
    OK(tl_client_close(local));
    OK(tl_engine_variable(engine, "rig/a", NUL, &a));
    OK(tl_engine_variable(engine, "rig/mode", NUL, &mode));
    OK(tl_host_write_f64(a, 33.0, &sequence));
    OK(tl_host_read_f64(a, &value, NULL, NULL, NULL));
    CHECK(value == 33.0 && sequence > 0);
    OK(tl_host_write_f64(mode, 2.0, NULL));
    OK(tl_host_read_f64(mode, &value, NULL, NULL, NULL));
    CHECK(value == 2.0);
    EXPECT(TL_FAULT_OUT_OF_RANGE, tl_host_write_f64(a, 101.0, NULL));
    EXPECT(TL_FAULT_UNKNOWN_NAME, tl_engine_variable(engine, "rig/nothing", NUL, &none));
    EXPECT(TL_FAULT_WRONG_TYPE, tl_engine_variable(engine, "rig/note", NUL, &none));
    OK(tl_host_close(a));
    OK(tl_host_close(mode));
}

static void history_without_records_is_a_fault(void) {
    tl_history history;
    size_t count;
    OK(tl_history_open(client, "rig/**", NUL, TL_TIME_OPEN, TL_TIME_OPEN, TL_HISTORY_ROWS, 0, &history));
    CHECK(tl_history_next(history, readings, 0, 9000, &count) > 0);
    OK(tl_history_close(history));
    EXPECT(TL_ERROR_ARGUMENT, tl_history_open(client, "rig/**", NUL, 0, 1, TL_HISTORY_STEPPED, 0, &history));
}

int main(void) {
    size_t count = 0;
    start(configuration, &engine, &client);
    OK(tl_readings_create(&readings));
    OK(tl_open(client, ALL, NUL, 9000, v, NULL, COUNT, &count));
    CHECK(count == COUNT);
    values_are_written_and_read();
    rules_refuse_writes();
    batches_and_groups_report_each_write();
    untracked_writes_are_flushed();
    subscriptions_have_a_queue();
    find_why_snapshot_lease();
    engine_without_connection();
    history_without_records_is_a_fault();
    OK(tl_close_variables(client, v, COUNT, 9000));
    EXPECT(TL_ERROR_ARGUMENT, tl_read(client, v, 1, 9000, readings));
    OK(tl_readings_close(readings));
    OK(tl_client_close(client));
    OK(tl_engine_close(engine, 1000));
    return 0;
}
