//! Makes external text safe to display.
//!
//! Values, names, descriptions, units and other texts supplied by a file, a device or another
//! program may contain characters that control a terminal, end a line, or hide or reorder the
//! characters around them. [`escape`] replaces each such character with its JSON escape (`\n`,
//! `\u001b`, `\u2028`; two escapes for characters beyond U+FFFF). The same rule can therefore be
//! used for plain text, CSV and JSON: escaping JSON does not change its meaning.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns true if a character must not be written to a terminal or a line of output unescaped.
///
/// This is true for control characters (C0, DEL, C1), the line and paragraph separators, and every
/// character without a glyph: Unicode's `Default_Ignorable_Code_Point` (marks of direction,
/// zero-width characters, variation selectors, tags, fillers) and the interlinear annotation marks.
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

/// Returns the text as one line without [unprintable](is_unprintable) characters.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_except(text, |_| false)
}

/// Like [`escape`], but leaves characters unescaped for which `keep` returns true, such as the line
/// breaks of a multi-line text.
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
                // Writing to a `String` cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}
