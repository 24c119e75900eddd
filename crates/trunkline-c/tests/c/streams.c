/* Streams with one peer or several, memory of their ends, and journals; on an engine in this process. */
#include <pthread.h>

#include "expect.h"

static tl_engine engine;
static uint16_t port;

typedef struct {
    const char *url, *type, *peer;
    tl_stream_options options;
    uint64_t handle;
    tl_status status;
} end;

static void *create_reader(void *argument) {
    end *of = (end *)argument;
    of->status = tl_stream_reader_create_with(of->url, NUL, of->type, NUL, of->peer, NUL, of->options, 20000,
                                              &of->handle);
    return NULL;
}

static void *create_writer(void *argument) {
    end *of = (end *)argument;
    of->status = tl_stream_writer_create_with(of->url, NUL, of->type, NUL, of->peer, NUL, of->options, 20000,
                                              &of->handle);
    return NULL;
}

static end make(const char *url, const char *type, const char *peer, tl_stream_options options) {
    end made;
    made.url = url;
    made.type = type;
    made.peer = peer;
    made.options = options;
    made.handle = 0;
    made.status = TL_OK;
    return made;
}

static tl_stream_options options_with_port(void) {
    tl_stream_options options;
    OK(tl_stream_options_create(&options));
    OK(tl_stream_options_set_engine_port(options, port));
    OK(tl_stream_options_set_capacity(options, 100));
    return options;
}

/* Creates both ends of a stream with one reader. */
static void connect_ends(end *writer, end *reader) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, create_reader, reader) == 0);
    create_writer(writer);
    pthread_join(thread, NULL);
    OK(writer->status);
    OK(reader->status);
}

static void memory_is_lent_and_returned(tl_stream_options options) {
    end writer = make("lend/out", "f64", "lend/in", options), reader = make("lend/in", "f64", "", options);
    void *room = NULL;
    const void *elements = NULL;
    const double *numbers;
    double one = 1.0;
    size_t count = 0, i;
    connect_ends(&writer, &reader);
    EXPECT(TL_FAULT_WRONG_TYPE, tl_stream_reserve(writer.handle, 4, 10, 9000, &room));
    EXPECT(TL_ERROR_LIMIT, tl_stream_reserve(writer.handle, 8, 1000, 9000, &room));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_commit(writer.handle, 0, 0));
    OK(tl_stream_reserve(writer.handle, 8, 10, 9000, &room));
    CHECK(room != NULL);

    /* While the program has the memory, nothing else uses or closes the writer. */
    EXPECT(TL_ERROR_BUSY, tl_stream_write(writer.handle, &one, 8, 1, 0));
    EXPECT(TL_ERROR_BUSY, tl_stream_reserve(writer.handle, 8, 1, 0, &room));
    EXPECT(TL_ERROR_BUSY, tl_stream_writer_close(writer.handle, 0, NULL));
    SAYS("tl_stream_commit");
    EXPECT(TL_ERROR_LIMIT, tl_stream_commit(writer.handle, 11, 0));
    OK(tl_stream_commit(writer.handle, 0, 0));

    OK(tl_stream_reserve(writer.handle, 8, 10, 9000, &room));
    for (i = 0; i < 10; i++) {
        ((double *)room)[i] = (double)i;
    }
    OK(tl_stream_commit(writer.handle, 7, 0));

    EXPECT(TL_ERROR_ARGUMENT, tl_stream_release(reader.handle));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_acquire(reader.handle, 8, 8, 7, 9000, &elements, &count));
    OK(tl_stream_acquire(reader.handle, 8, 7, 50, 9000, &elements, &count));
    CHECK(count == 7);
    numbers = (const double *)elements;
    CHECK(numbers[0] == 0.0 && numbers[6] == 6.0);
    EXPECT(TL_ERROR_BUSY, tl_stream_read(reader.handle, &one, 8, 1, 1, 0, &count));
    EXPECT(TL_ERROR_BUSY, tl_stream_reader_close(reader.handle));
    EXPECT(TL_ERROR_TIMEOUT, tl_stream_flush(writer.handle, TL_UNTIL_READ, 20));
    OK(tl_stream_release(reader.handle));
    OK(tl_stream_flush(writer.handle, TL_UNTIL_READ, 9000));
    EXPECT(TL_ERROR_TIMEOUT, tl_stream_acquire(reader.handle, 8, 1, 50, 0, &elements, &count));
    CHECK(elements == NULL && count == 0);
    OK(tl_stream_writer_close(writer.handle, 9000, NULL));
    EXPECT(TL_ERROR_STREAM_ENDED, tl_stream_acquire(reader.handle, 8, 1, 50, 9000, &elements, &count));
    OK(tl_stream_reader_close(reader.handle));
    EXPECT(TL_ERROR_HANDLE, tl_stream_release(reader.handle));
}

