//! The audit: clients' writes and orders are noted on their way, in order, for whoever keeps them
//! (B-24).
//!
//! ```text
//! commit, refusal, order --> [ notes, bounded ] --wake--> the host: numbers them, stores them
//!   values in wire form                          take_audit: values as text
//! ```
//!
//! A note is made under the lock of its variable, so the notes of a variable stand in the order of
//! what they tell of. It takes no memory but its own and no text is made: that is for the host's
//! thread.
//!
//! Notes are bounded. What must not be missing claims its room before it is carried out
//! ([`AuditRoom`]): writes to variables with a complete audit, forces and orders. Without room they
//! wait, as writes wait for a full feed, and are woken when the host takes notes. A host that has
//! taken nothing for [`AUDIT_PATIENCE`] cannot store them: then they are refused. Writes to
//! variables with a best-effort audit never wait: what finds no room is counted, and an entry in
//! its place says how many are missing.
//!
//! Lock order: after everything but an outbox.

mod held;
mod room;
mod write;

use std::collections::VecDeque;

use trunkline_types::audit::{AUDIT_TEXT_BYTES_MAX, cut};
use trunkline_types::{
    AuditAction, AuditEntry, AuditMode, AuditOutcome, DataType, Tick, Timestamp,
};

use crate::caller::{Caller, Principal};
use crate::engine::Engine;
use crate::explain::{Step, Subject, Verdict};
use crate::outbox::{Outbox, Wake, Wakes};
use crate::sync::{Arc, Mutex};
use crate::variable::Variable;

pub(crate) use self::held::Held;
pub use self::room::{AUDIT_PATIENCE, AuditRoom, NoAuditRoom};
pub(crate) use self::write::{Asked, Audited, Change, is_noted};

/// Notes that may wait for the host, those that are to come included.
pub const AUDIT_NOTES_MAX: usize = 50_000;
/// Notes that may wait when one is made without a claim: the others have room of their own.
pub const AUDIT_BEST_EFFORT_MAX: usize = 40_000;

/// The engine's side of its audit.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    notes: Mutex<Notes>,
    /// Who takes the notes.
    keeper: Mutex<Option<Arc<Outbox>>>,
    keeping: Mutex<AuditKeeping>,
}

/// Where the audit is kept and what is wrong with that: the host says so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditKeeping {
    /// Entries that were taken survive a restart.
    pub is_lasting: bool,
    /// For people, after "it is audited: ".
    pub sentence: Arc<str>,
}

impl Default for AuditKeeping {
    fn default() -> Self {
        Self {
            is_lasting: false,
            sentence: Arc::from("nobody keeps the entries"),
        }
    }
}

/// What is noted of an order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderNote<'a> {
    /// What was to be done.
    pub action: AuditAction,
    /// With which library; empty: the whole engine.
    pub name: &'a str,
    /// What it changed, for people.
    pub effect: &'a str,
    /// What came of it.
    pub outcome: AuditOutcome,
}

#[derive(Debug, Default)]
struct Notes {
    waiting: VecDeque<Note>,
    /// Behind those that wait, and when the last of them was.
    lost: u64,
    lost_at: Timestamp,
    /// Notes that are to come and have their room.
    claimed: usize,
    /// When there was no room for the first time since the host has taken notes.
    full_since: Option<Tick>,
    /// Woken when the host takes notes.
    parked: Vec<Arc<Outbox>>,
}

#[derive(Debug)]
struct Note {
    when: Timestamp,
    who: Principal,
    from: Arc<str>,
    action: AuditAction,
    subject: Target,
    outcome: AuditOutcome,
}

#[derive(Debug)]
enum Target {
    Variable { name: Noted, old: Held, new: Held },
    Order { name: Box<str>, effect: Box<str> },
}

/// The variable of a note.
#[derive(Debug)]
enum Noted {
    Deployed(Arc<Variable>),
    /// It was gone before the note was made.
    Gone(Box<str>, DataType),
}

impl Noted {
    fn of(engine: &Engine, variable: &Variable) -> Self {
        match engine.variable(variable.handle()) {
            Some(variable) => Noted::Deployed(variable),
            None => Noted::Gone(variable.name().into(), variable.data_type().clone()),
        }
    }

    fn name_and_type(&self) -> (&str, &DataType) {
        match self {
            Noted::Deployed(variable) => (variable.name(), variable.data_type()),
            Noted::Gone(name, data_type) => (name, data_type),
        }
    }
}

