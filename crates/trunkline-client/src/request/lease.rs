//! Acquires, renews and releases leases of variables.
//!
//! A lease ends with its connection. An unanswered lease request is therefore sent again on the
//! next connection.

use std::time::Duration;

use trunkline_proto::message::lease::{LeaseBuilder, LeaseHead, LeaseItem, LeaseVerb, Leased};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, FrameKind};
use trunkline_types::Position;

use super::{Answering, Ending, Exchange, Next, Page, Prepared, Sending};
use crate::answer;
use crate::parts::Parts;

/// The terms of a lease request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseTerms {
    /// The action: acquire, renew or release.
    pub verb: LeaseVerb,
    /// The duration of the lease, from 1 ms to 24 h. Ignored for a release.
    pub duration: Duration,
    /// One expected position per variable, in the order of the variables. The engine grants a lease
    /// only if the variable is still at that position. If the list is empty, positions are not
    /// checked.
    pub expected: Vec<Position>,
}

impl LeaseTerms {
    /// Returns terms that acquire leases for `duration`, or renew existing ones.
    pub fn acquire(duration: Duration) -> Self {
        Self {
            verb: LeaseVerb::Acquire,
            duration,
            expected: Vec::new(),
        }
    }

    /// Returns terms that renew existing leases. The engine refuses them if another client may have
    /// written in the meantime.
    pub fn renew(duration: Duration) -> Self {
        Self {
            verb: LeaseVerb::Renew,
            ..Self::acquire(duration)
        }
    }

    /// Returns terms that release leases.
    pub fn release() -> Self {
        Self {
            verb: LeaseVerb::Release,
            ..Self::acquire(Duration::ZERO)
        }
    }

    /// Grants leases only for variables that are still at these positions, in the order of the
    /// variables.
    #[must_use]
    pub fn expecting(mut self, positions: Vec<Position>) -> Self {
        self.expected = positions;
        self
    }

    fn check_expected(&self, item: usize, epoch: u64) -> Result<(), Fault> {
        match self.expected.get(item) {
            None if self.expected.is_empty() => Ok(()),
            Some(position) if position.epoch == epoch => Ok(()),
            _ => {
                let sentence = "the position is from another run of the engine; read the \
                                variable again, then decide";
                Err(Fault::new(FaultCode::Conflict, sentence))
            }
        }
    }
}

/// Acquires, renews or releases leases.
#[derive(Debug)]
pub struct Lease {
    pub(crate) page: Page<answer::Lease>,
    pub(crate) terms: LeaseTerms,
}

impl Exchange for Lease {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Leased);
    const USES_HANDLES: bool = true;
    const CHECK_HINT: &'static str = "acquire the lease again, or release it";
    type End = Result<Vec<Result<answer::Lease, Fault>>, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        let missing = "does not support leases; update it, or write with expected positions";
        Some((Features::GROUPS, missing))
    }

    fn prepare(&mut self, parts: &mut Parts) -> Prepared {
        let (mut items, epoch) = (0.., parts.base.connection.epoch());
        Prepared::Items(self.page.ask(|variable| {
            let item = items.next().unwrap_or(usize::MAX);
            self.terms.check_expected(item, epoch)?;
            parts.base.variables.handle(variable)
        }))
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let (terms, epoch) = (&self.terms, sending.parts.base.connection.epoch());
        let head = LeaseHead {
            verb: terms.verb,
            duration: terms.duration,
            expected_epoch: (!terms.expected.is_empty()).then_some(epoch),
        };
        let mut frame = LeaseBuilder::begin(sending.out, sending.number, &head);
        let unsent = self.page.sent.get(*sending.sent as usize..);
        for (item, handle) in unsent.unwrap_or_default() {
            if frame.len_bytes() >= sending.page {
                break;
            }
            let expected = terms.expected.get(*item as usize);
            frame.push(&LeaseItem {
                handle: *handle,
                sequence: expected.map_or(0, |position| position.sequence),
            });
            *sending.sent += 1;
        }
        frame.finish(*sending.sent < sending.total);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let epoch = answer.parts.base.connection.epoch();
        let leased = Leased::decode(answer.frame)?;
        let mut index = leased.head().first_index;
        for granted in leased {
            let lease = granted?.map(|granted| answer::Lease {
                duration: granted.duration,
                position: Position {
                    epoch,
                    sequence: granted.sequence,
                },
            });
            let lease = lease.map_err(|fault| fault.to_fault());
            self.page.answer(answer.item(&mut index)?, lease);
        }
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        Ok(self.page.finish(&ending.missing()))
    }

    fn unknown(&self, fault: &Fault) -> Option<Self::End> {
        let variables = self.page.variables.iter();
        Some(Ok(variables.map(|_| Err(fault.clone())).collect()))
    }
}
