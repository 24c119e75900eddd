/* Reads 50 recorded updates of each of two variables, ten at a time, and as buckets: history URL */
#include "expect.h"

int main(int argc, char **argv) {
    tl_client client;
    tl_history history;
    tl_readings readings;
    size_t count = 1, i;
    int rows[2] = {0, 0};
    double next[2] = {0.0, 0.0};
    char name[64];
    tl_bucket buckets[3];
    uint64_t all;
    (void)configuration;
    (void)start;
    CHECK(argc == 2);
    OK(tl_connect(argv[1], NUL, 20000, &client));
    OK(tl_readings_create(&readings));
    OK(tl_history_open(client, "rig/a\nrig/b", NUL, TL_TIME_OPEN, TL_TIME_OPEN, TL_HISTORY_ROWS, 0, &history));
    while (count > 0) {
        OK(tl_history_next(history, readings, 10, 20000, &count));
        CHECK(count <= 10);
        for (i = 0; i < count; i++) {
            tl_reading reading;
            OK(tl_readings_get(readings, i, &reading));
            CHECK(reading.item < 2 && reading.status == TL_OK && reading.lost == 0);
            CHECK(reading.value == next[reading.item] && reading.source_timestamp_ns > 0);
            next[reading.item] += 1.0;
            rows[reading.item]++;
        }
    }
    CHECK(rows[0] == 50 && rows[1] == 50);
    OK(tl_history_item_name(history, 0, name, sizeof name, NULL));
    CHECK(strcmp(name, "rig/a") == 0);
    EXPECT(TL_ERROR_ARGUMENT, tl_history_item_name(history, 2, name, sizeof name, NULL));
    /* The end stays the end. */
    OK(tl_history_next(history, readings, 10, 20000, &count));
    CHECK(count == 0);
    OK(tl_history_close(history));

    OK(tl_history_open(client, "rig/a", NUL, TL_TIME_OPEN, TL_TIME_OPEN, TL_HISTORY_LAST, 0, &history));
    OK(tl_history_next(history, readings, 0, 20000, &count));
    CHECK(count == 1);
    OK(tl_history_close(history));

    /* One bucket for each variable, and then several, three at a time. */
    EXPECT(TL_ERROR_ARGUMENT,
           tl_history_open(client, "rig/*", NUL, TL_TIME_OPEN, TL_TIME_OPEN, TL_HISTORY_BUCKETS, 0, &history));
    OK(tl_history_open(client, "rig/a\nrig/b", NUL, TL_TIME_OPEN, TL_TIME_OPEN, TL_HISTORY_TOTAL, 0, &history));
    EXPECT(TL_ERROR_ARGUMENT, tl_history_next(history, readings, 0, 20000, &count));
    SAYS("tl_history_next_buckets");
    OK(tl_history_next_buckets(history, buckets, 3, 20000, &count));
    CHECK(count == 2 && buckets[0].item == 0 && buckets[1].item == 1);
    CHECK(buckets[0].count == 50 && buckets[0].bad == 0 && buckets[0].lost == 0);
    CHECK(buckets[0].min == 0.0 && buckets[0].max == 49.0 && buckets[0].mean == 24.5);
    CHECK(buckets[0].first == 0.0 && buckets[0].last == 49.0);
    OK(tl_history_item_name(history, 1, name, sizeof name, NULL));
    CHECK(strcmp(name, "rig/b") == 0);
    OK(tl_history_next_buckets(history, buckets, 3, 20000, &count));
    CHECK(count == 0);
    OK(tl_history_close(history));
    OK(tl_history_open(client, "rig/a", NUL, TL_TIME_OPEN, TL_TIME_OPEN, TL_HISTORY_POINTS, 20, &history));
    for (all = 0;; all += buckets[0].count) {
        OK(tl_history_next_buckets(history, buckets, 1, 20000, &count));
        if (count == 0) {
            break;
        }
        CHECK(count == 1 && buckets[0].width_ns > 0 && buckets[0].start_ns > 0);
    }
    CHECK(all == 50);
    OK(tl_history_close(history));
    OK(tl_readings_close(readings));
    OK(tl_client_close(client));
    return 0;
}
