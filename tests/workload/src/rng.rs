//! A small seeded generator (splitmix64): the same seed plants the same truth everywhere.

/// Generator state.
pub struct Rng(u64);

impl Rng {
    /// A generator of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1].
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Lognormal with the given median and sigma (Box-Muller).
    pub fn lognormal(&mut self, median: f64, sigma: f64) -> f64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        median * (sigma * normal).exp()
    }

    /// Shuffles in place (Fisher-Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, (self.next() % (i as u64 + 1)) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lognormal_sizes_have_the_planned_median() {
        let mut rng = Rng::new(7);
        let mut sizes: Vec<f64> = (0..10_001).map(|_| rng.lognormal(94_000.0, 0.55)).collect();
        sizes.sort_by(f64::total_cmp);
        assert!((sizes[5000] / 94_000.0 - 1.0).abs() < 0.03, "median {}", sizes[5000]);
    }
}
