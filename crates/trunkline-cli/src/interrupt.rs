//! Handles Ctrl-C and requests to stop.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::problem::{Problem, Stop};
use crate::terminal::Terminal;

/// Makes Ctrl-C complete the output and end the process with its exit code. A second Ctrl-C ends it
/// at once, because the reader of the output may be stuck.
pub(crate) fn end_process_on_interrupt(terminal: &Terminal) -> Result<(), Stop> {
    let terminal = terminal.clone();
    let mut signals = Signals::new([SIGINT]).map_err(no_signals)?;
    let code = i32::from(Exit::Interrupted.number());
    let listen = move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            let finish = move || {
                // There is no one left to report a failure of the output to.
                let _ = terminal.finish();
                std::process::exit(code);
            };
            let finishing = std::thread::Builder::new()
                .name("interrupt".to_owned())
                .spawn(finish);
            if finishing.is_ok() && signals.next().is_none() {
                return;
            }
            std::process::exit(code);
        }
    };
    let thread = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(listen);
    thread.map(|_| ()).map_err(|error| no_signals(error).into())
}

/// The state of Ctrl-C and SIGTERM, for a command that has to end in order.
#[derive(Clone, Debug)]
pub(crate) struct Interrupted(Arc<(Mutex<Seen>, Condvar)>);

#[derive(Debug, Default)]
struct Seen {
    ends_in_order: bool,
    /// Number of presses that the command handles itself; one more ends the process at once.
    handled: u32,
    presses: u32,
}

impl Interrupted {
    /// Makes Ctrl-C end the process with its exit code, until [`end_in_order`](Self::end_in_order)
    /// is called.
    pub(crate) fn new(terminal: &Terminal) -> Result<Self, Stop> {
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(no_signals)?;
        let interrupted = Self(Arc::default());
        let (presses, terminal) = (interrupted.clone(), terminal.clone());
        let code = i32::from(Exit::Interrupted.number());
        let listen = move || {
            for _ in signals.forever() {
                let mut seen = presses.lock();
                if !seen.ends_in_order {
                    // There is no one left to report a failure of the output to.
                    let _ = terminal.finish();
                }
                if !seen.ends_in_order || seen.presses >= seen.handled {
                    std::process::exit(code);
                }
                seen.presses = seen.presses.saturating_add(1);
                drop(seen);
                presses.pressed().notify_all();
            }
        };
        let thread = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(listen);
        thread
            .map(|_| interrupted)
            .map_err(|error| no_signals(error).into())
    }

    /// Leaves the first Ctrl-C to the command; the second ends the process.
    pub(crate) fn end_in_order(&self) {
        let mut seen = self.lock();
        (seen.ends_in_order, seen.handled) = (true, 1);
    }

    /// Leaves the first two to the command; the third ends the process.
    pub(crate) fn end_in_order_twice(&self) {
        let mut seen = self.lock();
        (seen.ends_in_order, seen.handled) = (true, 2);
    }

    pub(crate) fn is_so(&self) -> bool {
        self.lock().presses > 0
    }

    /// Waits until the next Ctrl-C, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let seen = self.lock();
        let before = seen.presses;
        // A failed wait returns early, and the caller checks again.
        let _ = self
            .pressed()
            .wait_timeout_while(seen, timeout, |seen| seen.presses == before);
    }

    /// Returns true if Ctrl-C was pressed more than once.
    pub(crate) fn is_so_again(&self) -> bool {
        self.lock().presses > 1
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notified at each press.
    fn pressed(&self) -> &Condvar {
        &self.0.1
    }
}

/// Waits for Ctrl-C or a request to end.
#[derive(Debug)]
pub(crate) struct StopSignals(Signals);

impl StopSignals {
    /// Takes over both signals, so that neither ends the process by itself.
    pub(crate) fn new() -> Result<Self, Stop> {
        Ok(Self(Signals::new([SIGINT, SIGTERM]).map_err(no_signals)?))
    }

    /// Waits for the first signal.
    pub(crate) fn wait(&mut self) {
        let _ = self.0.forever().next();
    }
}

fn no_signals(error: io::Error) -> Problem {
    let sentence = format!("the system refuses a handler for Ctrl-C: {error}");
    Problem::new(Exit::SomeFailed, "system", &sentence)
}
