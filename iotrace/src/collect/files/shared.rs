//! Files that more than one process used: what each but the first did with them, in four bits. In blocks of neighbouring
//! entries, because workers that read all of a million files in turn share all of them.

use std::collections::HashMap;

/// Entries in a block.
const ENTRIES: u32 = 128;

/// Flags of 128 neighbouring entries, for one process.
type Block = [u8; ENTRIES as usize / 2];

/// Flags by process and block.
#[derive(Default)]
pub struct Shared {
    places: HashMap<(u32, u32), u32>,
    blocks: Vec<((u32, u32), Block)>,
}

impl Shared {
    /// Adds flags (below 16) of a file of a process.
    pub fn add(&mut self, process: u32, entry: u32, flags: u8) {
        let key = (process, entry / ENTRIES);
        let blocks = &mut self.blocks;
        let place = *self.places.entry(key).or_insert_with(|| {
            blocks.push((key, [0; ENTRIES as usize / 2]));
            blocks.len() as u32 - 1
        });
        let at = entry % ENTRIES;
        self.blocks[place as usize].1[at as usize / 2] |= (flags & 15) << (4 * (at % 2));
    }

    /// Every process and file with its flags.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, u8)> {
        self.blocks.iter().flat_map(|&((process, block), flags)| {
            let flags_of = move |at: u32| flags[at as usize / 2] >> (4 * (at % 2)) & 15;
            (0..ENTRIES).map(move |at| (process, block * ENTRIES + at, flags_of(at))).filter(|f| f.2 != 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_neighbours_are_kept_apart() {
        let mut shared = Shared::default();
        for (process, entry, flags) in [(1, 127, 3), (1, 128, 4), (2, 127, 8), (1, 126, 15), (1, 127, 4)] {
            shared.add(process, entry, flags);
        }
        let mut all: Vec<_> = shared.iter().collect();
        all.sort_unstable();
        assert_eq!(all, [(1, 126, 15), (1, 127, 7), (1, 128, 4), (2, 127, 8)]);
    }
}
