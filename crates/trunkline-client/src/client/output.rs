//! Output: what is sent, and in which order.
//!
//! Keep-alives go first, then requests and writes in the order in which the program made them,
//! frame by frame. Acknowledgements go along with other output. Writes that wait for credit do not
//! hold up requests.

use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::keepalive::{AckBuilder, AckHead, Grant};
use trunkline_proto::part::split_oversized;
use trunkline_types::Tick;

use super::ClientCore;
use crate::base::Base;
use crate::parts::Parts;
use crate::subscriptions::Subscriptions;

/// Maximum output per call, even if the driver could take more.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

impl ClientCore {
    /// Sends the gathered data with the next output, without a FLUSH frame.
    pub fn send_gathered(&mut self) {
        self.parts.base.connection.send_gathered = true;
    }

    /// Appends the output, through the gather buffer in throughput mode. Returns true if more is
    /// ready.
    pub(super) fn gather_output(&mut self, now: Tick, budget: usize, out: &mut Vec<u8>) -> bool {
        let Some(mut gather) = self.parts.base.connection.gather.take() else {
            self.parts.base.connection.send_gathered = false;
            return self.write_output(now, budget, out);
        };
        let produce = |room: usize, out: &mut Vec<u8>| self.write_output(now, room, out);
        let more = gather.poll_output(now, budget, out, produce);
        // Writes that wait for credit cannot fill the buffer. They wait for the engine's answers to
        // the writes in it.
        let is_full = self.parts.writes.wait_for_credit();
        let connection = &mut self.parts.base.connection;
        let is_last = connection.closing().is_some();
        if std::mem::take(&mut connection.send_gathered) || is_full || is_last {
            gather.release(out);
        }
        connection.gather = Some(gather);
        more
    }

    /// Appends the frames to send now. Returns true if more is ready.
    fn write_output(&mut self, now: Tick, budget: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let end = start.saturating_add(budget.min(OUTPUT_BYTES_MAX));
        let mut more = false;
        let Base {
            connection,
            options,
            ..
        } = &mut self.parts.base;
        if std::mem::take(&mut connection.hello_due) {
            connection.hello(options).encode(out);
        }
        if connection.is_open() {
            let frame_max = connection.frame_max();
            if std::mem::take(&mut connection.keepalive_due) {
                connection.send_gathered = true;
                let records = connection.receipt.acknowledge();
                connection.liveness.keepalive(now, records, 0).encode(out);
            }
            let page = PAGE_BYTES.min(frame_max);
            loop {
                if out.len() >= end {
                    more = true;
                    break;
                }
                if !self.send_next(now, page, out) && !self.send_others(page, out) {
                    break;
                }
            }
            self.send_ack(out.len() > start, out);
            split_oversized(out, start, u32::try_from(frame_max).unwrap_or(u32::MAX));
        }
        if let Some(goodbye) = self.parts.base.connection.take_goodbye() {
            goodbye.encode(out);
        }
        more
    }

    /// Appends the next queued frame. Returns false if nothing may be sent.
    fn send_next(&mut self, now: Tick, page: usize, out: &mut Vec<u8>) -> bool {
        let front = self.requests.front(&mut self.parts.base.asked);
        let request = front.filter(|id| self.may_send(*id));
        let writes = match self.requests.are_handles_restored() {
            true => self.parts.writes.front(),
            false => None,
        };
        match (request, writes) {
            (None, None) => false,
            (request, Some(order)) if request.is_none_or(|request| order < request) => {
                // Sends no writes made after the front request: a flush there waits only for
                // earlier writes.
                let Parts { base, writes, .. } = &mut self.parts;
                writes.send(base, now, front.unwrap_or(u64::MAX), page, out);
                true
            }
            (None, Some(_)) => false,
            (Some(id), _) => {
                self.requests.send(&mut self.parts, id, page, out);
                true
            }
        }
    }

    /// Appends what the provider sends, or a comparison. Returns false if there is nothing.
    fn send_others(&mut self, page: usize, out: &mut Vec<u8>) -> bool {
        let Parts {
            base,
            writes,
            subscriptions,
            provider,
            ..
        } = &mut self.parts;
        let Subscriptions {
            remote, suspects, ..
        } = subscriptions;
        provider.send(writes, page, out) || suspects.send(remote, &mut base.connection, page, out)
    }

    /// Returns true if the request need not wait for earlier writes, not even for those that wait
    /// for credit.
    fn may_send(&self, id: u64) -> bool {
        !self.requests.waits_for_writes(id)
            || self.parts.writes.oldest().is_none_or(|order| order > id)
    }

    /// Appends an acknowledgement if one is due, or if one can go along with other output.
    fn send_ack(&mut self, sends_anyway: bool, out: &mut Vec<u8>) {
        let Base {
            connection,
            options,
            ..
        } = &mut self.parts.base;
        let (wanted, due) = connection.receipt.due(options);
        let goes_along = wanted && sends_anyway;
        if !due && !goes_along {
            return;
        }
        // The engine may be waiting for this acknowledgement.
        connection.send_gathered |= due;
        let head = AckHead {
            records_received: connection.receipt.acknowledge(),
        };
        let mut ack = AckBuilder::begin(out, 0, &head);
        while let Some(subscription) = connection.receipt.next_grant() {
            let remote = self.parts.subscriptions.remote.get_mut(subscription);
            let more = remote.map_or(0, |remote| u64::from(remote.take_grant()));
            if more > 0 {
                ack.push(&Grant { subscription, more });
            }
        }
        ack.finish(false);
    }
}
