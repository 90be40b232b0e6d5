//! Figures of several rounds, and what one says of them.

/// One figure a round, in the order of the rounds.
#[derive(Clone, Debug, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// No rounds yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// The round's figure.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// All figures.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Half of the rounds are below; NaN without rounds.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// A quarter of the rounds is below the first, a quarter above the second.
    pub fn quartiles(&self) -> (f64, f64) {
        (self.quantile(0.25), self.quantile(0.75))
    }

    /// In how far the rounds settle the quotient of two medians: the range of nine in ten of the quotients that the same
    /// rounds, drawn anew with replacement, give (percentile bootstrap; Efron 1979). Both samples are of the same rounds.
    pub fn ratio_range(&self, other: &Self) -> (f64, f64) {
        const DRAWS: usize = 1000;
        let rounds = self.0.len().min(other.0.len());
        // A generator of its own (splitmix64): the same rounds give the same range.
        let mut state = 0_u64;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) as usize
        };
        let mut ratios = Self::new();
        for _ in 0..DRAWS {
            let drawn: Vec<usize> = (0..rounds).map(|_| next() % rounds).collect();
            let median = |sample: &Self| Self(drawn.iter().map(|round| sample.0[*round]).collect()).median();
            ratios.push(median(self) / median(other));
        }
        (ratios.quantile(0.05), ratios.quantile(0.95))
    }

    /// Interpolated between the two nearest rounds.
    fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
        let at = share * last as f64;
        let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        low + (high - low) * at.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_odd_round_does_not_move_the_median() {
        let sample = Sample(vec![3.0, 1.0, 900.0, 2.0, 4.0]);
        assert_eq!(sample.median(), 3.0);
        assert_eq!(sample.quartiles(), (2.0, 4.0));
        assert_eq!(Sample(vec![1.0, 2.0]).median(), 1.5);
        assert!(Sample::default().median().is_nan());
    }

    #[test]
    fn a_ratio_is_as_sure_as_its_rounds_agree() {
        let steady = Sample(vec![1.0, 1.0, 1.0, 1.0]);
        let (low, high) = steady.ratio_range(&Sample(vec![2.0, 2.0, 2.0, 2.0]));
        assert_eq!((low, high), (0.5, 0.5));
        let (low, high) = steady.ratio_range(&Sample(vec![1.0, 2.0, 4.0, 8.0]));
        assert!(low < 0.3 && high > 0.4, "{low}..{high}");
    }
}
