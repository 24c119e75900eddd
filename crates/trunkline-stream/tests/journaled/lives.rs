//! Tests endpoints with journals that close and restart.

use std::thread;
use std::time::Duration;

use trunkline_stream::{
    Durability, JournalOptions, Options, Reader, StreamError, StreamFault, Until, ValueWriter,
    Writer,
};
use trunkline_types::{DataType, Value};

use crate::pair::{CAPACITY, Pair, TEST_TIMEOUT, free_port};

/// Behaviour: B-60.
#[test]
fn stream_continues_after_both_ends_restart() {
    for durability in [Durability::Process, Durability::Disk] {
        let pair = Pair::new(durability);
        let (mut next_written, mut next_read) = (0_u64, 0_u64);
        for round in 0..6 {
            let (mut writer, mut reader) = pair.both::<u64>();
            assert_eq!(writer.properties().total, next_written, "round {round}");
            assert_eq!(reader.properties().total, next_read, "round {round}");
            for _ in 0..90 {
                writer.write(&next_written, TEST_TIMEOUT).unwrap();
                next_written += 1;
            }
            for element in reader.read_many(50 + round, TEST_TIMEOUT).unwrap() {
                assert_eq!(element, next_read);
                next_read += 1;
            }
            reader.commit().unwrap();
            // This element was not committed, so it is delivered again.
            assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), next_read);
        }
        let (writer, mut reader) = pair.both::<u64>();
        let closing = thread::spawn(move || writer.close(TEST_TIMEOUT));
        while next_read < next_written {
            assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), next_read);
            next_read += 1;
        }
        let error = reader.read(TEST_TIMEOUT).unwrap_err();
        assert!(matches!(error, StreamError::Ended), "{error}");
        assert_eq!(closing.join().unwrap().elements, 0);
        reader.close().unwrap();
        // Both journals are empty: another stream begins.
        let (mut writer, mut reader) = pair.both::<u64>();
        writer.write(&7, TEST_TIMEOUT).unwrap();
        assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), 7);
        assert_eq!(reader.properties().total, 1);
    }
}

/// Behaviour: B-60.
///
/// The reader is disconnected for far longer than the writer's buffer lasts; the writer restarts
/// meanwhile.
#[test]
fn an_outage_longer_than_the_buffer_loses_nothing() {
    let pair = Pair::new(Durability::Process);
    let count = 200 * CAPACITY as u64;
    let (writer, reader) = pair.both::<String>();
    drop((writer, reader));
    let text = |i: u64| "x".repeat(i as usize % 40) + &i.to_string();
    for life in 0..4 {
        // There is no peer, and the writes do not wait.
        let mut writer = pair.writer::<String>();
        for i in life * count / 4..(life + 1) * count / 4 {
            writer.write(&text(i), Some(Duration::ZERO)).unwrap();
        }
        assert_eq!(writer.properties().in_buffer, (life + 1) * count / 4);
    }
    let (mut writer, mut reader) = pair.both::<String>();
    let flushing = thread::spawn(move || {
        writer.flush(Until::Durable, TEST_TIMEOUT).unwrap();
        writer
    });
    for i in 0..count {
        assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), text(i));
    }
    reader.commit().unwrap();
    let writer = flushing.join().unwrap();
    assert_eq!(writer.properties().in_buffer, 0);
}

/// Behaviour: B-60.
#[test]
fn journaled_reader_reconnects_to_a_writer_without_journal() {
    let mut pair = Pair::new(Durability::Process);
    pair.has_journal = [false, true];
    let (mut writer, mut reader) = pair.both::<u64>();
    writer.write_many(&[0, 1, 2, 3], TEST_TIMEOUT).unwrap();
    assert_eq!(reader.read_many(2, TEST_TIMEOUT).unwrap(), [0, 1]);
    reader.commit().unwrap();
    drop(reader);
    writer.write_many(&[4, 5], TEST_TIMEOUT).unwrap();
    let mut reader = pair.reader::<u64>();
    assert_eq!(reader.read_many(4, TEST_TIMEOUT).unwrap(), [2, 3, 4, 5]);
    writer.flush(Until::Durable, TEST_TIMEOUT).unwrap();
    // Another writer does not continue this stream. It waits until the reading program has
    // finished with the stream.
    drop((writer, reader));
    let mut reader = pair.reader::<u64>();
    let options = pair.options(0);
    let patient = options.clone();
    let impatient = Options {
        timeout: Some(Duration::from_millis(100)),
        ..options
    };
    let created = Writer::<u64>::create(&pair.url(0), impatient);
    let message = created.unwrap_err().to_string();
    assert!(message.contains("already connected"), "{message}");
    // Uncommitted elements are delivered again.
    assert_eq!(reader.read_many(4, TEST_TIMEOUT).unwrap(), [2, 3, 4, 5]);
    let error = reader.read(TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, StreamError::Ended), "{error}");
    reader.close().unwrap();
    thread::scope(|scope| {
        let next = scope.spawn(|| pair.reader::<u64>());
        Writer::<u64>::create(&pair.url(0), patient).unwrap();
        next.join().unwrap();
    });
}

