//! Tests how two endpoints connect, and the error that each endpoint gets if they cannot connect.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use trunkline_net::Clock;
use trunkline_proto::FaultCode;
use trunkline_stream::{Element, Options, Reader, StreamError, StreamFault, Until, Writer};

use crate::proxy::Proxy;
use crate::rig::*;

/// Timeout of an endpoint whose creation is expected to time out.
const SHORT_TIMEOUT: Duration = Duration::from_millis(300);

fn with_short_timeout(options: Options) -> Options {
    Options {
        timeout: Some(SHORT_TIMEOUT),
        ..options
    }
}

fn writes(url: &str, options: Options) -> Result<Writer<f64>, StreamError> {
    Writer::create(url, options)
}

fn reads(url: &str, options: Options) -> Result<Reader<f64>, StreamError> {
    Reader::create(url, options)
}

/// Returns the result of a creation, and how long it took.
fn timed<T>(create: impl FnOnce() -> T) -> (T, Duration) {
    let start = Clock::new().now();
    let created = create();
    (created, Clock::new().now().since(start))
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, StreamError>, expected: FaultCode) -> String {
    match result {
        Err(StreamError::Refused { code, sentence })
        | Err(StreamError::Fault(StreamFault::Refused { code, sentence })) => {
            assert_eq!(code, expected, "{sentence}");
            sentence
        }
        other => panic!("{expected:?} expected: {other:?}"),
    }
}

/// Checks that the creation waited until its timeout.
#[track_caller]
fn no_peer<T: std::fmt::Debug>((result, waited): (Result<T, StreamError>, Duration)) {
    let Err(StreamError::NoPeer { timeout, .. }) = result else {
        panic!("a time-out expected: {result:?}")
    };
    assert_eq!(timeout, SHORT_TIMEOUT);
    assert!(waited >= SHORT_TIMEOUT, "{waited:?}");
}

/// Checks that an element is transferred.
fn check_pair(mut writer: Writer<f64>, mut reader: Reader<f64>) {
    writer.write(&1.5, LONG).unwrap();
    assert_eq!(reader.read(LONG).unwrap(), 1.5);
    assert_eq!(writer.close(LONG).elements, 0);
}

/// Behaviour: NS-01, NS-02, NS-12, NS-13, NS-18, NS-64.
#[test]
fn ends_connect_in_any_order_if_one_names_the_other() {
    for dials in EITHER {
        for active_is_first in [false, true] {
            let (passive, active) = (unique_url("a/b"), unique_url("c"));
            let named = naming(&passive, options(8));
            let is_there = channel();
            let of_writer = match dials {
                Dials::Writer => (active.clone(), named.clone()),
                Dials::Reader => (passive.clone(), options(8)),
            };
            let of_reader = match dials {
                Dials::Writer => (passive, options(8)),
                Dials::Reader => (active, named),
            };
            let writer_is_first = active_is_first == (dials == Dials::Writer);
            let create_writer = move || writes(&of_writer.0, of_writer.1).unwrap();
            let create_reader = move || reads(&of_reader.0, of_reader.1).unwrap();
            let (writer, reader) = match writer_is_first {
                true => {
                    let thread = thread::spawn(move || {
                        is_there.0.send(()).unwrap();
                        create_writer()
                    });
                    is_there.1.recv().unwrap();
                    let reader = create_reader();
                    (thread.join().unwrap(), reader)
                }
                false => {
                    let thread = thread::spawn(move || {
                        is_there.0.send(()).unwrap();
                        create_reader()
                    });
                    is_there.1.recv().unwrap();
                    let writer = create_writer();
                    (writer, thread.join().unwrap())
                }
            };
            assert!(writer.properties().is_connected && reader.properties().is_connected);
            check_pair(writer, reader);
        }
    }
}

/// Behaviour: NS-12.
#[test]
fn creation_returns_only_when_the_peer_is_connected() {
    let (passive, active) = (unique_url("late"), unique_url("early"));
    let (sender, receiver) = channel();
    let named = naming(&passive, options(8));
    let thread = thread::spawn(move || {
        let writer = writes(&active, named).unwrap();
        sender.send(()).unwrap();
        writer
    });
    // The creation had time to return, but did not.
    assert!(receiver.recv_timeout(SHORT_TIMEOUT).is_err());
    let reader = reads(&passive, options(8)).unwrap();
    receiver.recv_timeout(TEST_TIMEOUT).unwrap();
    check_pair(thread.join().unwrap(), reader);
}

