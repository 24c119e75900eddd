//! The pattern of a rule, prepared for fast decisions.

use trunkline_types::control::paths_above;
use trunkline_types::pattern::PatternError;
use trunkline_types::{Folder, Pattern};

const ANY_SEGMENTS: &str = "**";

/// A pattern of a rule. It has no field.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pattern: Pattern,
    /// The pattern in lower case, for the names of streams, which are not case-sensitive.
    lower: Pattern,
    /// Matches the libraries in which the pattern can match a name; `None` if that is every library.
    library: Option<Pattern>,
    /// True if the pattern matches every name.
    is_everything: bool,
    /// True if the pattern matches every name of the libraries that `library` matches.
    covers_libraries: bool,
}

impl Reach {
    /// Prepares a pattern.
    ///
    /// # Errors
    /// [`PatternError`] if the pattern in lower case is longer than a pattern may be.
    pub(crate) fn new(pattern: &Pattern) -> Result<Self, PatternError> {
        let (first, rest) = match pattern.as_str().split_once('/') {
            Some((first, rest)) => (first, Some(rest)),
            None => (pattern.as_str(), None),
        };
        let is_any = |rest: &str| rest.split('/').all(|segment| segment == ANY_SEGMENTS);
        let library = match first {
            ANY_SEGMENTS => None,
            first => Some(Pattern::parse(first)?),
        };
        Ok(Self {
            pattern: pattern.clone(),
            lower: Pattern::parse(&lower_case(pattern.as_str()))?,
            is_everything: is_any(pattern.as_str()),
            covers_libraries: match rest {
                Some(rest) => is_any(rest),
                None => library.is_none(),
            },
            library,
        })
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.is_everything
    }

    /// Returns the only library in which the pattern matches a name; `None` if there can be several.
    pub(crate) fn single_library(&self) -> Option<&str> {
        let library = self.library.as_ref()?;
        library.is_literal().then(|| library.as_str())
    }

    /// Returns true if the pattern matches `name`, the name of a variable without its field.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.pattern.matches(name)
    }

    /// Returns true if the pattern matches `name`, the name of a stream in [`lower_case`].
    pub(crate) fn matches_stream(&self, name: &str) -> bool {
        self.lower.matches(name)
    }

    /// Returns true if the pattern matches a possible name in `library`.
    pub(crate) fn touches_library(&self, library: &str) -> bool {
        self.library
            .as_ref()
            .is_none_or(|pattern| pattern.matches(library))
    }

    /// Returns true if the pattern matches every possible name in `folder`. May return false for a
    /// pattern that does, such as `boiler/*/**` for the folder `boiler`.
    pub(crate) fn covers_folder(&self, folder: &Folder) -> bool {
        let segments: Vec<&str> = self.pattern.as_str().split('/').collect();
        let any = segments.iter().rev();
        let any = any.take_while(|one| **one == ANY_SEGMENTS).count();
        let head = segments.get(..segments.len() - any).unwrap_or_default();
        if any == 0 || head.is_empty() {
            return self.is_everything;
        }
        // Parts of a valid pattern are valid patterns.
        let Ok(head) = Pattern::parse(&head.join("/")) else {
            return false;
        };
        paths_above(folder.path()).any(|path| !path.is_empty() && head.matches(path))
    }

    /// Returns true if the pattern matches a possible name in `folder`. May return true for a pattern
    /// that matches none.
    pub(crate) fn touches_folder(&self, folder: &Folder) -> bool {
        let pattern: Vec<&str> = self.pattern.as_str().split('/').collect();
        if folder.is_everything() {
            return true;
        }
        // The positions in the pattern that can be reached after the segments so far.
        let mut places = vec![false; pattern.len() + 1];
        places[0] = true;
        skip_any(&pattern, &mut places);
        for segment in folder.path().split('/') {
            let mut next = vec![false; pattern.len() + 1];
            for (place, part) in pattern.iter().enumerate().filter(|(at, _)| places[*at]) {
                if *part == ANY_SEGMENTS {
                    next[place] = true;
                } else if Pattern::parse(part).is_ok_and(|part| part.matches(segment)) {
                    next[place + 1] = true;
                }
            }
            skip_any(&pattern, &mut next);
            places = next;
        }
        places.contains(&true)
    }

    /// Returns true if the pattern matches every possible name in `library`.
    pub(crate) fn covers_library(&self, library: &str) -> bool {
        self.covers_libraries && self.touches_library(library)
    }
}

/// `**` can match zero segments, so whenever it is reached, the position after it is reached as well.
fn skip_any(pattern: &[&str], places: &mut [bool]) {
    for (place, part) in pattern.iter().enumerate() {
        if places[place] && *part == ANY_SEGMENTS {
            places[place + 1] = true;
        }
    }
}

