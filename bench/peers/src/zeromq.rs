//! ZeroMQ: `PUSH` and `PULL` for streams; `XPUB` and `SUB` with a prefix per variable, which block
//! when a queue is full; `DEALER` and `ROUTER` for calls. A new subscription receives the last
//! value, as the ZeroMQ guide proposes for last-value caches.

use trunkline_bench::Outcome;
use trunkline_bench::call_cost::{VARIABLES, Variables};
use trunkline_bench::footprint::connect::FirstSet;
use trunkline_bench::role::say;
use zmq::{Context, Message, Socket, SocketType};

use crate::bus::{Ends, Put, Side, Take, Taking};

/// Limit of queued messages at either end.
const QUEUE: i32 = 10_000;
const GET: u8 = 2;
const PUT: u8 = 1;
const PUT_UNANSWERED: u8 = 3;

struct Publisher {
    socket: Socket,
    message: Vec<u8>,
}

struct Subscriber {
    socket: Socket,
}

impl Put for Publisher {
    fn put(&mut self, variable: usize, value: &[u8]) -> Outcome<()> {
        self.message.clear();
        self.message
            .extend_from_slice(&(variable as u32).to_be_bytes());
        self.message.extend_from_slice(value);
        Ok(self.socket.send(&self.message[..], 0)?)
    }
}

impl Take for Subscriber {
    fn run(self: Box<Self>, taking: Taking<'_>) -> Outcome<()> {
        let mut message = Message::new();
        loop {
            self.socket.recv(&mut message, 0)?;
            if !taking(variable_of(&message)?, &message[4..]) {
                return Ok(());
            }
        }
    }
}

fn variable_of(message: &[u8]) -> Outcome<usize> {
    let bytes = message.get(..4).ok_or("a message without a variable")?;
    Ok(u32::from_be_bytes(bytes.try_into()?) as usize)
}