static void one_writer_has_two_readers(tl_stream_options options) {
    end first = make("out/first", "i32", "out/all", options), second = make("out/second", "i32", "out/all", options);
    tl_stream_writer writer = 0;
    tl_stream_peer peers[3];
    tl_stream_departed departed;
    pthread_t threads[2];
    int32_t numbers[3] = {1, 2, 3}, back[3];
    size_t count = 0;
    int32_t has;
    uint64_t left = 9;
    char url[100];
    void *room;
    CHECK(pthread_create(&threads[0], NULL, create_reader, &first) == 0);
    CHECK(pthread_create(&threads[1], NULL, create_reader, &second) == 0);
    OK(tl_stream_fan_out_create("out/all", NUL, "i32", NUL, options, 2, 0, TL_NO_QUOTA, 20000, &writer));
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    OK(first.status);
    OK(second.status);
    OK(tl_stream_write(writer, numbers, 4, 3, 9000));
    OK(tl_stream_read(first.handle, back, 4, 3, 3, 9000, &count));
    CHECK(count == 3 && back[2] == 3);
    OK(tl_stream_writer_readers(writer, peers, 3, &count));
    CHECK(count == 2 && peers[0].is_connected == 1 && peers[0].number != peers[1].number);
    OK(tl_stream_writer_reader_url(writer, peers[0].number, url, sizeof url, NULL));
    CHECK(strstr(url, "out/") != NULL);
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_writer_reader_url(writer, 99, url, sizeof url, NULL));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_reserve(writer, 4, 1, 0, &room));
    SAYS("several readers");
    OK(tl_stream_writer_departed(writer, &departed, &has));
    CHECK(has == 0);
    /* The second reader leaves with three elements unread. */
    OK(tl_stream_reader_close(second.handle));
    do {
        OK(tl_stream_writer_departed(writer, &departed, &has));
    } while (!has);
    CHECK(departed.number > 0);
    OK(tl_stream_writer_close(writer, 9000, &left));
    CHECK(left == 0);
    EXPECT(TL_ERROR_STREAM_ENDED, tl_stream_read(first.handle, back, 4, 1, 3, 9000, &count));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_read_run(first.handle, back, 4, 3, 0, NULL));
    OK(tl_stream_reader_close(first.handle));
}

static void one_reader_has_two_writers(tl_stream_options options) {
    end first = make("in/first", "u16", "in/all", options), second = make("in/second", "u16", "in/all", options);
    tl_stream_reader reader = 0;
    tl_stream_run run;
    tl_stream_peer peers[3];
    pthread_t threads[2];
    uint16_t numbers[2] = {7, 8}, back[8];
    size_t count = 0, total = 0;
    int is_closed = 0, is_aborted = 0;
    char text[100];
    CHECK(pthread_create(&threads[0], NULL, create_writer, &first) == 0);
    CHECK(pthread_create(&threads[1], NULL, create_writer, &second) == 0);
    OK(tl_stream_fan_in_create("in/all", NUL, "u16", NUL, options, 2, 0, 20000, &reader));
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    OK(first.status);
    OK(second.status);
    OK(tl_stream_reader_writers(reader, peers, 3, &count));
    CHECK(count == 2);
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_read(reader, back, 2, 1, 8, 0, &count));
    SAYS("tl_stream_read_run");
    EXPECT(TL_ERROR_TIMEOUT, tl_stream_read_run(reader, back, 2, 8, 0, &run));
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_run_url(reader, text, sizeof text, NULL));
    OK(tl_stream_write(first.handle, numbers, 2, 2, 9000));
    OK(tl_stream_write(second.handle, numbers, 2, 1, 9000));
    OK(tl_stream_writer_close(first.handle, 9000, NULL));
    OK(tl_stream_flush(second.handle, TL_UNTIL_AVAILABLE, 9000));
    OK(tl_stream_writer_abort(second.handle, "no film", NUL));
    while (!is_closed || !is_aborted) {
        OK(tl_stream_read_run(reader, back, 2, 8, 9000, &run));
        CHECK(run.writer > 0);
        total += (size_t)run.count;
        OK(tl_stream_run_url(reader, text, sizeof text, NULL));
        if (run.kind == TL_RUN_CLOSED) {
            CHECK(strstr(text, "in/first") != NULL);
            is_closed = 1;
        } else if (run.kind == TL_RUN_ABORTED) {
            CHECK(strstr(text, "in/second") != NULL);
            OK(tl_stream_run_reason(reader, text, sizeof text, NULL));
            CHECK(strstr(text, "no film") != NULL);
            is_aborted = 1;
        } else {
            CHECK(run.kind == TL_RUN_ELEMENTS && back[0] == 7);
        }
    }
    CHECK(total == 3);
    OK(tl_stream_reader_close(reader));
}

