//! Messages from other threads to a connection thread.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// Messages for one thread. The thread is woken only if it sleeps, so any number of messages
/// between two sleeps costs one wake-up.
pub(super) struct Mailbox<M, R> {
    mail: Mutex<Vec<M>>,
    asleep: AtomicBool,
    /// There is mail. Changed only under the lock; reading it without the lock gives a hint.
    posted: AtomicBool,
    waker: R,
}

/// Ends the sleep of the mailbox's thread.
pub(super) trait WakeThread {
    /// Ends the current sleep of the thread, or the next one.
    fn wake_thread(&self);
}

impl<M, R: WakeThread> Mailbox<M, R> {
    pub(super) fn new(waker: R) -> Self {
        Self {
            mail: Mutex::new(Vec::new()),
            asleep: AtomicBool::new(false),
            posted: AtomicBool::new(false),
            waker,
        }
    }

    pub(super) fn post(&self, message: M) {
        let mut mail = lock(&self.mail);
        mail.push(message);
        // Relaxed: a hint for a thread that is awake. A thread that falls asleep checks under the
        // lock, where it also sees this.
        self.posted.store(true, Ordering::Relaxed);
        drop(mail);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.waker.wake_thread();
        }
    }

    /// Called before the thread sleeps. Returns false if there is mail; the thread must not sleep
    /// then.
    pub(super) fn fall_asleep(&self) -> bool {
        // Announce the sleep before checking: a thread that posts a message after the check finds
        // this thread asleep and wakes it.
        self.asleep.store(true, Ordering::SeqCst);
        let empty = lock(&self.mail).is_empty();
        if !empty {
            self.wake_up();
        }
        empty
    }

    pub(super) fn wake_up(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    /// Returns true if a message would have to end the thread's sleep.
    pub(super) fn is_asleep(&self) -> bool {
        // Relaxed: the result only decides which thread sends.
        self.asleep.load(Ordering::Relaxed)
    }

    pub(super) fn has_mail(&self) -> bool {
        self.posted.load(Ordering::Relaxed)
    }

    /// Exchanges the mail for `emptied`, whose storage the mailbox then uses.
    pub(super) fn take(&self, emptied: &mut Vec<M>) {
        let mut mail = lock(&self.mail);
        self.posted.store(false, Ordering::Relaxed);
        std::mem::swap(&mut *mail, emptied);
    }
}

impl WakeThread for mio::Waker {
    fn wake_thread(&self) {
        // Fails only if the system is out of memory; the thread's timers wake it then.
        let _ = self.wake();
    }
}

#[cfg(test)]
#[cfg(shuttle)]
pub(super) mod tests;
