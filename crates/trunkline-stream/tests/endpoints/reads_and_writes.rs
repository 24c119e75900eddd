//! Tests that a read or a write transfers either all of its elements or none.

use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use trunkline_stream::{Element, Options, Reader, StreamError, Until, ValueWriter, Writer};
use trunkline_types::{DataType, Value};

use crate::rig::*;

#[track_caller]
fn too_many<T: std::fmt::Debug>(result: Result<T, StreamError>, asked: usize, capacity: usize) {
    match result {
        Err(StreamError::TooMany {
            asked: a,
            capacity: c,
        }) => assert_eq!((a, c), (asked, capacity)),
        other => panic!("too many expected: {other:?}"),
    }
}

/// Fills both buffers. The reader's buffer is filled first, because only then is the fill level of the
/// writer's buffer known.
fn fill(writer: &mut Writer<f64>, [of_writer, of_reader]: [u64; 2]) {
    writer.write_many(&elements(0..of_reader), LONG).unwrap();
    writer.flush(Until::Available, LONG).unwrap();
    let rest = elements(of_reader..of_reader + of_writer);
    rest.chunks(3)
        .for_each(|some| writer.write_many(some, LONG).unwrap());
    assert_eq!(writer.properties().in_buffer, of_writer);
}

/// Behaviour: NS-01, NS-30, NS-34.
#[test]
fn single_and_multiple_calls_of_every_form_are_one_stream() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [100, 70]);
        let count = 20_000;
        let thread = thread::spawn(move || {
            let mut next = 0;
            for round in 0.. {
                let some = (round * 7 % 40).min(count - next);
                let run = elements(next..next + some);
                match round % 4 {
                    0 => run
                        .iter()
                        .for_each(|element| writer.write(element, LONG).unwrap()),
                    1 => writer.write_many(&run, LONG).unwrap(),
                    2 => writer
                        .write_with(run.len(), LONG, |space| space.copy_from_slice(&run))
                        .unwrap(),
                    _ => run_async_write(&mut writer, &run),
                }
                next += some;
                if next == count {
                    break;
                }
            }
            writer.close(LONG).elements
        });
        let mut next = 0;
        let mut space = [0.0; 70];
        for round in 0.. {
            let some = (round * 11 % 60).min(count - next) as usize;
            next = match round % 5 {
                0 => (0..some).fold(next, |next, _| {
                    check_run(&[reader.read(LONG).unwrap()], next)
                }),
                1 => check_run(&reader.read_many(some, LONG).unwrap(), next),
                2 => {
                    let read = reader.read_into(&mut space[..some], LONG).unwrap();
                    assert_eq!(read, some);
                    check_run(&space[..some], next)
                }
                3 => {
                    let region = reader.acquire(some, LONG).unwrap();
                    assert_eq!(region.len(), some);
                    check_run(&region, next)
                }
                _ => {
                    let read = run(reader.read_many_async(some, LONG)).unwrap();
                    check_run(&read, next)
                }
            };
            if next == count {
                break;
            }
        }
        assert_eq!(thread.join().unwrap(), 0);
        assert!(matches!(reader.read(LONG), Err(StreamError::Ended)));
    }
}

fn run_async_write(writer: &mut Writer<f64>, elements: &[f64]) {
    run(writer.write_many_async(elements, LONG)).unwrap();
}

/// Behaviour: NS-30, NS-31, NS-60, NS-67.
#[test]
fn a_write_without_room_writes_nothing_and_overwrites_nothing() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 5]);
        fill(&mut writer, [10, 5]);
        for timeout in [NONE, SHORT] {
            timed_out(writer.write(&-1.0, timeout));
            timed_out(writer.write_many(&[-1.0; 10], timeout));
            timed_out(writer.write_with(1, timeout, |space| space.fill(-1.0)));
            timed_out(run(writer.write_many_async(&[-1.0; 3], timeout)));
        }
        assert_eq!(writer.properties().total, 15);
        // There is room for three elements, but not for four.
        check_run(&reader.read_many(3, LONG).unwrap(), 0);
        until_filled(&writer, 7);
        timed_out(writer.write_many(&[-1.0; 4], SHORT));
        writer.write_many(&elements(15..18), LONG).unwrap();
        let next = check_run(&reader.read_many(5, LONG).unwrap(), 3);
        let next = check_run(&reader.read_many(5, LONG).unwrap(), next);
        let next = check_run(&reader.read_many(5, LONG).unwrap(), next);
        assert_eq!(next, 18);
        timed_out(reader.read(SHORT));
    }
}