/// Behaviour: B-60.
#[test]
fn durable_flush_without_a_journal_fails_at_once() {
    let mut pair = Pair::new(Durability::Process);
    pair.has_journal = [true, false];
    let (mut writer, mut reader) = pair.both::<u64>();
    writer.write(&1, TEST_TIMEOUT).unwrap();
    let error = writer.flush(Until::Durable, TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, StreamError::NoJournal), "{error}");
    assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), 1);
    writer.flush(Until::Available, TEST_TIMEOUT).unwrap();
}

/// Behaviour: B-60.
#[test]
fn write_waits_for_room_in_a_full_journal() {
    let pair = Pair::new(Durability::Process);
    drop(pair.both::<u64>());
    let bytes_max = 1 << 20;
    let options = || {
        let mut options = pair.options(0);
        options.journal.as_mut().unwrap().bytes_max = bytes_max;
        options
    };
    let mut writer = Writer::<u64>::create(&pair.url(0), options()).unwrap();
    let run: Vec<u64> = (0..CAPACITY as u64).collect();
    let mut runs = 0;
    let error = loop {
        match writer.write_many(&run, Some(Duration::ZERO)) {
            Ok(()) => runs += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StreamError::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("journal"), "{error}");
    let bytes = runs * CAPACITY as u64 * 8;
    assert!((bytes_max * 3 / 4..=bytes_max).contains(&bytes), "{bytes}");
    let mut reader = pair.reader::<u64>();
    let writing = thread::spawn(move || {
        for _ in 0..runs {
            let run: Vec<u64> = (0..CAPACITY as u64).collect();
            writer.write_many(&run, TEST_TIMEOUT).unwrap();
        }
        writer
    });
    for _ in 0..2 * runs {
        assert_eq!(reader.read_many(CAPACITY, TEST_TIMEOUT).unwrap(), run);
    }
    writing.join().unwrap();
}

/// Runs a future on this thread, which sleeps while it is pending.
fn run<R>(future: impl Future<Output = R>) -> R {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future = std::pin::pin!(future);
    let waker = std::sync::Arc::new(Unpark(thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(result) => return result,
            std::task::Poll::Pending => thread::park(),
        }
    }
}

/// Behaviour: B-60.
///
/// If closing times out, the journal keeps the elements that the reader has not received, and the next
/// run sends them.
#[test]
fn close_that_times_out_leaves_the_remaining_elements_to_the_next_run() {
    let pair = Pair::new(Durability::Process);
    drop(pair.both::<u64>());
    let mut writer = pair.writer::<u64>();
    for i in 0..500 {
        writer.write(&i, TEST_TIMEOUT).unwrap();
    }
    assert_eq!(writer.close(Some(Duration::ZERO)).elements, 500);
    let mut writer = pair.writer::<u64>();
    let error = writer.write(&500, TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, StreamError::Closed), "{error}");
    let closing = thread::spawn(move || writer.close(TEST_TIMEOUT));
    let mut reader = pair.reader::<u64>();
    for i in 0..500 {
        assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), i);
    }
    let error = reader.read(TEST_TIMEOUT).unwrap_err();
    assert!(matches!(error, StreamError::Ended), "{error}");
    assert_eq!(closing.join().unwrap().elements, 0);
}

/// Behaviour: NS-45, B-60.
///
/// Undelivered variable-size elements are counted in the next run too.
#[test]
fn ended_journal_reports_its_content_in_the_next_run() {
    let pair = Pair::new(Durability::Process);
    drop(pair.both::<String>());
    let mut writer = pair.writer::<String>();
    for i in 0..50 {
        writer.write(&"x".repeat(i), TEST_TIMEOUT).unwrap();
    }
    for _life in 0..3 {
        assert_eq!(writer.close(Some(Duration::ZERO)).elements, 50);
        writer = pair.writer();
    }
}

