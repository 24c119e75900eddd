//! Tells code from comments and strings in Rust source, line for line.
//!
//! Rules look for words; a word in a comment or in a message is not code. This is a scanner, not a
//! parser: it knows where comments, strings and characters begin and end, and where a test module
//! or a test function stands. Lines and columns stay those of the file.

/// Stands for a character inside a literal, so that such a line is not taken for an empty one.
pub(crate) const IN_LITERAL: char = '·';

/// Source without its comments and the contents of its literals.
#[derive(Debug)]
pub(crate) struct RustSource {
    /// The lines of code; a character of a comment is a space, one in a literal [`IN_LITERAL`].
    pub code: Vec<String>,
    /// For each line, whether it belongs to a test module or a test function.
    pub in_test: Vec<bool>,
}

impl RustSource {
    /// Scans `text`.
    pub(crate) fn scan(text: &str) -> Self {
        let masked = mask(text);
        let code: Vec<String> = masked.lines().map(str::to_owned).collect();
        let in_test = test_lines(&code);
        Self { code, in_test }
    }

    /// The lines that are not test code, with their number counted from 1.
    pub(crate) fn production(&self) -> impl Iterator<Item = (usize, &str)> {
        self.numbered().filter(|(n, _)| !self.in_test[n - 1])
    }

    /// The lines that are test code, with their number counted from 1.
    pub(crate) fn tests(&self) -> impl Iterator<Item = (usize, &str)> {
        self.numbered().filter(|(n, _)| self.in_test[n - 1])
    }

    /// All lines with their number counted from 1.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .iter()
            .enumerate()
            .map(|(i, line)| (i + 1, line.as_str()))
    }
}

/// Whether `word` stands in `line` with no identifier character on either side.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_identifier) && !after.is_some_and(is_identifier)
    })
}

fn is_identifier(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn mask(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut scanner = Scanner {
        chars: &chars,
        at: 0,
        out: String::with_capacity(text.len()),
    };
    while scanner.at < chars.len() {
        scanner.step();
    }
    scanner.out
}

struct Scanner<'a> {
    chars: &'a [char],
    at: usize,
    out: String,
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn keep(&mut self, count: usize) {
        for _ in 0..count {
            if let Some(c) = self.peek(0) {
                self.out.push(c);
                self.at += 1;
            }
        }
    }

    fn replace(&mut self, count: usize, by: char) {
        for _ in 0..count {
            if let Some(c) = self.peek(0) {
                self.out.push(if c == '\n' { '\n' } else { by });
                self.at += 1;
            }
        }
    }

    /// Goes past characters of a comment.
    fn blank(&mut self, count: usize) {
        self.replace(count, ' ');
    }

    /// Goes past characters inside a literal.
    fn hide(&mut self, count: usize) {
        self.replace(count, IN_LITERAL);
    }

    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (Some('/'), Some('/')) => {
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.blank(1);
                }
            }
            (Some('/'), Some('*')) => self.block_comment(),
            (Some('"'), _) => self.string(),
            (Some('\''), _) => self.quote(),
            (Some('r' | 'b' | 'c'), _) if !self.out.ends_with(is_identifier) => self.prefixed(),
            _ => self.keep(1),
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.blank(2);
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.blank(2);
                    if depth == 0 {
                        return;
                    }
                }
                (Some(_), _) => self.blank(1),
                (None, _) => return,
            }
        }
    }

    fn string(&mut self) {
        self.keep(1);
        while let Some(c) = self.peek(0) {
            match c {
                '\\' => self.hide(2),
                '"' => {
                    self.keep(1);
                    return;
                }
                _ => self.hide(1),
            }
        }
    }

    /// A character literal, or a lifetime or label, which stays.
    fn quote(&mut self) {
        if self.peek(1) == Some('\\') {
            self.keep(1);
            self.hide(2);
            while self.peek(0).is_some_and(|c| c != '\'') {
                self.hide(1);
            }
            self.keep(1);
        } else if self.peek(2) == Some('\'') {
            self.keep(1);
            self.hide(1);
            self.keep(1);
        } else {
            self.keep(1);
        }
    }

    /// `r"`, `r#"`, `b"`, `br"`, `c"`, `cr"`, `b'`, or just a name that begins with such a letter.
    fn prefixed(&mut self) {
        let mut letters = 1;
        if self.peek(0) != Some('r') && self.peek(1) == Some('r') {
            letters = 2;
        }
        let is_raw = self.peek(letters - 1) == Some('r');
        let mut hashes = 0;
        while is_raw && self.peek(letters + hashes) == Some('#') {
            hashes += 1;
        }
        match self.peek(letters + hashes) {
            Some('"') if is_raw => {
                self.keep(letters + hashes + 1);
                self.raw_string(hashes);
            }
            Some('"' | '\'') if !is_raw => self.keep(letters),
            _ => self.keep(1),
        }
    }

    fn raw_string(&mut self, hashes: usize) {
        while let Some(c) = self.peek(0) {
            if c == '"' && (1..=hashes).all(|i| self.peek(i) == Some('#')) {
                self.keep(1 + hashes);
                return;
            }
            self.hide(1);
        }
    }
}

