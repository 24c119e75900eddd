//! Properties of an end that can be read at any time.

use trunkline_types::Tick;

use super::fault::StreamFault;
use super::link::Link;
use super::options::LinkOptions;
use super::pairing::Pair;
use crate::message::single::encode_empty;
use crate::message::stream::StreamEnd;
use crate::{Disconnect, FaultCode, Features, FrameKind};

impl<H> Link<H> {
    pub fn connection(&self) -> Option<u64> {
        self.session.connection.as_ref().map(|c| c.id)
    }

    pub fn is_connected(&self) -> bool {
        self.session.connection.as_ref().is_some_and(|c| c.is_up)
    }

    /// The time at which the connection was lost; `None` if connected or never connected.
    pub fn away_since(&self) -> Option<Tick> {
        self.session.away_since
    }

    /// Number of times that an established connection ended, also with its stream.
    pub fn disconnections(&self) -> u64 {
        self.session.disconnections
    }

    /// The reason why the last connection ended or was not established.
    pub fn last_disconnect(&self) -> Option<&Disconnect> {
        self.session.last.as_ref()
    }

    /// The reason why the stream ended other than in order.
    pub fn fault(&self) -> Option<&StreamFault> {
        self.session.fault.as_ref()
    }

    /// Returns true if the stream is over, in order or by a fault.
    pub fn is_over(&self) -> bool {
        self.session.is_over()
    }

    /// The peer's description of itself when the last connection came up.
    pub fn peer(&self) -> Option<&StreamEnd> {
        self.session.peer.as_ref().map(|known| &known.end)
    }

    /// Returns true if this end shares a ring and the peer agreed to it, or confirmed it, when the
    /// last connection came up.
    pub fn is_shared(&self) -> bool {
        let peer = self.session.peer.as_ref();
        let agrees = peer.is_some_and(|peer| peer.end.features.contains(Features::SHARED_RING));
        agrees && self.session.is_shared
    }

    /// Number of S_BELLs received over the current connection.
    pub fn bells(&self) -> u64 {
        self.session.bells
    }

    /// Sends S_BELL if the two ends are connected.
    pub fn ring_bell(&mut self) {
        if let Some(connection) = self.session.up() {
            encode_empty(FrameKind::StreamBell, 0, &mut connection.out);
        }
    }

    /// Ends the stream for a reason outside the protocol.
    pub fn fail(&mut self, fault: StreamFault) {
        let sentence = fault.to_string();
        self.session
            .finish(Some(fault), FaultCode::StreamDestroyed, &sentence);
    }

    /// Ends the connection for a reason outside the protocol; an end that dials will dial again.
    pub fn drop_connection(&mut self, cause: Disconnect) {
        self.session.close(cause);
    }

    /// Returns true if something has come from the peer since the two met, so that it knows of it.
    pub fn is_peer_heard(&self) -> bool {
        self.session.peer.as_ref().is_some_and(|peer| peer.is_heard)
    }

    /// The pair that this end forms with its peer, once the two have met.
    pub fn pair(&self) -> Option<&Pair> {
        self.session.pair.as_ref()
    }

    pub fn options(&self) -> &LinkOptions {
        &self.session.options
    }
}
