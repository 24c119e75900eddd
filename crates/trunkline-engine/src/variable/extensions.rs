//! Extensions: the data that features attach to a variable, and the methods called when the
//! variable changes. Features depend on the variable; the variable depends on no specific feature.

use std::any::Any;
use std::cell::Cell;
use std::fmt::Debug;

use trunkline_types::{Moment, Properties, Quality, WriteVerb};

use super::{Redirect, State, Variable};
use crate::caller::Caller;
use crate::delivery::outbox::Wakes;
use crate::outcome::Refusal;
use crate::update::Update;

/// The part of a feature that belongs to one variable and is protected by its lock. A variable has
/// at most one extension of each type. The caller of each method holds the lock.
pub(crate) trait Extension: Any + Debug + Send {
    /// The extensions of a variable are called in ascending order of this number.
    fn order(&self) -> u8;

    /// Returns true if the extension only observes the value: it refuses no change, and needs no
    /// update whose value lies in the variable's [quiet range](State::set_quiet).
    fn only_monitors(&self) -> bool {
        false
    }

    /// Checks whether the variable may be changed. May store the refused change.
    fn admit(
        &mut self,
        _variable: &Variable,
        _admission: &Admission<'_>,
        _moment: Moment,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Checks whether a client may lease the variable.
    fn admit_lease(
        &mut self,
        _variable: &Variable,
        _caller: &Caller,
        _moment: Moment,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Returns true if an update must be committed even though it is within the deadband of the
    /// last one.
    fn needs_commit(&self, _variable: &Variable, _update: &Update, _moment: Moment) -> bool {
        false
    }

    /// Called after a client's write was applied or left the value unchanged.
    fn written(&mut self, _variable: &Variable, _caller: &Caller, _properties: &Properties) {}

    /// Called after the variable has a new update and its subscribers were notified.
    fn committed(&self, _commit: &Committed<'_>, _wakes: &mut Wakes) {}

    /// Called after the variable was edited, stopped or started.
    fn reconfigured(&self, _at: &Committed<'_>, _wakes: &mut Wakes) {}
}

/// A change of a variable that its extensions may refuse.
pub(crate) enum Admission<'a> {
    Client {
        caller: &'a Caller,
        verb: WriteVerb,
        properties: &'a Properties,
    },
    Source(&'a Update),
    /// A new quality of the last value, reported by the source.
    Quality(Quality),
}

/// The newest update of a variable, after its commit.
#[derive(Clone, Copy)]
pub(crate) struct Committed<'a> {
    pub(crate) variable: &'a Variable,
    pub(crate) state: &'a State,
    pub(crate) update: &'a Update,
    pub(crate) moment: Moment,
    /// Set if the caller named a variable other than the written one.
    pub(crate) redirect: Option<&'a Redirect<'a>>,
}

/// The numbers that are irrelevant to all extensions that [only monitor](Extension::only_monitors),
/// as a closed interval, and the quality that they must have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct QuietRange {
    pub(crate) quality: Quality,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl QuietRange {
    /// The range without numbers: every update is relevant to an extension.
    pub(crate) const EMPTY: Self = Self {
        quality: Quality::GOOD,
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
    };

    /// Returns true if the number and its quality lie in the range. NaN lies in no range.
    #[inline]
    pub(crate) fn contains(self, number: f64, quality: Quality) -> bool {
        self.quality == quality && number >= self.low && number <= self.high
    }
}

#[derive(Debug)]
pub(super) struct Extensions {
    all: Vec<Box<dyn Extension>>,
    quiet: Cell<QuietRange>,
}

impl Default for Extensions {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            quiet: Cell::new(QuietRange::EMPTY),
        }
    }
}

fn as_any<'a>(extension: &'a (dyn Extension + 'static)) -> &'a (dyn Any + 'static) {
    extension
}

impl Extensions {
    fn get<E: Extension>(&self) -> Option<&E> {
        self.all
            .iter()
            .find_map(|one| as_any(&**one).downcast_ref())
    }

    fn get_mut<E: Extension>(&mut self) -> Option<&mut E> {
        let mut all = self.all.iter_mut();
        all.find_map(|one| (&mut **one as &mut dyn Any).downcast_mut())
    }

    fn remove<E: Extension>(&mut self) {
        self.all.retain(|one| !as_any(&**one).is::<E>());
    }

    /// Returns true if the value lies in the quiet range.
    #[inline]
    pub(super) fn is_quiet(&self, number: f64, quality: Quality) -> bool {
        self.quiet.get().contains(number, quality)
    }

    fn insert(&mut self, extension: Box<dyn Extension>) {
        let order = extension.order();
        let place = self.all.partition_point(|one| one.order() < order);
        self.all.reserve_exact(1);
        self.all.insert(place, extension);
    }
}

impl State {
    pub(crate) fn extension<E: Extension>(&self) -> Option<&E> {
        self.extra.as_ref()?.extensions.get()
    }

    pub(crate) fn extension_mut<E: Extension>(&mut self) -> Option<&mut E> {
        self.extra.as_mut()?.extensions.get_mut()
    }

    fn extensions(&self) -> &[Box<dyn Extension>] {
        match &self.extra {
            Some(extra) => &extra.extensions.all,
            None => &[],
        }
    }

    fn extensions_mut(&mut self) -> &mut [Box<dyn Extension>] {
        match &mut self.extra {
            Some(extra) => &mut extra.extensions.all,
            None => &mut [],
        }
    }

    /// Sets the range of numbers that are irrelevant to extensions that only monitor. The range
    /// becomes empty whenever extensions are attached or detached.
    pub(crate) fn set_quiet(&self, quiet: QuietRange) {
        if let Some(extra) = &self.extra {
            extra.extensions.quiet.set(quiet);
        }
    }

    /// Returns true if the value lies in the quiet range.
    #[inline]
    pub(crate) fn is_quiet(&self, number: f64, quality: Quality) -> bool {
        let extra = self.extra.as_ref();
        extra.is_some_and(|extra| extra.extensions.is_quiet(number, quality))
    }
}

/// The caller of each method holds the variable's lock.
impl Variable {
    pub(crate) fn attach<E: Extension>(&self, state: &mut State, extension: E) {
        let extensions = &mut state.extra.get_or_insert_default().extensions;
        extensions.remove::<E>();
        extensions.insert(Box::new(extension));
        self.note_extensions(state);
    }

    pub(crate) fn detach<E: Extension>(&self, state: &mut State) {
        if let Some(extra) = &mut state.extra {
            extra.extensions.remove::<E>();
        }
        self.note_extensions(state);
    }

    /// Updates the flags for the kinds of extensions that the variable has.
    fn note_extensions(&self, state: &State) {
        let extensions = state.extensions();
        let only_monitor = extensions.iter().all(|one| one.only_monitors());
        self.set_extended(state, !only_monitor);
        self.set_monitored(state, only_monitor && !extensions.is_empty());
        state.set_quiet(QuietRange::EMPTY);
    }

    /// Changes the extension of type `E`, adding it if there is none.
    pub(crate) fn change_extension<E: Extension + Default>(
        &self,
        state: &mut State,
        change: impl FnOnce(&mut E),
    ) {
        if state.extension::<E>().is_none() {
            self.attach(state, E::default());
        }
        if let Some(extension) = state.extension_mut() {
            change(extension);
        }
    }

    /// Checks whether the variable may be changed. Always allowed if there are [no
    /// rules](Self::has_rules).
    #[cold]
    pub(crate) fn admit(
        &self,
        state: &mut State,
        admission: &Admission<'_>,
        moment: Moment,
    ) -> Result<(), Refusal> {
        if self.is_gone() {
            return Err(Refusal::Gone);
        }
        if self.is_stopped() {
            return Err(Refusal::LibraryStopped);
        }
        let mut extensions = state.extensions_mut().iter_mut();
        extensions.try_for_each(|one| one.admit(self, admission, moment))
    }

    /// Checks whether a client may lease the variable.
    pub(crate) fn admit_lease(
        &self,
        state: &mut State,
        caller: &Caller,
        moment: Moment,
    ) -> Result<(), Refusal> {
        let mut extensions = state.extensions_mut().iter_mut();
        extensions.try_for_each(|one| one.admit_lease(self, caller, moment))
    }

    /// Returns true if a feature needs an update that lies within the deadband.
    #[cold]
    pub(crate) fn needs_commit(&self, state: &State, update: &Update, moment: Moment) -> bool {
        let mut extensions = state.extensions().iter();
        extensions.any(|one| one.needs_commit(self, update, moment))
    }

    /// Informs the extensions that a client's write was applied or left the value unchanged.
    #[cold]
    pub(crate) fn written(&self, state: &mut State, caller: &Caller, properties: &Properties) {
        for extension in state.extensions_mut() {
            extension.written(self, caller, properties);
        }
    }

    #[cold]
    pub(crate) fn committed(
        &self,
        state: &State,
        update: &Update,
        moment: Moment,
        redirect: Option<&Redirect<'_>>,
        wakes: &mut Wakes,
    ) {
        let commit = Committed {
            variable: self,
            state,
            update,
            moment,
            redirect,
        };
        for extension in state.extensions() {
            extension.committed(&commit, wakes);
        }
    }

    pub(crate) fn reconfigured(&self, state: &State, moment: Moment, wakes: &mut Wakes) {
        if self.is_extended() {
            let at = Committed {
                variable: self,
                state,
                update: &self.update_locked(state),
                moment,
                redirect: None,
            };
            for extension in state.extensions() {
                extension.reconfigured(&at, wakes);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
#[allow(clippy::unwrap_used, reason = "a test fails at an unexpected result")]
mod tests {
    use trunkline_types::{
        DataType, LibraryDefinition, Properties, Tick, Timestamp, Value, VariableDefinition,
    };

    use super::*;
    use crate::engine::{Engine, EngineOptions};
    use crate::outcome::{Attempt, WriteOutcome};
    use crate::sync::{Arc, AtomicUsize, Ordering};
    use crate::write::Write;

    /// A feature that the write path does not know.
    #[derive(Debug)]
    struct Foreign {
        order: u8,
        /// The calls of all features, in their order.
        calls: Arc<AtomicUsize>,
        refuses: bool,
    }

    impl Foreign {
        fn note(&self, call: usize) {
            let calls = self.calls.load(Ordering::Relaxed);
            self.calls.store(calls * 10 + call, Ordering::Relaxed);
        }
    }

    impl Extension for Foreign {
        fn order(&self) -> u8 {
            self.order
        }

        fn admit(&mut self, _: &Variable, _: &Admission<'_>, _: Moment) -> Result<(), Refusal> {
            self.note(1);
            match self.refuses {
                true => Err(Refusal::ReadOnly),
                false => Ok(()),
            }
        }

        fn written(&mut self, _: &Variable, _: &Caller, _: &Properties) {
            self.note(3);
        }

        fn committed(&self, commit: &Committed<'_>, _: &mut Wakes) {
            assert_eq!(commit.update.sequence, commit.variable.sequence());
            self.note(2);
        }
    }

    /// Another feature, which is called first.
    #[derive(Debug)]
    struct First(Foreign);

    impl Extension for First {
        fn order(&self) -> u8 {
            0
        }

        fn committed(&self, _: &Committed<'_>, _: &mut Wakes) {
            self.0.note(5);
        }
    }

    #[test]
    fn write_path_calls_features_through_hooks_only() {
        let (now, wall) = (Tick::from_nanos(1), Timestamp::from_nanos(1));
        let engine = Engine::new(EngineOptions::new("test", 1));
        let library = LibraryDefinition {
            name: "rig".to_owned(),
            description: String::new(),
            variables: vec![VariableDefinition::new("x", DataType::F64)],
        };
        let handle = engine.libraries().deploy(&library, now, wall).unwrap()[0];
        let x = engine.variable(handle).unwrap();
        let caller = Caller::local(1, 0);
        let write = |value: f64| {
            let (value, mut wakes) = (Value::F64(value), Wakes::new());
            let plain = x.write_plain(&caller, wall, &value, &mut wakes);
            let ordinary =
                || engine.try_write(&caller, now, wall, &x, &Write::value(&value), &mut wakes);
            plain.map_or_else(ordinary, |at| Attempt::Done(WriteOutcome::Applied(at)))
        };
        let applied = |sequence| Attempt::Done(WriteOutcome::Applied(sequence));
        let calls = Arc::new(AtomicUsize::new(0));
        let foreign = |refuses| Foreign {
            order: 7,
            calls: Arc::clone(&calls),
            refuses,
        };
        assert!(x.is_plain());
        x.attach(&mut x.lock(), foreign(false));
        x.attach(&mut x.lock(), First(foreign(false)));
        assert!(!x.is_plain() && x.is_extended());
        assert_eq!(write(1.0), applied(1));
        assert_eq!(calls.swap(0, Ordering::Relaxed), 1523);

        x.attach(&mut x.lock(), foreign(true));
        let refused = Attempt::Done(WriteOutcome::Refused(Refusal::ReadOnly));
        assert_eq!(write(2.0), refused);
        assert_eq!(calls.swap(0, Ordering::Relaxed), 1);

        x.detach::<Foreign>(&mut x.lock());
        x.detach::<First>(&mut x.lock());
        assert_eq!(write(3.0), applied(2));
        assert!(x.is_plain() && calls.load(Ordering::Relaxed) == 0);
    }
}
