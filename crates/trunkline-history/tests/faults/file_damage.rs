//! Tests damaged and missing files of a history. There is no panic, and no wrong value. Each answer is either
//! unchanged, or reports the damage and names the file.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader, SerializedFileReader};
use tempfile::TempDir;
use trunkline_engine::history::History;
use trunkline_history::{HistoryFolder, Verified, rebuild, verify};
use trunkline_types::history::{HistoryEvent, HistoryForm, HistoryPage, HistoryQuery, SeriesData};
use trunkline_types::{DataType, Pattern, Timestamp, Value};

use crate::rig::{Answer, Line, Plant, SECOND, START, all, copy, files, flip, folder};

/// Number of bits flipped per kind of file, one at a time; `HISTORY_FLIPS` overrides it.
const FLIPS: u64 = 150;
const DAY: i64 = 86_400 * SECOND;

fn variables() -> [(&'static str, DataType); 4] {
    [
        ("n", DataType::I64),
        ("raw", DataType::Bytes),
        ("text", DataType::String),
        ("x", DataType::F64),
    ]
}

fn flips() -> u64 {
    let set = std::env::var("HISTORY_FLIPS").ok();
    set.map_or(FLIPS, |set| set.parse().unwrap())
}

/// A folder with files of three days, and the answers to a few queries.
struct Filed {
    folder: TempDir,
    /// The subfolder `killed` has the state of the files after the engine was killed.
    killed: TempDir,
    time: i64,
    queries: Vec<HistoryQuery>,
    answers: Vec<Pages>,
}

/// The content of a query's pages: rows or buckets.
#[derive(Debug, Default)]
struct Pages {
    answer: Answer,
    buckets: Vec<String>,
}

impl Filed {
    fn new() -> Self {
        let folder = folder();
        let mut plant = Plant::start(folder.path(), 1, START, &variables());
        let mut random = fastrand::Rng::with_seed(5);
        for day in 0..3 {
            plant.time = START + day * DAY;
            for n in 0..800 {
                plant.write("x", &Value::F64(random.f64()));
                plant.write("n", &Value::I64(random.i64(..)));
                if n % 8 == 0 {
                    let text = Value::String(format!("text {}", random.u32(..)).into());
                    plant.write("text", &text);
                    let raw: Vec<u8> = (0..20).map(|_| random.u8(..)).collect();
                    plant.write("raw", &Value::Bytes(raw.into()));
                }
            }
            plant.seal();
        }
        let time = plant.time + SECOND;
        let queries = queries();
        let answers = queries.iter().map(|query| pages(&plant, query).unwrap());
        let answers: Vec<Pages> = answers.collect();
        assert_eq!(answers[0].answer.lines.len(), 3 * (1600 + 200));
        // Save the state that a kill leaves.
        let killed = crate::rig::folder();
        copy(folder.path(), &killed.path().join("killed"));
        drop(plant);
        Self {
            folder,
            killed,
            time,
            queries,
            answers,
        }
    }

    /// Returns the paths of the files of a kind.
    fn files_in(&self, below: &str) -> Vec<PathBuf> {
        let all = files(self.folder.path()).into_iter();
        all.filter(|path| path.starts_with(below)).collect()
    }

    /// Damages a file, and describes what is wrong with the answers; `None` if they are correct.
    fn fault_after(&self, place: &Path, file: &Path, damage: &dyn Fn(&Path)) -> Option<String> {
        copy(self.folder.path(), place);
        damage(&place.join(file));
        let work = AssertUnwindSafe(|| self.fault_in(place, file));
        catch_unwind(work).unwrap_or_else(|_| Some("a panic".to_owned()))
    }

    fn fault_in(&self, place: &Path, file: &Path) -> Option<String> {
        let plant = match Plant::open(place, 3, self.time, &variables()) {
            Ok(plant) => plant,
            Err(error) => return unnamed(&error.to_string(), file),
        };
        let each = self.queries.iter().zip(&self.answers);
        each.filter_map(|(query, right)| match pages(&plant, query) {
            Ok(found) => wrong(&found, right, file),
            Err(error) => unnamed(&error, file),
        })
        .next()
    }

    /// Damages each of these files in turn, and expects no wrong answer.
    fn damage_all(&self, files: &[PathBuf], damages: &[Damage]) {
        assert!(!files.is_empty(), "there is such a file");
        let copied = folder();
        let place = copied.path().join("copy");
        let mut faults = Vec::new();
        for (at, (name, damage)) in damages.iter().enumerate() {
            let file = &files[at % files.len()];
            if let Some(fault) = self.fault_after(&place, file, damage) {
                faults.push(format!("{name} of {}: {fault}", file.display()));
            }
        }
        let total = damages.len();
        let first: Vec<_> = faults.iter().take(5).collect();
        assert!(
            faults.is_empty(),
            "{} of {total} damages have faults, such as {first:#?}",
            faults.len(),
        );
    }
}

/// Returns queries of all rows in one page, of all rows in small pages, of a time span, of the last rows, and
/// of buckets.
fn queries() -> Vec<HistoryQuery> {
    let mut time = all();
    time.since = Some(Timestamp::from_nanos(START + DAY / 1000));
    time.until = Some(Timestamp::from_nanos(START + DAY + DAY / 200));
    let mut last = all();
    last.form = HistoryForm::Last;
    let mut buckets = all();
    buckets.patterns = vec![Pattern::parse("rig/x").unwrap()];
    // The width is a power of two, so that summaries can be used.
    buckets.form = HistoryForm::Buckets(NonZeroU64::new(1 << 40).unwrap());
    let mut narrow = buckets.clone();
    narrow.form = HistoryForm::Buckets(NonZeroU64::new(7 * SECOND as u64).unwrap());
    vec![all(), time, last, buckets, narrow]
}

fn pages(plant: &Plant, query: &HistoryQuery) -> Result<Pages, String> {
    pages_of(query, |query| {
        let page = plant.history.read(query, plant.moment().wall);
        page.map_err(|error| error.to_string())
    })
}

/// Reads the pages of a query from a folder without an engine.
fn pages_in(folder: &Path, query: &HistoryQuery) -> Result<Pages, String> {
    let wall = Timestamp::from_nanos(START + 10 * DAY);
    let mut folder = HistoryFolder::open(folder, wall).map_err(|error| error.to_string())?;
    pages_of(query, |query| {
        let page = folder.read(query, wall);
        page.map_err(|error| error.to_string())
    })
}

fn pages_of(
    query: &HistoryQuery,
    mut read: impl FnMut(&HistoryQuery) -> Result<HistoryPage, String>,
) -> Result<Pages, String> {
    let mut query = query.clone();
    let mut pages = Pages::default();
    loop {
        let mut page = read(&query)?;
        query.from = page.next.clone();
        page.series.retain(|series| match &series.data {
            SeriesData::Rows(_) => true,
            SeriesData::Buckets { buckets, .. } => {
                let texts = buckets
                    .iter()
                    .map(|one| format!("{} {one:?}", series.variable));
                pages.buckets.extend(texts);
                false
            }
        });
        pages.answer.add(page);
        if query.from.is_none() {
            return Ok(pages);
        }
    }
}

/// Returns an error text unless the sentence names this file.
fn unnamed(sentence: &str, file: &Path) -> Option<String> {
    let name = file.file_stem().unwrap().to_string_lossy();
    // Only the catalogue has a version, so an error about a version need not name the file.
    let is_named = sentence.contains(&*name) || sentence.contains("newer version");
    (!is_named).then(|| format!("the file is not named: {sentence}"))
}

/// Describes what is wrong with an answer: it differs without reporting damage, or it has rows that were
/// never written. Returns `None` if the answer is correct.
fn wrong(found: &Pages, right: &Pages, file: &Path) -> Option<String> {
    let lines = |pages: &Pages| pages.answer.lines.clone();
    let is_same = lines(found) == lines(right) && found.buckets == right.buckets;
    if is_same {
        return None;
    }
    let written: BTreeSet<Line> = lines(right).into_iter().collect();
    let mut seen = BTreeSet::new();
    // If the last row is damaged, the answer has an earlier row, which the correct answer does not have.
    let is_last = right.answer.lines.len() < 10;
    for line in lines(found) {
        if !is_last && !written.contains(&line) {
            return Some(format!("{line:?} was not written"));
        }
        if !seen.insert(line.clone()) {
            return Some(format!("{line:?} comes twice"));
        }
    }
    let counts = (lines(found).len(), lines(right).len());
    match found.answer.states.first() {
        Some(state) => unnamed(state, file),
        None => Some(format!(
            "{} rows and {} buckets instead of {} and {}, and nothing is said",
            counts.0,
            found.buckets.len(),
            counts.1,
            right.buckets.len(),
        )),
    }
}

/// A function that damages a file, with a description.
type Damage = (String, Box<dyn Fn(&Path)>);
type Damages = Vec<Damage>;

/// Flips bits anywhere in a file.
fn flipped(seed: u64) -> Damages {
    let mut random = fastrand::Rng::with_seed(seed);
    let of = |_| {
        let place = random.f64();
        let damage = move |path: &Path| {
            let bits = fs::metadata(path).unwrap().len() * 8;
            flip(path, ((bits as f64 * place) as u64).min(bits - 1));
        };
        (format!("flip at {place}"), Box::new(damage) as Box<_>)
    };
    (0..flips()).map(of).collect()
}

/// Truncates, empties or removes a file, or overwrites its end.
fn cut(seed: u64) -> Damages {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut damages: Damages = Vec::new();
    for _ in 0..flips() / 10 {
        let place = random.f64();
        let cut = move |path: &Path| {
            let bytes = fs::read(path).unwrap();
            let length = (bytes.len() as f64 * place) as usize;
            fs::write(path, bytes.get(..length).unwrap()).unwrap();
        };
        damages.push((format!("cut at {place}"), Box::new(cut)));
        let zeros = move |path: &Path| {
            let mut bytes = fs::read(path).unwrap();
            let start = (bytes.len() as f64 * place) as usize;
            let end = bytes.len().min(start + 512);
            bytes[start..end].fill(0);
            fs::write(path, bytes).unwrap();
        };
        damages.push((format!("zeros at {place}"), Box::new(zeros)));
    }
    for _ in 0..3 {
        let empty = |path: &Path| fs::write(path, "").unwrap();
        damages.push(("no byte".to_owned(), Box::new(empty)));
        let longer = |path: &Path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, [bytes.as_slice(), &[7; 100]].concat()).unwrap();
        };
        damages.push(("100 bytes more".to_owned(), Box::new(longer)));
    }
    damages.extend(missing());
    damages
}

