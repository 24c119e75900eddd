//! The HTTP server of an engine: metrics, liveness and readiness.

use std::io::{Read, Write};
use std::net::TcpStream;

use tempfile::TempDir;
use trunkline_net::Clock;
use trunkline_web::metrics::METRICS;

use crate::rig::{CUT_OFF, RIG, Running, finish, run};

/// An engine with an HTTP server.
struct Watched {
    engine: Running,
    /// Address and port of the HTTP server.
    http: String,
    url: String,
    _folder: TempDir,
}

impl Watched {
    fn start(config: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plant.toml");
        std::fs::write(&file, config).unwrap();
        let fixed = ["serve", file.to_str().unwrap(), "--listen", "127.0.0.1:0"];
        let engine = Running::start(&[&fixed, arguments].concat());
        let line = engine.line_with("HTTP: ");
        let http = line.strip_prefix("HTTP: http://").unwrap().to_owned();
        let line = engine.line_with("Listening on tl://");
        let url = line.split(' ').find(|word| word.starts_with("tl://"));
        Self {
            url: url.unwrap().to_owned(),
            engine,
            http,
            _folder: folder,
        }
    }

    fn get(&self, path: &str) -> Response {
        self.get_for("localhost", path)
    }

    fn get_for(&self, host: &str, path: &str) -> Response {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        stream.set_read_timeout(Some(CUT_OFF)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        Response {
            status: head.split(' ').nth(1).unwrap().to_owned(),
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    /// The current value of a metric; `name` includes its labels.
    fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").body;
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(found, _)| *found == name);
        let Some((_, value)) = found else {
            panic!("there is no {name}:\n{text}");
        };
        value.parse().unwrap()
    }

    /// Reads a metric until it has this value, which it has after the next measurement.
    fn await_metric(&self, name: &str, value: f64) {
        let clock = Clock::new();
        let end = clock.now().saturating_add(CUT_OFF);
        loop {
            let newest = self.metric(name);
            if newest == value {
                return;
            }
            assert!(clock.now() < end, "{name} is {newest}, not {value}");
        }
    }

    fn run(&self, arguments: &[&str]) {
        let mut command = crate::rig::command(arguments);
        let output = finish(command.env("TRUNKLINE_URL", &self.url), "");
        assert_eq!(output.code, Some(0), "{output:?}");
    }
}

#[derive(Debug)]
struct Response {
    status: String,
    head: String,
    body: String,
}

/// The value of a key in the example, which has each of these keys once.
fn collected<'a>(example: &'a str, key: &str) -> &'a str {
    let mut values = example
        .lines()
        .filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix(key));
    let value = values.next().unwrap_or_else(|| panic!("no {key}"));
    assert_eq!(values.next(), None, "{key} is there twice");
    value.trim()
}

