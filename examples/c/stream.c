/* Moves samples from one program to another without loss. Start the reader and the writer, in any order;
 * an engine runs on this machine.
 *
 *     stream read [ENGINE-PORT]
 *     stream write [ENGINE-PORT]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunkline.h>

#define SAMPLES 100000
#define BLOCK 1000

static int check(tl_status status, const char *what) {
    char message[512];
    if (status != TL_OK) {
        tl_last_error_message(message, sizeof message, NULL);
        fprintf(stderr, "%s: %s\n", what, message);
    }
    return status == TL_OK;
}

static int write_samples(uint16_t port) {
    double block[BLOCK];
    tl_stream_writer writer = 0;
    uint64_t undelivered = 0;
    int i, j;
    int ok = check(tl_stream_writer_create("daq/out", TL_NUL_TERMINATED, "f64", TL_NUL_TERMINATED,
                                           "daq/raw", TL_NUL_TERMINATED, 2 * BLOCK, port, 20000,
                                           &writer), "daq/out");
    for (i = 0; ok && i < SAMPLES; i += BLOCK) {
        for (j = 0; j < BLOCK; j++) {
            block[j] = i + j;
        }
        /* All of the block or none of it. Waits while the reader's buffer is full. */
        ok = check(tl_stream_write(writer, block, sizeof block[0], BLOCK, 10000), "write");
    }
    ok = ok && check(tl_stream_flush(writer, TL_UNTIL_READ, 10000), "flush");
    if (writer) {
        ok = check(tl_stream_writer_close(writer, 10000, &undelivered), "close") && ok;
        printf("%llu samples not delivered\n", (unsigned long long)undelivered);
    }
    return ok;
}

static int read_samples(uint16_t port) {
    static double block[BLOCK];
    tl_stream_reader reader = 0;
    tl_status status = TL_OK;
    double sum = 0.0;
    unsigned long total = 0;
    int ok = check(tl_stream_reader_create("daq/raw", TL_NUL_TERMINATED, "f64", TL_NUL_TERMINATED,
                                           NULL, 0, 2 * BLOCK, port, 20000, &reader), "daq/raw");
    while (ok && status == TL_OK) {
        size_t count = 0, i;
        /* At least one sample, and as many more as there are. */
        status = tl_stream_read(reader, block, sizeof block[0], 1, BLOCK, 10000, &count);
        for (i = 0; i < count; i++) {
            sum += block[i];
        }
        total += (unsigned long)count;
    }
    if (ok) {
        ok = status == TL_ERROR_STREAM_ENDED || check(status, "read");
        printf("%lu samples, sum %.0f\n", total, sum);
        tl_stream_reader_close(reader);
    }
    return ok;
}

int main(int argc, char **argv) {
    uint16_t port = (uint16_t)(argc > 2 ? atoi(argv[2]) : 0);
    if (argc > 1 && strcmp(argv[1], "write") == 0) {
        return write_samples(port) ? 0 : 1;
    }
    return read_samples(port) ? 0 : 1;
}
