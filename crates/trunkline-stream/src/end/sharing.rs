//! Starts and stops the sharing of one ring by both ends of a stream.

use std::os::fd::OwnedFd;

use trunkline_proto::message::stream::{StreamEnd, StreamHello};
use trunkline_proto::stream::StreamFault;
use trunkline_proto::{Disconnect, FaultCode, Features};
use trunkline_ring::{Corrupt, RingStart};

use super::one_ring::SharedRing;
use super::{EndpointRole, StreamEndpoint};

impl<S: EndpointRole> StreamEndpoint<S> {
    /// Returns true if both ends have connected and have agreed on a ring, so that the program can
    /// start. A peer with little to send may already have disconnected by then.
    pub(crate) fn is_ready(&self) -> bool {
        let is_agreed = self.inner.shared().is_none_or(|shared| shared.is_confirmed);
        (self.link.is_connected() || self.link.peer().is_some()) && is_agreed
    }

    pub(crate) fn without_sharing(mut self) -> Self {
        self.cannot_share = true;
        self
    }

    /// Offers to share a ring, if possible. Called before a dialling endpoint sends S_HELLO.
    pub(super) fn offer_sharing(&mut self) {
        let is_first = self.link.peer().is_none();
        let may_offer = is_first && !self.cannot_share && self.can_receive_file();
        let is_shared = self.inner.shared().is_some();
        self.link.set_shared(is_shared || may_offer);
    }

    fn can_receive_file(&self) -> bool {
        self.descriptors
            .as_ref()
            .is_some_and(|descriptors| descriptors.is_open())
    }

    /// Creates a ring if the peer has offered to share one. Called before a dialled endpoint answers
    /// S_HELLO. Returns the ring, and the file to send with the answer. `is_local` is true if the
    /// transport can carry the file.
    pub(super) fn prepare_sharing(
        &mut self,
        hello: &StreamHello,
        is_local: bool,
    ) -> Option<(SharedRing, OwnedFd)> {
        let StreamHello { end, peer, .. } = hello;
        let offers = end.features.contains(Features::SHARED_RING);
        let sharing_peer = self.inner.shared().map(|shared| shared.peer);
        // A peer that has been answered at least once has the ring.
        let has_ring = offers && sharing_peer == Some(end.incarnation) && peer.is_some();
        let is_first = self.link.peer().is_none() || !self.is_ring_in_use();
        // The same rule as for an endpoint's own ring.
        let is_preallocated = !self.inner.releases_idle_memory();
        let new_ring = (offers && is_local && is_first && !has_ring && !self.cannot_share)
            .then(|| SharedRing::create(self.link.options(), end, is_preallocated).ok())
            .flatten();
        self.link.set_shared(has_ring || new_ring.is_some());
        new_ring
    }

    /// Returns true if the program may have used the current ring.
    fn is_ring_in_use(&self) -> bool {
        self.inner.shared().is_none_or(|shared| shared.is_confirmed)
    }

    /// Starts, continues or stops sharing. Called when a dialled connection is established.
    pub(super) fn begin_sharing(&mut self, new_ring: Option<SharedRing>) {
        if let Some(shared) = new_ring {
            *self.inner.shared_mut() = Some(shared);
        } else if self.link.is_shared() {
            self.confirm();
        } else {
            self.stop_sharing();
        }
    }

    /// Confirms, starts or stops sharing. Called when a connection is established, or when the peer
    /// has signalled a change of the ring.
    pub(super) fn follow_sharing(&mut self) {
        if self.link.bells() > 0 {
            self.confirm();
        }
        if !self.link.is_connected() || !self.has_dialled {
            return;
        }
        if !self.link.is_shared() {
            self.stop_sharing();
        } else if self.inner.shared().is_none() {
            self.map_ring();
        }
    }

    fn confirm(&mut self) {
        if let Some(shared) = self.inner.shared_mut() {
            shared.is_confirmed = true;
        }
    }

    /// Maps the ring whose file the peer has sent with its answer.
    fn map_ring(&mut self) {
        let file = self.descriptors.as_ref().and_then(|d| d.take());
        let peer: Option<StreamEnd> = self.link.peer().cloned();
        let mapped = match (file, peer) {
            (Some(file), Some(peer)) => {
                SharedRing::accept(file, self.link.options(), &peer).map_err(Disconnect::from)
            }
            _ => Err(Disconnect::Malformed {
                sentence: "the peer agreed to share memory but did not send it".to_owned(),
            }),
        };
        match mapped {
            Ok(shared) => {
                *self.inner.shared_mut() = Some(shared);
                self.link.ring_bell();
            }
            Err(cause) => {
                // The next connection will not share a ring.
                self.cannot_share = true;
                self.link.set_shared(false);
                self.link.drop_connection(cause);
            }
        }
    }

    /// Stops sharing after another peer has replaced the peer that shared the ring. From then on,
    /// this process uses both ends of the ring, and sends the ring's contents over the connection.
    fn stop_sharing(&mut self) {
        let Some(mut shared) = self.inner.shared_mut().take() else {
            return;
        };
        if !shared.is_confirmed {
            return;
        }
        let place = |(position, elements)| RingStart { position, elements };
        match shared.positions() {
            Ok((written, read)) => {
                self.inner
                    .take_over(&shared.memory, place(written), place(read));
            }
            Err(corrupt) => self.give_up(corrupt),
        }
    }

    /// Ends the stream because the other program wrote invalid data into the shared memory.
    pub(super) fn give_up(&mut self, Corrupt: Corrupt) {
        let sentence = "the other program wrote invalid positions into the stream's shared \
                        memory; it is faulty or malicious";
        self.link.fail(StreamFault::Refused {
            code: FaultCode::Malformed,
            sentence: sentence.to_owned(),
        });
    }
}