fn missing() -> Damages {
    let missing = || -> Damage {
        let remove = |path: &Path| fs::remove_file(path).unwrap();
        ("absence".to_owned(), Box::new(remove))
    };
    (0..3).map(|_| missing()).collect()
}

/// H-16.
#[test]
fn flipped_bit_in_a_file_of_rows_is_found() {
    let filed = Filed::new();
    filed.damage_all(&filed.files_in("samples"), &flipped(11));
}

/// H-16.
#[test]
fn cut_or_missing_file_of_rows_is_found() {
    let filed = Filed::new();
    filed.damage_all(&filed.files_in("samples"), &cut(12));
}

/// H-16.
#[test]
fn flipped_bit_in_a_summary_is_found() {
    let filed = Filed::new();
    filed.damage_all(&filed.files_in("summaries"), &flipped(13));
}

/// H-16.
#[test]
fn cut_or_missing_summary_is_found() {
    let filed = Filed::new();
    filed.damage_all(&filed.files_in("summaries"), &cut(14));
}

/// H-16.
#[test]
fn flipped_bit_in_the_catalogue_is_found() {
    let filed = Filed::new();
    filed.damage_all(&filed.files_in("catalogue.sqlite"), &flipped(15));
}

/// H-16.
#[test]
fn cut_catalogue_is_found() {
    let filed = Filed::new();
    let mut damages = cut(16);
    damages.retain(|(name, _)| name != "absence" && name != "no byte");
    filed.damage_all(&filed.files_in("catalogue.sqlite"), &damages);
}

