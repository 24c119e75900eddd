//! Reports the events of the peers, for an endpoint that can have several peers.

use std::sync::Arc;

use trunkline::stream::{
    Member, PeerStatus, Properties, RunEnd, StreamError, StreamFault, Undelivered,
};
use trunkline_types::DataType;

use super::events::StreamEvent;
use crate::counted;

/// A reader or a writer, with one peer or several.
pub(super) trait Endpoint {
    fn properties(&self) -> Properties;

    /// Returns true if the endpoint can have several peers.
    fn allows_many_peers(&self) -> bool;

    /// Returns the events of the peers since the last call; none for an endpoint with one peer.
    fn peer_events(&mut self) -> Vec<PeerEvent>;

    /// Describes the peers for the progress line; empty for an endpoint with one peer.
    fn peers(&mut self) -> String;
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum PeerEvent {
    /// A peer has connected. With `has_same_name`, another connected writer has the same name.
    Connected {
        member: Arc<Member>,
        has_same_name: bool,
    },
    /// A reader has left, or was disconnected at the end. The value counts the elements that it lacks.
    ReaderLeft(Undelivered),
    /// A writer has ended, after this number of elements was read from it.
    WriterEnded {
        member: Arc<Member>,
        elements: u64,
        end: RunEnd,
    },
}

/// Returns the error of a writer that ended without being closed.
pub(super) fn error_of(end: &RunEnd) -> Option<StreamError> {
    match end {
        RunEnd::Closed => None,
        RunEnd::Aborted { missing, reason } => Some(StreamError::Aborted {
            missing: *missing,
            reason: reason.clone(),
        }),
        RunEnd::Fault(fault) => Some(fault.clone().into()),
    }
}

impl PeerEvent {
    pub(super) fn event(&self, url: &str, data_type: &DataType) -> StreamEvent {
        let url = url.to_owned();
        match self {
            PeerEvent::Connected {
                member,
                has_same_name,
            } => StreamEvent::StreamConnected {
                url,
                peer: member.url.clone(),
                transport: None,
                data_type: data_type.to_string(),
                same_name: *has_same_name,
                is_again: false,
            },
            PeerEvent::ReaderLeft(undelivered) => StreamEvent::StreamReader {
                url,
                peer: undelivered.member.url.clone(),
                left: undelivered.left.elements,
                in_doubt: undelivered.left.in_doubt,
                lost: undelivered.lost,
                why: undelivered.fault.clone().map(StreamError::from).into(),
            },
            PeerEvent::WriterEnded {
                member,
                elements,
                end,
            } => StreamEvent::StreamWriter {
                url,
                peer: member.url.clone(),
                elements: *elements,
                why: error_of(end).into(),
            },
        }
    }
}

pub(super) fn readers_text(readers: &[PeerStatus]) -> String {
    let mut text = format!(" · {}", counted(readers.len() as u64, "reader"));
    for reader in readers.iter().filter(|reader| reader.lost > 0) {
        let lost = format!(" · {} lost {}", reader.member.url, reader.lost);
        text.push_str(&lost);
    }
    text
}

/// Returns true if a reader that left with this fault was destroyed by its own program.
pub(super) fn is_voluntary(fault: &StreamFault) -> bool {
    matches!(fault, StreamFault::PeerDestroyed { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trunkline::stream::Left;

    fn member(number: u64) -> Arc<Member> {
        Arc::new(Member {
            number,
            url: format!("tl://localhost/m{number}"),
            program: "trunkline".to_owned(),
            incarnation: [0; 16],
        })
    }

    #[test]
    fn progress_shows_losses_per_reader() {
        let present = |number, lost| PeerStatus {
            member: member(number),
            is_connected: true,
            waiting: 0,
            lost,
        };
        assert_eq!(readers_text(&[]), " · 0 readers");
        assert_eq!(
            readers_text(&[present(1, 0), present(2, 120)]),
            " · 2 readers · tl://localhost/m2 lost 120"
        );
    }

    #[test]
    fn missing_elements_of_a_departed_reader_are_reported_with_the_reason() {
        let mut undelivered = Undelivered {
            member: member(3),
            left: Left {
                elements: 5,
                in_doubt: 2,
            },
            lost: 7,
            fault: None,
        };
        let text = |undelivered: &Undelivered| {
            let event = PeerEvent::ReaderLeft(undelivered.clone());
            event
                .event("tl://localhost/out", &DataType::F64)
                .to_string()
        };
        assert_eq!(
            text(&undelivered),
            "tl://localhost/m3: 5 elements not delivered (2 in transit); the reader was too slow \
             and lost 7"
        );
        undelivered.fault = Some(StreamFault::PeerRestarted);
        undelivered.lost = 0;
        let text = text(&undelivered);
        let beginning = "tl://localhost/m3 has left: 5 elements had not arrived (2 in transit); ";
        assert!(
            text.starts_with(beginning) && text.len() > beginning.len(),
            "{text}"
        );
    }
}
