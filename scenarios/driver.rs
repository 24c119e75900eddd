//! Carries out the steps of `table.txt` with the crate `trunkline`, and returns them with their results.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

use trunkline::stream::{Options, StreamError, Until, ValueReader, ValueWriter};
use trunkline::types::text::{FormatOptions, format_value, parse_type, parse_value};
use trunkline::types::{Array, DataType, Elements, Quality, Reading, Value};
use trunkline::{
    CallError, Client, Event, GroupOutcome, LeaseTerms, OpenOptions, Opened, SubscribeOptions,
    Subscription, Write, WriteOutcome,
};

const LIMIT: Duration = Duration::from_secs(20);

/// The word for a result that is an error.
type Word = String;

pub(crate) fn run(url: &str, port: u16, table: &str) -> String {
    let mut driver = Driver {
        clients: [url, url].map(|url| Client::connect(url).unwrap()),
        port,
        monitors: HashMap::new(),
        writers: HashMap::new(),
        readers: HashMap::new(),
    };
    let mut out = String::new();
    let steps = table.lines().filter(|line| !line.starts_with('#'));
    for (step, _) in steps.filter_map(|line| line.split_once(" =>")) {
        let result = driver.step(step).unwrap_or_else(|word| word);
        let _ = writeln!(out, "{}", format!("{step} => {result}").trim_end());
    }
    out
}

struct Driver {
    clients: [Client; 2],
    port: u16,
    monitors: HashMap<String, (Subscription, Vec<String>)>,
    writers: HashMap<String, ValueWriter>,
    readers: HashMap<String, ValueReader>,
}

impl Driver {
    fn step(&mut self, step: &str) -> Result<String, Word> {
        let (client, step) = match step.strip_prefix("other ") {
            Some(step) => (self.clients[1].clone(), step),
            None => (self.clients[0].clone(), step),
        };
        let (step, limit) = match step.rsplit_once(' ') {
            Some((step, "now")) => (step, Duration::ZERO),
            Some((step, "briefly")) => (step, Duration::from_millis(20)),
            _ => (step, LIMIT),
        };
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
        match verb {
            "get" => get(&client, first),
            "read" => read(&client, first),
            "put" => put(&client, first, more, Write::new),
            "force" => put(&client, first, more, Write::force),
            "unforce" => {
                let opened = open(&client, first)?;
                written(client.write([Write::unforce(opened.variable)], LIMIT))
            }
            "batch" => batch(&client, rest),
            "group" => group(&client, rest),
            "snapshot" => snapshot(&client, rest),
            "find" => {
                let mut found = client.find(rest, None, LIMIT).map_err(call)?;
                found.sort_by(|a, b| a.name.cmp(&b.name));
                let names: Vec<String> = found.into_iter().map(|one| one.name).collect();
                Ok(names.join("; "))
            }
            "lease" => lease(&client, first, LeaseTerms::acquire(LIMIT)),
            "release" => lease(&client, first, LeaseTerms::release()),
            "monitor" => self.monitor(&client, first, more),
            "next" => self.next(first, more.parse().unwrap()),
            "poll" => self.poll(first),
            "close" => {
                self.monitors.remove(first);
                ok()
            }
            "open" => self.open_stream(first, more),
            "write" => self.write_stream(first, more, limit),
            "flush" => self.flush(first, more, limit),
            "read-stream" => self.read_stream(first, more.parse().unwrap(), limit),
            "take" => {
                let values = self.reader(first).read_available().map_err(stream)?;
                Ok(joined(&values, self.reader(first).data_type()))
            }
            "end" => {
                let writer = self.writers.remove(first).unwrap();
                Ok(writer.close(Some(LIMIT)).elements.to_string())
            }
            "abort" => {
                let writer = self.writers.remove(first).unwrap();
                writer.abort_because(more);
                ok()
            }
            "stop" => {
                self.readers
                    .remove(first)
                    .unwrap()
                    .close()
                    .map_err(stream)?;
                ok()
            }
            verb => panic!("there is no step {verb}"),
        }
    }

    fn monitor(&mut self, client: &Client, name: &str, rest: &str) -> Result<String, Word> {
        let (contract, names) = rest.split_once(' ').unwrap();
        let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        let options = SubscribeOptions::default();
        let monitor = client.subscribe(&names, contract.parse().unwrap(), options);
        self.monitors
            .insert(name.to_owned(), (monitor.map_err(call)?, names));
        ok()
    }

    fn next(&mut self, name: &str, count: usize) -> Result<String, Word> {
        let (monitor, names) = &self.monitors[name];
        let mut readings = Vec::new();
        while readings.len() < count {
            match monitor.next(Some(LIMIT)) {
                Some(Event::Reading { item, reading }) => {
                    let data_type = monitor.item(item).and_then(|item| item.data_type).unwrap();
                    let value = text(&reading.sample.value, &data_type);
                    let lost = match reading.lost.count() {
                        Some(0) => String::new(),
                        Some(lost) => format!(" lost {lost}"),
                        None => " lost unknown".to_owned(),
                    };
                    readings.push(format!("{} {value}{lost}", names[item as usize]));
                }
                Some(Event::ItemError { fault, .. }) => return Err(fault.code.name().to_owned()),
                Some(_) => {}
                None => return Err("timeout".to_owned()),
            }
        }
        Ok(readings.join("; "))
    }

