//! Line charts with logarithmic axes, as SVG written by hand.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 214.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 56.0;
/// Told apart with any kind of colour vision, and by their marks.
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// What the legend says.
    pub name: String,
    /// Its points, from left to right; both coordinates above 0.
    pub points: Vec<(f64, f64)>,
    /// Drawn in dashes: figures from elsewhere, or context.
    pub dashed: bool,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below the horizontal axis.
    pub x_label: String,
    /// Beside the vertical axis.
    pub y_label: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A logarithmic axis over whole decades.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Self> {
        let logs: Vec<f64> = values.filter(|v| *v > 0.0).map(f64::log10).collect();
        let low = logs.iter().copied().reduce(f64::min)?.floor();
        let high = logs.iter().copied().reduce(f64::max)?.ceil();
        Some(Self {
            low,
            high: high.max(low + 1.0),
            from,
            to,
        })
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.log10() - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    fn decades(&self) -> impl Iterator<Item = i32> + use<> {
        self.low as i32..=self.high as i32
    }
}

impl Chart {
    /// The chart as an SVG document; `None` without points.
    pub fn draw(&self) -> Option<String> {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x = Axis::over(points().map(|p| p.0), LEFT, WIDTH - RIGHT)?;
        let y = Axis::over(points().map(|p| p.1), HEIGHT - BOTTOM, TOP)?;
        let mut svg = head(&self.title);
        self.draw_axes(x, y, &mut svg);
        for (number, line) in self.lines.iter().enumerate() {
            draw_line(number, line, x, y, &mut svg);
        }
        svg.push_str("</svg>\n");
        Some(svg)
    }

    fn draw_axes(&self, x: Axis, y: Axis, svg: &mut String) {
        for decade in x.decades() {
            let at = x.place(10_f64.powi(decade));
            let (top, bottom) = (TOP, HEIGHT - BOTTOM);
            rule(svg, (at, top), (at, bottom));
            text(svg, (at, bottom + 18.0), "middle", &number(decade));
        }
        let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
        text(svg, (middle, HEIGHT - 14.0), "middle", &self.x_label);
        draw_vertical_axis(y, &self.y_label, svg);
    }
}

/// Bars side by side, one group per operation, on a logarithmic axis.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Above it.
    pub title: String,
    /// Beside the vertical axis.
    pub y_label: String,
    /// What stands below each group.
    pub groups: Vec<String>,
    /// Name and height of each bar, by group.
    pub series: Vec<(String, Vec<Option<f64>>)>,
}

impl Bars {
    /// The chart as an SVG document; `None` without bars.
    pub fn draw(&self) -> Option<String> {
        let heights = self
            .series
            .iter()
            .flat_map(|(_, heights)| heights.iter().flatten());
        let y = Axis::over(heights.copied(), HEIGHT - BOTTOM, TOP)?;
        let mut svg = head(&self.title);
        draw_vertical_axis(y, &self.y_label, &mut svg);
        let group_width = (WIDTH - RIGHT - LEFT) / self.groups.len() as f64;
        let width = group_width * 0.8 / self.series.len() as f64;
        for (group, name) in self.groups.iter().enumerate() {
            let left = LEFT + group_width * (group as f64 + 0.1);
            text(
                &mut svg,
                (left + group_width * 0.4, HEIGHT - BOTTOM + 18.0),
                "middle",
                name,
            );
            for (number, (_, heights)) in self.series.iter().enumerate() {
                let Some(height) = heights.get(group).copied().flatten() else {
                    continue;
                };
                let (x, top) = (left + width * number as f64, y.place(height));
                bar(
                    &mut svg,
                    (x, top),
                    (width - 2.0, HEIGHT - BOTTOM - top),
                    number,
                );
            }
        }
        for (number, (name, _)) in self.series.iter().enumerate() {
            let at = (WIDTH - RIGHT + 16.0, TOP + 4.0 + 22.0 * number as f64);
            bar(&mut svg, at, (12.0, 12.0), number);
            text(&mut svg, (at.0 + 20.0, at.1 + 10.0), "start", name);
        }
        svg.push_str("</svg>\n");
        Some(svg)
    }
}

fn bar(svg: &mut String, at: (f64, f64), size: (f64, f64), number: usize) {
    let _ = writeln!(
        svg,
        "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\" \
         fill-opacity=\"{}\"/>",
        at.0,
        at.1,
        size.0,
        size.1,
        COLOURS[number % COLOURS.len()],
        // The colours come round again, paler.
        if number < COLOURS.len() { "1" } else { "0.45" }
    );
}

fn head(title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\">\n\
         <title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\" font-weight=\"bold\">{title}</text>\n",
        title = escape(title)
    )
}

