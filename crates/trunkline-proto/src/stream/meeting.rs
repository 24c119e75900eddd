//! Checks that two endpoints are compatible, and determines how a peer relates to the previous peer.

use trunkline_types::StreamUrl;

use super::options::LinkOptions;
use crate::message::stream::directory::Identity;
use crate::message::stream::{EndState, Incarnation, StreamEnd};
use crate::{Fault, FaultCode, Features};

/// How the peer of a new connection relates to the previous peer of this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    /// The first peer of this endpoint.
    First,
    /// The same incarnation of the previous peer, over a new connection.
    Again,
    /// The next incarnation of the previous peer, which continues from its journal.
    NextIncarnation,
    /// Another endpoint, which replaces the previous peer.
    Successor,
}

/// The reason why two endpoints cannot continue their stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mismatch {
    /// The peer's description of itself is inconsistent.
    Nonsense(String),
    /// This number of bytes is lost: neither end has them.
    Lost(u64),
    /// The peer's buffer may be too small for the next elements.
    TooSmall(String),
}

/// Checks the properties that must be equal or complementary at the two ends.
pub(super) fn check(options: &LinkOptions, is_writer: bool, peer: &StreamEnd) -> Result<(), Fault> {
    let peer_writes = matches!(peer.state, EndState::Writer(_));
    if peer_writes == is_writer {
        let verb = if is_writer { "write" } else { "read" };
        let sentence = format!(
            "{} and {} both {verb}; create one as the writer and the other as the reader",
            options.url, peer.url
        );
        return Err(Fault::new(FaultCode::StreamDirection, sentence));
    }
    let accepts_peer = options.peer_url.is_empty() || is_name_of(&options.peer_url, &peer.url);
    let is_accepted = peer.peer_url.is_empty() || is_name_of(&peer.peer_url, &options.url);
    if !accepts_peer || !is_accepted {
        let (expected, found) = if accepts_peer {
            (&peer.peer_url, &options.url)
        } else {
            (&options.peer_url, &peer.url)
        };
        let sentence = format!(
            "the expected peer is {expected}, not {found}; correct the peer URL of one of the two \
             endpoints"
        );
        return Err(Fault::new(FaultCode::StreamPeer, sentence));
    }
    if is_writer && options.drops && !peer.features.contains(Features::DROPS) {
        let sentence = format!(
            "the writer {} may drop elements for a slow reader, but {} cannot handle dropped \
             elements, because it has a journal or an older version; configure the writer to wait \
             for the slowest reader",
            options.url, peer.url
        );
        return Err(Fault::new(FaultCode::StreamPeer, sentence));
    }
    if peer.data_type != options.data_type {
        let sentence = format!(
            "the elements of {} are of type {}, but those of {} are of type {}; create both \
             endpoints with the same type",
            options.url, options.data_type, peer.url, peer.data_type
        );
        return Err(Fault::new(FaultCode::StreamType, sentence));
    }
    if peer.capacity == 0 || peer.bytes_max == 0 {
        let sentence = format!("the buffer of {} has no capacity", peer.url);
        return Err(Fault::new(FaultCode::Malformed, sentence));
    }
    Ok(())
}

/// Checks that the peer is an incarnation of the peer recorded in the journal.
pub(super) fn check_lineage(options: &LinkOptions, peer: &StreamEnd) -> Result<(), Fault> {
    let is_other = options
        .peer_lineage
        .is_some_and(|known| known != lineage(peer.incarnation));
    if !is_other || options.accepts_successor {
        return Ok(());
    }
    let sentence = format!(
        "{} continues a stream from its journal, but {} has no data of that stream: its journal \
         was removed, or it never had one; remove the journal of {} too, and create both endpoints \
         again",
        options.url, peer.url, options.url
    );
    Err(Fault::new(FaultCode::StreamRestarted, sentence))
}

/// Returns the part of an incarnation that is the same in all incarnations of an endpoint with a
/// journal.
pub fn lineage(incarnation: Incarnation) -> [u8; 8] {
    let mut lineage = [0; 8];
    lineage.copy_from_slice(&incarnation.0[8..]);
    lineage
}

/// Returns true if the URL `named` refers to the endpoint that calls itself `url`. Only context and
/// name are compared, because a machine does not know all of its own host names; the established
/// connection shows that the host is correct.
pub(super) fn is_name_of(named: &str, url: &str) -> bool {
    match (StreamUrl::parse(named), StreamUrl::parse(url)) {
        (Ok(named), Ok(url)) => named.endpoint() == url.endpoint(),
        _ => named == url,
    }
}

