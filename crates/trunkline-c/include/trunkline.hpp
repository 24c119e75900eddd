/*
 * Trunkline for C++17: the functions of trunkline.h with handles that close themselves.
 *
 *     c++ -std=c++17 program.cpp $(pkg-config --cflags --libs trunkline)
 *
 * Functions return a `tl::result<T>`: the value, or an error with its status and message. With
 * TRUNKLINE_EXCEPTIONS defined before this header, `result::value()` throws `tl::error` instead of ending
 * the program; nothing else throws. What this header does not wrap is used through `get()` and the
 * functions of trunkline.h.
 */
#ifndef TRUNKLINE_HPP
#define TRUNKLINE_HPP

#include <trunkline.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#ifdef TRUNKLINE_EXCEPTIONS
#include <exception>
#endif

namespace tl {

/* A list of elements of the caller: an array, a vector, or a pointer with a number. */
template <typename T>
class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N>
    constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    template <typename Container, typename = decltype(std::declval<Container &>().data())>
    constexpr span(Container &&container) noexcept : data_(container.data()), size_(container.size()) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* Why a call did not do its work. */
class error
#ifdef TRUNKLINE_EXCEPTIONS
    : public std::exception
#endif
{
public:
    error(tl_status status, std::string message) : status_(status), message_(std::move(message)) {}

    /* The last error of this thread. */
    static error last(tl_status status) {
        std::size_t length = 0;
        tl_last_error_message(nullptr, 0, &length);
        std::string message(length, '\0');
        tl_last_error_message(message.data(), length + 1, nullptr);
        return error(status, std::move(message));
    }

    tl_status status() const noexcept { return status_; }
    const std::string &message() const noexcept { return message_; }
#ifdef TRUNKLINE_EXCEPTIONS
    const char *what() const noexcept override { return message_.c_str(); }
#endif

private:
    tl_status status_;
    std::string message_;
};

/* The value of a call, or its error. */
template <typename T>
class [[nodiscard]] result {
public:
    result(T value) : value_(std::move(value)) {}
    result(tl::error error) : error_(std::move(error)) {}

    explicit operator bool() const noexcept { return value_.has_value(); }
    const tl::error &error() const { return *error_; }
    tl_status status() const noexcept { return error_ ? error_->status() : TL_OK; }

    /* The value. After an error, throws it or ends the program with its message. */
    T &value() & {
        check();
        return *value_;
    }
    T value() && {
        check();
        return std::move(*value_);
    }
    T value_or(T other) const { return value_ ? *value_ : other; }
    T *operator->() { return &value(); }
    T &operator*() & { return value(); }

private:
    void check() const {
        if (error_) {
#ifdef TRUNKLINE_EXCEPTIONS
            throw *error_;
#else
            std::fprintf(stderr, "trunkline: %s\n", error_->message().c_str());
            std::abort();
#endif
        }
    }

    std::optional<T> value_;
    std::optional<tl::error> error_;
};

/* The value of a call without one. */
struct done {};

inline result<done> done_or_error(tl_status status) {
    if (status == TL_OK) {
        return done{};
    }
    return error::last(status);
}

/* Copies a text that the library returns, whatever its length. `read` gets a buffer, its capacity and the
 * place for the length. */
template <typename Read>
result<std::string> text_of(Read read) {
    std::string text(255, '\0');
    for (;;) {
        std::size_t length = 0;
        tl_status status = read(text.data(), text.size() + 1, &length);
        if (status == TL_ERROR_SHORT_BUFFER) {
            text.resize(length);
            continue;
        }
        if (status != TL_OK) {
            return error::last(status);
        }
        text.resize(length);
        return text;
    }
}

/* A handle that is closed with its owner. */
template <tl_status (*Close)(std::uint64_t)>
class handle {
public:
    handle() noexcept = default;
    explicit handle(std::uint64_t number) noexcept : number_(number) {}
    handle(handle &&other) noexcept : number_(std::exchange(other.number_, 0)) {}
    handle &operator=(handle &&other) noexcept {
        if (this != &other) {
            close();
            number_ = std::exchange(other.number_, 0);
        }
        return *this;
    }
    ~handle() { close(); }

