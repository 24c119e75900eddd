//! Rooms: the modules of a crate in ranks. A file may import its own room and rooms of lower ranks.
//!
//! A room is a file or a folder that owns one thing; decision 0057 explains why. Files of one room may
//! import each other. `lib.rs` is above all rooms.

mod imports;

use std::collections::BTreeMap;

use self::imports::SourceFile;
use super::RULE;
use crate::finding::Finding;
use crate::tree::Tree;

const TABLE_FILE: &str = "xtask/src/layers/rooms/mod.rs";

/// Rooms from rank 0 up. A room is the path of a module. A room with several paths still has to be split.
type Ranks = &'static [&'static [&'static str]];

#[rustfmt::skip]
const CRATES: &[(&str, Ranks)] = &[
    ("trunkline-engine", &[
        &["sync", "update"],
        &["rights"],
        &["caller"],
        &["outcome"],
        &["fifo"],
        &["delivery"],
        &["variable"],
        &["variables"],
        &["write"],
        &["subscriptions", "features/alias"],
        &["features/providers"],
        &["features/ages", "features/alarms", "features/audit", "features/tables"],
        &["features/leases"],
        &["features/control", "features/forcing"],
        &["features/fields", "features/groups", "features/realtime"],
        &["features", "features/libraries"],
        &["host", "queries"],
        &["engine"],
    ]),
    ("trunkline-client", &[
        &["error", "event", "state", "table"],
        &["options"],
        &["variables"],
        &["answer", "ask", "connection", "recorded"],
        &["client_state"],
        &["subscriptions/remote"],
        &["writes"],
        &["subscriptions", "typed"],
        &["patterns", "provider"],
        &["parts"],
        &["explain"],
        &["request"],
        &["client"],
    ]),
    ("trunkline-net", &[
        &["clock", "peer_user", "signal", "sync"],
        &["role", "spin", "transport"],
        &["outgoing", "sleeper"],
        &["dial", "idle_wait"],
        &["link", "near", "server"],
        &["housekeeper"],
    ]),
    ("trunkline-serve", &[
        &["answers", "fault", "sync", "unfinished", "window"],
        &["gate", "gathering", "request_budget", "updates"],
        &["login"],
        &["options"],
        &["write_run"],
        &["context"],
        &["requests"],
        &["session"],
    ]),
    ("trunkline-stream", &[
        &["sync", "wait"],
        &["journal"],
        &["error"],
        &["element", "options"],
        &["end"],
        &["handle"],
        &["properties"],
        &["directory"],
        &["bytes"],
        &["fan_bytes"],
        &["rendezvous"],
        &["typed"],
        &["sim"],
    ]),
    ("trunkline-record", &[
        &["clock", "ended", "error", "watched_path"],
        &["backend"],
        &["staging"],
        &["queue", "read_queue"],
        &["tdms_file", "tdms_recording"],
        &["playback", "tdms_series"],
        &["variables"],
    ]),
    ("trunkline-tdms", &[
        &["data_type", "read_at", "text", "time"],
        &["element", "path"],
        &["fault", "lead_in", "values"],
        &["index_file", "open", "property"],
        &["metadata", "waveform", "writer"],
        &["raw_index"],
        &["layout"],
        &["objects"],
        &["map"],
        &["walk"],
        &["file"],
        &["channel", "sums", "windowed"],
        &["read_values", "recover", "rows", "scale"],
        &["rewrite"],
    ]),
    ("trunkline-history", &[
        &["error", "private", "sync"],
        &["database", "lock_file", "paths"],
        &["catalogue"],
        &["log", "rules"],
        &["files"],
        &["query"],
        &["folder"],
        &["engine"],
    ]),
    ("trunkline-ring", &[
        &["large_pages", "padded", "position", "sync", "words"],
        &["last_value", "slab", "waits", "whole_word"],
        &["byte_ring", "four_slots", "mark_set", "reader", "slot_memory", "slot_table", "value_table"],
        &["element_ring", "rt_cell", "slot_ring"],
        &["fifo", "region"],
    ]),
];

/// Largest number of files with inherent `impl`s of one type.
const IMPL_FILES_MAX: usize = 4;

/// Exceptions: crate, type and number of files. The numbers may only fall. The simulator has two types of
/// each of its names, one for engines and one for streams.
const SPREAD: &[(&str, &str, usize)] = &[
    ("trunkline-sim", "Checker", 5),
    ("trunkline-sim", "World", 11),
    ("trunkline-tdms", "TdmsFile", 7),
];

/// Applies the ranks to the crates of the table, and the bound to all crates.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let paths = tree.texts().map(|(path, _)| path);
    let names = paths.filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/src/lib.rs"));
    for name in names {
        let files = imports::read_crate(tree, &format!("crates/{name}/src"))?;
        if let Some((_, ranks)) = CRATES.iter().find(|(of, _)| *of == name) {
            findings.extend(check_order(ranks, &files));
        }
        let spread = SPREAD.iter().filter(|(of, ..)| *of == name);
        let spread = spread.map(|(_, type_name, files)| (*type_name, *files));
        findings.extend(check_spread(name, &spread.collect(), &files));
    }
    Ok(findings)
}

