//! R3 and R4: TDMS files read whole and in slices, and written in many small segments.
//!
//! Files are in the page cache: the format is measured, not the disk. The limit is the same bytes
//! read or written without a format.

pub mod reading;
pub mod writing;

use std::time::{Duration, Instant};

use crate::plan::{Cell, Extent};
use crate::record::Row;
use crate::settings::Settings;
use crate::usage::process_cpu_ns;

pub const READING: &str = "tdms_read";
pub const WRITING: &str = "tdms_write";
/// The same bytes without a format.
pub const RAW_FILE: &str = "raw-file";
/// The systems of both, besides npTDMS.
pub const SYSTEMS: [&str; 2] = [RAW_FILE, crate::cells::TRUNKLINE];

pub(crate) fn cells(extent: Extent) -> Vec<Cell> {
    let is_quick = extent == Extent::Quick;
    let (segments, ms) = if is_quick { (8, 100) } else { (256, 2000) };
    let sized = Settings::default()
        .with("segments", segments)
        .with("ms", ms);
    let mut cells: Vec<Cell> = Vec::new();
    for what in reading::WHATS {
        cells.push((READING, &SYSTEMS, sized.clone().with("what", what)));
    }
    let small = Settings::default()
        .with("segments", if is_quick { 3 } else { writing::SEGMENTS })
        .with("ms", ms);
    cells.push((WRITING, &SYSTEMS, small));
    cells
}

/// Passes within the measuring time.
struct Passes {
    count: u64,
    seconds: f64,
    cpu_ns: u64,
}

impl Passes {
    /// Runs one pass unmeasured, then at least two until the time is over.
    fn of(time: Duration, mut pass: impl FnMut() -> crate::Outcome<()>) -> crate::Outcome<Self> {
        pass()?;
        let (start, cpu) = (Instant::now(), process_cpu_ns());
        let mut count = 0;
        while count < 2 || start.elapsed() < time {
            pass()?;
            count += 1;
        }
        Ok(Self {
            count,
            seconds: start.elapsed().as_secs_f64(),
            cpu_ns: process_cpu_ns() - cpu,
        })
    }

    /// Enters the rate for the given bytes of values per pass.
    fn enter(&self, bytes: u64, row: &mut Row) {
        let all = (bytes * self.count) as f64;
        row.figure("mb_per_s", all / 1e6 / self.seconds);
        row.figure("cpu_s_per_gb", self.cpu_ns as f64 / all);
    }
}

fn time(settings: &Settings) -> crate::Outcome<Duration> {
    Ok(Duration::from_millis(settings.value("ms")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_all_passes() {
        let mut left = 3;
        let sut = Passes::of(Duration::ZERO, || {
            left -= 1;
            Ok(())
        });
        let mut sut = sut.unwrap();
        assert_eq!((sut.count, left), (2, 0));
        (sut.seconds, sut.cpu_ns) = (0.5, 1_000_000);
        let mut row = Row::new(READING, RAW_FILE, String::new(), "cross");
        sut.enter(1_000_000, &mut row);
        assert_eq!(row.figures["mb_per_s"], 4.0);
        assert_eq!(row.figures["cpu_s_per_gb"], 0.5);
    }
}
