//! A thread that is preempted in the middle of an operation blocks no other.
//!
//! A signal stops a thread that repeats an operation at an arbitrary point; the values are wide, so
//! that this is mostly in the middle of a copy. While it is stopped, the other side must complete
//! its work. The `tests` modules next to the protocols do the same at every single step.
#![cfg(all(not(loom), target_os = "linux"))]
// Test helpers may panic.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use trunkline_ring::{Cursor, Fifo, LastValue, MarkSet, RtCell};

const WIDTH: usize = 512;
const ROUNDS: u64 = 100;

static IS_HELD: AtomicBool = AtomicBool::new(false);
static IS_RELEASED: AtomicBool = AtomicBool::new(false);
/// One thread at a time is held in this process.
static HOLDING: Mutex<()> = Mutex::new(());

/// Stands still in a signal handler until released.
extern "C" fn stand_still(_signal: libc::c_int) {
    IS_HELD.store(true, Ordering::Release);
    while !IS_RELEASED.load(Ordering::Acquire) {
        // SAFETY: a system call without arguments.
        unsafe { libc::sched_yield() };
    }
    IS_HELD.store(false, Ordering::Release);
}

fn wait_until(is_held: bool) {
    while IS_HELD.load(Ordering::Acquire) != is_held {
        thread::yield_now();
    }
}

/// Repeats `operation` on a separate thread, and stops it at arbitrary points; `check` runs each
/// time while it is stopped.
fn hold_again_and_again(mut operation: impl FnMut() + Send + 'static, mut check: impl FnMut(u64)) {
    let _one = HOLDING.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the handler loads and stores atomics and yields, which a handler may.
    unsafe {
        let handler = stand_still as extern "C" fn(libc::c_int);
        assert_ne!(
            libc::signal(libc::SIGUSR1, handler as libc::sighandler_t),
            libc::SIG_ERR
        );
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let (say_who, who) = mpsc::channel();
    let thread = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            // SAFETY: names the calling thread.
            say_who.send(unsafe { libc::pthread_self() }).unwrap();
            while !is_over.load(Ordering::Acquire) {
                operation();
            }
        }
    });
    let who = who.recv().unwrap();
    for round in 1..=ROUNDS {
        IS_RELEASED.store(false, Ordering::Release);
        // SAFETY: the thread runs until it learns that all is over, below.
        assert_eq!(unsafe { libc::pthread_kill(who, libc::SIGUSR1) }, 0);
        wait_until(true);
        check(round);
        IS_RELEASED.store(true, Ordering::Release);
        wait_until(false);
    }
    is_over.store(true, Ordering::Release);
    thread.join().unwrap();
}

/// Words that belong together.
fn value(number: u64) -> [u64; WIDTH] {
    std::array::from_fn(|word| number.wrapping_mul(word as u64 + 1))
}

fn check_whole(words: &[u64; WIDTH]) {
    assert_eq!(*words, value(words[0]), "torn");
}

/// Behaviour: SP-12, SP-13, SP-14.
#[test]
fn interrupted_writer_of_a_cell_blocks_neither_writers_nor_readers() {
    let cell = Arc::new(RtCell::new(WIDTH));
    let writer = Arc::clone(&cell);
    let mut number = 0;
    let write = move || {
        number += 2;
        writer.write(&value(number)).unwrap();
    };
    hold_again_and_again(write, |round| {
        for repeat in 0..6 {
            let own = (round * 8 + repeat) * 2 + 1;
            let count = cell.write(&value(own)).unwrap();
            let mut words = [0; WIDTH];
            let snapshot = cell.read(&mut words);
            assert!(snapshot.complete);
            assert_eq!(
                (snapshot.count, words[0]),
                (count, own),
                "the newest claimed write wins"
            );
            check_whole(&words);
        }
    });
}

/// Behaviour: SP-13, SP-15.
#[test]
fn interrupted_cell_reader_blocks_no_thread_and_reads_whole_values() {
    let cell = Arc::new(RtCell::new(WIDTH));
    let reader = Arc::clone(&cell);
    let mut words = [0; WIDTH];
    let read = move || {
        if reader.read(&mut words).complete {
            check_whole(&words);
        }
    };
    hold_again_and_again(read, |round| {
        for repeat in 0..6 {
            let own = round * 8 + repeat;
            cell.write(&value(own)).unwrap();
            let mut words = [0; WIDTH];
            assert!(cell.read(&mut words).complete);
            assert_eq!(words, value(own));
        }
    });
}

/// Behaviour: SP-13.
#[test]
fn readers_of_an_interrupted_writer_keep_the_last_complete_value() {
    let cell = Arc::new(LastValue::new(WIDTH));
    let writer = Arc::clone(&cell);
    let publish = move || {
        let number = writer.count() + 1;
        writer.publish(&value(number));
    };
    hold_again_and_again(publish, |_| {
        let count = cell.count();
        for _ in 0..3 {
            let mut words = [0; WIDTH];
            let snapshot = cell.read(&mut words);
            assert!(snapshot.complete);
            assert_eq!((snapshot.count, words), (count, value(count)));
        }
    });
}

/// Fills and empties a FIFO as far as possible; ends in any state of the other thread.
fn fill_and_empty(fifo: &Fifo) {
    let mut words = [0; WIDTH];
    let mut pushed: u64 = 0;
    while fifo.try_push(&value(7)).is_ok() {
        pushed += 1;
    }
    let mut popped = 0;
    while fifo.try_pop(&mut words).is_ok() {
        check_whole(&words);
        popped += 1;
    }
    let overflow = fifo.push_overwriting(&value(9));
    assert_eq!(overflow.stored, overflow.dropped == 0);
    assert!(pushed <= 4 && popped <= 4);
}

/// Behaviour: SP-12, SP-13, SP-21.
#[test]
fn interrupted_fifo_writer_blocks_no_thread() {
    let fifo = Arc::new(Fifo::new(4, WIDTH));
    let writer = Arc::clone(&fifo);
    let mut number = 0;
    let push = move || {
        number += 1;
        let _ = writer.push_overwriting(&value(number));
    };
    hold_again_and_again(push, |_| fill_and_empty(&fifo));
}

/// Behaviour: SP-12, SP-13, SP-21.
#[test]
fn interrupted_fifo_reader_blocks_no_thread() {
    let fifo = Arc::new(Fifo::new(4, WIDTH));
    let reader = Arc::clone(&fifo);
    let mut words = [0; WIDTH];
    let pop = move || {
        if reader.try_pop(&mut words).is_ok() {
            check_whole(&words);
        }
    };
    hold_again_and_again(pop, |_| fill_and_empty(&fifo));
}

#[test]
fn interrupted_marker_delays_no_drain_and_keeps_its_mark() {
    let set = Arc::new(MarkSet::new());
    set.ensure(70_000).unwrap();
    set.ensure(5).unwrap();
    let marker = Arc::clone(&set);
    let mark = move || {
        marker.mark(70_000);
    };
    let mut cursor = Cursor::default();
    let mut of_marker = 0;
    let mut each = |index: u32| of_marker += u64::from(index == 70_000);
    hold_again_and_again(mark, |_| {
        set.mark(5);
        // The second time only the marks remain that the marker has not raised yet.
        for _ in 0..2 {
            assert!(!set.take(&mut cursor, usize::MAX, &mut each).more);
        }
    });
    let _ = set.take(&mut cursor, usize::MAX, &mut each);
    assert!(of_marker > 0);
    assert!(set.is_empty());
}