/// H-16.
#[test]
fn missing_catalogue_is_found() {
    let filed = Filed::new();
    filed.damage_all(&filed.files_in("catalogue.sqlite"), &missing());
}

/// H-16.
#[test]
fn empty_catalogue_is_found() {
    let filed = Filed::new();
    let mut damages = cut(0);
    damages.retain(|(name, _)| name == "no byte");
    filed.damage_all(&filed.files_in("catalogue.sqlite"), &damages);
}

/// Damages the write-ahead log of the catalogue as it is when the engine is killed.
fn assert_log_of_the_catalogue_is_not_needed(damages: &[Damage]) {
    let mut filed = Filed::new();
    let killed = filed.killed.path().join("killed");
    copy(&killed, filed.folder.path());
    filed.time += SECOND;
    filed.damage_all(&filed.files_in("catalogue.sqlite-wal"), damages);
}

/// H-16.
#[test]
fn flipped_bit_in_the_log_of_the_catalogue_is_found() {
    assert_log_of_the_catalogue_is_not_needed(&flipped(20));
}

/// H-16.
#[test]
fn cut_or_missing_log_of_the_catalogue_is_found() {
    assert_log_of_the_catalogue_is_not_needed(&cut(21));
}

/// H-16. Without the copy, the footer in the file is used.
#[test]
fn damaged_or_missing_copy_of_a_footer_changes_no_answer() {
    let filed = Filed::new();
    let footers = filed.files_in("footers");
    let copied = folder();
    let place = copied.path().join("copy");
    for (at, (name, damage)) in flipped(22).iter().take(20).chain(&cut(23)).enumerate() {
        let file = &footers[at % footers.len()];
        copy(filed.folder.path(), &place);
        damage(&place.join(file));
        let plant = Plant::start(&place, 3, filed.time, &variables());
        for (query, right) in filed.queries.iter().zip(&filed.answers) {
            let found = pages(&plant, query).unwrap();
            assert_eq!(found.answer.states, Vec::<String>::new(), "{name}");
            assert_eq!(found.answer.lines, right.answer.lines, "{name}");
            assert_eq!(found.buckets, right.buckets, "{name}");
        }
    }
}

