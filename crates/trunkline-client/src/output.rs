//! Output: what is sent, and in which order.
//!
//! Keep-alives go first, then requests and writes in the order in which the program made them,
//! frame by frame. Acknowledgements go along with other output. Writes that wait for credit do not
//! hold up requests.

use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::keepalive::{AckBuilder, AckHead, Grant};
use trunkline_proto::part::split_oversized;
use trunkline_types::Tick;

use crate::client::ClientCore;

/// Maximum output per call, even if the driver could take more.
const OUTPUT_BYTES_MAX: usize = 256 << 10;

impl ClientCore {
    /// Appends the frames to send now. Returns true if more is ready.
    pub(crate) fn write_output(&mut self, now: Tick, budget: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let end = start.saturating_add(budget.min(OUTPUT_BYTES_MAX));
        let mut more = false;
        if std::mem::take(&mut self.connection.hello_due) {
            self.connection.hello(&self.options).encode(out);
        }
        if self.connection.is_open() {
            let frame_max = self.connection.frame_max();
            if std::mem::take(&mut self.connection.keepalive_due) {
                self.send_gathered = true;
                let records = self.connection.receipt.acknowledge();
                self.connection
                    .liveness
                    .keepalive(now, records, 0)
                    .encode(out);
            }
            let page = PAGE_BYTES.min(frame_max);
            loop {
                if out.len() >= end {
                    more = true;
                    break;
                }
                if !self.send_next(now, page, out)
                    && !self.send_provider(page, out)
                    && !self.send_compare(page, out)
                {
                    break;
                }
            }
            self.send_ack(out.len() > start, out);
            split_oversized(out, start, u32::try_from(frame_max).unwrap_or(u32::MAX));
        }
        if let Some(goodbye) = self.connection.take_goodbye() {
            goodbye.encode(out);
        }
        more
    }

    /// Appends the next queued frame. Returns false if nothing may be sent.
    fn send_next(&mut self, now: Tick, page: usize, out: &mut Vec<u8>) -> bool {
        let front = self.requests.front();
        let request = front.filter(|id| self.may_send(*id));
        let writes = match self.requests.are_handles_restored() {
            true => self.writes.front(),
            false => None,
        };
        match (request, writes) {
            (None, None) => false,
            (request, Some(order)) if request.is_none_or(|request| order < request) => {
                // Sends no writes made after the front request: a flush there waits only for
                // earlier writes.
                self.send_writes(now, front.unwrap_or(u64::MAX), page, out);
                true
            }
            (None, Some(_)) => false,
            (Some(id), _) => {
                self.send_request(id, page, out);
                true
            }
        }
    }

    /// Returns true if the request need not wait for earlier writes, not even for those that wait
    /// for credit.
    fn may_send(&self, id: u64) -> bool {
        !self.requests.waits_for_writes(id) || self.writes.oldest().is_none_or(|order| order > id)
    }

    /// Appends an acknowledgement if one is due, or if one can go along with other output.
    fn send_ack(&mut self, sends_anyway: bool, out: &mut Vec<u8>) {
        let (wanted, due) = self.connection.receipt.due(&self.options);
        let goes_along = wanted && sends_anyway;
        if !due && !goes_along {
            return;
        }
        // The engine may be waiting for this acknowledgement.
        self.send_gathered |= due;
        let head = AckHead {
            records_received: self.connection.receipt.acknowledge(),
        };
        let mut ack = AckBuilder::begin(out, 0, &head);
        while let Some(subscription) = self.connection.receipt.next_grant() {
            let Some(wire) = self.wires.get_mut(subscription) else {
                continue;
            };
            let more = u64::from(wire.take_grant());
            if more > 0 {
                ack.push(&Grant { subscription, more });
            }
        }
        ack.finish(false);
    }
}
