//! Tests the host server on a scripted machine, and one test on the real machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trunkline_types::{Access, Quality, Reason, Tick, Timestamp, Value};

use super::*;
use crate::{HealthState, Setting};

/// A machine controlled by a test: two processors, one disk, one interface, no sensor.
#[derive(Clone)]
struct Machine(Arc<Mutex<Script>>);

/// The readings that the machine returns.
struct Script {
    inventory: Inventory,
    fast: FastReadings,
    slow: SlowReadings,
    slow_reads: u32,
    opens: Result<(), IoError>,
}

impl HostProbe for Machine {
    fn open(&mut self, _now: Tick) -> Result<(), IoError> {
        self.0.lock().unwrap().opens.clone()
    }

    fn inventory(&mut self) -> Inventory {
        self.0.lock().unwrap().inventory.clone()
    }

    fn read_fast(&mut self, _now: Tick) -> FastReadings {
        self.0.lock().unwrap().fast.clone()
    }

    fn read_slow(&mut self) -> SlowReadings {
        let mut script = self.0.lock().unwrap();
        script.slow_reads += 1;
        script.slow.clone()
    }
}

impl Machine {
    fn new() -> Self {
        let space = Ok(Memory {
            total: 1000,
            available: 250,
        });
        let disk = Disk {
            space,
            read: Ok(5_000),
            written: Ok(100),
            file_system: Ok("ext4".into()),
        };
        let traffic = Traffic {
            received: 100,
            sent: 50,
            receive_errors: 1,
            send_errors: 0,
        };
        Self(Arc::new(Mutex::new(Script {
            inventory: Inventory {
                processors: 2,
                disks: vec!["/".into()],
                interfaces: vec!["eth0".into()],
                sensors: Vec::new(),
            },
            fast: FastReadings {
                total_usage: Ok(25.0),
                usage: Ok(vec![10.0, 40.0]),
                load: Ok([0.5, 0.25, 0.125]),
                memory: Ok(Memory {
                    total: 8000,
                    available: 6000,
                }),
                swap: Ok(Memory {
                    total: 0,
                    available: 0,
                }),
                traffic: BTreeMap::from([("eth0".into(), traffic)]),
                uptime: Ok(Duration::from_secs(99)),
            },
            slow: SlowReadings {
                frequency: Ok(vec![2400.0, 2500.0]),
                disks: BTreeMap::from([("/".into(), disk)]),
                temperatures: BTreeMap::new(),
                processes: Ok(77),
                started: Ok(Timestamp::from_nanos(1_700_000_000_000_000_000)),
                host_name: Ok("press-4".into()),
                system: Ok("Linux (Debian 13)".into()),
                kernel: Ok("6.12".into()),
                architecture: Ok("x86_64".into()),
                model: Err(Reason::NotSupported),
            },
            slow_reads: 0,
            opens: Ok(()),
        })))
    }

    fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.lock().unwrap());
    }
}

struct Rig {
    server: HostServer,
    scan: Scan,
    seconds: u64,
}

impl Rig {
    fn new(machine: &Machine) -> Self {
        let mut server = HostServer::new(Box::new(machine.clone()), Options::default());
        server.open(Tick::ZERO, Timestamp::UNIX_EPOCH).unwrap();
        Self {
            server,
            scan: Scan::new(),
            seconds: 0,
        }
    }

    fn now(&self) -> Tick {
        Tick::from_nanos(self.seconds * 1_000_000_000)
    }

    /// Scans once, one second after the last scan.
    fn scan(&mut self) {
        self.seconds += 1;
        self.scan.clear();
        let now = self.now();
        self.server
            .scan(now, Timestamp::UNIX_EPOCH, &mut self.scan)
            .unwrap();
    }