fn draw_vertical_axis(y: Axis, label: &str, svg: &mut String) {
    for decade in y.decades() {
        let at = y.place(10_f64.powi(decade));
        rule(svg, (LEFT, at), (WIDTH - RIGHT, at));
        text(svg, (LEFT - 8.0, at + 4.0), "end", &number(decade));
    }
    let middle = f64::midpoint(TOP, HEIGHT - BOTTOM);
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<text transform=\"translate(18 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escape(label)
    );
}

fn draw_line(number: usize, line: &Line, x: Axis, y: Axis, svg: &mut String) {
    let colour = COLOURS[number % COLOURS.len()];
    let dash = if line.dashed {
        " stroke-dasharray=\"5 4\""
    } else {
        ""
    };
    let drawn = line.points.iter().filter(|(px, py)| *px > 0.0 && *py > 0.0);
    let places: Vec<(f64, f64)> = drawn.map(|(px, py)| (x.place(*px), y.place(*py))).collect();
    let path: Vec<String> = places
        .iter()
        .map(|(px, py)| format!("{px:.1},{py:.1}"))
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>",
        path.join(" ")
    );
    let legend = TOP + 10.0 + 22.0 * number as f64;
    let beside = WIDTH - RIGHT + 16.0;
    for (px, py) in places.iter().chain([&(beside + 14.0, legend)]) {
        mark(svg, number, *px, *py, colour);
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{beside}\" y1=\"{legend}\" x2=\"{}\" y2=\"{legend}\" stroke=\"{colour}\" \
         stroke-width=\"2\"{dash}/>",
        beside + 28.0
    );
    text(svg, (beside + 36.0, legend + 4.0), "start", &line.name);
}

/// Which mark a line has: another one when its colour comes round again.
fn shape(number: usize) -> usize {
    (number + number / COLOURS.len()) % 3
}

/// A circle, a square or a triangle, in turn.
fn mark(svg: &mut String, number: usize, x: f64, y: f64, colour: &str) {
    let _ = match shape(number) {
        0 => writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"
        ),
        1 => writeln!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"7\" height=\"7\" fill=\"{colour}\"/>",
            x - 3.5,
            y - 3.5
        ),
        _ => writeln!(
            svg,
            "<path d=\"M{x:.1} {:.1} l4.5 8 h-9 z\" fill=\"{colour}\"/>",
            y - 5.0
        ),
    };
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#d9d9d9\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, at: (f64, f64), anchor: &str, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
        at.0,
        at.1,
        escape(words)
    );
}

fn number(decade: i32) -> String {
    match decade {
        ..0 => format!("{:.*}", decade.unsigned_abs() as usize, 10_f64.powi(decade)),
        0..=3 => format!("{}", 10_i64.pow(decade.unsigned_abs())),
        4..=5 => format!("{} k", 10_i64.pow(decade.unsigned_abs() - 3)),
        6..=8 => format!("{} M", 10_i64.pow(decade.unsigned_abs() - 6)),
        _ => format!("{} G", 10_i64.pow(decade.unsigned_abs().min(27) - 9)),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, f64)>) -> Chart {
        let line = Line {
            name: "a < b".to_owned(),
            points,
            dashed: false,
        };
        Chart {
            title: "Title".to_owned(),
            x_label: "variables".to_owned(),
            y_label: "us".to_owned(),
            lines: vec![line],
        }
    }

    #[test]
    fn decades_are_evenly_spaced_and_points_lie_between_them() {
        let axis = Axis::over([3.0, 700.0].into_iter(), 0.0, 300.0).unwrap();
        assert_eq!(axis.decades().collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(
            (axis.place(1.0), axis.place(10.0), axis.place(1000.0)),
            (0.0, 100.0, 300.0)
        );
        assert!((100.0..200.0).contains(&axis.place(50.0)));
    }

    #[test]
    fn chart_escapes_its_words_and_skips_what_has_no_logarithm() {
        let svg = chart(vec![(1.0, 5.0), (10.0, 0.0), (100.0, 70.0)])
            .draw()
            .unwrap();
        assert!(svg.contains("a &lt; b") && !svg.contains("inf") && !svg.contains("NaN"));
        assert!(chart(Vec::new()).draw().is_none());
    }

    #[test]
    fn lines_of_one_colour_have_other_marks() {
        let looks = (0..3 * COLOURS.len()).map(|number| (number % COLOURS.len(), shape(number)));
        let different: std::collections::BTreeSet<_> = looks.collect();
        assert_eq!(different.len(), 3 * COLOURS.len());
    }

    #[test]
    fn labels_are_short() {
        let labels: Vec<String> = [-2, 0, 3, 4, 6, 9].map(number).to_vec();
        assert_eq!(labels, ["0.01", "1", "1000", "10 k", "1 M", "1 G"]);
    }
}
