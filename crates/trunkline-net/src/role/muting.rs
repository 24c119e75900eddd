//! Tests which work calls leave to the background thread, and how they affect its sleep, with
//! simulated time.

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

/// Records the calls it receives.
#[derive(Default)]
struct RecordedCalls(RefCell<Vec<&'static str>>);

impl Sleep<()> for RecordedCalls {
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
    calls: RecordedCalls,
}

impl Rig {
    /// Creates a connection whose background thread holds the role and is asleep.
    fn new() -> Self {
        NOW.set(1_000_000_000);
        let rig = Self {
            role: DriverRole::new((), IDLE, now),
            calls: RecordedCalls::default(),
        };
        let mut guard = rig.role.lock();
        guard.set_offline(false);
        guard.fall_asleep();
        drop(guard);
        rig
    }

    /// Makes a wait of one turn, `after` the previous wait. Returns the calls that the sleep
    /// received.
    fn wait(&self, after: Duration) -> Vec<&'static str> {
        NOW.set(NOW.get() + after.as_nanos() as u64);
        let mut looks = 0;
        let done = self.role.wait(
            self.role.lock(),
            |_| {
                looks += 1;
                match looks {
                    1 => Check::Wait(None),
                    _ => Check::Done(()),
                }
            },
            |guard, _| guard,
            &self.calls,
        );
        assert_eq!(done, Some(()));
        self.calls.0.take()
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
fn thread_that_woke_up_by_itself_is_not_resumed() {
    let sut = Rig::new();
    let mut looks = 0;
    let done = sut.role.wait(
        sut.role.lock(),
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
        &sut.calls,
    );
    assert_eq!(done, Some(()));
    assert_eq!(sut.calls.0.take(), ["mute"]);
}

#[test]
fn shutdown_ends_a_muted_sleep() {
    for offline in [true, false] {
        let sut = Rig::new();
        let never: Option<()> = sut.role.wait(
            sut.role.lock(),
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
            &sut.calls,
        );
        assert_eq!(never, None);
        assert_eq!(sut.calls.0.take(), ["mute", "end"]);
    }
}

impl Rig {
    /// Creates a connection without a driver: the background thread was displaced permanently.
    fn free() -> Self {
        let rig = Self::new();
        rig.wait(IDLE);
        rig.wait(Duration::ZERO);
        assert!(rig.role.lock().is_free());
        rig
    }

    /// Makes a call, `after` the previous call. If `finds`, it finds its answer at once; otherwise
    /// it has no time to wait for one. Returns the time-outs of the turns that the call drives.
    fn call(&self, after: Duration, finds: bool) -> Vec<Option<Duration>> {
        NOW.set(NOW.get() + after.as_nanos() as u64);
        let mut turns = Vec::new();
        let answer = self.role.wait(
            self.role.lock(),
            |_| match finds {
                true => Check::Done(()),
                false => Check::GiveUp,
            },
            |guard, timeout| {
                turns.push(timeout);
                guard
            },
            &self.calls,
        );
        assert_eq!(answer.is_some(), finds);
        turns
    }

    fn needs_background_driver(&self) -> bool {
        self.role.lock().needs_background_driver(IDLE)
    }
}

/// Takes readings that have already arrived, faster than the interval, so that no call reads the
/// connection.
#[test]
fn calls_answered_at_once_leave_driving_to_the_background_thread() {
    let sut = Rig::free();
    for _ in 0..4 {
        assert_eq!(sut.call(IDLE / 5, true), []);
        assert!(
            !sut.needs_background_driver(),
            "somebody drove within the interval"
        );
    }
    for _ in 0..4 {
        assert_eq!(sut.call(IDLE / 5, true), []);
        assert!(
            sut.needs_background_driver(),
            "somebody called, but nobody drove"
        );
    }
}

#[test]
fn calls_without_time_drive_for_a_turn_each_and_never_sleep() {
    for after in [Duration::ZERO, IDLE / 5, IDLE - Duration::from_nanos(1)] {
        let sut = Rig::free();
        for _ in 0..10 {
            assert_eq!(sut.call(after, false), [Some(Duration::ZERO)]);
            assert!(!sut.needs_background_driver());
        }
        NOW.set(NOW.get() + IDLE.as_nanos() as u64);
        assert!(sut.needs_background_driver(), "the calls have ended");
    }
}

#[test]
fn calls_without_time_leave_a_driven_connection_alone() {
    let sut = Rig::new();
    for _ in 0..10 {
        assert_eq!(sut.call(IDLE / 5, false), []);
    }
    assert_eq!(sut.calls.0.take(), [""; 0], "the sleep goes on");
}

#[test]
fn a_call_whose_time_runs_out_while_it_drives_gets_no_further_turn() {
    let sut = Rig::free();
    let (mut looks, mut turns) = (0, 0);
    let never: Option<()> = sut.role.wait(
        sut.role.lock(),
        |_| {
            looks += 1;
            match looks {
                1 => Check::Wait(Some(IDLE)),
                _ => Check::GiveUp,
            }
        },
        |guard, _| {
            turns += 1;
            guard
        },
        &sut.calls,
    );
    assert_eq!((never, turns), (None, 1));
}

#[test]
fn call_without_time_does_not_drive_a_closed_connection() {
    let sut = Rig::free();
    sut.role.lock().set_offline(true);
    assert_eq!(sut.call(Duration::ZERO, false), []);
    let sut = Rig::free();
    let mut guard = sut.role.lock();
    sut.role.stop(&mut guard);
    drop(guard);
    assert_eq!(sut.call(Duration::ZERO, false), []);
}
