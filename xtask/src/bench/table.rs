//! The rows, as a table and as JSON.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{Found, sample::Sample};

/// What a row counts in.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Milliseconds.
    Ms,
    /// Requests a second.
    PerSecond,
    /// Hundredths: of the untraced rate, or of one CPU.
    Percent,
    /// 2^20 bytes.
    MiB,
}

/// What a cost may be at most.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// This many times the peer's.
    OfPeer(f64),
    /// This much, in the unit of the row.
    Cost(f64),
}

/// One comparison.
#[derive(Debug)]
pub struct Row {
    /// Its name in the JSON.
    pub key: &'static str,
    /// What was measured.
    pub what: &'static str,
    /// Without any tracer, and its unit.
    pub untraced: Option<(Sample, Unit)>,
    /// iotrace's cost.
    pub iotrace: Sample,
    /// The peer's name and cost in the same rounds.
    pub peer: Option<(String, Sample)>,
    /// Unit of both costs.
    pub unit: Unit,
    /// What iotrace's cost may be at most.
    pub limit: Option<Limit>,
}

/// What the kernel accounts to one of iotrace's programs.
#[derive(Clone, Debug)]
pub struct Program {
    /// The load it ran under.
    pub load: &'static str,
    /// Its name, as the kernel keeps it: 15 characters.
    pub name: String,
    /// Runs for each operation of the load.
    pub runs_per_op: f64,
    /// Mean nanoseconds of a run.
    pub ns_per_run: f64,
}

impl Row {
    /// iotrace's cost as a share of the peer's: of the medians.
    fn ratio(&self) -> Option<f64> {
        self.peer.as_ref().map(|(_, peer)| self.iotrace.median() / peer.median())
    }

    /// See [`Sample::ratio_range`].
    fn ratio_range(&self) -> Option<(f64, f64)> {
        self.peer.as_ref().map(|(_, peer)| self.iotrace.ratio_range(peer))
    }

    /// Whether the medians keep the limit.
    fn met(&self) -> Option<bool> {
        let cost = self.iotrace.median();
        self.limit.map(|limit| match limit {
            Limit::OfPeer(limit) => self.peer.as_ref().is_some_and(|(_, peer)| cost <= limit * peer.median()),
            Limit::Cost(limit) => cost <= limit,
        })
    }

    /// Whether the rounds agree on that.
    fn settled(&self) -> bool {
        match (self.limit, self.ratio_range()) {
            (Some(Limit::OfPeer(limit)), Some((low, high))) => !(low..=high).contains(&limit),
            _ => true,
        }
    }

    /// A question mark where more or quieter rounds could tell otherwise.
    fn verdict(&self) -> String {
        let Some(met) = self.met() else { return "-".to_owned() };
        format!("{}{}", if met { "yes" } else { "NO" }, if self.settled() { "" } else { " ?" })
    }

    fn cells(&self) -> [String; 7] {
        let dash = || "-".to_owned();
        let limit = match self.limit {
            None => dash(),
            Some(Limit::OfPeer(limit)) => format!("{limit:.2}"),
            Some(Limit::Cost(limit)) => self.unit.shown(limit),
        };
        [
            self.what.to_owned(),
            self.untraced.as_ref().map_or_else(dash, |(sample, unit)| unit.shown(sample.median())),
            self.unit.with_spread(&self.iotrace),
            self.peer
                .as_ref()
                .map_or_else(dash, |(name, sample)| format!("{} {name}", self.unit.with_spread(sample))),
            self.ratio()
                .zip(self.ratio_range())
                .map_or_else(dash, |(ratio, (low, high))| format!("{ratio:.2} ({low:.2}..{high:.2})")),
            limit,
            self.verdict(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "key": self.key,
            "what": self.what,
            "untraced": self.untraced.as_ref().map(|(sample, unit)| figures(sample, *unit)),
            "iotrace": figures(&self.iotrace, self.unit),
            "peer": self.peer.as_ref().map(|(_, sample)| figures(sample, self.unit)),
            "peer_name": self.peer.as_ref().map(|(name, _)| name),
            "ratio": self.ratio(),
            "ratio_range": self.ratio_range(),
            "limit": self.limit.map(|(Limit::OfPeer(limit) | Limit::Cost(limit))| limit),
            "limit_of": self.limit.map(|limit| match limit {
                Limit::OfPeer(_) => "peer",
                Limit::Cost(_) => self.unit.name(),
            }),
            "met": self.met(),
            "settled": self.settled(),
        })
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Ms => "ms",
            Self::PerSecond => "1/s",
            Self::Percent => "%",
            Self::MiB => "MiB",
        }
    }

    fn number(self, value: f64) -> String {
        match self {
            Self::Ns | Self::Ms | Self::PerSecond => format!("{value:.0}"),
            Self::Percent => format!("{value:.2}"),
            Self::MiB => format!("{value:.1}"),
        }
    }

    fn shown(self, value: f64) -> String {
        format!("{} {}", self.number(value), self.name())
    }

    fn with_spread(self, sample: &Sample) -> String {
        let (low, high) = sample.quartiles();
        format!("{} ({}..{})", self.shown(sample.median()), self.number(low), self.number(high))
    }
}