/// Behaviour: NS-12.
#[test]
fn two_tasks_on_one_thread_connect() {
    for dials in EITHER {
        let (passive, active) = (unique_url("tasks"), unique_url("of one thread"));
        let named = naming(&passive, options(8));
        let (of_writer, of_reader) = match dials {
            Dials::Writer => ((active, named), (passive, options(8))),
            Dials::Reader => ((passive, options(8)), (active, named)),
        };
        let (writer, reader) = run_both(
            Writer::<f64>::create_async(&of_writer.0, of_writer.1),
            Reader::<f64>::create_async(&of_reader.0, of_reader.1),
        );
        check_pair(writer.unwrap(), reader.unwrap());
    }
}

/// Behaviour: NS-12.
#[test]
fn dropped_creation_releases_its_name() {
    let passive = unique_url("dropped");
    for _ in 0..10 {
        let mut creation = pin!(Reader::<f64>::create_async(&passive, options(8)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(creation.as_mut().poll(&mut context).is_pending());
    }
    let reader = thread::spawn({
        let passive = passive.clone();
        move || reads(&passive, options(8)).unwrap()
    });
    let writer = writes(&unique_url("w"), naming(&passive, options(8))).unwrap();
    check_pair(writer, reader.join().unwrap());
}

/// Behaviour: NS-09.
#[test]
fn name_is_exclusive_and_released_with_its_end() {
    for round in 0..20 {
        let address = address();
        let [name, other] = ["Subsystem A/stream 1", "other"].map(|name| url(address, name));
        let (writer, reader) = {
            let passive = name.clone();
            let reader = thread::spawn(move || reads(&passive, options(8)).unwrap());
            let writer = writes(&unique_url("w"), naming(&name, options(8))).unwrap();
            (writer, reader.join().unwrap())
        };
        let ((result, waited), again) = (timed(|| reads(&name, options(8))), name.to_uppercase());
        let sentence = refused(result, FaultCode::EndpointTaken);
        assert!(sentence.contains("subsystem a/stream 1"), "{sentence}");
        assert!(waited < TEST_TIMEOUT);
        // A different direction or spelling does not make a different name.
        let again = again.replacen("TL:", "tl:", 1);
        refused(writes(&again, options(8)), FaultCode::EndpointTaken);
        // Another name at the same port is another endpoint.
        no_peer(timed(|| reads(&other, with_short_timeout(options(8)))));
        match round % 2 {
            0 => check_pair(writer, reader),
            _ => {
                reader.close().unwrap();
                drop(writer);
            }
        }
        no_peer(timed(|| reads(&name, with_short_timeout(options(8)))));
        if round == 3 {
            break;
        }
    }
}

/// Behaviour: NS-09.
#[test]
fn name_that_is_a_prefix_of_another_name_is_refused() {
    let host = address();
    let (writer, reader) = meet::<f64>(Dials::Writer, options(4), options(4), host, None);
    for name in ["passive/deeper", "PASSIVE/deeper/still"] {
        let (result, _) = timed(|| reads(&url(host, name), options(4)));
        refused(result, FaultCode::EndpointNested);
    }
    no_peer(timed(|| {
        reads(&url(host, "passiveness"), with_short_timeout(options(4)))
    }));
    check_pair(writer, reader);

    let host = address();
    let deep = url(host, "x/y/z");
    let thread = thread::spawn({
        let deep = deep.clone();
        move || reads(&deep, options(4))
    });
    let writer = writes(&unique_url("w"), naming(&deep, options(4))).unwrap();
    let reader = thread.join().unwrap().unwrap();
    for name in ["x", "x/y"] {
        refused(
            writes(&url(host, name), options(4)),
            FaultCode::EndpointNested,
        );
    }
    check_pair(writer, reader);
}

/// An endpoint whose name is taken must not connect with that name. It does not dial its peer, because
/// the peer waits for the endpoint that owns the name.
///
/// Behaviour: NS-09.
#[test]
fn end_without_its_name_does_not_dial() {
    let host = address();
    let (writer, reader) = meet::<f64>(Dials::Writer, options(4), options(4), host, None);
    // A dialled connection would be pending at once, even if it is not accepted.
    let listener = TcpListener::bind(address()).unwrap();
    listener.set_nonblocking(true).unwrap();
    let waiting = url(listener.local_addr().unwrap(), "waiting");
    let duplicate = writes(&url(host, "passive"), naming(&waiting, options(4)));
    refused(duplicate, FaultCode::EndpointTaken);
    let error = listener.accept().expect_err("nobody has dialled");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    // An endpoint whose name is free dials.
    let free = writes(
        &unique_url("free"),
        naming(&waiting, with_short_timeout(options(4))),
    );
    assert!(matches!(free, Err(StreamError::NoPeer { .. })), "{free:?}");
    listener.accept().expect("it dials");
    check_pair(writer, reader);
}

/// Behaviour: NS-09.
#[test]
fn threads_that_request_the_same_name_get_it_one_at_a_time() {
    let address = address();
    let name = url(address, "wanted");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let name = name.clone();
            thread::spawn(move || {
                let mut results = Vec::new();
                for _ in 0..5 {
                    let options = Options {
                        timeout: Some(Duration::from_millis(5)),
                        ..options(4)
                    };
                    results.push(reads(&name, options).unwrap_err());
                }
                results
            })
        })
        .collect();
    for thread in threads {
        for error in thread.join().unwrap() {
            let is_taken = matches!(
                error,
                StreamError::Refused {
                    code: FaultCode::EndpointTaken,
                    ..
                }
            );
            let is_known = is_taken || matches!(error, StreamError::NoPeer { .. });
            assert!(is_known, "{error}");
        }
    }
}