/// Behaviour: NS-30, NS-31, NS-32.
#[test]
fn read_that_cannot_complete_takes_no_element() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 10]);
        writer.write_many(&elements(0..3), LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        let mut space = [-1.0; 4];
        for timeout in [NONE, SHORT] {
            timed_out(reader.read_many(4, timeout));
            timed_out(reader.read_into(&mut space, timeout));
            timed_out(reader.acquire(4, timeout).map(|_| ()));
            timed_out(run(reader.read_many_async(4, timeout)));
        }
        assert_eq!(space, [-1.0; 4], "nothing was given");
        assert_eq!(reader.properties().in_buffer, 3);
        assert_eq!(reader.properties().total, 0);
        writer.write(&element(3), LONG).unwrap();
        check_run(&reader.read_many(4, LONG).unwrap(), 0);
        timed_out(reader.read(NONE));
    }
}

/// A waiting call returns as soon as all of its elements are available.
///
/// Behaviour: NS-30.
#[test]
fn waiting_call_continues_as_soon_as_possible() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [4, 4]);
        let thread = thread::spawn(move || {
            let read = reader.read_many(4, LONG).unwrap();
            (read, reader)
        });
        for index in 0..4 {
            writer.write(&element(index), LONG).unwrap();
            writer.flush(Until::Available, LONG).unwrap();
        }
        let (read, mut reader) = thread.join().unwrap();
        check_run(&read, 0);

        fill_from(&mut writer, 4..12);
        let thread = thread::spawn(move || {
            writer.write_many(&elements(12..16), LONG).unwrap();
            writer
        });
        let mut next = 4;
        while next < 16 {
            next = check_run(&[reader.read(LONG).unwrap()], next);
        }
        drop(thread.join().unwrap());
    }
}

fn fill_from(writer: &mut Writer<f64>, range: std::ops::Range<u64>) {
    for index in range {
        writer.write(&element(index), LONG).unwrap();
    }
}

/// Behaviour: NS-33.
#[test]
fn more_than_the_buffer_holds_is_an_error_at_once() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [10, 6]);
        // If the call waited, it would wait forever.
        too_many(writer.write_many(&[0.0; 11], None), 11, 10);
        too_many(writer.write_with(11, None, |_| ()), 11, 10);
        too_many(run(writer.write_many_async(&[0.0; 11], None)), 11, 10);
        too_many(writer.write_with(usize::MAX, None, |_| ()), usize::MAX, 10);
        too_many(reader.read_many(7, None), 7, 6);
        too_many(reader.read_into(&mut [0.0; 7], None), 7, 6);
        too_many(reader.acquire(7, None).map(|_| ()), 7, 6);
        too_many(run(reader.read_many_async(7, None)), 7, 6);
        too_many(reader.read_many(usize::MAX, None), usize::MAX, 6);
        // The error is the same while elements are available, and no element is lost.
        writer.write_many(&elements(0..10), LONG).unwrap();
        too_many(reader.read_many(7, None), 7, 6);
        check_run(&reader.read_many(6, LONG).unwrap(), 0);
        check_run(&reader.read_many(4, LONG).unwrap(), 6);
    }
}

/// Behaviour: NS-33.
#[test]
fn variable_size_elements_are_bounded_by_count_and_bytes() {
    let small = Options {
        bytes_max: 100,
        ..options(4)
    };
    let large = Options {
        bytes_max: 10_000,
        ..options(8)
    };
    for of_writer_is_small in [true, false] {
        let (of_writer, of_reader) = match of_writer_is_small {
            true => (small.clone(), large.clone()),
            false => (large.clone(), small.clone()),
        };
        let capacity = of_writer.capacity;
        let (mut writer, mut reader) =
            meet::<String>(Dials::Writer, of_writer, of_reader, address(), None);
        let many = vec![String::new(); capacity + 1];
        too_many(writer.write_many(&many, None), capacity + 1, capacity);
        // The prefixes count too: 4 bytes for the element's length, 1 for the text's.
        let longest = "x".repeat(95);
        let error = writer.write(&(longest.clone() + "x"), None).unwrap_err();
        assert!(
            matches!(
                error,
                StreamError::TooLong {
                    bytes: 101,
                    max: 100
                }
            ),
            "{error}"
        );
        if of_writer_is_small {
            let three = vec!["y".repeat(40); 3];
            too_many(writer.write_many(&three, None), 3, capacity);
        }
        for _ in 0..10 {
            writer.write(&longest, LONG).unwrap();
            assert_eq!(reader.read(LONG).unwrap(), longest);
        }
    }
}

