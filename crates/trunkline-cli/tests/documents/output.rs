//! Compares the output of a command with a page.
//!
//! The values of a run differ from those of a page, and so do column widths. So any number equals
//! any other, and one space equals several. `...` in the page matches any text within a line, and a
//! line `...` matches any number of lines.

/// Compares the output shown by a page with the printed one.
pub fn check(shown: &str, printed: &str) -> Result<(), String> {
    let shown_lines: Vec<String> = lines(shown);
    let printed_lines: Vec<String> = lines(printed);
    if matches_lines(&shown_lines, &printed_lines) {
        return Ok(());
    }
    Err(format!("the page shows\n{shown}\nand it prints\n{printed}"))
}

/// Returns true if a printed line matches one of a page.
pub fn is_line(shown: &str, printed: &str) -> bool {
    matches_text(&simple(shown), &simple(printed))
}

fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(simple);
    lines.filter(|line| !line.is_empty()).collect()
}

fn matches_lines(shown: &[String], printed: &[String]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((first, rest)), _) if first == "..." => {
            (0..=printed.len()).any(|skip| matches_lines(rest, &printed[skip..]))
        }
        (Some((first, rest)), Some((line, others))) => {
            matches_text(first, line) && matches_lines(rest, others)
        }
        (Some(_), None) => false,
    }
}

fn matches_text(shown: &str, printed: &str) -> bool {
    match shown.split_once("...") {
        None => shown == printed,
        Some((before, after)) => printed.strip_prefix(before).is_some_and(|rest| {
            (0..=rest.len())
                .filter(|at| rest.is_char_boundary(*at))
                .any(|at| matches_text(after, &rest[at..]))
        }),
    }
}

/// The line without what differs from run to run.
fn simple(line: &str) -> String {
    let mut simple = String::new();
    let mut characters = without_controls(line).into_iter().peekable();
    while let Some(character) = characters.next() {
        if character.is_ascii_digit() {
            simple.push('#');
            // A dot continues with the number only where a digit follows.
            while characters
                .peek()
                .is_some_and(|next| next.is_ascii_digit() || *next == '.')
            {
                let next = characters.next();
                let is_end = !characters.peek().is_some_and(char::is_ascii_digit);
                if next == Some('.') && is_end {
                    simple.push('.');
                }
            }
        } else if character.is_whitespace() {
            if !simple.is_empty() && !simple.ends_with(' ') {
                simple.push(' ');
            }
        } else {
            simple.push(character);
        }
    }
    // A duration or a size has the unit that suits it.
    let words = simple.split(' ').collect::<Vec<_>>();
    let mut kept: Vec<&str> = Vec::new();
    for word in words {
        let unit = word.trim_end_matches([')', ',', ';', '.']);
        let is_unit = [
            "ns", "us", "ms", "s", "min", "h", "B", "kB", "MB", "GB", "TB",
        ]
        .contains(&unit);
        match kept.last() {
            Some(last) if is_unit && last.ends_with('#') => {
                kept.push("UNIT");
                if unit.len() < word.len() {
                    kept.push(&word[unit.len()..]);
                }
            }
            _ => kept.push(word),
        }
    }
    kept.join(" ").trim_end().to_owned()
}

/// The characters of a line that a terminal shows.
fn without_controls(line: &str) -> Vec<char> {
    let mut shown = Vec::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            // A control sequence ends with a letter.
            '\u{1b}' => {
                let _ = characters.by_ref().find(char::is_ascii_alphabetic);
            }
            '\t' => shown.push(' '),
            other if other.is_control() => {}
            other => shown.push(other),
        }
    }
    shown
}
