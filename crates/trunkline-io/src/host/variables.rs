//! Defines the variables of a machine: their names, properties and the origin of their values.

use std::collections::BTreeSet;
use std::sync::Arc;

use trunkline_types::name::escape_segment;
use trunkline_types::text::is_unprintable;
use trunkline_types::{
    Access, DataType, LibraryDefinition, Properties, Reason, Value, VariableDefinition,
};

use super::Options;
use super::probe::{Disk, FastReadings, Found, Inventory, Memory, SlowReadings, Traffic};

/// One variable of the machine.
pub(super) struct Variable {
    pub path: String,
    pub properties: Properties,
    pub reading: Reading,
}

/// Extracts a value from the fast or the slow readings.
pub(super) type ReadFn<S, T> = Box<dyn Fn(&S) -> Found<T> + Send>;

/// Name, description and reader of one variable of a part.
type Part<S, T> = (&'static str, &'static str, fn(&S) -> T);

/// The origin of a variable's value.
pub(super) enum Reading {
    /// A value of the fast readings, which every scan takes.
    Fast(ReadFn<FastReadings, Value>),
    /// A value of the slow readings.
    Slow(ReadFn<SlowReadings, Value>),
    /// Growth per second of a counter in the fast readings.
    FastRate(ReadFn<FastReadings, u64>),
    /// Growth per second of a counter in the slow readings.
    SlowRate(ReadFn<SlowReadings, u64>),
}

/// Returns the library with these variables.
pub(super) fn library(name: &str, variables: &[Variable]) -> LibraryDefinition {
    let definitions = variables.iter().map(|variable| {
        let mut properties = variable.properties.clone();
        properties.source = format!("{name}:{}", variable.path);
        VariableDefinition {
            path: variable.path.clone(),
            properties: Arc::new(properties),
        }
    });
    LibraryDefinition {
        name: name.into(),
        description: "Readings of the machine that the engine runs on".into(),
        variables: definitions.collect(),
    }
}

/// Returns the variables of a machine with these parts.
pub(super) fn variables(inventory: &Inventory, options: Options) -> Vec<Variable> {
    let mut list = List {
        variables: Vec::new(),
    };
    list.processors(inventory.processors);
    list.load();
    list.memory();
    if options.disks {
        list.disks(&inventory.disks);
    }
    if options.network {
        list.network(&inventory.interfaces);
    }
    if options.temperatures {
        list.temperatures(&inventory.sensors);
    }
    list.system();
    list.variables
}

/// Collects the variables of a machine.
struct List {
    variables: Vec<Variable>,
}

