//! Collects errors while reading continues, so that one run reports all errors.

use std::collections::HashSet;
use std::mem::{Discriminant, discriminant};

use crate::error::{ConfigError, ConfigErrorKind as Kind, ConfigErrors, ERRORS_MAX, Position};
use crate::placeholder::PlaceholderError;
use crate::source::{Place, Source};
use crate::suggestion::closest_match;

/// The sources read so far, and their errors.
#[derive(Debug, Default)]
pub(crate) struct Report {
    sources: Vec<Source>,
    errors: Vec<(SortKey, ConfigError)>,
    /// Errors reported so far. Suppresses repetitions: an error in a table that defines a thousand
    /// variables is reported once.
    reported: HashSet<ErrorKey>,
    /// Number of errors beyond [`ERRORS_MAX`].
    omitted_count: usize,
    /// Place of the `[[use]]` that is being expanded, if any.
    used_at: Option<Place>,
}

/// Identifies a reported error: the place, the place of the `[[use]]`, the kind, and the missing key
/// if the error is a missing key.
type ErrorKey = (Place, Option<Place>, Discriminant<Kind>, Option<String>);

/// Orders the errors by source, and then by offset in the source.
type SortKey = (u32, u32);

impl Report {
    /// Adds a source. Returns the index for [`Place::source`].
    pub fn add_source(&mut self, source: Source) -> u32 {
        self.sources.push(source);
        self.sources.len() as u32 - 1
    }

    pub fn source_count(&self) -> u32 {
        self.sources.len() as u32
    }

    pub fn source(&self, index: u32) -> Option<&Source> {
        self.sources.get(index as usize)
    }

    /// Sets the place of the `[[use]]` to attach to the errors that follow. Returns the previous place.
    pub fn set_used_at(&mut self, place: Option<Place>) -> Option<Place> {
        std::mem::replace(&mut self.used_at, place)
    }

    /// Reports an error at `place`.
    pub fn error(&mut self, place: Place, kind: Kind) {
        self.add(place, kind, || None);
    }

    /// Reports an error at `place`. If one of `candidates` resembles `word`, suggests it.
    pub fn error_with_suggestion<'a>(
        &mut self,
        place: Place,
        kind: Kind,
        word: &str,
        candidates: impl Iterator<Item = &'a str>,
    ) {
        self.add(place, kind, || closest_match(word, candidates));
    }

    /// Reports a key that is not in `known`.
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
        self.error_with_suggestion(place, kind, key, known.into_iter());
    }

    /// Adds an error. Calls `suggestion`, which can be slow, only for an error that is reported in full.
    fn add(&mut self, place: Place, kind: Kind, suggestion: impl FnOnce() -> Option<String>) {
        // All missing keys of a table are reported at the same place, so the key identifies the error.
        let missing = match &kind {
            Kind::KeyMissing { key, .. } => Some((*key).to_owned()),
            Kind::ParameterMissing { param } => Some(param.clone()),
            _ => None,
        };
        if !self
            .reported
            .insert((place, self.used_at, discriminant(&kind), missing))
        {
            return;
        }
        if self.errors.len() >= ERRORS_MAX {
            self.omitted_count += 1;
            return;
        }
        let Some(source) = self.sources.get(place.source as usize) else {
            return;
        };
        let error = ConfigError {
            file: source.name.clone(),
            position: Some(source.position(place.offset)),
            kind,
            suggestion: suggestion(),
            used_at: self.used_at.map(|place| self.format_place(place)),
        };
        self.errors.push(((place.source, place.offset), error));
    }

    /// Returns the value of `result`, which comes from parsing or filling in the placeholders of
    /// `text`. Reports an error at `place` and returns `None`.
    pub fn ok_or_report<T>(
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

    /// Reports a file that could not be read.
    pub fn file_error(&mut self, file: String, position: Option<Position>, kind: Kind) {
        if self.errors.len() >= ERRORS_MAX {
            self.omitted_count += 1;
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

    /// Formats a place as `file:line:column`.
    pub fn format_place(&self, place: Place) -> String {
        self.sources
            .get(place.source as usize)
            .map_or_else(String::new, |source| {
                format!("{}:{}", source.name, source.position(place.offset))
            })
    }

    /// Formats a place as `file:line`, the form of a variable's origin.
    pub fn format_origin(&self, place: Place) -> String {
        self.sources
            .get(place.source as usize)
            .map_or_else(String::new, |source| {
                format!("{}:{}", source.name, source.line(place.offset))
            })
    }

    /// Returns the sources, or all errors if there are any.
    pub fn finish(mut self) -> Result<Vec<Source>, ConfigErrors> {
        if self.errors.is_empty() {
            return Ok(self.sources);
        }
        self.errors.sort_by_key(|(sort_key, _)| *sort_key);
        let errors = self.errors.into_iter().map(|(_, error)| error).collect();
        Err(ConfigErrors {
            errors,
            further: self.omitted_count,
        })
    }
}
