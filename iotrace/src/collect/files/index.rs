//! From the hash of a file to the number of its entry. In shards, because a table of a million moves for a tenth of a
//! second when it grows, and the ring buffer fills meanwhile.

use hashbrown::HashTable;

const SHARDS: usize = 64;

/// Numbers of entries by hash.
#[derive(Default)]
pub struct Index([Shard; SHARDS.div_ceil(32)]);

/// Arrays up to 32 have a default.
type Shard = [HashTable<u32>; 32];

impl Index {
    fn shard(hash: u64) -> (usize, usize) {
        // The tables themselves use the lowest and the highest bits.
        let shard = (hash >> 40) as usize % SHARDS;
        (shard / 32, shard % 32)
    }

    /// The entry of this hash that `is` takes.
    pub fn find(&self, hash: u64, is: impl FnMut(&u32) -> bool) -> Option<&u32> {
        let (row, column) = Self::shard(hash);
        self.0[row][column].find(hash, is)
    }

    /// Adds an entry that is not there yet; `rehash` gives the hash of one that is.
    pub fn insert(&mut self, hash: u64, entry: u32, rehash: impl Fn(&u32) -> u64) {
        let (row, column) = Self::shard(hash);
        self.0[row][column].insert_unique(hash, entry, rehash);
    }

    /// Memory taken, in bytes: a number and a byte of hash an entry, and room for an eighth more of them.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.0.as_flattened().iter().map(|table| table.capacity() * 5 * 8 / 7).sum()
    }
}