impl List {
    fn processors(&mut self, count: usize) {
        let total = fast(|readings| readings.total_usage.map(percent));
        self.add(
            "cpu/total",
            percentage("Busy share of all processors together"),
            total,
        );
        for n in 0..count {
            let usage = fast(move |readings| nth(&readings.usage, n).map(percent));
            self.add(
                format!("cpu/{n}/usage"),
                percentage("Busy share of this processor"),
                usage,
            );
            let frequency = slow(move |readings| nth(&readings.frequency, n).map(Value::F64));
            let description = "Clock frequency of this processor";
            self.add(
                format!("cpu/{n}/frequency"),
                number(description, "MHz", 0),
                frequency,
            );
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let fixed = slow(move |_| Ok(Value::U32(count)));
        self.add(
            "cpu/count",
            integer(DataType::U32, "Logical processors", ""),
            fixed,
        );
        self.add(
            "cpu/model",
            text("Processor model"),
            slow(|s| string(&s.model)),
        );
    }

    fn load(&mut self) {
        for (index, minutes) in ["1", "5", "15"].into_iter().enumerate() {
            let description = format!(
                "Average number of processes that ran or waited to run, over {minutes} min; full \
                 load is the number of processors"
            );
            let load = fast(move |readings| readings.load.map(|load| Value::F64(load[index])));
            self.add(
                format!("load/{minutes}min"),
                number(&description, "", 2),
                load,
            );
        }
    }

    fn memory(&mut self) {
        self.memory_space("memory", "Main memory", |readings| readings.memory);
        self.memory_space("swap", "Swap space", |readings| readings.swap);
    }

    fn memory_space(
        &mut self,
        path: &str,
        name: &str,
        memory_of: fn(&FastReadings) -> Found<Memory>,
    ) {
        let parts: [Part<Memory, u64>; 3] = [
            ("total", "size", |memory| memory.total),
            ("available", "available to programs", |memory| {
                memory.available
            }),
            ("used", "in use", used),
        ];
        for (part, description, read) in parts {
            let reading =
                fast(move |readings| memory_of(readings).map(|memory| Value::U64(read(&memory))));
            let properties = integer(DataType::U64, &format!("{name} {description}"), "B");
            self.add(format!("{path}/{part}"), properties, reading);
        }
        let reading = fast(move |readings| memory_of(readings).and_then(used_fraction));
        let description = format!("{name} in use; bad: not-supported if there is none");
        self.add(
            format!("{path}/used_percent"),
            percentage(&description),
            reading,
        );
    }

    fn disks(&mut self, mounts: &[String]) {
        let mut taken = BTreeSet::new();
        for mount in mounts {
            let folder = format!("disk/{}", disk_segment(mount, &mut taken));
            let parts: [Part<Memory, u64>; 2] = [
                ("total", "Size of", |space| space.total),
                ("available", "Free space of", |space| space.available),
            ];
            for (part, description, read) in parts {
                let reading = disk_reading(mount, move |disk| {
                    disk.space.map(|space| Value::U64(read(&space)))
                });
                let properties = integer(DataType::U64, &format!("{description} {mount}"), "B");
                self.add(format!("{folder}/{part}"), properties, reading);
            }
            let reading = disk_reading(mount, |disk| disk.space.and_then(used_fraction));
            let properties = percentage(&format!("Used share of {mount}"));
            self.add(format!("{folder}/used_percent"), properties, reading);
            let properties = text(&format!("File system of {mount}"));
            let reading = disk_reading(mount, |disk| string(&disk.file_system));
            self.add(format!("{folder}/file_system"), properties, reading);
            let rates: [Part<Disk, Found<u64>>; 2] = [
                ("read_rate", "Read from the device of", |disk| disk.read),
                ("write_rate", "Written to the device of", |disk| {
                    disk.written
                }),
            ];
            for (part, description, read) in rates {
                let key = mount.clone();
                let reading = Reading::SlowRate(Box::new(move |readings| {
                    readings
                        .disks
                        .get(&key)
                        .ok_or(Reason::VariableMissing)
                        .and_then(read)
                }));
                let properties = number(&format!("{description} {mount}"), "B/s", 0);
                self.add(format!("{folder}/{part}"), properties, reading);
            }
        }
    }

    fn network(&mut self, interfaces: &[String]) {
        for interface in interfaces {
            let folder = format!("network/{}", segment(interface));
            let counters: [Part<Traffic, u64>; 4] = [
                ("received", "Bytes received by", |traffic| traffic.received),
                ("sent", "Bytes sent by", |traffic| traffic.sent),
                ("receive_errors", "Failed receptions on", |traffic| {
                    traffic.receive_errors
                }),
                ("send_errors", "Failed transmissions on", |traffic| {
                    traffic.send_errors
                }),
            ];
            for (part, description, read) in counters {
                let key = interface.clone();
                let reading =
                    fast(move |readings| traffic(readings, &key).map(read).map(Value::U64));
                let units = if part.ends_with("errors") { "" } else { "B" };
                let description = format!("{description} {interface} since it appeared");
                let properties = integer(DataType::U64, &description, units);
                self.add(format!("{folder}/{part}"), properties, reading);
            }
            let rates: [Part<Traffic, u64>; 2] = [
                ("receive_rate", "Received by", |traffic| traffic.received),
                ("send_rate", "Sent by", |traffic| traffic.sent),
            ];
            for (part, description, read) in rates {
                let key = interface.clone();
                let reading =
                    Reading::FastRate(Box::new(move |readings| traffic(readings, &key).map(read)));
                let properties = number(&format!("{description} {interface}"), "B/s", 0);
                self.add(format!("{folder}/{part}"), properties, reading);
            }
        }
    }

    /// Adds the temperatures. `temperature/cpu` always exists. It is bad: not-supported if no
    /// sensor measures the processor.
    fn temperatures(&mut self, sensors: &[String]) {
        let processor = sensors.iter().find(|sensor| is_processor(sensor)).cloned();
        let description = "Temperature of the processor; bad: not-supported if the machine \
                           has no sensor for it, as in a virtual machine";
        let reading = slow(move |readings| match &processor {
            None => Err(Reason::NotSupported),
            Some(sensor) => temperature(readings, sensor),
        });
        self.add("temperature/cpu", celsius(description), reading);
        let mut taken = BTreeSet::from(["cpu".to_owned()]);
        for sensor in sensors {
            let path = format!("temperature/{}", unique(segment(sensor), &mut taken));
            let properties = celsius(&format!("Temperature at the sensor {sensor}"));
            let sensor = sensor.clone();
            let reading = slow(move |readings| temperature(readings, &sensor));
            self.add(path, properties, reading);
        }
    }

    fn system(&mut self) {
        let uptime = fast(|readings| readings.uptime.map(|time| Value::F64(time.as_secs_f64())));
        self.add(
            "system/uptime",
            number("Time since the machine started", "s", 0),
            uptime,
        );
        let started = slow(|readings| readings.started.map(Value::Timestamp));
        let properties = read_only(DataType::Timestamp, "Time at which the machine started", "");
        self.add("system/started", properties, started);
        let processes = slow(|readings| readings.processes.map(Value::U32));
        self.add(
            "system/processes",
            integer(DataType::U32, "Number of processes", ""),
            processes,
        );
        let name = slow(|readings| string(&readings.host_name));
        self.add(
            "system/host_name",
            text("Name of the machine in its network"),
            name,
        );
        let os = slow(|readings| string(&readings.system));
        self.add("system/os", text("Operating system and its version"), os);
        let kernel = slow(|readings| string(&readings.kernel));
        self.add("system/kernel", text("Kernel and its version"), kernel);
        let architecture = slow(|readings| string(&readings.architecture));
        self.add(
            "system/architecture",
            text("Processor architecture"),
            architecture,
        );
    }

    fn add(&mut self, path: impl Into<String>, properties: Properties, reading: Reading) {
        self.variables.push(Variable {
            path: path.into(),
            properties,
            reading,
        });
    }
}

fn fast(read: impl Fn(&FastReadings) -> Found<Value> + Send + 'static) -> Reading {
    Reading::Fast(Box::new(read))
}

fn slow(read: impl Fn(&SlowReadings) -> Found<Value> + Send + 'static) -> Reading {
    Reading::Slow(Box::new(read))
}

fn disk_reading(mount: &str, read: impl Fn(&Disk) -> Found<Value> + Send + 'static) -> Reading {
    let mount = mount.to_owned();
    slow(move |readings| {
        readings
            .disks
            .get(&mount)
            .ok_or(Reason::VariableMissing)
            .and_then(&read)
    })
}

fn traffic<'a>(readings: &'a FastReadings, interface: &str) -> Found<&'a Traffic> {
    readings
        .traffic
        .get(interface)
        .ok_or(Reason::VariableMissing)
}

