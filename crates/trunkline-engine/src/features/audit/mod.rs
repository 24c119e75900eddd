//! The audit trail: records clients' writes and orders in sequence, for the host to store (B-24).
//!
//! ```text
//! commit, refusal, order --> [ notes, bounded ] --wake--> the host: numbers them, stores them
//!   values in wire form                          take: values as text
//! ```
//!
//! A note is made under the lock of its variable, so the notes of a variable are in the order of
//! the recorded actions. A note allocates only its own memory and formats no text; the host's
//! thread does that later.
//!
//! The number of notes is bounded. An action whose note must not be missing claims room before it
//! is carried out ([`AuditRoom`]): writes of variables with a complete audit trail, forces and
//! orders. Without room they wait, like writes that wait for a full feed, and are woken when the
//! host takes notes. If the host has taken nothing for [`AUDIT_WAIT_MAX`], it cannot store notes,
//! and the actions are refused. Writes of variables with a best-effort audit never wait: notes
//! without room are counted, and an entry in their place reports how many are missing.
//!
//! Security events never wait either. Those that a peer can repeat at will are counted, so that they
//! cannot displace other entries ([`SecurityNote`]).
//!
//! Lock order: the locks of the audit trail come last, followed only by the lock of an outbox.

mod room;
mod security;
mod value;
mod write;

use std::collections::VecDeque;

use trunkline_types::audit::{AUDIT_TEXT_BYTES_MAX, cut};
use trunkline_types::{
    AuditAction, AuditEntry, AuditMode, AuditOutcome, DataType, Moment, Tick, WhyStage, WhyStep,
};

use crate::caller::{Caller, Principal};
use crate::delivery::outbox::{Outbox, Wake, Wakes};
use crate::sync::{Arc, Mutex};
use crate::variable::Variable;
use crate::write::{EngineCore, View};

pub use self::room::{AUDIT_WAIT_MAX, AuditRoom, NoAuditRoom};
use self::security::Repeats;
pub use self::security::{AUDIT_REPEAT_PERIOD, SecurityEvent, SecurityNote};
use self::value::AuditedValue;
pub(crate) use self::write::{Audited, is_noted};

/// Maximum number of notes, including those for which room is claimed.
pub const AUDIT_NOTES_MAX: usize = 50_000;
/// Maximum number of notes up to which a note without a claim is accepted. The remaining capacity
/// is reserved for claims.
pub const AUDIT_BEST_EFFORT_MAX: usize = 40_000;

pub type Audit<'e> = View<'e, AuditLog>;

#[derive(Debug, Default)]
pub struct AuditLog {
    notes: Mutex<Notes>,
    /// Woken when there are notes to take; `None` if no host stores the audit trail.
    host_outbox: Mutex<Option<Arc<Outbox>>>,
    storage: Mutex<AuditStorage>,
    repeats: Mutex<Repeats>,
}

/// The storage of the audit trail and its condition, as set by the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditStorage {
    /// True if stored entries survive a restart.
    pub is_lasting: bool,
    /// Text for people that completes the sentence "it is audited: ...".
    pub sentence: Arc<str>,
}

impl Default for AuditStorage {
    fn default() -> Self {
        Self {
            is_lasting: false,
            sentence: Arc::from("no host stores the entries"),
        }
    }
}

/// The condition of the audit trail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuditCondition {
    /// Number of entries that wait to be stored.
    pub waiting: usize,
    /// Number of entries that were lost since the engine started, because there was no room.
    pub lost: u64,
    /// True if there is no room for a further entry of an action that never waits. Actions whose
    /// entry must not be missing still have room while `waiting` is below [`AUDIT_NOTES_MAX`].
    pub is_full: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderNote<'a> {
    pub action: AuditAction,
    /// Name of the library; empty for the whole engine.
    pub name: &'a str,
    pub effect: &'a str,
    pub outcome: AuditOutcome,
}

#[derive(Debug, Default)]
struct Notes {
    waiting: VecDeque<Note>,
    /// Number of notes lost after the waiting ones. `lost_at` is the time of the last loss.
    lost: u64,
    lost_at: Option<Moment>,
    /// Number of notes lost since the engine started.
    lost_total: u64,
    /// Number of future notes that have claimed room.
    claimed: usize,
    /// Time of the first claim that found no room since the host last took notes.
    full_since: Option<Tick>,
    /// Consumers to wake when the host takes notes.
    parked: Vec<Arc<Outbox>>,
}

#[derive(Debug)]
struct Note {
    moment: Moment,
    who: Principal,
    from: Arc<str>,
    action: AuditAction,
    subject: Subject,
    outcome: AuditOutcome,
}

#[derive(Debug)]
enum Subject {
    Variable {
        name: NotedVariable,
        old: AuditedValue,
        new: AuditedValue,
    },
    Order {
        name: Box<str>,
        effect: Box<str>,
    },
}

#[derive(Debug)]
enum NotedVariable {
    Deployed(Arc<Variable>),
    /// The variable was gone before the note was made.
    Gone(Box<str>, DataType),
}

impl NotedVariable {
    fn of(core: &EngineCore, variable: &Variable) -> Self {
        match core.variable(variable.handle()) {
            Some(variable) => NotedVariable::Deployed(variable),
            None => NotedVariable::Gone(variable.name().into(), variable.data_type().clone()),
        }
    }

    fn name_and_type(&self) -> (&str, &DataType) {
        match self {
            NotedVariable::Deployed(variable) => (variable.name(), variable.data_type()),
            NotedVariable::Gone(name, data_type) => (name, data_type),
        }
    }
}

