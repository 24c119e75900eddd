//! Defines every key of every section, with its permitted form, default and meaning.

use super::{AcceptedIn, Key, Reload};

const fn key(
    name: &'static str,
    form: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key {
        name,
        form,
        default,
        meaning,
        accepted_in: AcceptedIn::Own,
        reload: Some(Reload::AtOnce),
    }
}

/// A key of the engine, which states when a change of it takes effect.
const fn setting(reload: Reload, key: Key) -> Key {
    let reload = Some(reload);
    Key { reload, ..key }
}

/// A key that is a section of its own.
const fn section(key: Key) -> Key {
    Key {
        reload: None,
        ..key
    }
}

const fn also_in(accepted_in: AcceptedIn, key: Key) -> Key {
    Key { accepted_in, ..key }
}

const fn shared(
    name: &'static str,
    form: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    also_in(AcceptedIn::Defaults, key(name, form, default, meaning))
}

pub(super) const FILE: &[Key] = &[
    section(key(
        "engine",
        "`[engine]`",
        "the values below",
        "settings of the engine; allowed in one file only",
    )),
    section(key(
        "library",
        "`[library]`",
        "named after the file",
        "the library of this file's variables",
    )),
    section(key(
        "defaults",
        "`[defaults]`",
        "none",
        "properties of every variable written in this file",
    )),
    section(key(
        "variable",
        "`[[variable]]`",
        "none",
        "one variable, or many with `each` or `zip`",
    )),
    section(key(
        "override",
        "`[[override]]`",
        "none",
        "different properties for some variables of this file",
    )),
    section(key(
        "template",
        "`[[template]]`",
        "none",
        "variables with parameters, which all files can use",
    )),
    section(key(
        "use",
        "`[[use]]`",
        "none",
        "creates a template's variables, once per row of parameters",
    )),
    section(key("io", "`[[io]]`", "none", "an I/O server")),
    section(key(
        "history",
        "`[[history]]`",
        "none",
        "variables to record, and how; the first section that matches a variable decides",
    )),
];

pub(super) const ENGINE: &[Key] = &[
    setting(
        Reload::Restart,
        key(
            "name",
            "text, at most 255 bytes",
            "the host's name",
            "name of the engine, which clients see",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "store",
            "path of a file, relative to the folder of this file, or \"none\"",
            "a file in the user's state folder, named after the port",
            "where the engine stores deployed libraries, retained values, alarm states, the audit \
             trail and the alarm journal",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "audit_entries",
            "100 to 100,000,000",
            "100_000",
            "maximum number of entries of the audit trail; when it is exceeded, the oldest tenth \
         is removed, and an entry records this",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "audit_age",
            "duration, 1 min to 36,500 days, or \"none\"",
            "none",
            "maximum age of entries of the audit trail; once the oldest entry exceeds it by 10 %, \
         all entries that exceed it are removed, and an entry records this",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "alarm_journal_entries",
            "100 to 100,000,000",
            "1_000_000",
            "maximum number of entries of the alarm journal; when it is exceeded, the oldest tenth \
         is removed, and an entry records this",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "alarm_journal_age",
            "duration, 1 min to 36,500 days, or \"none\"",
            "none",
            "maximum age of entries of the alarm journal; once the oldest entry exceeds it by 10 %, \
         all entries that exceed it are removed, and an entry records this",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "history",
            "path of a folder, relative to the folder of this file",
            "next to the store: `plant.history` for `plant.db`; without a store, `history` next to \
             the first file",
            "where the updates of the variables in `[[history]]` sections are recorded",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "history_spool",
            "path of a folder on another disk, relative to the folder of this file",
            "none",
            "where updates are recorded while the history folder cannot be written; its parent folder must \
         exist",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "listen",
            "an address and port, or a list of them; without port: 5850; or `unix:` and a path",
            "\"127.0.0.1:5850\"",
            "addresses at which the engine accepts connections; those other than loopback need `security`, or `insecure = true`",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "http",
            "a loopback address and port; without port: 8420",
            "none",
            "address of the HTTP server for `/metrics`, `/healthz` and `/readyz`; without this key, there is none",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "http_hosts",
            "a host name, or a list of them, without ports",
            "none",
            "names by which HTTP requests may address the engine, besides `localhost`, `127.0.0.1` and `[::1]`, \
         for example those of a reverse proxy",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "local_socket",
            "true or false",
            "true",
            "create a Unix socket for each port of 127.0.0.1, for programs of the same user",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "shared_memory",
            "true or false",
            "true",
            "let programs of the same user connect through shared memory",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "same_user",
            "true or false",
            "false",
            "refuse programs of other users, even on loopback ports, and programs on other machines",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "insecure",
            "true or false",
            "false",
            "permit addresses that other machines can reach, without encryption and identities: anyone who \
         can reach them may do everything",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "security",
            "path of a folder",
            "none",
            "the folder with the certificates, accounts and rules of the engine, which `trunkline init` \
         creates; connections from other machines are then encrypted, and clients need an account",
        ),
    ),
    setting(
        Reload::NewConnections,
        key(
            "keep_alive",
            "duration, 10 ms to 1 h",
            "\"1s\"",
            "interval of keep-alives",
        ),
    ),
    setting(
        Reload::NewConnections,
        key(
            "deadline",
            "duration, at least twice `keep_alive`, at most 1 day",
            "\"3s\"",
            "a connection that is silent for this long is closed",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "health",
            "duration, at most 1 h; 0: never",
            "\"1s\"",
            "interval at which the engine updates the variables of `_engine`",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "spin",
            "duration, at most 1 ms; 0: sleep at once",
            "\"50us\"",
            "longest time that a connection thread polls before it sleeps",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "log_level",
            "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"",
            "\"info\"",
            "the least important events of the log that `serve --log-format` writes; `--log-level` takes precedence",
        ),
    ),
    section(key(
        "limits",
        "`[engine.limits]`",
        "the values below",
        "limits for clients",
    )),
];

