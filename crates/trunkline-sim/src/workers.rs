//! Distributes the seeds of a long run over worker processes.
//!
//! With n workers, each worker runs every n-th seed, and writes the figures of each run as one line. Workers
//! are processes and not threads, because a process-wide limit simulates a full disk. A worker that is ahead
//! of the others waits when its pipe is full.

use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::str::FromStr;

/// The share of one worker: it runs the seed at `index` of each `count` consecutive seeds.
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
            _ => Err("expected the index of the share and the number of shares, such as 0/2"),
        }
    }
}

impl Share {
    /// Runs the seeds of this share, until the process that reads the figures has ended.
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

/// The worker processes.
#[derive(Debug)]
pub struct Workers {
    workers: Vec<Worker>,
    /// Index of the worker that runs the next seed.
    next: usize,
}

impl Workers {
    /// Starts `count` processes with the arguments of this process.
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
    /// A message if the worker process has ended or its output is invalid.
    pub fn next_figures(&mut self) -> Result<Vec<u64>, String> {
        let count = self.workers.len();
        let worker = self
            .workers
            .get_mut(self.next)
            .ok_or("no worker process is running")?;
        self.next = (self.next + 1) % count;
        let mut line = String::new();
        match worker.figures.read_line(&mut line) {
            Ok(0) => match worker.process.wait() {
                Ok(status) => Err(format!("the worker process ended: {status}")),
                Err(error) => Err(format!("the worker process ended: {error}")),
            },
            Ok(_) => figures_of(&line),
            Err(error) => Err(format!(
                "the output of the worker process cannot be read: {error}"
            )),
        }
    }
}

/// Parses a line of figures. Refuses a line without a line end, because its last figure may be incomplete.
fn figures_of(line: &str) -> Result<Vec<u64>, String> {
    let Some(figures) = line.strip_suffix('\n') else {
        return Err(format!("the worker process ended while it wrote {line:?}"));
    };
    let figures: Result<Vec<u64>, _> = figures.split(' ').map(str::parse).collect();
    figures.map_err(|_| format!("the worker process wrote {line:?} instead of figures"))
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
    fn only_complete_lines_of_figures_are_accepted() {
        assert_eq!(figures_of("1 20 300\n"), Ok(vec![1, 20, 300]));
        for line in ["1 20 300", "1 20 ", "", "1 x\n"] {
            assert!(figures_of(line).is_err(), "{line:?}");
        }
    }

    #[test]
    fn share_needs_an_index_below_the_number_of_shares() {
        assert_eq!("1/2".parse(), Ok(Share { index: 1, count: 2 }));
        for text in ["2/2", "1", "1/0", "a/b", ""] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }
}
