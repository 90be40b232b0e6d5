//! The H2 (log-linear) bucket function, once, for both sides. Units are the caller's: nanoseconds or bytes.
//!
//! Values below 2^(G+1) have a bucket each; above, every power of two is cut into 2^G equal buckets, so a bucket's
//! width is at most 1/2^G of its lower bound and its midpoint is off by at most 6.25 % for G = 3.
//! Layout: <https://h2histogram.org>; the `histogram` crate's `Config::new(3, 37)` numbers buckets the same way (tested).

/// Buckets per power of two, as a power of two (G).
pub const GROUPING_POWER: u32 = 3;
/// Values at or above 2^37 (137 s in ns, 128 GiB in bytes) are counted in the last bucket.
pub const MAX_VALUE_POWER: u32 = 37;
/// Number of buckets.
pub const BUCKETS: usize = ((MAX_VALUE_POWER - GROUPING_POWER + 1) << GROUPING_POWER) as usize;

const LINEAR_LIMIT: u64 = 1 << (GROUPING_POWER + 1);

/// The bucket of `value`; values past the range saturate into the last bucket.
#[inline(always)]
pub fn bucket_of(value: u64) -> usize {
    if value < LINEAR_LIMIT {
        return value as usize;
    }
    if value >> MAX_VALUE_POWER != 0 {
        return BUCKETS - 1;
    }
    let power = floor_log2(value);
    let group = (power - GROUPING_POWER) as u64;
    // The top G bits below the leading one choose the bucket inside the group.
    let offset = (value >> group) & ((1 << GROUPING_POWER) - 1);
    (((group + 1) << GROUPING_POWER) + offset) as usize
}

/// Lowest and highest value (inclusive) of bucket `index`. The last bucket also holds everything above its high end.
pub const fn bucket_bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < LINEAR_LIMIT {
        return (index, index);
    }
    let group = (index >> GROUPING_POWER) - 1;
    let offset = index & ((1 << GROUPING_POWER) - 1);
    let low = ((1 << GROUPING_POWER) + offset) << group;
    (low, low + (1 << group) - 1)
}

/// floor(log2(value)) for value > 0. BPF has no count-leading-zeros instruction, and the verifier walks every branch of a
/// search by halves anew for all that follows: so without a branch, by a de Bruijn sequence. The bits below the highest are
/// filled up, which leaves 64 possible values; a product with the sequence puts a number of its own into the top 6 bits of
/// each (Leiserson, Prokop, Randall: Using de Bruijn Sequences to Index a 1 in a Computer Word, 1998).
#[inline(always)]
fn floor_log2(value: u64) -> u32 {
    let mut filled = value;
    filled |= filled >> 1;
    filled |= filled >> 2;
    filled |= filled >> 4;
    filled |= filled >> 8;
    filled |= filled >> 16;
    filled |= filled >> 32;
    let index = (filled.wrapping_mul(DE_BRUIJN) >> 58) as usize;
    // SAFETY: an index of 6 bits. Volatile, or the compiler makes branches of it again.
    unsafe { core::ptr::read_volatile((&raw const LOG2_BY_INDEX).cast::<u8>().add(index)).into() }
}

/// A sequence whose products with 2^(n+1) - 1 differ in their top 6 bits for every n; the test tries all.
const DE_BRUIJN: u64 = 0x03f7_9d71_b4cb_0a89;

static LOG2_BY_INDEX: [u8; 64] = {
    let mut table = [0; 64];
    let mut power = 0;
    while power < 64 {
        let filled = u64::MAX >> (63 - power);
        table[(filled.wrapping_mul(DE_BRUIJN) >> 58) as usize] = power as u8;
        power += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    fn edges() -> impl Iterator<Item = u64> {
        (0..MAX_VALUE_POWER).flat_map(|k| [(1u64 << k) - 1, 1 << k, (1 << k) + 1]).chain([0, (1 << 37) - 1])
    }

    #[test]
    fn every_power_of_two_has_an_index_of_its_own() {
        for power in 0..64 {
            for value in [1u64 << power, u64::MAX >> (63 - power)] {
                assert_eq!(floor_log2(value), power, "{value:#x}");
            }
        }
    }

    #[test]
    fn agrees_with_the_histogram_crate_on_every_edge() {
        let fresh = || histogram::Histogram::new(GROUPING_POWER as u8, MAX_VALUE_POWER as u8).unwrap();
        assert_eq!(fresh().as_slice().len(), BUCKETS);
        for value in edges() {
            let mut theirs = fresh();
            theirs.increment(value).unwrap();
            assert_eq!(theirs.as_slice()[bucket_of(value)], 1, "value {value}");
        }
    }

    #[test]
    fn buckets_tile_the_range_without_gap_or_overlap() {
        let mut next = 0;
        for index in 0..BUCKETS {
            let (low, high) = bucket_bounds(index);
            assert_eq!(low, next);
            assert_eq!((bucket_of(low), bucket_of(high)), (index, index));
            next = high + 1;
        }
        assert_eq!(next, 1 << MAX_VALUE_POWER);
    }

    #[test]
    fn values_past_the_range_saturate() {
        for value in [1 << 37, (1 << 37) + 1, 1 << 63, u64::MAX] {
            assert_eq!(bucket_of(value), BUCKETS - 1);
        }
    }
}
