//! What can be asked of an end at any time.

use trunkline_types::Tick;

use super::fault::StreamFault;
use super::link::Link;
use super::options::LinkOptions;
use super::pairing::Pair;
use crate::message::stream::StreamEnd;
use crate::message::stream::control::encode_bell;
use crate::{Disconnect, FaultCode, Features};

impl<H> Link<H> {
    /// The connection that counts.
    pub fn connection(&self) -> Option<u64> {
        self.session.connection.as_ref().map(|c| c.id)
    }

    /// Whether the two ends are connected.
    pub fn is_connected(&self) -> bool {
        self.session.connection.as_ref().is_some_and(|c| c.is_up)
    }

    /// Since when they are not, though they were.
    pub fn away_since(&self) -> Option<Tick> {
        self.session.away_since
    }

    /// How often a connection that was up was lost.
    pub fn disconnections(&self) -> u64 {
        self.session.disconnections
    }

    /// Why the last connection ended or did not come to be.
    pub fn last_disconnect(&self) -> Option<&Disconnect> {
        self.session.last.as_ref()
    }

    /// Why the stream is over, when it did not come to its end.
    pub fn fault(&self) -> Option<&StreamFault> {
        self.session.fault.as_ref()
    }

    /// Whether nothing more is to be said: at its end, or by a fault.
    pub fn is_over(&self) -> bool {
        self.session.is_over()
    }

    /// What the peer said of itself when the last connection came up.
    pub fn peer(&self) -> Option<&StreamEnd> {
        self.session.peer.as_ref().map(|known| &known.end)
    }

    /// Whether the peer agreed to use one ring, or said that it does, when the last connection came
    /// up, and this end does too.
    pub fn is_shared(&self) -> bool {
        let peer = self.session.peer.as_ref();
        let agrees = peer.is_some_and(|peer| peer.end.features.contains(Features::SHARED_RING));
        agrees && self.session.is_shared
    }

    /// S_BELLs that came over the connection there is.
    pub fn bells(&self) -> u64 {
        self.session.bells
    }

    /// Sends S_BELL, where the two ends are connected.
    pub fn ring_bell(&mut self) {
        if let Some(connection) = self.session.up() {
            encode_bell(&mut connection.out);
        }
    }

    /// The stream is over for a reason that is not the protocol's.
    pub fn fail(&mut self, fault: StreamFault) {
        let sentence = fault.to_string();
        self.session
            .finish(Some(fault), FaultCode::StreamDestroyed, &sentence);
    }

    /// Ends the connection for a reason that is not the protocol's; an end that dials dials again.
    pub fn drop_connection(&mut self, cause: Disconnect) {
        self.session.close(cause);
    }

    /// Whether something has come from the peer since the two met, so that it knows that they did.
    pub fn is_peer_heard(&self) -> bool {
        self.session.peer.as_ref().is_some_and(|peer| peer.is_heard)
    }

    /// What this end shares with its peer, once the two have met.
    pub fn pair(&self) -> Option<&Pair> {
        self.session.pair.as_ref()
    }

    /// What the endpoint was made with.
    pub fn options(&self) -> &LinkOptions {
        &self.session.options
    }
}
