/* An I/O server: this program is the source of the variables with `source = "tank:level"` and
 * `source = "tank:setpoint"`. The device is a tank whose level follows a setpoint.
 *
 *     io_server [URL [ORDERS]]
 *
 * With ORDERS, the program ends after this number of orders.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunkline.h>

enum { LEVEL = 0, SETPOINT = 1 };

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
    long orders_left = argc > 2 ? atol(argv[2]) : -1;
    const uint32_t items[2] = {LEVEL, SETPOINT};
    double values[2] = {20.0, 50.0};
    tl_provider provider = 0;
    int ok = check(tl_provider_start(url, TL_NUL_TERMINATED, "tank", TL_NUL_TERMINATED,
                                     "level\nsetpoint", TL_NUL_TERMINATED, 2000, 0, &provider),
                   url);

    while (ok && orders_left != 0) {
        tl_order order;
        tl_status status;

        values[LEVEL] += (values[SETPOINT] - values[LEVEL]) / 10.0;
        ok = check(tl_provider_publish_f64(provider, items, values, 2, TL_TIME_NOW), "publish");
        /* Waits 100 ms for an order, which is also the time between two measurements. */
        status = tl_provider_next(provider, 100, &order, NULL, 0, NULL);
        if (status == TL_ERROR_TIMEOUT) {
            continue;
        }
        if (!(ok = check(status, "order"))) {
            break;
        }
        if (order.item == SETPOINT && order.value >= 0.0 && order.value <= 100.0) {
            /* The device stores whole numbers; the client sees what the device has now. */
            values[SETPOINT] = (double)(long)(order.value + 0.5);
            status = tl_provider_accept(provider, order.number, order.data_type, values[SETPOINT]);
        } else {
            const char *reason = order.item == SETPOINT ? "the setpoint must be from 0 to 100"
                                                        : "the level is an input";
            status = tl_provider_refuse(provider, order.number, reason, strlen(reason));
        }
        check(status, "answer");
        if (orders_left > 0) {
            orders_left--;
        }
    }
    if (provider) {
        tl_provider_close(provider);
    }
    return ok ? 0 : 1;
}
