/* Reads and writes many variables in one round trip each, and writes two together or not at all.
 *
 *     batch [URL]
 */
#include <stdio.h>
#include <trunkline.h>

#define COUNT 3

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
    const char *names = "boiler/setpoint\nboiler/mode\nboiler/level";
    tl_client client = 0;
    tl_variable variables[COUNT];
    double values[COUNT];
    tl_status statuses[COUNT];
    tl_writes writes = 0;
    uint64_t commit = 0;
    int i;

    int ok = check(tl_connect(url, TL_NUL_TERMINATED, 5000, &client), url) &&
             check(tl_open(client, names, TL_NUL_TERMINATED, 2000, variables, NULL, COUNT, NULL), "open");
    if (ok) {
        /* Each variable has a status; the call returns the first failure. */
        tl_read_f64(client, variables, COUNT, 2000, values, statuses);
        for (i = 0; i < COUNT; i++) {
            printf("variable %d: status %d, value %g\n", i, (int)statuses[i], values[i]);
        }
        /* An atomic group: both values or neither, with one timestamp. */
        ok = check(tl_writes_create(client, &writes), "writes") &&
             check(tl_writes_add_f64(writes, variables[0], 68.0), "setpoint") &&
             check(tl_writes_add_text(writes, variables[1], "AUTO", TL_NUL_TERMINATED), "mode") &&
             check(tl_write_group(writes, 2000, &commit), "group");
    }
    if (ok) {
        printf("written together, commit %llu\n", (unsigned long long)commit);
    }
    if (writes) {
        tl_writes_close(writes);
    }
    if (client) {
        tl_client_close(client);
    }
    return ok ? 0 : 1;
}