fn checked(folder: &Path) -> Verified {
    let wall = Timestamp::from_nanos(START + 10 * DAY);
    verify(folder, wall, &mut |_, _| true).unwrap()
}

/// An intact folder has no findings. After each damage, a finding names the file.
#[test]
fn verify_reports_every_damaged_file_and_nothing_else() {
    let filed = Filed::new();
    let sound = checked(filed.folder.path());
    assert_eq!(sound.findings, [], "{sound:#?}");
    assert_eq!((sound.files, sound.logs), (3, 1));
    // The rows include three events of the variables and those of the engine.
    assert!(sound.rows > 3 * (1600 + 200), "{}", sound.rows);
    let copied = folder();
    let place = copied.path().join("copy");
    for (seed, below) in [
        (30, "samples"),
        (31, "footers"),
        (32, "summaries"),
        (33, "catalogue.sqlite"),
    ] {
        let files = filed.files_in(below);
        let (flipped, cut) = (flipped(seed), cut(seed));
        for (at, (name, damage)) in flipped.iter().take(40).chain(&cut).enumerate() {
            let file = &files[at % files.len()];
            copy(filed.folder.path(), &place);
            damage(&place.join(file));
            let found = checked(&place).findings;
            let is_named = found.iter().any(|one| Path::new(&one.file) == file);
            // Some bytes of the catalogue are unused, so damage to them is not reported.
            let is_sound = below == "catalogue.sqlite"
                && filed
                    .queries
                    .iter()
                    .zip(&filed.answers)
                    .all(|(query, right)| {
                        let found = pages_in(&place, query);
                        found.is_ok_and(|found| found.answer.lines == right.answer.lines)
                    });
            assert!(
                is_named || is_sound,
                "{name} of {}: {found:#?}",
                file.display()
            );
        }
    }
}

