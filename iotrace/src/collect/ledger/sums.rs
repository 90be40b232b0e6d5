//! Times of many threads as a list of numbers: small, and added up when it has grown.

/// Whose, which account, how long.
pub type Number<K> = (K, u8, u64);

/// One number for each of whom and account, in order.
pub fn added_up<K: Ord>(mut numbers: Vec<Number<K>>) -> Vec<Number<K>> {
    numbers.sort_unstable();
    numbers.dedup_by(|later, first| {
        let same = (&later.0, later.1) == (&first.0, first.1);
        if same {
            first.2 += later.2;
        }
        same
    });
    numbers.shrink_to_fit();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_one_account_become_one() {
        let numbers = vec![(2, 1, 5), (1, 0, 1), (2, 1, 7), (2, 0, 3), (1, 0, 2)];
        assert_eq!(added_up(numbers), [(1, 0, 3), (2, 0, 3), (2, 1, 12)]);
    }
}
