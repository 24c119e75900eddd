//! iceoryx2: publish and subscribe over shared memory, one service per direction; both ends poll.
//! Streams are slices, written and read in place; a publisher waits while the buffer is full.

use std::sync::atomic::{AtomicBool, Ordering};

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::publish_subscribe::PortFactory;
use trunkline_bench::Outcome;
use trunkline_bench::role::say;
use trunkline_bench::streams::flow::{Counted, Counting, Flow};
use trunkline_bench::usage::process_cpu_ns;

type Shared = ipc::Service;

/// One end: its publisher and its subscriber.
pub struct Ends {
    publisher: Publisher<Shared, u64, ()>,
    subscriber: Subscriber<Shared, u64, ()>,
    _node: Node<Shared>,
}

impl Ends {
    /// Opens both services; `name` is the name of the run.
    pub fn open(name: &str, puts: &str, takes: &str) -> Outcome<Self> {
        set_log_level(LogLevel::Error);
        let node = NodeBuilder::new().create::<Shared>()?;
        let service = |end: &str| -> Outcome<_> {
            let builder = node.service_builder(&format!("{name}/{end}").as_str().try_into()?);
            Ok(builder
                .publish_subscribe::<u64>()
                .enable_safe_overflow(false)
                .open_or_create()?)
        };
        let publisher = service(puts)?.publisher_builder().create()?;
        let subscriber = service(takes)?.subscriber_builder().create()?;
        Ok(Self {
            publisher,
            subscriber,
            _node: node,
        })
    }

    pub fn send(&self, value: u64) -> Outcome<()> {
        self.publisher.loan_uninit()?.write_payload(value).send()?;
        Ok(())
    }

    /// Polls until a sample arrives.
    pub fn receive(&self) -> Outcome<u64> {
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                return Ok(*sample.payload());
            }
            std::hint::spin_loop();
        }
    }

    /// Returns a sample if there is one.
    pub fn try_receive(&self) -> Outcome<Option<u64>> {
        Ok(self.subscriber.receive()?.map(|sample| *sample.payload()))
    }
}

/// Elements of a subscriber's buffer, so that it stays in the caches, and samples.
const BUFFERED: usize = 100_000;
const SAMPLES: (usize, usize) = (8, 1024);

/// W3's service.
struct Slices {
    service: PortFactory<Shared, [f64], ()>,
    _node: Node<Shared>,
}

/// Both ends must set the same limits.
fn slices(name: &str, call: usize) -> Outcome<Slices> {
    set_log_level(LogLevel::Error);
    let node = NodeBuilder::new().create::<Shared>()?;
    let service = node
        .service_builder(&name.try_into()?)
        .publish_subscribe::<[f64]>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size((BUFFERED / call).clamp(SAMPLES.0, SAMPLES.1))
        .history_size(0)
        .max_publishers(1)
        .max_subscribers(1)
        .open_or_create()?;
    Ok(Slices {
        service,
        _node: node,
    })
}

/// W3's writer: sends a greeting until the reader answers, because a subscriber that does not poll
/// yet receives at most one buffer. Then writes while `goes_on` returns true.
pub fn write(
    name: &str,
    call: usize,
    is_heard: &AtomicBool,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Outcome<()> {
    let slices = slices(name, call)?;
    let publisher = slices
        .service
        .publisher_builder()
        .initial_max_slice_len(call)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()?;
    while !is_heard.load(Ordering::Acquire) {
        let sample = publisher.loan_slice_uninit(1)?;
        sample.write_from_fn(|_| f64::NAN).send()?;
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut next = 0_u64;
    while goes_on(next) {
        let sample = publisher.loan_slice_uninit(call)?;
        let sample = sample.write_from_fn(|index| (next + index as u64) as f64);
        sample.send()?;
        next += call as u64;
    }
    Ok(())
}

/// W3's reader.
pub fn read(name: &str, flow: Flow) -> Outcome<Counted> {
    let slices = slices(name, flow.call)?;
    let subscriber = slices.service.subscriber_builder().create()?;
    while subscriber.receive()?.is_none() {
        std::hint::spin_loop();
    }
    say("SUBSCRIBED");
    let mut counting = Counting::new(flow, process_cpu_ns);
    loop {
        if let Some(counted) = counting.poll() {
            return Ok(counted);
        }
        let mut left = Flow::calls_per_clock_read(flow.call);
        while left > 0 {
            match subscriber.receive()? {
                // More greetings may be in transit.
                Some(sample) if sample.payload()[0].is_nan() => {}
                Some(sample) => {
                    counting.numbers.check(sample.payload());
                    left -= 1;
                }
                None => std::hint::spin_loop(),
            }
        }
    }
}
