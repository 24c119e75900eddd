//! The reasons why a stream ends with an error.

use std::time::Duration;

use crate::{FaultCode, VersionMismatch};

/// The reason why a stream ended with an error. It is shown to users unchanged.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StreamFault {
    /// The peer's program destroyed its endpoint.
    #[error("the peer destroyed its endpoint of the stream: {sentence}")]
    PeerDestroyed {
        /// The reason that the peer's program gave.
        sentence: String,
    },
    /// The peer was created again and has no record of this stream.
    #[error(
        "the peer was restarted, and the data in transit is lost; create this endpoint again too, or give both endpoints a journal"
    )]
    PeerRestarted,
    /// This endpoint was created again, but the peer expects the previous incarnation.
    #[error(
        "the peer still belongs to an earlier run of this program; create the peer again too, or give both endpoints a journal"
    )]
    LocalRestarted,
    /// The positions of the two ends no longer match.
    #[error(
        "{bytes} bytes of the stream are lost: the writer no longer has them and the reader never received them; create both endpoints again"
    )]
    DataLost {
        /// Number of lost bytes.
        bytes: u64,
    },
    /// The protocol versions of the two programs do not overlap.
    #[error("{0}")]
    VersionMismatch(VersionMismatch),
    /// The peer or the directory refused this endpoint.
    #[error("the peer refused the stream: {sentence}")]
    Refused {
        /// The code for programs to match on.
        code: FaultCode,
        /// The reason that the peer or the directory gave.
        sentence: String,
    },
    /// The peer was disconnected for longer than this endpoint is configured to wait.
    #[error(
        "the peer has been disconnected for {:.1} s, the longest time that this endpoint waits; {bytes} bytes remain at this endpoint", away_for.as_secs_f64()
    )]
    PeerGone {
        /// Time for which the peer was disconnected.
        away_for: Duration,
        /// Number of bytes that the writer still has, or that the reader's program has not read.
        bytes: u64,
    },
    /// The account of the peer may not use the stream any more.
    #[error("the account of the peer has lost its right to use the stream")]
    PeerExcluded,
    /// This program destroyed the endpoint.
    #[error("this program destroyed its endpoint of the stream")]
    Destroyed,
}

impl StreamFault {
    /// Converts a refusal received by the dialling endpoint; returns `None` if dialling again may
    /// succeed. `is_first` is true if this endpoint was never connected before.
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
            // Later, the data waits for the account to get its rights or its key again.
            FaultCode::NotAuthenticated if is_first => Self::Refused {
                code,
                sentence: sentence.to_owned(),
            },
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
