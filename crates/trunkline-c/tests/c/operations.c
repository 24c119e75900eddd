/* Patterns, alarms, the audit trail and control of folders, on an engine in this process. */
#include <math.h>
#include <pthread.h>

#include "expect.h"

static const char plant[] =
    "[engine]\n"
    "listen = [\"127.0.0.1:0\"]\n"
    "store = \"none\"\n"
    "[library]\n"
    "name = \"rig\"\n"
    "[[variable]]\n"
    "name = \"level\"\n"
    "type = \"f64\"\n"
    "range = [0, 100]\n"
    "audit = true\n"
    "alarm.hi = { limit = 80, priority = 700, area = \"drum\", help = \"Close the valve\" }\n"
    "[[variable]]\n"
    "name = \"mode\"\n"
    "type = \"enum(OFF, MANUAL, AUTO)\"\n"
    "[[variable]]\n"
    "name = \"pump/speed\"\n"
    "type = \"f64\"\n";

static tl_engine engine;
static tl_client client, other;
static tl_readings readings;
static tl_variable level;

static void write_level(double value) {
    OK(tl_write_f64(client, &level, &value, 1, 9000, NULL));
}

/* The text of an alarm is this. */
#define ALARM_TEXT(list, index, field, wanted)                                   \
    do {                                                                         \
        char text_[200];                                                         \
        OK(tl_alarms_text(list, index, field, text_, sizeof text_, NULL));       \
        CHECK(strcmp(text_, wanted) == 0);                                       \
    } while (0)

#define CHANGE_TEXT(changes, field, wanted)                                      \
    do {                                                                         \
        char text_[200];                                                         \
        OK(tl_alarm_changes_text(changes, field, text_, sizeof text_, NULL));    \
        CHECK(strcmp(text_, wanted) == 0);                                       \
    } while (0)

