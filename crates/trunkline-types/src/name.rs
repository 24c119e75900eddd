//! Full names: `library/path`, and `library/path#field` for a field of a variable.
//!
//! ```text
//! rack1/ai/Tank 3 level#alarm.hi.limit
//! -----                 library: the first segment
//!       ---------------  path: one or more segments
//!                        --------------  field, after the only '#'
//! ```
//!
//! Every [printable](crate::text::is_unprintable) character is legal. Four characters have a
//! special meaning and must be escaped to be used literally: `%2F` is `/`, `%23` is `#`, `%25` is
//! `%`, `%2A` is `*`. Names are compared byte by byte in escaped form, and are case-sensitive. `.`
//! and `..` are ordinary segments and are never resolved.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::str::FromStr;

use crate::text::is_unprintable;

/// Maximum length of a full name in bytes, including escapes and the field.
pub const NAME_BYTES_MAX: usize = 1024;

/// Takes the place of a variable's name in an answer, if the caller may not read the variable. It
/// follows "alias of" and the like, and is not a valid name.
pub const HIDDEN_VARIABLE: &str = "a variable that you may not read";

/// The library name that denotes register numbers: `:/20` is another name of the variable whose
/// `number` is 20. No library can be named `:`.
pub const NUMBERS_LIBRARY: &str = ":";

/// Returns true if the name of a library or variable is reserved for the engine.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with('_')
}

/// Returns the register number in a full name such as `:/20`: decimal digits without a leading
/// zero.
pub fn register_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix(NUMBERS_LIBRARY)?.strip_prefix('/')?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = digits.len() > 1 && digits.starts_with('0');
    match is_plain && !is_padded {
        true => digits.parse().ok(),
        false => None,
    }
}

/// A valid full name in canonical form: the hexadecimal digits of its escapes are upper case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// The text is not a valid name. Positions are byte offsets from 0.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("the name is empty: write library/path")]
    Empty,
    /// The bytes, received over a connection, are not UTF-8.
    #[error("the name is not UTF-8; the program that sent it is at fault")]
    NotUtf8,
    #[error("the name has {bytes} bytes; {max} is the limit")]
    TooLong {
        /// Length of the name, in bytes.
        bytes: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// The name has only one segment.
    #[error("{text:?} is not a full name: write library/path")]
    NoPath {
        /// The name as given.
        text: String,
    },
    /// Two consecutive slashes, or a slash at either end.
    #[error(
        "empty segment at byte {position}: use single slashes between segments and none at the start or end"
    )]
    EmptySegment {
        /// Offset at which a segment was expected.
        position: usize,
    },
    /// A character that is invisible or that reorders the displayed text.
    #[error("the character U+{:04X} at byte {position} is not printable", u32::from(*character))]
    Unprintable {
        /// Offset of the character.
        position: usize,
        character: char,
    },
    /// A percent sign that does not begin one of the four escapes.
    #[error(
        "'%' at byte {position} does not begin %2F, %23, %25 or %2A: write %25 for a percent sign, and other characters as they are"
    )]
    Escape {
        /// Offset of the percent sign.
        position: usize,
    },
    /// A star where no pattern is allowed.
    #[error("'*' at byte {position} is a wildcard, which a name cannot have: write %2A for a star")]
    Wildcard {
        /// Offset of the star.
        position: usize,
    },
    /// A second `#`, or a slash after the `#`.
    #[error(
        "{character:?} at byte {position} is not allowed in a field: write {escape} for the character itself"
    )]
    InField {
        /// Offset of the character.
        position: usize,
        character: char,
        /// The escape to write instead.
        escape: &'static str,
    },
    /// The field after the `#` is empty.
    #[error("the field after '#' is empty: write %23 for the character itself")]
    EmptyField,
    /// The text must be a single segment, such as the name of a library or a field, but contains a
    /// slash or a hash.
    #[error(
        "{character:?} at byte {position} ends the segment, but one segment is needed: write {escape}"
    )]
    NotOneSegment {
        /// Offset of the character.
        position: usize,
        character: char,
        /// The escape to write instead.
        escape: &'static str,
    },
}

impl Name {
    /// Checks a full name and converts it to canonical form.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        Ok(Self(Self::canonical(text)?.into()))
    }

    /// Returns the canonical form of a full name without building a `Name`.
    pub fn canonical(text: &str) -> Result<Cow<'_, str>, NameError> {
        let canonical = canonicalize(text, NAME_BYTES_MAX, Wildcards::Refused)?;
        let body = canonical.split('#').next().unwrap_or_default();
        if !body.contains('/') {
            return Err(NameError::NoPath {
                text: canonical.into_owned(),
            });
        }
        Ok(canonical)
    }

    /// Returns the full name of the variable `path` of `library`; both are given escaped.
    ///
    /// # Errors
    /// [`NameError`], as for [`Name::parse`] or if `library` is not a single segment.
    pub fn join(library: &str, path: &str) -> Result<Self, NameError> {
        check_segment(library)?;
        Self::parse(&format!("{library}/{path}"))
    }

    /// Returns the first segment, escaped.
    pub fn library(&self) -> &str {
        self.0
            .split_once('/')
            .map_or(&*self.0, |(library, _)| library)
    }

    /// Returns the path after the library, without the field, escaped.
    pub fn path(&self) -> &str {
        self.without_field()
            .split_once('/')
            .map_or("", |(_, path)| path)
    }

    /// Returns the field after the `#`, such as `units` or `alarm.hi.limit`.
    pub fn field(&self) -> Option<&str> {
        self.0.split_once('#').map(|(_, field)| field)
    }

    /// Returns the name of the variable, without its field.
    pub fn without_field(&self) -> &str {
        self.0.split_once('#').map_or(&*self.0, |(body, _)| body)
    }

    /// Returns the segments without the field, library first, escaped; at least two.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.without_field().split('/')
    }

    /// Returns the whole name in canonical form, including the field.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Name> for Box<str> {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Checks a library's name, or any other single segment, in escaped form.
