//! Why a stream is over.

use std::time::Duration;

use crate::{FaultCode, VersionMismatch};

/// Why a stream is over, other than by its end. Shown to people as it is.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamFault {
    /// The other program has destroyed its endpoint.
    #[error("the other end of the stream was destroyed: {sentence}")]
    PeerDestroyed {
        /// Why, in its words.
        sentence: String,
    },
    /// The other endpoint was created anew and knows nothing of this stream.
    #[error(
        "the other end of the stream was restarted, and what was on its way is lost: create this \
         end anew too, or give both a journal"
    )]
    PeerRestarted,
    /// This endpoint was created anew while the other waits for the old one.
    #[error(
        "the other end of the stream still belongs to an earlier run of this program: create that \
         end anew too, or give both a journal"
    )]
    LocalRestarted,
    /// The two ends do not meet any more.
    #[error(
        "{bytes} bytes of the stream are lost: one end no longer has them and the other never got \
         them; create both ends anew"
    )]
    DataLost {
        /// How many.
        bytes: u64,
    },
    /// The versions of the two programs do not meet.
    #[error("{0}")]
    VersionMismatch(VersionMismatch),
    /// The other endpoint, or the directory, does not take this one.
    #[error("the other end of the stream refused: {sentence}")]
    Refused {
        /// What programs match on.
        code: FaultCode,
        /// Why, in its words.
        sentence: String,
    },
    /// The peer was away for as long as this endpoint waits.
    #[error(
        "the other end of the stream has been away for {:.1} s, which is as long as this end waits; \
         {bytes} bytes are still here", away_for.as_secs_f64()
    )]
    PeerGone {
        /// For how long.
        away_for: Duration,
        /// What the writer still keeps, or the reader has not read, in bytes.
        bytes: u64,
    },
    /// This program destroyed the endpoint.
    #[error("this end of the stream was destroyed by this program")]
    Destroyed,
}

impl StreamFault {
    /// What a refusal means to the endpoint that dialled; `None` when dialling again may help.
    /// `is_first`: this endpoint was not connected yet.
    pub(super) fn of_refusal(
        code: FaultCode,
        sentence: &str,
        retry: bool,
        is_first: bool,
    ) -> Option<Self> {
        Some(match code {
            FaultCode::StreamRestarted if is_first => Self::LocalRestarted,
            FaultCode::StreamRestarted => Self::PeerRestarted,
            FaultCode::StreamDestroyed => Self::PeerDestroyed {
                sentence: sentence.to_owned(),
            },
            FaultCode::StreamConnected if retry => return None,
            FaultCode::StreamType
            | FaultCode::StreamDirection
            | FaultCode::StreamPeer
            | FaultCode::StreamConnected
            | FaultCode::StreamDataLost
            | FaultCode::EndpointTaken
            | FaultCode::EndpointNested
            | FaultCode::ContextBusy
            | FaultCode::Denied
            | FaultCode::VersionMismatch => Self::Refused {
                code,
                sentence: sentence.to_owned(),
            },
            _ => return None,
        })
    }
}
