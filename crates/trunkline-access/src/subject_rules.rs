//! The rules of a policy that apply to one caller, prepared for fast decisions.
//!
//! Callers with the same role, to whom the same rules apply, have equal [`SubjectRules`], and can share the
//! results.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use trunkline_types::name::escape_segment;
use trunkline_types::{Folder, StreamUrl};

use crate::action::{Action, Actions};
use crate::decision::{Decision, GrantedBy};
use crate::policy::PreparedRule;
use crate::reach::{Reach, lower_case};
use crate::role::Role;
use crate::rule::{Effect, Rule};

/// The rules of a policy that apply to one caller, and the caller's role.
///
/// Two values are equal if they have the same role and the same rules, even if the rules come from different
/// policies, such as those before and after a change of the file. Comparing takes time proportional to the
/// number of rules; hashing does not.
///
/// The methods take names of variables in canonical form, after aliases and numbers have been resolved. A
/// field has the rights of its variable.
#[derive(Clone)]
pub struct SubjectRules {
    /// Every rule of the policy, shared.
    rules: Arc<[PreparedRule]>,
    /// Indices of the rules that apply to the caller, ascending.
    concerned: Box<[u32]>,
    role: Option<Role>,
    /// Hash of the role and the rules that apply to the caller.
    hash: u64,
    /// What the role and the rules with the pattern `**` grant and deny.
    everywhere: Sum,
    /// What may be permitted on some name.
    possible: Actions,
    /// Rules with other patterns that can change a result.
    narrow: Index,
}

/// The actions that some rules grant and deny.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
    granted: Actions,
    denied: Actions,
}

/// Indices of rules by the first segment of their patterns, so that a decision takes only the rules of one
/// library.
#[derive(Clone, Debug, Default)]
struct Index {
    /// Rules whose patterns match names of one library only, ordered by library.
    libraries: Box<[LibraryRules]>,
    /// Rules whose patterns begin with a wildcard.
    others: Box<[u32]>,
}

/// Rules whose patterns match names of one library only.
#[derive(Clone, Debug)]
struct LibraryRules {
    library: Box<str>,
    rules: Box<[u32]>,
}

