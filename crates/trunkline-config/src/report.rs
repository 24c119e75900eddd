//! Collects what is wrong while everything else is read on, so that one run names it all.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};

use crate::error::{ConfigError, ConfigErrorKind as Kind, ConfigErrors, ERRORS_MAX, Position};
use crate::placeholder::PlaceholderError;
use crate::source::{Place, Source};
use crate::suggestion::meant;

/// The sources read so far and what is wrong in them.
#[derive(Debug, Default)]
pub(crate) struct Report {
    sources: Vec<Source>,
    errors: Vec<(Order, ConfigError)>,
    /// One error of a kind per place: a variable made a thousand times is wrong once.
    seen: HashSet<Seen>,
    further: usize,
    used_at: Option<Place>,
}

/// What was reported: where, used where, what, and for a missing key which.
type Seen = (Place, Option<Place>, Discriminant<Kind>, Option<String>);

/// The order of the list: by source, in it by place.
type Order = (u32, u32);

impl Report {
    /// Adds a source; places in it carry the returned index.
    pub fn add_source(&mut self, source: Source) -> u32 {
        self.sources.push(source);
        self.sources.len() as u32 - 1
    }

    /// Number of sources added so far.
    pub fn source_count(&self) -> u32 {
        self.sources.len() as u32
    }

    /// The source with this index, if there is one.
    pub fn source(&self, index: u32) -> Option<&Source> {
        self.sources.get(index as usize)
    }

    /// What is reported from now on was caused by a use at this place, too.
    pub fn set_used_at(&mut self, place: Option<Place>) -> Option<Place> {
        std::mem::replace(&mut self.used_at, place)
    }

    /// Something is wrong at `place`.
    pub fn error(&mut self, place: Place, kind: Kind) {
        self.add(place, kind, || None);
    }

    /// Something is wrong at `place`, and one of `candidates` may have been meant by `word`.
    pub fn error_near<'a>(
        &mut self,
        place: Place,
        kind: Kind,
        word: &str,
        candidates: impl Iterator<Item = &'a str>,
    ) {
        self.add(place, kind, || meant(word, candidates));
    }

    /// A key that none of these is.
    pub fn unknown_key<'a>(
        &mut self,
        place: Place,
        key: &str,
        known: impl Iterator<Item = &'a str>,
    ) {
        let known: Vec<&str> = known.collect();
        let kind = Kind::UnknownKey {
            key: key.to_owned(),
            known: known.join(", "),
        };
        self.error_near(place, kind, key, known.into_iter());
    }

    /// `suggestion` is asked only for errors that are kept: it can be slow.
    fn add(&mut self, place: Place, kind: Kind, suggestion: impl FnOnce() -> Option<String>) {
        // A table can lack several keys, all missing at the same place.
        let missing = match &kind {
            Kind::KeyMissing { key, .. } => Some((*key).to_owned()),
            Kind::ParameterMissing { param } => Some(param.clone()),
            _ => None,
        };
        if !self
            .seen
            .insert((place, self.used_at, discriminant(&kind), missing))
        {
            return;
        }
        if self.errors.len() >= ERRORS_MAX {
            self.further += 1;
            return;
        }
        let Some(source) = self.sources.get(place.source as usize) else {
            return;
        };
        let error = ConfigError {
            file: source.name.clone(),
            position: Some(source.position(place.at)),
            kind,
            suggestion: suggestion(),
            used_at: self.used_at.map(|place| self.place(place)),
        };
        self.errors.push(((place.source, place.at), error));
    }

    /// The result of filling in a text's placeholders; what went wrong is reported.
    pub fn filled<T>(
        &mut self,
        place: Place,
        text: &str,
        result: Result<T, PlaceholderError>,
    ) -> Option<T> {
        result
            .map_err(|error| {
                let (text, reason) = (text.to_owned(), error.to_string());
                self.error(place, Kind::Placeholder { text, reason });
            })
            .ok()
    }

    /// A file could not be had.
    pub fn file_error(&mut self, file: String, position: Option<Position>, kind: Kind) {
        if self.errors.len() >= ERRORS_MAX {
            self.further += 1;
            return;
        }
        let error = ConfigError {
            file,
            position,
            kind,
            suggestion: None,
            used_at: None,
        };
        self.errors.push(((self.sources.len() as u32, 0), error));
    }

    /// `file:line:column`.
    pub fn place(&self, place: Place) -> String {
        self.sources
            .get(place.source as usize)
            .map_or_else(String::new, |source| {
                format!("{}:{}", source.name, source.position(place.at))
            })
    }

    /// `file:line`, as a variable's origin.
    pub fn origin(&self, place: Place) -> String {
        self.sources
            .get(place.source as usize)
            .map_or_else(String::new, |source| {
                format!("{}:{}", source.name, source.line(place.at))
            })
    }

    /// The sources if nothing is wrong, or everything that is.
    pub fn finish(mut self) -> Result<Vec<Source>, ConfigErrors> {
        if self.errors.is_empty() {
            return Ok(self.sources);
        }
        self.errors.sort_by_key(|(order, _)| *order);
        let errors = self.errors.into_iter().map(|(_, error)| error).collect();
        Err(ConfigErrors {
            errors,
            further: self.further,
        })
    }
}