/// Behaviour: NS-30.
#[test]
fn empty_writes_and_reads_succeed() {
    let (mut writer, mut reader) = pair::<f64>(Dials::Writer, [4, 4]);
    writer.write_many(&[], NONE).unwrap();
    writer
        .write_with(0, NONE, |space| assert!(space.is_empty()))
        .unwrap();
    assert!(reader.read_many(0, NONE).unwrap().is_empty());
    assert_eq!(reader.read_into(&mut [], NONE).unwrap(), 0);
    assert!(reader.acquire(0, NONE).unwrap().is_empty());
    writer.write(&0.5, LONG).unwrap();
    assert_eq!(reader.read(LONG).unwrap(), 0.5);
    let (mut writer, mut reader) = pair::<String>(Dials::Writer, [4, 4]);
    writer.write_many(&[], NONE).unwrap();
    assert!(reader.read_many(0, NONE).unwrap().is_empty());
    writer.write(&String::new(), LONG).unwrap();
    assert_eq!(reader.read(LONG).unwrap(), "");
}

/// Behaviour: NS-30.
#[test]
fn nothing_is_written_into_a_full_buffer_at_once() {
    let [reader_url, url] = [unique_url("reader"), unique_url("writer")];
    let (mut writer, mut reader) = thread::scope(|scope| {
        let reader = scope.spawn(|| Reader::<u64>::create(&reader_url, options(4)).unwrap());
        let options = naming(&reader_url, options(4));
        let writer = ValueWriter::create(&url, &DataType::U64, options).unwrap();
        (writer, reader.join().unwrap())
    });
    // Both buffers are full.
    while writer.write(&Value::U64(1), SHORT).is_ok() {}
    let written = writer.write_bytes_with(0, NONE, |space| {
        assert!(space.is_empty());
        Ok::<usize, StreamError>(space.len())
    });
    assert_eq!(written.unwrap(), 0);
    assert_eq!(reader.read(LONG).unwrap(), 1);
}

/// Behaviour: NS-35.
#[test]
fn arrays_of_unequal_lengths_are_not_read_by_one_call() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<Vec<i32>>(dials, [16, 16]);
        let arrays = [
            vec![1, 2],
            vec![3, 4],
            vec![5],
            vec![],
            vec![],
            vec![6, 7, 8],
        ];
        writer.write_many(&arrays, LONG).unwrap();
        writer.flush(Until::Available, LONG).unwrap();
        for spans in [3, 4, 6] {
            let error = reader.read_many(spans, LONG).unwrap_err();
            assert!(
                matches!(error, StreamError::UnequalLengths { first: 2, .. }),
                "{error}"
            );
        }
        assert!(matches!(
            reader.read_available(),
            Err(StreamError::UnequalLengths { .. })
        ));
        assert_eq!(reader.properties().total, 0, "nothing was read");
        assert_eq!(reader.read_many(2, LONG).unwrap(), arrays[..2]);
        assert!(reader.read_many(2, LONG).is_err());
        assert_eq!(reader.read(LONG).unwrap(), arrays[2]);
        assert_eq!(reader.read_many(2, LONG).unwrap(), arrays[3..5]);
        assert_eq!(reader.read_available().unwrap(), arrays[5..]);
    }
}

/// Text has no dimensions, so one call reads texts of any length.
///
/// Behaviour: NS-35.
#[test]
fn texts_of_unequal_lengths_are_read_by_one_call() {
    let (mut writer, mut reader) = pair::<String>(Dials::Reader, [16, 16]);
    let texts = ["", "a", "three"].map(str::to_owned);
    writer.write_many(&texts, LONG).unwrap();
    assert_eq!(reader.read_many(3, LONG).unwrap(), texts);
}

