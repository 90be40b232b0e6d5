//! Patterns in JSON.

use super::shape::PatternInfo;
use crate::{
    analysis::{self, Pattern},
    model::Trace,
    report::{escape::reversible, patterns::sentence},
};

/// Every pattern of `trace`.
pub fn of(trace: &Trace) -> Vec<PatternInfo> {
    analysis::patterns(trace).iter().map(info).collect()
}

fn info(pattern: &Pattern) -> PatternInfo {
    PatternInfo {
        kind: pattern.evidence.kind(),
        text: sentence(pattern),
        evidence: pattern.evidence.numbers().into_iter().collect(),
        pids: pattern.pids.clone(),
        path: pattern.path.as_deref().map(reversible),
    }
}
