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
//! Where notes are made faster than the host stores them, the writers of audited variables wait, as
//! they do for a subscriber that holds them up: nothing is lost. A host that has taken nothing for
//! [`AUDIT_PATIENCE`] cannot store: then writes go on, and what is missing is counted and told in
//! its place by an entry of its own.
//!
//! Lock order: after everything but an outbox.

mod held;
mod write;

use std::collections::VecDeque;
use std::time::Duration;

use trunkline_types::audit::{AUDIT_TEXT_BYTES_MAX, cut};
use trunkline_types::{AuditAction, AuditEntry, AuditOutcome, DataType, Tick, Timestamp};

use crate::caller::{Caller, Principal};
use crate::engine::Engine;
use crate::explain::{Step, Subject, Verdict};
use crate::outbox::{Outbox, Wake, Wakes};
use crate::sync::{Arc, Mutex};
use crate::variable::Variable;

pub(crate) use self::held::Held;
pub(crate) use self::write::{Asked, Audited, Change, is_noted};

/// Notes that may wait for the host; beyond, they are counted as lost.
pub const AUDIT_NOTES_MAX: usize = 50_000;
/// Room for what is noted without waiting: groups that have begun, forces, orders, refusals.
const AUDIT_RESERVE: usize = 10_000;
/// How long writers wait for a host that takes no notes.
pub const AUDIT_PATIENCE: Duration = Duration::from_secs(2);
/// How soon a writer that waits looks again.
const AUDIT_LOOK: Duration = Duration::from_millis(5);

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

#[derive(Debug, Default)]
struct Notes {
    waiting: VecDeque<Note>,
    /// Behind those that wait, and when the last of them was.
    lost: u64,
    lost_at: Timestamp,
    /// Since when writers wait, and the host has taken nothing.
    full_since: Option<Tick>,
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
    /// does. `name`: of what; `effect`: what it changed, for people.
    pub fn note_order(
        &self,
        caller: &Caller,
        wall: Timestamp,
        action: AuditAction,
        (name, effect): (&str, &str),
        outcome: AuditOutcome,
        wakes: &mut Wakes,
    ) {
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
        self.push_note(note, wakes);
    }

    fn push_note(&self, note: Note, wakes: &mut Wakes) {
        let mut notes = self.audit().notes.lock();
        let was_empty = notes.waiting.is_empty();
        // With the one that says how many are missing.
        let needed = 1 + usize::from(notes.lost > 0);
        if notes.waiting.len() + needed > AUDIT_NOTES_MAX {
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

    /// When a write of this variable is to be tried again, where the audit has no room for it now.
    /// Without anybody who keeps the audit nothing waits.
    pub(crate) fn waits_for_audit(&self, variable: &Variable, now: Tick) -> Option<Tick> {
        if !variable.is_audited() || self.audit().keeper.lock().is_none() {
            return None;
        }
        let mut notes = self.audit().notes.lock();
        if notes.has_room() {
            return None;
        }
        let since = *notes.full_since.get_or_insert(now);
        let end = since.saturating_add(AUDIT_PATIENCE);
        (now < end).then(|| end.min(now.saturating_add(AUDIT_LOOK)))
    }

    /// Whether a write of this variable may have to wait for the audit.
    pub(crate) fn is_audit_full(&self, variable: &Variable) -> bool {
        variable.is_audited() && !self.audit().notes.lock().has_room()
    }

    /// From now on `wake` is called when there is something to take.
    pub fn keep_audit(&self, wake: Box<dyn Wake>) {
        *self.audit().keeper.lock() = Some(Arc::new(Outbox::new(wake, true, None)));
    }

    /// Takes the oldest notes out as entries, at most `limit`, numbered from `first` on.
    pub fn take_audit(&self, first: u64, limit: usize) -> Vec<AuditEntry> {
        let taken: Vec<Note> = {
            let mut notes = self.audit().notes.lock();
            if notes.waiting.is_empty() {
                notes.tell_lost();
            }
            notes.full_since = None;
            let count = limit.min(notes.waiting.len());
            notes.waiting.drain(..count).collect()
        };
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
        if !variable.properties().audit {
            return None;
        }
        let keeping = self.audit_keeping();
        Some(Step {
            subject: Subject::Filter,
            verdict: match keeping.is_lasting {
                true => Verdict::Fine,
                false => Verdict::Note,
            },
            sentence: format!("it is audited: {}", keeping.sentence),
            next: String::new(),
        })
    }
}

impl Notes {
    fn has_room(&self) -> bool {
        self.waiting.len() < AUDIT_NOTES_MAX - AUDIT_RESERVE
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
