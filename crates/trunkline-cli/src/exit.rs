//! Exit codes, and the choice of one code for several failures.

use std::process::ExitCode;

/// An exit code. `docs/reference/exit-codes.md` explains each to users.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    Success = 0,
    /// The command failed, completely or in part.
    Failed = 1,
    Usage = 2,
    Unreachable = 3,
    TimedOut = 4,
    NotPermitted = 5,
    Refused = 6,
    /// Data was lost in a lossless read, a recording or a stream.
    Lost = 7,
    /// A check found problems or differences, or a file is invalid or damaged.
    ProblemsFound = 8,
    /// It is unknown whether a write took effect.
    OutcomeUnknown = 9,
    Interrupted = 130,
}

impl Exit {
    /// Returns this code if `condition` is true, otherwise [`Exit::Success`].
    pub(crate) fn when(self, condition: bool) -> Self {
        match condition {
            true => self,
            false => Self::Success,
        }
    }

    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.number())
    }
}

/// Collects failures and determines the exit code.
///
/// Failures of the command as a whole take precedence: first lost data, then a timeout. Otherwise,
/// if all failed names have the same code, that code is the result; if their codes differ, it is
/// [`Exit::Failed`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    items: Option<Exit>,
    lost: bool,
    timed_out: bool,
}

impl Tally {
    pub(crate) fn item_failed(&mut self, exit: Exit) {
        self.items = match self.items {
            None => Some(exit),
            Some(previous) if previous == exit => Some(exit),
            Some(_) => Some(Exit::Failed),
        };
    }

    pub(crate) fn set_lost(&mut self) {
        self.lost = true;
    }

    pub(crate) fn set_timed_out(&mut self) {
        self.timed_out = true;
    }

    pub(crate) fn exit(self) -> Exit {
        match self {
            Tally { lost: true, .. } => Exit::Lost,
            Tally {
                timed_out: true, ..
            } => Exit::TimedOut,
            Tally { items, .. } => items.unwrap_or(Exit::Success),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(failures: &[Exit]) -> Tally {
        let mut tally = Tally::default();
        failures.iter().for_each(|exit| tally.item_failed(*exit));
        tally
    }

    #[test]
    fn failures_with_the_same_code_keep_it_and_different_codes_give_1() {
        for (failures, expected) in [
            (&[][..], Exit::Success),
            (&[Exit::Refused], Exit::Refused),
            (&[Exit::Refused, Exit::Refused], Exit::Refused),
            (&[Exit::Refused, Exit::OutcomeUnknown], Exit::Failed),
            (&[Exit::Failed, Exit::Refused], Exit::Failed),
            // Once mixed, the result stays mixed.
            (
                &[Exit::Refused, Exit::OutcomeUnknown, Exit::Refused],
                Exit::Failed,
            ),
        ] {
            assert_eq!(tally(failures).exit(), expected, "{failures:?}");
        }
    }

    #[test]
    fn lost_data_outranks_timeouts_and_both_outrank_failed_names() {
        let mut sut = tally(&[Exit::Failed]);
        sut.set_timed_out();
        assert_eq!(sut.exit(), Exit::TimedOut);
        sut.set_lost();
        assert_eq!(sut.exit(), Exit::Lost);
    }

    #[test]
    fn codes_match_the_documentation() {
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/exit-codes.md"
        );
        let page = std::fs::read_to_string(page).unwrap();
        let rows = page
            .lines()
            .skip_while(|line| !line.starts_with("| Code |"))
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        let documented: Vec<u8> = rows
            .map(|row| row.split('|').nth(1).unwrap().trim().parse().unwrap())
            .collect();
        let all = [
            Exit::Success,
            Exit::Failed,
            Exit::Usage,
            Exit::Unreachable,
            Exit::TimedOut,
            Exit::NotPermitted,
            Exit::Refused,
            Exit::Lost,
            Exit::ProblemsFound,
            Exit::OutcomeUnknown,
            Exit::Interrupted,
        ];
        assert_eq!(documented, all.map(Exit::number));
    }
}