pub fn check_segment(text: &str) -> Result<(), NameError> {
    for (position, character) in text.char_indices() {
        if let Some(escape) = matches!(character, '/' | '#')
            .then(|| escape_of(character))
            .flatten()
        {
            return Err(NameError::NotOneSegment {
                position,
                character,
                escape,
            });
        }
    }
    canonicalize(text, NAME_BYTES_MAX, Wildcards::Refused).map(|_| ())
}

/// Escapes any text for use as one segment of a name: `/`, `#`, `%` and `*` become escapes.
pub fn escape_segment(text: &str) -> Cow<'_, str> {
    if !text.contains(['/', '#', '%', '*']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match escape_of(character) {
            Some(escape) => escaped.push_str(escape),
            None => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

/// Reverses [`escape_segment`]; any other percent sequence is left unchanged.
pub fn unescape_segment(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('%') {
        plain.push_str(&rest[..start]);
        rest = &rest[start..];
        let (character, length) = read_escape(rest).map_or(('%', 1), |(c, _)| (c, 3));
        plain.push(character);
        rest = &rest[length..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Returns the candidate that `name` was probably intended to be: a candidate that differs only in
/// case, or otherwise the first of the nearest candidates within an edit distance of a quarter of
/// the name's length (at least one). Swapping two neighbouring characters counts as one edit.
///
/// Compares `name` with every candidate, and computes the edit distance to candidates of similar
/// length. Use it for a single unknown name, not for each of 100,000 names. A name of more than 128
/// characters is compared only for equality, ignoring case.
pub fn suggest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let length = name.chars().count();
    let lower = name.to_lowercase();
    let mut allowed = if length > SUGGEST_CHARS_MAX {
        0
    } else {
        (length / 4).max(1)
    };
    let mut nearest = None;
    for candidate in candidates {
        if candidate == name {
            continue;
        }
        if candidate.to_lowercase() == lower {
            return Some(candidate.to_owned());
        }
        let similar_length = candidate.chars().count().abs_diff(length) <= allowed;
        if allowed == 0 || !similar_length {
            continue;
        }
        let distance = strsim::osa_distance(name, candidate);
        if distance <= allowed && distance > 0 {
            nearest = Some(candidate);
            // Only a nearer candidate replaces this one. At distance 1, no candidate is nearer, but
            // a candidate that differs only in case may still follow.
            allowed = distance - 1;
        }
    }
    nearest.map(str::to_owned)
}

/// Selects whether the scanned text may contain wildcards.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wildcards {
    Allowed,
    Refused,
}

/// Checks, in one pass, the rules shared by names, patterns and the name part of URLs, and converts
/// escapes to upper case.
pub(crate) fn canonicalize(
    text: &str,
    bytes_max: usize,
    wildcards: Wildcards,
) -> Result<Cow<'_, str>, NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > bytes_max {
        return Err(NameError::TooLong {
            bytes: text.len(),
            max: bytes_max,
        });
    }
    let mut segment_start = 0;
    let mut in_field = false;
    let mut has_lower_escape = false;
    for (position, character) in text.char_indices() {
        match character {
            '/' | '#' if in_field => {
                let escape = escape_of(character).unwrap_or_default();
                return Err(NameError::InField {
                    position,
                    character,
                    escape,
                });
            }
            '/' | '#' => {
                if position == segment_start {
                    return Err(NameError::EmptySegment { position });
                }
                segment_start = position + 1;
                in_field = character == '#';
            }
            '*' if wildcards == Wildcards::Refused => return Err(NameError::Wildcard { position }),
            '%' => match read_escape(&text[position..]) {
                Some((_, upper)) => has_lower_escape |= !text[position..].starts_with(upper),
                None => return Err(NameError::Escape { position }),
            },
            character if is_unprintable(character) => {
                return Err(NameError::Unprintable {
                    position,
                    character,
                });
            }
            _ => {}
        }
    }
    if segment_start == text.len() {
        return Err(if in_field {
            NameError::EmptyField
        } else {
            NameError::EmptySegment {
                position: segment_start,
            }
        });
    }
    Ok(if has_lower_escape {
        Cow::Owned(upper_escapes(text))
    } else {
        Cow::Borrowed(text)
    })
}

/// Converts every escape of a checked text to upper case.
fn upper_escapes(text: &str) -> String {
    let mut canonical = String::with_capacity(text.len());
    for (index, piece) in text.split('%').enumerate() {
        let (digits, rest) = piece.split_at(if index == 0 { 0 } else { 2 });
        if index > 0 {
            canonical.push('%');
            canonical.push_str(&digits.to_ascii_uppercase());
        }
        canonical.push_str(rest);
    }
    canonical
}

fn escape_of(character: char) -> Option<&'static str> {
    match character {
        '/' => Some("%2F"),
        '#' => Some("%23"),
        '%' => Some("%25"),
        '*' => Some("%2A"),
        _ => None,
    }
}

/// Returns the character of the escape at the start of `text`, and the escape's canonical spelling.
fn read_escape(text: &str) -> Option<(char, &'static str)> {
    let start = text.get(..3)?;
    ['/', '#', '%', '*'].into_iter().find_map(|character| {
        let escape = escape_of(character)?;
        escape
            .eq_ignore_ascii_case(start)
            .then_some((character, escape))
    })
}

/// Longest name, in characters, for which similar names are suggested.
const SUGGEST_CHARS_MAX: usize = 128;

#[cfg(test)]
mod tests;
