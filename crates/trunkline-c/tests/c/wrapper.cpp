/* Uses the C++ header, with and without exceptions. */
#include <trunkline.hpp>

#include <cstring>

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);   \
            return 1;                                                              \
        }                                                                          \
    } while (0)

static const char configuration[] =
    "[engine]\nlisten = [\"127.0.0.1:0\"]\n"
    "[library]\nname = \"rig\"\n"
    "[[variable]]\nname = \"a\"\ntype = \"f64\"\nrange = [0, 100]\n"
    "[[variable]]\nname = \"note\"\ntype = \"string\"\n";

int main() {
    auto engine = tl::engine::start(configuration).value();
    auto client = tl::client::connect(engine.url().value(), 20000).value();
    auto variables = client.open("rig/a\nrig/note", 9000).value();
    CHECK(variables.size() == 2);
    CHECK(client.write(variables[0], 12.5, 9000));
    CHECK(client.read(variables[0], 9000).value() == 12.5);
    std::string longer(1000, 'x');
    CHECK(client.write(variables[1], longer, 9000));
    CHECK(client.read_text(variables[1], 9000).value() == longer);

    auto refused = client.write(variables[0], 101.0, 9000);
    CHECK(!refused && refused.status() == TL_FAULT_OUT_OF_RANGE);
    CHECK(refused.error().message().find("rig/a") != std::string::npos);
    CHECK(client.read(tl_variable(7), 9000).value_or(-1.0) == -1.0);

    auto readings = tl::readings::create().value();
    CHECK(client.read(variables, readings, 9000));
    CHECK(readings.size() == 2 && readings[0]->value == 12.5 && readings.text(1).value() == longer);
    CHECK(!readings.event());

    auto subscription = client.subscribe("rig/a", "all").value();
    bool is_seen = false;
    while (!is_seen) {
        auto count = subscription.next(readings, 10, 20000).value();
        CHECK(count.has_value());
        is_seen = *count > 0;
    }
    CHECK(!subscription.next(readings, 10, 0).value().has_value());

    tl::client moved = std::move(client);
    CHECK(client.get() == 0 && moved.get() != 0);
    tl_client number = moved.get();
    moved.close();
    CHECK(tl_client_close(number) == TL_ERROR_HANDLE);
#ifdef TRUNKLINE_EXCEPTIONS
    try {
        (void)tl::engine::start("nonsense = 1").value();
        return 1;
    } catch (const tl::error &error) {
        CHECK(error.status() == TL_ERROR_SYNTAX && std::strlen(error.what()) > 0);
    }
#endif
    return 0;
}
