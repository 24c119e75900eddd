//! Provides helpers for the tests: pairs of endpoints, unique addresses, waits, and an executor for one
//! task.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use trunkline_net::Clock;
use trunkline_stream::{Element, Options, Properties, Reader, StreamError, Writer};

use crate::proxy::Proxy;

/// Time after which a test fails.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of a call that is expected to succeed.
pub const LONG: Option<Duration> = Some(TEST_TIMEOUT);

/// Timeout of a call that is expected to time out.
pub const SHORT: Option<Duration> = Some(Duration::from_millis(20));

/// A timeout of zero: the call does not wait.
pub const NONE: Option<Duration> = Some(Duration::ZERO);

/// Returns an unused address, which differs for each process and each call.
pub fn address() -> SocketAddr {
    static PORTS: Mutex<u16> = Mutex::new(20_000);
    let mut port = PORTS.lock().unwrap();
    *port += 1;
    if crate::NEAR {
        // Below the system's ephemeral ports, and rarely used by another process.
        let own = std::process::id()
            .wrapping_mul(151)
            .wrapping_add((*port).into());
        let port = 10_000 + (own % 20_000) as u16;
        return SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    }
    let [_, a, b, c] = std::process::id().to_be_bytes();
    // 127.0.0.0/8 is all of this machine; connections come from 127.0.0.1.
    let host = Ipv4Addr::new(127, a | 0x80, b, c | 1);
    SocketAddr::new(host.into(), *port)
}

/// Returns the URL of an endpoint at an address.
pub fn url(address: SocketAddr, name: &str) -> String {
    format!("tl://{address}/{name}")
}

/// Returns a unique URL.
pub fn unique_url(name: &str) -> String {
    url(address(), name)
}

/// Returns options for a buffer of this number of elements.
pub fn options(capacity: usize) -> Options {
    Options {
        capacity,
        timeout: LONG,
        program: "tests".to_owned(),
        sockets: crate::NEAR.then(sockets),
        ..Options::default()
    }
}

/// Like [`options`], naming a peer.
pub fn naming(peer: &str, options: Options) -> Options {
    Options {
        peer: Some(peer.to_owned()),
        ..options
    }
}

/// The end that names its peer, and so dials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dials {
    Writer,
    Reader,
}

pub const EITHER: [Dials; 2] = [Dials::Writer, Dials::Reader];

/// Creates a connected pair.
pub fn pair<T: Element>(dials: Dials, capacities: [usize; 2]) -> (Writer<T>, Reader<T>) {
    let [of_writer, of_reader] = capacities.map(options);
    meet(dials, of_writer, of_reader, address(), None)
}

/// Creates a pair that is connected through a proxy.
pub fn proxied<T: Element>(dials: Dials, capacities: [usize; 2]) -> (Proxy, Writer<T>, Reader<T>) {
    let [of_writer, of_reader] = capacities.map(options);
    proxied_with(dials, of_writer, of_reader)
}

/// Like [`proxied`], with any options.
pub fn proxied_with<T: Element>(
    dials: Dials,
    of_writer: Options,
    of_reader: Options,
) -> (Proxy, Writer<T>, Reader<T>) {
    let address = address();
    let proxy = Proxy::to(address);
    let (writer, reader) = meet(dials, of_writer, of_reader, address, Some(&proxy));
    (proxy, writer, reader)
}

/// Creates a connected pair whose passive end listens at `at`.
pub fn meet<T: Element>(
    dials: Dials,
    of_writer: Options,
    of_reader: Options,
    address: SocketAddr,
    proxy: Option<&Proxy>,
) -> (Writer<T>, Reader<T>) {
    let passive = url(address, "passive");
    let dialled = url(proxy.map_or(address, Proxy::address), "passive");
    let active = unique_url("active");
    match dials {
        Dials::Writer => {
            let reader = thread::spawn(move || Reader::create(&passive, of_reader));
            let writer = Writer::create(&active, naming(&dialled, of_writer)).unwrap();
            (writer, reader.join().unwrap().unwrap())
        }
        Dials::Reader => {
            let writer = thread::spawn(move || Writer::create(&passive, of_writer));
            let reader = Reader::create(&active, naming(&dialled, of_reader)).unwrap();
            (writer.join().unwrap().unwrap(), reader)
        }
    }
}

/// Polls until `is_met` returns true.
pub fn until(condition: &str, mut is_met: impl FnMut() -> bool) {
    let clock = Clock::new();
    let cut_off = clock.now().saturating_add(TEST_TIMEOUT);
    while !is_met() {
        assert!(clock.now() < cut_off, "{condition} did not happen");
        thread::park_timeout(Duration::from_micros(200));
    }
}

/// An end with properties.
pub trait HasProperties {
    fn properties(&self) -> Properties;
}

impl<T: Element> HasProperties for Writer<T> {
    fn properties(&self) -> Properties {
        Writer::properties(self)
    }
}

impl<T: Element> HasProperties for Reader<T> {
    fn properties(&self) -> Properties {
        Reader::properties(self)
    }
}

/// Waits until an end has noticed that it is, or is not, connected.
pub fn until_connected(end: &impl HasProperties, is_connected: bool) {
    until("a change of the connection", || {
        end.properties().is_connected == is_connected
    });
}

/// Waits until an end's buffer holds this number of elements.
pub fn until_filled(end: &impl HasProperties, elements: u64) {
    until(&format!("a fill of {elements}"), || {
        end.properties().in_buffer == elements
    });
}

/// Checks that the call timed out.
#[track_caller]
pub fn timed_out<T: std::fmt::Debug>(result: Result<T, StreamError>) {
    assert!(
        matches!(result, Err(StreamError::Timeout { .. })),
        "{result:?}"
    );
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs one task on this thread.
pub fn run<R>(task: impl Future<Output = R>) -> R {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut task = pin!(task);
    loop {
        if let Poll::Ready(result) = task.as_mut().poll(&mut context) {
            return result;
        }
        thread::park();
    }
}

/// Runs two tasks on this thread, until both have ended.
pub fn run_both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut of_one, mut of_other) = (None, None);
    run(poll_fn(|context| {
        if of_one.is_none()
            && let Poll::Ready(result) = one.as_mut().poll(context)
        {
            of_one = Some(result);
        }
        if of_other.is_none()
            && let Poll::Ready(result) = other.as_mut().poll(context)
        {
            of_other = Some(result);
        }
        match of_one.is_some() && of_other.is_some() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }));
    (of_one.unwrap(), of_other.unwrap())
}

/// Returns the element at an index. The value identifies the index.
pub fn element(index: u64) -> f64 {
    // Unique for indices below 2^53.
    index as f64
}

/// Returns the elements of a range of indices.
pub fn elements(range: std::ops::Range<u64>) -> Vec<f64> {
    range.map(element).collect()
}

/// Checks that the read elements continue from `next`. Returns the index after them.
#[track_caller]
pub fn check_run(read: &[f64], next: u64) -> u64 {
    for (index, found) in (next..).zip(read) {
        assert_eq!(*found, element(index), "element {index} differs");
    }
    next + read.len() as u64
}

/// Returns a folder for the Unix sockets of this process, over which the ends connect.
fn sockets() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("trunkline-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