    /// Returns what the last scan published for a variable; `None` if it published nothing.
    fn published(&self, path: &str) -> Option<(Option<Value>, Quality)> {
        let item = self
            .server
            .item(path)
            .unwrap_or_else(|| panic!("no item {path}"));
        let mut matching = self.scan.iter().filter(|published| published.item == item);
        let published = matching.next()?;
        assert!(matching.next().is_none(), "{path} was published twice");
        Some((published.value.clone(), published.quality))
    }

    fn assert_value(&self, path: &str, value: Value) {
        assert_eq!(
            self.published(path),
            Some((Some(value), Quality::GOOD)),
            "{path}"
        );
    }

    fn assert_bad(&self, path: &str, reason: Reason) {
        assert_eq!(
            self.published(path),
            Some((None, Quality::bad(reason))),
            "{path}"
        );
    }
}

#[test]
fn first_scan_publishes_a_value_or_a_reason_for_every_item() {
    let mut rig = Rig::new(&Machine::new());
    rig.scan();
    assert_eq!(rig.scan.len(), rig.server.variables.len());
    rig.assert_value("cpu/total", Value::F64(25.0));
    rig.assert_value("cpu/0/usage", Value::F64(10.0));
    rig.assert_value("cpu/1/frequency", Value::F64(2500.0));
    rig.assert_value("cpu/count", Value::U32(2));
    rig.assert_value("load/15min", Value::F64(0.125));
    rig.assert_value("memory/total", Value::U64(8000));
    rig.assert_value("memory/used", Value::U64(2000));
    rig.assert_value("memory/available", Value::U64(6000));
    rig.assert_value("memory/used_percent", Value::F64(25.0));
    rig.assert_value("disk/root/total", Value::U64(1000));
    rig.assert_value("disk/root/available", Value::U64(250));
    rig.assert_value("disk/root/used_percent", Value::F64(75.0));
    rig.assert_value("disk/root/file_system", Value::String("ext4".into()));
    rig.assert_value("network/eth0/received", Value::U64(100));
    rig.assert_value("network/eth0/receive_errors", Value::U64(1));
    rig.assert_value("system/processes", Value::U32(77));
    rig.assert_value("system/uptime", Value::F64(99.0));
    rig.assert_value("system/host_name", Value::String("press-4".into()));
    rig.assert_bad("cpu/model", Reason::NotSupported);
    assert_eq!(rig.server.health().state, HealthState::Good);
}

#[test]
fn machine_without_a_sensor_has_an_unsupported_temperature() {
    let mut rig = Rig::new(&Machine::new());
    rig.scan();
    rig.assert_bad("temperature/cpu", Reason::NotSupported);
    let library = &rig.server.libraries("host")[0];
    let cpu = library
        .variables
        .iter()
        .find(|variable| variable.path == "temperature/cpu");
    assert!(
        cpu.unwrap()
            .properties
            .description
            .contains("bad: not-supported")
    );
}

#[test]
fn machine_with_sensors_has_a_temperature_per_sensor_and_processor() {
    let machine = Machine::new();
    machine.change(|script| {
        let sensors = ["Composite", "coretemp Package id 0", "a/b"].map(String::from);
        script.inventory.sensors = sensors.to_vec();
        let found = [Ok(35.5), Ok(61.0), Err(Reason::SensorFailure)];
        script.slow.temperatures = sensors.into_iter().zip(found).collect();
    });
    let mut rig = Rig::new(&machine);
    rig.scan();
    rig.assert_value("temperature/cpu", Value::F64(61.0));
    rig.assert_value("temperature/Composite", Value::F64(35.5));
    rig.assert_value("temperature/coretemp Package id 0", Value::F64(61.0));
    rig.assert_bad("temperature/a%2Fb", Reason::SensorFailure);
    assert_eq!(rig.server.health().state, HealthState::Degraded);
}

