//! MQTT: mosquitto and the client `rumqttc`, without Nagle's algorithm at either end. Updates have
//! quality 0; puts have quality 1 and are done when the server confirms them. Values that are read
//! later are retained; MQTT has no get.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rumqttc::{Client, Connection, Event, MqttOptions, Packet, QoS, SubscribeFilter};
use trunkline_bench::Outcome;
use trunkline_bench::call_cost::{VARIABLES, Variables};
use trunkline_bench::footprint::connect::FirstSet;

use crate::bus::{Ends, Put, Side, Take, Taking};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Topics per subscribe packet.
const AT_ONCE: usize = 1000;

struct Publisher {
    client: Client,
    topics: Vec<String>,
}

struct Subscriber {
    client: Client,
    connection: Connection,
    space: &'static str,
}

fn connect(port: u16) -> (Client, Connection) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let id = format!("peer-{}-{number}", std::process::id());
    let mut options = MqttOptions::new(id, "127.0.0.1", port);
    options.set_max_packet_size(16 << 20, 16 << 20);
    options.set_inflight(1000);
    let (client, mut connection) = Client::new(options, 1024);
    let mut network = rumqttc::NetworkOptions::new();
    network.set_tcp_nodelay(true);
    connection.eventloop.set_network_options(network);
    (client, connection)
}

impl Put for Publisher {
    fn put(&mut self, variable: usize, value: &[u8]) -> Outcome<()> {
        Ok(self
            .client
            .publish(&self.topics[variable], QoS::AtMostOnce, false, value)?)
    }
}

impl Take for Subscriber {
    fn run(mut self: Box<Self>, taking: Taking<'_>) -> Outcome<()> {
        self.client
            .subscribe(format!("{}/+", self.space), QoS::AtMostOnce)?;
        let prefix = self.space.len() + 1;
        for event in self.connection.iter() {
            if let Event::Incoming(Packet::Publish(message)) = event?
                && !taking(message.topic[prefix..].parse()?, &message.payload)
            {
                return Ok(());
            }
        }
        Err("the server has closed".into())
    }
}

pub fn open(side: &Side) -> Outcome<Ends> {
    let (publishing, mut events) = connect(side.port);
    thread::spawn(move || events.iter().take_while(Result::is_ok).count());
    let topics = (0..side.put.count).map(|index| format!("{}/{index}", side.put.name));
    let put = Publisher {
        client: publishing,
        topics: topics.collect(),
    };
    let (client, connection) = connect(side.port);
    let take = Subscriber {
        client,
        connection,
        space: side.take.name,
    };
    Ok(Ends {
        put: Box::new(put),
        take: Box::new(take),
        windowed: true,
    })
}

/// W2's near end.
pub struct Retained {
    client: Client,
    answers: Receiver<()>,
    topics: Vec<String>,
    port: u16,
}

impl Retained {
    pub fn connect(port: u16) -> Self {
        let topics = (0..VARIABLES).map(|index| format!("ch/{index}")).collect();
        let (client, answers) = acknowledged(port);
        Self {
            client,
            answers,
            topics,
            port,
        }
    }

    fn publish(&self, variable: usize, value: f64) -> Outcome<()> {
        let (topic, value) = (&self.topics[variable], value.to_le_bytes());
        Ok(self.client.publish(topic, QoS::AtLeastOnce, true, value)?)
    }
}

/// A client, and a message for each publication that the server has confirmed.
fn acknowledged(port: u16) -> (Client, Receiver<()>) {
    let (client, mut events) = connect(port);
    let (sender, answers) = channel();
    thread::spawn(move || {
        for event in events.iter() {
            match event {
                Ok(Event::Incoming(Packet::PubAck(_))) if sender.send(()).is_err() => return,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    });
    (client, answers)
}

impl Variables for Retained {
    fn put(&mut self, variable: usize, value: f64) -> Outcome<()> {
        self.publish(variable, value)?;
        Ok(self.answers.recv_timeout(PATIENCE)?)
    }

    fn get(&mut self, _: usize) -> Outcome<f64> {
        Err("MQTT has no get".into())
    }

    fn put_all(&mut self, first: u64, count: usize) -> Outcome<()> {
        for index in 0..count {
            self.publish(index % VARIABLES, (first + index as u64) as f64)?;
        }
        for _ in 0..count {
            self.answers.recv_timeout(PATIENCE)?;
        }
        Ok(())
    }

    /// Not measured; checks the put values: a new client receives the retained values.
    fn get_all(&mut self, count: usize, values: &mut Vec<f64>) -> Outcome<()> {
        let (client, mut connection) = connect(self.port);
        client.subscribe("ch/+", QoS::AtMostOnce)?;
        values.clear();
        values.resize(count.min(VARIABLES), f64::NAN);
        let mut missing = values.len();
        for event in connection.iter() {
            if let Event::Incoming(Packet::Publish(message)) = event? {
                let variable: usize = message.topic[3..].parse()?;
                if let Some(value) = values.get_mut(variable) {
                    missing -= usize::from(value.is_nan());
                    *value = crate::call_cost::number(&message.payload)?;
                }
                if missing == 0 {
                    return Ok(());
                }
            }
        }
        Err("not every variable is retained".into())
    }
}

/// W8: the retained value of each variable is its index.
pub fn fill(port: u16, names: &[String]) -> Outcome<()> {
    let (client, answers) = acknowledged(port);
    for (index, name) in names.iter().enumerate() {
        let value = (index as f64).to_le_bytes();
        client.publish(name, QoS::AtLeastOnce, true, value)?;
    }
    for _ in names {
        answers.recv_timeout(PATIENCE)?;
    }
    Ok(())
}

/// W8: subscribes by name; the server sends the retained values.
pub fn first_set(
    port: u16,
    names: &[String],
    set: &mut FirstSet,
) -> Outcome<Box<dyn std::any::Any>> {
    let (client, mut connection) = connect(port);
    let asking = client.clone();
    let names = names.to_vec();
    let asked = thread::spawn(move || {
        names.chunks(AT_ONCE).try_for_each(|names| {
            let filters = names
                .iter()
                .map(|name| SubscribeFilter::new(name.clone(), QoS::AtMostOnce));
            asking.subscribe_many(filters)
        })
    });
    for event in connection.iter() {
        if let Event::Incoming(Packet::Publish(message)) = event? {
            set.take(
                crate::footprint::index_of(&message.topic)?,
                crate::call_cost::number(&message.payload)?,
            );
            if set.is_full() {
                break;
            }
        }
    }
    asked.join().map_err(|_| "subscribing failed")??;
    Ok(Box::new((client, connection)))
}
