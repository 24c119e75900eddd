//! Admission of dialling peers, at the end that is dialled.

use std::time::Duration;

use trunkline_types::Tick;

use super::Link;
use crate::limits::HELLO_DEADLINE;
use crate::message::closing::Refused;
use crate::message::stream::StreamHello;
use crate::stream::fault::StreamFault;
use crate::stream::half::Half;
use crate::stream::meeting::{
    Meeting, Mismatch, any_life, check, check_lineage, is_name_of, lineage, means_this_life, meet,
    opens,
};
use crate::stream::options::Role;
use crate::stream::session::Claim;
use crate::{Disconnect, Fault, FaultCode, PROTOCOL_VERSION, VersionRange};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// The connection that it replaces, which must be closed and no longer handled.
    pub replaced: Option<u64>,
}

/// Time after which to dial again an end whose stream is finished. That end only waits for its own
/// peer to know, and not longer than about this.
const RETRY_BEHIND_END: Duration = Duration::from_secs(1);

impl<H: Half> Link<H> {
    /// Called at the passive end when the first frame of a transport was this hello. Pass the bytes
    /// after it to [`handle_control`](Self::handle_control).
    ///
    /// # Errors
    /// The refusal to send before closing the transport. An existing connection stays.
    pub fn handle_hello(
        &mut self,
        now: Tick,
        id: u64,
        hello: &StreamHello,
    ) -> Result<Accepted, Refused> {
        let claim = self.session.claim(hello);
        self.admit(hello, claim)
            .and_then(|meeting| self.accept(now, id, hello, meeting, claim))
            .map_err(|(fault, retry_after)| Refused {
                code: fault.code,
                versions: VersionRange::OURS,
                retry_after,
                sentence: fault.sentence,
            })
    }

    fn admit(&mut self, hello: &StreamHello, claim: Claim) -> Result<Meeting, Verdict> {
        if self.session.is_over() {
            let sentence = FaultCode::StreamDestroyed.meaning();
            return Err((Fault::new(FaultCode::StreamDestroyed, sentence), None));
        }
        let VersionRange { min, max } = hello.versions;
        if !(min..=max).contains(&PROTOCOL_VERSION) {
            let sentence = format!(
                "one end speaks versions {min} to {max} of the protocol, the other {}; update the \
                 older one",
                PROTOCOL_VERSION
            );
            return Err((Fault::new(FaultCode::VersionMismatch, sentence), None));
        }
        if claim == Claim::Impostor {
            // An impostor learns nothing else, and nothing at this end changes.
            let sentence = "this endpoint is connected with another one of that incarnation: a \
                            connection is taken up again only by the endpoint that began it";
            return Err((Fault::new(FaultCode::Denied, sentence), None));
        }
        if claim != Claim::Proven && hello.share.is_none() {
            let sentence =
                "a hello between endpoints that have not met has a share of their secret";
            return Err((Fault::new(FaultCode::Malformed, sentence), None));
        }
        let options = &self.session.options;
        check(options, H::WRITES, &hello.end).map_err(|fault| (fault, None))?;
        let refused = |code: FaultCode| Err((Fault::new(code, code.meaning()), None));
        let dials = self.session.options.role == Role::Active;
        let is_mutual = !options.peer_url.is_empty() && !hello.end.peer_url.is_empty();
        let own = (options.url.as_str(), options.incarnation);
        if is_mutual && opens(own, (&hello.end.url, hello.end.incarnation)) {
            let code = FaultCode::StreamOutdated;
            let sentence = format!("{} opens the connection itself", options.url);
            return Err((Fault::new(code, sentence), Some(HELLO_DEADLINE)));
        }
        if dials && !is_mutual {
            let sentence = format!("{} is not to be dialled: it dials its peer", options.url);
            return Err((Fault::new(FaultCode::StreamPeer, sentence), None));
        }
        if let Some(known) = &self.session.peer {
            if !known.may_have_given_up() && !is_name_of(&known.end.url, &hello.end.url) {
                return refused(FaultCode::StreamConnected);
            }
            let is_same = known.end.incarnation == hello.end.incarnation;
            if is_same && hello.attempt <= self.session.peer_attempt {
                return refused(FaultCode::StreamOutdated);
            }
            if !is_same && self.is_connected() {
                // It may be another life of the peer, whose death becomes known only later.
                let code = FaultCode::StreamConnected;
                let retry = self.session.options.deadline;
                return Err((Fault::new(code, code.meaning()), Some(retry)));
            }
        }
        if !means_this_life(&self.session.options, hello.peer) {
            let options = &self.session.options;
            let has_journal = hello.end.has_journal || options.has_journal;
            // A peer at its end has lost nothing here.
            let is_at_end = hello
                .peer
                .is_some_and(|life| life == any_life(lineage(life)));
            let is_first = self.session.peer.is_none() && !options.had_stream;
            if is_first && has_journal && !is_at_end {
                // The journal of one of the two continues a stream that the other one never had.
                // Without a journal the other one dials again, and then means this life.
                self.session.fault = Some(StreamFault::LocalRestarted);
            }
            return refused(FaultCode::StreamRestarted);
        }
        let checked = check_lineage(&self.session.options, &hello.end);
        if checked.is_err() && self.half.is_ending() {
            return self.come_again();
        }
        if let Err(fault) = checked {
            let Fault { code, sentence } = fault.clone();
            self.session.fault = Some(StreamFault::Refused { code, sentence });
            return Err((fault, None));
        }
        let known = self.session.peer.as_ref();
        match meet(&self.session.options, known, &hello.end) {
            Some(Meeting::First | Meeting::Successor)
                if known.is_some() && self.half.is_ending() =>
            {
                self.come_again()
            }
            Some(meeting) => Ok(meeting),
            None => {
                self.session.fault = Some(StreamFault::PeerRestarted);
                refused(FaultCode::StreamRestarted)
            }
        }
    }

