//! One small interface to all systems that publish: numbered variables in a name space, put at one
//! end, passed to a function at the other.

use trunkline_bench::Outcome;

/// Publishes.
pub trait Put: Send {
    /// Publishes a value of a variable, or adds it to a batch.
    fn put(&mut self, variable: usize, value: &[u8]) -> Outcome<()>;

    /// Publishes a value that the system may keep, without a copy if possible.
    fn put_owned(&mut self, variable: usize, value: Vec<u8>) -> Outcome<()> {
        self.put(variable, &value)
    }

    /// Passes all batched values to the system.
    fn flush(&mut self) -> Outcome<()> {
        Ok(())
    }
}

/// Receives variable and value; returning `false` ends the subscription.
pub type Taking<'a> = &'a mut (dyn FnMut(usize, &[u8]) -> bool + Send);

/// Subscribes.
pub trait Take: Send {
    /// Subscribes and passes on every value until the function returns `false`.
    fn run(self: Box<Self>, taking: Taking<'_>) -> Outcome<()>;
}

/// One end of a connection.
pub struct Ends {
    pub put: Box<dyn Put>,
    pub take: Box<dyn Take>,
    /// True if it may drop or queue without limit when the subscriber is slower. The loop then
    /// throttles the writer with acknowledgements, which make it lossless.
    pub windowed: bool,
}

/// The variables that one process puts and takes: `space` and numbers below `count`.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub put: Space,
    pub take: Space,
    /// True if this end listens and the other one connects. Systems with a server ignore it.
    pub listen: bool,
    /// Port of the server, or of the end that listens.
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

/// Opens one end of a system.
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