/// Marks the lines of items under `#[cfg(test)]` (or a condition with `test`) and of `#[test]`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut marked = vec![false; code.len()];
    for start in 0..code.len() {
        if marked[start] || !is_test_attribute(code[start].trim_start()) {
            continue;
        }
        if let Some(end) = end_of_item(code, start) {
            marked[start..=end].fill(true);
        }
    }
    marked
}

fn is_test_attribute(line: &str) -> bool {
    let is_condition = line.starts_with("#[cfg(") && has_word(line, "test");
    line.starts_with("#[test]") || is_condition && !line.contains("not(test")
}

/// The last line of the item whose attribute stands on line `start`; none when it is `mod x;`.
fn end_of_item(code: &[String], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut brackets = 0_usize;
    for (index, line) in code.iter().enumerate().skip(start) {
        for c in line.chars() {
            match c {
                '[' | '(' => brackets += 1,
                ']' | ')' => brackets = brackets.saturating_sub(1),
                '{' => depth += 1,
                '}' => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(index);
                    }
                }
                ';' if depth == 0 && brackets == 0 => return None,
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> String {
        RustSource::scan(text).code.join("\n")
    }

    #[test]
    fn comments_are_blanked_and_lines_kept() {
        assert_eq!(
            code_of("a // b\n/* c /* d */ \n e */ f"),
            "a     \n             \n      f"
        );
    }

    #[test]
    fn contents_of_strings_are_hidden() {
        assert_eq!(code_of(r#"x("a\"b", y)"#), r#"x("····", y)"#);
        assert_eq!(code_of("r#\"a\"b\"#; z"), "r#\"···\"#; z");
        assert_eq!(
            code_of("br\"ab\" b\"cd\" c\"e\""),
            "br\"··\" b\"··\" c\"·\""
        );
    }

    #[test]
    fn lifetimes_are_not_characters() {
        assert_eq!(
            code_of("fn f<'a>(x: &'a str) { '\"' }"),
            "fn f<'a>(x: &'a str) { '·' }"
        );
        assert_eq!(
            code_of(r"'\n' '\'' '\u{1F}' b'x'"),
            r"'··' '··' '······' b'·'"
        );
    }

    #[test]
    fn names_that_begin_like_a_prefix_stay() {
        assert_eq!(code_of("for b in r#type.bar(c)"), "for b in r#type.bar(c)");
    }

    #[test]
    fn test_modules_and_functions_are_marked() {
        let text = "fn a() {}\n#[cfg(test)]\nmod t {\n    fn b() {}\n}\nfn c() {}\n#[test]\n\
                    fn d() {\n}\n#[cfg(test)]\nmod tests;\nfn e() {}\n#[cfg(not(test))]\nfn g() {}";
        let source = RustSource::scan(text);
        let marked: Vec<usize> = source.tests().map(|(n, _)| n).collect();
        assert_eq!(marked, [2, 3, 4, 5, 7, 8, 9]);
    }

    #[test]
    fn words_end_where_identifiers_do() {
        assert!(has_word("use a::Mutex;", "Mutex"));
        assert!(!has_word("use a::MutexGuard;", "Mutex"));
        assert!(!has_word("my_Mutex", "Mutex"));
    }
}
