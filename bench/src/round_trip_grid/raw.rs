//! W1 over a plain socket: records of index, length and value; one call per direction.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Instant;

use super::{Grid, Kind, Registers};
use crate::Outcome;
use crate::raw::{Inbox, accept_one, connect, field};

/// Bytes before the value: index and length, four bytes each.
const HEADER: usize = 8;
const INBOX: usize = 1 << 18;

/// The far end: returns all complete records of one receive in one call.
pub fn echo() -> Outcome<()> {
    let mut stream = accept_one()?;
    let mut inbox = Inbox::new(INBOX);
    let mut back = Vec::with_capacity(INBOX);
    while inbox.receive(&mut stream)? {
        back.clear();
        while let Some(length) = record(inbox.waiting()) {
            back.extend_from_slice(&inbox.waiting()[..length]);
            inbox.take(length);
        }
        stream.write_all(&back)?;
    }
    Ok(())
}

/// Returns the length of the first record if it is complete.
fn record(bytes: &[u8]) -> Option<usize> {
    let length = HEADER
        + if bytes.len() < HEADER {
            0
        } else {
            field::u32(bytes, 4) as usize
        };
    (bytes.len() >= length).then_some(length)
}

#[derive(Debug)]
pub struct Near {
    stream: TcpStream,
    grid: Grid,
    value: Vec<u8>,
    outbox: Vec<u8>,
    inbox: Inbox,
}

impl Near {
    pub fn connect(address: &str, grid: Grid) -> Outcome<Self> {
        let stream = connect(address)?;
        // The echo loses nothing: this timeout only ends a run with a stuck far end.
        stream.set_read_timeout(Some(grid.period))?;
        let inbox = Inbox::new(INBOX);
        Ok(Self {
            stream,
            grid,
            value: Vec::new(),
            outbox: Vec::new(),
            inbox,
        })
    }
}

impl Registers for Near {
    fn prepare(&mut self, tick: u32) {
        self.value = match self.grid.kind {
            Kind::I32 => (tick as i32).to_le_bytes().to_vec(),
            Kind::F32 => (tick as f32).to_le_bytes().to_vec(),
            Kind::String16 => Kind::string_of(tick).into_bytes(),
        };
    }

    fn send(&mut self) -> Outcome<()> {
        self.outbox.clear();
        for index in 0..self.grid.variables as u32 {
            self.outbox.extend_from_slice(&index.to_le_bytes());
            self.outbox
                .extend_from_slice(&(self.value.len() as u32).to_le_bytes());
            self.outbox.extend_from_slice(&self.value);
        }
        Ok(self.stream.write_all(&self.outbox)?)
    }

    fn receive(&mut self, _: Instant, notice: &mut dyn FnMut(usize, u32)) -> Outcome<()> {
        match self.inbox.receive(&mut self.stream) {
            Ok(true) => {}
            Ok(false) => return Err("the far end has closed".into()),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(e) => return Err(e.into()),
        }
        while let Some(length) = record(self.inbox.waiting()) {
            let bytes = &self.inbox.waiting()[..length];
            notice(
                field::u32(bytes, 0) as usize,
                tick_of(self.grid.kind, &bytes[HEADER..])?,
            );
            self.inbox.take(length);
        }
        Ok(())
    }
}

fn tick_of(kind: Kind, value: &[u8]) -> Outcome<u32> {
    Ok(match kind {
        Kind::I32 => field::u32(value, 0),
        Kind::F32 => f32::from_bits(field::u32(value, 0)) as u32,
        Kind::String16 => std::str::from_utf8(value)?.parse()?,
    })
}
