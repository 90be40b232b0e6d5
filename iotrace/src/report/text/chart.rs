//! Histograms as bars: one row a power of two, one column of bars a series, each series to the scale of its own
//! largest row. The fine buckets never straddle a power of two, so the counts are exact.

use std::collections::BTreeMap;
use std::io;

use super::super::escape::UnicodeWidthStr;
use super::super::units;
use super::page::{Ink, Page};
use crate::model::{BlockOp, BlockStats, Histogram};

/// Room for `999 ns .. 1.02 µs`.
const RANGE_COLUMNS: usize = 18;
const GAP: usize = 2;
/// From this page width on, two charts stand side by side.
const PAIR_WIDTH: usize = 120;
/// Rows: the value 0, then one for each power of two below 2^37, the histograms' range.
const ROWS: usize = 38;

/// What the values of a chart are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
}

/// Distributions of one quantity side by side.
pub struct Chart<'a> {
    title: String,
    unit: Unit,
    series: Vec<(String, &'a Histogram)>,
}

impl<'a> Chart<'a> {
    /// A chart of those `series` that hold anything.
    pub fn new(title: &str, unit: Unit, series: impl IntoIterator<Item = (String, &'a Histogram)>) -> Self {
        let series = series.into_iter().filter(|(_, histogram)| !histogram.is_empty()).collect();
        Self { title: title.to_owned(), unit, series }
    }

    fn lines(&self, page: &Page, width: usize) -> Vec<Line> {
        let rows: Vec<[u64; ROWS]> =
            self.series.iter().map(|(_, histogram)| powers_of_two(histogram)).collect();
        let used = |row: usize| rows.iter().any(|counts| counts[row] > 0);
        let (Some(first), Some(last)) = ((0..ROWS).find(|&r| used(r)), (0..ROWS).rfind(|&r| used(r))) else {
            return Vec::new();
        };
        let columns: Vec<_> = (self.series.iter().zip(&rows))
            .map(|((name, histogram), counts)| {
                let slot = (width - RANGE_COLUMNS) / self.series.len() - GAP;
                SeriesColumn::new(name, histogram, counts, slot, self.series.len() == 1)
            })
            .collect();

        let mut lines = vec![self.header(page, &columns)];
        let mut row = first;
        while row <= last {
            let empty = (row..=last).take_while(|&r| !used(r)).count();
            if empty > 1 {
                let mut line = Line::default();
                line.push(page, Ink::Dim, &format!("{:>RANGE_COLUMNS$}", "⋮"));
                lines.push(line);
                row += empty;
                continue;
            }
            let mut line = Line::default();
            line.push(page, Ink::Plain, &format!("{:>RANGE_COLUMNS$}", self.range(row)));
            columns.iter().for_each(|column| column.write(page, row, &mut line));
            lines.push(line);
            row += 1;
        }
        lines
    }

    fn header(&self, page: &Page, columns: &[SeriesColumn]) -> Line {
        let mut line = Line::default();
        line.push(page, Ink::Plain, &format!("{:<RANGE_COLUMNS$}", self.title));
        for column in columns {
            line.push(page, Ink::Plain, &" ".repeat(GAP));
            line.push(page, Ink::Dim, &column.name);
            line.push(page, Ink::Plain, &" ".repeat(column.slot - column.name.width()));
        }
        line
    }

    fn range(&self, row: usize) -> String {
        let edge = |value: u64| match self.unit {
            Unit::Time => units::duration(value),
            Unit::Bytes => exact_bytes(value),
        };
        match row {
            0 => edge(0),
            _ if row == ROWS - 1 && self.series.iter().any(|(_, h)| h.max >> (ROWS - 1) != 0) => {
                format!("{} and up", edge(1 << (row - 1)))
            }
            _ => format!("{} .. {:>7}", edge(1 << (row - 1)), edge(1 << row)),
        }
    }
}

/// Queue and device time of the block requests of one operation.
pub fn phases(op: BlockOp, stats: &BlockStats) -> Chart<'_> {
    let series = |name: &str, h: &Histogram| format!("{} {name}", units::count(h.count));
    Chart::new(
        &format!("block {}", op.name()),
        Unit::Time,
        [
            (series("in queue", &stats.queue_ns), &stats.queue_ns),
            (series("in device", &stats.device_ns), &stats.device_ns),
        ],
    )
}

/// Sizes of block requests, one series an operation that moves data.
pub fn request_sizes(block: &BTreeMap<BlockOp, BlockStats>) -> Chart<'_> {
    let moving = block.iter().filter(|(_, stats)| stats.bytes > 0);
    let series =
        moving.map(|(op, stats)| (format!("{} {}", units::count(stats.count), op.name()), &stats.size_bytes));
    Chart::new("block request size", Unit::Bytes, series)
}