/// A finding has the variable and the times of the lost rows, and of no other rows.
#[test]
fn verify_reports_the_rows_that_cannot_be_read() {
    let filed = Filed::new();
    let copied = folder();
    let place = copied.path().join("copy");
    let mut random = fastrand::Rng::with_seed(34);
    let right = &filed.answers[0].answer.lines;
    for file in filed.files_in("samples") {
        copy(filed.folder.path(), &place);
        // Flip a bit before the footer, which has at least 3000 bytes.
        let bits = (fs::metadata(place.join(&file)).unwrap().len() - 3000) * 8;
        flip(&place.join(&file), random.u64(0..bits));
        let findings = checked(&place).findings;
        let found = pages_in(&place, &filed.queries[0]).unwrap().answer;
        let read: BTreeSet<&Line> = found.lines.iter().collect();
        let is_named = |line: &Line| {
            let time = Timestamp::from_nanos(line.key.time);
            findings.iter().any(|one| {
                one.variable.as_ref() == Some(&line.variable)
                    && one
                        .times
                        .is_some_and(|(first, last)| first <= time && time <= last)
            })
        };
        let lost: Vec<&Line> = right.iter().filter(|line| !read.contains(line)).collect();
        assert!(lost.iter().all(|line| is_named(line)), "{findings:#?}");
        // Files of other days are not named.
        assert!(findings.iter().all(|one| Path::new(&one.file) == file));
    }
}

/// The catalogue is missing, cut, or has flipped bits.
#[test]
fn rebuilt_catalogue_gives_the_same_answers() {
    let filed = Filed::new();
    let copied = folder();
    let place = copied.path().join("copy");
    let wall = Timestamp::from_nanos(filed.time);
    let damages = flipped(40)
        .into_iter()
        .take(10)
        .chain(cut(41).into_iter().take(10));
    for (name, damage) in damages.chain(missing()) {
        copy(filed.folder.path(), &place);
        damage(&place.join("catalogue.sqlite"));
        let rebuilt = rebuild(&place, wall).unwrap();
        assert_eq!((rebuilt.series, rebuilt.files), (4, 3), "{name}");
        assert_eq!(rebuilt.left_out, [], "{name}");
        assert_eq!(checked(&place).findings, [], "{name}");
        for (query, right) in filed.queries.iter().zip(&filed.answers) {
            let found = pages_in(&place, query).unwrap();
            assert_eq!(found.answer.lines, right.answer.lines, "{name}");
            assert_eq!(found.buckets, right.buckets, "{name}");
        }
        let plant = Plant::start(&place, 3, filed.time, &variables());
        for (query, right) in filed.queries.iter().zip(&filed.answers) {
            let found = pages(&plant, query).unwrap();
            assert_eq!(found.answer.lines, right.answer.lines, "{name}");
            assert_eq!(found.buckets, right.buckets, "{name}");
        }
    }
}

/// If both footers of a file are damaged, the file is named, and no other rows are missing.
#[test]
fn rebuilt_catalogue_omits_unreadable_files() {
    let filed = Filed::new();
    let copied = folder();
    let place = copied.path().join("copy");
    copy(filed.folder.path(), &place);
    let file = filed.files_in("samples").remove(0);
    let bits = fs::metadata(place.join(&file)).unwrap().len() * 8;
    flip(&place.join(&file), bits - 40);
    for footer in filed.files_in("footers") {
        if footer.file_stem() == file.file_stem() {
            fs::remove_file(place.join(footer)).unwrap();
        }
    }
    fs::remove_file(place.join("catalogue.sqlite")).unwrap();
    let rebuilt = rebuild(&place, Timestamp::from_nanos(filed.time)).unwrap();
    let left_out: Vec<&str> = rebuilt
        .left_out
        .iter()
        .map(|one| one.file.as_str())
        .collect();
    assert_eq!(left_out, [file.to_str().unwrap()]);
    let fault = rebuilt.former_fault.as_deref();
    assert_eq!(fault, Some("catalogue.sqlite is missing"));
    let duplicates = rebuilt.possible_duplicates;
    assert_eq!(duplicates, None, "the history has no spool");
    let found = pages_in(&place, &filed.queries[0]).unwrap().answer.lines;
    let right = &filed.answers[0].answer.lines;
    let of_others = right.iter().filter(|line| line.key.time >= START + DAY / 2);
    assert_eq!(found, of_others.cloned().collect::<Vec<_>>());
    assert!(place.join(&file).exists(), "nothing is removed");
}

