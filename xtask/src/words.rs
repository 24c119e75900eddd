//! Finds words in a line of source.

/// Returns true if `line` contains `word` with no identifier character on either side.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_identifier) && !after.is_some_and(is_identifier)
    })
}

/// Returns true if the line is a comment and nothing else.
pub(crate) fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_has_no_identifier_character_on_either_side() {
        assert!(has_word("use std::sync::{Arc, Mutex};", "Mutex"));
        assert!(!has_word("let a = MutexGuard;", "Mutex"));
        assert!(!has_word("let a = my_Mutex;", "Mutex"));
        assert!(has_word("MutexGuard, Mutex", "Mutex"));
    }
}
