//! iceoryx2: publish and subscribe over shared memory, one service each way, both ends polling.

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use trunkline_bench::Outcome;

type Shared = ipc::Service;

/// One end: what it sends, and what it receives.
pub struct Ends {
    publisher: Publisher<Shared, u64, ()>,
    subscriber: Subscriber<Shared, u64, ()>,
    _node: Node<Shared>,
}

impl Ends {
    /// Opens both services; `name` is of the run.
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

    /// Polls until there is one.
    pub fn receive(&self) -> Outcome<u64> {
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                return Ok(*sample.payload());
            }
            std::hint::spin_loop();
        }
    }

    /// Whether there is one.
    pub fn try_receive(&self) -> Outcome<Option<u64>> {
        Ok(self.subscriber.receive()?.map(|sample| *sample.payload()))
    }
}
