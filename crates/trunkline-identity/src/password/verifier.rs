//! Verification of passwords with bounded memory and time.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use subtle::Choice;

use super::{HashError, Password, PasswordHash};

/// Maximum number of verifications at a time. Each takes the memory of its hash and one core.
pub const VERIFICATIONS_MAX: usize = 2;

/// Maximum number of threads that wait for a verification. With hashes of 25 ms, the last one waits 0.2 s.
pub const WAITING_MAX: usize = 16;

/// Verifies passwords: at most [`VERIFICATIONS_MAX`] at a time, in the order of the calls.
///
/// Its calls block, so they belong on a thread that serves no connection.
#[derive(Debug, Default)]
pub struct PasswordVerifier {
    turns: Turns,
}

/// What a password is compared with: the hash of an account, or, if there is no such account, another hash of
/// equal cost.
#[derive(Clone, Copy, Debug)]
pub struct PasswordCandidate<'a> {
    hash: &'a PasswordHash,
    is_known: Choice,
}

impl<'a> PasswordCandidate<'a> {
    /// `is_known` is 0 if nothing may match.
    pub(crate) fn new(hash: &'a PasswordHash, is_known: Choice) -> Self {
        Self { hash, is_known }
    }
}

/// The outcome of a verification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PasswordCheck {
    /// The password is that of the account.
    Correct,
    /// The password is wrong, or the account does not exist or has no password: the caller sends its client
    /// the same answer for all of these.
    Wrong,
    /// Too many verifications wait, or memory is short. Nothing was verified: the client may try again later,
    /// and this is no failed attempt.
    Busy,
}

impl PasswordVerifier {
    /// Creates a verifier.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compares a password with what [`Accounts::password_candidate`] returned for a name. The time does not
    /// reveal whether there is such an account.
    ///
    /// Blocks while [`VERIFICATIONS_MAX`] others run. Returns [`PasswordCheck::Busy`] at once if
    /// [`WAITING_MAX`] threads wait.
    ///
    /// [`Accounts::password_candidate`]: crate::accounts::Accounts::password_candidate
    pub fn verify(&self, password: &Password, candidate: PasswordCandidate<'_>) -> PasswordCheck {
        let Some(_turn) = self.turns.take() else {
            return PasswordCheck::Busy;
        };
        match candidate.hash.matches(password) {
            Ok(is_equal) if bool::from(is_equal & candidate.is_known) => PasswordCheck::Correct,
            Ok(_) => PasswordCheck::Wrong,
            Err(HashError::Memory | HashError::Random(_) | HashError::Rule(_)) => {
                PasswordCheck::Busy
            }
        }
    }
}

/// Turns of threads, in the order in which they asked.
#[derive(Debug, Default)]
struct Turns {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    running: usize,
    /// Numbers of the threads that wait, in their order.
    waiting: VecDeque<u64>,
    next_number: u64,
}

/// The right to verify one password. It ends when this is dropped, even by a panic.
struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits for a turn. Returns `None` at once if too many wait.
    fn take(&self) -> Option<Turn<'_>> {
        let mut queue = self.lock();
        if queue.running >= VERIFICATIONS_MAX || !queue.waiting.is_empty() {
            if queue.waiting.len() >= WAITING_MAX {
                return None;
            }
            let number = queue.next_number;
            queue.next_number = number.wrapping_add(1);
            queue.waiting.push_back(number);
            while queue.running >= VERIFICATIONS_MAX || queue.waiting.front() != Some(&number) {
                let woken = self.changed.wait(queue);
                queue = woken.unwrap_or_else(PoisonError::into_inner);
            }
            queue.waiting.pop_front();
        }
        queue.running = queue.running.saturating_add(1);
        // The next thread may have a turn as well.
        self.changed.notify_all();
        Some(Turn(self))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is consistent between two statements.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.running = queue.running.saturating_sub(1);
        drop(queue);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver};
    use std::thread::{self, Scope};

    use super::*;

    /// Starts a thread that takes a turn, reports its number and whether it has the turn, and keeps it until
    /// the returned sender is dropped.
    fn spawn<'s>(
        scope: &'s Scope<'s, '_>,
        turns: &'s Turns,
        number: usize,
        report: mpsc::Sender<(usize, bool)>,
    ) -> mpsc::Sender<()> {
        let (hold, held): (_, Receiver<()>) = mpsc::channel();
        scope.spawn(move || {
            let turn = turns.take();
            report.send((number, turn.is_some())).unwrap();
            let _ = held.recv();
        });
        hold
    }

    fn wait_for_waiting(turns: &Turns, count: usize) {
        while turns.lock().waiting.len() < count {
            thread::yield_now();
        }
    }

    /// CR 1.11: guessing costs the engine a bounded part of its time and memory.
    #[test]
    fn turns_are_bounded_and_in_the_order_of_the_calls() {
        let turns = Turns::default();
        let (report, reports) = mpsc::channel();
        thread::scope(|scope| {
            let mut holds = VecDeque::new();
            for number in 0..VERIFICATIONS_MAX {
                holds.push_back(spawn(scope, &turns, number, report.clone()));
                assert_eq!(reports.recv().unwrap(), (number, true));
            }
            for waiting in 0..WAITING_MAX {
                let number = VERIFICATIONS_MAX + waiting;
                holds.push_back(spawn(scope, &turns, number, report.clone()));
                wait_for_waiting(&turns, waiting + 1);
            }
            assert!(turns.take().is_none(), "the queue is full");
            assert!(reports.try_recv().is_err(), "at most two have a turn");
            for number in VERIFICATIONS_MAX..VERIFICATIONS_MAX + WAITING_MAX {
                drop(holds.pop_front());
                assert_eq!(reports.recv().unwrap(), (number, true));
                assert_eq!(turns.lock().running, VERIFICATIONS_MAX);
            }
            holds.clear();
        });
        assert_eq!(turns.lock().running, 0);
        assert!(turns.take().is_some());
    }

    #[test]
    fn turn_ends_after_a_panic() {
        let turns = Turns::default();
        for _ in 0..2 * VERIFICATIONS_MAX {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _turn = turns.take();
                std::panic::resume_unwind(Box::new(()));
            }));
            assert!(panicked.is_err());
        }
        assert_eq!(turns.lock().running, 0);
    }
}