fn temperature(readings: &SlowReadings, sensor: &str) -> Found<Value> {
    let found = readings.temperatures.get(sensor).copied();
    found
        .unwrap_or(Err(Reason::VariableMissing))
        .map(Value::F64)
}

fn nth(values: &Found<Vec<f64>>, n: usize) -> Found<f64> {
    let values = values.as_ref().map_err(|reason| *reason)?;
    values.get(n).copied().ok_or(Reason::VariableMissing)
}

fn string(text: &Found<String>) -> Found<Value> {
    text.as_ref()
        .map(|text| Value::String(text.as_str().into()))
        .map_err(|reason| *reason)
}

/// Limits a percentage to 0..=100, because rounding can put the ratio of counters slightly outside.
fn percent(value: f64) -> Value {
    Value::F64(value.clamp(0.0, 100.0))
}

fn used(memory: &Memory) -> u64 {
    memory.total.saturating_sub(memory.available)
}

fn used_fraction(memory: Memory) -> Found<Value> {
    if memory.total == 0 {
        return Err(Reason::NotSupported);
    }
    Ok(percent(used(&memory) as f64 / memory.total as f64 * 100.0))
}

fn is_processor(sensor: &str) -> bool {
    let sensor = sensor.to_ascii_lowercase();
    PROCESSOR_SENSORS.iter().any(|part| sensor.contains(part))
}

