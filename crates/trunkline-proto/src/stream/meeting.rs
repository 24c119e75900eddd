//! Checks that two endpoints are compatible, and determines their relation to each other.

use trunkline_types::StreamUrl;

use super::options::LinkOptions;
use crate::message::stream::{EndState, Incarnation, StreamEnd};
use crate::{Fault, FaultCode, Features};

/// The relation of a new connection's peer to this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meeting {
    /// The first peer of this endpoint.
    First,
    Again,
    /// The next incarnation of the previous peer, which continues from its journal.
    NextLife,
    /// Another endpoint, which replaces the previous peer.
    Successor,
}

/// The reason why two endpoints cannot continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mismatch {
    /// The peer's description of itself is inconsistent.
    Nonsense(String),
    /// Neither end has this number of bytes.
    Lost(u64),
    /// The peer's buffer may be too small for the elements waiting for it.
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
    let is_named = options.peer_url.is_empty() || is_name_of(&options.peer_url, &peer.url);
    let names = peer.peer_url.is_empty() || is_name_of(&peer.peer_url, &options.url);
    if !is_named || !names {
        let (named, found) = if is_named {
            (&peer.peer_url, &options.url)
        } else {
            (&options.peer_url, &peer.url)
        };
        let sentence = format!(
            "{named} was to be the peer, not {found}; correct the peer's URL of one of the two"
        );
        return Err(Fault::new(FaultCode::StreamPeer, sentence));
    }
    if is_writer && options.drops && !peer.features.contains(Features::DROPS) {
        let sentence = format!(
            "{} drops what a slow reader does not fetch, and {} cannot be told of that: it has a \
             journal, or is of an older version; have the writer wait for the slowest reader",
            options.url, peer.url
        );
        return Err(Fault::new(FaultCode::StreamPeer, sentence));
    }
    if peer.data_type != options.data_type {
        let sentence = format!(
            "the elements of {} are of type {}, those of {} of type {}; create both with the same \
             type",
            options.url, options.data_type, peer.url, peer.data_type
        );
        return Err(Fault::new(FaultCode::StreamType, sentence));
    }
    if peer.capacity == 0 || peer.bytes_max == 0 {
        let sentence = format!("the buffer of {} holds nothing", peer.url);
        return Err(Fault::new(FaultCode::Malformed, sentence));
    }
    Ok(())
}

/// Checks that the peer is an incarnation of the peer recorded in the journal.
pub(super) fn check_lineage(options: &LinkOptions, peer: &StreamEnd) -> Result<(), Fault> {
    let is_other = options
        .peer_lineage
        .is_some_and(|known| known != lineage(peer.incarnation));
    if !is_other || options.takes_successor {
        return Ok(());
    }
    let sentence = format!(
        "{} goes on from its journal, and what {} has is not of that stream: its journal was \
         removed, or it never had one; remove that of {} too and create both anew",
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
/// name are compared, because a machine does not know all of its own names; the connection itself
/// proves that the host is correct.
pub(super) fn is_name_of(named: &str, url: &str) -> bool {
    match (StreamUrl::parse(named), StreamUrl::parse(url)) {
        (Ok(named), Ok(url)) => named.endpoint() == url.endpoint(),
        _ => named == url,
    }
}

/// Decides which of two endpoints that name each other opens the connections: the one with the
/// lesser context and name or, if these are equal, the lesser incarnation. Both ends get the same
/// result.
pub(super) fn opens(own: (&str, Incarnation), peer: (&str, Incarnation)) -> bool {
    let urls = (StreamUrl::parse(own.0), StreamUrl::parse(peer.0));
    match &urls {
        (Ok(a), Ok(b)) => (a.endpoint(), own.1.0) < (b.endpoint(), peer.1.0),
        _ => (own.0, own.1.0) < (peer.0, peer.1.0),
    }
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) end: StreamEnd,
    /// The relation of the peer when it first connected.
    pub(super) meeting: Meeting,
    /// True once the peer has sent something after that, which shows that it knows of the
    /// connection. A peer that gave up before its dial was answered sends nothing.
    pub(super) is_heard: bool,
}

impl Known {
    /// Returns true if perhaps only this endpoint knows of the connection. Another peer may then
    /// still become the first peer.
    pub(super) fn may_have_given_up(&self) -> bool {
        !self.is_heard && self.meeting == Meeting::First
    }
}

/// Determines the relation of a peer, given the previous peer. Returns `None` if it cannot replace
/// the previous peer.
pub(super) fn meet(
    options: &LinkOptions,
    known: Option<&Known>,
    peer: &StreamEnd,
) -> Option<Meeting> {
    let Some(known) = known else {
        let is_known = options.peer_lineage == Some(lineage(peer.incarnation));
        return Some(match is_known {
            true => Meeting::NextLife,
            false => Meeting::First,
        });
    };
    let before = &known.end;
    let is_next = lineage(before.incarnation) == lineage(peer.incarnation);
    if before.incarnation == peer.incarnation {
        // The peer may not know yet where to continue.
        let is_new = !known.is_heard && known.meeting == Meeting::Successor;
        Some(match is_new {
            true => Meeting::Successor,
            false => Meeting::Again,
        })
    } else if peer.has_journal && before.has_journal && is_next {
        Some(Meeting::NextLife)
    } else if options.takes_successor {
        Some(Meeting::Successor)
    } else {
        known.may_have_given_up().then_some(Meeting::First)
    }
}

/// Returns true if a peer claims to be the previous peer, or another incarnation of it that
/// continues from its journal. Does not verify the claim.
pub(super) fn is_life_of_known(
    options: &LinkOptions,
    known: Option<&Known>,
    peer: &StreamEnd,
) -> bool {
    let Some(known) = known else {
        return options.peer_lineage == Some(lineage(peer.incarnation));
    };
    let before = &known.end;
    let is_next = peer.has_journal
        && before.has_journal
        && lineage(before.incarnation) == lineage(peer.incarnation);
    is_next || before.incarnation == peer.incarnation
}

/// Returns an incarnation that matches every incarnation of this lineage.
pub(super) fn any_life(lineage: [u8; 8]) -> Incarnation {
    let mut any = Incarnation::default();
    any.0[8..].copy_from_slice(&lineage);
    any
}

/// Returns true if the dialling endpoint refers to this incarnation, or to any other incarnation
/// that has the same journal.
pub(super) fn means_this_life(options: &LinkOptions, meant: Option<Incarnation>) -> bool {
    let own = options.incarnation;
    meant.is_none_or(|life| {
        let is_next = options.has_journal && lineage(life) == lineage(own);
        life == own || life == any_life(lineage(own)) || is_next
    })
}
