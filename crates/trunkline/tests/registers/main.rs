//! Registers as in LabMap: by number, with callbacks, overrun counts and catch-all, and the newest
//! value of writes that are faster than sending. Over TCP and over a pipe in memory.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod calls;
#[path = "../device/mod.rs"]
mod device;
mod newest;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use device::Device;
use trunkline::proto::FaultCode;
use trunkline::types::{
    Access, Contract, DataType, LibraryDefinition, Properties, Reading, Value, VariableDefinition,
};
use trunkline::{
    Client, Engine, EngineOptions, Event, OpenOptions, SubscribeOptions, VariableRef, Write,
    WriteOutcome,
};

/// Limit that only a hanging test reaches.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One register of each of LabMap's types, and a second whole number, numbered from 20.
fn registers() -> LibraryDefinition {
    let types = [
        ("count", DataType::I32),
        ("speed", DataType::F32),
        ("text", DataType::String),
        ("other", DataType::I32),
    ];
    let variables = types
        .into_iter()
        .zip(20..)
        .map(|((path, data_type), number)| {
            let mut properties = Properties::new(data_type);
            properties.number = Some(number);
            VariableDefinition {
                path: path.to_owned(),
                properties: Arc::new(properties),
            }
        });
    LibraryDefinition {
        name: "log".to_owned(),
        description: String::new(),
        variables: variables.collect(),
    }
}

fn engine(write_credit: (u32, u32)) -> Engine {
    let options = EngineOptions {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        write_credit,
        ..EngineOptions::default()
    };
    let engine = Engine::start(options).unwrap();
    engine.deploy(&registers()).unwrap();
    engine
}

/// Clients of the engine, one over each transport.
fn clients(engine: &Engine) -> [Client; 2] {
    let url = format!("tl://{}", engine.local_addrs()[0]);
    [Client::connect(&url).unwrap(), engine.client().unwrap()]
}

fn open(client: &Client, name: &str) -> VariableRef {
    let opened = client.open(&[name], OpenOptions::default(), TIMEOUT);
    opened.unwrap().remove(0).unwrap().variable
}

fn write(client: &Client, write: Write) -> WriteOutcome {
    client.write([write], TIMEOUT).unwrap().remove(0)
}

fn set(client: &Client, register: VariableRef, value: Value) {
    let outcome = write(client, Write::set(register, value));
    assert!(matches!(outcome, WriteOutcome::Applied(_)), "{outcome:?}");
}

/// Calls with readings of registers that had a value.
fn calls(
    client: &Client,
    names: &[&str],
    contract: Contract,
    options: SubscribeOptions,
) -> (trunkline::Callbacks, Receiver<(u32, Reading)>) {
    let (sender, receiver) = channel();
    let call = move |event| tell(&sender, event);
    let calls = client.on_change(names, contract, options, call).unwrap();
    (calls, receiver)
}

fn tell(sender: &Sender<(u32, Reading)>, event: Event) {
    if let Event::Reading { item, reading } = event
        && reading.position.sequence > 0
    {
        // The test may have received enough.
        let _enough = sender.send((item, reading));
    }
}

fn catch_all() -> SubscribeOptions {
    SubscribeOptions::default()
}

fn only_changes() -> SubscribeOptions {
    SubscribeOptions {
        only_changes: true,
        ..SubscribeOptions::default()
    }
}

/// Behaviour: LM-01, LM-02.
#[test]
fn registers_have_a_type_a_value_a_timestamp_a_number_and_a_name() {
    let engine = engine(EngineOptions::default().write_credit);
    for client in clients(&engine) {
        for (number, name, value) in [
            (":/20", "log/count", Value::I32(-7)),
            (":/21", "log/speed", Value::F32(2.5)),
            (":/22", "log/text", Value::String("ready".into())),
        ] {
            let register = open(&client, number);
            set(&client, register, value.clone());
            let by_name = open(&client, name);
            let read = client.read(&[register, by_name], TIMEOUT).unwrap();
            let [by_number, by_name] = &read[..] else {
                panic!("two readings");
            };
            assert_eq!(by_number, by_name);
            let sample = &by_number.as_ref().unwrap().sample;
            assert_eq!(sample.value, value);
            assert!(sample.source_timestamp.as_nanos() > 0);
        }
        let wrong = client.open(&[":/99"], OpenOptions::default(), TIMEOUT);
        let fault = wrong.unwrap().remove(0).unwrap_err();
        assert_eq!(fault.code, FaultCode::UnknownName);
    }
}

