//! NATS: core subjects with the default configuration of the server, `async-nats` with two threads.
//! Its core keeps no last value, so a get is a request to the program that holds it.

use std::sync::OnceLock;

use async_nats::Client;
use futures::{FutureExt, StreamExt};
use tokio::runtime::Runtime;
use trunkline_bench::Outcome;
use trunkline_bench::call_cost::{VARIABLES, Variables};
use trunkline_bench::role::say;

use crate::bus::{Ends, Put, Side, Take, Taking};

pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all();
        builder.build().expect("the system has threads")
    })
}

fn connect(port: u16) -> Outcome<Client> {
    let options = async_nats::ConnectOptions::new()
        .subscription_capacity(1 << 20)
        .client_capacity(1 << 14);
    Ok(runtime().block_on(options.connect(format!("127.0.0.1:{port}")))?)
}

struct Publisher {
    client: Client,
    subjects: Vec<String>,
}

struct Subscriber {
    client: Client,
    space: &'static str,
}

impl Put for Publisher {
    fn put(&mut self, variable: usize, value: &[u8]) -> Outcome<()> {
        let publishing = self
            .client
            .publish(self.subjects[variable].clone(), value.to_vec().into());
        // Ready at once unless the queue of the client is full: a task of the client writes.
        let _guard = runtime().enter();
        match publishing.now_or_never() {
            Some(result) => Ok(result?),
            None => {
                let again = self
                    .client
                    .publish(self.subjects[variable].clone(), value.to_vec().into());
                Ok(runtime().block_on(again)?)
            }
        }
    }
}

impl Take for Subscriber {
    fn run(self: Box<Self>, taking: Taking<'_>) -> Outcome<()> {
        let subject = format!("{}.*", self.space);
        let mut messages = runtime().block_on(self.client.subscribe(subject))?;
        runtime().block_on(self.client.flush())?;
        let prefix = self.space.len() + 1;
        // The function runs outside of the runtime, because it may publish.
        while let Some(message) = runtime().block_on(messages.next()) {
            let mut message = Some(message);
            while let Some(one) = message {
                if !taking(one.subject.as_str()[prefix..].parse()?, &one.payload) {
                    return Ok(());
                }
                message = messages.next().now_or_never().flatten();
            }
        }
        Err("the server has closed".into())
    }
}

pub fn open(side: &Side) -> Outcome<Ends> {
    let client = connect(side.port)?;
    let subjects = (0..side.put.count).map(|index| format!("{}.{index}", side.put.name));
    let put = Publisher {
        client: client.clone(),
        subjects: subjects.collect(),
    };
    let take = Subscriber {
        client,
        space: side.take.name,
    };
    Ok(Ends {
        put: Box::new(put),
        take: Box::new(take),
        windowed: true,
    })
}

/// W2's far end: the program that holds the values.
pub fn serve(port: u16) -> Outcome<()> {
    let client = connect(port)?;
    runtime().block_on(async {
        let mut messages = client.subscribe("ch.*").await?;
        client.flush().await?;
        say("LISTENING");
        let mut held = vec![bytes_of(0.0); VARIABLES];
        while let Some(message) = messages.next().await {
            let variable: usize = message.subject.as_str()[3..].parse()?;
            if !message.payload.is_empty() {
                held[variable] = message.payload.to_vec();
            }
            if let Some(reply) = message.reply {
                client.publish(reply, held[variable].clone().into()).await?;
            }
        }
        Ok(())
    })
}

fn bytes_of(value: f64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// W2's near end.
pub struct Subjects {
    client: Client,
    names: Vec<String>,
}

impl Subjects {
    pub fn connect(port: u16) -> Outcome<Self> {
        let names = (0..VARIABLES).map(|index| format!("ch.{index}")).collect();
        Ok(Self {
            client: connect(port)?,
            names,
        })
    }

    fn request(&self, variable: usize, payload: Vec<u8>) -> Outcome<f64> {
        let request = self
            .client
            .request(self.names[variable].clone(), payload.into());
        crate::call_cost::number(&runtime().block_on(request)?.payload)
    }
}

impl Variables for Subjects {
    fn put(&mut self, variable: usize, value: f64) -> Outcome<()> {
        self.request(variable, bytes_of(value)).map(drop)
    }

    fn get(&mut self, variable: usize) -> Outcome<f64> {
        self.request(variable, Vec::new())
    }

    fn put_all(&mut self, first: u64, count: usize) -> Outcome<()> {
        let value = |index: usize| bytes_of((first + index as u64) as f64);
        runtime().block_on(async {
            for index in 0..count - 1 {
                let subject = self.names[index % VARIABLES].clone();
                self.client.publish(subject, value(index).into()).await?;
            }
            Ok::<(), Box<dyn std::error::Error>>(())
        })?;
        self.request((count - 1) % VARIABLES, value(count - 1))
            .map(drop)
    }

    fn get_all(&mut self, count: usize, values: &mut Vec<f64>) -> Outcome<()> {
        let asked = (0..count).map(|index| {
            self.client
                .request(self.names[index % VARIABLES].clone(), "".into())
        });
        let got = runtime().block_on(futures::future::join_all(asked));
        values.clear();
        for message in got {
            values.push(crate::call_cost::number(&message?.payload)?);
        }
        Ok(())
    }
}
