//! Runs the two endpoints of a measurement, each in its own process or thread.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use trunkline::stream::{Options, Reader, StreamError, Until, ValueReader, ValueWriter, Writer};
use trunkline_types::{DataType, Value};

use super::content::{Content, value_at};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) data_type: DataType,
    pub(super) elements: u64,
    pub(super) chunk: usize,
    pub(super) latency_samples: u64,
    /// Prefix of the reader's URLs.
    pub(super) base: String,
    pub(super) options: Options,
}

#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct WriteResult {
    /// Processor time of the writer's process while it wrote.
    pub(super) cpu: Duration,
    /// Number of elements that were not delivered before the writer closed.
    pub(super) remaining: u64,
}

#[derive(Debug, Default)]
pub(super) struct ReadResult {
    pub(super) elements: u64,
    /// Number of elements that differ from what was written.
    pub(super) wrong: u64,
    pub(super) elapsed: Duration,
    pub(super) cpu: Duration,
    pub(super) transport: &'static str,
    /// Durations from writing an element to reading it, sorted.
    pub(super) latencies: Vec<Duration>,
    pub(super) error: Option<StreamError>,
}

/// Timeout of a call. A call that takes longer indicates a failure.
const CALL_TIMEOUT: Option<Duration> = Some(Duration::from_secs(60));