    /* The handle for the functions of trunkline.h; 0 after close. */
    std::uint64_t get() const noexcept { return number_; }
    void close() noexcept {
        if (number_ != 0) {
            Close(std::exchange(number_, 0));
        }
    }

private:
    std::uint64_t number_ = 0;
};

inline tl_status close_engine(std::uint64_t engine) { return tl_engine_close(engine, 1000); }
inline tl_status close_writer(std::uint64_t writer) {
    return tl_stream_writer_close(writer, 10000, nullptr);
}

/* Readings that a call has filled in. */
class readings : public handle<tl_readings_close> {
public:
    static result<readings> create() {
        tl_readings number = 0;
        tl_status status = tl_readings_create(&number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return readings(number);
    }

    std::size_t size() const {
        std::size_t count = 0;
        tl_readings_count(get(), &count);
        return count;
    }
    result<tl_reading> operator[](std::size_t index) const {
        tl_reading reading;
        tl_status status = tl_readings_get(get(), index, &reading);
        if (status != TL_OK) {
            return error::last(status);
        }
        return reading;
    }
    result<std::string> text(std::size_t index) const {
        return text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return tl_readings_text(get(), index, buffer, capacity, length);
        });
    }
    /* The event after the readings, if there is one. */
    std::optional<tl_event> event() const {
        tl_event event;
        if (tl_readings_event(get(), &event, nullptr, 0, nullptr) != TL_OK ||
            event.kind == TL_EVENT_NONE) {
            return std::nullopt;
        }
        return event;
    }

private:
    using handle::handle;
};

/* A subscription with a queue. */
class subscription : public handle<tl_subscription_close> {
public:
    explicit subscription(tl_subscription number) noexcept : handle(number) {}

    /* Waits for readings or an event; the number of readings. No value after a timeout. */
    result<std::optional<std::size_t>> next(const readings &into, std::size_t most, int timeout_ms) const {
        std::size_t count = 0;
        tl_status status = tl_subscription_next(get(), into.get(), most, timeout_ms, &count);
        if (status == TL_ERROR_TIMEOUT) {
            return std::optional<std::size_t>();
        }
        if (status != TL_OK) {
            return error::last(status);
        }
        return std::optional<std::size_t>(count);
    }
};

/* The alarms that a query has found. */
class alarm_list : public handle<tl_alarms_close> {
public:
    explicit alarm_list(tl_alarm_list number) noexcept : handle(number) {}

    std::size_t size() const {
        std::size_t count = 0;
        tl_alarms_count(get(), &count);
        return count;
    }
    result<tl_alarm> operator[](std::size_t index) const {
        tl_alarm alarm;
        tl_status status = tl_alarms_get(get(), index, &alarm);
        if (status != TL_OK) {
            return error::last(status);
        }
        return alarm;
    }
    /* `field`: one of TL_ALARM_TEXT_... */
    result<std::string> text(std::size_t index, int field) const {
        return text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return tl_alarms_text(get(), index, field, buffer, capacity, length);
        });
    }
};

/* Changes of alarms, as they happen. */
class alarm_changes : public handle<tl_alarm_changes_close> {
public:
    explicit alarm_changes(tl_alarm_changes number) noexcept : handle(number) {}

    /* The next change. No value after a timeout. */
    result<std::optional<tl_alarm>> next(int timeout_ms) const {
        tl_alarm alarm;
        tl_status status = tl_alarm_changes_next(get(), timeout_ms, &alarm, nullptr);
        if (status == TL_ERROR_TIMEOUT) {
            return std::optional<tl_alarm>();
        }
        if (status != TL_OK) {
            return error::last(status);
        }
        return std::optional<tl_alarm>(alarm);
    }
    /* A text of the last change; `field`: one of TL_ALARM_TEXT_... */
    result<std::string> text(int field) const {
        return text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return tl_alarm_changes_text(get(), field, buffer, capacity, length);
        });
    }
};

/* A query of the audit trail. */
class audit_query : public handle<tl_audit_close> {
public:
    explicit audit_query(tl_audit_query number) noexcept : handle(number) {}