pub(super) const LIMITS: &[Key] = &[
    setting(
        Reload::AtOnce,
        key(
            "sessions_max",
            "1 to 100,000",
            "1_000",
            "connections at the same time; an account can have half of them",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "handshakes_max",
            "1 to 100,000",
            "100",
            "connections that are being set up at the same time",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "connections_per_address",
            "1 to 1,000,000",
            "20",
            "connections per second from one address of another machine; the same number may arrive in one burst",
        ),
    ),
    setting(
        Reload::NewConnections,
        key(
            "items_per_session_max",
            "1 to 100,000,000",
            "2_000_000",
            "variables that one session may have open",
        ),
    ),
    setting(
        Reload::NewConnections,
        key(
            "queue_bytes_per_session_max",
            "bytes, 64 KiB to 64 GiB",
            "\"64 MiB\"",
            "bytes that may wait to be sent to one session",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "queue_bytes_max",
            "bytes, 1 MiB to 16 TiB",
            "a quarter of the memory",
            "bytes that may wait to be sent to all sessions together",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "request_bytes_max",
            "bytes, 1 MiB to 16 TiB",
            "a quarter of the memory",
            "bytes that the requests and items of all sessions may use together; one session may use \
         half of them",
        ),
    ),
    setting(
        Reload::NewConnections,
        key(
            "writes_per_session_max",
            "1 to 1,000,000",
            "4_096",
            "writes of one session that may wait for their answers",
        ),
    ),
    setting(
        Reload::NewConnections,
        key(
            "write_bytes_per_session_max",
            "bytes, 1 KiB to 1 GiB",
            "\"1 MiB\"",
            "bytes of the values of those writes",
        ),
    ),
    setting(
        Reload::AtOnce,
        key(
            "variables_max",
            "1 to 2,097,152",
            "1_000_000",
            "variables that all files together may define",
        ),
    ),
];

pub(super) const LIBRARY: &[Key] = &[
    key(
        "name",
        "one segment of a name",
        "the file's name without `.toml`",
        "first segment of the full name of its variables; several files may add to one library",
    ),
    key(
        "description",
        "text, at most 4,096 bytes",
        "\"\"",
        "what the library is for",
    ),
];