impl Engine {
    /// Notes what changes the engine itself: an order of a client that has ended, or what its host
    /// does. Without room it is counted as lost where the audit is full.
    pub fn note_order(
        &self,
        caller: &Caller,
        wall: Timestamp,
        order: OrderNote<'_>,
        room: &AuditRoom,
        wakes: &mut Wakes,
    ) {
        let OrderNote {
            action,
            name,
            effect,
            outcome,
        } = order;
        let short = |text: &str| cut(text, AUDIT_TEXT_BYTES_MAX).into_boxed_str();
        let note = Note {
            when: wall,
            who: caller.principal.clone(),
            from: Arc::clone(&caller.origin),
            action,
            subject: Target::Order {
                name: short(name),
                effect: short(effect),
            },
            outcome: match outcome {
                AuditOutcome::Refused(rule) => {
                    AuditOutcome::Refused(cut(&rule, AUDIT_TEXT_BYTES_MAX))
                }
                other => other,
            },
        };
        self.push_note(note, room, wakes);
    }

    fn push_note(&self, note: Note, room: &AuditRoom, wakes: &mut Wakes) {
        let mut notes = self.audit().notes.lock();
        let was_empty = notes.waiting.is_empty();
        if !room.is_claimed() && !notes.fits(1, AUDIT_BEST_EFFORT_MAX) {
            notes.lost += 1;
            notes.lost_at = note.when;
            return;
        }
        notes.tell_lost();
        notes.waiting.push_back(note);
        drop(notes);
        if was_empty && let Some(outbox) = &*self.audit().keeper.lock() {
            wakes.add(outbox);
        }
    }

    /// From now on `wake` is called when there is something to take.
    pub fn keep_audit(&self, wake: Box<dyn Wake>) {
        *self.audit().keeper.lock() = Some(Arc::new(Outbox::new(wake, true, None)));
    }

    /// Takes the oldest notes out as entries, at most `limit`, numbered from `first` on.
    pub fn take_audit(&self, first: u64, limit: usize) -> Vec<AuditEntry> {
        let mut wakes = Wakes::new();
        let taken: Vec<Note> = {
            let mut notes = self.audit().notes.lock();
            if notes.waiting.is_empty() {
                notes.tell_lost();
            }
            notes.full_since = None;
            let count = limit.min(notes.waiting.len());
            for outbox in notes.parked.drain(..) {
                wakes.add(&outbox);
            }
            notes.waiting.drain(..count).collect()
        };
        drop(wakes);
        // Texts are made while nobody waits for the notes.
        let numbered = (first..).zip(taken);
        numbered
            .map(|(number, note)| self.entry(number, note))
            .collect()
    }

    /// Notes that wait, and how many were lost behind them.
    pub fn waiting_audit(&self) -> (usize, u64) {
        let notes = self.audit().notes.lock();
        (notes.waiting.len(), notes.lost)
    }

    fn entry(&self, number: u64, note: Note) -> AuditEntry {
        let (name, data_type, old, new) = match note.subject {
            Target::Order { name, effect } => {
                (name.into(), String::new(), String::new(), effect.into())
            }
            Target::Variable { name, old, new } => {
                let (name, data_type) = name.name_and_type();
                let shown = cut(&data_type.to_string(), AUDIT_TEXT_BYTES_MAX);
                let (old, new) = (old.text(data_type), new.text(data_type));
                (name.to_owned(), shown, old, new)
            }
        };
        AuditEntry {
            number,
            when: note.when,
            who: note.who.to_string(),
            from: cut(&note.from, AUDIT_TEXT_BYTES_MAX),
            action: note.action,
            name,
            data_type,
            old,
            new,
            outcome: note.outcome,
        }
    }

    /// The host says where the audit is kept.
    pub fn set_audit_keeping(&self, keeping: AuditKeeping) {
        *self.audit().keeping.lock() = keeping;
    }

    /// Where the audit is kept.
    pub fn audit_keeping(&self) -> AuditKeeping {
        self.audit().keeping.lock().clone()
    }

    /// What `explain` says of a variable that is audited.
    pub(crate) fn audited_state(&self, variable: &Variable) -> Option<Step> {
        let mode = match variable.properties().audit {
            AuditMode::Off => return None,
            AuditMode::BestEffort => "best effort; ",
            AuditMode::Complete => "",
        };
        let keeping = self.audit_keeping();
        Some(Step {
            subject: Subject::Filter,
            verdict: match keeping.is_lasting {
                true => Verdict::Fine,
                false => Verdict::Note,
            },
            sentence: format!("it is audited: {mode}{}", keeping.sentence),
            next: String::new(),
        })
    }
}

impl Notes {
    /// Whether this many more fit, with the one that says how many are missing.
    fn fits(&self, more: usize, max: usize) -> bool {
        let marker = usize::from(self.lost > 0);
        self.waiting.len() + self.claimed + more + marker <= max
    }

    /// What is missing is told where it is missing.
    fn tell_lost(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        if lost == 0 {
            return;
        }
        let engine = Caller::engine();
        self.waiting.push_back(Note {
            when: self.lost_at,
            who: engine.principal,
            from: engine.origin,
            action: AuditAction::Lost,
            subject: Target::Order {
                name: Box::default(),
                effect: Box::default(),
            },
            outcome: AuditOutcome::Lost(lost),
        });
    }
}
