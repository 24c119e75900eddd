//! The limit of W3 on one machine: a ring in memory between two threads, each on its own CPU.
//! Memory shared by processes costs the same.

use std::hint::spin_loop;
use std::thread;

use rtrb::{Consumer, Producer, RingBuffer};

use super::flow::{Counted, Counting, Flow, Numbers};
use crate::Outcome;
use crate::placement::{End, pin};
use crate::record::Row;
use crate::usage::thread_cpu_ns;

/// Unsuccessful polls after which a thread yields, for machines where both share a CPU.
const PATIENCE: u32 = 10_000;

/// Writes in this thread and reads in another. Elements are filled and checked in place.
pub(super) fn measure(flow: Flow, row: &mut Row) -> Outcome<()> {
    let (producer, consumer) = RingBuffer::new(flow.capacity());
    let far = thread::spawn(move || {
        pin(End::Far).map_err(|error| error.to_string())?;
        Ok::<_, String>(read(consumer, flow))
    });
    let cpu = thread_cpu_ns();
    let written = write(producer, flow);
    let cpu = thread_cpu_ns() - cpu;
    let counted = far.join().map_err(|_| "the reading thread failed")??;
    counted.enter(cpu as f64 / written as f64, row);
    Ok(())
}

/// Polls until the condition holds, and yields sometimes. Returns false at the end of the run.
fn wait(mut holds: impl FnMut() -> bool, mut is_over: impl FnMut() -> bool) -> bool {
    loop {
        for _ in 0..PATIENCE {
            if holds() {
                return true;
            }
            spin_loop();
        }
        if is_over() {
            return false;
        }
        thread::yield_now();
    }
}

/// Writes until the reader has stopped, when the ring stays full. Returns the number of elements.
fn write(mut producer: Producer<f64>, flow: Flow) -> u64 {
    let mut numbers = Numbers::default();
    loop {
        let is_written = if flow.call == 1 {
            let is_pushed = producer.push(numbers.next as f64).is_ok();
            numbers.next += u64::from(is_pushed);
            is_pushed
        } else if let Ok(mut chunk) = producer.write_chunk(flow.call) {
            let (first, second) = chunk.as_mut_slices();
            numbers.fill(first);
            numbers.fill(second);
            chunk.commit_all();
            true
        } else {
            false
        };
        let has_room = || producer.slots() >= flow.call;
        if !is_written && !wait(has_room, || producer.is_abandoned()) {
            return numbers.next;
        }
    }
}

fn read(mut consumer: Consumer<f64>, flow: Flow) -> Counted {
    let mut counting = Counting::new(flow, thread_cpu_ns);
    loop {
        if let Some(counted) = counting.poll() {
            return counted;
        }
        let mut left = Flow::calls_per_clock_read(flow.call);
        while left > 0 {
            let is_read = if flow.call == 1 {
                let element = consumer.pop().ok();
                counting.numbers.check(element.as_slice());
                element.is_some()
            } else if let Ok(chunk) = consumer.read_chunk(flow.call) {
                let (first, second) = chunk.as_slices();
                counting.numbers.check(first);
                counting.numbers.check(second);
                chunk.commit_all();
                true
            } else {
                false
            };
            left -= usize::from(is_read);
            if !is_read {
                wait(|| consumer.slots() >= flow.call, || false);
            }
        }
    }
}