#[test]
fn usage_has_no_value_before_two_samples() {
    let machine = Machine::new();
    machine.change(|script| {
        script.fast.total_usage = Err(Reason::NoValue);
        script.fast.usage = Err(Reason::NoValue);
    });
    let mut rig = Rig::new(&machine);
    rig.scan();
    rig.assert_bad("cpu/total", Reason::NoValue);
    rig.assert_bad("cpu/1/usage", Reason::NoValue);
    machine.change(|script| script.fast.total_usage = Ok(12.5));
    rig.scan();
    rig.assert_value("cpu/total", Value::F64(12.5));
    assert_eq!(
        rig.published("cpu/1/usage"),
        None,
        "the quality is unchanged"
    );
}

#[test]
fn missing_swap_has_size_0_and_no_used_share() {
    let mut rig = Rig::new(&Machine::new());
    rig.scan();
    rig.assert_value("swap/total", Value::U64(0));
    rig.assert_bad("swap/used_percent", Reason::NotSupported);
}

#[test]
fn rates_are_the_growth_of_counters_per_second() {
    let machine = Machine::new();
    let mut rig = Rig::new(&machine);
    rig.scan();
    rig.assert_bad("network/eth0/receive_rate", Reason::NoValue);
    rig.assert_bad("disk/root/read_rate", Reason::NoValue);
    let grow = |script: &mut Script, by: u64| {
        script.fast.traffic.get_mut("eth0").unwrap().received += by;
    };
    machine.change(|script| grow(script, 3000));
    rig.scan();
    rig.assert_value("network/eth0/receive_rate", Value::F64(3000.0));
    rig.assert_value("network/eth0/send_rate", Value::F64(0.0));
    machine.change(|script| grow(script, 3000));
    rig.seconds += 2;
    rig.scan();
    rig.assert_value("network/eth0/receive_rate", Value::F64(1000.0));

    // A replaced interface starts to count from 0.
    machine.change(|script| script.fast.traffic.get_mut("eth0").unwrap().received = 10);
    rig.scan();
    rig.assert_bad("network/eth0/receive_rate", Reason::NoValue);
    machine.change(|script| grow(script, 20));
    rig.scan();
    rig.assert_value("network/eth0/receive_rate", Value::F64(20.0));
}

#[test]
fn disks_and_their_rates_are_read_every_five_seconds() {
    let machine = Machine::new();
    let mut rig = Rig::new(&machine);
    rig.scan();
    machine.change(|script| {
        script.slow.disks.get_mut("/").unwrap().read = Ok(10_000);
        script.slow.processes = Ok(78);
    });
    for _ in 0..4 {
        rig.scan();
        assert_eq!(rig.published("disk/root/read_rate"), None);
        assert_eq!(rig.published("system/processes"), None);
    }
    rig.scan();
    rig.assert_value("disk/root/read_rate", Value::F64(1000.0));
    rig.assert_value("system/processes", Value::U32(78));
    assert_eq!(machine.0.lock().unwrap().slow_reads, 2);
}

#[test]
fn vanished_disk_turns_bad_and_recovers() {
    let machine = Machine::new();
    machine.change(|script| {
        script.inventory.disks.push("/data".into());
        let disk = script.slow.disks["/"].clone();
        script.slow.disks.insert("/data".into(), disk);
    });
    let mut rig = Rig::new(&machine);
    rig.scan();
    rig.assert_value("disk/data/total", Value::U64(1000));
    let disk = machine
        .0
        .lock()
        .unwrap()
        .slow
        .disks
        .remove("/data")
        .unwrap();
    rig.seconds += 5;
    rig.scan();
    rig.assert_bad("disk/data/total", Reason::VariableMissing);
    rig.assert_bad("disk/data/read_rate", Reason::VariableMissing);
    rig.assert_value("disk/root/total", Value::U64(1000));
    let health = rig.server.health();
    assert_eq!(health.state, HealthState::Degraded);
    assert!(
        health
            .last_error
            .unwrap()
            .starts_with("disk/data/total can no longer be read")
    );
    machine.change(|script| {
        script.slow.disks.insert("/data".into(), disk);
    });
    rig.seconds += 5;
    rig.scan();
    rig.assert_value("disk/data/total", Value::U64(1000));
    rig.assert_bad("disk/data/read_rate", Reason::NoValue);
    assert_eq!(rig.server.health().state, HealthState::Good);
}