pub(super) const VARIABLE: &[Key] = &[
    key(
        "name",
        "a name within the library, such as `pump/mode`",
        "",
        "name of the variable; the full name is `library/name`",
    ),
    key(
        "each",
        "table of ranges `\"1..4\"` (both ends included) or lists",
        "none",
        "creates one variable per combination; the last key varies fastest",
    ),
    key(
        "zip",
        "table of lists or ranges of equal length",
        "none",
        "creates one variable per position in the lists",
    ),
    shared(
        "type",
        "a type, such as `f64`, `enum(OFF, AUTO)`, `array(f64, 3, *)`",
        "",
        "type of the value",
    ),
    shared(
        "labels",
        "list of texts",
        "none",
        "the labels, for `type = \"enum\"`",
    ),
    shared(
        "element",
        "a scalar type",
        "none",
        "for `type = \"array\"` and `\"waveform\"`",
    ),
    shared(
        "shape",
        "list of lengths, `\"*\"` for any",
        "[\"*\"]",
        "length of each dimension, for `type = \"array\"`",
    ),
    shared(
        "fields",
        "table of types, or of tables with `type` and its details",
        "none",
        "the fields in order, for `type = \"struct\"`",
    ),
    shared(
        "description",
        "text, at most 4,096 bytes",
        "\"\"",
        "what the variable means",
    ),
    shared(
        "units",
        "text, at most 64 bytes",
        "\"\"",
        "engineering unit, such as `%` or `m3/h`",
    ),
    shared(
        "range",
        "`[LOW, HIGH]` in engineering units, or `\"none\"`",
        "none",
        "permitted values of a number; deadbands are percentages of this range",
    ),
    shared(
        "coerce",
        "true or false",
        "false",
        "set values outside `range` to its nearest end instead of refusing them",
    ),
    shared(
        "precision",
        "0 to 17, or \"none\"",
        "none",
        "number of decimal places when shown",
    ),
    shared(
        "access",
        "\"read-write\", \"read-only\" or \"write-only\"",
        "\"read-write\"",
        "what clients may do",
    ),
    shared(
        "scope",
        "\"network\" or \"process\"",
        "\"network\"",
        "reachable over the network, or within the engine's process only",
    ),
    shared(
        "scale",
        "table, see below, or \"none\"",
        "none",
        "raw value of the source to engineering value and back; needs `source` or `alias`",
    ),
    shared(
        "deadband",
        "percent of the range, 0 to 100, or a table, see below",
        "0",
        "changes to `f32` and `f64` values that are too small to be an update",
    ),
    shared(
        "fifo",
        "table, see below, or \"off\"",
        "\"off\"",
        "the real-time FIFO",
    ),
    shared(
        "timestamps",
        "true or false",
        "true",
        "whether updates carry timestamps; `false` only for `scope = \"process\"`",
    ),
    shared(
        "stall",
        "duration, 0 to 1 h",
        "0",
        "longest time that a writer waits for a full `all` subscription; 0: it does not wait, and the subscription ends",
    ),
    shared(
        "max_age",
        "duration, 1 ms to 365 days, or \"none\"",
        "none",
        "a reading older than this is marked as stale",
    ),
    also_in(
        AcceptedIn::Override,
        key(
            "alarm",
            "table with an entry for each alarm: `hi = 80`, `bad_quality = true`, or a table (below)",
            "none",
            "the alarms of the variable",
        ),
    ),
    shared(
        "retain",
        "true or false",
        "false",
        "keep the newest value across restarts of the engine; it takes precedence over `initial`",
    ),
    shared(
        "single_writer",
        "true or false",
        "false",
        "only one client may write it: the first one that does, until it disconnects; then the next",
    ),
    shared(
        "audit",
        "\"complete\", \"best-effort\" or false; true is \"complete\"",
        "false",
        "record every write of a client in the engine's audit trail: who, from where, old and new \
         value, when, outcome. `\"complete\"`: a write waits until there is room for its entry, \
         and is refused while the store cannot keep it; `\"best-effort\"`: a write never waits, \
         and the audit trail shows how many entries are missing",
    ),
    also_in(
        AcceptedIn::Override,
        key(
            "initial",
            "a value of the type",
            "the type's zero",
            "value at the first start",
        ),
    ),
    key(
        "number",
        "0 to 4294967295",
        "none",
        "a register number: `:/NUMBER` is another name of the variable; unique within the engine",
    ),
    also_in(
        AcceptedIn::Override,
        key(
            "source",
            "`SERVER:ITEM`",
            "none",
            "the I/O server and its item that deliver the value",
        ),
    ),
    also_in(
        AcceptedIn::Override,
        key(
            "alias",
            "full name of a variable, `library/path`",
            "none",
            "the variable of this engine that this one mirrors",
        ),
    ),
];

