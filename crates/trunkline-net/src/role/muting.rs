//! What a waiter makes of the background thread's sleep, with the time moved by hand.

use std::cell::{Cell, RefCell};

use super::*;

const IDLE: Duration = Duration::from_millis(5);

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

fn now() -> Moment {
    (
        Tick::from_nanos(NOW.get()),
        trunkline_types::Timestamp::UNIX_EPOCH,
    )
}

/// Keeps what it is told.
#[derive(Default)]
struct Told(RefCell<Vec<&'static str>>);

impl Sleep<()> for Told {
    fn end(&self) {
        self.0.borrow_mut().push("end");
    }
    fn mute(&self) {
        self.0.borrow_mut().push("mute");
    }
    fn resume(&self, _: &mut State<()>) {
        self.0.borrow_mut().push("resume");
    }
}

struct Rig {
    role: DriverRole<()>,
    told: Told,
}

impl Rig {
    /// Connected, the background thread asleep as the driver.
    fn new() -> Self {
        NOW.set(1_000_000_000);
        let rig = Self {
            role: DriverRole::new((), IDLE, now),
            told: Told::default(),
        };
        let mut guard = rig.role.lock();
        guard.set_offline(false);
        guard.doze_off();
        drop(guard);
        rig
    }

    /// A wait that takes one turn, `after` the one before; what the sleep was told meanwhile.
    fn wait(&self, after: Duration) -> Vec<&'static str> {
        NOW.set(NOW.get() + after.as_nanos() as u64);
        let mut looks = 0;
        let done = self.role.wait(
            |_| {
                looks += 1;
                match looks {
                    1 => Check::Wait(None),
                    _ => Check::Done(()),
                }
            },
            |guard, _| guard,
            &self.told,
        );
        assert_eq!(done, Some(()));
        self.told.0.take()
    }
}

#[test]
fn waits_now_and_then_leave_the_thread_asleep() {
    let sut = Rig::new();
    for _ in 0..3 {
        assert_eq!(sut.wait(IDLE), ["mute", "resume"]);
    }
}

#[test]
fn a_second_wait_within_an_interval_ends_the_sleep_once() {
    let sut = Rig::new();
    assert_eq!(sut.wait(IDLE), ["mute", "resume"]);
    assert_eq!(sut.wait(IDLE / 2), ["end"]);
    assert_eq!(sut.wait(IDLE / 2), [""; 0], "the role was free");
}

#[test]
fn a_thread_that_got_up_by_itself_is_not_resumed() {
    let sut = Rig::new();
    let mut looks = 0;
    let done = sut.role.wait(
        |_| {
            looks += 1;
            match looks {
                1 => Check::Wait(None),
                _ => Check::Done(()),
            }
        },
        |mut guard, _| {
            assert!(!guard.wake_up(), "it was displaced");
            guard
        },
        &sut.told,
    );
    assert_eq!(done, Some(()));
    assert_eq!(sut.told.0.take(), ["mute"]);
}

#[test]
fn whoever_ends_everything_ends_a_muted_sleep() {
    for offline in [true, false] {
        let sut = Rig::new();
        let never: Option<()> = sut.role.wait(
            |state| match state.is_stopping() || state.is_offline() {
                true => Check::GiveUp,
                false => Check::Wait(None),
            },
            |mut guard, _| {
                match offline {
                    true => guard.set_offline(true),
                    false => sut.role.stop(&mut guard),
                }
                guard
            },
            &sut.told,
        );
        assert_eq!(never, None);
        assert_eq!(sut.told.0.take(), ["mute", "end"]);
    }
}
