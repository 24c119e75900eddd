//! The server over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_web::{
    AllowedHosts, CONNECTIONS_MAX, HEADER_BYTES_MAX, HealthSnapshot, HealthSource, HttpError,
    HttpListener, HttpServer,
};

/// Long enough for any machine; only a test that hangs ever waits for it.
const CUT_OFF: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Source(Mutex<HealthSnapshot>);

impl HealthSource for Source {
    fn snapshot(&self) -> HealthSnapshot {
        self.0.lock().unwrap().clone()
    }
}

fn start() -> (HttpServer, Arc<Source>) {
    let listener = HttpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let source = Arc::new(Source::default());
    let hosts = AllowedHosts::new(["plant7.example"]).unwrap();
    let server = listener
        .serve(hosts, Arc::clone(&source) as Arc<_>)
        .unwrap();
    (server, source)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(CUT_OFF)).unwrap();
    stream
}

/// Sends this, and returns everything until the server closes the connection.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    // A server that refuses a request may reset the connection after its response.
    let _ = stream.read_to_end(&mut response);
    String::from_utf8(response).unwrap()
}

fn get(address: SocketAddr, path: &str) -> String {
    exchange(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    )
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or("no status")
}

#[test]
fn addresses_that_other_machines_can_reach_are_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let error = HttpListener::bind(address.parse().unwrap()).unwrap_err();
        assert!(matches!(error, HttpError::NotLoopback { .. }), "{error}");
        assert!(
            error.to_string().contains("other machines can reach"),
            "{error}"
        );
    }
}

#[test]
fn port_in_use_is_an_error_that_names_it() {
    let (server, _) = start();
    let error = HttpListener::bind(server.address()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&server.address().port().to_string()),
        "{error}"
    );
}

#[test]
fn responses_permit_no_other_site_and_close_the_connection() {
    let (server, _) = start();
    let response = get(server.address(), "/metrics").to_lowercase();
    assert_eq!(status(&response), "200", "{response}");
    assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
    assert!(
        response.contains("\r\nx-content-type-options: nosniff\r\n"),
        "{response}"
    );
    assert!(
        response.contains("content-type: application/openmetrics-text"),
        "{response}"
    );
    assert!(!response.contains("access-control"), "{response}");
    assert!(response.ends_with("# eof\n"), "{response}");
}

#[test]
fn second_request_on_a_connection_is_not_answered() {
    let (server, _) = start();
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2);
    let response = exchange(server.address(), &request);
    assert_eq!(response.matches("HTTP/1.1").count(), 1, "{response}");
}

#[test]
fn liveness_follows_the_housekeeping_of_the_engine() {
    let (server, source) = start();
    let response = get(server.address(), "/healthz");
    assert_eq!(status(&response), "200", "{response}");
    source.0.lock().unwrap().housekeeping_age = Duration::from_secs(6);
    let response = get(server.address(), "/healthz");
    assert_eq!(status(&response), "503", "{response}");
    assert!(response.contains("has not run for 6.0 s"), "{response}");
    // The figures are available all the same.
    let response = get(server.address(), "/metrics");
    assert!(
        response.contains("\ntrunkline_housekeeping_age_seconds 6.0\n"),
        "{response}"
    );
}

#[test]
fn readiness_is_json_with_reasons() {
    let (server, source) = start();
    let body = |response: &str| response.split("\r\n\r\n").nth(1).unwrap_or("").to_owned();
    let response = get(server.address(), "/readyz");
    assert_eq!(status(&response), "200", "{response}");
    assert!(
        body(&response).starts_with(r#"{"ready":true,"checks":["#),
        "{response}"
    );
    source.0.lock().unwrap().configuration_fault = Some("\"x\" is unknown".to_owned());
    let response = get(server.address(), "/readyz");
    assert_eq!(status(&response), "503", "{response}");
    let check = r#"{"name":"configuration","ok":false,"reason":"\"x\" is unknown"}"#;
    assert!(body(&response).contains(check), "{response}");
}

#[test]
fn requests_for_other_hosts_are_refused() {
    let (server, _) = start();
    let to_host = |host: &str| {
        exchange(
            server.address(),
            &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        )
    };
    assert_eq!(status(&to_host("plant7.example:8420")), "200");
    let response = to_host("evil.example");
    assert_eq!(status(&response), "421", "{response}");
    assert!(!response.contains("trunkline_"), "{response}");
    let response = exchange(server.address(), "GET /metrics HTTP/1.0\r\n\r\n");
    assert_eq!(status(&response), "400", "{response}");
}

#[test]
fn other_methods_and_paths_are_refused() {
    let (server, _) = start();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let request = format!("{method} /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let response = exchange(server.address(), &request);
        assert_eq!(status(&response), "405", "{response}");
        assert!(response.contains("allow: GET, HEAD\r\n"), "{response}");
    }
    let request = "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let response = exchange(server.address(), request);
    assert_eq!(status(&response), "200", "{response}");
    assert!(response.ends_with("\r\n\r\n"), "{response}");
    assert_eq!(status(&get(server.address(), "/")), "404");
}

#[test]
fn headers_beyond_the_limit_are_refused() {
    let (server, _) = start();
    let request = |padding: usize| {
        let padding = "x".repeat(padding);
        let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nPad: {padding}\r\n\r\n");
        exchange(server.address(), &request)
    };
    assert_eq!(status(&request(HEADER_BYTES_MAX - 200)), "200");
    let response = request(HEADER_BYTES_MAX);
    assert!(
        ["431", "no status"].contains(&status(&response)),
        "{response}"
    );
    let many = "a: b\r\n".repeat(200);
    let response = exchange(
        server.address(),
        &format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"),
    );
    assert!(
        ["431", "no status"].contains(&status(&response)),
        "{response}"
    );
}

/// Silent connections take all places. Others get their answers without waiting for them, because each new
/// connection closes the oldest.
///
/// Failure mode: F12.
#[test]
fn new_connection_closes_the_oldest_of_too_many() {
    let (server, _source) = start();
    let mut silent: Vec<TcpStream> = (0..CONNECTIONS_MAX)
        .map(|_| connect(server.address()))
        .collect();
    for _ in 0..3 {
        assert_eq!(status(&get(server.address(), "/healthz")), "200");
    }
    // Only the first request needed a place. The others used the same one again. A closed connection is
    // at its end at once, before the time for a request is over.
    silent[..2]
        .iter()
        .for_each(|stream| stream.set_nonblocking(true).unwrap());
    assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
    let open = silent[1].read(&mut [0]).unwrap_err();
    assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
}

/// Connections that do not send a whole request are closed after a few seconds.
#[test]
fn silent_connections_are_closed() {
    let (server, _source) = start();
    let mut silent: Vec<TcpStream> = (0..4).map(|_| connect(server.address())).collect();
    silent[0].write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    for stream in &mut silent {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{rest:?}");
    }
}

#[test]
fn garbage_is_answered_or_ignored_and_does_no_harm() {
    let (server, _) = start();
    for garbage in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "\u{16}\u{3}\u{1}hello\r\n\r\n",
        "\r\n\r\n\r\n",
    ] {
        let mut stream = connect(server.address());
        stream.write_all(garbage.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(status(&get(server.address(), "/healthz")), "200");
}

#[test]
fn port_is_free_after_the_server_was_dropped() {
    let (server, _) = start();
    let address = server.address();
    let _open = connect(address);
    drop(server);
    HttpListener::bind(address).unwrap();
}
