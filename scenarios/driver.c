/* Carries out the steps of table.txt with the C library, and prints them with their results.
 *
 *     driver URL ENGINE-PORT TABLE
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunkline.h>

#define LIMIT_MS 20000
#define ITEMS_MAX 16
#define NUL TL_NUL_TERMINATED

/* A monitor or a stream, by its letter. */
typedef struct {
    tl_subscription subscription;
    tl_stream_writer writer;
    tl_stream_reader reader;
    char type[16];
} place;

static tl_client clients[2];
static tl_readings readings;
static uint16_t port;
static place places[256];
static char result[4096];

static void say(const char *format, ...) {
    size_t length = strlen(result);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result + length, sizeof result - length, format, arguments);
    va_end(arguments);
}

static void say_status(tl_status status) {
    char name[64];
    tl_status_name(status, name, sizeof name, NULL);
    say("%s", status == TL_OK ? "ok" : name);
}

/* Says what failed, if it failed. */
static int is_ok(tl_status status) {
    if (status != TL_OK) {
        say_status(status);
    }
    return status == TL_OK;
}

/* Splits a text at a separator in place; returns what follows, or the empty text. */
static char *split(char *text, const char *separator) {
    char *end = strstr(text, separator);
    if (!end) {
        return text + strlen(text);
    }
    *end = '\0';
    return end + strlen(separator);
}

static tl_status open_one(tl_client client, const char *name, tl_variable *variable) {
    return tl_open(client, name, NUL, LIMIT_MS, variable, NULL, 1, NULL);
}

static void get(tl_client client, const char *name) {
    tl_variable variable;
    char value[256];
    if (is_ok(open_one(client, name, &variable))
        && is_ok(tl_read_text(client, variable, LIMIT_MS, value, sizeof value, NULL))) {
        say("%s", value);
    }
}

static void say_reading(size_t index) {
    char value[256];
    tl_status status = tl_readings_text(readings, index, value, sizeof value, NULL);
    if (status == TL_FAULT_NO_VALUE) {
        say("-");
    } else if (is_ok(status)) {
        say("%s", value);
    }
}

static void read_one(tl_client client, const char *name) {
    static const char *const levels[] = {"good", "uncertain", "bad", "bad"};
    tl_variable variable;
    tl_reading reading;
    if (!is_ok(open_one(client, name, &variable))
        || !is_ok(tl_read(client, &variable, 1, LIMIT_MS, readings))
        || !is_ok(tl_readings_get(readings, 0, &reading))) {
        return;
    }
    say_reading(0);
    say(" %s", levels[reading.quality & 3]);
    if (reading.quality >> 2 & 0x3fff) {
        say(":%u", (unsigned)(reading.quality >> 2 & 0x3fff));
    }
    say("%s %llu", reading.quality >> 20 & 1 ? " forced" : "", (unsigned long long)reading.sequence);
}

/* Appends a write, with the function for the kind of value that the step gives. */
static tl_status add(tl_writes writes, tl_variable variable, const char *value) {
    int is_number = value[0] == '-' || (value[0] >= '0' && value[0] <= '9');
    if (value[0] == '[') {
        double numbers[ITEMS_MAX];
        size_t count = 0;
        char *rest = (char *)(size_t)(value + 1);
        while (*rest != ']') {
            numbers[count++] = strtod(rest, &rest);
            rest += strspn(rest, ", ");
        }
        return tl_writes_add_array_f64(writes, variable, numbers, count);
    }
    if (is_number && strchr(value, '.')) {
        return tl_writes_add_f64(writes, variable, strtod(value, NULL));
    }
    if (is_number) {
        return tl_writes_add_i64(writes, variable, strtoll(value, NULL, 10));
    }
    return tl_writes_add_text(writes, variable, value, NUL);
}

static void say_outcome(tl_writes writes, size_t index) {
    tl_outcome outcome;
    if (!is_ok(tl_writes_outcome(writes, index, &outcome, NULL, 0, NULL)) || !is_ok(outcome.status)) {
        return;
    }
    say("%s %llu", outcome.outcome == TL_OUTCOME_UNCHANGED ? "unchanged" : "applied",
        (unsigned long long)outcome.sequence);
}

enum { PUT, FORCE, UNFORCE, BATCH, GROUP };

/* Writes "NAME VALUE; NAME VALUE". */
static void write_all(tl_client client, char *list, int how) {
    tl_status failed[ITEMS_MAX] = {TL_OK};
    size_t count = 0, sent = 0, index;
    tl_writes writes = 0;
    is_ok(tl_writes_create(client, &writes));
    while (*list) {
        char *next = split(list, "; "), *value = split(list, " ");
        tl_variable variable;
        tl_status status = open_one(client, list, &variable);
        if (status == TL_OK && how == UNFORCE) {
            status = tl_writes_add_order(writes, variable, TL_VERB_UNFORCE);
        } else if (status == TL_OK) {
            status = add(writes, variable, value);
        }
        if (status == TL_OK && how == FORCE) {
            status = tl_writes_set_verb(writes, TL_VERB_FORCE);
        }
        failed[count++] = status;
        list = next;
    }
    if (how == GROUP) {
        tl_write_group(writes, LIMIT_MS, NULL);
    } else {
        tl_write_batch(writes, LIMIT_MS, NULL, 0);
    }
    for (index = 0; index < count; index++) {
        say("%s", index ? "; " : "");
        if (is_ok(failed[index])) {
            say_outcome(writes, sent++);
        }
    }
    tl_writes_close(writes);
}

