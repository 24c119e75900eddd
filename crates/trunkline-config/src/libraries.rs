//! The libraries of all files, and the errors that can only be found once all variables are known.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use trunkline_types::LibraryDefinition;
use trunkline_types::alias::{AliasFault, check_chains, mismatch};

use crate::error::ConfigErrorKind as Kind;
use crate::expand::Variable;
use crate::fields::Values;
use crate::node::Table;
use crate::report::Report;
use crate::source::Place;
use crate::variable::DESCRIPTION_BYTES_MAX;

/// The libraries while variables are being added to them.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    index: HashMap<String, usize>,
    all: Vec<Library>,
}

#[derive(Debug)]
struct Library {
    name: String,
    description: String,
    described_at: Option<Place>,
    variables: Vec<Variable>,
}

impl Libraries {
    /// Adds the variables and the description of a library from one file.
    pub(crate) fn add(
        &mut self,
        name: String,
        section: Option<&Table>,
        variables: Vec<Variable>,
        report: &mut Report,
    ) {
        let described = section.and_then(|section| section.node("description"));
        let described = described.and_then(|node| {
            let max = DESCRIPTION_BYTES_MAX;
            let text = Values::plain(report).text_within("description", node, max)?;
            Some((text, node.place))
        });
        let index = *self.index.entry(name.clone()).or_insert_with(|| {
            let (description, described_at, variables) = (String::new(), None, Vec::new());
            self.all.push(Library {
                name,
                description,
                described_at,
                variables,
            });
            self.all.len() - 1
        });
        let Some(library) = self.all.get_mut(index) else {
            return;
        };
        library.variables.extend(variables);
        let Some((description, place)) = described else {
            return;
        };
        match library.described_at {
            Some(first) if library.description != description => {
                let (name, other) = (library.name.clone(), report.format_place(first));
                report.error(place, Kind::DescriptionTwice { name, other });
            }
            _ => {
                library.description = description;
                library.described_at = Some(place);
            }
        }
    }

    /// Returns the libraries. Reports names and numbers that are used twice, and aliases that do
    /// not fit their targets.
    pub(crate) fn finish(self, report: &mut Report) -> Vec<LibraryDefinition> {
        for library in &self.all {
            report_twins(library, report);
        }
        report_numbers(&self.all, report);
        report_aliases(&self.all, report);
        let mut libraries = Vec::with_capacity(self.all.len());
        for library in self.all {
            let Library {
                name,
                description,
                variables,
                ..
            } = library;
            let variables = variables.into_iter().map(|one| one.definition).collect();
            libraries.push(LibraryDefinition {
                name,
                description,
                variables,
            });
        }
        libraries
    }
}

fn report_twins(library: &Library, report: &mut Report) {
    let mut first: HashMap<&str, Place> = HashMap::with_capacity(library.variables.len());
    for variable in &library.variables {
        let path = variable.definition.path.as_str();
        match first.get(path) {
            Some(other) => {
                let name = format!("{}/{path}", library.name);
                let other = report.format_place(*other);
                report.error(variable.place, Kind::VariableTwice { name, other });
            }
            None => {
                first.insert(path, variable.place);
            }
        }
    }
}

/// Reports register numbers used twice. A number belongs to one variable of the engine, regardless
/// of its library.
fn report_numbers(libraries: &[Library], report: &mut Report) {
    let mut first: HashMap<u32, (&Library, &Variable)> = HashMap::new();
    for (library, variable) in every(libraries) {
        let Some(number) = variable.definition.properties.number else {
            continue;
        };
        match first.entry(number) {
            Entry::Occupied(taken) => {
                let (library, of_other) = taken.get();
                let name = library.full_name(of_other);
                let other = report.format_place(of_other.place);
                let kind = Kind::NumberTwice {
                    number,
                    name,
                    other,
                };
                report.error(variable.place, kind);
            }
            Entry::Vacant(free) => {
                free.insert((library, variable));
            }
        }
    }
}

/// Reports errors of aliases that can only be found once all libraries are known: a target with
/// properties that do not match, and an invalid chain of aliases. A target that is in none of the
/// libraries may be deployed later.
fn report_aliases(libraries: &[Library], report: &mut Report) {
    let is_alias = |variable: &Variable| !variable.definition.properties.alias.is_empty();
    if !every(libraries).any(|(_, variable)| is_alias(variable)) {
        return;
    }
    let named = every(libraries).map(|(library, variable)| (library.full_name(variable), variable));
    let named: Vec<(String, &Variable)> = named.collect();
    let all: HashMap<&str, &Variable> = named
        .iter()
        .map(|(name, variable)| (name.as_str(), *variable))
        .collect();
    let mut targets: HashMap<&str, &str> = HashMap::new();
    for (name, variable) in named.iter().filter(|(_, variable)| is_alias(variable)) {
        let properties = &*variable.definition.properties;
        let target = properties.alias.as_str();
        targets.insert(name, target);
        let of_target = all.get(target).map(|one| &*one.definition.properties);
        if let Some(wrong) = of_target.and_then(|of_target| mismatch(properties, target, of_target))
        {
            let sentence = wrong.sentence;
            refuse_alias(name, AliasFault::Mismatch { sentence }, variable, report);
        }
    }
    if let Err((name, fault)) = check_chains(&targets)
        && let Some(variable) = all.get(name.as_str())
    {
        refuse_alias(&name, fault, variable, report);
    }
}

fn refuse_alias(name: &str, fault: AliasFault, variable: &Variable, report: &mut Report) {
    let reason = format!("{name}: {fault}");
    report.error(variable.place, Kind::AliasRefused { reason });
}

/// Returns all variables, each with its library.
fn every(libraries: &[Library]) -> impl Iterator<Item = (&Library, &Variable)> {
    libraries.iter().flat_map(Library::each_variable)
}

impl Library {
    fn each_variable(&self) -> impl Iterator<Item = (&Library, &Variable)> {
        self.variables.iter().map(move |variable| (self, variable))
    }

    fn full_name(&self, variable: &Variable) -> String {
        format!("{}/{}", self.name, variable.definition.path)
    }
}