/// What an action is requested on.
#[derive(Clone, Copy)]
enum Object<'a> {
    /// The name of a variable, without its field.
    Variable(&'a str),
    /// The name of a stream in lower case.
    Stream(&'a str),
    Library(&'a str),
    Folder(&'a Folder),
    Engine,
}

impl SubjectRules {
    /// Prepares the rules of a policy at the indices `concerned`, which are ascending.
    pub(crate) fn new(
        rules: Arc<[PreparedRule]>,
        role: Option<Role>,
        concerned: Box<[u32]>,
    ) -> Self {
        let prepared = Self {
            rules,
            concerned,
            role,
            hash: 0,
            everywhere: Sum::default(),
            possible: Actions::NONE,
            narrow: Index::default(),
        };
        let mut hasher = DefaultHasher::new();
        role.hash(&mut hasher);
        prepared.rules().for_each(|rule| rule.hash(&mut hasher));

        let mut everywhere = Sum {
            granted: role.map_or(Actions::NONE, Role::actions),
            denied: Actions::NONE,
        };
        let mut granted_somewhere = everywhere.granted;
        for (_, PreparedRule { rule, reach }) in prepared.prepared() {
            match (reach.is_everything(), rule.effect) {
                (true, _) => everywhere.add(rule),
                (false, Effect::Grant) => granted_somewhere = granted_somewhere | rule.actions,
                (false, Effect::Deny) => {}
            }
        }
        let possible = (granted_somewhere | everywhere.granted).without(everywhere.denied);
        let can_change_a_result = |rule: &Rule| match rule.effect {
            Effect::Grant => !everywhere
                .permitted()
                .contains_all(rule.actions.intersection(possible)),
            Effect::Deny => !rule.actions.intersection(possible).is_empty(),
        };
        let narrow = prepared
            .prepared()
            .filter(|(_, PreparedRule { rule, reach })| {
                !reach.is_everything() && can_change_a_result(rule)
            });
        let narrow = Index::new(narrow.map(|(index, prepared)| (index, &prepared.reach)));
        Self {
            hash: hasher.finish(),
            everywhere,
            possible: with_read(possible),
            narrow,
            ..prepared
        }
    }

    /// Returns the role.
    pub fn role(&self) -> Option<Role> {
        self.role
    }

    /// Returns the rules that apply to the caller, in the order of the policy.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.prepared().map(|(_, prepared)| &prepared.rule)
    }

    /// Returns the actions permitted on the variable `name`.
    ///
    /// Every action other than `read` requires `read` as well. Takes time proportional to the number of rules
    /// whose patterns begin with the same library or with a wildcard, and for each of them at most
    /// proportional to the length of its pattern times the length of the name. Keep the result.
    pub fn actions(&self, name: &str) -> Actions {
        self.actions_on(Object::variable(name))
    }

    /// Returns the actions permitted on a stream. Rules apply to the name of its endpoint, in whatever context
    /// and case.
    pub fn stream_actions(&self, url: &StreamUrl) -> Actions {
        self.actions_on(Object::Stream(&stream_name(url)))
    }

    /// Returns the actions permitted on a library as a whole, such as `configure`, which deploys it: those
    /// that are permitted on every possible name in it. So a grant counts only if its pattern matches all of
    /// them, as `boiler/**` does, and a rule that denies an action on one of them denies it here.
    pub fn library_actions(&self, library: &str) -> Actions {
        self.actions_on(Object::Library(library))
    }

    /// Returns the actions permitted on every possible name in a folder, such as `write`, which its
    /// control needs. Rules count as for a [library](Self::library_actions).
    pub fn folder_actions(&self, folder: &Folder) -> Actions {
        self.actions_on(Object::Folder(folder))
    }

    /// Returns the actions permitted on the engine as a whole: only rules with the pattern `**` count. They do
    /// not require `read`.
    pub fn engine_actions(&self) -> Actions {
        self.actions_on(Object::Engine)
    }

    /// Returns false only if the action is permitted on no name at all. A rule that denies an action on some
    /// names is not taken into account.
    pub fn may_some(&self, action: Action) -> bool {
        self.possible.contains(action)
    }

    /// Returns true if the action is permitted on every name, whether anything has it or not.
    ///
    /// Takes time proportional to the number of rules that apply to the caller.
    pub fn may_all(&self, action: Action) -> bool {
        let needed = Actions::of(&[action, Action::Read]);
        let is_granted = self.everywhere.permitted().contains_all(needed);
        let denies = |rule: &Rule| match rule.effect {
            Effect::Deny => !rule.actions.intersection(needed).is_empty(),
            Effect::Grant => false,
        };
        let mut narrow = self.narrow.all().filter_map(|index| self.at(index));
        is_granted && !narrow.any(|prepared| denies(&prepared.rule))
    }

    /// Returns the actions permitted on every variable, stream and library, if they are the same for all of
    /// them; `None` if they depend on the name. [`Actions::ALL`] means that nothing need be checked.
    pub fn uniform_actions(&self) -> Option<Actions> {
        self.narrow
            .is_empty()
            .then(|| with_read(self.everywhere.permitted()))
    }

    /// Returns the decision on an action on the variable `name`, with its reason: the first rule that denies
    /// it, otherwise the role or the first rule that grants it.
    pub fn decide(&self, name: &str, action: Action) -> Decision<'_> {
        self.decide_on(Object::variable(name), action)
    }

    /// Returns the decision on an action on a stream; see [`stream_actions`](Self::stream_actions).
    pub fn decide_for_stream(&self, url: &StreamUrl, action: Action) -> Decision<'_> {
        self.decide_on(Object::Stream(&stream_name(url)), action)
    }

    /// Returns the decision on an action on a library; see [`library_actions`](Self::library_actions).
    pub fn decide_for_library(&self, library: &str, action: Action) -> Decision<'_> {
        self.decide_on(Object::Library(library), action)
    }

    /// Returns the decision on an action on the engine as a whole; see
    /// [`engine_actions`](Self::engine_actions).
    pub fn decide_for_engine(&self, action: Action) -> Decision<'_> {
        self.decide_on(Object::Engine, action)
    }

    fn actions_on(&self, object: Object<'_>) -> Actions {
        let mut sum = self.everywhere;
        for index in self.narrow.candidates(object) {
            if let Some(PreparedRule { rule, reach }) = self.at(index)
                && sum.would_change(rule)
                && object.is_reached(rule.effect, reach)
            {
                sum.add(rule);
            }
        }
        match object {
            Object::Engine => sum.permitted(),
            Object::Variable(_) | Object::Stream(_) | Object::Library(_) | Object::Folder(_) => {
                with_read(sum.permitted())
            }
        }
    }

    fn decide_on(&self, object: Object<'_>, action: Action) -> Decision<'_> {
        let decision = self.decide_alone(object, action);
        let requires_read = match object {
            Object::Engine => false,
            Object::Variable(_) | Object::Stream(_) | Object::Library(_) | Object::Folder(_) => {
                action != Action::Read && decision.is_granted()
            }
        };
        if !requires_read {
            return decision;
        }
        match self.decide_alone(object, Action::Read) {
            Decision::Granted { .. } => decision,
            Decision::Denied { by } => Decision::NeedsRead {
                denied_by: Some(by),
            },
            Decision::Unspecified | Decision::NeedsRead { .. } => {
                Decision::NeedsRead { denied_by: None }
            }
        }
    }

    /// Decides without requiring `read`.
    fn decide_alone(&self, object: Object<'_>, action: Action) -> Decision<'_> {
        let first = |effect: Effect| {
            self.prepared()
                .find_map(|(_, PreparedRule { rule, reach })| {
                    let applies = rule.effect == effect
                        && rule.actions.contains(action)
                        && object.is_reached(effect, reach);
                    applies.then_some(rule)
                })
        };
        if let Some(by) = first(Effect::Deny) {
            return Decision::Denied { by };
        }
        let role = self.role.filter(|role| role.actions().contains(action));
        let by_role = role.map(GrantedBy::Role);
        match by_role.or_else(|| first(Effect::Grant).map(GrantedBy::Rule)) {
            Some(by) => Decision::Granted { by },
            None => Decision::Unspecified,
        }
    }

    fn at(&self, index: u32) -> Option<&PreparedRule> {
        self.rules.get(index as usize)
    }

    /// Iterates over the rules that apply to the caller, with their indices.
    fn prepared(&self) -> impl Iterator<Item = (u32, &PreparedRule)> {
        let concerned = self.concerned.iter();
        concerned.filter_map(|index| Some((*index, self.at(*index)?)))
    }
}

/// Returns the actions, or none of them if `read` is missing, which all others require.
fn with_read(actions: Actions) -> Actions {
    match actions.contains(Action::Read) {
        true => actions,
        false => Actions::NONE,
    }
}

/// Returns the name of a stream in the form in which patterns are matched with it.
fn stream_name(url: &StreamUrl) -> String {
    let segments = url.segments().map(lower_case);
    let segments: Vec<String> = segments.map(|s| escape_segment(&s).into_owned()).collect();
    segments.join("/")
}

impl Sum {
    fn add(&mut self, rule: &Rule) {
        match rule.effect {
            Effect::Grant => self.granted = self.granted | rule.actions,
            Effect::Deny => self.denied = self.denied | rule.actions,
        }
    }

    /// Returns true if adding the rule would change the sum in a way that can matter.
    fn would_change(self, rule: &Rule) -> bool {
        match rule.effect {
            Effect::Grant => !(self.granted | self.denied).contains_all(rule.actions),
            Effect::Deny => !self.denied.contains_all(rule.actions),
        }
    }

    fn permitted(self) -> Actions {
        self.granted.without(self.denied)
    }
}

impl Index {
    fn new<'a>(rules: impl Iterator<Item = (u32, &'a Reach)>) -> Self {
        let mut libraries = BTreeMap::<&str, Vec<u32>>::new();
        let mut others = Vec::new();
        for (index, reach) in rules {
            match reach.single_library() {
                Some(library) => libraries.entry(library).or_default().push(index),
                None => others.push(index),
            }
        }
        let libraries = libraries.into_iter().map(|(library, rules)| LibraryRules {
            library: library.into(),
            rules: rules.into(),
        });
        Self {
            libraries: libraries.collect(),
            others: others.into(),
        }
    }

    fn is_empty(&self) -> bool {
        self.libraries.is_empty() && self.others.is_empty()
    }

    /// Iterates over every rule.
    fn all(&self) -> impl Iterator<Item = u32> {
        let in_libraries = self.libraries.iter().flat_map(|one| &one.rules);
        in_libraries.chain(&self.others).copied()
    }

    /// Iterates over the rules that can reach the object.
    fn candidates(&self, object: Object<'_>) -> impl Iterator<Item = u32> {
        let of_library = |name: &str| {
            let library = name.split('/').next().unwrap_or(name);
            let found = self
                .libraries
                .binary_search_by(|one| (*one.library).cmp(library));
            match found {
                Ok(at) => self.libraries.get(at..=at).unwrap_or_default(),
                Err(_) => &[],
            }
        };
        let (libraries, others): (&[_], &[u32]) = match object {
            Object::Variable(name) | Object::Library(name) => (of_library(name), &self.others),
            Object::Folder(folder) if !folder.is_everything() => {
                (of_library(folder.path()), &self.others)
            }
            // A library of any case, or any library, can match.
            Object::Stream(_) | Object::Folder(_) => (&self.libraries, &self.others),
            Object::Engine => (&[], &[]),
        };
        let in_libraries = libraries.iter().flat_map(|one| &one.rules);
        in_libraries.chain(others).copied()
    }
}

