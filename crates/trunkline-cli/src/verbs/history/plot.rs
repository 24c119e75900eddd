//! Draws the values of variables in the terminal, with two by four dots per character.

use trunkline_types::Timestamp;
use trunkline_types::history::{Bucket, HistorySeries, SeriesData};

use super::Pages;
use crate::terminal::Terminal;
use crate::{CliError, Context};

/// Height of a plot in lines.
const LINES: usize = 12;
/// Width of the labels beside a plot, in characters.
const LABEL_WIDTH: usize = 12;
/// Width of a plot with its labels, in characters, if the width of the terminal is unknown.
const DEFAULT_WIDTH: usize = 80;

/// Returns the number of columns of dots in a plot.
fn columns(terminal: &Terminal) -> usize {
    let width = terminal.columns().unwrap_or(DEFAULT_WIDTH);
    2 * width.saturating_sub(LABEL_WIDTH + 2).clamp(20, 400)
}

/// Returns the number of intervals to query for a plot.
pub(super) fn points(terminal: &Terminal) -> u32 {
    // The length of an interval is a power of two, so it may be up to twice as long as needed.
    u32::try_from(2 * columns(terminal)).unwrap_or(u32::MAX)
}

/// Draws each variable. Returns the number of intervals and the state of the history.
pub(super) fn draw(
    pages: &mut Pages<'_>,
    since: Option<Timestamp>,
    until: Timestamp,
    context: &Context,
) -> Result<(u64, String), CliError> {
    let (mut count, mut state) = (0, String::new());
    // The intervals of a variable may be spread over several pages.
    let mut pending: Option<HistorySeries> = None;
    while let Some(page) = pages.next()? {
        if !page.state.is_empty() {
            state = page.state;
        }
        for series in page.series {
            count += series.data.len() as u64;
            let Some(current) = &mut pending else {
                pending = Some(series);
                continue;
            };
            let is_same =
                (&current.variable, &current.data_type) == (&series.variable, &series.data_type);
            match (&mut current.data, &series.data) {
                (
                    SeriesData::Buckets { buckets, .. },
                    SeriesData::Buckets { buckets: more, .. },
                ) if is_same => buckets.extend_from_slice(more),
                _ => {
                    draw_series(current, since, until, context)?;
                    pending = Some(series);
                }
            }
        }
        if context.interrupted.is_pressed() {
            break;
        }
    }
    if let Some(series) = &pending {
        draw_series(series, since, until, context)?;
    }
    Ok((count, state))
}

fn draw_series(
    series: &HistorySeries,
    since: Option<Timestamp>,
    until: Timestamp,
    context: &Context,
) -> Result<(), CliError> {
    let SeriesData::Buckets { width, buckets } = &series.data else {
        return Ok(());
    };
    let units = match series.units.as_str() {
        "" => String::new(),
        units => format!(" ({units})"),
    };
    let title = format!("{}{units}", series.variable);
    context.terminal.line(&title)?;
    let first = buckets.first().map_or(0, |bucket| bucket.start);
    let start = since.map_or(first, |since| since.as_nanos());
    let canvas = Canvas::new(buckets, *width, start, until.as_nanos(), context);
    for line in canvas.lines() {
        context.terminal.line(&line)?;
    }
    let mut times = context.settings.times.column(true, context.started);
    let mut time_text = |nanos: i64| {
        let time = Timestamp::from_nanos(nanos).into();
        let times = times.as_mut();
        times.map_or_else(String::new, |times| times.text(&series.variable, time))
    };
    let (left, right) = (time_text(start), time_text(until.as_nanos()));
    let gap = (canvas.width / 2).saturating_sub(left.len() + right.len());
    context
        .terminal
        .line(&format!("{:LABEL_WIDTH$}  {left}{:gap$}{right}", "", ""))?;
    Ok(())
}

/// The dots of a plot, and the values at its top and bottom.
struct Canvas {
    width: usize,
    dots: Vec<[u8; LINES]>,
    low: f64,
    high: f64,
}

impl Canvas {
    fn new(buckets: &[Bucket], width: u64, start: i64, end: i64, context: &Context) -> Self {
        let numbers = || buckets.iter().filter(|bucket| !bucket.first.is_nan());
        let mut low = numbers()
            .map(|bucket| bucket.min)
            .fold(f64::INFINITY, f64::min);
        let mut high = numbers()
            .map(|bucket| bucket.max)
            .fold(f64::NEG_INFINITY, f64::max);
        if !(low.is_finite() && high.is_finite()) {
            (low, high) = (0.0, 1.0);
        }
        if low == high {
            let half = (low.abs() / 100.0).max(0.5);
            (low, high) = (low - half, high + half);
        }
        let columns = columns(&context.terminal);
        let mut canvas = Self {
            width: columns,
            dots: vec![[0; LINES]; columns.div_ceil(2)],
            low,
            high,
        };
        let span = (end.saturating_sub(start)).max(1) as f64;
        let mut previous: Option<f64> = None;
        for bucket in numbers() {
            let middle = bucket.start.saturating_add((width / 2) as i64);
            let position = (middle.saturating_sub(start)) as f64 / span;
            let column = (position * columns as f64).clamp(0.0, columns as f64 - 1.0) as usize;
            // Include the last value of the previous interval, so that steps are connected.
            let (mut from, mut to) = (bucket.min, bucket.max);
            if let Some(previous) = previous {
                (from, to) = (from.min(previous), to.max(previous));
            }
            canvas.draw_column(column, from, to);
            previous = Some(bucket.last);
        }
        canvas
    }

    /// Draws a vertical line from one value to another.
    fn draw_column(&mut self, column: usize, from: f64, to: f64) {
        let rows = 4 * LINES;
        let row_of = |number: f64| {
            let position = (number - self.low) / (self.high - self.low);
            (position.clamp(0.0, 1.0) * (rows - 1) as f64).round() as usize
        };
        for row in row_of(from)..=row_of(to) {
            let from_top = rows - 1 - row;
            // A Braille character has the bits 0, 1, 2 and 6 in its left column, and 3, 4, 5 and 7 in
            // its right column.
            let bit = match (column % 2, from_top % 4) {
                (0, 3) => 6,
                (0, line) => line,
                (_, 3) => 7,
                (_, line) => line + 3,
            };
            if let Some(cell) = self.dots.get_mut(column / 2)
                && let Some(cell) = cell.get_mut(from_top / 4)
            {
                *cell |= 1 << bit;
            }
        }
    }

    fn lines(&self) -> impl Iterator<Item = String> + '_ {
        (0..LINES).map(|line| {
            let share = 1.0 - line as f64 / (LINES - 1) as f64;
            let label = match line {
                0 | 5 => format!("{:.5}", self.low + (self.high - self.low) * share),
                _ if line == LINES - 1 => format!("{:.5}", self.low),
                _ => String::new(),
            };
            let cells = self.dots.iter().map(|column| {
                let dots = column.get(line).copied().unwrap_or(0);
                char::from_u32(0x2800 + u32::from(dots)).unwrap_or(' ')
            });
            format!(
                "{label:>LABEL_WIDTH$}  {}",
                cells.collect::<String>().trim_end_matches('\u{2800}')
            )
        })
    }
}
