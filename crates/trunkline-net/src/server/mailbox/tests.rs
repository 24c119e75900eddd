//! Explores schedules of posters and the mailbox's thread: no message stays in the mailbox while
//! the thread sleeps.

use std::sync::Arc;

use shuttle::thread;

use super::*;
use crate::sync::{Condvar, wait};

/// Wakes a sleeping thread.
#[derive(Default)]
pub(in crate::server) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub(in crate::server) fn wait(&self) {
        let mut rung = lock(&self.rung);
        while !*rung {
            rung = wait(&self.changed, rung);
        }
        *rung = false;
    }
}

impl WakeThread for Arc<Bell> {
    fn wake_thread(&self) {
        *lock(&self.rung) = true;
        self.changed.notify_all();
    }
}

#[test]
fn shuttle_a_message_never_waits_for_a_sleeping_thread() {
    shuttle::check_random(
        || {
            let bell = Arc::new(Bell::default());
            let sut = Arc::new(Mailbox::new(bell.clone()));
            let posters: Vec<_> = (0..3)
                .map(|poster| {
                    let sut = sut.clone();
                    thread::spawn(move || (0..2).for_each(|message| sut.post((poster, message))))
                })
                .collect();
            let mut received = Vec::new();
            let mut mail = Vec::new();
            while received.len() < 6 {
                if sut.fall_asleep() {
                    bell.wait();
                }
                sut.wake_up();
                sut.take(&mut mail);
                received.append(&mut mail);
            }
            posters
                .into_iter()
                .for_each(|poster| poster.join().unwrap());
            for poster in 0..3 {
                let own = received.iter().filter(|(from, _)| *from == poster);
                assert!(own.map(|(_, message)| *message).eq(0..2), "in order");
            }
        },
        100_000,
    );
}
