//! AUDIT and AUDIT_PAGE: the record of who acted on the engine, from where, when and with what
//! outcome.
//!
//! ```text
//! AUDIT       fields
//!     1 from varint         2 since i64           3 pattern text        4 who text
//!     5 newest_first (empty)                      6 limit varint
//! AUDIT_PAGE  next varint | removed varint | state text
//!             count x ( varint length | fields )
//!     1 number varint       2 when i64            3 who text            4 from text
//!     5 action u8           6 name text           7 type text           8 old text
//!     9 new text           10 outcome u8         11 position: epoch varint, sequence varint
//!    12 sentence text      13 lost varint
//!          action   1 put  2 set  3 send  4 force  5 unforce  10 forcing on  11 forcing off
//!                  12 forcing clear  20 deploy  21 undeploy  22 start  23 stop
//!                  30 engine start  31 engine stop  40 lost  41 removed
//!          outcome  1 done  2 applied (position)  3 unchanged (position)  4 refused (sentence)
//!                   5 unknown (sentence)  6 lost (lost)
//! ```
//!
//! Agreed as the feature AUDIT. A page is sent in one or more AUDIT_PAGE frames, all with the same
//! head; a page may be empty although more pages follow. A `next` other than 0 is the `from` of the
//! AUDIT for the next page. An outcome unknown to this version is read as unknown, with its
//! sentence.

use trunkline_types::wire::{put_bytes, put_str, put_varint};
use trunkline_types::{AuditAction, AuditEntry, AuditOutcome, Position, Timestamp};

use crate::decode::{Items, Payload};
use crate::limits::SENTENCE_BYTES_MAX;
use crate::tlv::{put_field, put_fixed, put_nested, put_number, put_text, read_fields};
use crate::{DecodeError, Frame, FrameKind, FrameWriter};

const DONE: u8 = 1;
const APPLIED: u8 = 2;
const UNCHANGED: u8 = 3;
const REFUSED: u8 = 4;
const UNKNOWN: u8 = 5;
const LOST: u8 = 6;

/// Asks for a page of the audit; see [`AuditQuery`](trunkline_types::AuditQuery).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Audit<'a> {
    /// Number of the page's first entry; `None` starts at the newest or the oldest entry, according
    /// to the order.
    pub from: Option<u64>,
    /// Only entries from this time on.
    pub since: Option<Timestamp>,
    /// Only entries with a matching name; empty for all. The engine checks the pattern.
    pub pattern: &'a str,
    /// Only entries of this principal; empty for all.
    pub who: &'a str,
    /// Returns entries from newest to oldest; the default is oldest first.
    pub newest_first: bool,
    /// Most entries wanted; 0 lets the engine choose.
    pub limit: u32,
}

impl<'a> Audit<'a> {
    /// Appends the frame.
    pub fn encode(&self, request: u32, out: &mut Vec<u8>) {
        let mut frame = FrameWriter::begin(out, FrameKind::Audit, request);
        let out = frame.payload();
        if let Some(from) = self.from {
            put_number(out, 1, from);
        }
        if let Some(since) = self.since {
            put_fixed(out, 2, since.as_nanos());
        }
        put_text(out, 3, self.pattern);
        put_text(out, 4, self.who);
        if self.newest_first {
            put_field(out, 5, &[]);
        }
        if self.limit > 0 {
            put_number(out, 6, u64::from(self.limit));
        }
        frame.finish(false);
    }

    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the payload does not have the form drawn in the [module](self).
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::Audit)?;
        let mut audit = Self::default();
        read_fields(&mut payload, |id, field| {
            match id {
                1 => audit.from = Some(field.varint()?),
                2 => audit.since = Some(Timestamp::from_nanos(field.i64()?)),
                3 => audit.pattern = field.whole_text()?,
                4 => audit.who = field.whole_text()?,
                5 => audit.newest_first = true,
                6 => audit.limit = field.varint_u32("a limit")?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(audit)
    }
}

/// The part common to all frames of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AuditPageHead<'a> {
    /// Number of the first entry of the next page; `None` if this is the last page.
    pub next: Option<u64>,
    /// Number of entries removed so far, oldest first.
    pub removed: u64,
    /// The place where the entries are stored and any problem of the store, in a sentence.
    pub state: &'a str,
}

/// Writes an AUDIT_PAGE frame.
#[derive(Debug)]
#[must_use = "a frame is complete only when it is finished"]
pub struct AuditPageBuilder<'a> {
    frame: FrameWriter<'a>,
    fields: Vec<u8>,
}

impl<'a> AuditPageBuilder<'a> {
    /// Begins a frame at the end of `out`.
    pub fn begin(out: &'a mut Vec<u8>, request: u32, head: &AuditPageHead<'_>) -> Self {
        let mut frame = FrameWriter::begin(out, FrameKind::AuditPage, request);
        let out = frame.payload();
        put_varint(out, head.next.unwrap_or(0));
        put_varint(out, head.removed);
        put_str(out, head.state);
        Self {
            frame,
            fields: Vec::new(),
        }
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: &AuditEntry) {
        self.fields.clear();
        put_entry(&mut self.fields, entry);
        put_bytes(self.frame.payload(), &self.fields);
        self.frame.count_item();
    }

    /// Bytes of the frame so far, header included.
    pub fn len_bytes(&self) -> usize {
        self.frame.len_bytes()
    }