/* Puts one name on each line. */
static char *lines(char *names) {
    char *space;
    while ((space = strchr(names, ' ')) != NULL) {
        *space = '\n';
    }
    return names;
}

static void snapshot(tl_client client, char *names) {
    tl_variable variables[ITEMS_MAX];
    size_t count = 0, index;
    if (is_ok(tl_open(client, lines(names), NUL, LIMIT_MS, variables, NULL, ITEMS_MAX, &count))
        && is_ok(tl_snapshot(client, variables, count, LIMIT_MS, readings, NULL, NULL))) {
        for (index = 0; index < count; index++) {
            say("%s", index ? "; " : "");
            say_reading(index);
        }
    }
}

static void find(tl_client client, const char *pattern) {
    char names[1024], *name;
    if (!is_ok(tl_find(client, pattern, NUL, 0, LIMIT_MS, names, sizeof names, NULL))) {
        return;
    }
    for (name = names; *name;) {
        char *next = split(name, "\n");
        say("%s%s", name, *next ? "; " : "");
        name = next;
    }
}

static void lease(tl_client client, const char *name, uint32_t duration_ms) {
    tl_variable variable;
    if (is_ok(open_one(client, name, &variable))) {
        say_status(tl_lease(client, &variable, 1, duration_ms, LIMIT_MS, NULL));
    }
}

static void next_readings(tl_subscription subscription, size_t wanted, int timeout_ms) {
    size_t taken = 0;
    while (taken < wanted) {
        size_t count, index;
        tl_event event;
        if (!is_ok(tl_subscription_next(subscription, readings, wanted - taken, timeout_ms, &count))) {
            return;
        }
        for (index = 0; index < count; index++) {
            tl_reading reading;
            char name[128];
            tl_readings_get(readings, index, &reading);
            tl_subscription_item_name(subscription, reading.item, name, sizeof name, NULL);
            say("%s%s ", taken++ ? "; " : "", name);
            say_reading(index);
            if (reading.lost == TL_LOST_UNKNOWN) {
                say(" lost unknown");
            } else if (reading.lost) {
                say(" lost %lld", (long long)reading.lost);
            }
        }
        tl_readings_event(readings, &event, NULL, 0, NULL);
        if (event.kind == TL_EVENT_ITEM_ERROR) {
            say_status(event.status);
            return;
        }
    }
}

typedef struct {
    char url[64];
    const char *type;
    size_t capacity;
    tl_stream_reader *reader;
    tl_status status;
} reader_request;

static void *create_reader(void *argument) {
    reader_request *request = (reader_request *)argument;
    request->status = tl_stream_reader_create(request->url, NUL, request->type, NUL, NULL, 0,
                                              request->capacity, port, LIMIT_MS, request->reader);
    return NULL;
}

static void open_stream(place *at, const char *name, char *type) {
    char *capacity = split(type, " "), writer[64];
    reader_request request;
    pthread_t thread;
    tl_status status;
    snprintf(at->type, sizeof at->type, "%s", type);
    snprintf(request.url, sizeof request.url, "%s/reader", name);
    snprintf(writer, sizeof writer, "%s/writer", name);
    request.type = at->type;
    request.capacity = (size_t)atoi(capacity);
    request.reader = &at->reader;
    pthread_create(&thread, NULL, create_reader, &request);
    status = tl_stream_writer_create(writer, NUL, at->type, NUL, request.url, NUL, request.capacity,
                                     port, LIMIT_MS, &at->writer);
    pthread_join(thread, NULL);
    if (is_ok(status)) {
        say_status(request.status);
    }
}

/* Writes the elements that the step gives; each type of the table has its case. */
static void write_stream(place *at, char *numbers, int timeout_ms) {
    union {
        double f64[ITEMS_MAX];
        int32_t i32[ITEMS_MAX];
        uint16_t u16[ITEMS_MAX];
    } elements;
    size_t count = 0, size = at->type[0] == 'f' ? 8 : at->type[0] == 'i' ? 4 : 2;
    while (*numbers) {
        char *next = split(numbers, " ");
        double number = strtod(numbers, NULL);
        switch (size) {
        case 8: elements.f64[count++] = number; break;
        case 4: elements.i32[count++] = (int32_t)number; break;
        default: elements.u16[count++] = (uint16_t)number; break;
        }
        numbers = next;
    }
    say_status(tl_stream_write(at->writer, &elements, size, count, timeout_ms));
}