/// Writes `charts`, two abreast where the page has room; those without data are left out.
pub fn write(page: &mut Page, charts: &[Chart]) -> io::Result<()> {
    let indent = 2;
    let charts: Vec<_> = charts.iter().filter(|chart| !chart.series.is_empty()).collect();
    let abreast = if page.width >= PAIR_WIDTH && charts.len() > 1 { 2 } else { 1 };
    let gutter = 4;
    let width = (page.width - indent - gutter * (abreast - 1)) / abreast;
    for pair in charts.chunks(abreast) {
        let sides: Vec<_> = pair.iter().map(|chart| chart.lines(page, width)).collect();
        page.blank()?;
        for row in 0..sides.iter().map(Vec::len).max().unwrap_or(0) {
            let mut text = " ".repeat(indent);
            let mut filled = 0;
            for (index, side) in sides.iter().enumerate() {
                let start = index * (width + gutter);
                if let Some(line) = side.get(row) {
                    text.push_str(&" ".repeat(start - filled));
                    text.push_str(&line.text);
                    filled = start + line.width;
                }
            }
            page.line(&text)?;
        }
    }
    Ok(())
}

/// A painted line that knows how wide it shows.
#[derive(Default)]
struct Line {
    text: String,
    width: usize,
}

impl Line {
    fn push(&mut self, page: &Page, ink: Ink, text: &str) {
        self.width += text.width();
        self.text.push_str(&page.paint(ink, text));
    }
}

/// The counts and bars of one series.
struct SeriesColumn<'a> {
    name: String,
    counts: &'a [u64; ROWS],
    total: u64,
    slot: usize,
    count_columns: usize,
    bar_columns: usize,
    shares: bool,
}

impl<'a> SeriesColumn<'a> {
    fn new(name: &str, histogram: &Histogram, counts: &'a [u64; ROWS], slot: usize, shares: bool) -> Self {
        let count_columns = counts.iter().map(|&c| units::count(c).len()).max().unwrap_or(1);
        let share_columns = if shares { 9 } else { 0 };
        let bar_columns = slot.saturating_sub(count_columns + share_columns + 1);
        let name = super::super::escape::fit(name, slot);
        Self { name, counts, total: histogram.count, slot, count_columns, bar_columns, shares }
    }

    fn write(&self, page: &Page, row: usize, line: &mut Line) {
        let count = self.counts[row];
        let shown = |text: String| if count == 0 { String::new() } else { text };
        let mut text =
            format!("{:GAP$}{:>width$}", "", shown(units::count(count)), width = self.count_columns);
        if self.shares {
            text.push_str(&format!("  {:>7}", shown(units::share(count, self.total))));
        }
        line.push(page, Ink::Plain, &text);
        let largest = self.counts.iter().copied().max().unwrap_or(0);
        let bar = bar(count, largest, self.bar_columns);
        line.push(page, Ink::Plain, " ");
        let rest = self.bar_columns - bar.width();
        line.push(page, Ink::Dim, &bar);
        line.push(page, Ink::Plain, &" ".repeat(rest));
    }
}

/// A bar of `count` against `largest`, in eighths of a column; never empty for a count above 0.
fn bar(count: u64, largest: u64, columns: usize) -> String {
    const EIGHTHS: [char; 8] = ['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if count == 0 || columns == 0 {
        return String::new();
    }
    let eighths = (count as f64 / largest as f64 * (columns * 8) as f64).round().max(1.0) as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    bar
}

fn powers_of_two(histogram: &Histogram) -> [u64; ROWS] {
    let mut rows = [0; ROWS];
    for (low, _, count) in histogram.buckets() {
        rows[(u64::BITS - low.leading_zeros()) as usize] += count;
    }
    rows
}

/// A power of two in its largest whole unit: `4 KiB`.
pub fn exact_bytes(value: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (value.max(1).ilog2() / 10) as usize;
    format!("{} {}", value >> (10 * power), units[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_to_scale_and_never_hide_a_count() {
        assert_eq!(bar(100, 100, 4), "████");
        assert_eq!(bar(50, 100, 4), "██");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(0, 100, 4), "");
    }

    #[test]
    fn rows_hold_every_value_once() {
        let mut h = Histogram::default();
        [0, 1, 2, 3, 4, 1023, 1024, (1 << 37) - 1, u64::MAX].into_iter().for_each(|v| h.record(v));
        let rows = powers_of_two(&h);
        assert_eq!(rows.iter().sum::<u64>(), h.count);
        assert_eq!((rows[0], rows[1], rows[2], rows[3], rows[10], rows[11], rows[37]), (1, 1, 2, 1, 1, 1, 2));
    }

    #[test]
    fn edges_of_sizes_are_whole() {
        assert_eq!(
            [0, 1, 512, 1024, 1 << 17, 1 << 36].map(exact_bytes),
            ["0 B", "1 B", "512 B", "1 KiB", "128 KiB", "64 GiB"]
        );
    }
}
