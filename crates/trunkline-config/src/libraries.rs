//! The libraries of all files, and the errors that only all variables together can show.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use trunkline_types::LibraryDefinition;
use trunkline_types::alias::{AliasFault, check_chains, mismatch};

use crate::error::ConfigErrorKind as Kind;
use crate::expand::Made;
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
    made: Vec<Made>,
}

impl Libraries {
    /// Adds the variables and the description of a library from one file.
    pub(crate) fn add(
        &mut self,
        name: String,
        section: Option<&Table>,
        made: Vec<Made>,
        report: &mut Report,
    ) {
        let described = section.and_then(|section| section.node("description"));
        let described = described.and_then(|node| {
            let max = DESCRIPTION_BYTES_MAX;
            let text = Values::plain(report).text_within("description", node, max)?;
            Some((text, node.place))
        });
        let index = *self.index.entry(name.clone()).or_insert_with(|| {
            let (description, described_at, made) = (String::new(), None, Vec::new());
            self.all.push(Library {
                name,
                description,
                described_at,
                made,
            });
            self.all.len() - 1
        });
        let Some(library) = self.all.get_mut(index) else {
            return;
        };
        library.made.extend(made);
        let Some((description, place)) = described else {
            return;
        };
        match library.described_at {
            Some(first) if library.description != description => {
                let (name, other) = (library.name.clone(), report.place(first));
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
                made,
                ..
            } = library;
            let variables = made.into_iter().map(|made| made.definition).collect();
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
    let mut first: HashMap<&str, Place> = HashMap::with_capacity(library.made.len());
    for made in &library.made {
        let path = made.definition.path.as_str();
        match first.get(path) {
            Some(other) => {
                let name = format!("{}/{path}", library.name);
                let other = report.place(*other);
                report.error(made.place, Kind::VariableTwice { name, other });
            }
            None => {
                first.insert(path, made.place);
            }
        }
    }
}

/// Reports register numbers used twice. They belong to the engine: each is given to one variable,
/// whatever its library.
fn report_numbers(libraries: &[Library], report: &mut Report) {
    let mut first: HashMap<u32, (&Library, &Made)> = HashMap::new();
    for (library, made) in every(libraries) {
        let Some(number) = made.definition.properties.number else {
            continue;
        };
        match first.entry(number) {
            Entry::Occupied(taken) => {
                let (library, of_other) = taken.get();
                let (name, other) = (library.full_name(of_other), report.place(of_other.place));
                let kind = Kind::NumberTwice {
                    number,
                    name,
                    other,
                };
                report.error(made.place, kind);
            }
            Entry::Vacant(free) => {
                free.insert((library, made));
            }
        }
    }
}

/// Reports errors of aliases that only all libraries together can show: a target that cannot be
/// shown, and where a chain of aliases ends. A target that is in none of the libraries may be
/// deployed later.
fn report_aliases(libraries: &[Library], report: &mut Report) {
    let is_alias = |made: &Made| !made.definition.properties.alias.is_empty();
    if !every(libraries).any(|(_, made)| is_alias(made)) {
        return;
    }
    let named = every(libraries).map(|(library, made)| (library.full_name(made), made));
    let named: Vec<(String, &Made)> = named.collect();
    let all: HashMap<&str, &Made> = named
        .iter()
        .map(|(name, made)| (name.as_str(), *made))
        .collect();
    let mut targets: HashMap<&str, &str> = HashMap::new();
    for (name, made) in named.iter().filter(|(_, made)| is_alias(made)) {
        let properties = &*made.definition.properties;
        let target = properties.alias.as_str();
        targets.insert(name, target);
        let of_target = all.get(target).map(|made| &*made.definition.properties);
        if let Some(wrong) = of_target.and_then(|of_target| mismatch(properties, target, of_target))
        {
            let sentence = wrong.sentence;
            refuse_alias(name, AliasFault::Mismatch { sentence }, made, report);
        }
    }
    if let Err((name, fault)) = check_chains(&targets)
        && let Some(made) = all.get(name.as_str())
    {
        refuse_alias(&name, fault, made, report);
    }
}

fn refuse_alias(name: &str, fault: AliasFault, made: &Made, report: &mut Report) {
    let reason = format!("{name}: {fault}");
    report.error(made.place, Kind::AliasRefused { reason });
}

/// Returns all variables, each with its library.
fn every(libraries: &[Library]) -> impl Iterator<Item = (&Library, &Made)> {
    libraries.iter().flat_map(Library::made_with)
}

impl Library {
    fn made_with(&self) -> impl Iterator<Item = (&Library, &Made)> {
        self.made.iter().map(move |made| (self, made))
    }

    fn full_name(&self, made: &Made) -> String {
        format!("{}/{}", self.name, made.definition.path)
    }
}
