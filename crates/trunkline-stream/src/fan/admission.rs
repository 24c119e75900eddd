//! Admission to an endpoint with several peers, and the refusals.

use std::time::Duration;

use trunkline_net::{Clock, Transport};
use trunkline_proto::message::closing::Refused;
use trunkline_proto::message::stream::seal::is_frame_intact;
use trunkline_proto::message::stream::{EndState, StreamHello};
use trunkline_proto::stream::{ElementForm, LinkOptions};
use trunkline_proto::{FaultCode, FrameBuffer, FrameKind, FrameLimits, VersionRange};

/// Time after which a peer that was refused for lack of room may try again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A refused transport and its refusal.
pub(super) type Away = Box<(Transport, Refused)>;

/// The state of an endpoint that decides on the admission of a new peer.
pub(super) struct Admission<'a> {
    pub(super) own: &'a LinkOptions,
    /// No further peers are admitted.
    pub(super) is_closed: bool,
    /// Current and maximum number of peers.
    pub(super) lanes: usize,
    pub(super) lanes_max: usize,
    /// The kind of peer, in words for people.
    pub(super) peers: &'static str,
    /// Length of the longest element written, including its length prefix.
    pub(super) longest: u64,
}

impl Admission<'_> {
    /// Checks everything that the state machine of a lane cannot see.
    pub(super) fn check(&self, hello: &StreamHello) -> Result<(), Refused> {
        let own = self.own;
        if self.is_closed {
            let code = FaultCode::StreamDestroyed;
            return Err(refused(code, code.meaning().to_owned(), None));
        }
        if hello.peer == Some(own.incarnation) {
            let sentence = format!(
                "{} went on without this one, which was away for longer than it waits or had \
                 left; create this end anew",
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
                "{} has {} {} already, which is as many as it takes at a time; create it with \
                 room for more, or wait until one has left",
                own.url, self.lanes_max, self.peers
            );
            return Err(refused(
                FaultCode::LimitReached,
                sentence,
                Some(RETRY_AFTER),
            ));
        }
        if own.form == ElementForm::Variable && hello.end.bytes_max < self.longest {
            let sentence = format!(
                "{} has written an element of {} bytes, and the buffer of {} holds {}; create that \
                 end with a larger one",
                own.url, self.longest, hello.end.url, hello.end.bytes_max
            );
            return Err(refused(FaultCode::StreamPeer, sentence, None));
        }
        Ok(())
    }
}

/// Refuses an arriving peer.
pub(super) fn away(transport: Transport, refused: Refused) -> Result<(), Away> {
    Err(Box::new((transport, refused)))
}

/// Creates a refusal.
pub(super) fn refused(code: FaultCode, sentence: String, retry_after: Option<Duration>) -> Refused {
    Refused {
        code,
        versions: VersionRange::OURS,
        retry_after,
        sentence,
    }
}

/// The hello of an arriving peer.
pub(super) fn read_hello(bytes: &[u8]) -> Option<StreamHello> {
    let mut rest = bytes;
    let mut frames = FrameBuffer::new(FrameLimits::default());
    let now = Clock::new().now();
    match frames.next_frame(now, &mut rest) {
        Ok(Some(frame)) if frame.kind() == Some(FrameKind::StreamHello) => {
            let hello = StreamHello::decode(&frame).ok();
            hello.filter(|_| is_frame_intact(&frame))
        }
        _ => None,
    }
}

/// The refusal in an end's answer.
pub(super) fn read_refused(answer: &[u8]) -> Option<Refused> {
    let mut rest = answer;
    let mut frames = FrameBuffer::new(FrameLimits::default());
    let now = Clock::new().now();
    match frames.next_frame(now, &mut rest) {
        Ok(Some(frame)) => Refused::decode(&frame).ok(),
        _ => None,
    }
}
