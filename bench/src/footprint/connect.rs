//! The first full set: a client connects, subscribes `latest` to all variables by name, and
//! receives a reading of each.
//!
//! Raw does the same over a plain socket, with the same names and records of 24 bytes:
//!
//! ```text
//! name    length u16 | bytes
//! record  variable u32 | quality u32 | timestamp i64 | value f64
//! ```

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

use trunkline::types::{Contract, Value};
use trunkline::{Client, Event, SubscribeOptions, Subscription};

use super::{NAME_BYTES, name};
use crate::Outcome;
use crate::cells::{RAW, TRUNKLINE};
use crate::raw::{connect, field};
use crate::record::Row;
use crate::role::{Role, say};
use crate::settings::Settings;
use crate::statistics::median;
use crate::trunkline_calls::PATIENCE;
use crate::usage::{Usage, process_cpu_ns};

const RECORD: usize = 24;
const NAME_RECORD: usize = 2 + NAME_BYTES;
/// Maximum number of readings taken at once.
const AT_ONCE: usize = 4096;

/// Counts the first reading of each variable; a variable's value is its index.
#[derive(Debug)]
pub struct FirstSet {
    seen: Vec<bool>,
    missing: usize,
    /// Readings with a wrong value, and repeated ones.
    pub wrong: u64,
}

impl FirstSet {
    pub fn new(variables: usize) -> Self {
        Self {
            seen: vec![false; variables],
            missing: variables,
            wrong: 0,
        }
    }

    /// Returns true if every variable has been read.
    pub fn is_full(&self) -> bool {
        self.missing == 0
    }

    pub fn take(&mut self, variable: usize, value: f64) {
        match self.seen.get_mut(variable) {
            Some(seen) if !*seen && value == variable as f64 => {
                *seen = true;
                self.missing -= 1;
            }
            _ => self.wrong += 1,
        }
    }
}

/// Subscribes and waits for the full set.
pub fn subscribe(client: &Client, names: &[String], set: &mut FirstSet) -> Outcome<Subscription> {
    let subscription = client.subscribe(names, Contract::Latest, SubscribeOptions::default())?;
    while !set.is_full() {
        let events = subscription.next_many(AT_ONCE, Some(PATIENCE));
        if events.is_empty() {
            return Err(format!("no reading came; {} are missing", set.missing).into());
        }
        for event in events {
            match event {
                Event::Reading { item, reading } => match reading.sample.value {
                    Value::F64(value) => set.take(item as usize, value),
                    other => return Err(format!("a value of another type: {other:?}").into()),
                },
                Event::Connected { .. } => {}
                other => return Err(format!("instead of a reading: {other:?}").into()),
            }
        }
    }
    Ok(subscription)
}

/// Repeats it with new connections; the row has the medians.
pub fn measure(system: &str, variables: usize, passes: usize, row: &mut Row) -> Outcome<()> {
    let role = match system {
        RAW => "footprint-raw",
        TRUNKLINE => "footprint-engine",
        _ => return Err(format!("there is no system {system}").into()),
    };
    let mut far = Role::start(role, &Settings::default().with("vars", variables))?;
    let address = far.expect("LISTENING")?;
    let names: Vec<String> = (0..variables).map(name).collect();
    let (mut elapsed, mut near_cpu, mut far_cpu) = (Vec::new(), Vec::new(), Vec::new());
    let mut wrong = 0;
    // The first pass is not counted: caches are cold and memory is untouched.
    for pass in 0..=passes {
        let mut set = FirstSet::new(variables);
        // Asking for the usage of the other end costs time here, so it is not part of the measured
        // time.
        let far_before = Usage::of(far.pid())?;
        let near_before = process_cpu_ns();
        let start = Instant::now();
        let ends: Box<dyn std::any::Any> = if system == RAW {
            Box::new(raw_near(&address, &names, &mut set)?)
        } else {
            let client = Client::connect(&address)?;
            client.wait_connected(PATIENCE)?;
            let subscription = subscribe(&client, &names, &mut set)?;
            Box::new((client, subscription))
        };
        let time = start.elapsed();
        let near_ns = process_cpu_ns() - near_before;
        let far = Usage::of(far.pid())? - far_before;
        // Closing is not measured.
        drop(ends);
        wrong += set.wrong;
        if pass > 0 {
            elapsed.push(time.as_secs_f64() * 1e3);
            near_cpu.push(near_ns as f64 * 1e-6);
            far_cpu.push(far.cpu_ns as f64 * 1e-6);
        }
    }
    row.figure("elapsed_ms", median(&elapsed).unwrap_or(0.0));
    row.figure("near_cpu_ms", median(&near_cpu).unwrap_or(0.0));
    row.figure("far_cpu_ms", median(&far_cpu).unwrap_or(0.0));
    row.figure("passes", passes as f64);
    row.require(wrong == 0, || format!("{wrong} readings were wrong"));
    Ok(())
}

fn raw_near(address: &str, names: &[String], set: &mut FirstSet) -> Outcome<TcpStream> {
    let mut stream = connect(address)?;
    let mut request = Vec::with_capacity(names.len() * NAME_RECORD);
    for name in names {
        request.extend_from_slice(&(name.len() as u16).to_le_bytes());
        request.extend_from_slice(name.as_bytes());
    }
    stream.write_all(&request)?;
    let mut answer = vec![0; names.len() * RECORD];
    stream.read_exact(&mut answer)?;
    for record in answer.chunks_exact(RECORD) {
        set.take(field::u32(record, 0) as usize, field::f64(record, 16));
    }
    if !set.is_full() {
        return Err("the first set is not full".into());
    }
    Ok(stream)
}

/// The far end of raw: for each connection, takes the names and answers with a record of each.
pub fn serve_raw(variables: usize) -> Outcome<()> {
    let names: Vec<String> = (0..variables).map(name).collect();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(&format!("LISTENING {}", listener.local_addr()?));
    let mut request = vec![0; variables * NAME_RECORD];
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.read_exact(&mut request)?;
        let mut answer = Vec::with_capacity(variables * RECORD);
        for (index, asked) in request.chunks_exact(NAME_RECORD).enumerate() {
            if asked[2..] != *names[index].as_bytes() {
                return Err("a name that nobody has".into());
            }
            let mut record = [0; RECORD];
            record[..4].copy_from_slice(&(index as u32).to_le_bytes());
            record[16..].copy_from_slice(&(index as f64).to_le_bytes());
            answer.extend_from_slice(&record);
        }
        stream.write_all(&answer)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_is_complete_when_every_variable_arrived_once() {
        let mut sut = FirstSet::new(2);
        sut.take(1, 1.0);
        sut.take(1, 1.0);
        sut.take(0, 5.0);
        assert!(!sut.is_full());
        sut.take(0, 0.0);
        assert!(sut.is_full());
        assert_eq!(sut.wrong, 2);
    }
}
