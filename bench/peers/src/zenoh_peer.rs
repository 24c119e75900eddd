//! Zenoh: two peers over TCP, without router or scouting. Publishers and subscribers are declared;
//! nothing is dropped on congestion. `zenoh-express` does not delay sending to batch.

use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use trunkline_bench::Outcome;
use trunkline_bench::call_cost::{VARIABLES, Variables};
use trunkline_bench::footprint::connect::FirstSet;
use trunkline_bench::role::{say, wait_for_end};
use zenoh::Wait;
use zenoh::pubsub::Publisher;
use zenoh::qos::CongestionControl;
use zenoh::query::Querier;

use crate::bus::{Ends, Put, Side, Take, Taking};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

pub fn session(listen: bool, port: u16) -> Outcome<zenoh::Session> {
    let mut config = zenoh::Config::default();
    let endpoint = format!("[\"tcp/127.0.0.1:{port}\"]");
    let mut set = |key: &str, value: &str| {
        config
            .insert_json5(key, value)
            .map_err(|error| error.to_string())
    };
    set("mode", "\"peer\"")?;
    set("scouting/multicast/enabled", "false")?;
    set("scouting/gossip/enabled", "false")?;
    if listen {
        set("listen/endpoints", &endpoint)?;
    } else {
        set("listen/endpoints", "[]")?;
        set("connect/endpoints", &endpoint)?;
        set("connect/timeout_ms", "5000")?;
    }
    zenoh::open(config)
        .wait()
        .map_err(|error| error.to_string().into())
}

struct Declared {
    _session: zenoh::Session,
    publishers: Vec<Publisher<'static>>,
}

struct Subscriber {
    session: zenoh::Session,
    space: &'static str,
    count: usize,
}

impl Put for Declared {
    fn put(&mut self, variable: usize, value: &[u8]) -> Outcome<()> {
        Ok(self.publishers[variable]
            .put(value)
            .wait()
            .map_err(|error| error.to_string())?)
    }

    fn put_owned(&mut self, variable: usize, value: Vec<u8>) -> Outcome<()> {
        let putting = self.publishers[variable].put(value);
        Ok(putting.wait().map_err(|error| error.to_string())?)
    }
}

/// A function that takes values until it returns `false`.
type Function = &'static mut (dyn FnMut(usize, &[u8]) -> bool + Send);

/// State shared by the callbacks of all subscribers, and whether they continue.
struct Shared {
    taking: Mutex<Option<Function>>,
    ended: Condvar,
}

impl Take for Subscriber {
    fn run(self: Box<Self>, taking: Taking<'_>) -> Outcome<()> {
        // SAFETY: the callbacks reach it through `Shared` alone, from where it is taken before this
        // function returns, under the lock that each of its calls holds.
        let taking: Function = unsafe { std::mem::transmute(taking) };
        let shared = Arc::new(Shared {
            taking: Mutex::new(Some(taking)),
            ended: Condvar::new(),
        });
        let mut subscribers = Vec::with_capacity(self.count);
        for variable in 0..self.count {
            let shared = Arc::clone(&shared);
            let callback = move |sample: zenoh::sample::Sample| {
                let mut taking = shared.taking.lock().expect("no callback panics");
                let goes_on = match taking.as_mut() {
                    Some(taking) => taking(variable, &sample.payload().to_bytes()),
                    None => return,
                };
                if !goes_on {
                    *taking = None;
                    shared.ended.notify_all();
                }
            };
            let key = format!("{}/{variable}", self.space);
            let declaring = self.session.declare_subscriber(key).callback(callback);
            subscribers.push(declaring.wait().map_err(|error| error.to_string())?);
        }
        let mut taking = shared.taking.lock().expect("no callback panics");
        while taking.is_some() {
            taking = shared.ended.wait(taking).expect("no callback panics");
        }
        Ok(())
    }
}

pub fn open(side: &Side, express: bool) -> Outcome<Ends> {
    let session = session(side.listen, side.port)?;
    let mut publishers = Vec::with_capacity(side.put.count);
    for variable in 0..side.put.count {
        let declaring = session
            .declare_publisher(format!("{}/{variable}", side.put.name))
            .congestion_control(CongestionControl::Block)
            .express(express);
        publishers.push(declaring.wait().map_err(|error| error.to_string())?);
    }
    let put = Declared {
        _session: session.clone(),
        publishers,
    };
    let take = Subscriber {
        session,
        space: side.take.name,
        count: side.take.count,
    };
    Ok(Ends {
        put: Box::new(put),
        take: Box::new(take),
        windowed: false,
    })
}

/// The far end of W2 and W8: takes puts, and answers queries with its values.
pub fn serve(port: u16, names: Vec<String>) -> Outcome<()> {
    let session = session(true, port)?;
    let held: Vec<Vec<u8>> = (0..names.len())
        .map(|index| (index as f64).to_le_bytes().to_vec())
        .collect();
    let held = Arc::new(Mutex::new(held));
    let puts = Arc::clone(&held);
    let answering = session.declare_queryable("ch/**").callback(move |query| {
        let mut held = held.lock().expect("no callback panics");
        let key = query.key_expr().as_str();
        // Each key names one variable; a wildcard matches all of them.
        if let Ok(variable) = crate::footprint::index_of(key) {
            if let Some(value) = query.payload() {
                held[variable] = value.to_bytes().to_vec();
            }
            let _ = query.reply(key, held[variable].clone()).wait();
        } else {
            for (name, value) in names.iter().zip(held.iter()) {
                let _ = query.reply(name, value.clone()).wait();
            }
        }
    });
    let _queryable = answering.wait().map_err(|error| error.to_string())?;
    let taking = session.declare_subscriber("put/*").callback(move |sample| {
        if let Ok(variable) = crate::footprint::index_of(sample.key_expr().as_str()) {
            puts.lock().expect("no callback panics")[variable] =
                sample.payload().to_bytes().to_vec();
        }
    });
    let _subscriber = taking.wait().map_err(|error| error.to_string())?;
    say("LISTENING");
    wait_for_end();
    Ok(())
}