impl Plan {
    fn reader_url(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    fn options_to(&self, path: &str) -> Options {
        Options {
            peer: Some(self.reader_url(path)),
            ..self.options.clone()
        }
    }

    /// Returns the options for measuring latency, which needs no large buffer.
    fn latency_options(&self, options: Options) -> Options {
        Options {
            capacity: 64,
            ..options
        }
    }

    fn chunk_at(&self, done: u64) -> usize {
        usize::try_from(self.elements.saturating_sub(done))
            .map_or(self.chunk, |remaining| remaining.min(self.chunk))
    }
}

macro_rules! for_type {
    ($data_type:expr, $plain:ident, $values:ident, $plan:expr) => {
        match $data_type {
            DataType::I8 => $plain::<i8>($plan),
            DataType::I16 => $plain::<i16>($plan),
            DataType::I32 => $plain::<i32>($plan),
            DataType::I64 => $plain::<i64>($plan),
            DataType::U8 => $plain::<u8>($plan),
            DataType::U16 => $plain::<u16>($plan),
            DataType::U32 => $plain::<u32>($plan),
            DataType::U64 => $plain::<u64>($plan),
            DataType::F32 => $plain::<f32>($plan),
            DataType::F64 => $plain::<f64>($plan),
            _ => $values($plan),
        }
    };
}

pub(super) fn write(plan: &Plan) -> Result<WriteResult, StreamError> {
    let written = for_type!(plan.data_type, write_plain, write_values, plan)?;
    let options = plan.latency_options(plan.options_to("latency"));
    let mut writer = Writer::<u64>::create("bench/latency", options)?;
    for _ in 0..plan.latency_samples {
        writer.write(&monotonic_nanos(), CALL_TIMEOUT)?;
        // This sends the element immediately and waits until it has been read.
        writer.flush(Until::Read, CALL_TIMEOUT)?;
    }
    writer.close(CALL_TIMEOUT);
    Ok(written)
}

pub(super) fn read(plan: &Plan) -> Result<ReadResult, StreamError> {
    let mut received = for_type!(plan.data_type, read_plain, read_values, plan)?;
    if received.error.is_none() && plan.latency_samples > 0 {
        let url = plan.reader_url("latency");
        let mut reader = Reader::<u64>::create(&url, plan.latency_options(plan.options.clone()))?;
        loop {
            match reader.read(CALL_TIMEOUT) {
                Ok(sent_at) => {
                    let nanos = monotonic_nanos().saturating_sub(sent_at);
                    received.latencies.push(Duration::from_nanos(nanos));
                }
                Err(StreamError::Ended) => break,
                Err(error) => return Err(error),
            }
        }
        received.latencies.sort_unstable();
    }
    Ok(received)
}

fn write_plain<T: Content>(plan: &Plan) -> Result<WriteResult, StreamError> {
    let mut writer = Writer::<T>::create("bench/data", plan.options_to("data"))?;
    let cpu = cpu_time();
    let mut next = 0;
    while next < plan.elements {
        let count = plan.chunk_at(next);
        writer.write_with(count, CALL_TIMEOUT, |space| {
            for (element, index) in space.iter_mut().zip(next..) {
                *element = T::at(index);
            }
        })?;
        next += count as u64;
    }
    writer.flush(Until::Available, CALL_TIMEOUT)?;
    let cpu = cpu_time().saturating_sub(cpu);
    // Keep the connection open until the reader has queried the transport. An error is ignored
    // here because `close` reports the elements that remain.
    let _ = writer.flush(Until::Read, CALL_TIMEOUT);
    let remaining = writer.close(CALL_TIMEOUT).elements;
    Ok(WriteResult { cpu, remaining })
}

fn write_values(plan: &Plan) -> Result<WriteResult, StreamError> {
    let options = plan.options_to("data");
    let mut writer = ValueWriter::create("bench/data", &plan.data_type, options)?;
    let cpu = cpu_time();
    let mut next = 0;
    let mut values: Vec<Value> = Vec::new();
    while next < plan.elements {
        let end = next + plan.chunk_at(next) as u64;
        values.clear();
        values.extend((next..end).map(|index| value_at(&plan.data_type, index)));
        writer.write_many(&values, CALL_TIMEOUT)?;
        next = end;
    }
    writer.flush(Until::Available, CALL_TIMEOUT)?;
    let cpu = cpu_time().saturating_sub(cpu);
    // Keep the connection open until the reader has queried the transport. An error is ignored
    // here because `close` reports the elements that remain.
    let _ = writer.flush(Until::Read, CALL_TIMEOUT);
    let remaining = writer.close(CALL_TIMEOUT).elements;
    Ok(WriteResult { cpu, remaining })
}

fn read_plain<T: Content>(plan: &Plan) -> Result<ReadResult, StreamError> {
    let mut reader = Reader::<T>::create(&plan.reader_url("data"), plan.options.clone())?;
    let transport = reader.properties().transport.unwrap_or("?");
    Ok(read_all(plan, transport, |count, first_index| {
        let region = reader.acquire(count, CALL_TIMEOUT)?;
        let pairs = region.iter().zip(first_index..);
        let wrong = pairs.filter(|(element, index)| **element != T::at(*index));
        Ok((region.len(), wrong.count()))
    }))
}

fn read_values(plan: &Plan) -> Result<ReadResult, StreamError> {
    let url = plan.reader_url("data");
    let mut reader = ValueReader::create(&url, &plan.data_type, plan.options.clone())?;
    let transport = reader.properties().transport.unwrap_or("?");
    Ok(read_all(plan, transport, |count, first_index| {
        let values = reader.read_up_to(count, CALL_TIMEOUT)?;
        let pairs = values.iter().zip(first_index..);
        let wrong = pairs.filter(|(value, index)| **value != value_at(&plan.data_type, *index));
        Ok((values.len(), wrong.count()))
    }))
}

/// Reads to the end. `read_chunk(count, index)` reads up to `count` elements, starting at `index`, and
/// returns the number of elements read, and how many of them are wrong.
fn read_all(
    plan: &Plan,
    transport: &'static str,
    mut read_chunk: impl FnMut(usize, u64) -> Result<(usize, usize), StreamError>,
) -> ReadResult {
    let mut received = ReadResult {
        transport,
        ..ReadResult::default()
    };
    let (started, cpu) = (monotonic_nanos(), cpu_time());
    while received.elements < plan.elements {
        match read_chunk(plan.chunk_at(received.elements), received.elements) {
            Ok((count, wrong)) => {
                received.elements += count as u64;
                received.wrong += wrong as u64;
            }
            Err(StreamError::Ended) => break,
            Err(error) => {
                received.error = Some(error);
                break;
            }
        }
    }
    received.elapsed = Duration::from_nanos(monotonic_nanos().saturating_sub(started));
    received.cpu = cpu_time().saturating_sub(cpu);
    received
}

/// Returns the monotonic time in nanoseconds. All processes on the machine share this clock.
fn monotonic_nanos() -> u64 {
    u64::try_from(duration_of(ClockId::Monotonic).as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the processor time of all threads of this process.
fn cpu_time() -> Duration {
    duration_of(ClockId::ProcessCPUTime)
}

fn duration_of(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of a reader that receives these elements, two at a time.
    fn result_of(elements: &[u64]) -> ReadResult {
        let plan = Plan {
            data_type: DataType::U64,
            elements: 6,
            chunk: 2,
            latency_samples: 0,
            base: String::new(),
            options: Options::default(),
        };
        let mut remaining = elements;
        read_all(&plan, "", |count, first_index| {
            let (chunk, rest) = remaining.split_at(count.min(remaining.len()));
            remaining = rest;
            let wrong = chunk
                .iter()
                .zip(first_index..)
                .filter(|(e, i)| **e != u64::at(*i));
            match chunk.len() {
                0 => Err(StreamError::Ended),
                count => Ok((count, wrong.count())),
            }
        })
    }

    #[test]
    fn missing_duplicated_and_reordered_elements_are_counted() {
        let count = |elements: &[u64]| {
            let received = result_of(elements);
            (received.elements, received.wrong)
        };
        assert_eq!(count(&[0, 1, 2, 3, 4, 5]), (6, 0));
        assert_eq!(count(&[0, 1, 2, 3]), (4, 0));
        assert_eq!(count(&[0, 1, 1, 2, 3, 4]), (6, 4));
        assert_eq!(count(&[0, 2, 1, 3, 4, 5]), (6, 2));
    }
}
