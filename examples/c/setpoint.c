/* Writes a setpoint, and waits until its owner has accepted it.
 *
 *     setpoint [URL [NAME [VALUE]]]
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
    const char *name = argc > 2 ? argv[2] : "boiler/setpoint";
    double value = argc > 3 ? atof(argv[3]) : 75.0;
    double now = 0.0;
    tl_client client = 0;
    tl_variable setpoint = 0;

    int ok = check(tl_connect(url, TL_NUL_TERMINATED, 5000, &client), url) &&
             check(tl_open(client, name, TL_NUL_TERMINATED, 2000, &setpoint, NULL, 1, NULL), name) &&
             /* TL_OK means that the write was carried out. A refusal says which rule. */
             check(tl_write_f64(client, &setpoint, &value, 1, 2000, NULL), name) &&
             check(tl_read_f64(client, &setpoint, 1, 2000, &now, NULL), name);
    if (ok) {
        printf("%s = %g, confirmed\n", name, now);
    }
    if (client) {
        tl_client_close(client);
    }
    return ok ? 0 : 1;
}
