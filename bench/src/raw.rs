//! The limit: plain sockets with the least code that does the work of the scenario.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;

use crate::Outcome;
use crate::role::say;

/// Listens on a free port, reports it, and accepts one connection.
pub fn accept_one() -> Outcome<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(&format!("LISTENING {}", listener.local_addr()?));
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects to the address that a role has reported.
pub fn connect(address: &str) -> Outcome<TcpStream> {
    let address: SocketAddr = address.parse()?;
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Received bytes that have not been taken yet.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    waiting: Range<usize>,
}

impl Inbox {
    pub fn new(capacity: usize) -> Self {
        Self {
            bytes: vec![0; capacity],
            waiting: 0..0,
        }
    }

    pub fn waiting(&self) -> &[u8] {
        &self.bytes[self.waiting.clone()]
    }

    /// Removes the first `count` bytes.
    pub fn take(&mut self, count: usize) {
        self.waiting.start += count;
    }

    /// Receives once. Returns false if the peer has closed the connection.
    pub fn receive(&mut self, stream: &mut TcpStream) -> std::io::Result<bool> {
        // Only the beginning of a record is left, so this copies a few bytes.
        self.bytes.copy_within(self.waiting.clone(), 0);
        self.waiting = 0..self.waiting.len();
        let count = stream.read(&mut self.bytes[self.waiting.end..])?;
        self.waiting.end += count;
        Ok(count > 0)
    }
}

/// Reads little-endian numbers at fixed offsets.
pub mod field {
    pub fn u32(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(take(bytes, at))
    }

    pub fn i64(bytes: &[u8], at: usize) -> i64 {
        i64::from_le_bytes(take(bytes, at))
    }

    pub fn f64(bytes: &[u8], at: usize) -> f64 {
        f64::from_le_bytes(take(bytes, at))
    }

    fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&bytes[at..at + N]);
        field
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn inbox_keeps_the_beginning_of_a_record() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut near = connect(&listener.local_addr().unwrap().to_string()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut sut = Inbox::new(64);
        near.write_all(&[1, 2, 3]).unwrap();
        assert!(sut.receive(&mut far).unwrap());
        sut.take(2);
        near.write_all(&[4]).unwrap();
        assert!(sut.receive(&mut far).unwrap());
        assert_eq!(sut.waiting(), [3, 4]);
        drop(near);
        assert!(!sut.receive(&mut far).unwrap());
    }

    #[test]
    fn fields_are_little_endian() {
        let bytes = [0, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!((field::u32(&bytes, 0), field::i64(&bytes, 1)), (256, 1));
        assert_eq!(field::f64(&2.5_f64.to_le_bytes(), 0), 2.5);
    }
}