/* A writer and a reader with journals end, and others continue the stream. */
static void journals_continue_a_stream(const char *folder) {
    tl_stream_options of_writer = options_with_port(), of_reader = options_with_port();
    end writer = make("log/out", "f64", "log/in", of_writer), reader = make("log/in", "f64", "", of_reader);
    char path[300];
    double numbers[4] = {1.0, 2.0, 3.0, 4.0}, back[4];
    size_t count = 0;
    uint64_t left = 9;
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_options_set_journal(of_writer, folder, NUL, 0, 9, 0));
    snprintf(path, sizeof path, "%s/writer", folder);
    OK(tl_stream_options_set_journal(of_writer, path, NUL, 2 << 20, TL_DURABILITY_PROCESS, TL_COMMIT_BY_NEXT_READ));
    snprintf(path, sizeof path, "%s/reader", folder);
    OK(tl_stream_options_set_journal(of_reader, path, NUL, 2 << 20, TL_DURABILITY_DISK, TL_COMMIT_BY_PROGRAM));
    connect_ends(&writer, &reader);
    OK(tl_stream_write(writer.handle, numbers, 8, 4, 9000));
    OK(tl_stream_flush(writer.handle, TL_UNTIL_DURABLE, 9000));
    OK(tl_stream_read(reader.handle, back, 8, 2, 2, 9000, &count));
    OK(tl_stream_reader_commit(reader.handle));
    OK(tl_stream_read(reader.handle, back, 8, 1, 1, 9000, &count));
    /* The third element was read, and not committed. */
    OK(tl_stream_writer_suspend(writer.handle));
    OK(tl_stream_reader_close(reader.handle));
    connect_ends(&writer, &reader);
    OK(tl_stream_read(reader.handle, back, 8, 2, 2, 9000, &count));
    CHECK(count == 2 && back[0] == 3.0 && back[1] == 4.0);
    OK(tl_stream_reader_commit(reader.handle));
    OK(tl_stream_writer_close(writer.handle, 9000, &left));
    CHECK(left == 0);
    EXPECT(TL_ERROR_STREAM_ENDED, tl_stream_read(reader.handle, back, 8, 1, 1, 9000, &count));
    OK(tl_stream_reader_destroy(reader.handle));
    OK(tl_stream_options_close(of_writer));
    OK(tl_stream_options_close(of_reader));
}

static void any_element_is_read_as_text(tl_stream_options options) {
    end writer = make("text/out", "enum(OFF, AUTO)", "text/in", options);
    end reader = make("text/in", "enum(OFF, AUTO)", "", options);
    char text[3];
    uint32_t element;
    size_t count;
    connect_ends(&writer, &reader);
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_writer_suspend(writer.handle));
    EXPECT(TL_FAULT_INVALID_VALUE, tl_stream_write_text(writer.handle, "FAST", NUL, 9000));
    OK(tl_stream_write_text(writer.handle, "AUTO", NUL, 9000));
    EXPECT(TL_ERROR_SHORT_BUFFER, tl_stream_read_text(reader.handle, 9000, text, sizeof text, &count));
    CHECK(strcmp(text, "AU") == 0 && count == 4);
    EXPECT(TL_ERROR_ARGUMENT, tl_stream_read(reader.handle, &element, 4, 1, 1, 0, &count));
    OK(tl_stream_writer_close(writer.handle, 9000, NULL));
    OK(tl_stream_reader_close(reader.handle));
}

int main(int argc, char **argv) {
    tl_stream_options options;
    tl_client client;
    char url[64];
    start(configuration, &engine, &client);
    OK(tl_engine_url(engine, url, sizeof url, NULL));
    port = (uint16_t)atoi(strrchr(url, ':') + 1);
    options = options_with_port();
    memory_is_lent_and_returned(options);
    one_writer_has_two_readers(options);
    one_reader_has_two_writers(options);
    any_element_is_read_as_text(options);
    journals_continue_a_stream(argc > 1 ? argv[1] : ".");
    OK(tl_stream_options_close(options));
    OK(tl_client_close(client));
    OK(tl_engine_close(engine, 1000));
    return 0;
}