/// If one file is damaged, the rows of the other files are read, and the file is named.
#[test]
fn damaged_file_of_rows_does_not_hide_the_others() {
    let filed = Filed::new();
    let copied = folder();
    let place = copied.path().join("copy");
    let right = &filed.answers[0].answer.lines;
    let of_day = |line: &Line| (line.key.time - START).div_euclid(DAY);
    let parts = filed.files_in("samples");
    for (_, damage) in flipped(17).iter().take(40).chain(&cut(18)) {
        let file = parts
            .iter()
            .max_by_key(|path| path.display().to_string())
            .unwrap();
        copy(filed.folder.path(), &place);
        damage(&place.join(file));
        let plant = Plant::start(&place, 3, filed.time, &variables());
        let found = plant.read(&all()).expect("the rest is read").lines;
        let others = right.iter().filter(|line| of_day(line) < 2);
        let present: BTreeSet<&Line> = found.iter().collect();
        assert!(others.clone().all(|line| present.contains(line)));
    }
}

/// Returns the smallest number of rows read from a file of 100,000 after a bit flip at any of these
/// relative positions, from 0 to 1.
fn fewest_rows_read(places: std::ops::Range<f64>) -> usize {
    const ROWS: usize = 100_000;
    let origin = folder();
    let variables = [("x", DataType::F64)];
    let mut plant = Plant::start(origin.path(), 1, START, &variables);
    let mut random = fastrand::Rng::with_seed(6);
    for _ in 0..ROWS {
        plant.write("x", &Value::F64(random.f64()));
        plant.time -= random.i64(SECOND / 2..SECOND);
    }
    plant.seal();
    let time = plant.time;
    let written: BTreeSet<Line> = plant.everything().lines.into_iter().collect();
    assert_eq!(written.len(), ROWS);
    drop(plant);
    let mut parts = files(origin.path()).into_iter();
    let part = parts.find(|path| path.starts_with("samples")).unwrap();
    let bits = fs::metadata(origin.path().join(&part)).unwrap().len() as f64 * 8.0;
    let copied = folder();
    let place = copied.path().join("copy");
    let least = (0..20).map(|_| {
        copy(origin.path(), &place);
        let at = places.start + random.f64() * (places.end - places.start);
        let bit = (bits * at) as u64;
        flip(&place.join(&part), bit);
        let plant = Plant::start(&place, 2, time, &variables);
        let answer = plant.read(&all()).unwrap();
        let is_right = answer.lines.iter().all(|line| written.contains(line));
        assert!(is_right, "bit {bit}");
        let is_said = answer
            .states
            .iter()
            .any(|state| unnamed(state, &part).is_none());
        assert!(
            answer.lines.len() == ROWS || is_said,
            "bit {bit}: {:?}",
            answer.states
        );
        answer.lines.len()
    });
    least.min().unwrap()
}

/// A block of 64 KiB contains a quarter of the times in this test.
#[test]
fn flipped_bit_in_the_rows_of_a_large_file_costs_one_block() {
    let least = fewest_rows_read(0.0..0.9);
    assert!(least >= 70_000, "{least} rows are read");
}

/// The metadata is stored twice.
#[test]
fn flipped_bit_in_the_metadata_of_a_large_file_costs_one_block() {
    let least = fewest_rows_read(0.999..1.0);
    assert!(least >= 70_000, "{least} rows are read");
}

/// Flips a bit in the middle of a column in the folder's file of rows.
fn damage_column(folder: &Path, column: usize) {
    let mut parts = files(folder).into_iter();
    let part = parts.find(|path| path.starts_with("samples")).unwrap();
    let part = folder.join(part);
    let reader = SerializedFileReader::new(fs::File::open(&part).unwrap()).unwrap();
    let (start, length) = reader.metadata().row_group(0).column(column).byte_range();
    // The column must be so long that the block in the middle contains no other column.
    assert!(length > 3 << 16, "{length} bytes");
    flip(&part, (start + length / 2) * 8);
}

