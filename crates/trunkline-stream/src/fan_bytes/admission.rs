//! Decides whether an endpoint with several peers admits a new peer.

use std::time::Duration;

use trunkline_net::Transport;
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::control::encode_refused;
use trunkline_proto::message::stream::{EndState, StreamHello};
use trunkline_proto::stream::{ElementForm, LinkOptions};
use trunkline_proto::{FaultCode, VersionRange};

/// Time after which a peer that was refused for lack of room may try again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A refused transport, and the answer to send over it.
pub(super) type Rejected = Box<(Transport, Vec<u8>)>;

/// The state of an endpoint that decides on the admission of a new peer.
pub(super) struct Admission<'a> {
    pub(super) own: &'a LinkOptions,
    pub(super) is_closed: bool,
    pub(super) lanes: usize,
    pub(super) lanes_max: usize,
    /// The plural noun for the peers in messages: "readers" or "writers".
    pub(super) peers: &'static str,
    /// Length of the longest element written, including its length prefix.
    pub(super) longest: u64,
}

impl Admission<'_> {
    /// Checks everything that the state machine of a lane cannot check.
    pub(super) fn check(&self, hello: &StreamHello) -> Result<(), Refused> {
        let own = self.own;
        if self.is_closed {
            let code = FaultCode::StreamDestroyed;
            return Err(refused(code, code.meaning().to_owned(), None));
        }
        if hello.peer == Some(own.incarnation) {
            let sentence = format!(
                "{} continued without this endpoint, which had left or was disconnected for too \
                 long; create this endpoint again",
                own.url
            );
            return Err(refused(FaultCode::StreamDestroyed, sentence, None));
        }
        let has_begun = match hello.end.state {
            EndState::Reader(at) => at.arrived > 0,
            EndState::Writer(_) => false,
        };
        if hello.peer.is_some() || has_begun {
            let code = FaultCode::StreamRestarted;
            return Err(refused(code, code.meaning().to_owned(), None));
        }
        if self.lanes >= self.lanes_max {
            let sentence = format!(
                "{} already has the maximum number of {}, {}; create it with a larger maximum, or \
                 wait until one of them has left",
                own.url, self.peers, self.lanes_max
            );
            return Err(refused(
                FaultCode::LimitReached,
                sentence,
                Some(RETRY_AFTER),
            ));
        }
        if own.form == ElementForm::Variable && hello.end.bytes_max < self.longest {
            let sentence = format!(
                "{} has written an element of {} bytes, but the buffer of {} holds only {} bytes; \
                 create this reader with a larger buffer",
                own.url, self.longest, hello.end.url, hello.end.bytes_max
            );
            return Err(refused(FaultCode::StreamPeer, sentence, None));
        }
        Ok(())
    }
}

/// Refuses an arriving peer.
pub(super) fn reject(transport: Transport, refused: &Refused) -> Result<(), Rejected> {
    let mut answer = Vec::new();
    encode_refused(refused, &mut answer);
    Err(Box::new((transport, answer)))
}

pub(super) fn refused(code: FaultCode, sentence: String, retry_after: Option<Duration>) -> Refused {
    Refused {
        code,
        versions: VersionRange::OURS,
        retry_after,
        sentence,
    }
}