impl<'a> Object<'a> {
    fn variable(name: &'a str) -> Self {
        Object::Variable(name.split_once('#').map_or(name, |(variable, _)| variable))
    }

    /// Returns true if a rule with this effect and pattern applies.
    fn is_reached(self, effect: Effect, reach: &Reach) -> bool {
        if reach.is_everything() {
            return true;
        }
        match (self, effect) {
            (Object::Variable(name), _) => reach.matches(name),
            (Object::Stream(name), _) => reach.matches_stream(name),
            (Object::Library(library), Effect::Grant) => reach.covers_library(library),
            (Object::Library(library), Effect::Deny) => reach.touches_library(library),
            (Object::Folder(folder), Effect::Grant) => reach.covers_folder(folder),
            (Object::Folder(folder), Effect::Deny) => reach.touches_folder(folder),
            (Object::Engine, _) => false,
        }
    }
}

impl PartialEq for SubjectRules {
    fn eq(&self, other: &Self) -> bool {
        // Different values almost always have different hashes.
        self.hash == other.hash
            && self.role == other.role
            && self.concerned.len() == other.concerned.len()
            && match Arc::ptr_eq(&self.rules, &other.rules) {
                true => self.concerned == other.concerned,
                false => self.rules().eq(other.rules()),
            }
    }
}

impl Eq for SubjectRules {}

impl Hash for SubjectRules {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl fmt::Debug for SubjectRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubjectRules")
            .field("role", &self.role)
            .field("rules", &self.rules().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
