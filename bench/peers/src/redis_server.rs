//! Redis: `PUBLISH` in pipelines of at most 256 commands, `SUBSCRIBE` by name; `SET` and `GET`, and
//! `MSET` and `MGET` for many at once. Nothing is stored on disk.

use redis::{Connection, Pipeline};
use trunkline_bench::Outcome;
use trunkline_bench::call_cost::{VARIABLES, Variables};
use trunkline_bench::footprint::connect::FirstSet;

use crate::bus::{Ends, Put, Side, Take, Taking};

/// Commands per pipeline.
const PIPELINE: usize = 256;
/// Names per command.
const AT_ONCE: usize = 10_000;

struct Publisher {
    connection: Connection,
    pipeline: Pipeline,
    waiting: usize,
    names: Vec<String>,
}

struct Subscriber {
    connection: Connection,
    names: Vec<String>,
    prefix: usize,
}

pub fn connect(port: u16) -> Outcome<Connection> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"))?;
    Ok(client.get_connection()?)
}

impl Put for Publisher {
    fn put(&mut self, variable: usize, value: &[u8]) -> Outcome<()> {
        self.pipeline.publish(&self.names[variable], value).ignore();
        self.waiting += 1;
        if self.waiting >= PIPELINE {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Outcome<()> {
        if self.waiting > 0 {
            self.pipeline.query::<()>(&mut self.connection)?;
            self.pipeline.clear();
            self.waiting = 0;
        }
        Ok(())
    }
}

impl Take for Subscriber {
    fn run(mut self: Box<Self>, taking: Taking<'_>) -> Outcome<()> {
        let mut subscription = self.connection.as_pubsub();
        for names in self.names.chunks(PIPELINE) {
            subscription.subscribe(names)?;
        }
        loop {
            let message = subscription.get_message()?;
            let variable = message.get_channel_name()[self.prefix..].parse()?;
            if !taking(variable, message.get_payload_bytes()) {
                return Ok(());
            }
        }
    }
}

pub fn open(side: &Side) -> Outcome<Ends> {
    let names = |space: crate::bus::Space| -> Vec<String> {
        (0..space.count)
            .map(|index| format!("{}:{index}", space.name))
            .collect()
    };
    let put = Publisher {
        connection: connect(side.port)?,
        pipeline: Pipeline::new(),
        waiting: 0,
        names: names(side.put),
    };
    let take = Subscriber {
        connection: connect(side.port)?,
        names: names(side.take),
        prefix: side.take.name.len() + 1,
    };
    Ok(Ends {
        put: Box::new(put),
        take: Box::new(take),
        windowed: true,
    })
}

/// W2's near end.
pub struct Keys {
    connection: Connection,
    names: Vec<String>,
}

impl Keys {
    pub fn connect(port: u16) -> Outcome<Self> {
        let names = (0..VARIABLES).map(|index| format!("ch:{index}")).collect();
        Ok(Self {
            connection: connect(port)?,
            names,
        })
    }
}

impl Variables for Keys {
    fn put(&mut self, variable: usize, value: f64) -> Outcome<()> {
        let mut command = redis::cmd("SET");
        command.arg(&self.names[variable]).arg(&value.to_le_bytes());
        Ok(command.query(&mut self.connection)?)
    }

    fn get(&mut self, variable: usize) -> Outcome<f64> {
        let bytes: Vec<u8> = redis::cmd("GET")
            .arg(&self.names[variable])
            .query(&mut self.connection)?;
        crate::call_cost::number(&bytes)
    }

    fn put_all(&mut self, first: u64, count: usize) -> Outcome<()> {
        let mut command = redis::cmd("MSET");
        for index in 0..count {
            let value = (first + index as u64) as f64;
            command
                .arg(&self.names[index % VARIABLES])
                .arg(&value.to_le_bytes());
        }
        Ok(command.query(&mut self.connection)?)
    }

    fn get_all(&mut self, count: usize, values: &mut Vec<f64>) -> Outcome<()> {
        let mut command = redis::cmd("MGET");
        for index in 0..count {
            command.arg(&self.names[index % VARIABLES]);
        }
        let got: Vec<Vec<u8>> = command.query(&mut self.connection)?;
        values.clear();
        for bytes in got {
            values.push(crate::call_cost::number(&bytes)?);
        }
        Ok(())
    }
}

/// W8: the value of each variable is its index.
pub fn fill(port: u16, names: &[String]) -> Outcome<()> {
    let mut connection = connect(port)?;
    for (chunk, names) in names.chunks(AT_ONCE).enumerate() {
        let mut command = redis::cmd("MSET");
        for (at, name) in names.iter().enumerate() {
            command
                .arg(name)
                .arg(&((chunk * AT_ONCE + at) as f64).to_le_bytes());
        }
        command.query::<()>(&mut connection)?;
    }
    Ok(())
}

/// W8: subscribes by name, then reads the values.
pub fn first_set(
    port: u16,
    names: &[String],
    set: &mut FirstSet,
) -> Outcome<Box<dyn std::any::Any>> {
    let (mut subscribed, mut reading) = (connect(port)?, connect(port)?);
    let mut subscription = subscribed.as_pubsub();
    for names in names.chunks(AT_ONCE) {
        subscription.subscribe(names)?;
    }
    drop(subscription);
    for (chunk, names) in names.chunks(AT_ONCE).enumerate() {
        let got: Vec<Vec<u8>> = redis::cmd("MGET").arg(names).query(&mut reading)?;
        for (at, bytes) in got.iter().enumerate() {
            set.take(chunk * AT_ONCE + at, crate::call_cost::number(bytes)?);
        }
    }
    Ok(Box::new((subscribed, reading)))
}
