//! The processes that share the seeds of a long run. Each runs every n-th seed, and writes the figures of a
//! run as one line.
//!
//! They are processes rather than threads because a full disk is simulated by a process-wide limit. A worker
//! that is ahead of the others waits when its pipe is full.

use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::str::FromStr;

/// The seeds of one worker: of each `count` seeds, the one at `index`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    index: usize,
    count: usize,
}

impl FromStr for Share {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/');
        let parts =
            parts.and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parts {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            _ => Err("give the index of the share and the number of shares, as in 0/2"),
        }
    }
}

impl Share {
    /// Runs the seeds of this share until the process that reads the figures is gone.
    pub fn work(self, seeds: Range<u64>, mut figures: impl FnMut(u64) -> Vec<u64>) {
        for seed in seeds.skip(self.index).step_by(self.count) {
            let figures: Vec<String> = figures(seed).iter().map(u64::to_string).collect();
            if writeln!(io::stdout(), "{}", figures.join(" ")).is_err() {
                return;
            }
        }
    }
}

#[derive(Debug)]
struct Worker {
    process: Child,
    figures: BufReader<ChildStdout>,
}

/// The worker processes, and the one that runs the next seed.
#[derive(Debug)]
pub struct Workers {
    workers: Vec<Worker>,
    next: usize,
}

impl Workers {
    /// Starts `count` processes with the arguments of this one.
    ///
    /// # Errors
    /// [`io::Error`] if a process cannot be started.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut started = Self {
            workers: Vec::new(),
            next: 0,
        };
        for index in 0..count {
            let mut process = Command::new(std::env::current_exe()?)
                .args(std::env::args_os().skip(1))
                .arg(format!("--share={index}/{count}"))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()?;
            let Some(out) = process.stdout.take() else {
                continue;
            };
            started.workers.push(Worker {
                process,
                figures: BufReader::new(out),
            });
        }
        Ok(started)
    }

    /// Returns the figures of the next seed, in the order of the seeds.
    ///
    /// # Errors
    /// A message if the process has ended.
    pub fn next_figures(&mut self) -> Result<Vec<u64>, String> {
        let count = self.workers.len();
        let worker = self.workers.get_mut(self.next).ok_or("no process runs")?;
        self.next = (self.next + 1) % count;
        let mut line = String::new();
        match worker.figures.read_line(&mut line) {
            Ok(0) => match worker.process.wait() {
                Ok(status) => Err(format!("its process ended: {status}")),
                Err(error) => Err(format!("its process ended: {error}")),
            },
            Ok(_) => figures_of(&line),
            Err(error) => Err(format!("its process cannot be read: {error}")),
        }
    }
}

/// Parses a line of figures. A line without an end was cut, so its last figure may be wrong.
fn figures_of(line: &str) -> Result<Vec<u64>, String> {
    let Some(figures) = line.strip_suffix('\n') else {
        return Err(format!("its process ended while it wrote {line:?}"));
    };
    let figures: Result<Vec<u64>, _> = figures.split(' ').map(str::parse).collect();
    figures.map_err(|_| format!("its process writes no figures, but {line:?}"))
}

impl Drop for Workers {
    /// Lets each process finish its current seed, so that it removes its temporary files.
    fn drop(&mut self) {
        for Worker {
            mut process,
            figures,
        } in self.workers.drain(..)
        {
            drop(figures);
            let _status = process.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_a_whole_line() {
        assert_eq!(figures_of("1 20 300\n"), Ok(vec![1, 20, 300]));
        for line in ["1 20 300", "1 20 ", "", "1 x\n"] {
            assert!(figures_of(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn share_is_parsed_and_must_be_one_of_its_shares() {
        assert_eq!("1/2".parse(), Ok(Share { index: 1, count: 2 }));
        for text in ["2/2", "1", "1/0", "a/b", ""] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
