//! Explores schedules of waiters, tasks and the background thread around a fake socket. No wake-up
//! is lost (shuttle reports that as a deadlock), there are never two drivers, and never none while
//! a thread or task waits (a deadlock again).
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p trunkline-net --release shuttle_`

use std::sync::Arc;
use std::task::Wake;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::thread;

use super::*;
use crate::sync::WAITS_TIME_OUT;

/// Number of schedules of each test, unless `SHUTTLE_SCHEDULES` overrides it.
const SCHEDULES: usize = 20_000;
const IDLE: Duration = Duration::from_nanos(4);

/// A fake socket with two sleepers and a peer.
#[derive(Default)]
struct Socket {
    state: Mutex<SocketState>,
    changed: Condvar,
    reading: AtomicBool,
}

#[derive(Default)]
struct SocketState {
    /// Number of messages that have arrived.
    waiting: u64,
    closed: bool,
    kicked: [bool; 2],
    /// Arriving data does not end the background thread's sleep.
    muted: bool,
}

const WAITER: usize = 0;
const BACKGROUND: usize = 1;

impl Socket {
    /// Sleeps. If `may_end`, the sleep may end by itself, as at a time-out.
    fn sleep(&self, sleeper: usize, may_end: bool) {
        let mut state = lock(&self.state);
        loop {
            let arrived = state.waiting > 0 || state.closed;
            let heard = arrived && !(sleeper == BACKGROUND && state.muted);
            if heard || state.kicked[sleeper] || (may_end && thread_rng().gen_bool(0.1)) {
                break;
            }
            state = wait(&self.changed, state);
        }
        state.kicked[sleeper] = false;
    }

    fn change(&self, change: impl FnOnce(&mut SocketState)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    /// Returns the number of messages that have arrived, and true if the peer has closed. Only the
    /// driver may call this.
    fn read(&self) -> (u64, bool) {
        assert!(!self.reading.swap(true, Ordering::SeqCst), "two drivers");
        let mut state = lock(&self.state);
        let read = (
            std::mem::take(&mut state.waiting),
            std::mem::take(&mut state.closed),
        );
        drop(state);
        thread::yield_now();
        self.reading.store(false, Ordering::SeqCst);
        read
    }
}

#[derive(Default)]
struct Inbox {
    messages: u64,
    connections: u64,
}

struct Rig {
    role: DriverRole<Inbox>,
    socket: Socket,
    gave_up: AtomicBool,
}

impl Rig {
    fn new(read: fn() -> Moment) -> Arc<Self> {
        let role = DriverRole::new(Inbox::default(), IDLE, read);
        Arc::new(Self {
            role,
            socket: Socket::default(),
            gave_up: AtomicBool::new(false),
        })
    }

    /// Delivers the messages that the driver has read.
    fn settle(&self, guard: &mut Guard<'_, Inbox>, (messages, closed): (u64, bool)) {
        guard.data.messages += messages;
        if closed {
            guard.set_offline(true);
        }
        if messages > 0 || closed {
            self.role.changed(guard);
        }
    }

    fn turn_of_waiter<'a>(
        &'a self,
        guard: Guard<'a, Inbox>,
        timeout: Option<Duration>,
    ) -> Guard<'a, Inbox> {
        self.role.unlock(guard);
        if timeout != Some(Duration::ZERO) {
            self.socket.sleep(WAITER, false);
        }
        let read = self.socket.read();
        let mut guard = self.role.lock();
        self.settle(&mut guard, read);
        guard
    }

    fn turn_of_background<'a>(&'a self, mut guard: Guard<'a, Inbox>) -> Guard<'a, Inbox> {
        if guard.is_offline() {
            self.role.unlock(guard);
            thread::yield_now();
            let mut guard = self.role.lock();
            guard.set_offline(false);
            guard.data.connections += 1;
            self.role.changed(&mut guard);
            return guard;
        }
        self.socket.change(|state| state.muted = false);
        guard.fall_asleep();
        self.role.unlock(guard);
        self.socket.sleep(BACKGROUND, true);
        let mut guard = self.role.lock();
        if !guard.wake_up() {
            return guard;
        }
        self.role.unlock(guard);
        let read = self.socket.read();
        let mut guard = self.role.lock();
        self.settle(&mut guard, read);
        guard
    }

    /// Waits as a thread for `done`, with at most `patience` checks.
    fn wait<R>(&self, patience: u64, mut done: impl FnMut(&mut Inbox) -> Option<R>) -> Option<R> {
        let mut looks = 0;
        self.role.wait(
            self.role.lock(),
            |state| {
                looks += 1;
                match done(&mut state.data) {
                    Some(answer) => Check::Done(answer),
                    None if looks >= patience => Check::GiveUp,
                    None if patience == u64::MAX => Check::Wait(None),
                    None => Check::Wait(Some(IDLE)),
                }
            },
            |guard, timeout| self.turn_of_waiter(guard, timeout),
            self,
        )
    }

    /// Waits as a task for `done`.
    fn wait_as_task<R>(&self, mut done: impl FnMut(&mut Inbox) -> Option<R>) -> R {
        let woken = Arc::new(Woken::default());
        loop {
            let mut guard = self.role.lock();
            if let Some(answer) = done(&mut guard.data) {
                self.role.unlock(guard);
                return answer;
            }
            self.role
                .add_task(&mut guard, &Waker::from(woken.clone()), None);
            self.role.unlock(guard);
            woken.wait();
        }
    }

    fn take_one(inbox: &mut Inbox) -> Option<()> {
        (inbox.messages > 0).then(|| inbox.messages -= 1)
    }

    fn stop(&self) {
        let mut guard = self.role.lock();
        self.role.stop(&mut guard);
        self.role.unlock(guard);
        self.socket.change(|state| state.kicked = [true; 2]);
    }
}

impl Sleep<Inbox> for Rig {
    fn end(&self) {
        self.socket.change(|state| state.kicked[BACKGROUND] = true);
    }

    fn mute(&self) {
        self.socket.change(|state| state.muted = true);
    }

    fn resume(&self, _: &mut State<Inbox>) {
        self.socket.change(|state| state.muted = false);
    }
}

/// Returns a random time, so that the schedule decides whether the background thread has waited
/// long enough.
fn random_time() -> Moment {
    (
        Tick::from_nanos(thread_rng().gen_range(0..8u64)),
        Timestamp::UNIX_EPOCH,
    )
}

std::thread_local! {
    /// Shuttle runs all threads of a schedule on one system thread.
    static WORKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

fn worked_time() -> Moment {
    (Tick::from_nanos(WORKED.get()), Timestamp::UNIX_EPOCH)
}

/// Work between two calls that takes about as long as the background thread's interval.
fn work_for_long() {
    work(thread_rng().gen_range(0..2 * IDLE.as_nanos() as u64));
}

/// Work between two calls that is always shorter than the interval.
fn work_for_short() {
    work(thread_rng().gen_range(0..IDLE.as_nanos() as u64));
}

fn work(nanos: u64) {
    WORKED.set(WORKED.get() + nanos);
    thread::yield_now();
}

#[derive(Default)]
struct Woken {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Woken {
    fn wait(&self) {
        let mut woken = lock(&self.woken);
        while !*woken {
            woken = wait(&self.changed, woken);
        }
        *woken = false;
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *lock(&self.woken) = true;
        self.changed.notify_all();
    }
}

/// Runs `users` concurrently with the background thread and a peer, until the users have ended.
fn explore(users: &'static [fn(&Rig)], peer: fn(&Rig)) {
    WAITS_TIME_OUT.set(false);
    explore_by(random_time, users, peer);
}

/// Like [`explore`], but time passes only while a program works, and time-outs occur.
fn explore_in_time(users: &'static [fn(&Rig)], peer: fn(&Rig)) {
    WAITS_TIME_OUT.set(true);
    explore_by(worked_time, users, peer);
}

fn explore_by(read: fn() -> Moment, users: &'static [fn(&Rig)], peer: fn(&Rig)) {
    let schedules = std::env::var("SHUTTLE_SCHEDULES");
    let schedules = schedules.map_or(SCHEDULES, |count| count.parse().unwrap());
    shuttle::check_random(
        move || {
            WORKED.set(0);
            let rig = Rig::new(read);
            let spawn = |body: Box<dyn FnOnce(&Rig) + Send>| {
                let rig = rig.clone();
                thread::spawn(move || body(&rig))
            };
            let background = spawn(Box::new(|rig| {
                rig.role.background(|guard| rig.turn_of_background(guard));
            }));
            let users: Vec<_> = users.iter().map(|user| spawn(Box::new(user))).collect();
            let peer = spawn(Box::new(peer));
            users.into_iter().for_each(|user| user.join().unwrap());
            peer.join().unwrap();
            rig.stop();
            background.join().unwrap();
        },
        schedules,
    );
}

fn send(rig: &Rig, messages: u64) {
    for _ in 0..messages {
        rig.socket.change(|state| state.waiting += 1);
        thread::yield_now();
    }
}

fn waiter(rig: &Rig) {
    for _ in 0..2 {
        rig.wait(u64::MAX, Rig::take_one).unwrap();
    }
}

fn task(rig: &Rig) {
    for _ in 0..2 {
        rig.wait_as_task(Rig::take_one);
    }
}

/// Waits for a message that never arrives, and gives up.
fn impatient(rig: &Rig) {
    for patience in 1..4 {
        let never: Option<()> = rig.wait(patience, |_| None);
        assert!(never.is_none());
    }
    rig.gave_up.store(true, Ordering::SeqCst);
}

#[test]
fn shuttle_one_waiter_and_the_background_thread() {
    explore(&[waiter], |rig| send(rig, 2));
}

#[test]
fn shuttle_waiters_hand_the_role_to_each_other() {
    explore(&[waiter, waiter, waiter], |rig| send(rig, 6));
}

#[test]
fn shuttle_a_task_is_driven_by_the_background_thread() {
    explore(&[task], |rig| send(rig, 2));
}

#[test]
fn shuttle_waiters_and_tasks_share_a_connection() {
    explore(&[waiter, task, waiter], |rig| send(rig, 6));
}

#[test]
fn shuttle_leaving_driver_passes_the_role_on() {
    explore(&[waiter, impatient, task], |rig| {
        send(rig, 2);
        // Shuttle need not let time-outs occur, so this loop makes changes that cause the impatient
        // waiters to check and give up. It stops when they have given up, so that a role which they
        // failed to pass on stays lost and is detected.
        while !rig.gave_up.load(Ordering::SeqCst) {
            let mut guard = rig.role.lock();
            rig.role.changed(&mut guard);
            rig.role.unlock(guard);
            rig.socket.change(|state| state.kicked[WAITER] = true);
        }
        send(rig, 2);
    });
}

#[test]
fn shuttle_a_parked_waiter_sees_what_the_driver_took_in() {
    fn first(rig: &Rig) {
        rig.wait(u64::MAX, |inbox| (inbox.messages >= 1).then_some(()))
            .unwrap();
        // The second message arrives only after the first was seen, most likely while another
        // thread drives.
        send(rig, 1);
    }
    fn both(rig: &Rig) {
        rig.wait(u64::MAX, |inbox| (inbox.messages >= 2).then_some(()))
            .unwrap();
    }
    explore(&[both, first, both], |rig| send(rig, 1));
}

#[test]
fn shuttle_a_lost_connection_is_dialled_again_while_everyone_waits() {
    fn waits_for_the_second_connection(rig: &Rig) {
        rig.wait(u64::MAX, |inbox| (inbox.connections >= 2).then_some(()))
            .unwrap();
    }
    explore(&[waits_for_the_second_connection, waiter, task], |rig| {
        // Like a peer, close a connection only after it was accepted.
        rig.wait_as_task(|inbox| (inbox.connections >= 1).then_some(()));
        send(rig, 2);
        rig.socket.change(|state| state.closed = true);
        rig.wait_as_task(|inbox| (inbox.connections >= 2).then_some(()));
        send(rig, 2);
    });
}

/// Polls until two messages have arrived: calls with no time to wait, with work between them.
fn poller(rig: &Rig) {
    for work in [work_for_short, work_for_long] {
        while rig.wait(1, Rig::take_one).is_none() {
            work();
        }
    }
}

/// Processes messages that it already has, with a call for each. The calls find their answer at
/// once and never wait. Ends after two messages, but does not depend on them.
fn worker(rig: &Rig) {
    let mut taken = 0;
    while taken < 2 {
        let found = rig.wait(u64::MAX, |inbox| Some(Rig::take_one(inbox)));
        taken += u32::from(found == Some(Some(())));
        work_for_short();
    }
}

/// Waits for two messages in quick succession, so that the background thread is displaced.
fn waits_and_then(rig: &Rig, goes_on: fn(&Rig)) {
    waiter(rig);
    goes_on(rig);
}

#[test]
fn shuttle_a_program_that_polls_gets_what_arrives() {
    explore_in_time(&[|rig| waits_and_then(rig, poller)], |rig| send(rig, 4));
}

#[test]
fn shuttle_busy_program_gets_the_arriving_data() {
    explore_in_time(&[|rig| waits_and_then(rig, worker)], |rig| send(rig, 4));
}

#[test]
fn shuttle_programs_that_poll_work_and_wait_share_a_connection() {
    explore_in_time(&[poller, worker, waiter, task], |rig| send(rig, 8));
}

#[test]
fn shuttle_a_lost_connection_is_dialled_again_while_a_program_polls() {
    fn polls_for_the_second_connection(rig: &Rig) {
        waiter(rig);
        while rig
            .wait(1, |inbox| (inbox.connections >= 2).then_some(()))
            .is_none()
        {
            work_for_short();
        }
        poller(rig);
    }
    explore_in_time(&[polls_for_the_second_connection], |rig| {
        rig.wait_as_task(|inbox| (inbox.connections >= 1).then_some(()));
        send(rig, 2);
        rig.socket.change(|state| state.closed = true);
        rig.wait_as_task(|inbox| (inbox.connections >= 2).then_some(()));
        send(rig, 2);
    });
}

/// The model detects a defect in which calls that do not drive count as driving.
#[test]
#[should_panic(expected = "exceeded max_steps bound")]
fn shuttle_a_role_that_counts_calls_starves_the_connection() {
    fn counted(rig: &Rig) {
        let taken = |state: &mut State<Inbox>| {
            state.last_driven = state.time().0;
            match Rig::take_one(&mut state.data) {
                Some(()) => Check::Done(true),
                None => Check::Done(false),
            }
        };
        waiter(rig);
        while rig.role.wait(rig.role.lock(), taken, |guard, _| guard, rig) != Some(true) {
            work_for_short();
        }
    }
    explore_in_time(&[counted], |rig| send(rig, 3));
}
