//! Operations that do not wait while another thread waits for a disk, and changes of the spool while a query
//! waits for a disk. A pipe in the place of a file stands for such a disk: opening the pipe for writing returns
//! when the other thread reads it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, Scope};
use std::time::Duration;

use trunkline_engine::history::History;

use crate::disk_full::in_own_process;
use crate::disks::{Away, Disks, Replacement, make_pipe, state};
use crate::rig::{Answer, Plant, all, files_of};

/// Only cuts off a test that hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until a pipe is read.
fn reader_of(pipe: &Path) -> File {
    OpenOptions::new().write(true).open(pipe).unwrap()
}

/// Runs `work` in a thread of its own. Returns `None` if it waits for the others.
fn without_waiting<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    scope.spawn(move || sender.send(work()));
    receiver.recv_timeout(TIMEOUT).ok()
}

/// Starts while the spool is missing, and records. When the spool is back, a pipe takes the place of its log,
/// so that reading the log waits. Returns the log's path and its content.
fn log_as_a_pipe() -> (Disks, Plant, PathBuf, Vec<u8>) {
    let (mut disks, plant) = Disks::spooling();
    disks.kill(plant);
    let spool = Away::new(disks.spool(), Replacement::File);
    let mut plant = disks.try_start().unwrap();
    disks.write(&mut plant);
    spool.restore();
    let path = disks.spool().join("log-0000000001.tlh");
    let content = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    make_pipe(&path);
    (disks, plant, path, content)
}

/// Behaviour: H-14.
#[test]
fn updates_are_recorded_while_a_log_of_the_spool_is_read() {
    in_own_process(|| {
        let (disks, plant, path, content) = log_as_a_pipe();
        let (history, moment) = (&plant.history, plant.moment());
        thread::scope(|scope| {
            let maintaining = scope.spawn(|| history.maintain(moment.wall));
            let mut log = reader_of(&path);
            let recorded = without_waiting(scope, || history.record(moment));
            log.write_all(&content).unwrap();
            drop(log);
            maintaining.join().unwrap().unwrap();
            recorded.expect("recording does not wait").unwrap();
        });
        disks.assert_back(&plant, "with the spool");
    });
}

/// Behaviour: H-14.
#[test]
fn answer_says_that_a_log_of_the_spool_has_not_been_read_yet() {
    in_own_process(|| {
        let (disks, plant, path, content) = log_as_a_pipe();
        let (history, moment) = (&plant.history, plant.moment());
        thread::scope(|scope| {
            let maintaining = scope.spawn(|| history.maintain(moment.wall));
            let mut log = reader_of(&path);
            let page = without_waiting(scope, || history.read(&all(), moment.wall));
            log.write_all(&content).unwrap();
            drop(log);
            maintaining.join().unwrap().unwrap();
            let state = page.expect("the query does not wait").unwrap().state;
            assert!(state.contains("may lack rows of the spool"), "{state}");
        });
        disks.assert_back(&plant, "with the spool");
        assert_eq!(plant.everything().states, [""; 0]);
    });
}

/// Starts an engine that has moved its first rows to a file, and whose folder has no room for the last ones, so
/// that they are in the spool.
fn spooling_with_a_file() -> (Disks, Plant) {
    let mut disks = Disks::new();
    let mut plant = disks.start();
    plant.seal();
    disks.lengthen(&mut plant);
    disks.write(&mut plant);
    disks.record_with_room(&plant, 10);
    (disks, plant)
}

/// Answers a query for all rows. The query takes the rows of the first variable from memory, waits for the copy of
/// a footer until `meanwhile` has ended, and then takes the rows of the second variable. The engine must not have
/// read the footer before.
fn answer_during(disks: &Disks, plant: &Plant, meanwhile: impl FnOnce()) -> Answer {
    let copies = files_of(&disks.history(), "footer");
    let path = disks.history().join(copies.first().unwrap());
    let content = fs::read(&path).unwrap();
    let away = Away::new(path.clone(), Replacement::Pipe);
    let (history, moment) = (&plant.history, plant.moment());
    let page = thread::scope(|scope| {
        let reading = scope.spawn(|| history.read(&all(), moment.wall));
        let mut copy = reader_of(&path);
        meanwhile();
        copy.write_all(&content).unwrap();
        drop(copy);
        reading.join().unwrap().unwrap()
    });
    away.restore();
    assert_eq!(page.next, None, "all rows are in one page");
    let mut answer = Answer::default();
    answer.add(page);
    answer
}