#[test]
fn vanished_interface_turns_bad() {
    let machine = Machine::new();
    let mut rig = Rig::new(&machine);
    rig.scan();
    machine.change(|script| script.fast.traffic.clear());
    rig.scan();
    rig.assert_bad("network/eth0/received", Reason::VariableMissing);
    rig.assert_bad("network/eth0/receive_rate", Reason::VariableMissing);
}

#[test]
fn numbers_are_published_by_every_read_and_text_when_it_changes() {
    let machine = Machine::new();
    let mut rig = Rig::new(&machine);
    rig.scan();
    rig.seconds += 5;
    rig.scan();
    rig.assert_value("memory/total", Value::U64(8000));
    assert_eq!(rig.published("system/host_name"), None);
    assert_eq!(rig.published("temperature/cpu"), None);
    machine.change(|script| script.slow.host_name = Ok("press-5".into()));
    rig.seconds += 5;
    rig.scan();
    rig.assert_value("system/host_name", Value::String("press-5".into()));
}

#[test]
fn request_publishes_only_the_requested_item() {
    let machine = Machine::new();
    let mut rig = Rig::new(&machine);
    rig.scan();
    machine.change(|script| script.slow.processes = Ok(5));
    let item = rig.server.item("system/processes").unwrap();
    rig.scan.clear();
    let now = rig.now();
    rig.server
        .request(item, now, Timestamp::UNIX_EPOCH, &mut rig.scan)
        .unwrap();
    rig.assert_value("system/processes", Value::U32(5));
    assert_eq!(rig.scan.len(), 1);
    let missing = rig
        .server
        .request(ItemId(9_999), now, Timestamp::UNIX_EPOCH, &mut rig.scan);
    assert!(matches!(
        missing,
        Err(IoError::UnknownItem { item: 9_999, .. })
    ));
}

#[test]
fn rate_requested_right_after_a_scan_is_that_of_the_scan() {
    let machine = Machine::new();
    let mut rig = Rig::new(&machine);
    rig.scan();
    machine.change(|script| script.fast.traffic.get_mut("eth0").unwrap().received += 700);
    rig.scan();
    machine.change(|script| script.fast.traffic.get_mut("eth0").unwrap().received += 1);
    let item = rig.server.item("network/eth0/receive_rate").unwrap();
    rig.scan.clear();
    let now = Tick::from_nanos(rig.now().as_nanos() + 1_000_000);
    rig.server
        .request(item, now, Timestamp::UNIX_EPOCH, &mut rig.scan)
        .unwrap();
    rig.assert_value("network/eth0/receive_rate", Value::F64(700.0));
}

#[test]
fn mount_points_become_distinct_segments() {
    let machine = Machine::new();
    let mounts = [
        "/",
        "/root",
        "/boot/efi",
        "/a#b*",
        "/my disk",
        "D:\\",
        "/line\nbreak",
        "root",
    ];
    machine.change(|script| script.inventory.disks = mounts.map(String::from).to_vec());
    let rig = Rig::new(&machine);
    let paths = rig
        .server
        .variables
        .iter()
        .map(|variable| variable.path.as_str());
    let mut disks: Vec<&str> = paths
        .filter_map(|path| path.strip_prefix("disk/")?.strip_suffix("/total"))
        .collect();
    disks.sort_unstable();
    let mut expected = vec![
        "root",
        "%2Froot",
        "boot%2Fefi",
        "a%23b%2A",
        "my disk",
        "D:\\",
        "line_break",
        "root~2",
    ];
    expected.sort_unstable();
    assert_eq!(disks, expected);
}