/// Behaviour: NS-10.
#[test]
fn endpoint_can_only_be_created_on_this_machine() {
    for host in ["elsewhere.example", "192.0.2.7"] {
        for url in [format!("tl://{host}/x"), format!("tl://{host}:5900/x")] {
            let error = reads(&url, options(4)).unwrap_err();
            assert!(
                matches!(&error, StreamError::RemoteHost { host: named } if named == host),
                "{url}: {error}"
            );
        }
    }
}

/// Behaviour: NS-14.
#[test]
fn creation_without_a_peer_times_out_at_either_end() {
    // Either no program listens at the address, or a program without such an endpoint.
    let address = address();
    let (writer, reader) = meet::<f64>(Dials::Writer, options(4), options(4), address, None);
    for peer in [unique_url("nobody"), url(address, "no such")] {
        let named = with_short_timeout(naming(&peer, options(4)));
        no_peer(timed(|| writes(&unique_url("w"), named.clone())));
        no_peer(timed(|| reads(&unique_url("r"), named.clone())));
        let url = unique_url("task");
        no_peer(timed(|| run(Writer::<f64>::create_async(&url, named))));
    }
    no_peer(timed(|| {
        writes(&unique_url("w"), with_short_timeout(options(4)))
    }));
    no_peer(timed(|| {
        reads(&unique_url("r"), with_short_timeout(options(4)))
    }));
    check_pair(writer, reader);
}

/// Behaviour: NS-15.
#[test]
fn one_sided_match_fails_at_one_end_and_waits_at_the_other() {
    for dials in EITHER {
        let (one, other) = (unique_url("one"), unique_url("other"));
        let wrong = with_short_timeout(naming(&unique_url("third"), options(4)));
        let right = naming(&other, options(4));
        let thread = thread::spawn(move || match dials {
            Dials::Writer => timed(|| reads(&other, wrong).map(|_| ())),
            Dials::Reader => timed(|| writes(&other, wrong).map(|_| ())),
        });
        let outcome = match dials {
            Dials::Writer => writes(&one, right).map(|_| ()),
            Dials::Reader => reads(&one, right).map(|_| ()),
        };
        let sentence = refused(outcome, FaultCode::StreamPeer);
        assert!(
            sentence.contains("third") && sentence.contains("/one"),
            "{sentence}"
        );
        no_peer(thread.join().unwrap());
    }
}

/// Only these mismatches are errors. In all other cases, both ends wait.
///
/// Behaviour: NS-13, NS-16.
#[test]
fn mismatched_type_or_direction_is_an_error_at_both_ends() {
    let (one, other) = (unique_url("f64"), unique_url("i64"));
    let thread = thread::spawn({
        let other = other.clone();
        move || Reader::<i64>::create(&other, options(4)).map(|_| ())
    });
    let sentence = refused(
        writes(&one, naming(&other, options(4))),
        FaultCode::StreamType,
    );
    assert!(
        sentence.contains("f64") && sentence.contains("i64"),
        "{sentence}"
    );
    let outcome = thread.join().unwrap();
    assert_eq!(refused(outcome, FaultCode::StreamType), sentence);

    for dials in EITHER {
        let (one, other) = (unique_url("one"), unique_url("same"));
        let named = naming(&other, options(4));
        let create = move |url: &str, options| match dials {
            Dials::Writer => writes(url, options).map(|_| ()),
            Dials::Reader => reads(url, options).map(|_| ()),
        };
        let thread = thread::spawn(move || create(&other, options(4)));
        let sentence = refused(create(&one, named), FaultCode::StreamDirection);
        let verb = if dials == Dials::Writer {
            "write"
        } else {
            "read"
        };
        assert!(sentence.contains(verb), "{sentence}");
        let outcome = thread.join().unwrap();
        assert_eq!(refused(outcome, FaultCode::StreamDirection), sentence);
    }
}

