//! Tests flushing, which sends elements at once and waits until they have reached a given state.

use std::thread;

use trunkline_stream::{Element, StreamError, Until};

use crate::proxy::FrameAction;
use crate::rig::*;

/// S_DATA.
const DATA: u8 = 108;

/// Behaviour: NS-42, NS-43, NS-44.
#[test]
fn a_flush_ends_when_its_condition_holds_and_not_before() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 5]);
        writer.write_many(&elements(0..5), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        assert_eq!(reader.properties().in_buffer, 5, "they are there");
        assert_eq!(writer.properties().in_buffer, 0);
        timed_out(writer.flush(Until::Read, SHORT));
        // The reader's buffer is full.
        writer.write_many(&elements(5..8), LONG).unwrap();
        timed_out(writer.flush(Until::Available, SHORT));
        check_run(&reader.read_many(2, LONG).unwrap(), 0);
        timed_out(writer.flush(Until::Available, SHORT));
        check_run(&reader.read_many(1, LONG).unwrap(), 2);
        writer.flush(Until::Available, LONG).unwrap();
        timed_out(writer.flush(Until::Read, SHORT));
        check_run(&reader.read_many(5, LONG).unwrap(), 3);
        writer.flush(Until::Read, LONG).unwrap();
        assert_eq!(writer.properties().in_buffer, 0);
    }
}

/// Behaviour: NS-43.
#[test]
fn a_flush_that_waits_ends_when_the_last_element_is_read() {
    fn check<T: Element>(to_element: impl Fn(u64) -> T) {
        for dials in EITHER {
            let (mut writer, mut reader) = pair::<T>(dials, [10, 10]);
            for index in 0..10 {
                writer.write(&to_element(index), LONG).unwrap();
            }
            let thread = thread::spawn(move || {
                writer.flush(Until::Read, LONG).unwrap();
                writer
            });
            for _ in 0..9 {
                reader.read(LONG).unwrap();
            }
            assert!(!thread.is_finished(), "one is not read");
            reader.read(LONG).unwrap();
            thread.join().unwrap();
        }
    }
    check(element);
    check(|index| index.to_string());
}

/// Behaviour: NS-43, NS-44.
#[test]
fn flush_works_in_a_task() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 10]);
        writer.write_many(&elements(0..10), LONG).unwrap();
        run(writer.flush_async(Until::Available, LONG)).unwrap();
        timed_out(run(writer.flush_async(Until::Read, SHORT)));
        let (flushed, read) = run_both(
            writer.flush_async(Until::Read, LONG),
            reader.read_many_async(10, LONG),
        );
        flushed.unwrap();
        check_run(&read.unwrap(), 0);
    }
}

/// Each element is sent at once in a separate frame.
///
/// Behaviour: NS-42, NS-49.
#[test]
fn a_flush_with_a_time_out_of_zero_sends_at_once_and_does_not_wait() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [200, 100]);
        let before = proxy.with_state(|state| state.frames[DATA as usize]);
        for index in 0..100 {
            writer.write(&element(index), LONG).unwrap();
            writer.flush(Until::Sent, NONE).unwrap();
        }
        check_run(&reader.read_many(100, LONG).unwrap(), 0);
        let frames = proxy.with_state(|state| state.frames[DATA as usize]) - before;
        assert_eq!(frames, 100);
        // This holds even if the condition cannot be met, because no program reads or the ends are not
        // connected.
        writer.write(&element(100), LONG).unwrap();
        writer.flush(Until::Read, NONE).unwrap();
        proxy.down();
        until_connected(&writer, false);
        writer.write(&element(101), LONG).unwrap();
        writer.flush(Until::Read, NONE).unwrap();
        writer.flush(Until::Available, NONE).unwrap();
        proxy.up();
        check_run(&reader.read_many(2, LONG).unwrap(), 100);
    }
}

/// Behaviour: NS-85.
#[test]
fn unflushed_elements_are_sent_without_a_flush() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(to_element: impl Fn(u64) -> T) {
        for dials in EITHER {
            let (mut writer, mut reader) = pair::<T>(dials, [10, 10]);
            for index in 0..200 {
                writer.write(&to_element(index), LONG).unwrap();
                assert_eq!(reader.read(LONG).unwrap(), to_element(index));
            }
        }
    }
    check(element);
    check(|index| index.to_string());
}

/// Behaviour: NS-43, NS-67.
#[test]
fn flush_continues_across_an_outage() {
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 10]);
        proxy.down();
        until_connected(&writer, false);
        writer.write_many(&elements(0..10), LONG).unwrap();
        timed_out(writer.flush(Until::Available, SHORT));
        timed_out(writer.flush(Until::Read, SHORT));
        let thread = thread::spawn(move || {
            writer.flush(Until::Read, LONG).unwrap();
            writer
        });
        proxy.up();
        check_run(&reader.read_many(10, LONG).unwrap(), 0);
        thread.join().unwrap();
    }
}

/// A flush request is repeated on the next connection.
///
/// Behaviour: NS-43, NS-68.
#[test]
fn lost_flush_request_is_repeated_and_answered() {
    // S_ASK, S_ACK.
    for lost in [110, 109] {
        for dials in EITHER {
            let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [10, 10]);
            writer.write_many(&elements(0..10), LONG).unwrap();
            writer.flush(Until::Available, LONG).unwrap();
            proxy.hook(move |_, frame| match frame[4] == lost {
                true => FrameAction::Outage,
                false => FrameAction::Forward,
            });
            let thread = thread::spawn(move || {
                writer.flush(Until::Read, LONG).unwrap();
                writer
            });
            if lost == 110 {
                until_connected(&reader, false);
            }
            check_run(&reader.read_many(10, LONG).unwrap(), 0);
            if lost == 109 {
                until_connected(&reader, false);
            }
            proxy.unhook();
            proxy.up();
            thread.join().unwrap();
        }
    }
}

/// Behaviour: NS-42.
#[test]
fn flush_without_unsent_elements_returns_at_once() {
    let (mut writer, _reader) = pair::<f64>(Dials::Writer, [4, 4]);
    for condition in [Until::Sent, Until::Available, Until::Read] {
        writer.flush(condition, None).unwrap();
    }
}

/// Behaviour: NS-46.
#[test]
fn flush_after_the_reader_left_is_an_error() {
    for dials in EITHER {
        let (mut writer, reader) = pair::<f64>(dials, [4, 4]);
        writer.write_many(&elements(0..4), LONG).unwrap();
        let thread = thread::spawn(move || {
            let error = writer.flush(Until::Read, None).unwrap_err();
            (error, writer)
        });
        reader.close().unwrap();
        let (error, mut writer) = thread.join().unwrap();
        assert!(matches!(error, StreamError::Fault(_)), "{error}");
        assert!(matches!(
            writer.flush(Until::Read, None),
            Err(StreamError::Fault(_))
        ));
    }
}
