//! Starting and stopping the use of one ring by both ends.

use std::os::fd::OwnedFd;

use trunkline_proto::message::stream::{StreamEnd, StreamHello};
use trunkline_proto::stream::StreamFault;
use trunkline_proto::{Disconnect, FaultCode, Features};
use trunkline_ring::{Corrupt, RingStart};

use super::one_ring::SharedRing;
use super::{EndpointRole, StreamEndpoint};

impl<S: EndpointRole> StreamEndpoint<S> {
    /// Returns true if both ends have connected and have agreed on a ring, so that their programs
    /// may begin. A peer with little to send may already have left by this time.
    pub(crate) fn is_ready(&self) -> bool {
        let is_settled = self.inner.shared().is_none_or(|shared| shared.is_confirmed);
        (self.link.is_connected() || self.link.peer().is_some()) && is_settled
    }

    pub(crate) fn without_sharing(mut self) -> Self {
        self.cannot_share = true;
        self
    }

    /// Called before an endpoint that dials sends its hello.
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

    /// Called before an endpoint that was dialled answers a hello. Returns the ring, and its file
    /// to send with the answer. `is_local`: the transport can carry the file.
    pub(super) fn prepare_sharing(
        &mut self,
        hello: &StreamHello,
        is_local: bool,
    ) -> Option<(SharedRing, OwnedFd)> {
        let StreamHello { end, peer, .. } = hello;
        let wants = end.features.contains(Features::SHARED_RING);
        let known = self.inner.shared().map(|shared| shared.peer);
        // A peer that has been answered at least once has the ring.
        let has_it = wants && known == Some(end.incarnation) && peer.is_some();
        let is_first = self.link.peer().is_none() || !self.is_begun();
        // The same rule as for an endpoint's own ring.
        let is_touched = !self.inner.releases_idle_memory();
        let fresh = (wants && is_local && is_first && !has_it && !self.cannot_share)
            .then(|| SharedRing::create(self.link.options(), end, is_touched).ok())
            .flatten();
        self.link.set_shared(has_it || fresh.is_some());
        fresh
    }

    /// Returns true if the program may have used the current ring.
    fn is_begun(&self) -> bool {
        self.inner.shared().is_none_or(|shared| shared.is_confirmed)
    }

    /// Called when a connection to this endpoint is established.
    pub(super) fn begin_sharing(&mut self, fresh: Option<SharedRing>) {
        if let Some(shared) = fresh {
            *self.inner.shared_mut() = Some(shared);
        } else if self.link.is_shared() {
            self.confirm();
        } else {
            self.leave();
        }
    }

    /// Called when a connection is established, or a bell has arrived.
    pub(super) fn follow_sharing(&mut self) {
        if self.link.bells() > 0 {
            self.confirm();
        }
        if !self.link.is_connected() || !self.dials {
            return;
        }
        if !self.link.is_shared() {
            self.leave();
        } else if self.inner.shared().is_none() {
            self.map_ring();
        }
    }

    fn confirm(&mut self) {
        if let Some(shared) = self.inner.shared_mut() {
            shared.is_confirmed = true;
        }
    }

    /// Maps the ring whose file the other end has sent with its answer.
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

    /// Called when another peer has replaced the one that shared the ring. From here on, this
    /// process uses both ends of the ring, and its contents go over the connection.
    fn leave(&mut self) {
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