/// Returns a text in lower case. A few characters need two passes, as in the canonical form of a stream's URL.
/// Unlike the canonical form, this function writes every lower-case sigma in the same way, so that a pattern
/// matches in any position of a word.
pub(crate) fn lower_case(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    let lower = lower.flat_map(char::to_lowercase);
    lower.map(|c| if c == 'ς' { 'σ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reach(text: &str) -> Reach {
        Reach::new(&Pattern::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn libraries_are_touched_and_covered() {
        for (pattern, library, touches, covers) in [
            ("**", "boiler", true, true),
            ("**/**", "boiler", true, true),
            ("boiler/**", "boiler", true, true),
            ("boiler/**/**", "boiler", true, true),
            ("boil*/**", "boiler", true, true),
            ("*/**", "boiler", true, true),
            ("boiler/**", "rack", false, false),
            ("boiler/*", "boiler", true, false),
            ("boiler/level", "boiler", true, false),
            ("boiler/pump/**", "boiler", true, false),
            ("**/level", "boiler", true, false),
            // These match the name of the library, but not all of its variables.
            ("**/boiler", "boiler", true, false),
            ("boiler", "boiler", true, false),
            ("*", "boiler", true, false),
            ("Boiler/**", "boiler", false, false),
        ] {
            let sut = reach(pattern);
            assert_eq!(sut.touches_library(library), touches, "{pattern} {library}");
            assert_eq!(sut.covers_library(library), covers, "{pattern} {library}");
        }
        assert_eq!(reach("boiler/**").single_library(), Some("boiler"));
        for several in ["**", "*/level", "b*/level", "**/level"] {
            assert_eq!(reach(several).single_library(), None);
        }
    }

    #[test]
    fn folders_are_touched_and_covered() {
        for (pattern, folder, touches, covers) in [
            ("**", "**", true, true),
            ("boiler/**", "**", true, false),
            ("**", "boiler", true, true),
            ("boiler/**", "boiler", true, true),
            ("boiler/**", "boiler/pump", true, true),
            ("boiler/**/**", "boiler/pump", true, true),
            ("b*/**", "boiler/pump", true, true),
            ("*/pump/**", "boiler/pump/a", true, true),
            ("**/pump/**", "boiler/pump", true, true),
            ("boiler/pump/**", "boiler", true, false),
            ("boiler/*", "boiler", true, false),
            ("boiler/*", "boiler/pump", true, false),
            ("boiler/*", "boiler/pump/a", false, false),
            ("**/level", "boiler/pump", true, false),
            ("rig/**", "boiler", false, false),
            ("boiler/fan/**", "boiler/pump", false, false),
            ("boiler2/**", "boiler", false, false),
        ] {
            let sut = reach(pattern);
            let place = Folder::parse(folder).unwrap();
            assert_eq!(sut.touches_folder(&place), touches, "{pattern} {folder}");
            assert_eq!(sut.covers_folder(&place), covers, "{pattern} {folder}");
        }
    }

    #[test]
    fn streams_are_matched_in_lower_case() {
        let sut = reach("Rig/Camera %2F*");
        assert!(sut.matches_stream("rig/camera %2F1"));
        assert!(!sut.matches("rig/camera %2F1"));
        assert!(sut.matches("Rig/Camera %2F1"));
        assert!(reach("ΑΣ*").matches_stream(&lower_case("ας")));
        assert!(reach("ΑΣ*").matches_stream(&lower_case("ασβ")));
        // `İ` is longer in lower case than in upper case. Only a very long pattern is refused for this.
        let long = Pattern::parse(&"İ".repeat(128)).unwrap();
        assert!(Reach::new(&long).is_err());
    }

    fn segments(wildcards: bool) -> impl Strategy<Value = String> {
        let one: &[&str] = match wildcards {
            true => &["a", "b", "ab", "*", "a*", "*b", "**"],
            false => &["a", "b", "ab", "aab"],
        };
        prop::collection::vec(prop::sample::select(one), 1..4).prop_map(|parts| parts.join("/"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn covered_library_is_matched_in_full_and_untouched_one_not_at_all(
            pattern in segments(true), library in "a|b|ab|aab", path in segments(false),
        ) {
            let sut = reach(&pattern);
            let matches = sut.matches(&format!("{library}/{path}"));
            prop_assert!(matches || !sut.covers_library(&library));
            prop_assert!(!matches || sut.touches_library(&library));
        }

        #[test]
        fn covered_folder_is_matched_in_full_and_untouched_one_not_at_all(
            pattern in segments(true), folder in segments(false), path in segments(false),
        ) {
            let sut = reach(&pattern);
            let below = sut.matches(&format!("{folder}/{path}"));
            let folder = Folder::parse(&folder).unwrap();
            // The folder contains the variable of its own name, too.
            let matches_all = below && sut.matches(folder.path());
            let matches_some = below || sut.matches(folder.path());
            prop_assert!(matches_all || !sut.covers_folder(&folder));
            prop_assert!(!matches_some || sut.touches_folder(&folder));
        }
    }
}
