//! What the client asks about the items of its subscriptions.

use trunkline_proto::message::convergence::{CompareBuilder, CompareHead};
use trunkline_proto::message::handles::{UnsubscribeBuilder, UnsubscribeHead};
use trunkline_proto::message::open::{OpenOptions as WireOpenOptions, OpenTerms};
use trunkline_proto::message::results::Results;
use trunkline_proto::message::subscribe::{SubscribeBuilder, SubscribeHead, SubscribeItem};
use trunkline_proto::{Disconnect, FrameKind};

use super::close::closed;
use super::open::{note_opened, send_names, take_opened};
use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::client::ClientCore;
use crate::wire;

/// Opens items of a wire subscription and subscribes them.
#[derive(Debug)]
pub(crate) struct OpenItems {
    pub(crate) wire: u32,
    pub(crate) items: Vec<u32>,
}

impl Exchange for OpenItems {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Opened);
    type End = ();

    fn prepare(&mut self, _: &mut ClientCore) -> Prepared {
        Prepared::Items(self.items.len() as u32)
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let Some(wire) = sending.core.wires.get(self.wire) else {
            *sending.sent = sending.total;
            return;
        };
        let terms = OpenTerms {
            options: WireOpenOptions::default(),
            subscribe: Some(wire.terms),
        };
        send_names(&terms, sending, |core, index| {
            let item = *self.items.get(index as usize)?;
            Some(core.wires.get(self.wire)?.item(item)?.variable)
        });
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        take_opened(answer, |core, now, index, item| {
            let index = self.items.get(index as usize).copied();
            let found = index
                .and_then(|index| Some((index, core.wires.item_mut(self.wire, index)?.variable)));
            if let Some((index, variable)) = found {
                let result = note_opened(core, now, variable, item)?.map(|_| ());
                core.item_opened(self.wire, index, wire::Next::First, result);
            }
            Ok(())
        })
    }

    fn end(self, ending: Ending<'_>) {
        let missing = ending.missing();
        ending.core.items_answered(self.wire, &self.items, &missing);
    }
}

/// Subscribes open items, starting after their last updates.
#[derive(Debug)]
pub(crate) struct Resume {
    pub(crate) wire: u32,
    pub(crate) items: Vec<u32>,
}

impl Exchange for Resume {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Subscribed);
    type End = ();

    fn prepare(&mut self, _: &mut ClientCore) -> Prepared {
        Prepared::Items(self.items.len() as u32)
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let epoch = sending.core.connection.epoch();
        let Some(wire) = sending.core.wires.get(self.wire) else {
            *sending.sent = sending.total;
            return;
        };
        let head = SubscribeHead {
            terms: wire.terms,
            resume_epoch: Some(epoch),
        };
        let mut frame = SubscribeBuilder::begin(sending.out, sending.number, &head);
        while *sending.sent < sending.total && frame.len_bytes() < sending.page {
            let item = self.items.get(*sending.sent as usize);
            let item = item.and_then(|item| wire.item(*item));
            let position = item.and_then(|item| item.account.position());
            let position = position.filter(|position| position.epoch == epoch);
            frame.push(&SubscribeItem {
                handle: item.and_then(|item| item.handle).unwrap_or(u32::MAX),
                last_sequence: position.map_or(0, |position| position.sequence),
            });
            *sending.sent += 1;
        }
        frame.finish(*sending.sent < sending.total);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let results = Results::decode(answer.frame)?;
        let answered = answer.run(results.first_index(), results.answered())?;
        let mut exceptions = Vec::new();
        for exception in results {
            let (index, fault) = exception?;
            exceptions.push((index, fault.to_fault()));
        }
        let mut exceptions = exceptions.into_iter().peekable();
        for index in answered {
            let fault = exceptions.next_if(|(at, _)| *at == index);
            let result = fault.map_or(Ok(()), |(_, fault)| Err(fault));
            if let Some(item) = self.items.get(index as usize) {
                let next = wire::Next::FirstResumed;
                answer.core.item_opened(self.wire, *item, next, result);
            }
        }
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) {
        let missing = ending.missing();
        ending.core.items_answered(self.wire, &self.items, &missing);
    }
}

/// Ends items of a wire subscription, or all of it if `handles` is empty.
#[derive(Debug)]
pub(crate) struct Unsubscribe {
    pub(crate) wire: u32,
    pub(crate) handles: Vec<u32>,
}

impl Exchange for Unsubscribe {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Closed);
    type End = ();

    fn prepare(&mut self, _: &mut ClientCore) -> Prepared {
        match self.handles.len() {
            0 => Prepared::Single,
            count => Prepared::Items(count as u32),
        }
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let head = UnsubscribeHead {
            subscription: self.wire,
        };
        sending.handles(
            |out, number| UnsubscribeBuilder::begin(out, number, &head),
            &self.handles,
            |handle| *handle,
        );
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        closed(answer)
    }

    fn end(self, ending: Ending<'_>) {
        if let Some(wire) = ending.core.wires.get_mut(self.wire) {
            wire.items_ended(&self.handles);
        }
    }
}

/// Asks the engine to compare everything it sent with what arrived.
#[derive(Debug)]
pub(crate) struct CheckAll;

impl Exchange for CheckAll {
    const ANSWERED_BY: Option<FrameKind> = None;
    type End = ();

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let head = CompareHead {
            records_received: sending.core.connection.receipt.acknowledge(),
        };
        CompareBuilder::begin(sending.out, 0, &head).finish(false);
    }

    fn end(self, _: Ending<'_>) {}
}