static void read_stream(place *at, size_t minimum, size_t capacity, int timeout_ms) {
    union {
        double f64[ITEMS_MAX];
        int32_t i32[ITEMS_MAX];
        uint16_t u16[ITEMS_MAX];
    } elements;
    size_t count, index, size = at->type[0] == 'f' ? 8 : at->type[0] == 'i' ? 4 : 2;
    if (!is_ok(tl_stream_read(at->reader, &elements, size, minimum, capacity, timeout_ms, &count))) {
        return;
    }
    for (index = 0; index < count; index++) {
        say("%s", index ? " " : "");
        switch (size) {
        case 8: say(elements.f64[index] == (double)(int)elements.f64[index] ? "%.1f" : "%g",
                    elements.f64[index]); break;
        case 4: say("%d", (int)elements.i32[index]); break;
        default: say("%u", (unsigned)elements.u16[index]); break;
        }
    }
}

static void step(char *text) {
    tl_client client = clients[0];
    int timeout_ms = LIMIT_MS;
    char *verb = text, *rest, *more, *last = strrchr(text, ' ');
    place *at;
    if (strncmp(text, "other ", 6) == 0) {
        client = clients[1];
        verb = text + 6;
    }
    if (last && (strcmp(last, " now") == 0 || strcmp(last, " briefly") == 0)) {
        timeout_ms = last[1] == 'n' ? 0 : 20;
        *last = '\0';
    }
    rest = split(verb, " ");
    if (strcmp(verb, "batch") == 0) { write_all(client, rest, BATCH); return; }
    if (strcmp(verb, "group") == 0) { write_all(client, rest, GROUP); return; }
    if (strcmp(verb, "put") == 0) { write_all(client, rest, PUT); return; }
    if (strcmp(verb, "force") == 0) { write_all(client, rest, FORCE); return; }
    if (strcmp(verb, "unforce") == 0) { write_all(client, rest, UNFORCE); return; }
    if (strcmp(verb, "snapshot") == 0) { snapshot(client, rest); return; }
    if (strcmp(verb, "get") == 0) { get(client, rest); return; }
    if (strcmp(verb, "read") == 0) { read_one(client, rest); return; }
    if (strcmp(verb, "find") == 0) { find(client, rest); return; }
    if (strcmp(verb, "lease") == 0) { lease(client, rest, LIMIT_MS); return; }
    if (strcmp(verb, "release") == 0) { lease(client, rest, 0); return; }
    more = split(rest, " ");
    at = &places[(unsigned char)rest[0]];
    if (strcmp(verb, "monitor") == 0) {
        char *names = lines(split(more, " "));
        say_status(tl_subscribe(client, names, NUL, more, NUL, 0, &at->subscription));
    } else if (strcmp(verb, "next") == 0) {
        next_readings(at->subscription, (size_t)atoi(more), timeout_ms);
    } else if (strcmp(verb, "poll") == 0) {
        next_readings(at->subscription, 1, 0);
    } else if (strcmp(verb, "close") == 0) {
        say_status(tl_subscription_close(at->subscription));
    } else if (strcmp(verb, "open") == 0) {
        open_stream(at, rest, more);
    } else if (strcmp(verb, "write") == 0) {
        write_stream(at, more, timeout_ms);
    } else if (strcmp(verb, "flush") == 0) {
        int until = more[0] == 's' ? TL_UNTIL_SENT : more[2] == 'c' ? TL_UNTIL_AVAILABLE : TL_UNTIL_READ;
        say_status(tl_stream_flush(at->writer, until, timeout_ms));
    } else if (strcmp(verb, "read-stream") == 0) {
        read_stream(at, (size_t)atoi(more), (size_t)atoi(more), timeout_ms);
    } else if (strcmp(verb, "take") == 0) {
        read_stream(at, 0, ITEMS_MAX, 0);
    } else if (strcmp(verb, "end") == 0) {
        uint64_t left;
        if (is_ok(tl_stream_writer_close(at->writer, LIMIT_MS, &left))) {
            say("%llu", (unsigned long long)left);
        }
    } else if (strcmp(verb, "abort") == 0) {
        say_status(tl_stream_writer_abort(at->writer, more, NUL));
    } else if (strcmp(verb, "stop") == 0) {
        say_status(tl_stream_reader_close(at->reader));
    } else {
        say("there is no step %s", verb);
    }
}

int main(int argc, char **argv) {
    char line[1024], message[512];
    FILE *table = argc > 3 ? fopen(argv[3], "r") : NULL;
    if (!table || tl_connect(argv[1], NUL, LIMIT_MS, &clients[0]) != TL_OK
        || tl_connect(argv[1], NUL, LIMIT_MS, &clients[1]) != TL_OK
        || tl_readings_create(&readings) != TL_OK) {
        tl_last_error_message(message, sizeof message, NULL);
        fprintf(stderr, "driver URL ENGINE-PORT TABLE: %s\n", message);
        return 1;
    }
    port = (uint16_t)atoi(argv[2]);
    while (fgets(line, sizeof line, table)) {
        if (line[0] != '#' && line[0] != '\n') {
            split(line, " =>");
            printf("%s =>", line);
            result[0] = '\0';
            step(line);
            printf("%s%s\n", result[0] ? " " : "", result);
        }
    }
    fclose(table);
    tl_readings_close(readings);
    tl_client_close(clients[0]);
    tl_client_close(clients[1]);
    return 0;
}
