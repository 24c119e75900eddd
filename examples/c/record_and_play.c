/* Records variables into a TDMS file, and plays the file back into them.
 *
 *     record_and_play [URL [FILE]]
 */
#include <stdio.h>
#include <string.h>
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
    const char *path = argc > 2 ? argv[2] : "run1.tdms";
    tl_client client = 0;
    tl_variable setpoint = 0;
    tl_recorder recorder = 0;
    tl_recorder_status recorded;
    tl_played played;
    int i, ok;

    memset(&recorded, 0, sizeof recorded);
    memset(&played, 0, sizeof played);
    ok = check(tl_connect(url, TL_NUL_TERMINATED, 5000, &client), url) &&
         check(tl_open(client, "boiler/setpoint", TL_NUL_TERMINATED, 2000, &setpoint, NULL, 1, NULL),
               "open") &&
         /* From here on, no update is missed. */
         check(tl_recorder_start(client, "boiler/**", TL_NUL_TERMINATED, path, TL_NUL_TERMINATED,
                                 "all", TL_NUL_TERMINATED, 5000, &recorder), path);
    for (i = 0; ok && i < 100; i++) {
        double value = i / 2.0;
        ok = check(tl_write_f64(client, &setpoint, &value, 1, 2000, NULL), "write");
    }
    if (recorder) {
        ok = check(tl_recorder_stop(recorder, &recorded), path) && ok;
    }
    if (ok) {
        printf("recorded %llu updates of %llu variables, %llu lost\n",
               (unsigned long long)recorded.updates, (unsigned long long)recorded.variables,
               (unsigned long long)recorded.lost);
        ok = check(tl_play(client, path, TL_NUL_TERMINATED, 0.0, 0, &played), path);
    }
    if (ok) {
        printf("played %llu updates, %llu failed\n", (unsigned long long)played.updates,
               (unsigned long long)played.failed);
    }
    if (client) {
        tl_client_close(client);
    }
    return ok ? 0 : 1;
}