pub(super) const SCALE: &[Key] = &[
    key(
        "kind",
        "\"linear\" or \"square-root\"",
        "\"linear\"",
        "the curve between zero and full scale",
    ),
    key(
        "raw",
        "`[ZERO, FULL]` of the source, FULL above ZERO",
        "none",
        "raw values at zero and full scale",
    ),
    key(
        "eng",
        "`[ZERO, FULL]` in engineering units",
        "none",
        "engineering values at zero and full scale",
    ),
    key(
        "clamp",
        "true or false",
        "false",
        "short for `coerce = true`, with `eng` as the `range` unless `range` is set",
    ),
    key(
        "invert",
        "true (for `bool`), or a mask from 0 to 0xFFFF_FFFF (for `u32`)",
        "0",
        "the bits to invert (XOR)",
    ),
    key(
        "select",
        "a mask from 0 to 0xFFFF_FFFF",
        "0xFFFF_FFFF",
        "the bits to keep (AND), for `u32`",
    ),
];

pub(super) const DEADBAND: &[Key] = &[
    key(
        "user",
        "percent of the range, 0 to 100",
        "0",
        "for values that clients write",
    ),
    key(
        "source",
        "percent of the range, 0 to 100",
        "0",
        "for values that the source delivers",
    ),
];

pub(super) const FIFO: &[Key] = &[
    key(
        "kind",
        "\"single\", \"multi\" or \"off\"",
        "",
        "one element (the newest), or many",
    ),
    key(
        "capacity",
        "1 to 1,000,000",
        "",
        "number of values in the FIFO, for `\"multi\"`",
    ),
    key(
        "length",
        "1 to 1,048,576",
        "1, or that of an array type with a fixed length",
        "elements of an array, or samples of a waveform, in each value",
    ),
];

pub(super) const ALARM: &[Key] = &[
    key(
        "kind",
        "\"hi_hi\", \"hi\", \"lo\", \"lo_lo\", \"deviation\", \"rate\", \"discrete\", \"bits\", \"bad_quality\" or \"stale\"",
        "the name of the entry, if it is a kind",
        "what raises the alarm",
    ),
    key(
        "limit",
        "number, or full name of a variable; for `deviation` a number greater than 0",
        "",
        "the value beyond which the alarm is raised; for `deviation` the greatest difference from the setpoint",
    ),
    key(
        "setpoint",
        "number, or full name of a variable",
        "",
        "for `deviation`: the value to compare with",
    ),
    key(
        "deadband",
        "percent of the range, 0 to 100",
        "0",
        "for limits and `deviation`: how far the value must return inside the limit before the alarm is cleared",
    ),
    key(
        "change",
        "number greater than 0",
        "",
        "for `rate`: the alarm is raised by a larger change within `time`",
    ),
    key(
        "time",
        "duration, up to 7 days",
        "",
        "for `rate`: the time over which the change is measured",
    ),
    key(
        "values",
        "list of booleans, whole numbers or labels of an enum",
        "",
        "for `discrete`: the values that raise the alarm",
    ),
    key(
        "needed",
        "\"any\" or \"all\"",
        "\"any\"",
        "for `bits`: how many of the selected bits must be set",
    ),
    key(
        "invert",
        "mask such as 0xFF",
        "0",
        "for `bits`: these bits are inverted first",
    ),
    key(
        "select",
        "mask such as 0xFF",
        "all bits",
        "for `bits`: the bits to examine",
    ),
    key(
        "enabled",
        "true or false",
        "true",
        "whether the alarm is evaluated",
    ),
    key(
        "on_delay",
        "duration, up to 7 days",
        "0",
        "how long the condition must be met before the alarm is raised",
    ),
    key(
        "off_delay",
        "duration, up to 7 days",
        "0",
        "how long the condition must not be met before the alarm is cleared",
    ),
    key(
        "priority",
        "1 to 1000",
        "500",
        "urgency; 1000 is the most urgent",
    ),
    key(
        "area",
        "text",
        "empty",
        "alarms of one area are acknowledged together",
    ),
    key(
        "acknowledge",
        "\"user\" or \"auto\"",
        "\"user\"",
        "whether a user acknowledges the alarm, or it counts as acknowledged once the process is normal again",
    ),
    key(
        "latched",
        "true or false",
        "false",
        "whether the alarm must be reset after the process is normal again",
    ),
    key("description", "text", "empty", "what the alarm means"),
    key("help", "text", "empty", "what the operator should do"),
    key(
        "suppressed_by",
        "full name of a variable",
        "none",
        "the alarm is suppressed while that variable is true, or a number other than 0",
    ),
];

