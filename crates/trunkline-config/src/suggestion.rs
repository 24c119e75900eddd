//! Suggests the word that was probably meant.

use trunkline_types::name::suggest;

/// Longest word for which suggestions are searched.
const CHARS_MAX: usize = 64;

/// Returns the candidate that was probably meant by `word`. Applies the rules for names first. If
/// these find nothing, takes the nearest candidate within a third of the word's length, because
/// keys are short and swapped letters are common.
pub(crate) fn closest_match<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<String> {
    let candidates: Vec<&str> = candidates.collect();
    suggest(word, candidates.iter().copied()).or_else(|| {
        let length = word.chars().count();
        let distance = |candidate| strsim::osa_distance(word, candidate);
        let near = candidates
            .into_iter()
            .filter(|candidate| length <= CHARS_MAX && candidate.len() <= 4 * CHARS_MAX)
            .map(|candidate| (distance(candidate), candidate))
            .filter(|(distance, _)| *distance <= (length / 3).max(1))
            .min_by_key(|(distance, _)| *distance)?;
        Some(near.1.to_owned())
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