/// Behaviour: LM-10.
#[test]
fn register_status_shows_its_use_and_a_deleted_one_is_gone() {
    let engine = engine(EngineOptions::default().write_credit);
    let [client, other] = clients(&engine);
    let count = open(&client, ":/20");
    let status = || client.info(&[count], TIMEOUT).unwrap().remove(0).unwrap();
    assert_eq!(status().subscribers, 0);
    let in_use = other
        .subscribe(&[":/20"], Contract::Latest, catch_all())
        .unwrap();
    in_use.next(Some(TIMEOUT)).expect("its first event");
    while status().subscribers == 0 {
        in_use.next(Some(TIMEOUT)).expect("until it is open");
    }
    let properties = status().properties;
    assert_eq!(
        (properties.data_type, properties.number),
        (DataType::I32, Some(20))
    );
    assert_eq!(properties.access, Access::ReadWrite);
    engine.undeploy("log").unwrap();
    let read = client.read(&[count], TIMEOUT).unwrap().remove(0);
    assert!(read.is_err(), "{read:?}");
    let gone = loop {
        match in_use.next(Some(TIMEOUT)).expect("it is told") {
            Event::Reading { .. } | Event::Connected { .. } => {}
            other => break other,
        }
    };
    assert!(matches!(gone, Event::Ended { item: 0, .. }), "{gone:?}");
}

/// Behaviour: LM-13, LM-19.
#[test]
fn send_calls_back_for_the_set_value_and_for_the_returned_one() {
    let engine = engine(EngineOptions::default().write_credit);
    let device = Device::default();
    device.bench().raw = 12.0;
    let hour = Some(Duration::from_secs(3600));
    let server = Box::new(device.clone());
    engine.attach_io("dev", server, hour, true).unwrap();
    let here = engine.variable::<f64>("loop/level").unwrap();
    let mut first = here.subscribe(Contract::Latest).unwrap();
    while first.next(Some(TIMEOUT)).unwrap().sample.value != Value::F64(50.0) {}
    for (client, percent, raw) in clients(&engine)
        .into_iter()
        .zip([(25.0, 8.0), (75.0, 16.0)])
        .map(|(client, (percent, raw))| (client, percent, raw))
    {
        let level = open(&client, "loop/level");
        let (_calls, told) = calls(&client, &["loop/level"], Contract::ALL, catch_all());
        told.recv_timeout(TIMEOUT).expect("the value there is");
        set(&client, level, Value::F64(percent));
        assert_ne!(device.bench().raw, raw, "a set starts nothing");
        let sent = write(&client, Write::send(level));
        assert!(matches!(sent, WriteOutcome::Applied(_)), "{sent:?}");
        assert_eq!(device.bench().raw, raw);
        let [at_set, at_send] = [(); 2].map(|()| told.recv_timeout(TIMEOUT).expect("a call").1);
        assert_eq!(
            at_set.sample.value, at_send.sample.value,
            "the same value twice"
        );
        assert!(at_set.position.sequence < at_send.position.sequence);
        assert!(at_set.own);
        assert_eq!(here.read().unwrap().value, percent, "for everybody");
    }
}

/// Behaviour: LM-24.
#[test]
fn any_number_of_programs_uses_the_same_register() {
    let engine = engine(EngineOptions::default().write_credit);
    let url = format!("tl://{}", engine.local_addrs()[0]);
    let programs: Vec<Client> = (0..20).map(|_| Client::connect(&url).unwrap()).collect();
    std::thread::scope(|scope| {
        for (client, number) in programs.iter().zip(1..) {
            scope.spawn(move || {
                let (_calls, told) = calls(client, &[":/23"], Contract::Latest, catch_all());
                set(client, open(client, ":/23"), Value::I32(number));
                told.recv_timeout(TIMEOUT).expect("a call");
            });
        }
    });
    let other = open(&programs[0], ":/23");
    let info = programs[0]
        .info(&[other], TIMEOUT)
        .unwrap()
        .remove(0)
        .unwrap();
    assert_eq!(
        info.write_ledger.written, 20,
        "all of them, one after the other"
    );
}
