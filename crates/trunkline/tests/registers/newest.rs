//! Writes that are faster than the connection: the queue contains the number of the register.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use trunkline::Write;
use trunkline::io::{Health, IoError, IoServer, ItemId, Scan, SendRefusal};
use trunkline::types::{LibraryDefinition, Tick, Timestamp, Value};

use crate::device::Device;
use crate::{TIMEOUT, clients, engine, open};

/// A slow device: it reports its values, and waits until it may continue.
struct SlowDevice {
    device: Device,
    got: Sender<f64>,
    may_go_on: Receiver<()>,
}

/// Behaviour: LM-20, LM-21.
#[test]
fn newest_value_is_sent_when_setting_is_faster_than_sending() {
    // One unanswered write at a time, as on a slow line.
    let (credit, (got, has_got), (go_on, may_go_on)) = ((1, 1 << 20), channel(), channel());
    let engine = engine(credit);
    let hour = Some(Duration::from_secs(3600));
    let device = Device::default();
    let slow = SlowDevice {
        device,
        got,
        may_go_on,
    };
    engine.attach_io("dev", Box::new(slow), hour, true).unwrap();
    for client in clients(&engine) {
        let level = open(&client, "loop/level");
        let newest = |value: f64| Write::newest(level, Value::F64(value));
        let before = client
            .info(&[level], TIMEOUT)
            .unwrap()
            .remove(0)
            .unwrap()
            .write_ledger;
        client
            .write_untracked([newest(0.0)], Duration::from_secs(60))
            .unwrap();
        assert_eq!(has_got.recv_timeout(TIMEOUT), Ok(4.0));
        // The connection is busy. Only the number of the register is queued.
        for value in 1..=50 {
            client
                .write_untracked([newest(f64::from(value))], Duration::from_secs(60))
                .unwrap();
        }
        let counts = client.write_counts();
        assert_eq!((counts.waiting, counts.superseded), (1, 49));
        go_on.send(()).unwrap();
        assert_eq!(
            has_got.recv_timeout(TIMEOUT),
            Ok(12.0),
            "50 % and nothing before it"
        );
        go_on.send(()).unwrap();
        let counts = client.flush(TIMEOUT).unwrap();
        assert_eq!((counts.issued, counts.superseded), (51, 49));
        let after = client
            .info(&[level], TIMEOUT)
            .unwrap()
            .remove(0)
            .unwrap()
            .write_ledger;
        assert_eq!(
            after.superseded - before.superseded,
            49,
            "the engine's ledger has them"
        );
        assert!(after.is_balanced(), "{after:?}");
    }
}

impl IoServer for SlowDevice {
    fn libraries(&self, name: &str) -> Vec<LibraryDefinition> {
        self.device.libraries(name)
    }
    fn item(&self, item: &str) -> Option<ItemId> {
        self.device.item(item)
    }
    fn open(&mut self, _: Tick, _: Timestamp) -> Result<(), IoError> {
        Ok(())
    }
    fn scan(&mut self, _: Tick, _: Timestamp, _: &mut Scan) -> Result<(), IoError> {
        Ok(())
    }
    fn request(&mut self, _: ItemId, _: Tick, _: Timestamp, _: &mut Scan) -> Result<(), IoError> {
        Ok(())
    }
    fn send(
        &mut self,
        _: ItemId,
        value: &Value,
        _: Tick,
        _: Timestamp,
    ) -> Result<Value, SendRefusal> {
        self.got
            .send(value.as_f64().expect("a number"))
            .expect("the test listens");
        self.may_go_on.recv().expect("the test lets it");
        Ok(value.clone())
    }
    fn health(&self) -> Health {
        Health::default()
    }
    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }
}