/// If the page with the last row is damaged, the answer has the row before that page, and reports that rows
/// are missing.
///
/// H-16.
#[test]
fn last_row_before_a_damaged_page_is_found() {
    let folder = folder();
    let variables = [("x", DataType::F64)];
    let mut plant = Plant::start(folder.path(), 1, START, &variables);
    let mut random = fastrand::Rng::with_seed(7);
    let written: Vec<Line> = (0..60_000)
        .map(|_| plant.write("x", &Value::F64(random.f64())))
        .collect();
    plant.seal();
    let time = plant.time;
    drop(plant);
    // This is the column with the numbers.
    damage_column(folder.path(), 2);
    let plant = Plant::start(folder.path(), 2, time, &variables);
    let found: BTreeSet<Line> = plant.everything().lines.into_iter().collect();
    let lost: Vec<&Line> = written
        .iter()
        .filter(|line| !found.contains(line))
        .collect();
    assert!((1..20_000).contains(&lost.len()), "{} are lost", lost.len());
    let before = found.iter().filter(|line| line.key < lost[0].key);
    let before = before.max_by_key(|line| line.key).unwrap();
    let last = |until: i64| {
        let query = HistoryQuery {
            until: Some(Timestamp::from_nanos(until)),
            form: HistoryForm::Last,
            ..all()
        };
        plant.read(&query).unwrap()
    };
    for line in [lost[0], lost[lost.len() / 2], lost[lost.len() - 1]] {
        let answer = last(line.key.time + 1);
        assert_eq!(answer.lines, std::slice::from_ref(before));
        assert_eq!(answer.events_of("x"), [HistoryEvent::Lost(None)]);
        assert!(!answer.states.is_empty());
    }
    let answer = last(time);
    assert_eq!(answer.lines, written[written.len() - 1..]);
    assert_eq!(answer.events_of("x"), []);
}

/// Pages of long values have few rows.
///
/// H-16.
#[test]
fn flipped_bit_in_long_values_costs_the_rows_of_a_page() {
    let folder = folder();
    let variables = [("text", DataType::String)];
    let mut plant = Plant::start(folder.path(), 1, START, &variables);
    let mut random = fastrand::Rng::with_seed(8);
    for _ in 0..4_000 {
        let text: String = (0..3_000).map(|_| random.alphanumeric()).collect();
        plant.write("text", &Value::String(text.into()));
    }
    plant.seal();
    let time = plant.time;
    drop(plant);
    damage_column(folder.path(), 4);
    let plant = Plant::start(folder.path(), 2, time, &variables);
    let answer = plant.everything();
    assert!(!answer.states.is_empty());
    let lost = 4_000 - answer.lines.len();
    assert!((1..1_000).contains(&lost), "{lost} rows are lost");
    // `verify` finds the same damage.
    let found = checked(folder.path());
    let rows = (answer.lines.len() + answer.events_of("text").len()) as u64;
    assert!(found.rows.abs_diff(rows) < 10, "{} and {rows}", found.rows);
}

/// Kills an engine with the variable `a`, removes files of its folder, and starts an engine with the
/// variable `b`.
fn assert_no_other_name(removed: &[&str]) {
    let (origin, killed) = (folder(), folder());
    let mut plant = Plant::start(origin.path(), 1, START, &[("a", DataType::F64)]);
    plant.write("a", &Value::F64(1.0));
    plant.record();
    let time = plant.time;
    let place = killed.path().join("killed");
    copy(origin.path(), &place);
    for name in removed {
        fs::remove_file(place.join(name)).unwrap();
    }
    let Ok(plant) = Plant::open(&place, 2, time, &[("b", DataType::F64)]) else {
        return;
    };
    let Ok(answer) = plant.read(&all()) else {
        return;
    };
    let is_b = |line: &&Line| line.variable == "rig/b";
    let of_b: Vec<_> = answer.lines.iter().filter(is_b).collect();
    assert!(of_b.is_empty(), "b has rows of a: {of_b:?}");
}

#[test]
fn rows_keep_their_names_if_the_catalogue_is_missing() {
    assert_no_other_name(&[
        "catalogue.sqlite",
        "catalogue.sqlite-wal",
        "catalogue.sqlite-shm",
    ]);
}

#[test]
fn rows_keep_their_names_if_the_log_of_the_catalogue_is_missing() {
    assert_no_other_name(&["catalogue.sqlite-wal", "catalogue.sqlite-shm"]);
}
