//! W5 over a plain socket: packed records of 24 bytes, one clock read per buffer.
//!
//! ```text
//! record  variable u32 | quality u32 | timestamp i64 | value f64
//! ```

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::figures::{Share, Written, enter, take_with, taken_of};
use super::{Stream, Taken, Window};
use crate::Outcome;
use crate::raw::{Inbox, connect, field};
use crate::record::Row;
use crate::role::{Role, say};
use crate::usage::{others_cpu_ns, process_cpu_ns, thread_cpu_ns};

const RECORD: usize = 24;
/// Records per call: 64 KiB.
const BUFFER: usize = (1 << 16) / RECORD;
const INBOX: usize = 1 << 18;
/// Used as a variable: no more records follow.
const END: u32 = u32::MAX;

/// The far end: every subscriber takes every record.
pub fn take_all(stream: Stream) -> Outcome<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(&format!("LISTENING {}", listener.local_addr()?));
    let mut sockets = Vec::new();
    for _ in 0..stream.subscribers {
        sockets.push(Mutex::new(Some(listener.accept()?.0)));
    }
    take_with(stream.subscribers, |number| {
        let socket = sockets[number].lock().ok().and_then(|mut one| one.take());
        let socket = socket.ok_or("a socket that somebody else has")?;
        take_one(stream, socket).map_err(|error| error.to_string())
    })
}

fn take_one(stream: Stream, mut socket: TcpStream) -> Outcome<Share> {
    let mut inbox = Inbox::new(INBOX);
    let mut taken = Taken::new(stream.variables);
    let mut window = None;
    let mut newest = i64::MIN;
    loop {
        if !inbox.receive(&mut socket)? {
            return Err("the writer has closed before its end".into());
        }
        let window = window.get_or_insert_with(|| Window::open(stream.warm_up));
        window.poll(taken.count, process_cpu_ns);
        let whole = inbox.waiting().len() / RECORD * RECORD;
        for record in inbox.waiting()[..whole].chunks_exact(RECORD) {
            let variable = field::u32(record, 0);
            if variable == END {
                let measured = window.close(taken.count, process_cpu_ns());
                return Ok(Share { taken, measured });
            }
            let (quality, timestamp) = (field::u32(record, 4), field::i64(record, 8));
            taken.out_of_order += u64::from(timestamp < newest || quality != 0);
            newest = timestamp;
            taken.take(variable as usize, field::f64(record, 16));
        }
        inbox.take(whole);
    }
}

/// The near end: writes as fast as possible.
pub fn write_all(stream: Stream, row: &mut Row) -> Outcome<()> {
    let mut far = Role::start("updates_to_one-raw", &stream.settings())?;
    let address = far.expect("LISTENING")?;
    let connected = (0..stream.subscribers).map(|_| connect(&address));
    let mut sockets = connected.collect::<Outcome<Vec<_>>>()?;
    let mut window = Window::open(stream.warm_up);
    let mut buffer = Vec::with_capacity(BUFFER * RECORD);
    let (mut count, mut variable, mut value) = (0, 0, 1.0);
    let (mut others, mut in_window) = (0, false);
    loop {
        fill(
            &mut buffer,
            stream.variables as u32,
            &mut variable,
            &mut value,
        );
        for socket in &mut sockets {
            socket.write_all(&buffer)?;
        }
        count += BUFFER as u64;
        let now = window.poll(count, || {
            in_window = true;
            others = others_cpu_ns();
            thread_cpu_ns()
        });
        if in_window && now >= window.end(stream.measured) {
            break;
        }
    }
    let measured = window.close(count, thread_cpu_ns());
    let others = others_cpu_ns().saturating_sub(others);
    let last = Instant::now();
    sockets.iter_mut().try_for_each(end)?;
    let taken = taken_of(&mut far)?;
    let by_writer = measured.ok_or("the measured time never began")?;
    let backlog = last.elapsed();
    enter(
        row,
        &Written {
            subscribers: stream.subscribers,
            count,
            by_writer,
            others_cpu_ns: others,
            backlog,
        },
        &taken,
    )
}

/// Fills the buffer with the next updates of the variables in turn.
fn fill(buffer: &mut Vec<u8>, variables: u32, variable: &mut u32, value: &mut f64) {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let timestamp = since.as_nanos() as i64;
    buffer.clear();
    for _ in 0..BUFFER {
        let mut record = [0; RECORD];
        record[..4].copy_from_slice(&variable.to_le_bytes());
        record[8..16].copy_from_slice(&timestamp.to_le_bytes());
        record[16..].copy_from_slice(&value.to_le_bytes());
        buffer.extend_from_slice(&record);
        *variable += 1;
        if *variable == variables {
            *variable = 0;
            *value += 1.0;
        }
    }
}

fn end(socket: &mut TcpStream) -> Outcome<()> {
    let mut record = [0; RECORD];
    record[..4].copy_from_slice(&END.to_le_bytes());
    Ok(socket.write_all(&record)?)
}
