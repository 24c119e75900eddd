//! Ctrl-C and SIGTERM.

use std::io;
use std::process::exit;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::terminal::Terminal;
use crate::{CliError, Exit, Problem};

const CODE: i32 = Exit::Interrupted as i32;

/// The presses of Ctrl-C so far; SIGTERM counts as one. Unless the command handles a press itself, it
/// completes the output and ends the process.
#[derive(Clone, Debug)]
pub(crate) struct Interrupted(Arc<(Mutex<Seen>, Condvar)>);

#[derive(Debug, Default)]
struct Seen {
    /// Number of presses that the command handles itself; one more ends the process at once.
    handled: u32,
    presses: u32,
}

impl Interrupted {
    pub(crate) fn new(terminal: &Terminal) -> Result<Self, CliError> {
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(no_signals)?;
        let interrupted = Self(Arc::default());
        let (seen, terminal) = (interrupted.clone(), terminal.clone());
        let listen = move || {
            for signal in signals.forever() {
                seen.press(signal, &terminal);
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(listen).map_err(no_signals)?;
        Ok(interrupted)
    }

    fn press(&self, signal: i32, terminal: &Terminal) {
        let mut seen = self.lock();
        seen.presses = seen.presses.saturating_add(1);
        match (seen.handled, seen.presses) {
            (handled, presses) if presses <= handled => self.0.1.notify_all(),
            (0, 1) if signal == SIGTERM => {
                // If the system refuses even that, the process ends anyway.
                let _ = emulate_default_handler(signal);
                exit(CODE);
            }
            (0, 1) => {
                let terminal = terminal.clone();
                let finish = move || {
                    // There is no one left to report a failure of the output to.
                    let _ = terminal.finish();
                    exit(CODE);
                };
                // In a thread of its own, because the reader of the output may be stuck.
                let thread = thread::Builder::new().name("interrupt".to_owned());
                if thread.spawn(finish).is_err() {
                    exit(CODE);
                }
            }
            _ => exit(CODE),
        }
    }

    /// Leaves the first presses to the command; one more ends the process.
    pub(crate) fn end_in_order(&self, presses: u32) {
        self.lock().handled = presses;
    }

    pub(crate) fn is_so(&self) -> bool {
        self.presses() > 0
    }

    pub(crate) fn presses(&self) -> u32 {
        self.lock().presses
    }

    /// Waits until the next press, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let seen = self.lock();
        let before = seen.presses;
        // A failed wait returns early, and the caller checks again.
        let _ = (self.0.1).wait_timeout_while(seen, timeout, |seen| seen.presses == before);
    }

    /// Leaves all presses to the command, and waits for the first.
    pub(crate) fn wait_for_first(&self) {
        self.end_in_order(u32::MAX);
        while !self.is_so() {
            self.wait(Duration::from_secs(3600));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_signals(error: io::Error) -> Problem {
    let sentence = format!("the system refuses a handler for Ctrl-C: {error}");
    Problem::failed("system", sentence)
}
