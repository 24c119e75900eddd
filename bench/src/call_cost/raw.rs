//! W2 (call cost) over a plain TCP socket: 13-byte requests. Asynchronous requests are sent in one
//! system call.
//!
//! ```text
//! request  op u8 (put, put without answer, get) | variable u32 | value f64
//! answer   put: one byte; get: the value; a batch of puts gets one answer, to its last put
//! ```

use std::io::Write;
use std::net::TcpStream;

use super::{VARIABLES, Variables};
use crate::Outcome;
use crate::raw::{Inbox, accept_one, connect, field};

const PUT: u8 = 1;
const GET: u8 = 2;
const PUT_UNANSWERED: u8 = 3;
const REQUEST: usize = 13;
const INBOX: usize = 1 << 18;

pub fn serve() -> Outcome<()> {
    let mut stream = accept_one()?;
    let mut held = vec![0_f64; VARIABLES];
    let mut inbox = Inbox::new(INBOX);
    let mut answers = Vec::with_capacity(INBOX);
    while inbox.receive(&mut stream)? {
        answers.clear();
        while inbox.waiting().len() >= REQUEST {
            let request = inbox.waiting();
            let variable = field::u32(request, 1) as usize;
            match request[0] {
                GET => answers.extend_from_slice(&held[variable].to_le_bytes()),
                op => {
                    held[variable] = field::f64(request, 5);
                    if op == PUT {
                        answers.push(0);
                    }
                }
            }
            inbox.take(REQUEST);
        }
        if !answers.is_empty() {
            stream.write_all(&answers)?;
        }
    }
    Ok(())
}

#[derive(Debug)]
pub struct Near {
    stream: TcpStream,
    outbox: Vec<u8>,
    inbox: Inbox,
}

impl Near {
    pub fn connect(address: &str) -> Outcome<Self> {
        let stream = connect(address)?;
        Ok(Self {
            stream,
            outbox: Vec::new(),
            inbox: Inbox::new(INBOX),
        })
    }

    fn request(&mut self, op: u8, variable: usize, value: f64) {
        self.outbox.push(op);
        self.outbox
            .extend_from_slice(&(variable as u32).to_le_bytes());
        self.outbox.extend_from_slice(&value.to_le_bytes());
    }

    /// Sends the requests and waits until `bytes` of answers have arrived.
    fn call(&mut self, bytes: usize) -> Outcome<()> {
        self.stream.write_all(&self.outbox)?;
        self.outbox.clear();
        while self.inbox.waiting().len() < bytes {
            if !self.inbox.receive(&mut self.stream)? {
                return Err("the server has closed the connection".into());
            }
        }
        Ok(())
    }
}

impl Variables for Near {
    fn put(&mut self, variable: usize, value: f64) -> Outcome<()> {
        self.request(PUT, variable, value);
        self.call(1)?;
        self.inbox.take(1);
        Ok(())
    }

    fn get(&mut self, variable: usize) -> Outcome<f64> {
        self.request(GET, variable, 0.0);
        self.call(8)?;
        let value = field::f64(self.inbox.waiting(), 0);
        self.inbox.take(8);
        Ok(value)
    }

    fn put_all(&mut self, first: u64, count: usize) -> Outcome<()> {
        for n in 0..count {
            let op = if n + 1 == count { PUT } else { PUT_UNANSWERED };
            self.request(op, n % VARIABLES, (first + n as u64) as f64);
        }
        self.call(1)?;
        self.inbox.take(1);
        Ok(())
    }

    fn get_all(&mut self, count: usize, values: &mut Vec<f64>) -> Outcome<()> {
        for n in 0..count {
            self.request(GET, n % VARIABLES, 0.0);
        }
        self.call(8 * count)?;
        values.clear();
        let answers = &self.inbox.waiting()[..8 * count];
        values.extend(answers.chunks_exact(8).map(|bytes| field::f64(bytes, 0)));
        self.inbox.take(8 * count);
        Ok(())
    }
}
