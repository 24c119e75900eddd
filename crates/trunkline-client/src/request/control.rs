//! Takes, requests, releases and hands over control of folders, and reports who has it.

use trunkline_proto::message::control::{Control as ControlFrame, ControlVerb, Controlled};
use trunkline_proto::{Disconnect, Fault, FaultCode, Features, FrameKind};
use trunkline_types::{ControlEntry, ControlTerms};

use super::{Answering, Ending, Exchange, Next, Sending};
use crate::answer::ControlList;
use crate::error::malformed;

const CHECK_HINT: &str = "check with `trunkline control ls`";
const MISSING: (Features, &str) = (
    Features::CONTROL,
    "does not support control of folders; update it",
);

/// Takes control of a folder, asks for it, or hands it over.
#[derive(Debug)]
pub struct Control {
    verb: ControlVerb,
    folder: String,
    terms: ControlTerms,
    /// Number of the request to which control is handed over.
    number: u64,
    entry: Option<ControlEntry>,
}

/// Releases control of a folder, or withdraws a request.
#[derive(Debug)]
pub struct ReleaseControl(pub(crate) String);

/// Lists the holders of folders, and the waiting requests.
#[derive(Debug)]
pub struct Controls {
    folder: String,
    own: bool,
    /// Number of the first entry of the next page.
    number: u64,
    list: ControlList,
}

/// Waits for a change of what the client controls and waits for.
#[derive(Debug)]
pub struct FollowControl {
    known: u64,
    revision: Option<u64>,
}

impl Control {
    pub(crate) fn new(verb: ControlVerb, folder: &str, terms: ControlTerms) -> Self {
        Self {
            verb,
            folder: folder.to_owned(),
            terms,
            number: 0,
            entry: None,
        }
    }

    pub(crate) fn give(folder: &str, number: u64) -> Self {
        Self {
            number,
            ..Self::new(ControlVerb::Give, folder, ControlTerms::default())
        }
    }
}

impl Controls {
    pub(crate) fn new(folder: &str, own: bool) -> Self {
        Self {
            folder: folder.to_owned(),
            own,
            number: 0,
            list: ControlList::default(),
        }
    }
}

impl FollowControl {
    pub(crate) fn new(known: u64) -> Self {
        let revision = None;
        Self { known, revision }
    }
}

impl Exchange for Control {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Controlled);
    const CHECK_HINT: &'static str = CHECK_HINT;
    type End = Result<ControlEntry, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some(MISSING)
    }

    fn changes_engine(&self) -> bool {
        true
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let ControlTerms {
            level,
            holder,
            duration,
        } = self.terms;
        let frame = ControlFrame {
            verb: self.verb,
            folder: &self.folder,
            level,
            holder,
            duration: duration.unwrap_or_default(),
            number: self.number,
            ..ControlFrame::default()
        };
        frame.encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.entry = Controlled::decode(answer.frame)?.next().transpose()?;
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        if ending.fault.is_none() && self.entry.is_none() {
            // The token has already ended again.
            return Err(FaultCode::NotControlled.into());
        }
        ending.whole(self.entry)
    }
}

impl Exchange for ReleaseControl {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Controlled);
    const CHECK_HINT: &'static str = CHECK_HINT;
    type End = Result<(), Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some(MISSING)
    }

    fn changes_engine(&self) -> bool {
        true
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let frame = ControlFrame {
            verb: ControlVerb::Release,
            folder: &self.0,
            ..ControlFrame::default()
        };
        frame.encode(sending.number, sending.out);
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(Some(()))
    }
}

impl Exchange for Controls {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Controlled);
    type End = Result<ControlList, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some(MISSING)
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let frame = ControlFrame {
            verb: ControlVerb::List,
            folder: &self.folder,
            own: self.own,
            number: self.number,
            ..ControlFrame::default()
        };
        frame.encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        let page = Controlled::decode(answer.frame)?;
        let head = *page.head();
        let max = answer.parts.base.options.request_items_max;
        let entries = &mut self.list.entries;
        if entries.is_empty() {
            // A change between two pages must be reported.
            self.list.revision = head.revision;
        }
        entries.extend(page.collect::<Result<Vec<_>, _>>()?);
        entries.truncate(max);
        match head.next {
            0 => Ok(Next::Settle),
            next if next <= self.number => Err(malformed(format!(
                "the engine sent a page of the list that continues at {next}, which the client \
                 already has"
            ))),
            next if entries.len() < max => {
                self.number = next;
                Ok(Next::Again)
            }
            _ => Ok(Next::Settle),
        }
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(Some(self.list))
    }

    fn restart(&mut self) {
        // The numbers were valid only for the previous engine.
        self.number = 0;
        self.list = ControlList::default();
    }
}

impl Exchange for FollowControl {
    const ANSWERED_BY: Option<FrameKind> = Some(FrameKind::Controlled);
    type End = Result<u64, Fault>;

    fn requires(&self) -> Option<(Features, &'static str)> {
        Some(MISSING)
    }

    fn encode(&mut self, sending: &mut Sending<'_>) {
        let frame = ControlFrame {
            verb: ControlVerb::Follow,
            revision: self.known,
            ..ControlFrame::default()
        };
        frame.encode(sending.number, sending.out);
    }

    fn answered(&mut self, answer: &mut Answering<'_, '_>) -> Result<Next, Disconnect> {
        self.revision = Some(Controlled::decode(answer.frame)?.head().revision);
        Ok(Next::Settle)
    }

    fn end(self, ending: Ending<'_>) -> Self::End {
        ending.whole(self.revision)
    }

    fn restart(&mut self) {
        // The session has ended, and its control with it. No session has the revision 0, so the
        // engine answers at once.
        self.known = 0;
    }
}