static void alarms_are_listed_acted_on_and_followed(void) {
    tl_alarm_changes changes, recorded;
    tl_alarm_list alarms;
    tl_alarm alarm;
    size_t count;
    uint64_t lost = 9;
    int32_t states[2];
    tl_status statuses[2];

    OK(tl_follow_alarms(client, NULL, 0, NULL, 0, 0, TL_SINCE_NOW, 9000, &changes));
    EXPECT(TL_ERROR_ARGUMENT, tl_alarm_changes_text(changes, TL_ALARM_TEXT_ALARM, NULL, 0, &count));
    EXPECT(TL_ERROR_TIMEOUT, tl_alarm_changes_next(changes, 0, &alarm, &lost));
    write_level(90.0);
    OK(tl_alarm_changes_next(changes, 9000, &alarm, &lost));
    CHECK(lost == 0 && alarm.number > 0 && alarm.changed_ns > 0 && alarm.is_active == 1);
    CHECK(alarm.state == TL_ALARM_UNACKNOWLEDGED && alarm.previous_state == TL_ALARM_NORMAL);
    CHECK(alarm.value == 90.0 && alarm.limit == 80.0 && alarm.priority == 700);
    CHANGE_TEXT(changes, TL_ALARM_TEXT_VARIABLE, "rig/level");
    CHANGE_TEXT(changes, TL_ALARM_TEXT_ALARM, "hi");
    CHANGE_TEXT(changes, TL_ALARM_TEXT_EVENT, "raise");

    OK(tl_alarms(client, "rig/**", NUL, "drum", NUL, 100, "unacknowledged\nshelved", NUL, 9000, &alarms));
    OK(tl_alarms_count(alarms, &count));
    CHECK(count == 1);
    OK(tl_alarms_get(alarms, 0, &alarm));
    CHECK(alarm.state == TL_ALARM_UNACKNOWLEDGED && alarm.value == 90.0 && alarm.limit == 80.0);
    CHECK(alarm.raised_ns > 0 && alarm.acknowledged_ns == TL_TIME_OPEN);
    ALARM_TEXT(alarms, 0, TL_ALARM_TEXT_HELP, "Close the valve");
    ALARM_TEXT(alarms, 0, TL_ALARM_TEXT_STATE, "unacknowledged");
    EXPECT(TL_ERROR_ARGUMENT, tl_alarms_get(alarms, 1, &alarm));
    EXPECT(TL_ERROR_ARGUMENT, tl_alarms_text(alarms, 0, 99, NULL, 0, &count));
    OK(tl_alarms_close(alarms));
    OK(tl_alarms(client, NULL, 0, "roof", NUL, 0, NULL, 0, 9000, &alarms));
    OK(tl_alarms_count(alarms, &count));
    CHECK(count == 0);
    OK(tl_alarms_close(alarms));
    EXPECT(TL_ERROR_ARGUMENT, tl_alarms(client, NULL, 0, NULL, 0, 0, "loud", NUL, 9000, &alarms));
    SAYS("acknowledged");

    /* Each alarm has its own result. */
    EXPECT(TL_FAULT_UNKNOWN_FIELD,
           tl_act_on_alarms(client, "rig/level#hi\nrig/level#lo", NUL, TL_ALARM_ACKNOWLEDGE, 0, "seen", NUL,
                            9000, states, statuses, 2));
    CHECK(states[0] == TL_ALARM_ACKNOWLEDGED && statuses[0] == TL_OK);
    CHECK(states[1] == -1 && statuses[1] == TL_FAULT_UNKNOWN_FIELD);
    OK(tl_alarm_changes_next(changes, 9000, &alarm, &lost));
    CHECK(alarm.state == TL_ALARM_ACKNOWLEDGED && alarm.acknowledged_ns > 0);
    CHANGE_TEXT(changes, TL_ALARM_TEXT_COMMENT, "seen");
    OK(tl_act_on_alarms(client, "rig/level#hi", NUL, TL_ALARM_SHELVE, 60000, NULL, 0, 9000, states, NULL, 1));
    CHECK(states[0] == TL_ALARM_SHELVED);
    OK(tl_act_on_alarms(client, "rig/level#hi", NUL, TL_ALARM_UNSHELVE, 0, NULL, 0, 9000, NULL, NULL, 0));
    EXPECT(TL_ERROR_ARGUMENT,
           tl_act_on_alarms(client, "rig/level#hi", NUL, TL_ALARM_SHELVE, 0, NULL, 0, 9000, NULL, NULL, 0));
    EXPECT(TL_ERROR_ARGUMENT,
           tl_act_on_alarms(client, "rig/level", NUL, TL_ALARM_RESET, 0, NULL, 0, 9000, NULL, NULL, 0));
    EXPECT(TL_ERROR_SHORT_BUFFER,
           tl_act_on_alarms(client, "a#hi\nb#hi", NUL, TL_ALARM_RESET, 0, NULL, 0, 9000, states, NULL, 1));
    write_level(10.0);

    /* The recorded changes, from the first one on. */
    OK(tl_follow_alarms(client, "rig/*", NUL, NULL, 0, 0, TL_TIME_OPEN, 9000, &recorded));
    for (count = 0; count < 5; count++) {
        OK(tl_alarm_changes_next(recorded, 9000, &alarm, NULL));
    }
    CHECK(alarm.state == TL_ALARM_RETURNED_UNACKNOWLEDGED && alarm.is_active == 0 && alarm.cleared_ns > 0);
    CHANGE_TEXT(recorded, TL_ALARM_TEXT_EVENT, "clear");
    EXPECT(TL_ERROR_TIMEOUT, tl_alarm_changes_next(recorded, 60, &alarm, NULL));
    OK(tl_alarm_changes_close(recorded));
    OK(tl_alarm_changes_close(changes));
}

static void *wait_for_a_change(void *changes) {
    tl_alarm alarm;
    tl_status status = tl_alarm_changes_next(*(tl_alarm_changes *)changes, TL_FOREVER, &alarm, NULL);
    CHECK(status == TL_ERROR_CLOSED || status == TL_ERROR_HANDLE);
    return NULL;
}

static void closing_ends_the_wait_for_an_alarm(void) {
    tl_alarm_changes changes;
    pthread_t thread;
    OK(tl_follow_alarms(client, NULL, 0, NULL, 0, 0, TL_SINCE_NOW, 9000, &changes));
    CHECK(pthread_create(&thread, NULL, wait_for_a_change, &changes) == 0);
    OK(tl_alarm_changes_close(changes));
    CHECK(pthread_join(thread, NULL) == 0);
}