/// W2's near end.
pub struct Queries {
    _session: zenoh::Session,
    at_once: Vec<Querier<'static>>,
    batched: Vec<Querier<'static>>,
    publishers: Vec<Publisher<'static>>,
}

impl Queries {
    pub fn connect(port: u16) -> Outcome<Self> {
        let session = session(false, port)?;
        let (mut at_once, mut batched, mut publishers) = (Vec::new(), Vec::new(), Vec::new());
        let text = |error: zenoh::Error| error.to_string();
        for index in 0..VARIABLES {
            let querier = |express| {
                let declaring = session
                    .declare_querier(format!("ch/{index}"))
                    .express(express);
                declaring
                    .congestion_control(CongestionControl::Block)
                    .wait()
            };
            at_once.push(querier(true).map_err(text)?);
            batched.push(querier(false).map_err(text)?);
            let declaring = session.declare_publisher(format!("put/{index}"));
            let declared = declaring
                .congestion_control(CongestionControl::Block)
                .wait();
            publishers.push(declared.map_err(text)?);
        }
        // Declarations are sent asynchronously.
        std::thread::sleep(Duration::from_millis(500));
        Ok(Self {
            _session: session,
            at_once,
            batched,
            publishers,
        })
    }

    fn ask(&self, variable: usize, value: Option<f64>) -> Outcome<f64> {
        let mut asking = self.at_once[variable].get();
        if let Some(value) = value {
            asking = asking.payload(value.to_le_bytes().to_vec());
        }
        let answers = asking.wait().map_err(|error| error.to_string())?;
        let reply = answers.recv().map_err(|error| error.to_string())?;
        crate::call_cost::number(
            &reply
                .result()
                .map_err(|error| error.to_string())?
                .payload()
                .to_bytes(),
        )
    }
}

impl Variables for Queries {
    fn put(&mut self, variable: usize, value: f64) -> Outcome<()> {
        self.ask(variable, Some(value)).map(drop)
    }

    fn get(&mut self, variable: usize) -> Outcome<f64> {
        self.ask(variable, None)
    }

    /// Publications, followed by a query.
    fn put_all(&mut self, first: u64, count: usize) -> Outcome<()> {
        for index in 0..count - 1 {
            let value = (first + index as u64) as f64;
            let put = self.publishers[index % VARIABLES]
                .put(value.to_le_bytes().to_vec())
                .wait();
            put.map_err(|error| error.to_string())?;
        }
        self.put((count - 1) % VARIABLES, (first + count as u64 - 1) as f64)
    }

    fn get_all(&mut self, count: usize, values: &mut Vec<f64>) -> Outcome<()> {
        let (sender, answers) = channel();
        for index in 0..count {
            let sender = sender.clone();
            let asking = self.batched[index % VARIABLES]
                .get()
                .callback(move |reply| {
                    let value = reply
                        .result()
                        .map(|sample| sample.payload().to_bytes().to_vec());
                    let _ = sender.send((index, value.unwrap_or_default()));
                });
            asking.wait().map_err(|error| error.to_string())?;
        }
        values.clear();
        values.resize(count, f64::NAN);
        for _ in 0..count {
            let (index, bytes) = answers.recv_timeout(PATIENCE)?;
            values[index] = crate::call_cost::number(&bytes)?;
        }
        Ok(())
    }
}

/// W8: subscribes by name, then asks once for all values.
pub fn first_set(
    port: u16,
    names: &[String],
    set: &mut FirstSet,
) -> Outcome<Box<dyn std::any::Any>> {
    let text = |error: zenoh::Error| error.to_string();
    let session = session(false, port)?;
    let mut subscribers = Vec::with_capacity(names.len());
    for name in names {
        let declaring = session.declare_subscriber(name.clone()).callback(|_| {});
        subscribers.push(declaring.wait().map_err(text)?);
    }
    let answers = session
        .get("ch/**")
        .timeout(PATIENCE)
        .with(queue_of(names.len()));
    let answers = answers.wait().map_err(text)?;
    while !set.is_full() {
        let reply = answers.recv().map_err(|error| error.to_string())?;
        let sample = reply.into_result().map_err(|error| error.to_string())?;
        let index = crate::footprint::index_of(sample.key_expr().as_str())?;
        set.take(
            index,
            crate::call_cost::number(&sample.payload().to_bytes())?,
        );
    }
    Ok(Box::new((session, subscribers)))
}

/// The queue has room for all answers.
fn queue_of(answers: usize) -> zenoh::handlers::FifoChannel {
    zenoh::handlers::FifoChannel::new(answers.max(1))
}
