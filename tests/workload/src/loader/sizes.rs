//! How the sizes of files are told: by the classes that advice speaks of, and by the buckets of iotrace's histograms.

use std::collections::BTreeMap;

use iotrace_common::hist::{bucket_bounds, bucket_of};
use serde_json::{Map, Value};

/// Names and lower bounds of the size classes in bytes; each ends where the next begins.
const CLASSES: [(&str, u64); 7] = [
    ("<4K", 0),
    ("4-16K", 4 << 10),
    ("16-64K", 16 << 10),
    ("64-128K", 64 << 10),
    ("128K-1M", 128 << 10),
    ("1-16M", 1 << 20),
    (">16M", 16 << 20),
];

/// Files by size class, every class named.
pub fn by_class(sizes: &[u64]) -> Map<String, Value> {
    let mut counts = [0u64; CLASSES.len()];
    for &size in sizes {
        counts[CLASSES.partition_point(|&(_, low)| low <= size) - 1] += 1;
    }
    CLASSES.iter().zip(counts).map(|(&(name, _), count)| (name.to_owned(), count.into())).collect()
}

/// Files by H2 bucket: (lowest size, highest size, files), empty buckets left out.
pub fn by_bucket(sizes: &[u64]) -> Vec<(u64, u64, u64)> {
    let mut counts = BTreeMap::<usize, u64>::new();
    for &size in sizes {
        *counts.entry(bucket_of(size)).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(bucket, count)| {
            let (low, high) = bucket_bounds(bucket);
            (low, high, count)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_begins_with_its_lower_bound() {
        let sizes = [0, 4095, 4096, 16383, 16384, (128 << 10) - 1, 128 << 10, 1 << 20, 16 << 20];
        let classes = by_class(&sizes);
        let count = |name: &str| classes[name].as_u64();
        assert_eq!((count("<4K"), count("4-16K"), count("16-64K")), (Some(2), Some(2), Some(1)));
        assert_eq!((count("64-128K"), count("128K-1M")), (Some(1), Some(1)));
        assert_eq!((count("1-16M"), count(">16M")), (Some(1), Some(1)));
    }

    #[test]
    fn every_file_is_in_one_bucket_that_holds_its_size() {
        let sizes = [0, 1, 4096, 4096, 110_000];
        let buckets = by_bucket(&sizes);
        assert_eq!(buckets.iter().map(|bucket| bucket.2).sum::<u64>(), 5);
        for (low, high, count) in buckets {
            let inside = sizes.iter().filter(|&&size| (low..=high).contains(&size)).count();
            assert_eq!(inside as u64, count);
        }
    }
}
