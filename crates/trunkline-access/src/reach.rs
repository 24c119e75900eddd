//! The names that the pattern of a rule reaches, prepared for decisions.

use trunkline_types::Pattern;
use trunkline_types::pattern::PatternError;

const ANY_SEGMENTS: &str = "**";

/// A pattern of a rule. It has no field.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pattern: Pattern,
    /// The pattern in lower case, for the names of streams, which are not case-sensitive.
    lower: Pattern,
    /// Matches the libraries that contain a name that the pattern matches; `None` if every library does.
    library: Option<Pattern>,
    /// The pattern matches every name.
    is_everything: bool,
    /// The pattern matches every name of the libraries that `library` matches.
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

    /// Returns true if the pattern matches every possible name in `library`.
    pub(crate) fn covers_library(&self, library: &str) -> bool {
        self.covers_libraries && self.touches_library(library)
    }
}

/// Returns a text in lower case. A few characters need two passes, as in the canonical form of a stream's URL.
/// Unlike there, a sigma has one form everywhere, so that a pattern matches whether it ends in one or not.
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
    }
}
