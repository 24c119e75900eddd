//! Implements a TCP proxy between two endpoints, which simulates network faults.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use crate::rig::{TEST_TIMEOUT, address};

/// Length of a frame's header, in bytes.
const HEADER: usize = 16;

/// The direction of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the dialling end to the dialled end.
    Out,
    /// From the dialled end to the dialling end.
    Back,
}

/// The action that the proxy takes on a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameAction {
    Forward,
    /// The frame and its connection are dropped; dials fail until [`Proxy::up`].
    Outage,
    /// The frame is forwarded, and the connection ends after it.
    CutAfter,
}

/// Inspects each frame, which it may change, and returns its treatment.
pub type Hook = Box<dyn FnMut(Direction, &mut Vec<u8>) -> FrameAction + Send>;

pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
    hook: Mutex<Option<Hook>>,
}

#[derive(Default)]
pub struct State {
    /// Connections that were accepted and forwarded.
    pub connections: u64,
    /// Bytes forwarded, in both directions.
    pub bytes: u64,
    /// Frames forwarded, by kind.
    pub frames: Vec<u64>,
    /// Cut after this number of bytes.
    cut_at: Option<u64>,
    /// Frames of these kinds are held back.
    held: Vec<u8>,
    is_down: bool,
    is_over: bool,
    cuts: u64,
    live: Vec<TcpStream>,
    /// Connections that existed before this number of cuts stall until the proxy ends.
    frozen_before: u64,
    frozen: Vec<TcpStream>,
}

impl State {
    /// Number of cuts so far.
    pub fn cuts(&self) -> u64 {
        self.cuts
    }
}

impl Proxy {
    /// Creates a proxy to `target`, which may start to listen later.
    pub fn to(target: SocketAddr) -> Self {
        let address = address();
        let listener = TcpListener::bind(address).unwrap();
        let shared = Arc::new(Shared {
            target,
            state: Mutex::new(State {
                frames: vec![0; 256],
                ..State::default()
            }),
            changed: Condvar::new(),
            hook: Mutex::new(None),
        });
        let in_thread = shared.clone();
        thread::spawn(move || in_thread.accept(&listener));
        Self { shared, address }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the existing connections. New ones are possible at once.
    pub fn cut(&self) {
        self.shared.cut(&mut self.shared.lock());
    }

    /// Like [`cut`](Self::cut), but after this number of further bytes, usually within a frame.
    pub fn cut_after(&self, bytes: u64) {
        let mut state = self.shared.lock();
        state.cut_at = Some(state.bytes + bytes);
    }

    /// Ends the connections, and rejects new ones until [`up`](Self::up).
    pub fn down(&self) {
        let mut state = self.shared.lock();
        state.is_down = true;
        self.shared.cut(&mut state);
    }

    pub fn up(&self) {
        self.shared.lock().is_down = false;
    }

    /// Stalls the existing connections silently, as if the peer's machine had failed. New connections
    /// work.
    pub fn freeze(&self) {
        let state = &mut *self.shared.lock();
        state.frozen.append(&mut state.live);
        state.cuts += 1;
        state.frozen_before = state.cuts;
        self.shared.changed.notify_all();
    }

    /// Holds back frames of these kinds from now on, and the frames after them.
    pub fn hold(&self, kinds: &[u8]) {
        self.shared.lock().held = kinds.to_vec();
        self.shared.changed.notify_all();
    }

    /// Closes the connections for writing only. Both ends read the end of the data, but can still send.
    pub fn half_close(&self) {
        for socket in &self.shared.lock().live {
            let _ = socket.shutdown(Shutdown::Write);
        }
    }

    /// Passes each frame to `hook` from now on.
    pub fn hook(&self, hook: impl FnMut(Direction, &mut Vec<u8>) -> FrameAction + Send + 'static) {
        *self.shared.hook.lock().unwrap() = Some(Box::new(hook));
    }

    pub fn unhook(&self) {
        *self.shared.hook.lock().unwrap() = None;
    }

    /// Waits until the state fulfils a condition.
    pub fn wait(&self, condition: &str, mut is_met: impl FnMut(&State) -> bool) {
        let state = self.shared.lock();
        let waited = self
            .shared
            .changed
            .wait_timeout_while(state, TEST_TIMEOUT, |state| !is_met(state));
        let is_over = waited.unwrap().1.timed_out();
        assert!(!is_over, "{condition} did not happen");
    }

    pub fn with_state<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.shared.lock())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_over = true;
        let frozen = std::mem::take(&mut state.frozen);
        state.live.extend(frozen);
        self.shared.cut(&mut state);
        drop(state);
        // This connection makes the accepting thread end.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn cut(&self, state: &mut State) {
        for socket in state.live.drain(..) {
            // A connection that has ended by itself is ignored.
            let _ = socket.shutdown(Shutdown::Both);
        }
        state.cuts += 1;
        state.cut_at = None;
        self.changed.notify_all();
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for near in listener.incoming() {
            let Ok(near) = near else { return };
            let mut state = self.lock();
            if state.is_over {
                return;
            }
            if state.is_down {
                continue;
            }
            let Ok(far) = TcpStream::connect(self.target) else {
                continue;
            };
            state.connections += 1;
            let life = state.cuts;
            for (from, to, direction) in [
                (&near, &far, Direction::Out),
                (&far, &near, Direction::Back),
            ] {
                from.set_nodelay(true).unwrap();
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                state.live.push(from.try_clone().unwrap());
                let shared = self.clone();
                thread::spawn(move || {
                    shared.pump(from, &to, direction, life);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
            self.changed.notify_all();
        }
    }

    fn pump(
        &self,
        mut from: TcpStream,
        mut to: &TcpStream,
        direction: Direction,
        life: u64,
    ) -> Option<()> {
        loop {
            let mut frame = vec![0; HEADER];
            from.read_exact(&mut frame).ok()?;
            let length = u32::from_le_bytes(frame[..4].try_into().unwrap());
            frame.resize(HEADER + length as usize, 0);
            from.read_exact(&mut frame[HEADER..]).ok()?;
            let kind = frame[4];
            let state = self.lock();
            let waits = |state: &mut State| match life < state.frozen_before {
                true => !state.is_over,
                false => state.held.contains(&kind) && state.cuts == life,
            };
            let state = self.changed.wait_while(state, waits).unwrap();
            if state.cuts != life {
                return None;
            }
            drop(state);
            let action = match &mut *self.hook.lock().unwrap() {
                Some(hook) => hook(direction, &mut frame),
                None => FrameAction::Forward,
            };
            let mut state = self.lock();
            if action == FrameAction::Outage {
                state.is_down = true;
                self.cut(&mut state);
                return None;
            }
            let room = state.cut_at.map(|index| index.saturating_sub(state.bytes));
            let len = room.map_or(frame.len(), |room| frame.len().min(room as usize));
            drop(state);
            to.write_all(&frame[..len]).ok()?;
            let mut state = self.lock();
            if state.cuts != life {
                return None;
            }
            state.bytes += len as u64;
            state.frames[kind as usize] += u64::from(len == frame.len());
            let is_cut = state.cut_at.is_some_and(|index| index <= state.bytes);
            if is_cut || action == FrameAction::CutAfter {
                self.cut(&mut state);
                return None;
            }
            self.changed.notify_all();
        }
    }
}
