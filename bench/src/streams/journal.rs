//! S6: streams with journals. The limit is the slower of raw TCP and the disk.
//!
//! The writer writes for a fixed time and then flushes to the level of the system. The rate is over
//! the whole time, so that no data remains in the page cache.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use trunkline::stream::{JournalOptions, Until};

use super::drain::Tap;
use super::flow::{Counted, Flow};
use super::{JOURNALS, disk};
use crate::Outcome;
use crate::cells::RAW;
use crate::record::Row;
use crate::settings::Settings;
use crate::usage::process_cpu_ns;

/// Journal at the writer only; flushed until received.
pub const RECEIVED: &str = "journal-received";
/// Journals at both ends; flushed until read.
pub const READ: &str = "journal-read";
/// Journals at both ends; flushed until durable at the reader.
pub const DURABLE: &str = "journal-durable";
/// All systems of S6.
pub const SYSTEMS: [&str; 6] = [RAW, disk::DIRECT, disk::SYNCED, RECEIVED, READ, DURABLE];
/// Elements of a call.
pub const CALLS: [usize; 2] = [10_000, 100_000];

/// Longer than any flush takes.
const FLUSH_MAX: Duration = Duration::from_secs(120);
/// The settings for the folder of the journals and for a journal at the reader.
const FOLDER: &str = "folder";
const BOTH: &str = "both";

/// Measures with one system.
pub fn cell(system: &str, settings: &Settings, placement: &str) -> Outcome<Row> {
    let flow = Flow::read(settings)?;
    let mut row = Row::new(JOURNALS, system, format!("call={}", flow.call), placement);
    row.waiting = "mixed".to_owned();
    let until = match system {
        RAW => None,
        disk::DIRECT | disk::SYNCED => {
            disk::measure(system, &flow, &mut row)?;
            return Ok(row);
        }
        RECEIVED => Some(Until::Available),
        READ => Some(Until::Read),
        DURABLE => Some(Until::Durable),
        _ => return Err(format!("there is no system {system}").into()),
    };
    let folder = disk::folder()?;
    let mut settings = flow.settings();
    if until.is_some() {
        settings.set(FOLDER, folder.path().display());
        settings.set(BOTH, system != RECEIVED);
    }
    let mut tap = Tap::open(system, &flow, &settings)?;
    write_for(&mut tap, flow.warm_up, until)?;
    let (before, cpu) = (tap.numbers.next, process_cpu_ns());
    let start = Instant::now();
    write_for(&mut tap, flow.measured, until)?;
    let elements = tap.numbers.next - before;
    let writer_ns = (process_cpu_ns() - cpu) as f64 / elements as f64;
    let flushed = start.elapsed();
    let counted = tap.finish()?;
    // Raw has no flush: it is done when its reader reports.
    let elapsed = until.map_or_else(|| start.elapsed(), |_| flushed);
    let counted = Counted {
        elements: elements as f64,
        seconds: elapsed.as_secs_f64(),
        cpu_ns: counted.cpu_ns * elements as f64 / counted.elements,
        wrong: counted.wrong,
    };
    counted.enter(writer_ns, &mut row);
    Ok(row)
}

fn write_for(tap: &mut Tap, time: Duration, until: Option<Until>) -> Outcome<()> {
    let start = Instant::now();
    while start.elapsed() < time {
        tap.write()?;
    }
    if let (Some(writer), Some(until)) = (tap.writer(), until) {
        writer.flush(until, Some(FLUSH_MAX))?;
    }
    Ok(())
}

/// Returns the journal of an end, if it has one.
pub(super) fn options(settings: &Settings, end: &str) -> Outcome<Option<JournalOptions>> {
    let folder: String = settings.value_or(FOLDER, String::new())?;
    let is_there = !folder.is_empty() && (end == "writer" || settings.value(BOTH)?);
    Ok(is_there.then(|| JournalOptions::at(PathBuf::from(folder).join(end))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_has_a_journal_from_read_on() {
        let folder = |both: bool| {
            let settings = Settings::default().with(FOLDER, "/f").with(BOTH, both);
            let of = |end| {
                options(&settings, end)
                    .unwrap()
                    .map(|journal| journal.folder)
            };
            (of("writer"), of("reader"))
        };
        let writer = Some(PathBuf::from("/f/writer"));
        assert_eq!(folder(false), (writer.clone(), None));
        assert_eq!(folder(true), (writer, Some(PathBuf::from("/f/reader"))));
        assert!(options(&Settings::default(), "writer").unwrap().is_none());
    }
}
