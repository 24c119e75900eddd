//! Reads the `[engine]` section.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use trunkline_types::ListenAddress;
use trunkline_types::definition::VARIABLES_MAX;
use trunkline_types::url::DEFAULT_PORT;

use crate::display::format_duration;
use crate::error::ConfigErrorKind as Kind;
use crate::fields::Values;
use crate::keys::Section;
use crate::node::{Node, NodeKind, Table};
use crate::plan::{EngineConfig, Limits, LogLevel, StoreChoice};
use crate::report::Report;
use crate::sections::{check_keys, table};

/// The port of the HTTP server unless the address has one.
pub const HTTP_PORT: u16 = 8420;

const NAME_BYTES_MAX: usize = 255;
const HOST_NAME_BYTES_MAX: usize = 253;
const HTTP_HOSTS_MAX: usize = 100;
const PATH_BYTES_MAX: usize = 4096;
const LOG_ENTRIES_MIN: i64 = 100;
const LOG_ENTRIES_MAX: i64 = 100_000_000;
const LOG_AGE_MIN: Duration = Duration::from_secs(60);
const LOG_AGE_MAX: Duration = Duration::from_secs(36_500 * 86_400);
const KEEP_ALIVE_MIN: Duration = Duration::from_millis(10);
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(3_600);
const HEALTH_MAX: Duration = Duration::from_secs(3_600);

/// Maximum spin time: longer spinning costs more than the wake-up that it saves.
const SPIN_MAX: Duration = Duration::from_millis(1);
const DEADLINE_MAX: Duration = Duration::from_secs(86_400);