static void writes_and_orders_are_in_the_audit_trail(void) {
    tl_audit_query audit;
    tl_audit_entry entry;
    int32_t has = 0, written = 0, refused = 0;
    double too_high = 101.0;
    char text[200];
    size_t length;
    EXPECT(TL_FAULT_OUT_OF_RANGE, tl_write_f64(client, &level, &too_high, 1, 9000, NULL));
    OK(tl_audit(client, "rig/level", NUL, NULL, 0, TL_TIME_OPEN, 0, &audit));
    EXPECT(TL_ERROR_ARGUMENT, tl_audit_text(audit, TL_AUDIT_TEXT_WHO, text, sizeof text, NULL));
    for (;;) {
        OK(tl_audit_next(audit, 9000, &entry, &has));
        if (!has) {
            break;
        }
        CHECK(entry.number > 0 && entry.time_ns > 0);
        OK(tl_audit_text(audit, TL_AUDIT_TEXT_ACTION, text, sizeof text, NULL));
        if (strcmp(text, "put") != 0) {
            continue;
        }
        OK(tl_audit_text(audit, TL_AUDIT_TEXT_NAME, text, sizeof text, NULL));
        CHECK(strcmp(text, "rig/level") == 0);
        OK(tl_audit_text(audit, TL_AUDIT_TEXT_REASON, text, sizeof text, &length));
        if (entry.outcome == TL_AUDIT_REFUSED) {
            CHECK(length > 0);
            refused++;
        } else {
            CHECK(entry.outcome == TL_AUDIT_DONE && length == 0);
            OK(tl_audit_text(audit, TL_AUDIT_TEXT_NEW, text, sizeof text, NULL));
            written += strcmp(text, "90.0") == 0;
        }
    }
    CHECK(written == 1 && refused == 1);
    OK(tl_audit_close(audit));
    OK(tl_audit(client, NULL, 0, "nobody", NUL, TL_TIME_OPEN, 1, &audit));
    OK(tl_audit_next(audit, 9000, &entry, &has));
    CHECK(has == 0);
    OK(tl_audit_close(audit));
}

static void control_of_a_folder_is_handed_over(void) {
    tl_control control;
    tl_control_list controls;
    tl_variable theirs;
    uint64_t revision = 0, known, request;
    size_t count;
    double value = 5.0;
    char text[200];
    OK(tl_open(other, "rig/level", NUL, 9000, &theirs, NULL, 1, NULL));
    OK(tl_take_control(client, "rig", NUL, TL_CONTROL_OPERATOR, TL_CONTROL_SESSION, 0, 9000, &control));
    CHECK(control.is_own == 1 && control.is_waiting == 0 && control.left_ms == TL_CONTROL_WITH_SESSION);
    EXPECT(TL_FAULT_CONTROLLED, tl_write_f64(other, &theirs, &value, 1, 9000, NULL));
    EXPECT(TL_FAULT_CONTROLLED,
           tl_take_control(other, "rig", NUL, TL_CONTROL_OPERATOR, TL_CONTROL_SESSION, 0, 9000, NULL));
    EXPECT(TL_ERROR_ARGUMENT, tl_take_control(other, "rig", NUL, 7, TL_CONTROL_SESSION, 0, 9000, NULL));
    OK(tl_controls(client, NULL, 0, 1, 9000, &known, &controls));
    OK(tl_controls_count(controls, &count));
    CHECK(count == 1);
    OK(tl_controls_folder(controls, 0, text, sizeof text, NULL));
    CHECK(strncmp(text, "rig", 3) == 0);
    OK(tl_controls_by(controls, 0, text, sizeof text, NULL));
    CHECK(text[0] != 0);
    OK(tl_controls_close(controls));

    OK(tl_request_control(other, "rig", NUL, TL_CONTROL_OPERATOR, TL_CONTROL_SESSION, 0, 9000, &control));
    CHECK(control.is_waiting == 1);
    request = control.number;
    OK(tl_follow_control(client, known, 9000, &revision));
    CHECK(revision != known);
    OK(tl_give_control(client, "rig", NUL, request, 9000, &control));
    CHECK(control.is_own == 0);
    OK(tl_write_f64(other, &theirs, &value, 1, 9000, NULL));
    OK(tl_release_control(other, "rig", NUL, 9000));
    EXPECT(TL_FAULT_NOT_CONTROLLED, tl_release_control(other, "rig", NUL, 9000));
}

