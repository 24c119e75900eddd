//! Handles Ctrl-C and SIGTERM.

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

/// Counts presses of Ctrl-C; SIGTERM counts as a press.
///
/// A command can handle the first presses itself ([`handle_presses`](Self::handle_presses)); the
/// next one then ends the process at once. If it handles none, the first Ctrl-C completes the output
/// before the process ends; SIGTERM or a second press ends it at once.
#[derive(Clone, Debug)]
pub(crate) struct Interrupted(Arc<(Mutex<Presses>, Condvar)>);

#[derive(Debug, Default)]
struct Presses {
    /// Number of presses that the command handles itself. The next press ends the process.
    handled: u32,
    count: u32,
}

impl Interrupted {
    pub(crate) fn new(terminal: &Terminal) -> Result<Self, CliError> {
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(handler_problem)?;
        let interrupted = Self(Arc::default());
        let (listener, terminal) = (interrupted.clone(), terminal.clone());
        let listen = move || {
            for signal in signals.forever() {
                listener.press(signal, &terminal);
            }
        };
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(listen).map_err(handler_problem)?;
        Ok(interrupted)
    }

    fn press(&self, signal: i32, terminal: &Terminal) {
        let mut presses = self.lock();
        presses.count = presses.count.saturating_add(1);
        match (presses.handled, presses.count) {
            (handled, count) if count <= handled => self.0.1.notify_all(),
            (0, 1) if signal == SIGTERM => {
                // If the default handler fails, `exit` ends the process.
                let _ = emulate_default_handler(signal);
                exit(CODE);
            }
            (0, 1) => {
                let terminal = terminal.clone();
                let finish = move || {
                    // If the output fails now, there is nowhere left to report it.
                    let _ = terminal.finish();
                    exit(CODE);
                };
                // Runs in its own thread, because a reader that does not read the output can block
                // it.
                let thread = thread::Builder::new().name("interrupt".to_owned());
                if thread.spawn(finish).is_err() {
                    exit(CODE);
                }
            }
            _ => exit(CODE),
        }
    }

    /// Counts a press by another way than a signal, for a command that
    /// [handles](Self::handle_presses) it.
    pub(crate) fn request_end(&self) {
        let mut presses = self.lock();
        presses.count = presses.count.saturating_add(1);
        self.0.1.notify_all();
    }

    /// Lets the command handle the first `presses`. The next one ends the process.
    pub(crate) fn handle_presses(&self, presses: u32) {
        self.lock().handled = presses;
    }

    pub(crate) fn is_pressed(&self) -> bool {
        self.presses() > 0
    }

    pub(crate) fn presses(&self) -> u32 {
        self.lock().count
    }

    /// Waits for the next press, for at most `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) {
        let presses = self.lock();
        let initial_count = presses.count;
        // A failed wait returns early, and the caller checks again.
        let _ = (self.0.1)
            .wait_timeout_while(presses, timeout, |presses| presses.count == initial_count);
    }

    /// Lets the command handle all presses, and waits for the first one.
    pub(crate) fn wait_for_first(&self) {
        self.handle_presses(u32::MAX);
        while !self.is_pressed() {
            self.wait(Duration::from_secs(3600));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Presses> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn handler_problem(error: io::Error) -> Problem {
    let sentence = format!("cannot install a handler for Ctrl-C: {error}");
    Problem::failed("system", sentence)
}
