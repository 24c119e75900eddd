//! The subscriber of W11 and W12: takes and checks every double.

use std::net::{Ipv4Addr, TcpListener};

use trunkline::types::{Contract, Elements, Value};
use trunkline::{Client, Event, SubscribeOptions};

use super::{Blocks, VARIABLE, is_whole};
use crate::Outcome;
use crate::raw::{Inbox, field};
use crate::role::say;
use crate::settings::Settings;
use crate::trunkline_calls::PATIENCE;
use crate::updates_to_one::figures::{Share, take_with};
use crate::updates_to_one::{Taken, Window};
use crate::usage::process_cpu_ns;

pub fn take_raw(settings: &Settings) -> Outcome<()> {
    let blocks = Blocks::read(settings)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    say(&format!("LISTENING {}", listener.local_addr()?));
    take_with(1, |_| {
        let (mut socket, _) = listener.accept().map_err(|error| error.to_string())?;
        let size = 8 * blocks.length;
        let mut inbox = Inbox::new((4 * size).max(1 << 18));
        let mut taking = Taking::new(blocks);
        let mut block = vec![0.0; blocks.length];
        loop {
            match inbox.receive(&mut socket) {
                Ok(true) => {}
                Ok(false) => return Err("the writer has closed before its end".to_owned()),
                Err(error) => return Err(error.to_string()),
            }
            while inbox.waiting().len() >= size {
                let bytes = inbox.waiting()[..size].chunks_exact(8);
                for (element, bytes) in block.iter_mut().zip(bytes) {
                    *element = field::f64(bytes, 0);
                }
                inbox.take(size);
                if !taking.take(&block) {
                    return Ok(taking.close());
                }
            }
        }
    })
}

/// Counts for the subscriber.
struct Taking {
    blocks: Blocks,
    taken: Taken,
    window: Option<Window>,
}

impl Taking {
    fn new(blocks: Blocks) -> Self {
        Self {
            blocks,
            taken: Taken::new(1),
            window: None,
        }
    }

    /// Returns false for the last block.
    fn take(&mut self, block: &[f64]) -> bool {
        if block.first().is_some_and(|first| first.is_nan()) {
            return false;
        }
        if is_whole(block, self.blocks.length) {
            self.taken.take(0, block[0]);
        } else {
            self.taken.out_of_order += 1;
        }
        let warm_up = self.blocks.stream.warm_up;
        let window = self.window.get_or_insert_with(|| Window::open(warm_up));
        if self.blocks.length > 64 || self.taken.count.is_multiple_of(64) {
            window.poll(self.taken.count, process_cpu_ns);
        }
        true
    }

    fn close(self) -> Share {
        let measured = self
            .window
            .and_then(|window| window.close(self.taken.count, process_cpu_ns()));
        Share {
            taken: self.taken,
            measured,
        }
    }
}

pub fn take_trunkline(settings: &Settings) -> Outcome<()> {
    let blocks = Blocks::read(settings)?;
    let url: String = settings.value("url")?;
    take_with(1, |_| {
        take_one(blocks, &url).map_err(|error| error.to_string())
    })
}

fn take_one(blocks: Blocks, url: &str) -> Outcome<Share> {
    let client = Client::connect(url)?;
    client.wait_connected(PATIENCE)?;
    let options = SubscribeOptions::default();
    let subscription = client.subscribe(&[VARIABLE], Contract::ALL, options)?;
    let mut taking = Taking::new(blocks);
    loop {
        let events = subscription.next_many(1000, Some(PATIENCE));
        if events.is_empty() {
            return Err("no block came".into());
        }
        for event in events {
            let reading = match event {
                Event::Reading { reading, .. } => reading,
                Event::Connected { .. } => continue,
                other => return Err(format!("instead of a reading: {other:?}").into()),
            };
            if reading.position.sequence == 0 {
                say("SUBSCRIBED");
                continue;
            }
            let goes_on = match &reading.sample.value {
                Value::F64(value) => taking.take(&[*value]),
                Value::Array(array) => taking.take(doubles(array.elements())?),
                Value::Waveform(waveform) => taking.take(doubles(&waveform.samples)?),
                other => return Err(format!("a value of another type: {other:?}").into()),
            };
            if !goes_on {
                return Ok(taking.close());
            }
        }
    }
}

fn doubles(elements: &Elements) -> Outcome<&[f64]> {
    match elements {
        Elements::F64(doubles) => Ok(doubles),
        _ => Err("elements of another type".into()),
    }
}