/// Behaviour: B-60.
///
/// A removed journal does not cause an unnoticed gap in the stream. An endpoint that would begin in the
/// middle of the stream gets an error about lost data.
#[test]
fn removed_journal_does_not_cause_an_unnoticed_gap() {
    let mut pair = Pair::new(Durability::Process);
    for side in [0, 1] {
        pair.has_journal = [side == 0, side == 1];
        let options = |capacity: usize| Options {
            accepts_successor: true,
            ..pair.options(capacity)
        };
        let writer = || Writer::<u64>::create(&pair.url(0), options(0));
        let reader = || Reader::<u64>::create(&pair.url(1), options(1));
        let (mut first, mut second) = thread::scope(|scope| {
            let reader = scope.spawn(reader);
            (writer().unwrap(), reader.join().unwrap().unwrap())
        });
        first.write_many(&[0, 1, 2, 3], TEST_TIMEOUT).unwrap();
        assert_eq!(second.read_many(2, TEST_TIMEOUT).unwrap(), [0, 1]);
        first.flush(Until::Available, TEST_TIMEOUT).unwrap();
        let journal = pair.journal(side);
        let message = if side == 0 {
            drop(first);
            std::fs::remove_dir_all(journal).unwrap();
            let created = writer().and_then(|mut writer| writer.write(&9, TEST_TIMEOUT));
            assert_eq!(second.read_many(2, TEST_TIMEOUT).unwrap(), [2, 3]);
            assert!(second.read(TEST_TIMEOUT).is_err());
            created.unwrap_err().to_string()
        } else {
            second.commit().unwrap();
            first.flush(Until::Durable, TEST_TIMEOUT).unwrap();
            drop(second);
            std::fs::remove_dir_all(journal).unwrap();
            // The writer assumes that this reader continues the stream.
            let local = reader().and_then(|mut reader| reader.read(TEST_TIMEOUT));
            let is_reported = matches!(
                local,
                Err(StreamError::Fault(StreamFault::DataLost { bytes: 32 }))
            );
            assert!(is_reported, "{local:?}");
            first.write(&4, TEST_TIMEOUT).unwrap_err().to_string()
        };
        let is_reported = message.contains("are lost") || message.contains("is lost");
        assert!(is_reported, "{message}");
    }
}

/// Behaviour: B-60.
#[test]
fn elements_of_a_runtime_type_pass_through_the_journal() {
    let pair = Pair::new(Durability::Process);
    let create = || ValueWriter::create(&pair.url(0), &DataType::U64, pair.options(0)).unwrap();
    let (mut writer, mut reader) = thread::scope(|scope| {
        let reader = scope.spawn(|| pair.reader::<u64>());
        (create(), reader.join().unwrap())
    });
    let mut next = 0_u64;
    for _ in 0..50 {
        let written = writer.write_bytes_with::<StreamError>(7, TEST_TIMEOUT, |bytes| {
            for (i, chunk) in bytes.chunks_mut(8).enumerate() {
                chunk.copy_from_slice(&(next + i as u64).to_le_bytes());
            }
            Ok(bytes.len())
        });
        assert_eq!(written.unwrap(), 7);
        next += 7;
        drop(writer);
        writer = create();
    }
    for i in 0..next {
        assert_eq!(reader.read(TEST_TIMEOUT).unwrap(), i);
    }
}

/// Behaviour: B-60.
#[test]
fn nothing_is_written_into_a_full_journal_at_once() {
    let pair = Pair::new(Durability::Process);
    let mut of_writer = pair.options(0);
    of_writer.journal.as_mut().unwrap().bytes_max = 1 << 20;
    let (mut writer, _reader) = thread::scope(|scope| {
        let reader = scope.spawn(|| pair.reader::<u64>());
        let writer = ValueWriter::create(&pair.url(0), &DataType::U64, of_writer).unwrap();
        (writer, reader.join().unwrap())
    });
    let at_once = Some(Duration::ZERO);
    let all = vec![Value::U64(7); CAPACITY];
    while writer.write_many(&all, at_once).is_ok() {}
    for _ in 0..1000 {
        let written = writer.write_bytes_with::<StreamError>(0, at_once, |bytes| Ok(bytes.len()));
        assert_eq!(written.unwrap(), 0);
    }
}

/// Behaviour: B-60.
#[test]
fn tasks_write_and_read_with_journals_too() {
    let pair = Pair::new(Durability::Disk);
    for life in 0..3_u64 {
        let (mut writer, mut reader) = pair.both::<u64>();
        let writing = thread::spawn(move || {
            run(async {
                for i in life * 50..(life + 1) * 50 {
                    writer
                        .write_many_async(&[i; 9], TEST_TIMEOUT)
                        .await
                        .unwrap();
                }
                writer
                    .flush_async(Until::Durable, TEST_TIMEOUT)
                    .await
                    .unwrap();
            });
        });
        run(async {
            for i in life * 50..(life + 1) * 50 {
                assert_eq!(
                    reader.read_many_async(9, TEST_TIMEOUT).await.unwrap(),
                    [i; 9]
                );
            }
            reader.commit_async().await.unwrap();
        });
        writing.join().unwrap();
    }
}

#[test]
fn unusable_folder_is_named_in_the_error() {
    let pair = Pair::new(Durability::Process);
    let file = pair.folder.path().join("a file");
    std::fs::write(&file, "").unwrap();
    let mut options = pair.options(0);
    options.journal = Some(JournalOptions::at(file.join("below it")));
    let message = Writer::<u64>::create(&pair.url(0), options)
        .unwrap_err()
        .to_string();
    assert!(message.contains("a file/below it"), "{message}");
    let (_writer, _reader) = pair.both::<u64>();
    let mut second = pair.options(0);
    second.peer = None;
    let url = format!("tl://localhost:{}/other", free_port());
    let message = Writer::<u64>::create(&url, second).unwrap_err().to_string();
    assert!(
        message.contains("another endpoint is using it"),
        "{message}"
    );
}
