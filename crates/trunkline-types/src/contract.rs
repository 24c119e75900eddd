//! Defines delivery contracts, which determine the updates that a subscriber receives if it cannot
//! receive all updates immediately.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Maximum number of updates waiting for an `all` subscription without a specified bound.
pub const ALL_ELEMENTS_DEFAULT: u32 = 65_536;
/// Maximum number of bytes waiting for an `all` subscription without a specified bound.
pub const ALL_BYTES_DEFAULT: u32 = 16 << 20;
/// Maximum number of elements of a `last:n` or `first:n` buffer; the text form `all:N` has the
/// same limit.
pub const BUFFER_ELEMENTS_MAX: u32 = 1_000_000;
/// Shortest period of `sampled`.
pub const SAMPLED_PERIOD_MIN: Duration = Duration::from_micros(100);

/// The delivery contract of a subscription. The subscriber specifies it; the engine never chooses
/// or weakens it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Contract {
    /// The newest value; older unsent values are coalesced into it.
    Latest,
    /// A buffer of this number of updates; when it is full, the oldest update is dropped and
    /// counted.
    Last(u32),
    /// A buffer of this number of updates; when it is full, new updates are dropped and counted.
    First(u32),
    /// Every update. If more than `elements` updates or `bytes` bytes would have to wait, the
    /// subscription ends. The subscriber is notified of the end after the updates that precede it.
    All {
        /// Maximum number of updates waiting for the subscriber.
        elements: u32,
        /// Maximum total size of the values waiting for the subscriber, in wire form, in bytes.
        bytes: u32,
    },
    /// The newest value, at most once per period, and only if it changed.
    Sampled(Duration),
}

impl Contract {
    /// The contract `all` with the default bounds.
    pub const ALL: Contract = Contract::All {
        elements: ALL_ELEMENTS_DEFAULT,
        bytes: ALL_BYTES_DEFAULT,
    };
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "\"{text}\" is not a contract; use latest, last:N, first:N, all, all:N, all:N:BYTES or \
     sampled:PERIOD (N from 1 to {BUFFER_ELEMENTS_MAX}, BYTES from 1, PERIOD such as 100ms or 1s, \
     at least 100us)"
)]
pub struct ContractError {
    /// The text as given.
    pub text: String,
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contract::Latest => f.write_str("latest"),
            Contract::Last(n) => write!(f, "last:{n}"),
            Contract::First(n) => write!(f, "first:{n}"),
            &Contract::ALL => f.write_str("all"),
            Contract::All {
                elements,
                bytes: ALL_BYTES_DEFAULT,
            } => write!(f, "all:{elements}"),
            Contract::All { elements, bytes } => write!(f, "all:{elements}:{bytes}"),
            Contract::Sampled(period) => {
                let (number, unit) = match period.as_nanos() {
                    ns if ns.is_multiple_of(1_000_000_000) => (ns / 1_000_000_000, "s"),
                    ns if ns.is_multiple_of(1_000_000) => (ns / 1_000_000, "ms"),
                    ns if ns.is_multiple_of(1_000) => (ns / 1_000, "us"),
                    ns => (ns, "ns"),
                };
                write!(f, "sampled:{number}{unit}")
            }
        }
    }
}

impl FromStr for Contract {
    type Err = ContractError;

    fn from_str(text: &str) -> Result<Self, ContractError> {
        let error = || ContractError {
            text: text.to_owned(),
        };
        let (kind, argument) = match text.split_once(':') {
            Some((kind, argument)) => (kind, Some(argument)),
            None => (text, None),
        };
        // In `all:N:BYTES`, the limit in bytes follows the number of elements.
        let (argument, bytes) = match argument.and_then(|both| both.split_once(':')) {
            Some((elements, bytes)) if kind == "all" => (Some(elements), Some(bytes)),
            _ => (argument, None),
        };
        let number = |text: &str, max: u32| -> Result<u32, ContractError> {
            let n: u32 = text.parse().map_err(|_| error())?;
            (1..=max).contains(&n).then_some(n).ok_or_else(error)
        };
        let elements = || number(argument.unwrap_or_default(), BUFFER_ELEMENTS_MAX);
        match kind {
            "latest" if argument.is_none() => Ok(Contract::Latest),
            "last" => Ok(Contract::Last(elements()?)),
            "first" => Ok(Contract::First(elements()?)),
            "all" if argument.is_none() => Ok(Contract::ALL),
            "all" => Ok(Contract::All {
                elements: elements()?,
                bytes: bytes.map_or(Ok(ALL_BYTES_DEFAULT), |bytes| number(bytes, u32::MAX))?,
            }),
            "sampled" => {
                let period = argument.and_then(parse_duration).ok_or_else(error)?;
                (period >= SAMPLED_PERIOD_MIN)
                    .then_some(Contract::Sampled(period))
                    .ok_or_else(error)
            }
            _ => Err(error()),
        }
    }
}

/// Parses a duration: a decimal number with `ns`, `us`, `ms`, `s`, `m`, `h` or `d`; a number
/// without a unit is in seconds. The result is exact to the nanosecond; further digits are
/// truncated. Returns `None` if the text is not a duration or does not fit.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(split)?;
    let nanos_per_unit: u128 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    let number = number.trim_end();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let mut nanos = whole.parse::<u128>().ok()?.checked_mul(nanos_per_unit)?;
    let mut place = nanos_per_unit;
    for digit in fraction.bytes() {
        place /= 10;
        nanos = nanos.checked_add(place * u128::from(digit - b'0'))?;
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_are_printed_in_their_input_syntax() {
        for text in [
            "latest",
            "last:1000",
            "first:10",
            "all",
            "all:5000",
            "all:5000:1000000",
            "sampled:100ms",
        ] {
            assert_eq!(text.parse::<Contract>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn both_bounds_of_all_are_in_its_text() {
        for elements in [1, ALL_ELEMENTS_DEFAULT, BUFFER_ELEMENTS_MAX] {
            for bytes in [1, ALL_BYTES_DEFAULT, u32::MAX] {
                let sut = Contract::All { elements, bytes };
                assert_eq!(sut.to_string().parse(), Ok(sut), "{sut}");
            }
        }
    }

    #[test]
    fn invalid_input_is_refused_with_the_valid_forms() {
        for text in [
            "",
            "last",
            "last:0",
            "last:-1",
            "all:x",
            "all:1:0",
            "all:1:-1",
            "all:1:",
            "all:1:2:3",
            "last:1:2",
            "sampled:1ns",
            "newest",
            "latest:1",
        ] {
            let error = text.parse::<Contract>().unwrap_err().to_string();
            assert!(error.contains("latest, last:N"), "{error}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("100ms"), Some(Duration::from_millis(100)));
        assert_eq!(parse_duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2"), Some(Duration::from_secs(2)));
        assert_eq!(parse_duration("-1s"), None);
        assert_eq!(parse_duration("1 fortnight"), None);
        assert_eq!(parse_duration("1e3"), None);
        assert_eq!(parse_duration("."), None);
    }

    #[test]
    fn durations_are_exact_to_the_nanosecond() {
        let long = "4444444.444444424";
        assert_eq!(
            parse_duration(long),
            Some(Duration::new(4_444_444, 444_444_424))
        );
        let contract: Contract = format!("sampled:{long}s").parse().unwrap();
        assert_eq!(
            contract.to_string().parse::<Contract>().ok(),
            Some(contract)
        );
        assert_eq!(parse_duration(&format!("{}", u128::MAX)), None);
    }
}
