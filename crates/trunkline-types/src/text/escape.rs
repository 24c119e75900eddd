//! Text from outside, made safe to show.
//!
//! Values, names, descriptions, units and everything else that a file, a device or another program
//! supplied may hold characters that a terminal obeys, that end a line, or that hide or reorder the
//! characters around them. [`escape`] replaces each by the escape that JSON has for it (`\n`,
//! `\u001b`, `\u2028`; two of them beyond U+FFFF), so one rule serves plain text, CSV and JSON
//! alike: JSON that was escaped is the same JSON.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character must not reach a terminal or a line of output as it is.
///
/// True for control characters (C0, DEL, C1), the line and paragraph separators, and every
/// character that has no glyph of its own: Unicode's `Default_Ignorable_Code_Point` (marks of
/// direction, zero-width characters, variation selectors, tags, fillers) and the interlinear
/// annotation marks.
pub const fn is_unprintable(character: char) -> bool {
    matches!(character,
        '\0'..='\u{1F}'
        | '\u{7F}'..='\u{9F}'
        | '\u{AD}'
        | '\u{34F}'
        | '\u{61C}'
        | '\u{115F}'..='\u{1160}'
        | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

/// The text as one line that holds no [unprintable](is_unprintable) character.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_except(text, |_| false)
}

/// As [`escape`]; characters that `keep` names stay as they are, such as the line breaks of a text
/// that has several lines.
pub fn escape_except(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_escaped = |character: char| is_unprintable(character) && !keep(character);
    let Some(first) = text.find(is_escaped) else {
        return Cow::Borrowed(text);
    };
    let mut escaped = String::with_capacity(text.len() + 16);
    let (before, rest) = text.split_at(first);
    escaped.push_str(before);
    for character in rest.chars() {
        match is_escaped(character) {
            true => push_escape(character, &mut escaped),
            false => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

fn push_escape(character: char, out: &mut String) {
    match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        other => {
            for unit in other.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}
