//! Handles CONTROL: takes, requests, releases and hands over control of folders, and reports who has
//! it.

use trunkline_engine::{ControlList, ControlRefusal};
use trunkline_proto::limits::PAGE_BYTES;
use trunkline_proto::message::control::{Control, ControlVerb, ControlledBuilder, ControlledHead};
use trunkline_proto::{Fault, FaultCode};
use trunkline_types::{ControlEntry, ControlTerms, Folder};

use super::Rejection;
use crate::context::{Context, Progress, Request, SLICE};
use crate::gate::Admitted;

/// What a session follows of its control.
#[derive(Debug, Default)]
pub(crate) struct ControlRole {
    /// True once the session has asked for control that it may get later, or for changes.
    is_party: bool,
    /// The request that is answered with the next change, and the revision that the client knows.
    follow: Option<(u32, u64)>,
}

#[derive(Debug)]
struct ControlRequest {
    request: u32,
    verb: ControlVerb,
    /// `None` for a list of all folders.
    folder: Option<Folder>,
    terms: ControlTerms,
    number: u64,
    own: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// The folder is checked, from this slot on.
    Begin(u32),
    /// The token with this number is granted, and its folder is searched for variables.
    Searching(u64),
    Listing(Box<Listing>),
}

#[derive(Debug)]
struct Listing {
    list: ControlList,
    revision: u64,
}

impl ControlRole {
    /// Returns true if the session waits for nothing.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_party
    }

    pub(crate) fn handle(
        &mut self,
        context: &mut Context,
        frame: &Admitted<'_>,
    ) -> Result<(), Rejection> {
        let Control {
            verb,
            folder,
            level,
            holder,
            duration,
            number,
            own,
            revision,
        } = Control::decode(frame)?;
        let request = frame.request();
        let folder = match folder {
            "" if matches!(verb, ControlVerb::List | ControlVerb::Follow) => None,
            folder => Some(
                Folder::parse(folder)
                    .map_err(|error| Fault::new(FaultCode::BadName, error.to_string()))?,
            ),
        };
        if verb == ControlVerb::Request || verb == ControlVerb::Follow {
            self.is_party = true;
            let control = context.engine.control();
            control.follow(&context.caller, &context.consumer);
        }
        if verb == ControlVerb::Follow {
            if let Some((earlier, _)) = self.follow.replace((request, revision)) {
                answer_follow(context, earlier);
            }
            return Ok(());
        }
        context.queue.push(ControlRequest {
            request,
            verb,
            folder,
            terms: ControlTerms {
                level,
                holder,
                duration: (!duration.is_zero()).then_some(duration),
            },
            number,
            own,
            stage: Stage::Begin(0),
        });
        Ok(())
    }

    /// Completes the control that the session has got, one slice of variables at a time, then reports
    /// the change if the client follows. Returns true if there is more to do now.
    pub(crate) fn run(&mut self, context: &mut Context) -> bool {
        if !self.is_party {
            return false;
        }
        let control = context.engine.control();
        if control.search(
            context.caller.session,
            SLICE,
            context.moment,
            &mut context.wakes,
        ) {
            return true;
        }
        let revision = control.follow(&context.caller, &context.consumer);
        let changed = self.follow.take_if(|(_, known)| *known != revision);
        if let Some((request, _)) = changed {
            answer_follow(context, request);
        }
        false
    }
}

fn answer_follow(context: &mut Context, request: u32) {
    let control = context.engine.control();
    let revision = control.follow(&context.caller, &context.consumer);
    let head = ControlledHead { revision, next: 0 };
    ControlledBuilder::begin(&mut context.answers.frames, request, &head).finish(false);
}

impl Request for ControlRequest {
    fn run(&mut self, context: &mut Context) -> Progress {
        let stage = std::mem::replace(&mut self.stage, Stage::Begin(0));
        let next = match stage {
            Stage::Begin(cursor) => self.begin(context, cursor),
            Stage::Searching(number) => self.search(context, number),
            Stage::Listing(listing) => self.list(context, listing),
        };
        match next {
            Ok(Some(stage)) => {
                self.stage = stage;
                Progress::More
            }
            Ok(None) => Progress::Done,
            Err(fault) => {
                context.put_fault(self.request, &fault);
                Progress::Done
            }
        }
    }
}

