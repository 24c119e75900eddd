//! Tests programs with journals that are killed repeatedly. The reader gets every element once.
//!
//! The programs are instances of this test binary, started in other roles.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests may panic; their programs communicate by lines"
)]

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use trunkline_stream::{Commit, Durability, JournalOptions, Options, Reader, StreamError, Writer};

const TEST_TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));

/// The arguments of a child: the role, the ports, the folder, and the durability of the journal.
const CHILD_ARGS: &str = "TRUNKLINE_KILLED";

/// The file whose existence makes the writer stop.
const STOP_FILE: &str = "stop";

/// A child prints this after each run.
const RUN: &str = "one run";

fn options(side: &str, folder: &Path, durability: Durability) -> Options {
    Options {
        capacity: 64,
        timeout: TEST_TIMEOUT,
        journal: Some(JournalOptions {
            bytes_max: 1 << 20,
            durability,
            commit: Commit::ByProgram,
            ..JournalOptions::at(folder.join(side))
        }),
        ..Options::default()
    }
}

fn url(side: &str, port: u16) -> String {
    format!("tl://localhost:{port}/killed {side}")
}

fn print_run() {
    println!("{RUN}");
}

/// Writes numbers from 0 on, until the file [`STOP_FILE`] exists.
fn write(port: u16, own: u16, folder: &Path, durability: Durability) {
    let to = Options {
        peer: Some(url("reader", port)),
        ..options("writer", folder, durability)
    };
    let mut writer = Writer::<u64>::create(&url("writer", own), to).unwrap();
    let mut next = writer.properties().total;
    while !folder.join(STOP_FILE).exists() {
        let end = next + 1 + next % 40;
        let run: Vec<u64> = (next..end).collect();
        writer.write_many(&run, TEST_TIMEOUT).unwrap();
        next = end;
        print_run();
    }
    fs::write(folder.join("written"), next.to_string()).unwrap();
    let left = writer.close(TEST_TIMEOUT);
    assert_eq!(left.elements, 0);
}

/// Keeps the received elements in a file, whose length is its progress.
fn read(port: u16, folder: &Path, durability: Durability) {
    let mut options_of_file = OpenOptions::new();
    options_of_file.create(true).append(true).read(true);
    let mut file = options_of_file.open(folder.join("received")).unwrap();
    let options = options("reader", folder, durability);
    let mut reader = Reader::<u64>::create(&url("reader", port), options).unwrap();
    // Uncommitted elements are delivered again.
    let mut next = reader.properties().total;
    assert!(
        file.metadata().unwrap().len() >= next * 8,
        "it committed more than it has"
    );
    file.set_len(next * 8).unwrap();
    file.seek(std::io::SeekFrom::End(0)).unwrap();
    loop {
        let count = 1 + (next % 30) as usize;
        match reader.read_many(count, TEST_TIMEOUT) {
            Ok(elements) => {
                for element in elements {
                    assert_eq!(element, next, "lost or doubled");
                    file.write_all(&element.to_le_bytes()).unwrap();
                    next += 1;
                }
                reader.commit().unwrap();
                print_run();
            }
            Err(StreamError::Ended) => break,
            Err(error) => panic!("{error}"),
        }
    }
    reader.close().unwrap();
}

/// This is not a test, but the entry point of the programs that the tests start.
#[test]
#[ignore = "an entry point of the processes that the tests start"]
fn one_of_the_programs() {
    let Ok(args) = std::env::var(CHILD_ARGS) else {
        return;
    };
    let args: Vec<&str> = args.split('|').collect();
    let [role, port, own, folder, durability] = args[..] else {
        panic!("{args:?}");
    };
    let folder = PathBuf::from(folder);
    let (port, own) = (port.parse().unwrap(), own.parse().unwrap());
    let durability = match durability {
        "Disk" => Durability::Disk,
        _ => Durability::Process,
    };
    match role {
        "writer" => write(port, own, &folder, durability),
        _ => read(port, &folder, durability),
    }
}

/// A running program.
struct Program {
    child: Child,
    runs: Receiver<()>,
}

impl Program {
    fn start(args: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "one_of_the_programs", "--ignored", "--nocapture"])
            .env(CHILD_ARGS, args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, runs) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        thread::spawn(move || {
            for _ in lines
                .map_while(Result::ok)
                .filter(|line| line.contains(RUN))
            {
                let _ = sender.send(());
            }
        });
        Self { child, runs }
    }

    /// Waits for this number of runs. Returns false if the program has ended before.
    fn wait_for_runs(&self, count: u64) -> bool {
        (0..count).all(|_| self.runs.recv().is_ok())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Default number of kills of each side.
const KILLS: u64 = 20;

fn kill_both(durability: Durability) {
    let kills: u64 = match std::env::var("TRUNKLINE_KILLS") {
        Ok(kills) => kills.parse().unwrap(),
        Err(_) => KILLS,
    };
    let folder = tempfile::tempdir().unwrap();
    let (port, own) = (free_port(), free_port());
    let args = |role: &str| {
        let folder = folder.path().display();
        format!("{role}|{port}|{own}|{folder}|{durability:?}")
    };
    let mut programs = ["writer", "reader"].map(|role| Program::start(&args(role)));
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut killed = [0, 0];
    while killed[0] < kills || killed[1] < kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let side = match (killed[0] < kills, killed[1] < kills) {
            (true, true) => (random >> 20) as usize & 1,
            (is_left, _) => usize::from(!is_left),
        };
        // The kill comes at once or after some runs, at an arbitrary point of the next run.
        assert!(programs[side].wait_for_runs(random % 12), "it has ended");
        for _ in 0..random >> 48 {
            std::hint::spin_loop();
        }
        programs[side] =
            Program::start_again(&mut programs[side], &args(["writer", "reader"][side]));
        killed[side] += 1;
    }
    fs::write(folder.path().join(STOP_FILE), "").unwrap();
    for program in &mut programs {
        assert!(program.child.wait().unwrap().success());
    }
    let mut received = Vec::new();
    let mut file = fs::File::open(folder.path().join("received")).unwrap();
    file.read_to_end(&mut received).unwrap();
    let count: u64 = fs::read_to_string(folder.path().join("written"))
        .unwrap()
        .parse()
        .unwrap();
    let expected: Vec<u8> = (0..count).flat_map(u64::to_le_bytes).collect();
    assert!(
        received == expected,
        "{} of {} bytes",
        received.len(),
        expected.len()
    );
    assert!(count > kills, "{count} elements");
    println!("{durability:?}: killed {killed:?} times, lost 0, doubled 0 of {count}");
}

impl Program {
    /// Kills the program, and starts it again.
    fn start_again(before: &mut Self, args: &str) -> Self {
        before.child.kill().unwrap();
        before.child.wait().unwrap();
        Self::start(args)
    }
}

/// Behaviour: B-60.
#[test]
fn killed_programs_lose_and_duplicate_nothing() {
    kill_both(Durability::Process);
}

/// Behaviour: B-60.
#[test]
fn killed_programs_with_durable_writes_lose_and_duplicate_nothing() {
    kill_both(Durability::Disk);
}
