//! A distribution: H2 bucket counts with the exact sum, smallest and largest value kept beside them.

use iotrace_common::hist::{bucket_bounds, bucket_of};

/// A distribution of nanoseconds or bytes. Quantiles are read off the buckets (within 6.25 %), clamped to the exact
/// smallest and largest value; `sum`, `min`, `max` and `count` are exact where the kernel side keeps them.
///
/// Only buckets in use are held: a process uses some tens of the 280, and a system has thousands of processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// (bucket, count), ascending, no zero counts.
    counts: Vec<(u16, u64)>,
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
    /// Smallest value; 0 when empty.
    pub min: u64,
    /// Largest value; 0 when empty.
    pub max: u64,
}

impl Histogram {
    /// No values.
    pub const EMPTY: Self = Self { counts: Vec::new(), count: 0, sum: 0, min: 0, max: 0 };

    /// From bucket counts as the kernel side keeps them.
    pub fn from_parts(counts: &[u64], sum: u64, min: u64, max: u64) -> Self {
        let mut counts: Vec<_> =
            counts.iter().enumerate().filter(|(_, c)| **c > 0).map(|(i, c)| (i as u16, *c)).collect();
        counts.shrink_to_fit();
        let count = counts.iter().map(|(_, c)| c).sum();
        if count == 0 { Self::default() } else { Self { counts, count, sum, min, max } }
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        self.add(bucket_of(value) as u16, 1);
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
    }

    fn add(&mut self, bucket: u16, count: u64) {
        match self.counts.binary_search_by_key(&bucket, |(b, _)| *b) {
            Ok(at) => self.counts[at].1 += count,
            Err(at) => {
                if self.counts.is_empty() {
                    self.counts.reserve_exact(1);
                }
                self.counts.insert(at, (bucket, count));
            }
        }
    }

    /// Adds every value of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other.clone();
            return;
        }
        for &(bucket, count) in &other.counts {
            self.add(bucket, count);
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// True when nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The value at `quantile` (0..=1): the midpoint of the bucket that holds the value of that rank, clamped to the
    /// exact extremes. `None` when empty.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        self.bucket_at(quantile).map(|(low, high)| (low + (high - low) / 2).clamp(self.min, self.max))
    }

    /// The bucket that holds the value of a rank.
    fn bucket_at(&self, quantile: f64) -> Option<(u64, u64)> {
        if self.count == 0 {
            return None;
        }
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        let at_rank = self.counts.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        at_rank.map(|(bucket, _)| bucket_bounds((*bucket).into()))
    }

    /// As [`Histogram::quantile`], by the low edge of the bucket: for sizes, which are round far more often than not, and
    /// round sizes are low edges.
    pub fn quantile_floor(&self, quantile: f64) -> Option<u64> {
        self.bucket_at(quantile).map(|(low, _)| low.clamp(self.min, self.max))
    }

    /// The buckets in use as (low, high, count), both ends inclusive, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.counts.iter().map(|&(bucket, count)| {
            let (low, high) = bucket_bounds(bucket.into());
            (low, high, count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_known_values() {
        let mut h = Histogram::default();
        (1..=1000).for_each(|v| h.record(v * 1000));
        for (q, truth) in [(0.5, 500_000.0), (0.9, 900_000.0), (0.99, 990_000.0)] {
            let got = h.quantile(q).unwrap() as f64;
            assert!((got - truth).abs() / truth <= 0.0625, "p{q}: {got} against {truth}");
        }
        assert_eq!((h.min, h.max, h.count, h.sum), (1000, 1_000_000, 1000, 500_500_000));
        assert_eq!(h.quantile(1.0), Some(1_000_000), "clamped to the exact largest value");
    }

    #[test]
    fn merging_equals_recording_everything_in_one() {
        let (mut a, mut b, mut all) = (Histogram::default(), Histogram::default(), Histogram::default());
        for v in (0..5000u64).map(|i| i * i * 37) {
            if v % 3 == 0 {
                a.record(v)
            } else {
                b.record(v)
            }
            all.record(v);
        }
        a.merge(&b);
        assert_eq!(a, all);
        let mut empty = Histogram::default();
        empty.merge(&all);
        assert_eq!(empty, all);
    }

    #[test]
    fn round_sizes_have_round_quantiles() {
        let mut h = Histogram::default();
        [512, 4096, 4096, 4096, 65536].iter().for_each(|&size| h.record(size));
        assert_eq!((h.quantile_floor(0.5), h.quantile_floor(0.99)), (Some(4096), Some(65536)));
    }

    #[test]
    fn an_empty_histogram_has_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::from_parts(&[0; 10], 0, 0, 0), Histogram::default());
    }
}