impl ControlRequest {
    /// Carries out the request. Returns what is left to do; `None` if it is answered.
    fn begin(&mut self, context: &mut Context, cursor: u32) -> Result<Option<Stage>, Fault> {
        let (caller, moment, wakes) = (&context.caller, context.moment, &mut context.wakes);
        let (control, terms) = (context.engine.control(), self.terms);
        let Some(folder) = &self.folder else {
            return Ok(Some(self.begin_list(context)));
        };
        if matches!(self.verb, ControlVerb::Take | ControlVerb::Request) {
            let mut cursor = cursor;
            match control.check_folder(caller, folder, &terms, &mut cursor, SLICE) {
                None => return Ok(Some(Stage::Begin(cursor))),
                Some(checked) => checked.map_err(|refusal| Fault::from(&refusal))?,
            }
        }
        let done: Result<Option<u64>, ControlRefusal> = match self.verb {
            ControlVerb::Take => control.take(caller, folder, terms, moment, wakes).map(Some),
            ControlVerb::Request => {
                let requested = control.request(caller, folder, terms, moment, wakes);
                requested.map(Some)
            }
            ControlVerb::Release => control
                .release(caller, folder, moment, wakes)
                .map(|()| None),
            ControlVerb::Give => {
                let given = control.give(caller, folder, self.number, moment, wakes);
                let number = given.map_err(|refusal| Fault::from(&refusal))?;
                // The session of the new holder searches the folder.
                let entry = control.entry(number, caller, moment.now);
                self.answer(context, entry.as_slice());
                return Ok(None);
            }
            ControlVerb::List | ControlVerb::Follow => return Ok(Some(self.begin_list(context))),
        };
        match done.map_err(|refusal| Fault::from(&refusal))? {
            Some(number) => Ok(Some(Stage::Searching(number))),
            None => {
                self.answer(context, &[]);
                Ok(None)
            }
        }
    }

    fn search(&mut self, context: &mut Context, number: u64) -> Result<Option<Stage>, Fault> {
        let control = context.engine.control();
        if control.search(
            context.caller.session,
            SLICE,
            context.moment,
            &mut context.wakes,
        ) {
            return Ok(Some(Stage::Searching(number)));
        }
        match control.entry(number, &context.caller, context.moment.now) {
            Some(entry) => {
                self.answer(context, &[entry]);
                Ok(None)
            }
            None => {
                let sentence = "another client took control at the same time; `trunkline control ls` \
                                names it";
                Err(Fault::new(FaultCode::NotControlled, sentence))
            }
        }
    }

    fn begin_list(&self, context: &Context) -> Stage {
        let (control, caller) = (context.engine.control(), &context.caller);
        // The revision is read first: a change in between is reported once too often.
        let revision = control.follow(caller, &context.consumer);
        let list = control.list(caller, self.own, context.moment.now);
        Stage::Listing(Box::new(Listing { list, revision }))
    }

    fn list(
        &mut self,
        context: &mut Context,
        mut listing: Box<Listing>,
    ) -> Result<Option<Stage>, Fault> {
        let (control, caller) = (context.engine.control(), &context.caller);
        let Some(entries) = control.continue_list(caller, &mut listing.list, SLICE) else {
            return Ok(Some(Stage::Listing(listing)));
        };
        let mut head = ControlledHead {
            revision: listing.revision,
            next: 0,
        };
        let frames = &mut context.answers.frames;
        let mut page = ControlledBuilder::begin(frames, self.request, &head);
        let folder = self.folder.as_ref();
        let is_listed = |entry: &&ControlEntry| {
            entry.number >= self.number
                && folder.is_none_or(|folder| folder.overlaps(&entry.folder))
        };
        for entry in entries.iter().filter(is_listed) {
            if page.len_bytes() >= PAGE_BYTES {
                head.next = entry.number;
                break;
            }
            page.push(entry);
        }
        page.finish_page(&head);
        Ok(None)
    }

    fn answer(&self, context: &mut Context, entries: &[ControlEntry]) {
        let control = context.engine.control();
        let revision = control.follow(&context.caller, &context.consumer);
        let head = ControlledHead { revision, next: 0 };
        let frames = &mut context.answers.frames;
        let mut answer = ControlledBuilder::begin(frames, self.request, &head);
        entries.iter().for_each(|entry| answer.push(entry));
        answer.finish(false);
    }
}