/// Behaviour: NS-16.
#[test]
fn mismatched_visitor_does_not_affect_a_connected_end() {
    let address = address();
    let (writer, reader) = meet::<f64>(Dials::Writer, options(4), options(4), address, None);
    let named = naming(&url(address, "passive"), options(4));
    let wrong = Writer::<i64>::create(&unique_url("wrong"), named.clone()).map(|_| ());
    refused(wrong, FaultCode::StreamType);
    // A matching peer gets the error that the endpoint is already connected (NS-71).
    refused(
        writes(&unique_url("third"), named),
        FaultCode::StreamConnected,
    );
    assert_eq!(reader.properties().disconnections, 0);
    check_pair(writer, reader);
}

/// Behaviour: NS-17.
#[test]
fn endpoints_that_do_not_name_each_other_time_out() {
    let address = address();
    let thread =
        thread::spawn(move || timed(|| reads(&url(address, "r"), with_short_timeout(options(4)))));
    no_peer(timed(|| {
        writes(&url(address, "w"), with_short_timeout(options(4)))
    }));
    no_peer(thread.join().unwrap());
}

/// Behaviour: NS-19.
#[test]
fn a_buffer_holds_at_least_one_element() {
    for _ in EITHER {
        let error = writes(&unique_url("w"), options(0)).unwrap_err();
        assert!(
            matches!(error, StreamError::Capacity { capacity: 0, .. }),
            "{error}"
        );
        let error = Reader::<String>::create(&unique_url("r"), options(0)).unwrap_err();
        assert!(
            matches!(error, StreamError::Capacity { capacity: 0, .. }),
            "{error}"
        );
        let no_bytes = Options {
            bytes_max: 0,
            ..options(4)
        };
        let error = Reader::<String>::create(&unique_url("r"), no_bytes).unwrap_err();
        assert!(matches!(error, StreamError::Capacity { .. }), "{error}");
        let error = writes(&unique_url("w"), options(usize::MAX)).unwrap_err();
        assert!(matches!(error, StreamError::Capacity { .. }), "{error}");
    }
    let (mut writer, mut reader) = pair::<f64>(Dials::Writer, [1, 1]);
    for index in 0..100 {
        writer.write(&element(index), LONG).unwrap();
        assert_eq!(reader.read(LONG).unwrap(), element(index));
    }
}

/// Behaviour: NS-19, NS-20.
#[test]
fn defaults_are_no_timeout_and_a_buffer_of_4096() {
    let options = Options::default();
    assert_eq!((options.timeout, options.capacity), (None, 4096));
    let (passive, active) = (unique_url("defaults"), unique_url("active"));
    let thread = thread::spawn({
        let passive = passive.clone();
        move || reads(&passive, Options::default()).unwrap()
    });
    let writer = writes(&active, Options::to(passive)).unwrap();
    let reader = thread.join().unwrap();
    assert_eq!(writer.properties().capacity, 4096);
    assert_eq!(reader.properties().capacity, 4096);
    check_pair(writer, reader);
}

/// Behaviour: NS-05, NS-08, NS-19.
#[test]
fn urls_are_case_insensitive() {
    let address = address();
    let thread = thread::spawn(move || {
        let url = format!("TL://{address}:Bench/Subsystem A/Stream 1");
        reads(&url, options(4)).unwrap()
    });
    let named = naming(
        &format!("//{address}:bENCH/subsystem a/STREAM 1"),
        options(4),
    );
    let writer = writes(&unique_url("W"), named).unwrap();
    let reader = thread.join().unwrap();
    let canonical = format!("tl://{address}:bench/subsystem a/stream 1");
    assert_eq!(reader.properties().url, canonical);
    assert_eq!(
        writer.properties().peer.as_deref(),
        Some(canonical.as_str())
    );
    check_pair(writer, reader);
}

