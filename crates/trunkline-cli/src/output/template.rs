//! `--format`: readings in a form that the user defines.

use std::fmt::Write;

use trunkline_types::text::escape;

use super::Shown;
use super::times::TimeColumn;
use super::values::ValueStyle;
use crate::problem::Problem;

/// A parsed template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Word(Word),
}

/// Declares each word and its name once.
macro_rules! words {
    ($($variant:ident = $name:literal,)+) => {
        /// A word in braces.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        enum Word {
            $($variant,)+
        }

        /// All words, for error messages and the help.
        pub(crate) const WORDS: &str = concat!($("{", $name, "} ",)+);

        impl Word {
            fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Word::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

words! {
    Name = "name",
    Value = "value",
    Units = "units",
    Type = "type",
    Time = "time",
    SourceTime = "ts",
    EngineTime = "engine_ts",
    Quality = "quality",
    Epoch = "epoch",
    Sequence = "seq",
    Lost = "lost",
    Coalesced = "coalesced",
    Age = "age",
}

impl Template {
    /// Parses a template: words in braces, `{{` and `}}` for braces, `\t`, `\n` and `\\`.
    ///
    /// # Errors
    /// A usage problem that lists the words.
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            let next = rest.as_str().chars().next();
            match (character, next) {
                ('{', Some('{')) | ('}', Some('}')) => {
                    rest.next();
                    plain.push(character);
                }
                ('{', _) => {
                    let Some((word, after)) = rest.as_str().split_once('}') else {
                        return Err(wrong(text, "a brace is not closed"));
                    };
                    let Some(word) = Word::parse(word) else {
                        return Err(wrong(text, &format!("there is no placeholder {{{word}}}")));
                    };
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Word(word));
                    rest = after.chars();
                }
                ('}', _) => return Err(wrong(text, "a closing brace has no opening brace")),
                ('\\', Some(escaped @ ('t' | 'n' | '\\'))) => {
                    rest.next();
                    plain.push(match escaped {
                        't' => '\t',
                        'n' => '\n',
                        other => other,
                    });
                }
                (character, _) => plain.push(character),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// Formats a reading.
    pub(crate) fn line(
        &self,
        shown: &Shown<'_>,
        values: ValueStyle,
        time: &mut Option<TimeColumn>,
    ) -> String {
        let (reading, sample, facts) = (shown.reading, &shown.reading.sample, shown.facts);
        let mut line = String::new();
        for part in &self.0 {
            let word = match part {
                Part::Text(text) => {
                    line.push_str(text);
                    continue;
                }
                Part::Word(word) => word,
            };
            match word {
                Word::Name => line.push_str(&escape(shown.name)),
                Word::Value if shown.has_value => {
                    let text = values.text(&sample.value, &facts.data_type, facts.precision);
                    line.push_str(&text);
                }
                Word::Value => {}
                Word::Units => line.push_str(&escape(&facts.units)),
                Word::Type => put(&mut line, &facts.data_type),
                Word::Time => {
                    if let Some(time) = time.as_mut().filter(|_| shown.is_written()) {
                        line.push_str(&time.text(shown.name, shown.times()));
                    }
                }
                Word::SourceTime | Word::EngineTime if !shown.is_written() => {}
                Word::SourceTime => put(&mut line, &sample.source_timestamp),
                Word::EngineTime => put(&mut line, &sample.engine_timestamp),
                Word::Quality => put(&mut line, &sample.quality),
                Word::Epoch => put(&mut line, &reading.position.epoch),
                Word::Sequence => put(&mut line, &reading.position.sequence),
                Word::Lost => match reading.lost.count() {
                    Some(count) => put(&mut line, &count),
                    None => line.push_str("unknown"),
                },
                Word::Coalesced => put(&mut line, &reading.lost.coalesced),
                Word::Age => {
                    if let Some(age) = reading.stale {
                        put(&mut line, &age.as_secs_f64());
                    }
                }
            }
        }
        line
    }
}

fn put(line: &mut String, what: &dyn std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(line, "{what}");
}

fn wrong(text: &str, what: &str) -> Problem {
    Problem::usage(&format!(
        "--format \"{text}\": {what}; the placeholders are {}",
        WORDS.trim_end()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::specimen::{T, facts, reading, troubled};

    fn line(template: &str, reading: &trunkline_types::Reading) -> String {
        let facts = facts();
        let shown = Shown::new("boiler/level", &facts, reading, T);
        let template = Template::parse(template).unwrap();
        template.line(&shown, ValueStyle::default(), &mut None)
    }

    #[test]
    fn words_are_replaced_and_the_rest_stays() {
        assert_eq!(
            line("{name}={value} {units}", &reading()),
            "boiler/level=72.41 %"
        );
        assert_eq!(line("{{{seq}}}\\t{type}\\\\", &reading()), "{48213}\tf64\\");
        assert_eq!(
            line("{quality} {lost} {age}", &troubled()),
            "bad: sensor-failure (simulated) 3 3.25"
        );
        assert_eq!(line("{ts}", &reading()), "2026-11-20T21:39:04.123456789Z");
    }

    #[test]
    fn text_from_outside_ends_no_line() {
        let facts = crate::output::Facts {
            units: "m\n\u{2028}".to_owned(),
            ..facts()
        };
        let reading = reading();
        let shown = Shown::new("a/b", &facts, &reading, T);
        let template = Template::parse("{value} {units}\\n").unwrap();
        let line = template.line(&shown, ValueStyle::default(), &mut None);
        assert_eq!(line, "72.41 m\\n\\u2028\n");
    }

    #[test]
    fn mistakes_name_the_words_there_are() {
        for text in ["{nme}", "{name", "name}", "{}"] {
            let problem = Template::parse(text).unwrap_err();
            assert!(
                problem.hint.unwrap().contains("{name} {value} {units}"),
                "{text}"
            );
        }
    }
}
