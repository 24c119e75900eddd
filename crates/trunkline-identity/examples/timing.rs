//! Measures whether the time of a login reveals secrets (F18).
//!
//! Each check measures two kinds of input in random order, and computes Welch's t over their times. Beyond 4.5,
//! the times differ; up to there, a difference cannot be told from chance. The slowest 1 %, in which other
//! programs interrupted the measurement, are left out of the second value.
//!
//! ```text
//! cargo run --release -p trunkline-identity --example timing [SAMPLES]
//! ```
//!
//! Run it on a machine without other work. The exit code is 1 if a time differs.

#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, prints its result and may panic"
)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};
use trunkline_identity::accounts::Accounts;
use trunkline_identity::fingerprint::Fingerprint;
use trunkline_identity::origin::Origin;
use trunkline_identity::password::{Password, PasswordHash, PasswordVerifier};
use trunkline_identity::token::{JoinGrant, PendingTokens, SECRET_BYTES};
use trunkline_types::Tick;

/// Samples of each check, if the command line does not name a number.
const SAMPLES: usize = 1_000_000;

/// Verifications of a password, which take many milliseconds each.
const PASSWORDS: usize = 200;

/// Beyond this value of t, times differ.
const T_MAX: f64 = 4.5;

/// Number of inputs of each kind. A single one would be in the cache of the processor.
const INPUTS: usize = 64;

const ACCOUNTS: usize = 200;

fn main() -> ExitCode {
    let samples = std::env::args()
        .nth(1)
        .map_or(SAMPLES, |text| text.parse().unwrap());
    let results = [
        ("user lookup: known or unknown name", user_lookup(samples)),
        (
            "token lookup: wrong in the first or the last byte",
            token_lookup(samples),
        ),
        ("password: known or unknown name", passwords()),
    ];
    let mut differs = false;
    for (check, [first, second]) in results {
        // One limit for both kinds: a limit for each would vary by chance.
        let limit = quantile(&[&first[..], &second].concat(), 0.99) * 1000.0;
        let crop = |times: &[f64]| -> Vec<f64> {
            times
                .iter()
                .copied()
                .filter(|time| *time <= limit)
                .collect()
        };
        let all = welch(&first, &second);
        let cropped = welch(&crop(&first), &crop(&second));
        differs |= cropped.abs() >= T_MAX;
        println!(
            "{check}\n  samples {} and {}, minimum {:.2} us and {:.2} us, median {:.2} us and {:.2} us\n  t {all:.2}, \
             without outliers {cropped:.2}",
            first.len(),
            second.len(),
            quantile(&first, 0.0),
            quantile(&second, 0.0),
            quantile(&first, 0.5),
            quantile(&second, 0.5),
        );
    }
    match differs {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// The times of each of two kinds of input, in nanoseconds.
type Times = [Vec<f64>; 2];

/// Measures `call` with inputs of two kinds in random order.
fn measure<I>(samples: usize, inputs: &[[I; INPUTS]; 2], mut call: impl FnMut(&I)) -> Times {
    let mut times = [Vec::with_capacity(samples), Vec::with_capacity(samples)];
    let random = SystemRandom::new();
    let mut bytes = [0; 4096];
    let mut left = 0;
    let warm_up = samples / 10;
    for sample in 0..samples + warm_up {
        if left == 0 {
            random.fill(&mut bytes).unwrap();
            left = bytes.len();
        }
        left -= 1;
        let kind = usize::from(bytes[left] & 1);
        let input = &inputs[kind][usize::from(bytes[left] >> 1) % INPUTS];
        let start = Instant::now();
        call(black_box(input));
        let time = start.elapsed();
        if sample >= warm_up {
            times[kind].push(nanos(time));
        }
    }
    times
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

fn user_lookup(samples: usize) -> Times {
    let accounts = accounts();
    let known = |i: usize| format!("user{:04}", i * ACCOUNTS / INPUTS);
    let unknown = |i: usize| format!("user{:04}", ACCOUNTS + i);
    let names = [std::array::from_fn(known), std::array::from_fn(unknown)];
    measure(samples, &names, |name| {
        black_box(accounts.password_candidate(name));
    })
}

/// Returns accounts of which every one has a password.
fn accounts() -> Accounts {
    let hash = PasswordHash::of(&Password::new("correct horse battery".to_owned())).unwrap();
    let user = |i| format!("[[user]]\nname = \"user{i:04}\"\npassword = \"{hash}\"\n");
    let text: String = (0..ACCOUNTS).map(user).collect();
    Accounts::parse("access.toml", &text).unwrap()
}

fn token_lookup(samples: usize) -> Times {
    let mut tokens = PendingTokens::new(Fingerprint::of_spki(b"authority"));
    let grant = || JoinGrant {
        account: "program".parse().unwrap(),
        role: None,
        groups: Vec::new(),
    };
    let secrets: [[u8; SECRET_BYTES]; INPUTS] =
        std::array::from_fn(|_| *tokens.issue(grant(), Tick::ZERO).unwrap().secret());
    let wrong_at = |byte: usize| {
        secrets.map(|mut secret| {
            secret[byte] ^= 1;
            secret
        })
    };
    let inputs = [wrong_at(0), wrong_at(SECRET_BYTES - 1)];
    measure(samples, &inputs, |secret| {
        black_box(tokens.join(secret, Origin::Local, Tick::ZERO).is_ok());
    })
}

fn passwords() -> Times {
    let accounts = accounts();
    let verifier = PasswordVerifier::new();
    let password = Password::new("incorrect horse battery".to_owned());
    let known = |i: usize| format!("user{i:04}");
    let unknown = |i: usize| format!("user{:04}", ACCOUNTS + i);
    let names = [std::array::from_fn(known), std::array::from_fn(unknown)];
    measure(PASSWORDS, &names, |name| {
        black_box(verifier.verify(&password, accounts.password_candidate(name)));
    })
}

/// In nanoseconds.
fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

/// Returns a quantile in microseconds.
fn quantile(times: &[f64], part: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = part * (sorted.len() as f64 - 1.0);
    sorted[index as usize] / 1000.0
}

/// Returns Welch's t of two series.
fn welch(first: &[f64], second: &[f64]) -> f64 {
    let error = |times: &[f64]| {
        let mean = mean(times);
        let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        squares / (times.len() as f64 - 1.0) / times.len() as f64
    };
    (mean(first) - mean(second)) / (error(first) + error(second)).sqrt()
}