/* Waits for an event of this kind, and counts the readings before it. */
static size_t wait_for(tl_subscription subscription, int32_t kind, tl_event *event, char *text, size_t size) {
    size_t count = 0, all = 0;
    do {
        OK(tl_subscription_next(subscription, readings, 8, 9000, &count));
        OK(tl_readings_event(readings, event, text, size, NULL));
        all += count;
    } while (event->kind != kind);
    return all;
}

static void patterns_report_what_comes_and_goes(void) {
    tl_subscription subscription;
    tl_event event;
    tl_reading reading;
    char text[300];
    size_t count = 0;
    int32_t has;
    EXPECT(TL_FAULT_BAD_PATTERN,
           tl_subscribe_patterns(client, "rig//*", NUL, NULL, 0, "all", NUL, 0, &subscription));
    OK(tl_subscribe_patterns(client, "rig/**\nprogram/**", NUL, "rig/pump/*", NUL, "all", NUL, 0, &subscription));
    wait_for(subscription, TL_EVENT_APPEARED, &event, text, sizeof text);
    CHECK(strncmp(text, "rig/", 4) == 0);
    wait_for(subscription, TL_EVENT_APPEARED, &event, text, sizeof text);
    CHECK(strncmp(text, "rig/", 4) == 0 && !strstr(text, "pump"));
    OK(tl_subscription_item_name(subscription, event.item, text, sizeof text, NULL));
    CHECK(strncmp(text, "rig/", 4) == 0);

    /* A variable that is created later. */
    OK(tl_engine_deploy(engine, "[[variable]]\nname = \"x\"\ntype = \"enum(LOW, HIGH)\"\ninitial = \"HIGH\"\n",
                        NUL));
    do {
        wait_for(subscription, TL_EVENT_APPEARED, &event, text, sizeof text);
    } while (strcmp(text, "program/x") != 0);
    for (;;) {
        OK(tl_subscription_next(subscription, readings, 1, 9000, &count));
        if (count == 1) {
            OK(tl_readings_get(readings, 0, &reading));
            if (reading.item == event.item) {
                break;
            }
        }
    }
    OK(tl_readings_text(readings, 0, text, sizeof text, NULL));
    CHECK(strcmp(text, "HIGH") == 0);
    OK(tl_subscription_value(subscription, event.item, &reading, &has));
    CHECK(has == 1 && reading.value == 1.0);
    OK(tl_engine_deploy(engine, "[[variable]]\nname = \"y\"\ntype = \"f64\"\n", NUL));
    wait_for(subscription, TL_EVENT_GONE, &event, text, sizeof text);
    CHECK(strcmp(text, "program/x") == 0);
    EXPECT(TL_ERROR_ARGUMENT, tl_subscription_item_name(subscription, 99, text, sizeof text, NULL));
    OK(tl_subscription_close(subscription));
}

int main(void) {
    char url[64];
    (void)configuration;
    start(plant, &engine, &client);
    OK(tl_engine_url(engine, url, sizeof url, NULL));
    OK(tl_connect(url, NUL, 20000, &other));
    OK(tl_readings_create(&readings));
    OK(tl_open(client, "rig/level", NUL, 9000, &level, NULL, 1, NULL));
    alarms_are_listed_acted_on_and_followed();
    closing_ends_the_wait_for_an_alarm();
    writes_and_orders_are_in_the_audit_trail();
    control_of_a_folder_is_handed_over();
    patterns_report_what_comes_and_goes();
    OK(tl_readings_close(readings));
    OK(tl_client_close(other));
    OK(tl_client_close(client));
    OK(tl_engine_close(engine, 1000));
    return 0;
}
