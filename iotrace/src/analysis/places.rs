//! The folder that stands for many.

use crate::model::Folder;

/// The folder that holds most of `weight`: the nearest one above the heaviest folders that make up half of it, or the
/// heaviest itself where that would be the root.
pub fn place(folders: &[Folder], weight: impl Fn(&Folder) -> u64) -> Option<Vec<u8>> {
    let mut heavy: Vec<_> = folders.iter().map(|folder| (weight(folder), folder.path.as_slice())).collect();
    heavy.retain(|&(weight, _)| weight > 0);
    heavy.sort_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
    let half = heavy.iter().map(|&(weight, _)| weight).sum::<u64>().div_ceil(2);
    let heaviest = heavy.first()?.1;
    let (mut above, mut sum) = (heaviest, 0);
    for (weight, path) in &heavy {
        if sum >= half {
            break;
        }
        sum += weight;
        above = shared(above, path);
    }
    Some(if above.is_empty() { heaviest } else { above }.to_vec())
}

/// What two paths begin with, in whole components; empty: the root alone.
fn shared<'a>(a: &'a [u8], b: &[u8]) -> &'a [u8] {
    let mut end = 0;
    for (index, (x, y)) in a.iter().zip(b).enumerate() {
        if x != y {
            return &a[..end];
        }
        if *x == b'/' {
            end = index;
        }
    }
    let whole = a.len().min(b.len());
    let ends = |path: &[u8]| path.len() == whole || path[whole] == b'/';
    if ends(a) && ends(b) { &a[..whole] } else { &a[..end] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_share_whole_components() {
        for (a, b, both) in [
            ("/data/a", "/data/b", "/data"),
            ("/data/train", "/data/training", "/data"),
            ("/data", "/data/x", "/data"),
            ("/data/x", "/data/x", "/data/x"),
            ("/data", "/home", ""),
        ] {
            assert_eq!(shared(a.as_bytes(), b.as_bytes()), both.as_bytes(), "{a} {b}");
        }
    }

    #[test]
    fn the_place_is_above_what_makes_up_half() {
        let folder = |path: &str, opens| Folder { path: path.into(), opens, ..Folder::default() };
        let folders =
            [folder("/d/a", 30), folder("/d/b", 30), folder("/d/c", 30), folder("/etc", 5), folder("/x", 0)];
        assert_eq!(place(&folders, |f| f.opens), Some(b"/d".to_vec()));
        assert_eq!(place(&folders[3..], |f| f.opens), Some(b"/etc".to_vec()));
        assert_eq!(place(&folders[4..], |f| f.opens), None);
        let apart = [folder("/a/x", 9), folder("/b/y", 9), folder("/c/z", 9)];
        assert_eq!(place(&apart, |f| f.opens), Some(b"/a/x".to_vec()), "the root says nothing");
    }
}