#[test]
fn all_variables_are_read_only_and_refuse_writes() {
    let mut rig = Rig::new(&Machine::new());
    for variable in &rig.server.libraries("host")[0].variables {
        assert_eq!(
            variable.properties.access,
            Access::ReadOnly,
            "{}",
            variable.path
        );
        let item = rig.server.item(&variable.path).unwrap();
        let refusal = rig
            .server
            .send(item, &Value::F64(1.0), Tick::ZERO, Timestamp::UNIX_EPOCH);
        let sentence = refusal.unwrap_err().to_string();
        assert_eq!(
            sentence,
            format!("{} is an input; it cannot be written", variable.path)
        );
    }
}

#[test]
fn settings_exclude_parts() {
    let mut settings = Settings::new();
    for key in ["disks", "network", "temperatures"] {
        settings.insert(key, Setting::Bool(false));
    }
    let options = Options::from_settings(&settings).unwrap();
    let server = HostServer::new(Box::new(Machine::new()), options);
    let paths: Vec<&str> = server
        .variables
        .iter()
        .map(|variable| &*variable.path)
        .collect();
    assert!(paths.iter().all(|path| {
        !["disk/", "network/", "temperature/"]
            .iter()
            .any(|part| path.starts_with(part))
    }));
    assert!(paths.contains(&"cpu/total"));
}

#[test]
fn machine_that_cannot_be_opened_fails_and_can_be_retried() {
    let machine = Machine::new();
    let error = IoError::DeviceFailed {
        device: "this machine".into(),
        cause: "no /proc".into(),
    };
    machine.change(|script| script.opens = Err(error.clone()));
    let mut server = HostServer::new(Box::new(machine.clone()), Options::default());
    let mut scan = Scan::new();
    assert_eq!(server.health().state, HealthState::Idle);
    assert_eq!(server.open(Tick::ZERO, Timestamp::UNIX_EPOCH), Err(error));
    assert_eq!(server.health().state, HealthState::Failed);
    assert_eq!(
        server.scan(Tick::ZERO, Timestamp::UNIX_EPOCH, &mut scan),
        Err(IoError::NotOpen)
    );
    machine.change(|script| script.opens = Ok(()));
    assert_eq!(server.open(Tick::ZERO, Timestamp::UNIX_EPOCH), Ok(()));
    assert_eq!(
        server.scan(Tick::ZERO, Timestamp::UNIX_EPOCH, &mut scan),
        Ok(())
    );
    assert_eq!(server.health().scans, 1);
    assert_eq!(server.health().errors, 2);
}

#[test]
fn real_machine_returns_values_or_reasons_but_no_false_zeros() {
    let probe = SysinfoProbe::new().unwrap();
    let mut server = HostServer::new(Box::new(probe), Options::default());
    server.open(Tick::ZERO, Timestamp::UNIX_EPOCH).unwrap();
    let mut scan = Scan::new();
    let now = Tick::from_nanos(1_000_000_000);
    server.scan(now, Timestamp::UNIX_EPOCH, &mut scan).unwrap();
    let mut values = BTreeMap::new();
    for published in scan.iter() {
        let path = server.variables[published.item.index()].path.clone();
        assert_eq!(
            published.value.is_none(),
            published.quality.is_bad(),
            "{path}"
        );
        values.insert(path, published.value.clone());
    }
    assert_eq!(values.len(), server.variables.len());
    let positive = [
        "memory/total",
        "system/uptime",
        "cpu/count",
        "system/processes",
    ];
    for path in positive {
        let value = values[path].as_ref().and_then(Value::as_f64);
        assert!(
            value.is_some_and(|value| value > 0.0),
            "{path} is {value:?}"
        );
    }
    for (path, value) in values
        .iter()
        .filter(|(path, _)| path.ends_with("/frequency"))
    {
        assert_ne!(*value, Some(Value::F64(0.0)), "{path}");
    }
}
