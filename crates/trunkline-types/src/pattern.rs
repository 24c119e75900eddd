//! Matches full names with patterns: `*` matches any characters within one segment, `**` any number of
//! whole segments.
//!
//! ```text
//! boiler/*          every variable directly in boiler
//! boiler/pump*/on   *  may occur anywhere in a segment, also several times
//! boiler/**         everything in boiler
//! **/alarm          every variable called alarm; ** may also match no segment
//! boiler/*#units    the field `units` of each; a pattern without '#' matches no fields
//! ```
//!
//! The matcher never backtracks further than the last wildcard of each kind. Its time is therefore
//! at most proportional to name length times pattern length, for any pattern (F22 of the
//! reliability plan).

use std::fmt;
use std::str::FromStr;

use crate::name::{NameError, Wildcards, canonicalize};
use crate::step_budget::StepBudget;

/// Maximum length of a pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 256;
/// Maximum number of wildcards in one pattern, `*` and `**` together.
pub const WILDCARDS_MAX: usize = 16;

/// A checked pattern in canonical form.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pattern {
    text: Box<str>,
}

/// The text is not a valid pattern.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PatternError {
    /// The pattern breaks a rule that also applies to names.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The pattern has more than `WILDCARDS_MAX` wildcards.
    #[error("the pattern has {count} wildcards; {WILDCARDS_MAX} is the limit")]
    TooManyWildcards {
        /// Number of wildcards found.
        count: usize,
    },
    /// `**` is only part of a segment, or is in a field.
    #[error("'**' must be a whole segment, as in library/**, not {segment:?}")]
    DoubleStar { segment: String },
}

impl Pattern {
    /// Checks a pattern and converts it to canonical form. A text without wildcards is a pattern
    /// that matches itself.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let canonical = canonicalize(text, PATTERN_BYTES_MAX, Wildcards::Allowed)?;
        let mut count = 0;
        for (index, part) in canonical.split('#').enumerate() {
            for segment in part.split('/') {
                if segment == ANY_SEGMENTS && index == 0 {
                    count += 1;
                } else if segment.contains(ANY_SEGMENTS) {
                    return Err(PatternError::DoubleStar {
                        segment: segment.to_owned(),
                    });
                } else {
                    count += segment.matches('*').count();
                }
            }
        }
        if count > WILDCARDS_MAX {
            return Err(PatternError::TooManyWildcards { count });
        }
        Ok(Self {
            text: canonical.into(),
        })
    }

    /// Returns true if the pattern matches the whole of `name`, which must be in canonical form.
    pub fn matches(&self, name: &str) -> bool {
        name.starts_with(self.literal_prefix()) && matches_counting(&self.text, name, &mut |_| ())
    }

    /// Like [`matches`](Self::matches), for searches: charges its steps to `budget`.
    pub fn matches_within(&self, budget: &mut StepBudget, name: &str) -> bool {
        if !name.starts_with(self.literal_prefix()) {
            return false;
        }
        // One pass over the name, several characters at a time, finds its field and its segments.
        let mut steps = name.len() / 8;
        let matches = matches_counting(&self.text, name, &mut |cost| steps += cost);
        budget.spend(steps);
        matches
    }

    /// Returns true if the pattern has no wildcard and therefore matches only itself.
    pub fn is_literal(&self) -> bool {
        !Self::has_wildcards(&self.text)
    }

    /// Returns the prefix that every matching name has, with which a search can be limited to a
    /// part of a sorted list.
    pub fn literal_prefix(&self) -> &str {
        let Some(star) = self.text.find('*') else {
            return &self.text;
        };
        let prefix = &self.text[..star];
        // `a/**` matches `a` as well, if nothing but `**` follows.
        let (rest, _) = split_field(&self.text[star..]);
        let has_only_any_segments = rest.split('/').all(|segment| segment == ANY_SEGMENTS);
        if has_only_any_segments {
            prefix.strip_suffix('/').unwrap_or(prefix)
        } else {
            prefix
        }
    }

    /// Returns true if a text that is a name or a pattern contains wildcards.
    pub fn has_wildcards(text: &str) -> bool {
        text.contains('*')
    }

    /// Returns the pattern as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// Implements the matcher; calls `step` for each comparison, with the cost of that comparison.
fn matches_counting(pattern: &str, name: &str, step: &mut impl FnMut(usize)) -> bool {
    let (body, field) = split_field(name);
    let (body_pattern, field_pattern) = split_field(pattern);
    let field_matches = match (field_pattern, field) {
        (None, None) => true,
        (Some(pattern), Some(field)) => segment_matches(pattern, field, step),
        _ => false,
    };
    field_matches && body_matches(body_pattern, body, step)
}

fn split_field(text: &str) -> (&str, Option<&str>) {
    text.split_once('#')
        .map_or((text, None), |(body, field)| (body, Some(field)))
}

/// Matches a sequence of segments. Once the next `**` is reached, the match of the part before it is
/// final, because the leftmost match leaves the most segments for the rest of the pattern.
fn body_matches(pattern: &str, name: &str, step: &mut impl FnMut(usize)) -> bool {
    let mut pattern_rest = pattern.split('/');
    let mut name_rest = name.split('/');
    let mut restart = None;
    loop {
        step(SEGMENT_STEPS);
        let (mut next_pattern, mut next_name) = (pattern_rest.clone(), name_rest.clone());
        match (next_pattern.next(), next_name.next()) {
            (None, None) => return true,
            (Some(ANY_SEGMENTS), _) => {
                restart = Some((next_pattern.clone(), name_rest.clone()));
                pattern_rest = next_pattern;
                continue;
            }
            (Some(pattern), Some(segment)) if segment_matches(pattern, segment, step) => {
                pattern_rest = next_pattern;
                name_rest = next_name;
                continue;
            }
            _ => {}
        }
        // Extend the last `**` by one segment.
        let Some((after_wildcard, retry_from)) = &mut restart else {
            return false;
        };
        if retry_from.next().is_none() {
            return false;
        }
        pattern_rest = after_wildcard.clone();
        name_rest = retry_from.clone();
    }
}

/// Matches the characters of one segment in the same way: only the last `*` can be extended.
fn segment_matches(pattern: &str, segment: &str, step: &mut impl FnMut(usize)) -> bool {
    let (pattern, segment) = (pattern.as_bytes(), segment.as_bytes());
    let (mut pattern_index, mut segment_index) = (0, 0);
    let mut restart = None;
    loop {
        step(1);
        match (pattern.get(pattern_index), segment.get(segment_index)) {
            (None, None) => return true,
            (Some(b'*'), _) => {
                pattern_index += 1;
                restart = Some((pattern_index, segment_index));
                continue;
            }
            (Some(expected), Some(byte)) if expected == byte => {
                pattern_index += 1;
                segment_index += 1;
                continue;
            }
            _ => {}
        }
        let Some((after_wildcard, retry_from)) = &mut restart else {
            return false;
        };
        if *retry_from >= segment.len() {
            return false;
        }
        *retry_from += 1;
        pattern_index = *after_wildcard;
        segment_index = *retry_from;
    }
}

const ANY_SEGMENTS: &str = "**";

/// Number of steps charged for advancing by one segment, which takes as long as this number of
/// character comparisons (measured).
const SEGMENT_STEPS: usize = 12;

#[cfg(test)]
mod tests;
