//! A TCP proxy between clients and an engine that can do to connections what networks do. Between
//! the two ends of a stream the client is the one that dials.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use socket2::SockRef;

use crate::last;
use crate::plan::{Fault, Plan, Way};

/// Interval at which an idle pump checks its orders.
const LOOK: Duration = Duration::from_millis(5);

/// Interval of a pump that stalls for good.
const LOOK_STILL: Duration = Duration::from_millis(100);

/// Number of bytes taken at a time, so that a fault in them hits the right one.
const PIECE: usize = 256 << 10;

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// In order, as if either program had closed it.
    Close,
    /// As a firewall does that has dropped its state.
    Reset,
    /// The client's half is closed; the engine may continue.
    HalfClose,
}

/// The orders for connections.
#[derive(Debug, Default)]
struct Orders {
    /// Bytes stay where they are, in these directions.
    silent_to_engine: bool,
    silent_to_client: bool,
    /// Forwarded data waits this long.
    delay: Duration,
    /// Connections made before this number are cut.
    cut_before: u64,
    cut: Option<Cut>,
    /// Number of bytes to clients after which the connection that carries the last of them is cut.
    cut_at: Option<(u64, Cut)>,
    /// Faults at bytes to come.
    plan: Plan,
    /// Connections made before this number stall until they are cut.
    still_before: u64,
    made: u64,
    /// New connections are ended at once.
    is_closed: bool,
    stopped: bool,
}

pub struct Proxy {
    pub address: SocketAddr,
    orders: Arc<Mutex<Orders>>,
}

impl Proxy {
    pub fn start(engine: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let orders = Arc::new(Mutex::new(Orders::default()));
        let in_thread = Arc::clone(&orders);
        std::thread::spawn(move || accept(&listener, engine, &in_thread));
        Self { address, orders }
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        change(&mut lock(&self.orders));
    }

    /// Nothing arrives, silently, in one direction or in both.
    pub fn silence(&self, to_engine: bool, to_client: bool) {
        self.order(|orders| {
            (orders.silent_to_engine, orders.silent_to_client) = (to_engine, to_client);
        });
    }

    pub fn delay(&self, delay: Duration) {
        self.order(|orders| orders.delay = delay);
    }

    /// Ends all existing connections.
    pub fn cut(&self, cut: Cut) {
        self.order(|orders| (orders.cut_before, orders.cut) = (orders.made, Some(cut)));
    }

    /// Ends the connection that carries the `bytes`th byte to a client from now on, after it.
    pub fn cut_at(&self, bytes: u64, cut: Cut) {
        self.order(|orders| orders.cut_at = Some((bytes, cut)));
    }

    /// Follows this plan from now on.
    pub fn follow(&self, plan: Plan) {
        self.order(|orders| orders.plan = plan);
    }

    /// Reads the plan and the faults so far.
    pub fn plan<R>(&self, look: impl FnOnce(&Plan) -> R) -> R {
        look(&lock(&self.orders).plan)
    }

    /// The existing connections silently stall, as if the machine after them had vanished. New ones
    /// work.
    pub fn vanish(&self) {
        self.order(|orders| orders.still_before = orders.made);
    }

    /// Rejects all connections.
    pub fn close_door(&self, is_closed: bool) {
        self.order(|orders| orders.is_closed = is_closed);
    }

    /// Everything is forwarded at once again.
    pub fn heal(&self) {
        self.order(|orders| {
            orders.silence_ends();
            orders.cut_at = None;
        });
    }
}

impl Orders {
    fn silence_ends(&mut self) {
        (self.silent_to_engine, self.silent_to_client) = (false, false);
        self.delay = Duration::ZERO;
    }

    fn is_silent(&self, way: Way) -> bool {
        match way {
            Way::ToEngine => self.silent_to_engine,
            Way::ToClient => self.silent_to_client,
        }
    }

