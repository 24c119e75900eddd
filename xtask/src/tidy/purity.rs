//! The items that crates without threads, clocks and sockets may not use.
//!
//! Their locks, atomics and threads come from one `sync` module per crate (the standard library, or loom, or
//! shuttle), so that a test can replace them. Time and bytes are arguments. The rules search each line for
//! words, except comment lines and everything from `mod tests {` on, which ends a file.

use crate::finding::Finding;
use crate::tree::{Tree, is_test_file};
use crate::words::{has_word, is_comment};

/// Crates whose primitives come from their own `sync` module.
const WITH_SYNC_MODULE: [&str; 5] = [
    "trunkline-ring",
    "trunkline-engine",
    "trunkline-serve",
    "trunkline-client",
    "trunkline-proto",
];

/// Crates without input or output.
const SANS_IO: [&str; 5] = [
    "trunkline-access",
    "trunkline-engine",
    "trunkline-serve",
    "trunkline-client",
    "trunkline-proto",
];

/// Locks, atomics and their replacements are named only in `sync.rs` or below `sync/`.
pub(super) fn primitives_outside_sync(tree: &Tree) -> Vec<Finding> {
    let paths = [
        "sync::atomic",
        "parking_lot::",
        "loom::",
        "shuttle::",
        "std::thread",
    ];
    let names = [
        "Mutex", "RwLock", "Condvar", "Once", "OnceLock", "LazyLock", "Barrier", "mpsc",
    ];
    let is_primitive = |line: &str| {
        paths
            .iter()
            .any(|p| line.contains(p) && !line.contains("crate::sync"))
            || line.contains("std::sync::") && names.iter().any(|n| has_word(line, n))
    };
    let message = "a lock, an atomic or a thread by its own name; take it from the crate's `sync` \
                   module, so that loom and shuttle can stand in for it";
    find(
        tree,
        "primitives-outside-sync",
        &WITH_SYNC_MODULE,
        is_primitive,
        message,
    )
}

/// Crates without input and output use no socket, file, process, environment or clock.
pub(super) fn environment_in_sans_io(tree: &Tree) -> Vec<Finding> {
    let reached = [
        "std::fs",
        "std::env",
        "std::process",
        "std::net::Tcp",
        "std::net::Udp",
        "os::unix::net",
        "Instant::now",
        "SystemTime",
        "thread::spawn",
    ];
    let is_reaching = |line: &str| reached.iter().any(|r| line.contains(r));
    let message = "this crate reads no clock and touches no socket, file or environment; take it \
                   as an argument, or move the code to `trunkline-net` or above";
    find(
        tree,
        "environment-in-sans-io",
        &SANS_IO,
        is_reaching,
        message,
    )
}

fn find(
    tree: &Tree,
    rule: &'static str,
    crates: &[&str],
    is_wrong: impl Fn(&str) -> bool,
    message: &str,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_ending("rs") {
        let mut segments = path.split('/');
        let in_crates = segments.next() == Some("crates");
        let is_concerned = in_crates && segments.next().is_some_and(|c| crates.contains(&c));
        if !is_concerned || is_test_file(path) || is_sync_module(path) {
            continue;
        }
        let product = text.lines().take_while(|line| *line != "mod tests {");
        let wrong = product
            .enumerate()
            .filter(|(_, line)| !is_comment(line) && is_wrong(line));
        findings.extend(wrong.map(|(index, _)| Finding::at(path, index + 1, rule, message)));
    }
    findings
}

fn is_sync_module(path: &str) -> bool {
    path.ends_with("/sync.rs") || path.contains("/sync/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: &[Finding]) -> Vec<usize> {
        findings.iter().map(|f| f.line).collect()
    }

    #[test]
    fn primitive_outside_the_sync_module_is_detected() {
        let text = "use std::sync::{Arc, Mutex};\nuse std::sync::Arc;\nuse core::sync::atomic::*;\n\
                    use crate::sync::{Mutex, atomic::AtomicU64};\n// std::sync::Mutex\n#[cfg(test)]\nmod tests {\n\
                    use std::sync::Mutex;\n}\n";
        let tree = Tree::of(&[
            ("crates/trunkline-engine/src/cell.rs", text),
            ("crates/trunkline-engine/src/sync.rs", text),
            ("crates/trunkline-engine/tests/cell.rs", text),
            ("crates/trunkline-net/src/link.rs", text),
        ]);
        let found = primitives_outside_sync(&tree);
        assert_eq!(lines(&found), [1, 3], "{found:?}");
    }

    #[test]
    fn clock_and_socket_in_a_sans_io_crate_are_detected() {
        let text = "use std::net::SocketAddr;\nuse std::net::TcpStream;\nlet t = Instant::now();\n";
        let tree = Tree::of(&[
            ("crates/trunkline-proto/src/hello.rs", text),
            ("crates/trunkline-net/src/link.rs", text),
        ]);
        assert_eq!(lines(&environment_in_sans_io(&tree)), [2, 3]);
    }
}
