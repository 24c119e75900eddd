//! CONTROL and CONTROLLED: take, request, release and hand over control of folders.
//!
//! Used only if both ends have the feature CONTROL. While a client controls a folder, the engine
//! refuses writes by other clients to its variables, with the fault `controlled`. TAKE and REQUEST are
//! answered with the token, or with the request if the client has to wait; GIVE with the token of the
//! new holder; RELEASE without items. A request that is refused as a whole is answered with FAULT.
//!
//! LIST is answered with one page; if `next` is not 0, set `number` of the CONTROL for the next page
//! to it. `revision` is the number of changes so far of what the client controls and waits for.
//! FOLLOW is answered without items as soon as this number is not that of the FOLLOW; a second FOLLOW
//! ends the first one. So a client that lists, and then follows with the revision of the list, misses
//! no change.

use std::time::Duration;

use trunkline_types::control::FOLDER_BYTES_MAX;
use trunkline_types::{ControlEntry, ControlHolder, ControlLevel, Folder, Timestamp};

use super::fields::{Always, IfSet, Mark, Maybe, fields};
use super::form::{Fixed, Millis, Nanos, Number, Varint, Whole, numbered};
use super::layout::{Field, FieldSink, FrameContext, Record, record};
use super::list::list_frame;
#[cfg(test)]
use super::round_trip::Source;
use super::single::single_frame;
use crate::DecodeError;
use crate::decode::Payload;
use crate::limits::SENTENCE_BYTES_MAX;

/// What a CONTROL asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ControlVerb {
    /// A page of tokens and requests.
    #[default]
    List,
    /// Control now, from holders of lower levels if there are any.
    Take,
    /// Control as soon as no other client has it.
    Request,
    /// Release control, or withdraw the request.
    Release,
    /// Hand control over to a client that waits.
    Give,
    /// An answer when something has changed.
    Follow,
}

numbered! {
    ControlVerb, "a verb, 0 to 5" {
        List = 0, "list";
        Take = 1, "take";
        Request = 2, "request";
        Release = 3, "release";
        Give = 4, "give";
        Follow = 5, "follow";
    }
}

numbered! {
    ControlLevel, "a level, 1 or 2" {
        Operator = 1, "operator";
        Supervisor = 2, "supervisor";
    }
}

numbered! {
    ControlHolder, "a holder, 0 or 1" {
        Session = 0, "session";
        Identity = 1, "identity";
    }
}

fields! {
    /// A request about control.
    #[derive(Copy, Eq, Default)]
    pub struct Control<'a> {
        1: pub verb: ControlVerb = Always<Number>,
        /// The folder, such as `boiler/pump`, or `**` for every variable. For LIST, only folders that
        /// overlap it are listed; empty for all.
        2: pub folder: &'a str = IfSet<Whole>,
        /// The level to take or request.
        3: pub level: ControlLevel = IfSet<Number>,
        /// Who may write: the session, or every session with its identity.
        4: pub holder: ControlHolder = IfSet<Number>,
        /// Time after which control ends; 0 to end with the session.
        5: pub duration: Duration = IfSet<Millis> as "duration_ms",
        /// For GIVE, the number of the request. For LIST, `next` of the previous page, or 0.
        6: pub number: u64 = IfSet<Varint>,
        /// For LIST: only what the client controls and waits for, and the requests for it.
        7: pub own: bool = Mark,
        /// For FOLLOW: the revision that the client knows.
        8: pub revision: u64 = IfSet<Varint>,
    }
}

single_frame! { Control, Control<'a> }

record! {
    #[derive(Copy, Eq, Default)]
    pub struct ControlledHead {
        /// Number of changes so far of what concerns this client.
        pub revision: u64 = Fixed,
        /// The `number` of the request for the next page; 0 if this is the last page.
        pub next: u64 = Fixed,
    }
}

fields! {
    /// A [`ControlEntry`] on the wire, with the text borrowed from the frame.
    #[derive(Default)]
    struct EntryFields<'a> (sized) {
        1: pub number: u64 = Always<Varint>,
        2: pub folder: &'a str = Always<Whole<FOLDER_BYTES_MAX>>,
        3: pub is_waiting: bool = Mark as "waiting",
        4: pub level: ControlLevel = IfSet<Number>,
        5: pub holder: ControlHolder = IfSet<Number>,
        6: pub by: &'a str = IfSet<Whole<SENTENCE_BYTES_MAX>>,
        7: pub since: Option<Timestamp> = Maybe<Nanos>,
        /// Time until control ends, sent in ms.
        8: pub left: Option<Duration> = Maybe<Millis> as "left_ms",
        9: pub is_own: bool = Mark as "own",
    }
}

impl<'a> EntryFields<'a> {
    fn of(entry: &'a ControlEntry) -> Self {
        let ControlEntry {
            number,
            folder,
            is_waiting,
            level,
            holder,
            by,
            since,
            left,
            is_own,
        } = entry;
        Self {
            number: *number,
            folder: folder.as_str(),
            is_waiting: *is_waiting,
            level: *level,
            holder: *holder,
            by,
            since: Some(*since),
            left: *left,
            is_own: *is_own,
        }
    }

    fn with_folder(self, folder: Folder) -> ControlEntry {
        ControlEntry {
            number: self.number,
            folder,
            is_waiting: self.is_waiting,
            level: self.level,
            holder: self.holder,
            by: self.by.to_owned(),
            // `of` always sets the time.
            since: self.since.unwrap_or(Timestamp::UNIX_EPOCH),
            left: self.left,
            is_own: self.is_own,
        }
    }
}

impl<'a> Record<'a> for ControlEntry {
    const FIELDS: &'static [Field] = EntryFields::FIELDS;

    fn bytes_min(context: &FrameContext) -> usize {
        EntryFields::bytes_min(context)
    }

    fn put(&self, context: &mut FrameContext, out: &mut Vec<u8>) {
        EntryFields::of(self).put(context, out);
    }

    fn read(context: &mut FrameContext, payload: &mut Payload<'a>) -> Result<Self, DecodeError> {
        let fields = EntryFields::read(context, payload)?;
        match Folder::parse(fields.folder) {
            Ok(folder) => Ok(fields.with_folder(folder)),
            Err(_) => Err(payload.unexpected("a folder", fields.folder.len() as u64)),
        }
    }

    fn show(&self, to: &mut dyn FieldSink) {
        EntryFields::of(self).show(to);
    }

    #[cfg(test)]
    fn sample(source: &mut Source<'a>, context: &mut FrameContext) -> Self {
        let fields = EntryFields::sample(source, context);
        let folder = Folder::parse(fields.folder).or_else(|_| Folder::parse("boiler/pump"));
        let mut entry = fields.with_folder(folder.expect("the folder is valid"));
        entry.since = Timestamp::from_nanos(source.number() as i64);
        entry
    }
}

list_frame! {
    ControlledFrame: Controlled, Controlled, ControlledBuilder,
    head ControlledHead, item ControlEntry, empty_frame kept
}

impl ControlledBuilder<'_> {
    /// Completes the frame with its final head.
    pub fn finish_page(mut self, head: &ControlledHead) {
        self.set_head(head);
        self.finish(false);
    }
}