    /// Bytes are about to go: how many of them still do, and how the connection ends after them.
    fn passing(&mut self, way: Way, bytes: &mut [u8]) -> (usize, Option<Cut>) {
        let count = bytes.len();
        match self.plan.pass(way, bytes) {
            Some((before, Fault::Cut(cut))) => return (before, Some(cut)),
            Some((before, Fault::Vanish)) => {
                self.still_before = self.made;
                return (before, None);
            }
            Some((_, Fault::Alter)) | None => {}
        }
        match (way, self.cut_at) {
            (Way::ToClient, Some((left, cut))) if left <= count as u64 => {
                self.cut_at = None;
                (left as usize, Some(cut))
            }
            (Way::ToClient, Some((left, cut))) => {
                self.cut_at = Some((left - count as u64, cut));
                (count, None)
            }
            _ => (count, None),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.order(|orders| orders.stopped = true);
        self.cut(Cut::Reset);
        // The listener's thread checks on a new connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn lock(orders: &Mutex<Orders>) -> std::sync::MutexGuard<'_, Orders> {
    orders.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, engine: SocketAddr, orders: &Arc<Mutex<Orders>>) {
    for client in listener.incoming() {
        let number = {
            let mut orders = lock(orders);
            orders.made += 1;
            if orders.stopped {
                return;
            }
            if orders.is_closed {
                continue;
            }
            orders.made
        };
        // An engine that is down refuses; the client learns it by the close.
        let (Ok(client), Ok(engine)) = (client, TcpStream::connect(engine)) else {
            continue;
        };
        for socket in [&client, &engine] {
            let _ = socket.set_nodelay(true);
            let _ = socket.set_read_timeout(Some(LOOK));
        }
        let (client, engine) = (Arc::new(client), Arc::new(engine));
        let ends = [
            (&client, &engine, Way::ToEngine),
            (&engine, &client, Way::ToClient),
        ];
        for (from, to, way) in ends {
            let pump = Pump {
                from: Arc::clone(from),
                to: Arc::clone(to),
                way,
                number,
                orders: Arc::clone(orders),
            };
            std::thread::spawn(move || pump.run());
        }
    }
}

struct Pump {
    from: Arc<TcpStream>,
    to: Arc<TcpStream>,
    way: Way,
    number: u64,
    orders: Arc<Mutex<Orders>>,
}

impl Pump {
    fn run(self) {
        let mut buffer = vec![0; PIECE];
        loop {
            let (cut, is_still, silent, delay) = {
                let orders = lock(&self.orders);
                let cut = orders.cut.filter(|_| self.number <= orders.cut_before);
                let is_still = self.number <= orders.still_before;
                (cut, is_still, orders.is_silent(self.way), orders.delay)
            };
            if let Some(cut) = cut {
                return self.end(cut);
            }
            if is_still {
                last(LOOK_STILL);
                continue;
            }
            if silent {
                last(LOOK);
                continue;
            }
            let read = (&*self.from).read(&mut buffer);
            if self.number <= lock(&self.orders).still_before {
                // Received bytes, or the end, stay here from the start of reading.
                continue;
            }
            let count = match read {
                Ok(0) => {
                    let _ = self.to.shutdown(Shutdown::Write);
                    return;
                }
                Ok(count) => count,
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    continue;
                }
                Err(_) => return self.end(Cut::Reset),
            };
            if !delay.is_zero() {
                last(delay);
            }
            let (passing, cut) = lock(&self.orders).passing(self.way, &mut buffer[..count]);
            if (&*self.to).write_all(&buffer[..passing]).is_err() {
                return self.end(Cut::Reset);
            }
            if let Some(cut) = cut {
                return self.end(cut);
            }
        }
    }

    fn end(&self, cut: Cut) {
        let both = [&self.from, &self.to];
        match cut {
            Cut::Close => both.map(|socket| drop(socket.shutdown(Shutdown::Both))),
            Cut::Reset => both.map(|socket| {
                let _ = SockRef::from(&**socket).set_linger(Some(Duration::ZERO));
                // The other pump ends by it, and the last one to drop the socket resets it.
                drop(socket.shutdown(Shutdown::Read));
            }),
            Cut::HalfClose if self.way == Way::ToEngine => {
                let _ = self.to.shutdown(Shutdown::Write);
                [(), ()]
            }
            Cut::HalfClose => {
                let _ = self.from.shutdown(Shutdown::Write);
                [(), ()]
            }
        };
    }
}
