//! A device with one item, controlled by a test.

#![allow(dead_code, reason = "each test program uses its own part")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline::io::{Health, IoError, IoServer, ItemId, Scan, SendRefusal};
use trunkline::types::{
    DataType, Level, LibraryDefinition, Properties, Quality, Reading, Reason, Scaling, Tick,
    Timestamp, Value, VariableDefinition,
};

/// The state and the calls of the device; the test accesses it from outside.
#[derive(Debug, Default)]
pub struct Bench {
    /// Raw value of its only item.
    pub raw: f64,
    pub failure: Failure,
    pub requests: usize,
    pub scans: usize,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Failure {
    #[default]
    None,
    /// The device does not answer.
    Unreachable,
    /// The driver panics in a scan.
    Panic,
    /// The driver panics in a write.
    PanicInSend,
}

#[derive(Clone, Debug, Default)]
pub struct Device(Arc<Mutex<Bench>>);

impl Device {
    pub fn bench(&self) -> std::sync::MutexGuard<'_, Bench> {
        self.0.lock().unwrap()
    }

    fn check(&self) -> Result<f64, IoError> {
        let failure = self.bench().failure;
        match failure {
            Failure::None | Failure::PanicInSend => Ok(self.bench().raw),
            Failure::Unreachable => Err(IoError::Unreachable {
                device: "the loop".to_owned(),
                cause: "no answer".to_owned(),
            }),
            Failure::Panic => panic!("a defect, as the test asks for"),
        }
    }

    fn publish(&self, scan: &mut Scan) -> Result<(), IoError> {
        let raw = self.check()?;
        scan.publish(ItemId(0), Value::F64(raw), Quality::GOOD);
        Ok(())
    }
}

impl IoServer for Device {
    fn libraries(&self, name: &str) -> Vec<LibraryDefinition> {
        let mut properties = Properties::new(DataType::F64);
        properties.source = format!("{name}:current");
        properties.scaling = Some(Scaling::Linear {
            raw: [4.0, 20.0],
            eng: [0.0, 100.0],
        });
        vec![LibraryDefinition {
            name: "loop".to_owned(),
            description: String::new(),
            variables: vec![VariableDefinition {
                path: "level".to_owned(),
                properties: Arc::new(properties),
            }],
        }]
    }

    fn item(&self, item: &str) -> Option<ItemId> {
        (item == "current").then_some(ItemId(0))
    }

    fn open(&mut self, _now: Tick, _wall: Timestamp) -> Result<(), IoError> {
        self.check().map(|_| ())
    }

    fn scan(&mut self, _: Tick, _: Timestamp, scan: &mut Scan) -> Result<(), IoError> {
        self.bench().scans += 1;
        self.publish(scan)
    }

    fn request(
        &mut self,
        _item: ItemId,
        _now: Tick,
        _wall: Timestamp,
        scan: &mut Scan,
    ) -> Result<(), IoError> {
        self.bench().requests += 1;
        self.publish(scan)
    }

    fn send(
        &mut self,
        _item: ItemId,
        value: &Value,
        _now: Tick,
        _wall: Timestamp,
    ) -> Result<Value, SendRefusal> {
        let Value::F64(raw) = value else {
            panic!("an item of another type");
        };
        if self.bench().failure == Failure::PanicInSend {
            panic!("a defect, as the test asks for");
        }
        if *raw > 19.0 {
            return Err(SendRefusal::Interlock {
                item: "current".to_owned(),
                rule: "the valve does not open that far".to_owned(),
            });
        }
        // The output of the device has steps of one milliampere.
        self.bench().raw = raw.round();
        Ok(Value::F64(raw.round()))
    }

    fn health(&self) -> Health {
        Health::default()
    }

    fn period(&self) -> Duration {
        Duration::from_millis(2)
    }
}

pub fn has(value: f64) -> impl Fn(&Reading) -> bool {
    move |reading| {
        let quality = reading.sample.quality;
        reading.sample.value == Value::F64(value) && quality.level() == Level::Good
    }
}

pub fn is_bad(reason: Reason) -> impl Fn(&Reading) -> bool {
    move |reading| {
        let quality = reading.sample.quality;
        quality.level() == Level::Bad && quality.reason() == reason
    }
}
