//! The findings of a check: position, rule, and remedy.

use std::fmt;
use std::process::ExitCode;

/// One place that breaks one rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// File, relative to the root of the repository.
    pub path: String,
    /// Line, counted from 1; 0 when the finding concerns the whole file.
    pub line: usize,
    /// Name of the rule.
    pub rule: &'static str,
    /// A sentence that names the problem and the remedy.
    pub message: String,
}

impl Finding {
    /// A finding at `line` of `path`.
    pub(crate) fn at(
        path: &str,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            message: message.into(),
        }
    }

    /// A finding about the whole of `path`.
    pub(crate) fn of_file(path: &str, rule: &'static str, message: impl Into<String>) -> Self {
        Self::at(path, 0, rule, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}: {}", self.path, self.rule, self.message),
            line => write!(f, "{}:{line}: {}: {}", self.path, self.rule, self.message),
        }
    }
}

/// The result of a command: its summary if there is no finding, and its findings.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Lines for standard output.
    pub notes: Vec<String>,
    /// The violations; empty means success.
    pub findings: Vec<Finding>,
}

impl Outcome {
    /// Prints the outcome, and returns the exit code: 0, or 1 if there are findings.
    pub(crate) fn report(mut self) -> ExitCode {
        for note in &self.notes {
            println!("{note}");
        }
        if self.findings.is_empty() {
            return ExitCode::SUCCESS;
        }
        self.findings.sort();
        for finding in &self.findings {
            eprintln!("{finding}");
        }
        eprintln!("{} to put right", self.findings.len());
        ExitCode::FAILURE
    }
}