    fn poll(&mut self, name: &str) -> Result<String, Word> {
        loop {
            match self.monitors[name].0.try_next() {
                Some(Event::Reading { reading, .. }) => {
                    return Ok(format!("{:?}", reading.sample.value));
                }
                Some(_) => {}
                None => return Err("timeout".to_owned()),
            }
        }
    }

    fn open_stream(&mut self, name: &str, rest: &str) -> Result<String, Word> {
        let (data_type, capacity) = rest.split_once(' ').unwrap();
        let data_type = parse_type(data_type).unwrap();
        let options = |peer: Option<String>| Options {
            peer,
            capacity: capacity.parse().unwrap(),
            timeout: Some(LIMIT),
            directory_port: self.port,
            ..Options::default()
        };
        let (reader, of_reader) = (format!("{name}/reader"), options(None));
        let of_writer = options(Some(reader.clone()));
        let opened = thread::scope(|scope| {
            let data_type = &data_type;
            let created = scope.spawn(move || ValueReader::create(&reader, data_type, of_reader));
            let writer = ValueWriter::create(&format!("{name}/writer"), data_type, of_writer);
            Ok((writer?, created.join().unwrap()?))
        });
        let (writer, reader) = opened.map_err(stream)?;
        self.writers.insert(name.to_owned(), writer);
        self.readers.insert(name.to_owned(), reader);
        ok()
    }

    fn reader(&mut self, name: &str) -> &mut ValueReader {
        self.readers.get_mut(name).unwrap()
    }

    fn write_stream(&mut self, name: &str, rest: &str, limit: Duration) -> Result<String, Word> {
        let writer = self.writers.get_mut(name).unwrap();
        let values = rest
            .split(' ')
            .map(|number| parse_value(number, writer.data_type()).unwrap());
        let values: Vec<Value> = values.collect();
        writer.write_many(&values, Some(limit)).map_err(stream)?;
        ok()
    }

    fn flush(&mut self, name: &str, stage: &str, limit: Duration) -> Result<String, Word> {
        let until = match stage {
            "sent" => Until::Sent,
            "received" => Until::Available,
            "read" => Until::Read,
            stage => panic!("there is no stage {stage}"),
        };
        let writer = self.writers.get_mut(name).unwrap();
        writer.flush(until, Some(limit)).map_err(stream)?;
        ok()
    }

    fn read_stream(&mut self, name: &str, count: usize, limit: Duration) -> Result<String, Word> {
        let reader = self.reader(name);
        let values = reader.read_many(count, Some(limit)).map_err(stream)?;
        Ok(joined(&values, reader.data_type()))
    }
}

fn ok() -> Result<String, Word> {
    Ok("ok".to_owned())
}

fn call(error: CallError) -> Word {
    match error {
        CallError::Fault(fault) => fault.code.name().to_owned(),
        CallError::TimedOut { .. } => "timeout".to_owned(),
        error => error.to_string(),
    }
}

fn stream(error: StreamError) -> Word {
    let word = match &error {
        StreamError::Timeout { .. } | StreamError::NoPeer { .. } => "timeout",
        StreamError::TooMany { .. } => "limit",
        StreamError::Ended => "stream-ended",
        StreamError::Aborted { .. } => "stream-aborted",
        StreamError::Fault(_) => "stream-over",
        error => return error.to_string(),
    };
    word.to_owned()
}

fn open(client: &Client, name: &str) -> Result<Opened, Word> {
    let mut opened = client
        .open(&[name], OpenOptions::default(), LIMIT)
        .map_err(call)?;
    opened
        .remove(0)
        .map_err(|fault| fault.code.name().to_owned())
}

fn read_one(client: &Client, name: &str) -> Result<(Opened, Reading), Word> {
    let opened = open(client, name)?;
    let mut readings = client.read(&[opened.variable], LIMIT).map_err(call)?;
    let reading = readings
        .remove(0)
        .map_err(|fault| fault.code.name().to_owned())?;
    Ok((opened, reading))
}

fn text(value: &Value, data_type: &DataType) -> String {
    format_value(value, data_type, &FormatOptions::default())
}

fn joined(values: &[Value], data_type: &DataType) -> String {
    let texts: Vec<String> = values.iter().map(|value| text(value, data_type)).collect();
    texts.join(" ")
}

fn get(client: &Client, name: &str) -> Result<String, Word> {
    let (opened, reading) = read_one(client, name)?;
    match reading.has_value() {
        true => Ok(text(&reading.sample.value, &opened.data_type)),
        false => Err("no-value".to_owned()),
    }
}

fn read(client: &Client, name: &str) -> Result<String, Word> {
    let (opened, reading) = read_one(client, name)?;
    let value = match reading.has_value() {
        true => text(&reading.sample.value, &opened.data_type),
        false => "-".to_owned(),
    };
    let quality = quality(reading.sample.quality);
    Ok(format!("{value} {quality} {}", reading.position.sequence))
}

