//! `--format`: prints readings with a template that the user provides.

use std::fmt::Write;

use trunkline_types::text::escape;

use super::ReadingView;
use super::times::TimeColumn;
use super::values::ValueStyle;
use crate::Problem;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Text(String),
    Placeholder(&'static str),
}

const PLACEHOLDERS: [&str; 13] = [
    "name",
    "value",
    "units",
    "type",
    "time",
    "ts",
    "engine_ts",
    "quality",
    "epoch",
    "seq",
    "lost",
    "coalesced",
    "age",
];

impl Template {
    /// Parses a template: placeholders in braces, `{{` and `}}` for braces, `\t`, `\n` and `\\`.
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
                    let Some((placeholder, after)) = rest.as_str().split_once('}') else {
                        return Err(invalid(
                            text,
                            "an opening brace has no closing brace; for a literal brace, write {{",
                        ));
                    };
                    let Some(placeholder) =
                        PLACEHOLDERS.into_iter().find(|known| *known == placeholder)
                    else {
                        return Err(invalid(
                            text,
                            &format!("unknown placeholder {{{placeholder}}}"),
                        ));
                    };
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Placeholder(placeholder));
                    rest = after.chars();
                }
                ('}', _) => {
                    return Err(invalid(
                        text,
                        "a closing brace has no opening brace; for a literal brace, write }}",
                    ));
                }
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

    pub(crate) fn line(
        &self,
        view: &ReadingView<'_>,
        values: ValueStyle,
        time: &mut Option<TimeColumn>,
    ) -> String {
        let (reading, sample, metadata) = (view.reading, &view.reading.sample, view.metadata);
        let mut line = String::new();
        for part in &self.0 {
            let placeholder = match part {
                Part::Text(text) => {
                    line.push_str(text);
                    continue;
                }
                Part::Placeholder(placeholder) => placeholder,
            };
            match *placeholder {
                "name" => line.push_str(&escape(view.name)),
                "value" if view.has_value => {
                    let text = values.text(&sample.value, &metadata.data_type, metadata.precision);
                    line.push_str(&text);
                }
                "units" => line.push_str(&escape(&metadata.units)),
                "type" => put(&mut line, &metadata.data_type),
                "time" if view.is_written() => {
                    if let Some(time) = time {
                        line.push_str(&time.text(view.name, view.times()));
                    }
                }
                "ts" if view.is_written() => put(&mut line, &sample.source_timestamp),
                "engine_ts" if view.is_written() => put(&mut line, &sample.engine_timestamp),
                "quality" => put(&mut line, &sample.quality),
                "epoch" => put(&mut line, &reading.position.epoch),
                "seq" => put(&mut line, &reading.position.sequence),
                "lost" => match reading.lost.count() {
                    Some(count) => put(&mut line, &count),
                    None => line.push_str("unknown"),
                },
                "coalesced" => put(&mut line, &reading.lost.coalesced),
                "age" => {
                    if let Some(age) = reading.stale {
                        put(&mut line, &age.as_secs_f64());
                    }
                }
                // A placeholder is empty if the reading has no value or no time.
                _ => {}
            }
        }
        line
    }
}

fn put(line: &mut String, value: &dyn std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = write!(line, "{value}");
}

fn invalid(text: &str, reason: &str) -> Problem {
    let placeholders = PLACEHOLDERS
        .map(|placeholder| format!("{{{placeholder}}}"))
        .join(" ");
    Problem::usage(format!(
        "--format \"{text}\": {reason}; the placeholders are {placeholders}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fixtures::{T, metadata, reading, with_bad_quality};

    fn line(template: &str, reading: &trunkline_types::Reading) -> String {
        let metadata = metadata();
        let view = ReadingView::new("boiler/level", &metadata, reading, T);
        let template = Template::parse(template).unwrap();
        template.line(&view, ValueStyle::default(), &mut None)
    }

    #[test]
    fn placeholders_are_replaced_and_the_rest_stays() {
        assert_eq!(
            line("{name}={value} {units}", &reading()),
            "boiler/level=72.41 %"
        );
        assert_eq!(line("{{{seq}}}\\t{type}\\\\", &reading()), "{48213}\tf64\\");
        assert_eq!(
            line("{quality} {lost} {age}", &with_bad_quality()),
            "bad: sensor-failure (simulated) 3 3.25"
        );
        assert_eq!(line("{ts}", &reading()), "2026-11-20T21:39:04.123456789Z");
    }

    #[test]
    fn untrusted_text_cannot_end_a_line() {
        let metadata = crate::output::Metadata {
            units: "m\n\u{2028}".to_owned(),
            ..metadata()
        };
        let reading = reading();
        let view = ReadingView::new("a/b", &metadata, &reading, T);
        let template = Template::parse("{value} {units}\\n").unwrap();
        let line = template.line(&view, ValueStyle::default(), &mut None);
        assert_eq!(line, "72.41 m\\n\\u2028\n");
    }

    #[test]
    fn errors_list_the_valid_placeholders() {
        for text in ["{nme}", "{name", "name}", "{}"] {
            let problem = Template::parse(text).unwrap_err();
            assert!(
                problem.hint.unwrap().contains("{name} {value} {units}"),
                "{text}"
            );
        }
    }
}
