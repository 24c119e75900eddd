//! One small interface over every system that publishes: numbered variables in a name space, put on
//! one side, given to a function on the other.

use trunkline_bench::Outcome;

/// Publishes.
pub trait Put: Send {
    /// Publishes a value of a variable, or adds it to a batch.
    fn put(&mut self, variable: usize, value: &[u8]) -> Outcome<()>;

    /// Publishes one that the system may keep, where it can without a copy.
    fn put_owned(&mut self, variable: usize, value: Vec<u8>) -> Outcome<()> {
        self.put(variable, &value)
    }

    /// Hands everything put so far to the system.
    fn flush(&mut self) -> Outcome<()> {
        Ok(())
    }
}

/// Gets variable and value; `false` ends the subscription.
pub type Taking<'a> = &'a mut (dyn FnMut(usize, &[u8]) -> bool + Send);

/// Subscribes.
pub trait Take: Send {
    /// Subscribes, and gives every value until the function has had enough.
    fn run(self: Box<Self>, taking: Taking<'_>) -> Outcome<()>;
}

/// What one process has of a connection.
pub struct Ends {
    pub put: Box<dyn Put>,
    pub take: Box<dyn Take>,
    /// It may drop, or queue without end, when the subscriber is slower: the loop has to hold the
    /// writer back by acknowledgements, the least that makes it lossless.
    pub windowed: bool,
}

/// What one process puts and takes: `space` and numbers below `count`.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub put: Space,
    pub take: Space,
    /// Listens; the other side connects. Systems with a server ignore it.
    pub listen: bool,
    /// The port of the server, or of the side that listens.
    pub port: u16,
}

/// Names of variables.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    pub name: &'static str,
    pub count: usize,
}

impl Space {
    pub fn new(name: &'static str, count: usize) -> Self {
        Self { name, count }
    }
}

/// Opens one side of a system.
pub fn open(system: &str, side: &Side) -> Outcome<Ends> {
    match system {
        "redis" => crate::redis_server::open(side),
        "mosquitto" => crate::mosquitto::open(side),
        "nats" => crate::nats::open(side),
        "zenoh" => crate::zenoh_peer::open(side, false),
        "zenoh-express" => crate::zenoh_peer::open(side, true),
        "zeromq" => crate::zeromq::open(side),
        _ => Err(format!("there is no system {system}").into()),
    }
}
