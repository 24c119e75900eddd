/* Reads a variable by name: its value, quality and time.
 *
 *     live_reading [URL [NAME]]
 */
#include <stdio.h>
#include <trunkline.h>

/* Ends the program with the library's message if a call has failed. */
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
    tl_client client = 0;
    tl_variable level = 0;
    tl_readings readings = 0;
    tl_reading reading;
    char text[64];

    int ok = check(tl_connect(url, TL_NUL_TERMINATED, 5000, &client), url) &&
             check(tl_open(client, name, TL_NUL_TERMINATED, 2000, &level, NULL, 1, NULL), name) &&
             check(tl_readings_create(&readings), "readings") &&
             check(tl_read(client, &level, 1, 2000, readings), name) &&
             check(tl_readings_get(readings, 0, &reading), name) &&
             check(tl_readings_text(readings, 0, text, sizeof text, NULL), name);
    if (ok) {
        printf("%s = %s, quality 0x%x, at %.3f s, update %llu\n", name, text,
               (unsigned)reading.quality, (double)reading.source_timestamp_ns / 1e9,
               (unsigned long long)reading.sequence);
    }
    if (readings) {
        tl_readings_close(readings);
    }
    if (client) {
        tl_client_close(client);
    }
    return ok ? 0 : 1;
}
