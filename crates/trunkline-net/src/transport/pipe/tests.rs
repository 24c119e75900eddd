//! Tests of the pipe alone: order, bounds, ends, and a signal for every change.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

/// Returns true if the end's signal was raised since the last call.
fn was_signalled(transport: &Transport) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(
        transport.source.as_fd(),
        PollFlags::IN,
    )];
    let was_signalled = poll(
        &mut fds,
        Some(&Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }),
    )
    .unwrap()
        == 1;
    transport.source.acknowledge();
    was_signalled
}

#[test]
fn bytes_arrive_in_order_and_no_more_than_fit() {
    let (mut near, mut far) = pipe(4).unwrap();
    assert_eq!(near.send.try_write(b"abcdef").unwrap(), Some(4));
    assert_eq!(near.send.try_write(b"ef").unwrap(), None);
    let mut buffer = [0; 3];
    assert_eq!(far.receive.try_read(&mut buffer).unwrap(), Some(3));
    assert_eq!(&buffer, b"abc");
    assert_eq!(near.send.try_write(b"ef").unwrap(), Some(2));
    assert_eq!(far.receive.try_read(&mut buffer).unwrap(), Some(3));
    assert_eq!(&buffer, b"def");
    assert_eq!(far.receive.try_read(&mut buffer).unwrap(), None);
}

#[test]
fn reader_that_found_nothing_is_notified_of_the_next_byte() {
    let (mut near, mut far) = pipe(64).unwrap();
    assert!(!was_signalled(&far));
    near.send.try_write(b"ab").unwrap();
    assert!(was_signalled(&far));
    let mut one = [0];
    assert_eq!(far.receive.try_read(&mut one).unwrap(), Some(1));
    near.send.try_write(b"c").unwrap();
    assert!(
        !was_signalled(&far),
        "the reader has not yet read everything that was signalled"
    );
    assert_eq!(far.receive.try_read(&mut [0; 8]).unwrap(), Some(2));
    assert_eq!(far.receive.try_read(&mut one).unwrap(), None);
    near.send.try_write(b"d").unwrap();
    assert!(was_signalled(&far));
}

#[test]
fn writer_that_found_no_room_is_notified_of_room() {
    let (mut near, mut far) = pipe(2).unwrap();
    near.send.try_write(b"ab").unwrap();
    assert!(!was_signalled(&near));
    assert_eq!(near.send.try_write(b"c").unwrap(), None);
    let mut one = [0];
    far.receive.try_read(&mut one).unwrap();
    assert!(was_signalled(&near));
    far.receive.try_read(&mut one).unwrap();
    assert!(!was_signalled(&near), "room is signalled only once");
}

#[test]
fn the_end_is_read_after_the_last_byte() {
    let (mut near, mut far) = pipe(64).unwrap();
    near.send.try_write(b"a").unwrap();
    near.send.finish();
    let mut buffer = [0; 8];
    assert!(was_signalled(&far));
    assert_eq!(far.receive.try_read(&mut buffer).unwrap(), Some(1));
    assert_eq!(far.receive.try_read(&mut buffer).unwrap(), Some(0));
    assert_eq!(far.receive.try_read(&mut buffer).unwrap(), Some(0));
    assert_eq!(
        near.send.try_write(b"b").unwrap_err().kind(),
        ErrorKind::BrokenPipe,
        "nothing follows the end"
    );
}

#[test]
fn the_other_direction_stays_open_after_one_is_finished() {
    let (mut near, mut far) = pipe(64).unwrap();
    near.send.finish();
    assert_eq!(far.send.try_write(b"answer").unwrap(), Some(6));
    let mut buffer = [0; 8];
    assert_eq!(near.receive.try_read(&mut buffer).unwrap(), Some(6));
}

#[test]
fn writing_to_a_dropped_end_fails_and_reading_from_it_ends() {
    let (mut near, far) = pipe(64).unwrap();
    drop(far);
    assert!(was_signalled(&near));
    assert_eq!(
        near.send.try_write(b"a").unwrap_err().kind(),
        ErrorKind::BrokenPipe
    );
    assert_eq!(near.receive.try_read(&mut [0]).unwrap(), Some(0));
}
