//! Plays everything in a file, or in the series that begins with it. The content may be arbitrary.

use std::path::Path;
use std::time::Duration;

use trunkline_record::{
    BackendChoice, CacheMode, GapMode, Pace, PacedDrain, Pacer, PlayOptions, PlaybackError,
    RecordedVariables, Recording, Selection, TdmsPlayback,
};
use trunkline_ring::{PagesWanted, RegionMemory};
use trunkline_tdms::{Limits, ObjectPath, TdmsFile, TdmsType, Text};

/// Maximum number of groups of a file that are played.
const GROUPS_MAX: usize = 8;

/// Maximum number of calls for rows, and of updates taken.
const STEPS: usize = 200;

/// Maximum size of a row in bytes, because a file may have a million channels.
const ROW_BYTES_MAX: usize = 1 << 16;

/// Times at which rows are requested, in ascending order.
const MOMENTS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_secs(1 << 40),
    Duration::MAX,
];

/// Plays a file as variables, with the series that begins with it, and each of its groups as rows.
pub fn play_everything(path: &Path) {
    if let Ok(mut recorded) = RecordedVariables::open_series(path) {
        let mut before = Duration::ZERO;
        for _ in 0..STEPS {
            let update = match recorded.next_update() {
                Ok(Some(update)) => update,
                // The other variables continue.
                Err(PlaybackError::Damaged { .. }) => continue,
                Ok(None) | Err(_) => break,
            };
            let variable = &recorded.variables()[update.variable];
            assert!(update.value.has_type(&variable.data_type), "{variable:?}");
            assert!(update.after >= before, "time goes back");
            before = update.after;
        }
    }
    if let Ok(mut recorded) = RecordedVariables::open_series(path) {
        recorded.select_only(1);
        for _ in 0..STEPS {
            let Ok(Some(update)) = recorded.next_update() else {
                break;
            };
            assert_eq!(
                update.variable, 1,
                "another variable than the one that is kept"
            );
        }
    }
    let _ = Recording::open(path, &Selection::default());
    for (group, times) in groups(path) {
        for (is_scaled, times) in [(false, times), (true, None)] {
            let selection = Selection {
                group: Some(group.clone()),
                is_scaled,
                times,
                ..Selection::default()
            };
            let Ok(recording) = Recording::open(path, &selection) else {
                continue;
            };
            let _ = play(recording);
        }
    }
}

/// Returns the groups of a file, each with its first channel of times, if it has one.
fn groups(path: &Path) -> Vec<(Text, Option<Text>)> {
    let limits = Limits {
        is_salvaging: true,
        ..Limits::default()
    };
    let file = std::fs::File::open(path).unwrap();
    let Ok(file) = TdmsFile::open_with(file, limits) else {
        return Vec::new();
    };
    let groups = file.groups().take(GROUPS_MAX).cloned();
    let times = |group: &Text| {
        file.channels().find_map(|channel| {
            let path = channel.path();
            let is_of_group = path.parent() == Some(ObjectPath::Group(group.clone()));
            (is_of_group && channel.data_type() == TdmsType::Time).then(|| path.name())
        })
    };
    groups.map(|group| (group.clone(), times(&group))).collect()
}

fn play(recording: Recording) -> Result<(), PlaybackError> {
    if recording.row_bytes() > ROW_BYTES_MAX {
        return Ok(());
    }
    let paces = [1.0, 1e-300, 1e-12, 1e300, f64::MAX].map(Pace::Scaled);
    for pace in paces.into_iter().chain([Pace::Original, Pace::Full]) {
        for gaps in [GapMode::AsTime, GapMode::Skipped] {
            let Ok(mut pacer) = Pacer::new(&recording, pace, gaps) else {
                continue;
            };
            for now in MOMENTS {
                pacer.take(now, 100)?;
                if let Some(due) = pacer.next_due()? {
                    pacer.take(due, 1)?;
                }
                pacer.postpone_to(now)?;
                pacer.postpone_by(now);
            }
        }
    }
    let row_bytes = recording.row_bytes();
    let made = RegionMemory::for_playback(row_bytes, 64, PagesWanted::Ordinary, 4);
    let Ok((memory, ring, drain)) = made else {
        return Ok(());
    };
    let pacer = Pacer::new(&recording, Pace::Full, GapMode::AsTime)?;
    let options = PlayOptions {
        region_rows: 16,
        backend: BackendChoice::PlainWrites,
        cache_mode: CacheMode::Cached,
        ..PlayOptions::default()
    };
    let mut playback = TdmsPlayback::new(recording, memory, ring, options)?;
    let mut drain = PacedDrain::new(drain, pacer);
    let mut rows = vec![0; 50 * row_bytes];
    for _ in 0..STEPS {
        playback.fill()?;
        if drain.take(Duration::ZERO, &mut rows)? == 0 {
            playback.wait_for_one(Duration::from_secs(1))?;
        }
        if drain.is_over() {
            break;
        }
    }
    Ok(())
}