fn figures(sample: &Sample, unit: Unit) -> Value {
    let (low, high) = sample.quartiles();
    json!({"unit": unit.name(), "median": sample.median(), "quartiles": [low, high], "rounds": sample.values()})
}

/// The table people read: medians, in brackets the quartiles of the rounds.
pub fn text(found: &Found) -> String {
    let Found { rows, programs, .. } = found;
    let head = ["what", "untraced", "iotrace", "peer", "ratio", "limit", "met"].map(str::to_owned);
    let mut text = columns(&std::iter::once(head).chain(rows.iter().map(Row::cells)).collect::<Vec<_>>());
    if !programs.is_empty() {
        let head = ["program", "under", "runs per op", "ns per run", "ns per op"].map(str::to_owned);
        let cells = |program: &Program| {
            [
                program.name.clone(),
                program.load.to_owned(),
                format!("{:.3}", program.runs_per_op),
                format!("{:.0}", program.ns_per_run),
                format!("{:.0}", program.runs_per_op * program.ns_per_run),
            ]
        };
        text.push('\n');
        text += &columns(&std::iter::once(head).chain(programs.iter().map(cells)).collect::<Vec<_>>());
    }
    text
}

fn columns<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

/// Everything, each round included.
pub fn json(found: &Found, quick: bool, errors: &[String]) -> Value {
    let program = |program: &Program| {
        json!({
            "name": program.name,
            "load": program.load,
            "runs_per_op": program.runs_per_op,
            "ns_per_run": program.ns_per_run,
        })
    };
    let uname = rustix::system::uname();
    json!({
        "unix_time": SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        "kernel": uname.release().to_string_lossy(),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "quick": quick,
        "rows": found.rows.iter().map(Row::json).collect::<Vec<_>>(),
        "programs": found.programs.iter().map(program).collect::<Vec<_>>(),
        "other_tracers": found.others,
        "errors": errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        let mut sample = Sample::default();
        values.iter().for_each(|value| sample.push(*value));
        sample
    }

    fn row(peer: Option<f64>, limit: Limit) -> Row {
        Row {
            key: "key",
            what: "a thing",
            untraced: None,
            iotrace: sample(&[100.0, 200.0, 300.0]),
            peer: peer.map(|peer| ("peer".to_owned(), sample(&[peer; 3]))),
            unit: Unit::Ns,
            limit: Some(limit),
        }
    }

    #[test]
    fn a_limit_can_be_of_the_ratio() {
        let row = row(Some(400.0), Limit::OfPeer(0.4));
        assert_eq!((row.ratio(), row.met()), (Some(0.5), Some(false)));
        assert_eq!(
            row.cells()[2..],
            ["200 ns (150..250)", "400 ns (400..400) peer", "0.50 (0.25..0.75)", "0.40", "NO ?"]
                .map(String::from)
        );
    }

    #[test]
    fn a_limit_can_be_of_the_cost() {
        let alone = row(None, Limit::Cost(200.0));
        assert_eq!((alone.ratio(), alone.met()), (None, Some(true)));
        assert_eq!(alone.cells()[3..], ["-", "-", "200 ns", "yes"].map(String::from));
        let beside = row(Some(400.0), Limit::Cost(199.0));
        assert_eq!((beside.ratio(), beside.met()), (Some(0.5), Some(false)));
        assert_eq!(beside.cells()[5..], ["199 ns", "NO"].map(String::from));
    }

    #[test]
    fn no_figure_meets_no_limit() {
        let row = Row { iotrace: Sample::default(), ..row(Some(1.0), Limit::OfPeer(0.4)) };
        assert_eq!(row.met(), Some(false));
    }
}
