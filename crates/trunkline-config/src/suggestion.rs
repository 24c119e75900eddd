//! Suggests the word that the user probably meant.

use trunkline_types::name::suggest;

/// Maximum length of a word for which suggestions are searched, in characters.
const CHARS_MAX: usize = 64;

/// Returns the candidate that the user probably meant by `word`.
///
/// Applies the rules for names first. If they find nothing, returns the candidate with the smallest
/// edit distance, which must be at most a third of the word's length. Keys are short, and swapped
/// letters are common, so the rules for names alone would miss many mistakes.
pub(crate) fn closest_match<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let candidates: Vec<&str> = candidates.collect();
    suggest(word, candidates.iter().copied()).or_else(|| {
        let length = word.chars().count();
        let distance = |candidate| strsim::osa_distance(word, candidate);
        let (_, closest) = candidates
            .into_iter()
            .filter(|candidate| length <= CHARS_MAX && candidate.len() <= 4 * CHARS_MAX)
            .map(|candidate| (distance(candidate), candidate))
            .filter(|(distance, _)| *distance <= (length / 3).max(1))
            .min_by_key(|(distance, _)| *distance)?;
        Some(closest.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_are_matched_to_the_intended_key() {
        let keys = || ["length", "capacity", "kind", "at"].into_iter();
        assert_eq!(closest_match("lenght", keys()).as_deref(), Some("length"));
        assert_eq!(closest_match("LENGTH", keys()).as_deref(), Some("length"));
        assert_eq!(
            closest_match("capcity", keys()).as_deref(),
            Some("capacity")
        );
        assert_eq!(closest_match("knid", keys()).as_deref(), Some("kind"));
        assert_eq!(closest_match("colour", keys()), None);
        assert_eq!(closest_match(&"l".repeat(100_000), keys()), None);
    }
}
