//! Collects the libraries of all files, and finds the errors that depend on all variables.

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

/// The libraries read so far.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    /// Position of each library in `all`, by name.
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

    /// Returns the libraries. Reports duplicate names, duplicate register numbers, and aliases whose
    /// properties do not match their targets.
    pub(crate) fn finish(self, report: &mut Report) -> Vec<LibraryDefinition> {
        for library in &self.all {
            report_duplicate_names(library, report);
        }
        report_duplicate_numbers(&self.all, report);
        report_aliases(&self.all, report);
        let mut libraries = Vec::with_capacity(self.all.len());
        for library in self.all {
            let Library {
                name,
                description,
                variables,
                ..
            } = library;
            let variables = variables
                .into_iter()
                .map(|variable| variable.definition)
                .collect();
            libraries.push(LibraryDefinition {
                name,
                description,
                variables,
            });
        }
        libraries
    }
}

fn report_duplicate_names(library: &Library, report: &mut Report) {
    let mut places: HashMap<&str, Place> = HashMap::with_capacity(library.variables.len());
    for variable in &library.variables {
        let path = variable.definition.path.as_str();
        match places.get(path) {
            Some(other) => {
                let name = format!("{}/{path}", library.name);
                let other = report.format_place(*other);
                report.error(variable.place, Kind::VariableTwice { name, other });
            }
            None => {
                places.insert(path, variable.place);
            }
        }
    }
}

/// Reports register numbers that several variables use, in the same library or in different ones.
fn report_duplicate_numbers(libraries: &[Library], report: &mut Report) {
    let mut users: HashMap<u32, (&Library, &Variable)> = HashMap::new();
    for (library, variable) in all_variables(libraries) {
        let Some(number) = variable.definition.properties.number else {
            continue;
        };
        match users.entry(number) {
            Entry::Occupied(occupied) => {
                let (library, other_variable) = occupied.get();
                let name = library.full_name(other_variable);
                let other = report.format_place(other_variable.place);
                let kind = Kind::NumberTwice {
                    number,
                    name,
                    other,
                };
                report.error(variable.place, kind);
            }
            Entry::Vacant(vacant) => {
                vacant.insert((library, variable));
            }
        }
    }
}

/// Reports aliases whose properties do not match their targets, and invalid chains of aliases. A
/// target that is in none of the libraries is not an error, because it may be deployed later.
fn report_aliases(libraries: &[Library], report: &mut Report) {
    let is_alias = |variable: &Variable| !variable.definition.properties.alias.is_empty();
    if !all_variables(libraries).any(|(_, variable)| is_alias(variable)) {
        return;
    }
    let named: Vec<(String, &Variable)> = all_variables(libraries)
        .map(|(library, variable)| (library.full_name(variable), variable))
        .collect();
    let by_name: HashMap<&str, &Variable> = named
        .iter()
        .map(|(name, variable)| (name.as_str(), *variable))
        .collect();
    let mut targets: HashMap<&str, &str> = HashMap::new();
    for (name, variable) in named.iter().filter(|(_, variable)| is_alias(variable)) {
        let properties = &*variable.definition.properties;
        let target = properties.alias.as_str();
        targets.insert(name, target);
        let target_properties = by_name
            .get(target)
            .map(|variable| &*variable.definition.properties);
        let difference = target_properties
            .and_then(|target_properties| mismatch(properties, target, target_properties));
        if let Some(difference) = difference {
            let sentence = difference.sentence;
            refuse_alias(name, AliasFault::Mismatch { sentence }, variable, report);
        }
    }
    if let Err((name, fault)) = check_chains(&targets)
        && let Some(variable) = by_name.get(name.as_str())
    {
        refuse_alias(&name, fault, variable, report);
    }
}

fn refuse_alias(name: &str, fault: AliasFault, variable: &Variable, report: &mut Report) {
    let reason = format!("{name}: {fault}");
    report.error(variable.place, Kind::AliasRefused { reason });
}

/// Returns all variables, each with its library.
fn all_variables(libraries: &[Library]) -> impl Iterator<Item = (&Library, &Variable)> {
    libraries.iter().flat_map(Library::with_variables)
}

impl Library {
    /// Returns this library with each of its variables.
    fn with_variables(&self) -> impl Iterator<Item = (&Library, &Variable)> {
        self.variables.iter().map(move |variable| (self, variable))
    }

    fn full_name(&self, variable: &Variable) -> String {
        format!("{}/{}", self.name, variable.definition.path)
    }
}