/// Returns the ranks of each crate as a table for the book.
pub(crate) fn ranks_in_markdown() -> String {
    let mut table = "| Crate | Modules, lowest rank first |\n|---|---|\n".to_owned();
    for (name, ranks) in CRATES {
        let one_room = |paths: &&str| paths.split_whitespace().collect::<Vec<_>>().join(" + ");
        let rows = ranks
            .iter()
            .map(|row| row.iter().map(one_room).collect::<Vec<_>>().join(", "));
        let rows: Vec<String> = rows.collect();
        table += &format!("| `{name}` | {} |\n", rows.join(" < "));
    }
    table
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Room {
    name: &'static str,
    rank: usize,
}

/// Returns the room of each path in the ranks.
fn rooms_by_path(ranks: Ranks) -> BTreeMap<&'static str, Room> {
    let mut rooms = BTreeMap::new();
    for (rank, row) in ranks.iter().enumerate() {
        for paths in *row {
            let name = paths.split_whitespace().next().unwrap_or_default();
            rooms.extend(paths.split_whitespace().map(|p| (p, Room { name, rank })));
        }
    }
    rooms
}

/// Returns the room with the longest matching part of the path.
fn room_of(rooms: &BTreeMap<&str, Room>, path: &[String]) -> Option<Room> {
    let mut lengths = (1..=path.len()).rev();
    lengths.find_map(|length| rooms.get(path[..length].join("/").as_str()).copied())
}

fn check_order(ranks: Ranks, files: &[SourceFile]) -> Vec<Finding> {
    let rooms = rooms_by_path(ranks);
    let is_module = |path: &str| files.iter().any(|f| f.module.join("/") == path);
    let stale = rooms.keys().filter(|path| !is_module(path));
    let mut findings: Vec<Finding> = stale
        .map(|path| Finding::of_file(TABLE_FILE, RULE, format!("there is no module {path}")))
        .collect();
    for file in files.iter().filter(|file| !file.module.is_empty()) {
        let Some(own) = room_of(&rooms, &file.module) else {
            let message = format!("the file is in no room; give it a rank in {TABLE_FILE}");
            findings.push(Finding::of_file(&file.path, RULE, message));
            continue;
        };
        for (line, path) in &file.imports {
            let message = match room_of(&rooms, path) {
                Some(other) if other == own || other.rank < own.rank => continue,
                Some(other) => format!(
                    "{} ({}) imports {} ({}); move what it needs down, or pass it in",
                    own.name, own.rank, other.name, other.rank
                ),
                None => format!(
                    "`crate::{}` is in no room; name the module that defines it",
                    path.join("::")
                ),
            };
            findings.push(Finding::at(&file.path, *line, RULE, message));
        }
    }
    findings
}

/// Checks the number of files of each type. `spread` has the types that may be in more files.
fn check_spread(krate: &str, spread: &BTreeMap<&str, usize>, files: &[SourceFile]) -> Vec<Finding> {
    let mut counts: BTreeMap<&str, usize> = spread.keys().map(|name| (*name, 0)).collect();
    for name in files.iter().flat_map(|file| &file.impls) {
        *counts.entry(name).or_default() += 1;
    }
    let finding = |(name, count)| {
        let most = spread.get(name).copied().unwrap_or(IMPL_FILES_MAX);
        let cure = if count > most {
            format!("{most} may; move methods to types that own their data")
        } else if count < most && spread.contains_key(name) {
            format!("write this number in {TABLE_FILE}, or delete the line at {IMPL_FILES_MAX}")
        } else {
            return None;
        };
        let message = format!("`{name}` has inherent `impl`s in {count} files: {cure}");
        Some(Finding::of_file(
            &format!("crates/{krate}/src"),
            RULE,
            message,
        ))
    };
    counts.into_iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests;