    /// Completes the frame; set `more` if further frames of this page follow.
    pub fn finish(self, more: bool) {
        self.frame.finish(more);
    }
}

/// An AUDIT_PAGE frame; iterates over the entries.
#[derive(Clone, Debug)]
pub struct AuditPageFrame<'a> {
    head: AuditPageHead<'a>,
    items: Items<'a>,
}

impl<'a> AuditPageFrame<'a> {
    /// Reads the frame.
    ///
    /// # Errors
    /// [`DecodeError`] if the head does not have the form drawn in the [module](self) or the frame
    /// cannot hold `count` entries; errors in the entries appear during iteration.
    pub fn decode(frame: &Frame<'a>) -> Result<Self, DecodeError> {
        let mut payload = Payload::of(frame, FrameKind::AuditPage)?;
        let next = payload.varint()?;
        let head = AuditPageHead {
            next: (next != 0).then_some(next),
            removed: payload.varint()?,
            state: payload.text(4 * SENTENCE_BYTES_MAX)?,
        };
        Ok(Self {
            head,
            items: Items::new(payload, frame.count(), 1)?,
        })
    }

    /// The part common to all frames of the page.
    pub fn head(&self) -> AuditPageHead<'a> {
        self.head
    }
}

impl Iterator for AuditPageFrame<'_> {
    type Item = Result<AuditEntry, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.items.next_with(|payload| {
            let length = payload.varint_u32("an entry size in bytes")?;
            read_entry(&mut payload.sub(length as usize)?)
        })
    }
}

fn put_entry(out: &mut Vec<u8>, entry: &AuditEntry) {
    put_number(out, 1, entry.number);
    put_fixed(out, 2, entry.when.as_nanos());
    put_text(out, 3, &entry.who);
    put_text(out, 4, &entry.from);
    put_field(out, 5, &[entry.action.number()]);
    put_text(out, 6, &entry.name);
    put_text(out, 7, &entry.data_type);
    put_text(out, 8, &entry.old);
    put_text(out, 9, &entry.new);
    let mut put_outcome = |outcome: u8| put_field(out, 10, &[outcome]);
    match &entry.outcome {
        AuditOutcome::Done => put_outcome(DONE),
        AuditOutcome::Applied(position) => {
            put_outcome(APPLIED);
            put_position(out, *position);
        }
        AuditOutcome::Unchanged(position) => {
            put_outcome(UNCHANGED);
            put_position(out, *position);
        }
        AuditOutcome::Refused(rule) => {
            put_outcome(REFUSED);
            put_text(out, 12, rule);
        }
        AuditOutcome::Unknown(cause) => {
            put_outcome(UNKNOWN);
            put_text(out, 12, cause);
        }
        AuditOutcome::Lost(count) => {
            put_outcome(LOST);
            put_number(out, 13, *count);
        }
    }
}

fn put_position(out: &mut Vec<u8>, position: Position) {
    put_nested(out, 11, |out| {
        put_varint(out, position.epoch);
        put_varint(out, position.sequence);
    });
}

fn read_entry(fields: &mut Payload<'_>) -> Result<AuditEntry, DecodeError> {
    let mut entry = AuditEntry {
        number: 0,
        when: Timestamp::UNIX_EPOCH,
        who: String::new(),
        from: String::new(),
        action: AuditAction::Other(0),
        name: String::new(),
        data_type: String::new(),
        old: String::new(),
        new: String::new(),
        outcome: AuditOutcome::Done,
    };
    let (mut outcome, mut sentence, mut lost) = (DONE, String::new(), 0);
    let mut position = Position {
        epoch: 0,
        sequence: 0,
    };
    read_fields(fields, |id, field| {
        let text = match id {
            1 => {
                entry.number = field.varint()?;
                return Ok(true);
            }
            2 => {
                entry.when = Timestamp::from_nanos(field.i64()?);
                return Ok(true);
            }
            5 => {
                entry.action = AuditAction::from_number(field.u8()?);
                return Ok(true);
            }
            10 => {
                outcome = field.u8()?;
                return Ok(true);
            }
            11 => {
                position.epoch = field.varint()?;
                position.sequence = field.varint()?;
                return Ok(true);
            }
            13 => {
                lost = field.varint()?;
                return Ok(true);
            }
            3 => &mut entry.who,
            4 => &mut entry.from,
            6 => &mut entry.name,
            7 => &mut entry.data_type,
            8 => &mut entry.old,
            9 => &mut entry.new,
            12 => &mut sentence,
            _ => return Ok(false),
        };
        field.whole_text()?.clone_into(text);
        Ok(true)
    })?;
    entry.outcome = match outcome {
        DONE => AuditOutcome::Done,
        APPLIED => AuditOutcome::Applied(position),
        UNCHANGED => AuditOutcome::Unchanged(position),
        REFUSED => AuditOutcome::Refused(sentence),
        LOST => AuditOutcome::Lost(lost),
        _ => AuditOutcome::Unknown(sentence),
    };
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_is_in_the_drawing() {
        let drawing = include_str!("audit.rs").lines();
        let drawing = drawing.take_while(|line| line.starts_with("//!"));
        // Between the name and the next number there are two spaces or the end of the line.
        let drawing: String = drawing.map(|line| format!("{line}  ")).collect();
        for action in AuditAction::ALL {
            let drawn = format!(" {} {}  ", action.number(), action.name());
            assert!(drawing.contains(&drawn), "{drawn}is not in the drawing");
        }
    }
}
