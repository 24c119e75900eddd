/* Uses the C++ header, with and without exceptions. */
#include <trunkline.hpp>

#include <cstring>
#include <thread>

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
    "[[variable]]\nname = \"a\"\ntype = \"f64\"\nrange = [0, 100]\naudit = true\n"
    "alarm.hi = 80\n"
    "[[variable]]\nname = \"note\"\ntype = \"string\"\n";

/* Both ends of a stream, and memory that they lend. */
static int streams(const std::string &url) {
    auto options = tl::stream_options::create().value();
    CHECK(options.engine_port(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)))));
    CHECK(options.capacity(100));
    tl::stream_reader reader(0);
    std::thread opening([&] {
        reader = tl::stream_reader::create("cpp/in", "i32", "", options, 20000).value();
    });
    auto writer = tl::stream_writer::create("cpp/out", "i32", "cpp/in", options, 20000).value();
    opening.join();
    auto room = writer.reserve<std::int32_t>(3, 9000).value();
    for (std::size_t i = 0; i < room.size(); i++) {
        room[i] = static_cast<std::int32_t>(i) + 1;
    }
    CHECK(writer.commit(3, 9000));
    const std::int32_t more[] = {4};
    CHECK(writer.write(tl::span<const std::int32_t>(more), 9000));
    auto lent = reader.acquire<std::int32_t>(4, 100, 9000).value();
    CHECK(lent.size() == 4 && lent[0] == 1 && lent[3] == 4);
    CHECK(reader.release());
    writer.close();
    CHECK(reader.acquire<std::int32_t>(1, 100, 9000).value().size() == 0);
    return 0;
}

/* Alarms, the audit trail, control and patterns. */
static int operations(const tl::client &client, tl_variable level) {
    auto changes = client.follow_alarms("rig/**", TL_SINCE_NOW, 9000).value();
    CHECK(client.write(level, 90.0, 9000));
    auto raised = changes.next(20000).value();
    CHECK(raised && raised->state == TL_ALARM_UNACKNOWLEDGED);
    CHECK(changes.text(TL_ALARM_TEXT_ALARM).value() == "hi");
    CHECK(client.act_on_alarms("rig/a#hi", TL_ALARM_ACKNOWLEDGE, 0, "seen", 9000));
    auto alarms = client.alarms("rig/*", 9000).value();
    CHECK(alarms.size() == 1 && alarms[0]->state == TL_ALARM_ACKNOWLEDGED);
    CHECK(alarms.text(0, TL_ALARM_TEXT_COMMENT).value() == "seen");
    auto audit = client.audit("rig/a").value();
    auto first = audit.next(9000).value();
    CHECK(first && first->number > 0 && audit.text(TL_AUDIT_TEXT_NAME).value() == "rig/a");
    CHECK(client.take_control("rig", 9000)->is_own == 1);
    CHECK(client.release_control("rig", 9000));
    auto readings = tl::readings::create().value();
    auto subscription = client.subscribe_patterns("rig/*", "rig/note", "all").value();
    for (std::size_t count = 0; count == 0;) {
        count = subscription.next(readings, 1, 20000).value().value();
    }
    CHECK(readings[0]->value == 90.0);
    return 0;
}

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

    CHECK(operations(client, variables[0]) == 0);
    CHECK(streams(engine.url().value()) == 0);

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
