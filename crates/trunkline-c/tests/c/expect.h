/* What the test programs share: a check that prints its place, and ends the program. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <trunkline.h>

static void fail(const char *file, int line, const char *what, long got) {
    char message[1024] = "";
    tl_last_error_message(message, sizeof message, NULL);
    fprintf(stderr, "%s:%d: %s is %ld; the last message is: %s\n", file, line, what, got, message);
    exit(1);
}

#define EXPECT(wanted, call)                                  \
    do {                                                      \
        long got_ = (long)(call);                             \
        if (got_ != (long)(wanted)) {                         \
            fail(__FILE__, __LINE__, #call, got_);            \
        }                                                     \
    } while (0)

#define OK(call) EXPECT(TL_OK, call)

#define CHECK(condition)                                      \
    do {                                                      \
        if (!(condition)) {                                   \
            fail(__FILE__, __LINE__, #condition, 0);          \
        }                                                     \
    } while (0)

/* The last message says this. */
#define SAYS(part)                                                            \
    do {                                                                      \
        char says_[1024] = "";                                                \
        OK(tl_last_error_message(says_, sizeof says_, NULL));                 \
        if (!strstr(says_, part)) {                                           \
            fail(__FILE__, __LINE__, "the message without \"" part "\"", 0);  \
        }                                                                     \
    } while (0)

#define NUL TL_NUL_TERMINATED

static const char configuration[] =
    "[engine]\n"
    "listen = [\"127.0.0.1:0\"]\n"
    "health = \"0s\"\n"
    "[library]\n"
    "name = \"rig\"\n"
    "[[variable]]\n"
    "name = \"a\"\n"
    "type = \"f64\"\n"
    "range = [0, 100]\n"
    "[[variable]]\n"
    "name = \"b\"\n"
    "type = \"i64\"\n"
    "[[variable]]\n"
    "name = \"mode\"\n"
    "type = \"enum(OFF, MANUAL, AUTO)\"\n"
    "[[variable]]\n"
    "name = \"note\"\n"
    "type = \"string\"\n"
    "[[variable]]\n"
    "name = \"shape\"\n"
    "type = \"array(f32, *)\"\n"
    "[[variable]]\n"
    "name = \"big\"\n"
    "type = \"u64\"\n"
    "[[variable]]\n"
    "name = \"raw\"\n"
    "type = \"bytes\"\n";

/* Starts an engine with a configuration, and connects to it over a socket. */
static void start(const char *text, tl_engine *engine, tl_client *client) {
    char url[64];
    OK(tl_engine_start(text, NUL, engine));
    OK(tl_engine_url(*engine, url, sizeof url, NULL));
    OK(tl_connect(url, NUL, 20000, client));
}

#endif
