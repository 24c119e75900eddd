//! Tests the thirteen steps of NS-63 in order, and checks the fill levels of both buffers after each
//! step.

use std::thread;

use trunkline_stream::{Reader, StreamError, Until, Writer};

use crate::proxy::{FrameAction, Proxy};
use crate::rig::*;

/// S_DATA and S_ACK.
const DATA: u8 = 108;
const ACK: u8 = 109;

/// Checks the number of elements in each buffer. A writer's buffer contains the elements that are not
/// acknowledged.
#[track_caller]
fn fills(writer: &Writer<f64>, reader: &Reader<f64>, [of_writer, of_reader]: [u64; 2]) {
    let (writer, reader) = (writer.properties(), reader.properties());
    assert_eq!([writer.in_buffer, reader.in_buffer], [of_writer, of_reader]);
    assert_eq!(writer.available_for_writing(), 5 - of_writer);
    assert_eq!(reader.available_for_reading(), of_reader);
}

/// Reports the number of elements in each S_DATA frame; the frames have no checksum here.
fn count_sent(proxy: &Proxy) -> std::sync::mpsc::Receiver<u64> {
    let (sender, receiver) = std::sync::mpsc::channel();
    proxy.hook(move |_, frame| {
        if frame[4] == DATA {
            let bytes = frame.len() as u64 - 24;
            // The receiver may have been dropped.
            let _ = sender.send(bytes / 8);
        }
        FrameAction::Forward
    });
    receiver
}

fn sent(receiver: &std::sync::mpsc::Receiver<u64>) -> u64 {
    receiver.try_iter().sum()
}

fn steps(dials: Dials) {
    let (proxy, mut writer, mut reader) = proxied::<f64>(dials, [5, 5]);
    let frames = count_sent(&proxy);
    proxy.hold(&[DATA, ACK]);
    fills(&writer, &reader, [0, 0]);

    // 1. The program writes three: they are in the writer.
    writer.write_many(&elements(0..3), LONG).unwrap();
    fills(&writer, &reader, [3, 0]);

    // 2. They are sent, and held until they are acknowledged; two more may be sent.
    // 3. The reader has three.
    proxy.hold(&[ACK]);
    until_filled(&reader, 3);
    assert_eq!(sent(&frames), 3);
    fills(&writer, &reader, [3, 3]);

    // 4. The program writes two: the writer is full.
    proxy.hold(&[ACK, DATA]);
    writer.write_many(&elements(3..5), LONG).unwrap();
    fills(&writer, &reader, [5, 3]);
    timed_out(writer.write(&-1.0, NONE));

    // 5. Three are acknowledged: two are left in the writer.
    proxy.hold(&[DATA]);
    until_filled(&writer, 2);
    fills(&writer, &reader, [2, 3]);

    // 6. Two are sent, and lost in an outage.
    let (sender, lost) = std::sync::mpsc::channel();
    proxy.hook(move |_, frame| match frame[4] {
        DATA => {
            sender.send((frame.len() as u64 - 24) / 8).unwrap();
            FrameAction::Outage
        }
        _ => FrameAction::Forward,
    });
    proxy.hold(&[]);
    assert_eq!(lost.recv_timeout(TEST_TIMEOUT).unwrap(), 2);
    until_connected(&writer, false);
    until_connected(&reader, false);
    fills(&writer, &reader, [2, 3]);

    // 7. The program writes four: there is room for three, so it waits.
    timed_out(writer.write_many(&elements(5..9), SHORT));
    fills(&writer, &reader, [2, 3]);
    let writing = thread::spawn(move || {
        writer.write_many(&elements(5..9), LONG).unwrap();
        writer
    });

    // 8. The connection is back, the ends find that two are missing, and they are sent again.
    // 9. The reader is full.
    let frames = count_sent(&proxy);
    proxy.hold(&[ACK]);
    proxy.up();
    until_filled(&reader, 5);
    assert_eq!(sent(&frames), 2);
    assert!(!writing.is_finished(), "two are not acknowledged");

    // 10. The program reads two, and 11. two are acknowledged: the writer is empty.
    // 12. The reader has three, and gives credit for two.
    check_run(&reader.read_many(2, LONG).unwrap(), 0);
    assert_eq!(reader.properties().in_buffer, 3);
    proxy.hold(&[DATA]);

    // 13. The write of four is complete, and two of them may be sent.
    let mut writer = writing.join().unwrap();
    fills(&writer, &reader, [4, 3]);
    proxy.hold(&[]);
    until_filled(&reader, 5);
    until_filled(&writer, 2);
    assert_eq!(sent(&frames), 2);
    fills(&writer, &reader, [2, 5]);
    timed_out(writer.flush(Until::Available, SHORT));
    assert_eq!(sent(&frames), 0);

    check_run(&reader.read_many(5, LONG).unwrap(), 2);
    check_run(&reader.read_many(2, LONG).unwrap(), 7);
    assert_eq!(writer.close(LONG).elements, 0);
    assert!(matches!(reader.read(LONG), Err(StreamError::Ended)));
}

/// Behaviour: NS-60, NS-61, NS-62, NS-63, NS-67, NS-68.
#[test]
fn the_thirteen_steps_where_the_writer_dials() {
    steps(Dials::Writer);
}

/// Behaviour: NS-60, NS-61, NS-62, NS-63, NS-67, NS-68.
#[test]
fn the_thirteen_steps_where_the_reader_dials() {
    steps(Dials::Reader);
}