const LOG_LEVELS: &[(&str, LogLevel)] = &[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

/// Reads the section. A setting that is absent or invalid has its default.
pub(crate) fn read(section: &Table, report: &mut Report) -> EngineConfig {
    check_keys(section, Section::Engine, report);
    let mut engine = EngineConfig::default();
    let mut values = Values::plain(report);
    if let Some(node) = section.node("name") {
        engine.name = values.text_within("name", node, NAME_BYTES_MAX);
    }
    if let Some(store) = section
        .node("store")
        .and_then(|node| store(node, &mut values))
    {
        engine.store = store;
    }
    let mut read_folder = |key: &str| {
        let node = section.node(key)?;
        folder(key, node, &mut values)
    };
    engine.history = read_folder("history");
    engine.history_spool = read_folder("history_spool");
    if let Some(node) = section.node("history_spool")
        && engine.history.is_some()
        && engine.history == engine.history_spool
    {
        values.report.error(node.place, Kind::SpoolIsHistory);
    }
    let mut read_log = |keys: [&'static str; 2], entries: &mut u64, age: &mut Option<Duration>| {
        let [entries_key, age_key] = keys;
        if let Some(node) = section.node(entries_key)
            && let Some(found) =
                values.integer(entries_key, node, LOG_ENTRIES_MIN..=LOG_ENTRIES_MAX)
        {
            *entries = found.unsigned_abs();
        }
        if let Some(node) = section.node(age_key) {
            *age = match &node.kind {
                NodeKind::Text(text) if text == "none" => None,
                _ => values.duration(age_key, node, LOG_AGE_MIN..=LOG_AGE_MAX),
            };
        }
    };
    read_log(
        ["audit_entries", "audit_age"],
        &mut engine.audit_entries,
        &mut engine.audit_age,
    );
    read_log(
        ["alarm_journal_entries", "alarm_journal_age"],
        &mut engine.alarm_journal_entries,
        &mut engine.alarm_journal_age,
    );
    if let Some(node) = section.node("same_user") {
        engine.same_user = values.boolean("same_user", node).unwrap_or_default();
    }
    if let Some(node) = section.node("insecure") {
        engine.insecure = values.boolean("insecure", node).unwrap_or_default();
    }
    if let Some(node) = section.node("security") {
        engine.security = folder("security", node, &mut values);
    }
    let is_reachable_safely = engine.insecure || engine.security.is_some();
    if let Some(listen) = section
        .node("listen")
        .and_then(|node| listen(node, is_reachable_safely, &mut values))
    {
        engine.listen = listen;
    }
    if let Some(node) = section.node("http") {
        engine.http = http(node, &mut values);
    }
    if let Some(node) = section.node("http_hosts") {
        engine.http_hosts = http_hosts(node, &mut values).unwrap_or_default();
    }
    if let Some(node) = section.node("local_socket") {
        engine.local_socket = values.boolean("local_socket", node).unwrap_or(true);
    }
    if let Some(node) = section.node("shared_memory") {
        engine.shared_memory = values.boolean("shared_memory", node).unwrap_or(true);
    }
    if let Some(node) = section.node("log_level") {
        engine.log_level = values.choice("log_level", node, LOG_LEVELS);
    }
    timing(section, &mut engine, &mut values);
    if let Some(limits) = table(section, "limits", values.report) {
        engine.limits = read_limits(limits, values.report);
    }
    engine
}

fn store(node: &Node, values: &mut Values<'_, '_>) -> Option<StoreChoice> {
    let text = values.text_within("store", node, PATH_BYTES_MAX)?;
    if text == "none" {
        return Some(StoreChoice::Off);
    }
    if text.is_empty() {
        return values.wrong_form("store", node, "the path of a file, or \"none\"");
    }
    Some(StoreChoice::File(path(text, node, values)))
}

/// Reads the path of the history folder, its spool or the security folder.
fn folder(key: &str, node: &Node, values: &mut Values<'_, '_>) -> Option<PathBuf> {
    let text = values.text_within(key, node, PATH_BYTES_MAX)?;
    if text == "none" && key == "history" {
        let expected = "the path of a folder; remove the [[history]] sections to record nothing";
        return values.wrong_form(key, node, expected);
    }
    if text == "none" {
        let expected = "the path of a folder; remove the key if there is none";
        return values.wrong_form(key, node, expected);
    }
    if text.is_empty() {
        return values.wrong_form(key, node, "the path of a folder");
    }
    Some(path(text, node, values))
}

/// Resolves a relative path against the folder of the configuration file.
fn path(text: String, node: &Node, values: &Values<'_, '_>) -> PathBuf {
    let source = values.report.source(node.place.source);
    let folder = source.and_then(|source| source.path.as_deref()?.parent());
    match folder {
        Some(folder) => folder.join(text),
        None => PathBuf::from(text),
    }
}

fn timing(section: &Table, engine: &mut EngineConfig, values: &mut Values<'_, '_>) {
    let mut duration = |key: &str, min, max| match section.node(key) {
        Some(node) => values.duration(key, node, min..=max).map(Some),
        None => Some(None),
    };
    let keep_alive = duration("keep_alive", KEEP_ALIVE_MIN, KEEP_ALIVE_MAX);
    let deadline = duration("deadline", KEEP_ALIVE_MIN, DEADLINE_MAX);
    if let Some(health) = duration("health", Duration::ZERO, HEALTH_MAX) {
        engine.health = health.unwrap_or(engine.health);
    }
    if let Some(spin) = duration("spin", Duration::ZERO, SPIN_MAX) {
        engine.spin = spin.unwrap_or(engine.spin);
    }
    let (Some(keep_alive), Some(deadline)) = (keep_alive, deadline) else {
        return;
    };
    engine.keep_alive = keep_alive.unwrap_or(engine.keep_alive);
    engine.deadline = deadline.unwrap_or(engine.deadline);
    if engine.deadline < engine.keep_alive.saturating_mul(2) {
        let node = section
            .node("deadline")
            .or_else(|| section.node("keep_alive"));
        let keep_alive = format_duration(engine.keep_alive);
        let deadline = format_duration(engine.deadline);
        let place = node.map_or(section.place, |node| node.place);
        values.report.error(
            place,
            Kind::DeadlineTooShort {
                keep_alive,
                deadline,
            },
        );
    }
}

fn listen(
    node: &Node,
    may_be_reachable: bool,
    values: &mut Values<'_, '_>,
) -> Option<Vec<ListenAddress>> {
    let nodes = match &node.kind {
        NodeKind::List(nodes) if !nodes.is_empty() => nodes.as_slice(),
        NodeKind::Text(_) => std::slice::from_ref(node),
        _ => {
            return values.wrong_form("listen", node, "an address, or a list of addresses");
        }
    };
    let mut addresses = Vec::with_capacity(nodes.len());
    for node in nodes {
        let text = values.text("listen", node)?;
        let address = match ListenAddress::parse_unix(text.trim()) {
            Some(Ok(address)) => address,
            Some(Err(error)) => {
                let reason = error.to_string();
                values
                    .report
                    .error(node.place, Kind::InvalidSocket { reason });
                continue;
            }
            None => match parse_address(&text, DEFAULT_PORT) {
                Some(address) => address.into(),
                None => {
                    values
                        .report
                        .error(node.place, Kind::InvalidAddress { text });
                    continue;
                }
            },
        };
        let is_reachable = |address: SocketAddr| !address.ip().to_canonical().is_loopback();
        if addresses.contains(&address) {
            values.report.error(node.place, Kind::AddressTwice { text });
        } else if !may_be_reachable && address.tcp().is_some_and(is_reachable) {
            let address = address.to_string();
            values
                .report
                .error(node.place, Kind::NotLoopback { address });
        } else {
            addresses.push(address);
        }
    }
    Some(addresses)
}

/// Reads the address of the HTTP server. Until its requests are authenticated, `insecure` does not
/// permit other addresses than loopback.
fn http(node: &Node, values: &mut Values<'_, '_>) -> Option<SocketAddr> {
    let text = values.text("http", node)?;
    let Some(address) = parse_address(&text, HTTP_PORT) else {
        values
            .report
            .error(node.place, Kind::InvalidAddress { text });
        return None;
    };
    if !address.ip().to_canonical().is_loopback() {
        let address = address.to_string();
        values
            .report
            .error(node.place, Kind::HttpNotLoopback { address });
        return None;
    }
    Some(address)
}

fn http_hosts(node: &Node, values: &mut Values<'_, '_>) -> Option<Vec<String>> {
    let nodes = match &node.kind {
        NodeKind::List(nodes) if nodes.len() <= HTTP_HOSTS_MAX => nodes.as_slice(),
        NodeKind::Text(_) => std::slice::from_ref(node),
        _ => {
            let expected = "a host name, or a list of at most 100 host names";
            return values.wrong_form("http_hosts", node, expected);
        }
    };
    let mut hosts = Vec::with_capacity(nodes.len());
    for node in nodes {
        let text = values.text("http_hosts", node)?;
        match is_host_name(&text) {
            true => hosts.push(text),
            false => values.report.error(node.place, Kind::InvalidHost { text }),
        }
    }
    Some(hosts)
}

fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_permitted = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_permitted)
    };
    name.len() <= HOST_NAME_BYTES_MAX && name.split('.').all(is_label)
}