/// A full queue blocks the publisher; the crate has no setter for it.
fn nodrop(socket: &mut Socket) -> Outcome<()> {
    let on: i32 = 1;
    let option = zmq_sys::ZMQ_XPUB_NODROP as i32;
    // SAFETY: the socket is open, and the option is an `int`, whose address and size these are.
    let result = unsafe {
        zmq_sys::zmq_setsockopt(
            socket.as_mut_ptr(),
            option,
            (&raw const on).cast(),
            size_of::<i32>(),
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err("the socket may not be told to block".into())
    }
}

pub fn open(side: &Side) -> Outcome<Ends> {
    let context = Context::new();
    let mut publishing = context.socket(SocketType::XPUB)?;
    let subscribed = context.socket(SocketType::SUB)?;
    publishing.set_linger(2000)?;
    nodrop(&mut publishing)?;
    publishing.set_sndhwm(QUEUE)?;
    subscribed.set_rcvhwm(QUEUE)?;
    // Subscriptions are messages too: beyond this limit they would be dropped.
    subscribed.set_sndhwm(0)?;
    for variable in 0..side.take.count {
        subscribed.set_subscribe(&(variable as u32).to_be_bytes())?;
    }
    let near = format!("tcp://127.0.0.1:{}", side.port);
    let far = format!("tcp://127.0.0.1:{}", side.port + 1);
    if side.listen {
        publishing.bind(&near)?;
        subscribed.bind(&far)?;
    } else {
        subscribed.connect(&near)?;
        publishing.connect(&far)?;
    }
    let put = Publisher {
        socket: publishing,
        message: Vec::new(),
    };
    Ok(Ends {
        put: Box::new(put),
        take: Box::new(Subscriber { socket: subscribed }),
        windowed: false,
    })
}

struct Pushing(Socket);

impl Put for Pushing {
    fn put(&mut self, _: usize, value: &[u8]) -> Outcome<()> {
        Ok(self.0.send(value, 0)?)
    }

    fn put_owned(&mut self, _: usize, value: Vec<u8>) -> Outcome<()> {
        Ok(self.0.send(Message::from(value), 0)?)
    }
}

struct Pulling(Socket);

impl Take for Pulling {
    fn run(self: Box<Self>, taking: Taking<'_>) -> Outcome<()> {
        let mut message = Message::new();
        loop {
            self.0.recv(&mut message, 0)?;
            if !taking(0, &message) {
                return Ok(());
            }
        }
    }
}

/// W3, W4: a pipeline per direction, with this limit of queued messages at either end.
pub fn open_pipes(side: &Side, queue: usize) -> Outcome<Ends> {
    let context = Context::new();
    let pushing = context.socket(SocketType::PUSH)?;
    let pulling = context.socket(SocketType::PULL)?;
    let queue = i32::try_from(queue)?;
    pushing.set_sndhwm(queue)?;
    pulling.set_rcvhwm(queue)?;
    let near = format!("tcp://127.0.0.1:{}", side.port);
    let far = format!("tcp://127.0.0.1:{}", side.port + 1);
    if side.listen {
        pushing.bind(&near)?;
        pulling.bind(&far)?;
    } else {
        pulling.connect(&near)?;
        pushing.connect(&far)?;
    }
    Ok(Ends {
        put: Box::new(Pushing(pushing)),
        take: Box::new(Pulling(pulling)),
        windowed: false,
    })
}

/// W2's far end.
pub fn serve(port: u16) -> Outcome<()> {
    let socket = Context::new().socket(SocketType::ROUTER)?;
    socket.set_sndhwm(0)?;
    socket.set_rcvhwm(0)?;
    socket.bind(&format!("tcp://127.0.0.1:{port}"))?;
    say("LISTENING");
    let mut held = vec![0f64.to_le_bytes().to_vec(); VARIABLES];
    loop {
        let mut parts = socket.recv_multipart(0)?;
        let request = parts.pop().ok_or("a request without content")?;
        let variable = variable_of(&request[1..])?;
        if request[0] == GET {
            parts.push(held[variable].clone());
        } else {
            held[variable] = request[5..].to_vec();
            if request[0] == PUT_UNANSWERED {
                continue;
            }
            parts.push(vec![0]);
        }
        socket.send_multipart(parts, 0)?;
    }
}

/// W2's near end.
pub struct Calls {
    socket: Socket,
}

impl Calls {
    pub fn connect(port: u16) -> Outcome<Self> {
        let socket = Context::new().socket(SocketType::DEALER)?;
        socket.set_sndhwm(0)?;
        socket.set_rcvhwm(0)?;
        socket.connect(&format!("tcp://127.0.0.1:{port}"))?;
        Ok(Self { socket })
    }

    fn send(&self, op: u8, variable: usize, value: f64) -> Outcome<()> {
        let mut request = [0; 13];
        request[0] = op;
        request[1..5].copy_from_slice(&(variable as u32).to_be_bytes());
        request[5..].copy_from_slice(&value.to_le_bytes());
        Ok(self.socket.send(&request[..], 0)?)
    }
}

impl Variables for Calls {
    fn put(&mut self, variable: usize, value: f64) -> Outcome<()> {
        self.send(PUT, variable, value)?;
        self.socket.recv_bytes(0)?;
        Ok(())
    }

    fn get(&mut self, variable: usize) -> Outcome<f64> {
        self.send(GET, variable, 0.0)?;
        crate::call_cost::number(&self.socket.recv_bytes(0)?)
    }

    fn put_all(&mut self, first: u64, count: usize) -> Outcome<()> {
        for index in 0..count {
            let op = if index + 1 == count {
                PUT
            } else {
                PUT_UNANSWERED
            };
            self.send(op, index % VARIABLES, (first + index as u64) as f64)?;
        }
        self.socket.recv_bytes(0)?;
        Ok(())
    }

    fn get_all(&mut self, count: usize, values: &mut Vec<f64>) -> Outcome<()> {
        for index in 0..count {
            self.send(GET, index % VARIABLES, 0.0)?;
        }
        values.clear();
        for _ in 0..count {
            values.push(crate::call_cost::number(&self.socket.recv_bytes(0)?)?);
        }
        Ok(())
    }
}

/// W8's far end: each new subscriber receives the last value of its variable.
pub fn serve_last_values(port: u16) -> Outcome<()> {
    let mut socket = Context::new().socket(SocketType::XPUB)?;
    socket.set_sndhwm(0)?;
    socket.set_rcvhwm(0)?;
    nodrop(&mut socket)?;
    socket.set_xpub_verbose(true)?;
    socket.bind(&format!("tcp://127.0.0.1:{port}"))?;
    say("LISTENING");
    loop {
        let message = socket.recv_bytes(0)?;
        if message.first() == Some(&1) {
            let index = crate::footprint::index_of(std::str::from_utf8(&message[1..])?)?;
            let mut answer = message[1..].to_vec();
            answer.extend_from_slice(&(index as f64).to_le_bytes());
            socket.send(answer, 0)?;
        }
    }
}

/// W8: subscribes by name.
pub fn first_set(
    port: u16,
    names: &[String],
    set: &mut FirstSet,
) -> Outcome<Box<dyn std::any::Any>> {
    let socket = Context::new().socket(SocketType::SUB)?;
    socket.set_rcvhwm(0)?;
    // Subscriptions are messages too: beyond this limit they would be dropped.
    socket.set_sndhwm(0)?;
    socket.connect(&format!("tcp://127.0.0.1:{port}"))?;
    for name in names {
        socket.set_subscribe(name.as_bytes())?;
    }
    while !set.is_full() {
        let message = socket.recv_bytes(0)?;
        let (name, value) = message.split_at(message.len() - 8);
        set.take(
            crate::footprint::index_of(std::str::from_utf8(name)?)?,
            crate::call_cost::number(value)?,
        );
    }
    Ok(Box::new(socket))
}
