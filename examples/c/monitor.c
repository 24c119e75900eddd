/* Follows a variable, and says how many updates were lost.
 *
 *     monitor [URL [NAME [CONTRACT [COUNT]]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <trunkline.h>

static int check(tl_status status, const char *what) {
    char message[512];
    if (status != TL_OK) {
        tl_last_error_message(message, sizeof message, NULL);
        fprintf(stderr, "%s: %s\n", what, message);
    }
    return status == TL_OK;
}

int main(int argc, char **argv) {
    const char *url = argc > 1 ? argv[1] : "tl:///";
    const char *name = argc > 2 ? argv[2] : "boiler/level";
    const char *contract = argc > 3 ? argv[3] : "last:1000";
    long wanted = argc > 4 ? atol(argv[4]) : 10;
    tl_client client = 0;
    tl_subscription subscription = 0;
    tl_readings readings = 0;

    int ok = check(tl_connect(url, TL_NUL_TERMINATED, 5000, &client), url) &&
             check(tl_readings_create(&readings), "readings") &&
             check(tl_subscribe(client, name, TL_NUL_TERMINATED, contract, TL_NUL_TERMINATED, 0,
                                &subscription), name);
    while (ok && wanted > 0) {
        double values[100];
        int64_t lost[100];
        uint64_t sequences[100];
        size_t count = 0, i;
        tl_event event;
        char sentence[256];

        ok = check(tl_subscription_next(subscription, readings, 100, 10000, &count), name) &&
             check(tl_readings_columns(readings, NULL, values, NULL, NULL, sequences, lost, NULL,
                                       100, NULL), name) &&
             check(tl_readings_event(readings, &event, sentence, sizeof sentence, NULL), name);
        for (i = 0; ok && i < count && wanted > 0; i++, wanted--) {
            printf("%g, update %llu", values[i], (unsigned long long)sequences[i]);
            if (lost[i] == TL_LOST_UNKNOWN) {
                printf(", an unknown number lost before it");
            } else if (lost[i] > 0) {
                printf(", %lld lost before it", (long long)lost[i]);
            }
            printf("\n");
        }
        if (ok && event.kind != TL_EVENT_NONE) {
            printf("(%s)\n", sentence);
            ok = event.kind != TL_EVENT_ITEM_ERROR;
        }
    }
    if (subscription) {
        tl_subscription_close(subscription);
    }
    if (readings) {
        tl_readings_close(readings);
    }
    if (client) {
        tl_client_close(client);
    }
    return ok ? 0 : 1;
}