/// Behaviour: NS-36.
#[test]
fn read_all_takes_the_available_elements_without_waiting() {
    fn check<T: Element + PartialEq + std::fmt::Debug>(to_element: impl Fn(usize) -> T) {
        for dials in EITHER {
            let (mut writer, mut reader) = pair::<T>(dials, [10, 10]);
            assert_eq!(reader.read_available().unwrap(), []);
            for count in [1, 10, 3] {
                let some: Vec<T> = (0..count).map(&to_element).collect();
                writer.write_many(&some, LONG).unwrap();
                writer.flush(Until::Available, LONG).unwrap();
                assert_eq!(reader.read_available().unwrap(), some);
                assert_eq!(reader.read_available().unwrap(), []);
            }
        }
    }
    check(|index| index as f64);
    check(|index| "text ".repeat(index));
}

/// Behaviour: NS-31.
#[test]
fn dropped_waiting_task_has_moved_no_element() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [4, 4]);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..5 {
            let mut read = pin!(reader.read_many_async(2, None));
            assert!(read.as_mut().poll(&mut context).is_pending());
        }
        fill(&mut writer, [4, 4]);
        for _ in 0..5 {
            let two = [-1.0; 2];
            let mut write = pin!(writer.write_many_async(&two, None));
            assert!(write.as_mut().poll(&mut context).is_pending());
        }
        check_run(&reader.read_many(4, LONG).unwrap(), 0);
        check_run(&reader.read_many(4, LONG).unwrap(), 4);
        timed_out(reader.read(SHORT));
    }
}

/// Both ends are tasks of one thread, with buffers far smaller than the data transferred.
///
/// Behaviour: NS-30, NS-34.
#[test]
fn two_tasks_transfer_everything() {
    for dials in EITHER {
        let (mut writer, mut reader) = pair::<f64>(dials, [8, 8]);
        let count = 2000;
        let writes = async {
            for index in (0..count).step_by(5) {
                writer
                    .write_many_async(&elements(index..index + 5), LONG)
                    .await
                    .unwrap();
            }
            writer.flush_async(Until::Read, LONG).await.unwrap();
            writer.close_async(LONG).await
        };
        let reads = async {
            let mut next = 0;
            while next < count {
                next = check_run(&reader.read_many_async(4, LONG).await.unwrap(), next);
            }
            reader.read_many_async(1, LONG).await
        };
        let (left, end) = run_both(writes, reads);
        assert_eq!(left.elements, 0);
        assert!(matches!(end, Err(StreamError::Ended)), "{end:?}");
    }
}

/// An acquired region belongs to the program until it is released.
///
/// Behaviour: NS-30, NS-62.
#[test]
fn an_acquired_region_counts_as_read_when_it_is_dropped() {
    let (mut writer, mut reader) = pair::<f64>(Dials::Writer, [6, 6]);
    fill(&mut writer, [6, 6]);
    let region = reader.acquire(6, LONG).unwrap();
    // The region is in the reader's buffer, so the writer has no room.
    timed_out(writer.write(&-1.0, SHORT));
    check_run(&region, 0);
    drop(region);
    assert_eq!(reader.properties().total, 6);
    writer.write(&element(12), LONG).unwrap();
    check_run(&reader.acquire(6, LONG).unwrap(), 6);
    check_run(&reader.acquire(1, LONG).unwrap(), 12);
}

/// Behaviour: NS-19, NS-30.
#[test]
fn longest_timeout_never_expires() {
    let longest = Some(Duration::MAX);
    let patient = || Options {
        timeout: longest,
        gone_after: longest,
        ..options(4)
    };
    for dials in EITHER {
        let (proxy, mut writer, mut reader) = proxied_with::<f64>(dials, patient(), patient());
        let thread = thread::spawn(move || {
            let first = run(reader.read_many_async(2, longest)).unwrap();
            let then = reader.read_many(4, longest).unwrap();
            (first, then, reader)
        });
        writer.write_many(&elements(0..2), longest).unwrap();
        writer.flush(Until::Read, longest).unwrap();
        proxy.cut();
        writer.write_many(&elements(2..6), longest).unwrap();
        let (first, then, mut reader) = thread.join().unwrap();
        check_run(&then, check_run(&first, 0));
        assert_eq!(writer.close(longest).elements, 0);
        assert!(matches!(reader.read(longest), Err(StreamError::Ended)));
    }
}