/// Endpoints that differ only in their context are different endpoints.
///
/// Behaviour: NS-07.
#[test]
fn contexts_distinguish_endpoints_of_a_port() {
    let address = address();
    let name = |context: &str| format!("tl://{address}{context}/same");
    let threads = ["", ":a", ":b"].map(|context| {
        let name = name(context);
        thread::spawn(move || reads(&name, options(4)).unwrap())
    });
    let writers = ["", ":a", ":b"].map(|context| {
        let named = naming(&name(context), options(4));
        writes(&unique_url("w"), named).unwrap()
    });
    for ((address, thread), mut writer) in (0..).zip(threads).zip(writers) {
        let mut reader = thread.join().unwrap();
        writer.write(&element(address), LONG).unwrap();
        assert_eq!(reader.read(LONG).unwrap(), element(address));
    }
}

/// Behaviour: NS-01, NS-09, NS-12.
#[test]
fn many_pairs_connect_at_one_port_at_the_same_time() {
    let address = address();
    let threads: Vec<_> = (0..24)
        .flat_map(|pair| {
            let passive = url(address, &format!("reader {pair}"));
            let named = naming(&passive, options(4));
            // The names of the writers are registered at that port too.
            let active = url(address, &format!("writer {pair}"));
            [
                thread::spawn(move || {
                    let mut writer = writes(&active, named).unwrap();
                    writer.write(&element(pair), LONG).unwrap();
                    assert_eq!(writer.close(LONG).elements, 0);
                }),
                thread::spawn(move || {
                    let mut reader = reads(&passive, options(4)).unwrap();
                    assert_eq!(reader.read(LONG).unwrap(), element(pair));
                    assert!(matches!(reader.read(LONG), Err(StreamError::Ended)));
                }),
            ]
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

/// Behaviour: NS-06, NS-07.
#[test]
fn an_empty_host_is_this_machine() {
    // A port of localhost, which another program may take meanwhile.
    for attempt in 0..10 {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let thread = thread::spawn(move || reads(&format!("tl://localhost:{port}/r"), options(4)));
        let named = naming(&format!("tl://:{port}/R"), options(4));
        let own = unique_url("w");
        let options = Options {
            timeout: Some(Duration::from_secs(5)),
            ..named
        };
        let writer = writes(&own, options);
        match thread.join().unwrap() {
            Ok(reader) => return check_pair(writer.unwrap(), reader),
            Err(StreamError::Listen(_)) => assert!(attempt < 9),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Behaviour: NS-13, NS-65.
#[test]
fn same_end_of_a_mutual_pair_always_dials() {
    for round in 0..20 {
        let (lesser, greater) = (unique_url("a"), unique_url("b"));
        let (of_writer, of_reader) = match round % 2 {
            0 => (lesser.clone(), greater.clone()),
            _ => (greater.clone(), lesser.clone()),
        };
        let named = |peer: &str| Options {
            program: peer.to_owned(),
            ..naming(peer, options(4))
        };
        let (to_reader, to_writer) = (named(&of_reader), named(&of_writer));
        let thread = thread::spawn(move || timed(|| reads(&of_reader, to_writer).unwrap()));
        let (writer, of_one) = timed(|| writes(&of_writer, to_reader).unwrap());
        let (reader, of_other) = thread.join().unwrap();
        // Neither end had to wait until the other gave up.
        assert!(of_one < TEST_TIMEOUT && of_other < TEST_TIMEOUT);
        assert_eq!(writer.properties().disconnections, 0);
        check_pair(writer, reader);
    }
}

/// Each end is dialled through a separate proxy, which shows which end dials.
///
/// Behaviour: NS-64, NS-65.
#[test]
fn lesser_end_of_a_mutual_pair_redials() {
    for round in 0..6 {
        let ends: [SocketAddr; 2] = [address(), address()];
        let [to_lesser, to_greater] = ends.map(Proxy::to);
        let [lesser, greater] = [url(ends[0], "a"), url(ends[1], "b")];
        let names_greater = naming(&url(to_greater.address(), "b"), options(4));
        let names_lesser = naming(&url(to_lesser.address(), "a"), options(4));
        let (of_writer, of_reader) = match round % 2 {
            0 => ((lesser, names_greater), (greater, names_lesser)),
            _ => ((greater, names_lesser), (lesser, names_greater)),
        };
        let thread = thread::spawn(move || reads(&of_reader.0, of_reader.1).unwrap());
        let mut writer = writes(&of_writer.0, of_writer.1).unwrap();
        let mut reader = thread.join().unwrap();
        for cut in 0..3 {
            writer.write(&element(cut), LONG).unwrap();
            assert_eq!(reader.read(LONG).unwrap(), element(cut));
            // The choice is final: from now on, the lesser end is not dialled, except by a dial that
            // had already begun.
            let before = to_lesser.with_state(|state| state.connections);
            to_greater.cut();
            to_greater.wait("the lesser one's dial", |state| state.connections > cut + 1);
            writer.write(&element(cut), LONG).unwrap();
            assert_eq!(reader.read(LONG).unwrap(), element(cut));
            writer.flush(Until::Read, LONG).unwrap();
            let after = to_lesser.with_state(|state| state.connections);
            assert!(after == before || cut == 0, "the lesser end was dialled");
        }
    }
}

/// The dialled end has looked up the other end before the other end existed, and is dialled before it
/// gets an answer.
///
/// Behaviour: NS-65.
#[test]
fn end_of_a_mutual_pair_is_connected_during_its_lookup() {
    for lesser_writes in [true, false] {
        let address = address();
        // The port of the lesser end is open before its name is registered.
        let (_writer, _reader) = meet::<f64>(Dials::Writer, options(4), options(4), address, None);
        let proxy = Proxy::to(address);
        // S_TICKET.
        proxy.hold(&[101]);
        let [lesser, greater] = [url(address, "a"), unique_url("b")];
        let names_lesser = naming(&url(proxy.address(), "a"), options(4));
        let names_greater = naming(&greater, options(4));
        let asks = move || match lesser_writes {
            true => (None, Some(reads(&greater, names_lesser).unwrap())),
            false => (Some(writes(&greater, names_lesser).unwrap()), None),
        };
        let thread = thread::spawn(asks);
        // S_LOOKUP.
        proxy.wait("a question", |state| state.frames[100] == 1);
        let (mut writer, mut reader) = match lesser_writes {
            true => {
                let writer = writes(&lesser, names_greater).unwrap();
                (writer, thread.join().unwrap().1.unwrap())
            }
            false => {
                let reader = reads(&lesser, names_greater).unwrap();
                (thread.join().unwrap().0.unwrap(), reader)
            }
        };
        for index in 0..3 {
            writer.write(&element(index), LONG).unwrap();
            assert_eq!(reader.read(LONG).unwrap(), element(index));
            // An answer that arrives too late is ignored.
            proxy.hold(&[]);
        }
        assert_eq!(writer.properties().disconnections, 0);
        assert_eq!(reader.properties().disconnections, 0);
    }
}

/// Behaviour: NS-71.
#[test]
fn end_that_names_itself_is_refused() {
    let own = unique_url("own");
    let error = writes(&own, naming(&own, options(4)));
    refused(error, FaultCode::StreamDirection);
}

/// Behaviour: NS-03.
#[test]
fn elements_of_every_type_are_transferred_unchanged() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(elements: &[T]) {
        let (mut writer, mut reader) = pair::<T>(Dials::Reader, [64, 64]);
        writer.write_many(elements, LONG).unwrap();
        for element in elements {
            assert_eq!(&reader.read(LONG).unwrap(), element);
        }
        let left = writer.close(LONG);
        assert_eq!(left.elements, 0);
        assert!(matches!(reader.read(LONG), Err(StreamError::Ended)));
    }
    check(&[i8::MIN, 0, i8::MAX]);
    check(&[i16::MIN, 0, i16::MAX]);
    check(&[i32::MIN, 0, i32::MAX]);
    check(&[i64::MIN, 0, i64::MAX]);
    check(&[u8::MIN, 1, u8::MAX]);
    check(&[u16::MIN, 1, u16::MAX]);
    check(&[u32::MIN, 1, u32::MAX]);
    check(&[u64::MIN, 1, u64::MAX]);
    check(&[f32::MIN, -0.0, f32::INFINITY]);
    check(&[f64::MIN, -0.0, f64::EPSILON]);
    check(&[true, false, true]);
    check(&[String::new(), "x".to_owned(), "µ".repeat(1000)]);
    check::<Vec<u8>>(&[vec![], vec![0], vec![255; 3000]]);
    check::<Vec<f64>>(&[vec![], vec![0.5], vec![1.0; 999]]);
    check::<Vec<i32>>(&[vec![], vec![-1], vec![7; 999]]);
}
