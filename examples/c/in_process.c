/* Hosts variables in this program, in a control loop, and lets other programs read them.
 *
 *     in_process [STEPS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <trunkline.h>

static const char configuration[] =
    "[engine]\n"
    "listen = [\"127.0.0.1:0\"]\n"
    "\n"
    "[library]\n"
    "name = \"loop\"\n"
    "\n"
    "[[variable]]\n"
    "name = \"level\"\n"
    "type = \"f64\"\n"
    "units = \"%\"\n"
    "\n"
    "[[variable]]\n"
    "name = \"setpoint\"\n"
    "type = \"f64\"\n"
    "range = [0, 100]\n"
    "initial = 50\n";

static int check(tl_status status, const char *what) {
    char message[512];
    if (status != TL_OK) {
        tl_last_error_message(message, sizeof message, NULL);
        fprintf(stderr, "%s: %s\n", what, message);
    }
    return status == TL_OK;
}

int main(int argc, char **argv) {
    long steps = argc > 1 ? atol(argv[1]) : 1000;
    tl_engine engine = 0;
    tl_host_variable level = 0, setpoint = 0;
    double value = 0.0, wanted = 0.0;
    char url[64];
    long i;

    int ok = check(tl_engine_start(configuration, TL_NUL_TERMINATED, &engine), "configuration") &&
             check(tl_engine_url(engine, url, sizeof url, NULL), "url") &&
             check(tl_engine_variable(engine, "loop/level", TL_NUL_TERMINATED, &level), "level") &&
             check(tl_engine_variable(engine, "loop/setpoint", TL_NUL_TERMINATED, &setpoint),
                   "setpoint");
    if (ok) {
        printf("other programs reach the variables at %s\n", url);
    }
    for (i = 0; ok && i < steps; i++) {
        ok = check(tl_host_read_f64(setpoint, &wanted, NULL, NULL, NULL), "setpoint");
        value += (wanted - value) / 10.0;
        ok = ok && check(tl_host_write_f64(level, value, NULL), "level");
    }
    if (ok) {
        printf("level %.1f after %ld steps\n", value, steps);
    }
    if (level) {
        tl_host_close(level);
    }
    if (setpoint) {
        tl_host_close(setpoint);
    }
    if (engine) {
        tl_engine_close(engine, 1000);
    }
    return ok ? 0 : 1;
}
