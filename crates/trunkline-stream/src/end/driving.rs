//! Implements the interface through which the network link drives an endpoint.

use trunkline_proto::message::stream::directory::PeerGrant;
use trunkline_proto::{Channel, DirectBytes, Disconnect, EndKeys, Endpoint};
use trunkline_types::{Tick, Timestamp};

use super::peer_lookup::{LookupAnswer, PeerLookup};
use super::{ACTIVE_TIME, EndpointRole, GATHER_BYTES, GATHER_TIME, StopPolling, StreamEndpoint};

impl<S: EndpointRole> Endpoint for StreamEndpoint<S> {
    fn handle_channel(&mut self, channel: &Channel) {
        self.channel = channel.clone();
    }

    fn handle_connected(&mut self, now: Tick, _: Timestamp) {
        self.transport = self.transport.wrapping_add(1);
        self.has_dialled = true;
        self.end_keys = None;
        self.ticket = None;
        self.forget_output();
        // An endpoint without a target only accepts connections.
        self.lookup = self
            .target
            .as_ref()
            .map(|target| PeerLookup::begin(target, &self.channel, now));
    }

    fn handle_input(&mut self, now: Tick, _: Timestamp, bytes: &[u8]) {
        let mut rest = bytes;
        if let Some(lookup) = &mut self.lookup {
            match lookup.handle_input(now, &mut rest) {
                LookupAnswer::Nothing => return,
                LookupAnswer::Ticket(ticket) => {
                    self.lookup = None;
                    self.poll_ring();
                    self.offer_sharing();
                    let transport = self.transport;
                    self.link.handle_dialled(now, transport, Some(ticket));
                }
                LookupAnswer::Peer(PeerGrant { ticket, key }) => {
                    self.lookup = None;
                    let login = self
                        .target
                        .as_ref()
                        .and_then(|target| target.login.as_ref());
                    self.end_keys = login.map(|login| EndKeys {
                        own_seed: login.own_seed.clone(),
                        peer: key,
                    });
                    self.poll_ring();
                    self.link.set_shared(false);
                    self.link.handle_dialled(now, self.transport, Some(ticket));
                    // The engine sends nothing after its answer.
                    return;
                }
                LookupAnswer::Refused(refused) => {
                    self.link.handle_lookup_refused(now, &refused);
                    self.note_over();
                    return;
                }
            }
        }
        // The peer's acknowledgements refer to data in the shared ring, so poll the ring first.
        self.poll_ring();
        self.handle_stream_bytes(now, rest);
    }

    fn poll_output(&mut self, now: Tick, _: Timestamp, _: usize, out: &mut Vec<u8>) -> bool {
        if let Some(lookup) = &mut self.lookup {
            lookup.poll_output(out);
            return false;
        }
        if std::mem::take(&mut self.is_sending) {
            self.inner.end_sending();
            self.region = None;
            self.link.handle_sent(self.transport);
        }
        let before = out.len();
        loop {
            let is_due = self.gather_until.is_none_or(|until| until <= now);
            if is_due || self.inner.unpolled_bytes(&self.link) >= GATHER_BYTES {
                self.poll_ring();
            }
            let place = self.link.poll_output(now, &self.inner, out);
            self.inner.begin_sending(&self.link, place);
            self.inner.apply_progress(&mut self.link);
            if place.is_some() {
                self.last_data_at = now;
                self.gather_until =
                    (!self.program_announces_writes).then(|| now.saturating_add(GATHER_TIME));
            }
            self.region = place.map(|place| (place, 0));
            self.is_sending = out.len() > before;
            if self.is_sending {
                return true;
            }
            if !is_due {
                return false;
            }
            let is_active = now < self.last_data_at.saturating_add(ACTIVE_TIME);
            let stop = match is_active {
                true if self.program_announces_writes => StopPolling::Yes,
                true => StopPolling::Requested,
                false => self.inner.stop_polling(&self.link),
            };
            self.gather_until =
                (stop == StopPolling::Requested).then(|| now.saturating_add(GATHER_TIME));
            if stop != StopPolling::Found {
                return false;
            }
        }
    }

    fn poll_timeout(&self) -> Option<Tick> {
        if let Some(lookup) = &self.lookup {
            // The timeout for a peer that was connected earlier also applies during the lookup.
            let lookup = Some(lookup.poll_timeout());
            return lookup.into_iter().chain(self.link.poll_timeout()).min();
        }
        // While the transport accepts nothing, timers that would produce more output are suspended.
        let (link, gather) = match self.is_sending {
            true => (self.link.poll_timeout_while_sending(), None),
            false => (self.link.poll_timeout(), self.gather_until),
        };
        let gather = gather.filter(|_| self.link.is_connected());
        [link, gather, self.idle_at].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Tick, _: Timestamp) {
        if let Some(lookup) = &mut self.lookup {
            lookup.handle_timeout(now);
        }
        self.link.handle_timeout(now);
        self.note_over();
        self.check_idle(now);
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        self.forget_output();
        match self.lookup.take() {
            Some(lookup) if !lookup.is_refused() => self.link.handle_dial_failed(now, cause),
            Some(_) => {}
            None if self.link.connection().is_none() => {
                self.link.handle_dial_failed(now, cause);
            }
            None => self.link.handle_disconnected(now, self.transport, cause),
        }
        self.note_over();
    }

    fn wants_close(&self) -> Option<Disconnect> {
        match &self.lookup {
            // If the stream is over, the lookup is no longer needed.
            Some(lookup) => {
                let closed = self.link.is_over().then_some(Disconnect::ClosedLocally);
                lookup.wants_close().or(closed)
            }
            None => self.link.wants_close().cloned(),
        }
    }

    fn poll_dial(&self) -> Option<Tick> {
        self.link.poll_dial().filter(|_| self.may_dial)
    }

    fn take_end_keys(&mut self) -> Option<EndKeys> {
        self.end_keys.take()
    }

    fn direct(&mut self) -> Option<&mut dyn DirectBytes> {
        Some(self)
    }
}

impl<S: EndpointRole> DirectBytes for StreamEndpoint<S> {
    fn region(&mut self) -> &[u8] {
        let Some((place, sent)) = self.region else {
            return &[];
        };
        let remaining = place.len.saturating_sub(sent);
        if remaining == 0 {
            return &[];
        }
        self.inner
            .sending_bytes(place.position.saturating_add(sent), remaining)
    }

    fn handle_sent(&mut self, _: Tick, count: usize) {
        if let Some((_, sent)) = &mut self.region {
            *sent = sent.saturating_add(count as u64);
        }
    }

    fn space(&mut self) -> &mut [u8] {
        match S::payload_place(&self.link) {
            Some(place) if self.lookup.is_none() => self.inner.space(place),
            _ => &mut [],
        }
    }

    fn handle_received(&mut self, now: Tick, count: usize) {
        if let Some(place) = S::payload_place(&self.link) {
            self.handle_payload(now, place, count);
            self.inner.apply_progress(&mut self.link);
        }
    }
}
