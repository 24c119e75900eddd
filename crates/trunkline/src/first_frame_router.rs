//! A connection whose first frame decides its purpose: the engine's variables, or the endpoints of
//! streams on its machine.

use std::sync::Arc;

use trunkline_net::Notifier;
use trunkline_proto::frame::{FrameHeader, HEADER_BYTES};
use trunkline_proto::{Disconnect, Endpoint, FrameKind};
use trunkline_serve::Session;
use trunkline_stream::directory::{DirectoryHost, DirectorySession, is_first};
use trunkline_types::{Tick, Timestamp};

/// A session of either kind.
pub(crate) struct FirstFrameRouter {
    session: Kind,
    /// The bytes received while the kind is undecided: less than the header of a frame.
    first: Option<Vec<u8>>,
    directory: Arc<DirectoryHost>,
    notifier: Notifier,
    gives_names: bool,
}

/// The kind of session; variables, unless the first frame says otherwise.
#[allow(
    clippy::large_enum_variant,
    reason = "almost all are of the large variant, which is on the way of every update"
)]
enum Kind {
    Variables(Session),
    Streams(Box<DirectorySession>),
}

impl FirstFrameRouter {
    /// `gives_names`: true if a connection can be handed to the process at the other end.
    pub(crate) fn new(
        session: Session,
        directory: Arc<DirectoryHost>,
        notifier: Notifier,
        gives_names: bool,
    ) -> Self {
        Self {
            gives_names,
            session: Kind::Variables(session),
            first: Some(Vec::new()),
            directory,
            notifier,
        }
    }

    /// Decides by the header of the first frame. Returns the received bytes once decided.
    fn decide(&mut self, now: Tick, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut first = self.first.take()?;
        first.extend_from_slice(bytes);
        let Some(header) = first.first_chunk::<HEADER_BYTES>() else {
            self.first = Some(first);
            return None;
        };
        let kind = FrameKind::from_number(FrameHeader::from_bytes(header).kind);
        if kind.is_some_and(is_first) {
            let (directory, notifier) = (Arc::clone(&self.directory), self.notifier.clone());
            let session = DirectorySession::new(directory, notifier, now);
            let session = match self.gives_names {
                true => session,
                false => session.without_names(),
            };
            self.session = Kind::Streams(Box::new(session));
        }
        Some(first)
    }
}

macro_rules! forward {
    ($self:expr, $session:ident => $call:expr) => {
        match $self {
            Kind::Variables($session) => $call,
            Kind::Streams($session) => $call,
        }
    };
}

impl Endpoint for FirstFrameRouter {
    fn handle_connected(&mut self, now: Tick, wall: Timestamp) {
        forward!(&mut self.session, session => session.handle_connected(now, wall));
    }

    fn handle_input(&mut self, now: Tick, wall: Timestamp, bytes: &[u8]) {
        if self.first.is_some() {
            if let Some(first) = self.decide(now, bytes) {
                forward!(&mut self.session, session => session.handle_input(now, wall, &first));
            }
            return;
        }
        forward!(&mut self.session, session => session.handle_input(now, wall, bytes));
    }

    fn wants_input(&self) -> bool {
        forward!(&self.session, session => session.wants_input())
    }

    fn poll_output(
        &mut self,
        now: Tick,
        wall: Timestamp,
        budget: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        forward!(&mut self.session, session => session.poll_output(now, wall, budget, out))
    }

    fn lets_writers_send(&self) -> bool {
        forward!(&self.session, session => session.lets_writers_send())
    }

    fn poll_timeout(&self) -> Option<Tick> {
        forward!(&self.session, session => session.poll_timeout())
    }

    fn handle_timeout(&mut self, now: Tick, wall: Timestamp) {
        forward!(&mut self.session, session => session.handle_timeout(now, wall));
    }

    fn handle_disconnected(&mut self, now: Tick, cause: Disconnect) {
        forward!(&mut self.session, session => session.handle_disconnected(now, cause));
    }

    fn wants_close(&self) -> Option<Disconnect> {
        forward!(&self.session, session => session.wants_close())
    }

    fn is_in_handshake(&self) -> bool {
        forward!(&self.session, session => session.is_in_handshake())
    }

    fn wants_handover(&self) -> Option<u64> {
        forward!(&self.session, session => session.wants_handover())
    }
}
