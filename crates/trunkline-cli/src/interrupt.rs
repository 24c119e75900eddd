//! Ctrl-C, and being told to stop.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;
use crate::problem::{Problem, Stop};
use crate::terminal::Terminal;

/// From now on Ctrl-C completes the output and ends the process with its code. A second one ends it
/// at once: what reads the output may be stuck.
pub(crate) fn end_process_on_interrupt(terminal: &Terminal) -> Result<(), Stop> {
    let terminal = terminal.clone();
    let mut signals = Signals::new([SIGINT]).map_err(no_signals)?;
    let code = i32::from(Exit::Interrupted.number());
    let listen = move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            let finish = move || {
                // Nobody is left to tell that the output failed.
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

/// Whether Ctrl-C was pressed, or somebody asked the program to end, for a command that has to end
/// in order.
#[derive(Clone, Debug)]
pub(crate) struct Interrupted(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    ends_in_order: bool,
    is_so: bool,
}

impl Interrupted {
    /// From now on Ctrl-C ends the process with its code, until
    /// [`end_in_order`](Self::end_in_order).
    pub(crate) fn new(terminal: &Terminal) -> Result<Self, Stop> {
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(no_signals)?;
        let interrupted = Self(Arc::default());
        let (seen, terminal) = (interrupted.clone(), terminal.clone());
        let code = i32::from(Exit::Interrupted.number());
        let listen = move || {
            for _ in signals.forever() {
                let mut seen = seen.lock();
                if !seen.ends_in_order {
                    // Nobody is left to tell that the output failed.
                    let _ = terminal.finish();
                }
                if !seen.ends_in_order || seen.is_so {
                    std::process::exit(code);
                }
                seen.is_so = true;
            }
        };
        let thread = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(listen);
        thread
            .map(|_| interrupted)
            .map_err(|error| no_signals(error).into())
    }

    /// From now on the command looks itself; the second Ctrl-C ends the process.
    pub(crate) fn end_in_order(&self) {
        self.lock().ends_in_order = true;
    }

    pub(crate) fn is_so(&self) -> bool {
        self.lock().is_so
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for Ctrl-C or a request to end.
#[derive(Debug)]
pub(crate) struct StopSignals(Signals);

impl StopSignals {
    /// From now on neither ends the process by itself.
    pub(crate) fn new() -> Result<Self, Stop> {
        Ok(Self(Signals::new([SIGINT, SIGTERM]).map_err(no_signals)?))
    }

    /// Waits for the first.
    pub(crate) fn wait(&mut self) {
        let _ = self.0.forever().next();
    }
}

fn no_signals(error: io::Error) -> Problem {
    let sentence = format!("the system does not let this program handle Ctrl-C: {error}");
    Problem::new(Exit::SomeFailed, "system", &sentence)
}
