//! The requests about subscribed items that the client makes itself.

use trunkline_proto::message::convergence::{CompareBuilder, CompareHead};
use trunkline_proto::message::handles::{UnsubscribeBuilder, UnsubscribeHead};
use trunkline_proto::message::open::{OpenOptions as WireOpenOptions, OpenTerms};
use trunkline_proto::message::results::Results;
use trunkline_proto::message::subscribe::{SubscribeBuilder, SubscribeHead, SubscribeItem};
use trunkline_proto::{Disconnect, FrameKind};

use super::close::closed;
use super::open::{note_opened, send_names, take_opened};
use super::{Answering, Ending, Exchange, Next, Prepared, Sending};
use crate::ask::{CheckAll, OpenItems, Resume, Unsubscribe};
use crate::parts::Parts;
use crate::subscriptions::remote;

impl Exchange for OpenItems {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Opened);
    type End = ();

    fn prepare(&mut self, _: &mut Parts) -> Prepared {
        Prepared::Items(self.items.len() as u32)
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let Some(remote) = sending.parts.subscriptions.remote.get(self.remote) else {
            *sending.sent = sending.total;
            return;
        };
        let terms = OpenTerms {
            options: WireOpenOptions::default(),
            subscribe: Some(remote.terms),
        };
        send_names(&terms, sending, |parts, index| {
            let item = *self.items.get(index as usize)?;
            Some(
                parts
                    .subscriptions
                    .remote
                    .get(self.remote)?
                    .item(item)?
                    .variable,
            )
        });
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        take_opened(answer, |parts, now, index, item| {
            let remote = parts.subscriptions.remote.get(self.remote);
            let index = self.items.get(index as usize).copied();
            let found = index.and_then(|index| Some((index, remote?.item(index)?.variable)));
            if let Some((index, variable)) = found {
                let result = note_opened(parts, now, variable, item)?.map(|_| ());
                let next = remote::Next::First;
                let subscriptions = &mut parts.subscriptions;
                subscriptions.item_opened(&mut parts.base, self.remote, index, next, result);
            }
            Ok(())
        })
    }

    fn end(self, ending: Ending<'_>) {
        items_answered(ending, self.remote, &self.items);
    }
}

impl Exchange for Resume {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Subscribed);
    type End = ();

    fn prepare(&mut self, _: &mut Parts) -> Prepared {
        Prepared::Items(self.items.len() as u32)
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let epoch = sending.parts.base.connection.epoch();
        let Some(remote) = sending.parts.subscriptions.remote.get(self.remote) else {
            *sending.sent = sending.total;
            return;
        };
        let head = SubscribeHead {
            terms: remote.terms,
            resume_epoch: Some(epoch),
        };
        let mut frame = SubscribeBuilder::begin(sending.out, sending.number, &head);
        while *sending.sent < sending.total && frame.len_bytes() < sending.page {
            let item = self.items.get(*sending.sent as usize);
            let item = item.and_then(|item| remote.item(*item));
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
        let parts = &mut *answer.parts;
        let mut exceptions = exceptions.into_iter().peekable();
        for index in answered {
            let fault = exceptions.next_if(|(next, _)| *next == index);
            let result = fault.map_or(Ok(()), |(_, fault)| Err(fault));
            if let Some(item) = self.items.get(index as usize) {
                let next = remote::Next::FirstResumed;
                let (subscriptions, base) = (&mut parts.subscriptions, &mut parts.base);
                subscriptions.item_opened(base, self.remote, *item, next, result);
            }
        }
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) {
        items_answered(ending, self.remote, &self.items);
    }
}

fn items_answered(ending: Ending<'_>, remote: u32, items: &[u32]) {
    let missing = ending.missing();
    let parts = ending.parts;
    parts
        .subscriptions
        .items_answered(&mut parts.base, remote, items, &missing);
}

impl Exchange for Unsubscribe {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Closed);
    type End = ();

    fn prepare(&mut self, _: &mut Parts) -> Prepared {
        match self.handles.len() {
            0 => Prepared::Single,
            count => Prepared::Items(count as u32),
        }
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let head = UnsubscribeHead {
            subscription: self.remote,
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
        if let Some(remote) = ending.parts.subscriptions.remote.get_mut(self.remote) {
            remote.items_ended(&self.handles);
        }
    }
}

impl Exchange for CheckAll {
    const ANSWERED_BY: Option<FrameKind> = None;
    type End = ();

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let head = CompareHead {
            records_received: sending.parts.base.connection.receipt.acknowledge(),
        };
        CompareBuilder::begin(sending.out, 0, &head).finish(false);
    }

    fn end(self, _: Ending<'_>) {}
}