fn quality(quality: Quality) -> String {
    let bits = quality.to_bits();
    let (reason, is_forced) = (bits >> 2 & 0x3fff, bits >> 20 & 1 == 1);
    let mut text = ["good", "uncertain", "bad", "bad"][bits as usize & 3].to_owned();
    if reason > 0 {
        let _ = write!(text, ":{reason}");
    }
    match is_forced {
        true => text + " forced",
        false => text,
    }
}

/// Returns the value that a step gives, as a program would pass it.
fn value(text: &str, data_type: &DataType) -> Result<Value, Word> {
    let number = match text.as_bytes() {
        [b'[', ..] => {
            let list = text.trim_matches(['[', ']']).split(", ");
            let numbers = list.filter(|number| !number.is_empty());
            let numbers: Vec<f64> = numbers.map(|number| number.parse().unwrap()).collect();
            return Ok(match data_type {
                DataType::Array(_) => parse_value(text, data_type).unwrap(),
                _ => Value::Array(Array::vector(Elements::F64(numbers)).into()),
            });
        }
        [b'-' | b'0'..=b'9', ..] if text.contains('.') => Value::F64(text.parse().unwrap()),
        [b'-' | b'0'..=b'9', ..] => Value::I64(text.parse().unwrap()),
        _ => return Ok(parse_value(text, data_type).unwrap()),
    };
    match number.to_number(data_type) {
        Some(value) => Ok(value),
        None if data_type.is_numeric() => Err("out-of-range".to_owned()),
        // The engine refuses it.
        None => Ok(number),
    }
}

fn put(
    client: &Client,
    name: &str,
    given: &str,
    verb: fn(trunkline::VariableRef, Value) -> Write,
) -> Result<String, Word> {
    let opened = open(client, name)?;
    let value = value(given, &opened.data_type)?;
    written(client.write([verb(opened.variable, value)], LIMIT))
}

fn written(outcomes: Result<Vec<WriteOutcome>, CallError>) -> Result<String, Word> {
    Ok(outcome(&outcomes.map_err(call)?[0]))
}

fn outcome(outcome: &WriteOutcome) -> String {
    match outcome {
        WriteOutcome::Applied(position) => format!("applied {}", position.sequence),
        WriteOutcome::Unchanged(position) => format!("unchanged {}", position.sequence),
        WriteOutcome::Refused(fault) => fault.code.name().to_owned(),
        other => format!("{other:?}"),
    }
}

fn writes(client: &Client, rest: &str) -> Vec<Result<Write, Word>> {
    let write = |one: &str| {
        let (name, given) = one.split_once(' ').unwrap();
        let opened = open(client, name)?;
        Ok(Write::new(
            opened.variable,
            value(given, &opened.data_type)?,
        ))
    };
    rest.split("; ").map(write).collect()
}

fn batch(client: &Client, rest: &str) -> Result<String, Word> {
    let writes = writes(client, rest);
    let sent: Vec<Write> = writes
        .iter()
        .filter_map(|write| write.clone().ok())
        .collect();
    let mut outcomes = client.write(sent, LIMIT).map_err(call)?.into_iter();
    let results = writes.into_iter().map(|write| match write {
        Ok(_) => outcome(&outcomes.next().unwrap()),
        Err(word) => word,
    });
    Ok(results.collect::<Vec<_>>().join("; "))
}

fn group(client: &Client, rest: &str) -> Result<String, Word> {
    let writes = writes(client, rest)
        .into_iter()
        .collect::<Result<Vec<Write>, Word>>()?;
    let GroupOutcome { outcomes, .. } = client.write_group(writes, LIMIT).map_err(call)?;
    Ok(outcomes.iter().map(outcome).collect::<Vec<_>>().join("; "))
}

fn snapshot(client: &Client, rest: &str) -> Result<String, Word> {
    let opened = rest.split(' ').map(|name| open(client, name));
    let opened = opened.collect::<Result<Vec<Opened>, Word>>()?;
    let variables: Vec<_> = opened.iter().map(|one| one.variable).collect();
    let snapshot = client.snapshot(&variables, LIMIT).map_err(call)?;
    assert!(snapshot.is_consistent, "the readings are from one instant");
    let values = snapshot.readings.iter().zip(&opened);
    let values = values.map(|(reading, opened)| match reading {
        Ok(reading) => text(&reading.sample.value, &opened.data_type),
        Err(fault) => fault.code.name().to_owned(),
    });
    Ok(values.collect::<Vec<_>>().join("; "))
}

fn lease(client: &Client, name: &str, terms: LeaseTerms) -> Result<String, Word> {
    let opened = open(client, name)?;
    let mut leases = client
        .lease(&[opened.variable], terms, LIMIT)
        .map_err(call)?;
    match leases.remove(0) {
        Ok(_) => ok(),
        Err(fault) => Err(fault.code.name().to_owned()),
    }
}
