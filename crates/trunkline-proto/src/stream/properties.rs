//! What can be asked of an end at any time.

use trunkline_types::Tick;

use super::fault::StreamFault;
use super::link::Link;
use super::options::LinkOptions;
use crate::Disconnect;
use crate::message::stream::StreamEnd;

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
        self.session.peer.as_ref()
    }

    /// What the endpoint was made with.
    pub fn options(&self) -> &LinkOptions {
        &self.session.options
    }
}
