//! The table of crates: layer, reason, permitted dependencies, and permitted unsafe code.
//!
//! Edges go only downward (or sideways within a layer where a row permits it). A row may exist before its
//! crate; a crate without a row is refused. Change a row together with `docs/explanation/architecture.md`,
//! section "Layers and crates", and a decision record.

/// The layer of a crate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// 0 is the lowest layer; edges never go to a higher number.
    Level(u8),
    /// Drives and checks the others; nothing but tests depends on it.
    Development,
}

/// Where unsafe code is permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsafe {
    /// The crate root has `#![forbid(unsafe_code)]`.
    Forbid,
    /// Little unsafe code, with each block reviewed.
    Reviewed,
    /// Unsafe code is part of the crate's purpose.
    Allowed,
}

/// The permitted dependencies of a crate in the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum May {
    /// The crates named, and no other.
    Only(&'static [&'static str]),
    /// Every crate on a lower layer.
    AllBelow,
    /// Every crate on a layer up to the number, except those named.
    UpTo(u8, &'static [&'static str]),
    /// Anything.
    Any,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// Name of the package.
    pub name: &'static str,
    pub layer: Layer,
    pub may: May,
    /// Its rule for unsafe code.
    pub unsafe_code: Unsafe,
    /// Which of the four reasons makes it a crate: its own unsafe policy, its own external
    /// dependencies, independent use, or a boundary the compiler must hold.
    pub reason: &'static str,
}

const fn row(
    name: &'static str,
    layer: u8,
    may: May,
    unsafe_code: Unsafe,
    reason: &'static str,
) -> Row {
    Row {
        name,
        layer: Layer::Level(layer),
        may,
        unsafe_code,
        reason,
    }
}

const fn development(name: &'static str, may: May, reason: &'static str) -> Row {
    Row {
        name,
        layer: Layer::Development,
        may,
        unsafe_code: Unsafe::Forbid,
        reason,
    }
}

use May::{AllBelow, Any, Only, UpTo};
use Unsafe::{Allowed, Forbid, Reviewed};

const TYPES: &str = "trunkline-types";
const RING: &str = "trunkline-ring";
const TDMS: &str = "trunkline-tdms";
const SIMDISK: &str = "trunkline-simdisk";
const PROTO: &str = "trunkline-proto";
const ACCESS: &str = "trunkline-access";
const ALARM: &str = "trunkline-alarm";
const ENGINE: &str = "trunkline-engine";
const NET: &str = "trunkline-net";
const SERVE: &str = "trunkline-serve";
const CLIENT: &str = "trunkline-client";
const IO: &str = "trunkline-io";
const BOILER: &str = "trunkline-boiler";
const FACADE: &str = "trunkline";

/// The crate that tests of any crate may depend on.
pub(crate) const SIMULATOR: &str = "trunkline-sim";

/// Names without meaning, which no crate may have.
pub(crate) const BANNED_NAMES: [&str; 8] = [
    "common", "core", "util", "utils", "misc", "helpers", "shared", "base",
];

/// The table, from the lowest layer up.
#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    row(TYPES, 0, Only(&[]), Forbid,
        "boundary: the types that every other crate uses"),
    row(RING, 0, Only(&[]), Allowed,
        "unsafe: lock-free hand-off between threads"),
    row(TDMS, 0, Only(&[TYPES, RING]), Forbid,
        "separate use: TDMS files without an engine"),
    row(SIMDISK, 0, Only(&[]), Forbid,
        "separate use: a disk in memory, for tests and the simulator"),
    row("trunkline-crashpoints", 0, Only(&[]), Forbid,
        "separate use: processes that are stopped at every write, for tests"),
    row("trunkline-card", 1, Only(&[RING]), Forbid,
        "separate use: a simulated acquisition card, for tests and measurements"),
    row(PROTO, 1, Only(&[TYPES]), Forbid,
        "boundary: no socket, clock, thread or environment"),
    row(ACCESS, 1, Only(&[TYPES]), Forbid,
        "boundary: names, identities and actions in, decisions out"),
    row(ALARM, 1, Only(&[TYPES]), Forbid,
        "boundary: samples and time in, state changes out"),
    row(ENGINE, 2, Only(&[TYPES, RING, ACCESS, ALARM]), Forbid,
        "boundary: starts no thread, reads no clock"),
    row(NET, 2, Only(&[TYPES, RING, PROTO]), Reviewed,
        "dependencies: sockets; does not depend on variables"),
    row("trunkline-identity", 2, Only(&[TYPES, ACCESS]), Forbid,
        "dependencies: keys, passwords, certificates"),
    row(SERVE, 3, Only(&[TYPES, RING, PROTO, ACCESS, ENGINE]), Forbid,
        "boundary: connects sessions with variables"),
    row(CLIENT, 3, Only(&[TYPES, RING, PROTO]), Forbid,
        "boundary: the other end, without an engine"),
    row("trunkline-stream", 3, Only(&[TYPES, RING, SIMDISK, PROTO, NET]), Forbid,
        "separate use: lossless streams"),
    row("trunkline-config", 3, Only(&[TYPES, ACCESS]), Forbid,
        "dependencies: TOML; does not call the engine"),
    row("trunkline-store", 3, Only(&[TYPES, ENGINE]), Forbid,
        "dependencies: SQLite"),
    row("trunkline-record", 3, Only(&[TYPES, RING, SIMDISK, TDMS, ENGINE]), Allowed,
        "unsafe: io_uring and memory regions"),
    row("trunkline-history", 3, Only(&[TYPES, ENGINE]), Forbid,
        "dependencies: columnar storage"),
    row(IO, 3, Only(&[TYPES, RING, ENGINE]), Forbid,
        "dependencies: reads of the machine; boundary for drivers"),
    row("trunkline-backup", 4, Only(&[TYPES, ENGINE, "trunkline-store", "trunkline-history"]), Forbid,
        "separate use: copies what an engine keeps, without one"),
    row(BOILER, 4, Only(&[TYPES, IO]), Forbid,
        "separate use: a simulated plant, for programs that want one"),
    row("trunkline-io-net", 4, Only(&[IO, CLIENT, NET]), Reviewed,
        "separate use: mirrors another engine"),
    row("trunkline-io-modbus", 4, Only(&[IO]), Reviewed,
        "dependencies: Modbus"),
    row("trunkline-io-opcua", 4, Only(&[IO]), Reviewed,
        "dependencies: OPC UA client"),
    row("trunkline-io-mqtt", 4, Only(&[IO]), Reviewed,
        "dependencies: MQTT"),
    row("trunkline-opcua", 4, Only(&[TYPES, ENGINE]), Forbid,
        "dependencies: OPC UA server"),
    row("trunkline-web", 4, Only(&[TYPES, PROTO, ENGINE, SERVE]), Forbid,
        "dependencies: HTTP and WebSocket"),
    row(FACADE, 5, UpTo(3, &["trunkline-history"]), Forbid,
        "separate use: the crate that users depend on"),
    row("trunkline-cli", 6, AllBelow, Forbid,
        "boundary: the composition root"),
    row("trunkline-py", 6, Only(&[FACADE, "trunkline-history"]), Allowed,
        "unsafe and dependencies: Python"),
    row("trunkline-c", 6, Only(&[FACADE]), Allowed,
        "unsafe: C"),
    development(SIMULATOR, Any,
        "boundary: seeded clock, network and scheduler"),
    development("xtask", Only(&[]),
        "dependencies: checks of the tree"),
];

/// The row of a crate.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.name == name)
}