/// Behaviour: H-14.
#[test]
fn answer_says_that_a_log_of_the_spool_was_read_during_the_query() {
    in_own_process(|| {
        let (mut disks, plant) = spooling_with_a_file();
        disks.kill(plant);
        let spool = Away::new(disks.spool(), Replacement::File);
        let plant = disks.try_start().unwrap();
        spool.restore();
        let answer = answer_during(&disks, &plant, || {
            plant.history.maintain(plant.moment().wall).unwrap();
            assert_eq!(state(&plant).fault, None, "the log has been read");
        });
        let missing = disks.written.len() - answer.lines.len();
        assert_eq!(missing, 3, "those of the first variable: {answer:?}");
        let states = answer.states.concat();
        assert!(states.contains("may lack rows of the spool"), "{states}");
        disks.assert_back(&plant, "with the spool");
        assert_eq!(plant.everything().states, [""; 0]);
    });
}

/// Behaviour: H-14.
#[test]
fn answer_says_that_rows_of_the_spool_were_dropped_from_memory_during_the_query() {
    in_own_process(|| {
        let (mut disks, mut plant) = spooling_with_a_file();
        for _ in 0..2 {
            plant.close_segment();
            disks.write(&mut plant);
            plant.record();
        }
        // One more closed segment is too many for memory.
        let answer = answer_during(&disks, &plant, || plant.close_segment());
        let missing = disks.written.len() - answer.lines.len();
        assert_eq!(missing, 3, "those of the second variable: {answer:?}");
        let states = answer.states.concat();
        assert!(states.contains("6 rows are only in the spool"), "{states}");
        disks.assert_back(&plant, "with room");
    });
}

/// A transaction of the catalogue may wait for the disk of the history.
///
/// Behaviour: H-14.
#[test]
fn updates_are_recorded_while_the_catalogue_is_written() {
    let mut disks = Disks::new();
    let mut plant = disks.start();
    plant.close_segment();
    disks.write(&mut plant);
    // A catalogue in another file is opened again, which reads the identity first.
    let catalogue = disks.history().join("catalogue.sqlite");
    let copied = disks.root.path().join("copied");
    fs::copy(&catalogue, &copied).unwrap();
    fs::rename(&copied, &catalogue).unwrap();
    let path = disks.history().join("identity");
    let content = fs::read(&path).unwrap();
    let away = Away::new(path.clone(), Replacement::Pipe);
    let (history, moment) = (&plant.history, plant.moment());
    thread::scope(|scope| {
        let maintaining = scope.spawn(|| history.maintain(moment.wall));
        // Maintenance reads the identity before it writes files. Later reads need a pipe of their own.
        let mut first = reader_of(&path);
        fs::remove_file(&path).unwrap();
        make_pipe(&path);
        first.write_all(&content).unwrap();
        drop(first);
        let mut second = reader_of(&path);
        let recorded = without_waiting(scope, || history.record(moment));
        away.restore();
        second.write_all(&content).unwrap();
        drop(second);
        maintaining.join().unwrap().unwrap();
        recorded.expect("recording does not wait").unwrap();
    });
    assert_eq!(
        history.figures().unsealed,
        6,
        "the closed segment is in files"
    );
    disks.assert_back(&plant, "in the end");
}

/// Health variables show that recording waits, so reading them must not wait for it.
///
/// Behaviour: H-14.
#[test]
fn health_is_read_while_recording_waits_for_a_disk() {
    let mut disks = Disks::new();
    let mut plant = disks.start();
    disks.write(&mut plant);
    plant.record();
    let before = (plant.history.figures(), plant.history.spool());
    let path = disks.history().join("identity");
    let content = fs::read(&path).unwrap();
    let away = Away::new(path.clone(), Replacement::Pipe);
    let (history, moment) = (&plant.history, plant.moment());
    thread::scope(|scope| {
        let recording = scope.spawn(|| history.close_segment(moment));
        // The next segment begins when the identity was read.
        let mut identity = reader_of(&path);
        let figures = without_waiting(scope, || history.figures());
        let spool = without_waiting(scope, || history.spool());
        identity.write_all(&content).unwrap();
        drop(identity);
        recording.join().unwrap().unwrap();
        assert_eq!(figures.expect("the figures do not wait"), before.0);
        assert_eq!(
            spool.expect("the state of the spool does not wait"),
            before.1
        );
    });
    away.restore();
    disks.assert_back(&plant, "in the end");
}