impl Audit<'_> {
    /// Records a change of the engine itself: a finished order of a client, or an action of the
    /// host. If the audit trail is full and no room is claimed, the note is lost and counted.
    pub fn note_order(
        &self,
        caller: &Caller,
        moment: Moment,
        order: OrderNote<'_>,
        room: &AuditRoom,
        wakes: &mut Wakes,
    ) {
        let OrderNote {
            action,
            name,
            effect,
            mut outcome,
        } = order;
        if let AuditOutcome::Refused(rule) = &mut outcome {
            *rule = cut(rule, AUDIT_TEXT_BYTES_MAX);
        }
        let short = |text: &str| cut(text, AUDIT_TEXT_BYTES_MAX).into_boxed_str();
        let note = Note {
            moment,
            who: caller.principal.clone(),
            from: Arc::clone(&caller.origin),
            action,
            subject: Subject::Order {
                name: short(name),
                effect: short(effect),
            },
            outcome,
        };
        self.table.push(note, room, wakes);
    }

    /// Registers `wake`, which is called when there are notes to take.
    pub fn keep(&self, wake: Box<dyn Wake>) {
        *self.table.host_outbox.lock() = Some(Arc::new(Outbox::new(wake, true, None)));
    }

    /// Takes the oldest notes as entries, at most `limit`, numbered from `first` on.
    pub fn take(&self, first: u64, limit: usize) -> Vec<AuditEntry> {
        let mut wakes = Wakes::new();
        let taken: Vec<Note> = {
            let mut notes = self.table.notes.lock();
            if notes.waiting.is_empty() {
                notes.push_loss_note();
            }
            notes.full_since = None;
            let count = limit.min(notes.waiting.len());
            for outbox in notes.parked.drain(..) {
                wakes.add(&outbox);
            }
            notes.waiting.drain(..count).collect()
        };
        drop(wakes);
        // Texts are formatted after the lock is released.
        let numbered = (first..).zip(taken);
        numbered.map(|(number, note)| entry(number, note)).collect()
    }

    /// Returns the number of waiting notes, and the number of lost notes that no note reports yet.
    pub fn waiting(&self) -> (usize, u64) {
        let notes = self.table.notes.lock();
        (notes.waiting.len(), notes.lost)
    }

    pub fn figures(&self) -> AuditCondition {
        let notes = self.table.notes.lock();
        AuditCondition {
            waiting: notes.waiting.len(),
            lost: notes.lost_total,
            is_full: !notes.fits(1, AUDIT_BEST_EFFORT_MAX),
        }
    }

    pub fn set_storage(&self, storage: AuditStorage) {
        *self.table.storage.lock() = storage;
    }

    pub fn storage(&self) -> AuditStorage {
        self.table.storage.lock().clone()
    }

    pub(crate) fn state_of(&self, variable: &Variable) -> Option<WhyStep> {
        let mode = match variable.properties().audit {
            AuditMode::Off => return None,
            AuditMode::BestEffort => "best effort; ",
            AuditMode::Complete => "",
        };
        let storage = self.storage();
        let sentence = format!("it is audited: {mode}{}", storage.sentence);
        Some(match storage.is_lasting {
            true => WhyStep::ok(WhyStage::Filter, sentence),
            false => WhyStep::note(WhyStage::Filter, sentence),
        })
    }
}

impl AuditLog {
    fn push(&self, note: Note, room: &AuditRoom, wakes: &mut Wakes) {
        let mut notes = self.notes.lock();
        let was_empty = notes.waiting.is_empty();
        if !room.is_claimed() && !notes.fits(1, AUDIT_BEST_EFFORT_MAX) {
            notes.lost += 1;
            notes.lost_total += 1;
            notes.lost_at = Some(note.moment);
            return;
        }
        notes.push_loss_note();
        notes.waiting.push_back(note);
        drop(notes);
        if was_empty && let Some(outbox) = &*self.host_outbox.lock() {
            wakes.add(outbox);
        }
    }
}

fn entry(number: u64, note: Note) -> AuditEntry {
    let (name, data_type, old, new) = match note.subject {
        Subject::Order { name, effect } => {
            (name.into(), String::new(), String::new(), effect.into())
        }
        Subject::Variable { name, old, new } => {
            let (name, data_type) = name.name_and_type();
            let type_text = cut(&data_type.to_string(), AUDIT_TEXT_BYTES_MAX);
            let (old, new) = (old.text(data_type), new.text(data_type));
            (name.to_owned(), type_text, old, new)
        }
    };
    AuditEntry {
        number,
        when: note.moment.wall,
        monotonic: note.moment.now,
        who: note.who.to_string(),
        from: cut(&note.from, AUDIT_TEXT_BYTES_MAX),
        action: note.action,
        name,
        data_type,
        old,
        new,
        outcome: note.outcome,
        link: None,
    }
}

impl Notes {
    /// Returns true if `more` notes fit, including the one that reports losses.
    fn fits(&self, more: usize, max: usize) -> bool {
        let marker = usize::from(self.lost > 0);
        self.waiting.len() + self.claimed + more + marker <= max
    }

    /// Adds a note that reports lost notes, at their place in the order.
    fn push_loss_note(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        let Some(moment) = self.lost_at.take() else {
            return;
        };
        let engine = Caller::engine();
        self.waiting.push_back(Note {
            moment,
            who: engine.principal,
            from: engine.origin,
            action: AuditAction::Lost,
            subject: Subject::Order {
                name: Box::default(),
                effect: Box::default(),
            },
            outcome: AuditOutcome::Lost(lost),
        });
    }
}
