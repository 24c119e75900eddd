//! Reads the values to write from the command line, standard input or a file.

use std::path::Path;

use super::ValueArgs;
use crate::Problem;
use crate::output::csv;
use crate::problem::file_reason;
use crate::terminal::read_text;

/// A name and its value, as typed.
pub(super) type Pair = (String, String);

/// Returns the names and values in the arguments. In an atomic group, they may also alternate:
/// NAME VALUE NAME VALUE.
pub(super) fn pairs(args: &ValueArgs, is_atomic: bool) -> Result<Vec<Pair>, Problem> {
    if let Some(path) = &args.csv {
        return pairs_of_csv(path);
    }
    match args.words.as_slice() {
        [] => Err(Problem::usage("no name or value given; write NAME VALUE")),
        words if words.iter().all(|word| word.contains('=')) => Ok(words
            .iter()
            .filter_map(|word| word.split_once('='))
            .map(owned)
            .collect()),
        [name, value] if value == "-" => {
            let text = read_text(Path::new(value))
                .map_err(|error| Problem::usage(format!("cannot read standard input: {error}")))?;
            let text = text.strip_suffix('\n').unwrap_or(&text);
            let text = text.strip_suffix('\r').unwrap_or(text);
            Ok(vec![(name.clone(), text.to_owned())])
        }
        [name, value] => Ok(vec![(name.clone(), value.clone())]),
        words if is_atomic && words.len().is_multiple_of(2) => {
            let (pairs, _) = words.as_chunks::<2>();
            let pair = |[name, value]: &[String; 2]| (name.clone(), value.clone());
            Ok(pairs.iter().map(pair).collect())
        }
        [name] => {
            let sentence = format!("no value given for {name}; write NAME VALUE");
            Err(Problem::usage(sentence))
        }
        [.., name] if is_atomic => {
            let sentence = format!("no value given for {name}; write NAME VALUE NAME VALUE");
            Err(Problem::usage(sentence))
        }
        _ => {
            let sentence = "several values must have the form NAME=VALUE NAME=VALUE; put quotes \
                            around a value that contains spaces";
            Err(Problem::usage(sentence))
        }
    }
}

fn owned((name, value): (&str, &str)) -> Pair {
    (name.to_owned(), value.to_owned())
}

fn pairs_of_csv(path: &Path) -> Result<Vec<Pair>, Problem> {
    let shown = path.display();
    let invalid = |place: String, what: &str| Problem::usage(format!("{shown}{place}: {what}"));
    let text = read_text(path).map_err(|error| {
        let reason = file_reason(&error);
        let reason = reason.split("; ").next().unwrap_or_default();
        let what =
            format!("{reason}; specify a CSV file, such as the output of `trunkline get -o csv`");
        invalid(String::new(), &what)
    })?;
    let rows = csv::parse(&text).map_err(|(line, what)| invalid(format!(":{line}"), what))?;
    let Some((header, rows)) = rows.split_first() else {
        return Ok(Vec::new());
    };
    let column = |name: &str| {
        header
            .cells
            .iter()
            .position(|cell| cell == name)
            .ok_or_else(|| {
                let what =
                    format!("there is no column \"{name}\"; add it to the first line, the header");
                invalid(format!(":{}", header.line), &what)
            })
    };
    let (name, value) = (column("name")?, column("value")?);
    rows.iter()
        .map(|row| match (row.cells.get(name), row.cells.get(value)) {
            (Some(name), Some(value)) => Ok((name.clone(), value.clone())),
            _ => {
                let what = "the row is too short; each row needs a name and a value";
                Err(invalid(format!(":{}", row.line), what))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    fn pairs_of(words: &[&str]) -> Result<Vec<Pair>, Problem> {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        pairs(&args_of(words), false)
    }

    fn args_of(words: Vec<String>) -> ValueArgs {
        ValueArgs {
            words,
            csv: None,
            no_wait: false,
        }
    }

    #[test]
    fn names_and_values_may_alternate_in_an_atomic_group() {
        let args = args_of(["a/b", "1", "a/c", "x=y"].map(str::to_owned).to_vec());
        let expected = vec![pair("a/b", "1"), pair("a/c", "x=y")];
        assert_eq!(pairs(&args, true), Ok(expected));
        let odd = args_of(["a/b", "1", "a/c"].map(str::to_owned).to_vec());
        let problem = pairs(&odd, true).unwrap_err();
        assert_eq!(problem.exit, Exit::Usage);
        assert_eq!(problem.message, "no value given for a/c");
        assert_eq!(problem.hint.unwrap(), "write NAME VALUE NAME VALUE");
    }

    fn pair(name: &str, value: &str) -> Pair {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn a_name_and_a_value_or_any_number_of_pairs() {
        assert_eq!(pairs_of(&["a/b", "5"]), Ok(vec![pair("a/b", "5")]));
        assert_eq!(pairs_of(&["a/b", "x=y"]), Ok(vec![pair("a/b", "x=y")]));
        assert_eq!(pairs_of(&["a/b=x=y"]), Ok(vec![pair("a/b", "x=y")]));
        let two = vec![pair("a/b", "1"), pair("a/c", "")];
        assert_eq!(pairs_of(&["a/b=1", "a/c="]), Ok(two));
    }

    #[test]
    fn other_arguments_are_a_usage_error() {
        for words in [
            &[][..],
            &["a/b"],
            &["a/b", "1", "2"],
            &["a/b=1", "a/c", "2"],
        ] {
            assert_eq!(pairs_of(words).unwrap_err().exit, Exit::Usage, "{words:?}");
        }
    }

    #[test]
    fn a_csv_file_needs_a_name_and_a_value_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("values.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            pairs_of_csv(&path)
        };
        let pairs = read("ts,value,name\n1,\"x,y\",a/b\n\n2,5,a/c\n");
        assert_eq!(pairs, Ok(vec![pair("a/b", "x,y"), pair("a/c", "5")]));
        for (text, message) in [
            ("name,wert\na/b,1\n", ":1: there is no column \"value\""),
            ("name,value\na/b\n", ":2: the row is too short"),
            ("name,value\na/b,\"1\n", ":2: a quote is not closed"),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.message.ends_with(message), "{}", problem.message);
        }
        let missing = pairs_of_csv(&folder.path().join("none.csv")).unwrap_err();
        assert_eq!(missing.exit, Exit::Usage);
        let message = "none.csv: there is no such file";
        assert!(missing.message.ends_with(message), "{missing:?}");
    }
}