    /// An end at its end waits for its own peer only; any other peer is for the next endpoint of
    /// this name.
    fn come_again<T>(&self) -> Result<T, Verdict> {
        let code = FaultCode::StreamConnected;
        Err((Fault::new(code, code.meaning()), Some(RETRY_BEHIND_END)))
    }

    fn accept(
        &mut self,
        now: Tick,
        id: u64,
        hello: &StreamHello,
        meeting: Meeting,
        claim: Claim,
    ) -> Result<Accepted, Verdict> {
        match self.half.resume(&hello.end, meeting) {
            Ok(()) => {}
            // A stranger neither learns the progress of this end nor ends its stream.
            Err(Mismatch::Nonsense(_) | Mismatch::Lost(_)) if claim == Claim::Stranger => {
                let sentence = format!(
                    "{} is not where the stream of {} is; create both ends anew",
                    hello.end.url, self.session.options.url
                );
                return Err((Fault::new(FaultCode::StreamDataLost, sentence), None));
            }
            Err(Mismatch::Nonsense(sentence)) => {
                return Err((Fault::new(FaultCode::Malformed, sentence), None));
            }
            Err(Mismatch::Lost(bytes)) => {
                let fault = StreamFault::DataLost { bytes };
                let sentence = fault.to_string();
                self.session.fault = Some(fault);
                return Err((Fault::new(FaultCode::StreamDataLost, sentence), None));
            }
            Err(Mismatch::TooSmall(sentence)) => {
                return Err((Fault::new(FaultCode::StreamConnected, sentence), None));
            }
        }
        let replaced = self.session.connection.as_ref().map(|c| c.id);
        if let Some(old) = replaced {
            self.session
                .handle_disconnected(now, old, Disconnect::PeerClosed);
        }
        self.session.peer_attempt = hello.attempt;
        // Of two endpoints that name each other, this is the one that is dialled from now on.
        self.session.stop_dialling();
        let (welcome, pair) = self.session.welcome(hello, claim, self.half.state());
        self.session.pair = pair;
        welcome.encode(&mut self.session.open(now, id).out);
        self.session.go_up(now, hello.end.clone(), meeting, false);
        Ok(Accepted { replaced })
    }
}

/// The refusal of a hello, and the time after which to dial again.
type Verdict = (Fault, Option<Duration>);
