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
}