    /* The next entry. No value at the end. */
    result<std::optional<tl_audit_entry>> next(int timeout_ms) const {
        tl_audit_entry entry;
        std::int32_t has_entry = 0;
        tl_status status = tl_audit_next(get(), timeout_ms, &entry, &has_entry);
        if (status != TL_OK) {
            return error::last(status);
        }
        return has_entry ? std::optional<tl_audit_entry>(entry) : std::nullopt;
    }
    /* A text of the last entry; `field`: one of TL_AUDIT_TEXT_... */
    result<std::string> text(int field) const {
        return text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return tl_audit_text(get(), field, buffer, capacity, length);
        });
    }
};

/* A connection to an engine. */
class client : public handle<tl_client_close> {
public:
    explicit client(tl_client number) noexcept : handle(number) {}

    static result<client> connect(std::string_view url, int timeout_ms) {
        tl_client number = 0;
        tl_status status = tl_connect(url.data(), url.size(), timeout_ms, &number);
        client connected(number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return connected;
    }

    /* Opens names, one per line. An error if one of them cannot be opened. */
    result<std::vector<tl_variable>> open(std::string_view names, int timeout_ms) const {
        std::size_t count = 1;
        for (char c : names) {
            count += c == '\n' ? 1 : 0;
        }
        std::vector<tl_variable> variables(count);
        tl_status status = tl_open(get(), names.data(), names.size(), timeout_ms, variables.data(),
                                   nullptr, count, &count);
        if (status != TL_OK) {
            return error::last(status);
        }
        variables.resize(count);
        return variables;
    }

    result<double> read(tl_variable variable, int timeout_ms) const {
        double value = 0.0;
        tl_status status = tl_read_f64(get(), &variable, 1, timeout_ms, &value, nullptr);
        if (status != TL_OK) {
            return error::last(status);
        }
        return value;
    }
    result<done> read(span<const tl_variable> variables, span<double> values, int timeout_ms) const {
        if (values.size() < variables.size()) {
            return error(TL_ERROR_SHORT_BUFFER, "there are fewer values than variables");
        }
        return done_or_error(tl_read_f64(get(), variables.data(), variables.size(), timeout_ms,
                                         values.data(), nullptr));
    }
    result<done> read(span<const tl_variable> variables, const readings &into, int timeout_ms) const {
        return done_or_error(
            tl_read(get(), variables.data(), variables.size(), timeout_ms, into.get()));
    }
    result<std::string> read_text(tl_variable variable, int timeout_ms) const {
        return text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return tl_read_text(get(), variable, timeout_ms, buffer, capacity, length);
        });
    }

    result<done> write(tl_variable variable, double value, int timeout_ms) const {
        return done_or_error(tl_write_f64(get(), &variable, &value, 1, timeout_ms, nullptr));
    }
    result<done> write(tl_variable variable, std::string_view value, int timeout_ms) const {
        return done_or_error(
            tl_write_text(get(), variable, value.data(), value.size(), timeout_ms));
    }
    result<done> write(span<const tl_variable> variables, span<const double> values,
                       int timeout_ms) const {
        if (values.size() < variables.size()) {
            return error(TL_ERROR_SHORT_BUFFER, "there are fewer values than variables");
        }
        return done_or_error(tl_write_f64(get(), variables.data(), values.data(), variables.size(),
                                          timeout_ms, nullptr));
    }

    result<subscription> subscribe(std::string_view names, std::string_view contract,
                                   std::uint32_t flags = 0) const {
        tl_subscription number = 0;
        tl_status status = tl_subscribe(get(), names.data(), names.size(), contract.data(),
                                        contract.size(), flags, &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return subscription(number);
    }
    /* Patterns, one per line; `excluded` may be empty. */
    result<subscription> subscribe_patterns(std::string_view patterns, std::string_view excluded,
                                            std::string_view contract, std::uint32_t flags = 0) const {
        tl_subscription number = 0;
        tl_status status = tl_subscribe_patterns(get(), patterns.data(), patterns.size(), excluded.data(),
                                                 excluded.size(), contract.data(), contract.size(),
                                                 flags, &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return subscription(number);
    }

    /* Alarms of variables that match; an empty pattern is all. */
    result<alarm_list> alarms(std::string_view pattern, int timeout_ms) const {
        tl_alarm_list number = 0;
        tl_status status = tl_alarms(get(), pattern.data(), pattern.size(), nullptr, 0, 0, nullptr, 0,
                                     timeout_ms, &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return alarm_list(number);
    }
    /* Applies an action to alarms, one per line, such as "boiler/level#hi". */
    result<done> act_on_alarms(std::string_view alarms, int action, std::uint32_t shelve_ms,
                               std::string_view comment, int timeout_ms) const {
        return done_or_error(tl_act_on_alarms(get(), alarms.data(), alarms.size(), action, shelve_ms,
                                              comment.data(), comment.size(), timeout_ms, nullptr,
                                              nullptr, 0));
    }
    /* `since_ns`: TL_SINCE_NOW, TL_TIME_OPEN, or UTC nanoseconds. */
    result<alarm_changes> follow_alarms(std::string_view pattern, std::int64_t since_ns,
                                        int timeout_ms) const {
        tl_alarm_changes number = 0;
        tl_status status = tl_follow_alarms(get(), pattern.data(), pattern.size(), nullptr, 0, 0, since_ns,
                                            timeout_ms, &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return alarm_changes(number);
    }

    /* Entries about matching names, oldest first; an empty pattern is all. */
    result<audit_query> audit(std::string_view pattern) const {
        tl_audit_query number = 0;
        tl_status status = tl_audit(get(), pattern.data(), pattern.size(), nullptr, 0, TL_TIME_OPEN, 0,
                                    &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return audit_query(number);
    }

    /* Control of an operator, for this client, until it is released. */
    result<tl_control> take_control(std::string_view folder, int timeout_ms) const {
        tl_control control;
        tl_status status = tl_take_control(get(), folder.data(), folder.size(), TL_CONTROL_OPERATOR,
                                           TL_CONTROL_SESSION, 0, timeout_ms, &control);
        if (status != TL_OK) {
            return error::last(status);
        }
        return control;
    }
    result<done> release_control(std::string_view folder, int timeout_ms) const {
        return done_or_error(
            tl_release_control(get(), folder.data(), folder.size(), timeout_ms));
    }
};

/* An engine in this process. */
class engine : public handle<close_engine> {
public:
    explicit engine(tl_engine number) noexcept : handle(number) {}

    static result<engine> start(std::string_view configuration) {
        tl_engine number = 0;
        tl_status status = tl_engine_start(configuration.data(), configuration.size(), &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return engine(number);
    }

    result<std::string> url() const {
        return text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return tl_engine_url(get(), buffer, capacity, length);
        });
    }
    result<tl::client> client() const {
        tl_client number = 0;
        tl_status status = tl_engine_client(get(), &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return tl::client(number);
    }
};

/* Options of the ends of streams. */
class stream_options : public handle<tl_stream_options_close> {
public:
    static result<stream_options> create() {
        tl_stream_options number = 0;
        tl_status status = tl_stream_options_create(&number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return stream_options(number);
    }

    result<done> capacity(std::size_t elements) const {
        return done_or_error(tl_stream_options_set_capacity(get(), elements));
    }
    result<done> engine_port(std::uint16_t port) const {
        return done_or_error(tl_stream_options_set_engine_port(get(), port));
    }
    result<done> journal(std::string_view folder, std::uint64_t bytes_max, int durability, int commit) const {
        return done_or_error(tl_stream_options_set_journal(get(), folder.data(), folder.size(), bytes_max,
                                                           durability, commit));
    }

private:
    using handle::handle;
};

/* The writer of a stream of numbers. */
class stream_writer : public handle<close_writer> {
public:
    explicit stream_writer(tl_stream_writer number) noexcept : handle(number) {}

    static result<stream_writer> create(std::string_view url, std::string_view type, std::string_view peer,
                                        const stream_options &options, int timeout_ms) {
        tl_stream_writer number = 0;
        tl_status status =
            tl_stream_writer_create_with(url.data(), url.size(), type.data(), type.size(), peer.data(),
                                         peer.size(), options.get(), timeout_ms, &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return stream_writer(number);
    }
    /* A writer with several readers; `quota` as for tl_stream_fan_out_create. */
    static result<stream_writer> create_fan_out(std::string_view url, std::string_view type,
                                                std::size_t readers_min, std::uint64_t quota,
                                                const stream_options &options, int timeout_ms) {
        tl_stream_writer number = 0;
        tl_status status = tl_stream_fan_out_create(url.data(), url.size(), type.data(), type.size(),
                                                    options.get(), readers_min, 0, quota, timeout_ms,
                                                    &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return stream_writer(number);
    }

    template <typename T>
    result<done> write(span<const T> elements, int timeout_ms) const {
        return done_or_error(
            tl_stream_write(get(), elements.data(), sizeof(T), elements.size(), timeout_ms));
    }
    /* Room in the memory from which elements are sent, until commit. */
    template <typename T>
    result<span<T>> reserve(std::size_t count, int timeout_ms) const {
        void *room = nullptr;
        tl_status status = tl_stream_reserve(get(), sizeof(T), count, timeout_ms, &room);
        if (status != TL_OK) {
            return error::last(status);
        }
        return span<T>(static_cast<T *>(room), count);
    }
    result<done> commit(std::size_t count, int timeout_ms) const {
        return done_or_error(tl_stream_commit(get(), count, timeout_ms));
    }
    result<done> flush(int until, int timeout_ms) const {
        return done_or_error(tl_stream_flush(get(), until, timeout_ms));
    }
};

/* The reader of a stream of numbers. */
class stream_reader : public handle<tl_stream_reader_close> {
public:
    explicit stream_reader(tl_stream_reader number) noexcept : handle(number) {}

    static result<stream_reader> create(std::string_view url, std::string_view type, std::string_view peer,
                                        const stream_options &options, int timeout_ms) {
        tl_stream_reader number = 0;
        tl_status status =
            tl_stream_reader_create_with(url.data(), url.size(), type.data(), type.size(), peer.data(),
                                         peer.size(), options.get(), timeout_ms, &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return stream_reader(number);
    }
    /* A reader with several writers; read it with read_run. */
    static result<stream_reader> create_fan_in(std::string_view url, std::string_view type,
                                               std::size_t writers_min, const stream_options &options,
                                               int timeout_ms) {
        tl_stream_reader number = 0;
        tl_status status = tl_stream_fan_in_create(url.data(), url.size(), type.data(), type.size(),
                                                   options.get(), writers_min, 0, timeout_ms, &number);
        if (status != TL_OK) {
            return error::last(status);
        }
        return stream_reader(number);
    }

    /* At least `minimum` elements; 0 at the end of the stream. */
    template <typename T>
    result<std::size_t> read(span<T> into, std::size_t minimum, int timeout_ms) const {
        std::size_t count = 0;
        tl_status status = tl_stream_read(get(), into.data(), sizeof(T), minimum, into.size(),
                                          timeout_ms, &count);
        if (status != TL_OK && status != TL_ERROR_STREAM_ENDED) {
            return error::last(status);
        }
        return count;
    }
    /* Elements in the memory of the reader, until release; empty at the end of the stream. */
    template <typename T>
    result<span<const T>> acquire(std::size_t minimum, std::size_t maximum, int timeout_ms) const {
        const void *elements = nullptr;
        std::size_t count = 0;
        tl_status status =
            tl_stream_acquire(get(), sizeof(T), minimum, maximum, timeout_ms, &elements, &count);
        if (status != TL_OK && status != TL_ERROR_STREAM_ENDED) {
            return error::last(status);
        }
        return span<const T>(static_cast<const T *>(elements), count);
    }
    result<done> release() const { return done_or_error(tl_stream_release(get())); }
    /* Elements of any writer, or the end of one. No value after a timeout. */
    template <typename T>
    result<std::optional<tl_stream_run>> read_run(span<T> into, int timeout_ms) const {
        tl_stream_run run;
        tl_status status =
            tl_stream_read_run(get(), into.data(), sizeof(T), into.size(), timeout_ms, &run);
        if (status == TL_ERROR_TIMEOUT) {
            return std::optional<tl_stream_run>();
        }
        if (status != TL_OK) {
            return error::last(status);
        }
        return std::optional<tl_stream_run>(run);
    }
};

} // namespace tl

#endif