/// Returns the segment of a disk in variable names: `root` for `/`, otherwise the mount point
/// without its first slash, or the whole mount point if that segment is in use.
fn disk_segment(mount: &str, used_segments: &mut BTreeSet<String>) -> String {
    let short = match mount.strip_prefix('/').unwrap_or(mount) {
        "" => "root",
        "root" => mount,
        rest => rest,
    };
    let short = segment(short);
    let name = if used_segments.contains(&short) {
        segment(mount)
    } else {
        short
    };
    unique(name, used_segments)
}

/// Returns `text` as one segment of a name: with control characters replaced, reserved characters
/// escaped, and a limited length.
fn segment(text: &str) -> String {
    let printable = text
        .chars()
        .map(|c| if is_unprintable(c) { '_' } else { c });
    let printable: String = printable.take(SEGMENT_CHARS_MAX).collect();
    let printable = if printable.is_empty() {
        "unnamed".to_owned()
    } else {
        printable
    };
    escape_segment(&printable).into_owned()
}

fn unique(name: String, taken: &mut BTreeSet<String>) -> String {
    let mut candidate = name.clone();
    let mut number = 2;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{name}~{number}");
        number += 1;
    }
    candidate
}

fn read_only(data_type: DataType, description: &str, units: &str) -> Properties {
    let mut properties = Properties::new(data_type);
    properties.description = description.into();
    properties.units = units.into();
    properties.access = Access::ReadOnly;
    properties
}

fn percentage(description: &str) -> Properties {
    let mut properties = number(description, "%", 1);
    properties.range = Some((0.0, 100.0));
    properties
}

fn celsius(description: &str) -> Properties {
    let mut properties = number(description, "°C", 1);
    properties.range = Some((-50.0, 150.0));
    properties
}

fn number(description: &str, units: &str, precision: u8) -> Properties {
    let mut properties = read_only(DataType::F64, description, units);
    properties.precision = Some(precision);
    properties
}

fn integer(data_type: DataType, description: &str, units: &str) -> Properties {
    read_only(data_type, description, units)
}

fn text(description: &str) -> Properties {
    read_only(DataType::String, description, "")
}

/// Maximum number of characters of a mount point, interface or sensor in a segment. Escaping cannot
/// make the segment longer than a name may be.
const SEGMENT_CHARS_MAX: usize = 64;

/// Names that operating systems give to processor sensors: Intel, AMD, ARM boards, macOS.
const PROCESSOR_SENSORS: &[&str] = &[
    "package id",
    "tctl",
    "k10temp",
    "coretemp",
    "cpu",
    "soc",
    "tdie",
    "peci",
];