/// Parses an address with or without a port.
fn parse_address(text: &str, default_port: u16) -> Option<SocketAddr> {
    let text = text.trim();
    let host = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    let with_default_port = |ip: IpAddr| SocketAddr::new(ip, default_port);
    text.parse()
        .ok()
        .or_else(|| host.parse().ok().map(with_default_port))
}

fn read_limits(section: &Table, report: &mut Report) -> Limits {
    check_keys(section, Section::Limits, report);
    let mut limits = Limits::default();
    let mut values = Values::plain(report);
    let mut count = |key: &str, max: i64, default: u32| {
        let node = section.node(key)?;
        values
            .integer(key, node, 1..=max)
            .map_or(Some(default), |count| Some(count as u32))
    };
    let sessions = count("sessions_max", 100_000, limits.sessions_max);
    let handshakes = count("handshakes_max", 100_000, limits.handshakes_max);
    let per_address = count(
        "connections_per_address",
        1_000_000,
        limits.connections_per_address,
    );
    let items = count(
        "items_per_session_max",
        100_000_000,
        limits.items_per_session_max,
    );
    let writes = count(
        "writes_per_session_max",
        1_000_000,
        limits.writes_per_session_max,
    );
    let variables = count("variables_max", VARIABLES_MAX as i64, limits.variables_max);
    let mut bytes = |key: &str, min: i64, max: i64| {
        let node = section.node(key)?;
        values.bytes(key, node, min..=max)
    };
    let queue = bytes("queue_bytes_per_session_max", 64 << 10, 64 << 30);
    let all_queues = bytes("queue_bytes_max", 1 << 20, 16 << 40);
    let requests = bytes("request_bytes_max", 1 << 20, 16 << 40);
    let write_bytes = bytes("write_bytes_per_session_max", 1 << 10, 1 << 30);
    limits.sessions_max = sessions.unwrap_or(limits.sessions_max);
    limits.handshakes_max = handshakes.unwrap_or(limits.handshakes_max);
    limits.connections_per_address = per_address.unwrap_or(limits.connections_per_address);
    limits.items_per_session_max = items.unwrap_or(limits.items_per_session_max);
    limits.writes_per_session_max = writes.unwrap_or(limits.writes_per_session_max);
    limits.variables_max = variables.unwrap_or(limits.variables_max);
    limits.queue_bytes_per_session_max =
        queue.map_or(limits.queue_bytes_per_session_max, |bytes| bytes as u64);
    limits.queue_bytes_max = all_queues.map(|bytes| bytes as u64);
    limits.request_bytes_max = requests.map(|bytes| bytes as u64);
    limits.write_bytes_per_session_max =
        write_bytes.map_or(limits.write_bytes_per_session_max, |bytes| bytes as u32);
    limits
}
