//! Checks that the reader reads what the writer writes, from random files that are whole or
//! truncated.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod dump;
mod random_file;

use proptest::prelude::*;
use trunkline_tdms::{Limits, TdmsFile};

use self::dump::{Dump, dump_of};
use self::random_file::random_file;

fn read(bytes: &[u8]) -> String {
    let file = TdmsFile::open(bytes).unwrap();
    dump_of(&file).unwrap().text()
}

proptest! {
    /// Behaviour: ZC-26, ZC-28.
    #[test]
    fn written_data_is_read_back(seed in any::<u64>()) {
        let written = random_file(seed);
        prop_assert_eq!(read(&written.bytes), written.dump().text());
        let file = TdmsFile::open(&written.bytes).unwrap();
        prop_assert!(file.report().is_sound() || written.bytes.is_empty());
    }

    #[test]
    fn an_index_changes_nothing(seed in any::<u64>(), cut in any::<prop::sample::Index>()) {
        let written = random_file(seed);
        let other = random_file(seed.wrapping_add(1));
        let cut = &written.index[..cut.index(written.index.len() + 1)];
        for index in [&written.index[..], cut, &other.index, &other.bytes] {
            let limits = Limits::default();
            let file = TdmsFile::open_indexed(&written.bytes, index, limits).unwrap();
            let text = dump_of(&file).unwrap().text();
            prop_assert_eq!(text, written.dump().text());
        }
        if !written.index.is_empty() {
            let file = TdmsFile::open_index(&written.index, Limits::default()).unwrap();
            let mut names = Dump::default();
            for path in file.paths() {
                names.object(path);
                for (name, value) in file.properties(path).unwrap() {
                    names.property(path, name, value);
                }
            }
            let lines = |text: String| -> Vec<String> {
                let kept = text.lines().filter(|line| !line.starts_with("d "));
                kept.map(str::to_owned).collect()
            };
            prop_assert_eq!(lines(names.text()), lines(written.dump().text()));
        }
    }

    /// Behaviour: B-70.
    #[test]
    fn every_prefix_opens_with_every_whole_segment(
        seed in any::<u64>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let written = random_file(seed);
        let cut = cut.index(written.bytes.len() + 1);
        let file = TdmsFile::open(&written.bytes[..cut]).unwrap();
        let whole = written.states.iter().rposition(|(end, _)| *end <= cut as u64).unwrap();
        let (end, _) = written.states[whole];
        let report = file.report();
        // One write may create several segments; a file truncated between them is complete.
        let is_whole = cut as u64 == end && cut > 0;
        prop_assert!(!is_whole || report.incomplete.is_none());
        prop_assert!(is_whole || report.incomplete.is_some() || report.bytes_lost == 0);
        prop_assert!(report.bytes_lost <= cut as u64 - end);
        // Every value of the complete segments exists, and every other value was written.
        let found = dump_of(&file).unwrap().text();
        let states = written.states[whole..].iter().take(2).map(|(_, dump)| dump.text());
        let states: Vec<String> = states.collect();
        for line in states[0].lines().filter(|line| line.starts_with("d ")) {
            prop_assert!(
                found.lines().any(|found| begins_with(found, line)),
                "{} is missing", line
            );
        }
        let last = states.last().unwrap();
        for line in found.lines().filter(|line| line.starts_with("d ")) {
            prop_assert!(
                last.lines().any(|whole| begins_with(whole, line)),
                "{} was never written", line
            );
        }
    }
}

/// Returns true if the values of a line begin with the values of the line `with`.
fn begins_with(line: &str, with: &str) -> bool {
    let parts = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    let (line, with) = (parts(line), parts(with));
    line.len() == with.len()
        && line[1] == with[1]
        && line.last().unwrap().starts_with(with.last().unwrap())
}