pub(super) const OVERRIDE: &[Key] = &[key(
    "match",
    "a pattern of names within the library, such as `rack2/*`",
    "",
    "the variables that it applies to; later overrides take precedence",
)];

pub(super) const TEMPLATE: &[Key] = &[
    key(
        "name",
        "text",
        "",
        "name that `[[use]]` refers to; unique in all files",
    ),
    key(
        "params",
        "table of \"string\", \"int\", \"float\" or \"bool\"",
        "none",
        "the parameters that every row sets",
    ),
    key(
        "variable",
        "list of variables",
        "",
        "the variables to create from each row",
    ),
];

pub(super) const USE: &[Key] = &[
    key("template", "name of a template", "", "the template to use"),
    key(
        "at",
        "a name, with placeholders",
        "none",
        "prefix of the variables' names",
    ),
    key(
        "rows",
        "list of tables",
        "one row if there are no parameters",
        "one use per row",
    ),
    key(
        "csv",
        "a file in this folder or below it, whose first line names the parameters",
        "none",
        "one use per line, instead of `rows`",
    ),
];

pub(super) const IO: &[Key] = &[
    setting(
        Reload::Restart,
        key(
            "name",
            "text without `:` and `/`",
            "",
            "name of the I/O server, as in `source = \"NAME:ITEM\"`",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "driver",
            "name of a driver, such as `host`",
            "",
            "the kind of I/O server",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "period",
            "duration, 100 us to 1 day",
            "the driver's own",
            "interval between scans",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "publish",
            "true or false",
            "true",
            "also deploy the libraries that the driver offers",
        ),
    ),
];

pub(super) const HISTORY: &[Key] = &[
    setting(
        Reload::Restart,
        key(
            "variables",
            "a pattern of full names, such as `boiler/**`, or a list of them",
            "",
            "the variables that it applies to, also those of later deployments",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "record",
            "true or false",
            "true",
            "whether they are recorded; with `false` the section has no other key",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "deadband",
            "percent of the range, 0 to 100",
            "0",
            "record a number only if it differs by more than this from the one recorded last; a change of \
         quality is always recorded; 0: record every update",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "resolution",
            "0 or greater",
            "0",
            "round recorded numbers to multiples of this; 0: record them exactly",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "every",
            "duration, 1 ms to 1 day, or \"none\"",
            "none",
            "record at most one update in this time, the newest; \"none\": record every update",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "keep",
            "duration, 1 h to 36,500 days, or \"none\"",
            "none",
            "remove rows that are older than this; \"none\": keep everything",
        ),
    ),
    setting(
        Reload::Restart,
        key(
            "array_bytes_max",
            "0 to 16 MiB",
            "64 KiB",
            "record the value of an array or a waveform only if it has at most this many bytes",
        ),
    ),
];

pub(super) const WAVEFORM: &[Key] = &[
    key(
        "t0",
        "date and time with offset",
        "1970-01-01T00:00:00Z",
        "time of the first sample",
    ),
    key("dt", "seconds", "0", "time from one sample to the next"),
    key("samples", "list", "[]", "the samples"),
    key(
        "attributes",
        "table of single values",
        "none",
        "additional values that belong to the samples",
    ),
];