/// The Collector scrapes as Prometheus does, with its `Accept`.
///
/// Behaviour: B-04.
#[test]
fn collector_reads_what_an_engine_serves() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/opentelemetry/collector.yaml"
    );
    let example = std::fs::read_to_string(path).unwrap();
    let target = collected(&example, "targets:");
    let target = target.trim_matches(['[', ']', '"']);
    let (host, port) = target.rsplit_once(':').unwrap();
    assert_eq!(port, trunkline_config::HTTP_PORT.to_string());
    let page = collected(&example, "metrics_path:");
    let pipeline = [
        collected(&example, "receivers: ["),
        collected(&example, "exporters: ["),
    ];
    assert_eq!(pipeline, ["prometheus]", "otlphttp]"]);

    let config = format!("[engine]\nhttp = \"127.0.0.1:0\"\n{RIG}");
    let sut = Watched::start(&config, &NOWHERE);
    let mut stream = TcpStream::connect(&sut.http).unwrap();
    stream.set_read_timeout(Some(CUT_OFF)).unwrap();
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
    let request = format!("GET {page} HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let head = text.to_ascii_lowercase();
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(text.contains("\ntrunkline_variables 12\n"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}

const NOWHERE: [&str; 2] = ["--store", "none"];

/// Behaviour: B-04.
#[test]
fn engine_serves_its_counters_as_metrics() {
    let config = format!("[engine]\nname = \"plant \\\"7\\\"\"\nhttp = \"127.0.0.1:0\"\n{RIG}");
    let sut = Watched::start(&config, &NOWHERE);
    let response = sut.get("/metrics");
    assert_eq!(response.status, "200");
    assert!(
        response
            .head
            .contains("content-type: application/openmetrics-text; version=1.0.0")
    );
    let version = env!("CARGO_PKG_VERSION");
    let info = format!("trunkline_engine_info{{name=\"plant \\\"7\\\"\",version=\"{version}\"}} 1");
    assert!(
        response.body.lines().any(|line| line == info),
        "{}",
        response.body
    );
    for metric in METRICS {
        let name = metric.name();
        let family = name.trim_end_matches("_total").trim_end_matches("_info");
        let help = format!("# HELP {family} {}.\n", metric.help);
        let kind = format!("# TYPE {family} {}\n", metric.type_name());
        assert!(response.body.contains(&help), "{help}");
        assert!(response.body.contains(&kind), "{kind}");
    }
    assert!(
        response.body.contains("\ntrunkline_variables 12\n"),
        "{}",
        response.body
    );
    assert!(
        response.body.contains("\nprocess_resident_memory_bytes "),
        "{}",
        response.body
    );
    assert!(
        response.body.contains("\nprocess_open_fds "),
        "{}",
        response.body
    );

    // The initial values are writes as well.
    let offered = sut.metric("trunkline_writes_offered_total");
    let accepted = sut.metric("trunkline_connections_accepted_total");
    sut.run(&["put", "rig/setpoint", "55"]);
    sut.run(&["put", "rig/setpoint", "56"]);
    sut.await_metric("trunkline_writes_offered_total", offered + 2.0);
    assert_eq!(sut.metric("trunkline_writes_refused_total"), 0.0);
    // The connection of the engine's own program may be newer than the first measurement.
    assert!(sut.metric("trunkline_connections_accepted_total") >= accepted + 2.0);
}

#[test]
fn metrics_are_measured_although_health_variables_are_off() {
    let config = format!("[engine]\nhealth = 0\nhttp = \"127.0.0.1:0\"\n{RIG}");
    let sut = Watched::start(&config, &NOWHERE);
    let offered = sut.metric("trunkline_writes_offered_total");
    sut.run(&["put", "rig/setpoint", "55"]);
    sut.await_metric("trunkline_writes_offered_total", offered + 1.0);
}

#[test]
fn alarms_are_counted_by_state_and_priority() {
    let config = "[library]\nname = \"rig\"\n[[variable]]\nname = \"level\"\ntype = \"f64\"\n\
                  initial = 50.0\nalarm.hi = { limit = 80, priority = 200 }\n";
    let sut = Watched::start(config, &["--store", "none", "--http", "127.0.0.1:0"]);
    let normal = "trunkline_alarms{state=\"normal\",priority=\"low\"}";
    let unacknowledged = "trunkline_alarms{state=\"unacknowledged\",priority=\"low\"}";
    assert_eq!((sut.metric(normal), sut.metric(unacknowledged)), (1.0, 0.0));
    sut.run(&["put", "rig/level", "90"]);
    sut.await_metric(unacknowledged, 1.0);
    assert_eq!(sut.metric(normal), 0.0);
    assert_eq!(sut.metric("trunkline_alarms_active"), 1.0);
}

#[test]
fn engine_is_ready_when_its_io_servers_are_connected() {
    let config = "[engine]\nhttp = \"127.0.0.1:0\"\n[[io]]\nname = \"here\"\ndriver = \"host\"\n\
                  publish = true\n";
    let sut = Watched::start(config, &NOWHERE);
    let response = sut.get("/healthz");
    assert_eq!(
        (response.status.as_str(), response.body.as_str()),
        ("200", "ok\n")
    );
    sut.await_metric("trunkline_io_server_connected{server=\"here\"}", 1.0);
    let response = sut.get("/readyz");
    assert_eq!(response.status, "200", "{response:?}");
    assert!(
        response.head.contains("content-type: application/json"),
        "{response:?}"
    );
    assert!(
        response.body.starts_with("{\"ready\":true,"),
        "{response:?}"
    );
    assert!(
        response.body.contains("{\"name\":\"io:here\",\"ok\":true"),
        "{response:?}"
    );

    let config = config.replace("\"host\"\npublish = true", "\"process\"");
    let sut = Watched::start(&config, &NOWHERE);
    let response = sut.get("/readyz");
    assert_eq!(response.status, "503", "{response:?}");
    assert!(
        response.body.starts_with("{\"ready\":false,"),
        "{response:?}"
    );
    let reason =
        "{\"name\":\"io:here\",\"ok\":false,\"reason\":\"it is not running; start the process";
    assert!(response.body.contains(reason), "{response:?}");
    assert_eq!(sut.get("/healthz").status, "200");
}

#[test]
fn failure_of_the_store_makes_the_engine_unready() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let config = format!("[engine]\nhttp = \"127.0.0.1:0\"\n{RIG}");
    let sut = Watched::start(&config, &["--store", store.to_str().unwrap()]);
    assert_eq!(sut.get("/readyz").status, "200");
    std::fs::remove_file(&store).unwrap();
    sut.engine.error_with("was removed or replaced");
    sut.await_metric("trunkline_store_failing", 1.0);
    let response = sut.get("/readyz");
    assert_eq!(response.status, "503", "{response:?}");
    assert!(
        response.body.contains("was removed or replaced"),
        "{response:?}"
    );
}

/// Behaviour: B-80.
#[test]
fn http_listens_on_loopback_only_and_answers_for_known_hosts_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plant.toml");
    std::fs::write(&file, RIG).unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let arguments = [
            "serve",
            file.to_str().unwrap(),
            "--insecure",
            "--http",
            address,
        ];
        let refused = run(&[&arguments[..], &["--store", "none", "--listen", "0"]].concat());
        assert_eq!(refused.code, Some(5), "{refused:?}");
        assert!(
            refused.err.contains("use 127.0.0.1 or [::1] for HTTP"),
            "{refused:?}"
        );
    }
    std::fs::write(&file, "[engine]\nhttp = \"0.0.0.0\"\n").unwrap();
    let refused = run(&["serve", file.to_str().unwrap()]);
    assert_eq!(refused.code, Some(8), "{refused:?}");
    assert!(
        refused
            .err
            .contains("other machines can reach 0.0.0.0:8420"),
        "{refused:?}"
    );

    let config = format!("[engine]\nhttp_hosts = \"plant7.example\"\n{RIG}");
    let sut = Watched::start(&config, &["--store", "none", "--http", "127.0.0.1:0"]);
    assert_eq!(sut.get_for("plant7.example", "/metrics").status, "200");
    let response = sut.get_for("evil.example", "/metrics");
    assert_eq!(response.status, "421", "{response:?}");
    assert!(!response.body.contains("trunkline_"), "{response:?}");
}

#[test]
fn http_is_off_unless_configured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plant.toml");
    std::fs::write(&file, RIG).unwrap();
    let arguments = ["serve", file.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let engine = Running::start(&[&arguments[..], &NOWHERE].concat());
    loop {
        let line = engine.line();
        assert!(!line.contains("HTTP"), "{line}");
        if line.contains("Listening on") {
            return;
        }
    }
}