/// Decides which of two endpoints that name each other opens the connections: the one with the
/// lesser context and name or, if these are equal, the lesser incarnation. Both ends get the same
/// result.
pub(super) fn opens_connections(own: (&str, Incarnation), peer: (&str, Incarnation)) -> bool {
    let urls = (StreamUrl::parse(own.0), StreamUrl::parse(peer.0));
    match &urls {
        (Ok(a), Ok(b)) => (a.endpoint(), own.1.0) < (b.endpoint(), peer.1.0),
        _ => (own.0, own.1.0) < (peer.0, peer.1.0),
    }
}

/// The peer of the last established connection.
#[derive(Clone, Debug)]
pub(super) struct KnownPeer {
    pub(super) end: StreamEnd,
    /// The relation of the peer when it first connected.
    pub(super) meeting: Meeting,
    /// True once the peer has sent something over an established connection, which shows that the
    /// peer has received the welcome. A peer that gave up before the welcome arrived sends nothing.
    pub(super) is_confirmed: bool,
    /// Who has opened the connection; `None` if it is unknown, or if this endpoint has dialled.
    pub(super) identity: Identity,
}

impl KnownPeer {
    /// Returns true if another endpoint of this identity may take the place of the peer. The secret does
    /// not show that, because a new endpoint does not have it.
    pub(super) fn is_succeeded_by(&self, identity: &Identity) -> bool {
        self.identity.is_none() || self.identity == *identity
    }

    /// Returns true if the peer may have given up before the welcome arrived. Another endpoint can
    /// then still become the first peer.
    pub(super) fn may_have_given_up(&self) -> bool {
        !self.is_confirmed && self.meeting == Meeting::First
    }
}

/// Determines how a peer relates to the previous peer. Returns `None` if the peer cannot replace the
/// previous peer.
pub(super) fn meet(
    options: &LinkOptions,
    known: Option<&KnownPeer>,
    peer: &StreamEnd,
) -> Option<Meeting> {
    let Some(known) = known else {
        let is_of_journal = options.peer_lineage == Some(lineage(peer.incarnation));
        return Some(match is_of_journal {
            true => Meeting::NextIncarnation,
            false => Meeting::First,
        });
    };
    let previous = &known.end;
    let is_next = lineage(previous.incarnation) == lineage(peer.incarnation);
    if previous.incarnation == peer.incarnation {
        // A successor that has not received the welcome does not know its position yet.
        let is_new = !known.is_confirmed && known.meeting == Meeting::Successor;
        Some(match is_new {
            true => Meeting::Successor,
            false => Meeting::Again,
        })
    } else if peer.has_journal && previous.has_journal && is_next {
        Some(Meeting::NextIncarnation)
    } else if options.accepts_successor {
        Some(Meeting::Successor)
    } else {
        known.may_have_given_up().then_some(Meeting::First)
    }
}

/// Returns true if a peer claims to be the previous peer, or the next incarnation of the previous
/// peer, continuing from a journal. This does not verify the claim.
pub(super) fn claims_to_be_known(
    options: &LinkOptions,
    known: Option<&KnownPeer>,
    peer: &StreamEnd,
) -> bool {
    let Some(known) = known else {
        return options.peer_lineage == Some(lineage(peer.incarnation));
    };
    let previous = &known.end;
    let is_next = peer.has_journal
        && previous.has_journal
        && lineage(previous.incarnation) == lineage(peer.incarnation);
    is_next || previous.incarnation == peer.incarnation
}

/// Returns an incarnation that matches every incarnation of this lineage.
pub(super) fn any_incarnation(lineage: [u8; 8]) -> Incarnation {
    let mut any = Incarnation::default();
    any.0[8..].copy_from_slice(&lineage);
    any
}

/// Returns true if the dialling endpoint addresses this incarnation, or another incarnation with the
/// same journal. `None` addresses any incarnation.
pub(super) fn addresses_this_incarnation(
    options: &LinkOptions,
    addressed: Option<Incarnation>,
) -> bool {
    let own = options.incarnation;
    addressed.is_none_or(|incarnation| {
        let is_next = options.has_journal && lineage(incarnation) == lineage(own);
        incarnation == own || incarnation == any_incarnation(lineage(own)) || is_next
    })
}
