//! Recent values of a variable as a sparkline.

use std::time::Duration;

use trunkline::{Event, SubscribeOptions};
use trunkline_types::{Contract, Value};

use crate::connection::Connection;
use crate::{CliError, Context};

/// Characters of a sparkline, from the lowest bar to the highest.
const BARS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];

/// Collects the current value and the following values of each name: at most `count`, and only
/// those that arrive before the connection's timeout.
pub(super) fn collect(
    connection: &Connection,
    names: &[&str],
    count: u32,
    context: &Context,
) -> Result<Vec<Vec<Value>>, CliError> {
    let mut values: Vec<Vec<Value>> = names.iter().map(|_| Vec::new()).collect();
    if names.is_empty() {
        return Ok(values);
    }
    let options = SubscribeOptions::default();
    let contract = Contract::Last(count);
    let subscription = connection.call(|client, _| client.subscribe(names, contract, options))?;
    let end = context.clock.now().saturating_add(connection.timeout());
    let count = count as usize;
    while values.iter().any(|values| values.len() < count) {
        let remaining: Duration = end.since(context.clock.now());
        match subscription.next(Some(remaining)) {
            Some(Event::Reading { item, reading }) if reading.position.sequence > 0 => {
                if let Some(values) = values.get_mut(item as usize)
                    && values.len() < count
                {
                    values.push(reading.sample.value);
                }
            }
            Some(_) => {}
            None => break,
        }
    }
    Ok(values)
}

/// Draws numbers as a sparkline, followed by the range. Returns an empty string for other values.
pub(super) fn sparkline(values: &[Value]) -> String {
    let numbers: Option<Vec<f64>> = values.iter().map(number).collect();
    let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else {
        return String::new();
    };
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let bar = |number: &f64| {
        let height = match high > low {
            true => (number - low) / (high - low) * (BARS.len() - 1) as f64,
            false => 0.0,
        };
        // NaN has no height, so it is shown as the lowest bar.
        *BARS.get(height.round() as usize).unwrap_or(&BARS[0])
    };
    let line: String = numbers.iter().map(bar).collect();
    let count = numbers.len();
    format!("{line}  {low} to {high}, {count} values")
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        value => value.as_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_and_highest_values_have_the_lowest_and_highest_bars() {
        let values = |numbers: &[f64]| numbers.iter().copied().map(Value::F64).collect::<Vec<_>>();
        assert_eq!(
            sparkline(&values(&[0.0, 7.0, 3.0])),
            "\u{2581}\u{2588}\u{2584}  0 to 7, 3 values"
        );
        assert_eq!(
            sparkline(&values(&[5.0, 5.0])),
            "\u{2581}\u{2581}  5 to 5, 2 values"
        );
        assert!(sparkline(&values(&[f64::NAN, 1.0])).ends_with("2 values"));
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[Value::String("a".into())]), "");
        assert_eq!(
            sparkline(&[Value::Bool(false), Value::Bool(true)])
                .chars()
                .count(),
            20
        );
    }
}
