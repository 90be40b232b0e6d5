use super::*;
use crate::model::FileSystem;

struct Plain;

impl PathOf for Plain {
    fn path(&mut self, _: u64, _: u32, _: (u32, u32), path: &[u8]) -> Vec<u8> {
        [b"/mnt", path].concat()
    }

    fn file_system(&mut self, _: u64, mount: u32, device: (u32, u32)) -> FileSystem {
        FileSystem { mount_point: format!("/m{mount}").into(), device, ..FileSystem::default() }
    }
}

fn part(process: u64, ino: u64, size: u64, wait_ns: u64) -> SessionPart {
    SessionPart {
        process,
        flags: OPENED | CLOSED,
        dev: 8,
        ino,
        size,
        covered: size,
        totals: FileTotals { reads: 2, read_bytes: size, read_wait_ns: wait_ns, ..FileTotals::default() },
        ..SessionPart::default()
    }
}

fn name(ino: u64) -> Named {
    let name = format!("f{ino}.JPG").into();
    Named { process: 1, dev: 8, ino, folder: 100, mount: 3, name }
}

#[test]
fn files_count_once_and_sessions_each_time() {
    let mut files = Files::default();
    for (process, ino, size) in [(1, 5, 1000), (1, 5, 1000), (2, 5, 1000), (1, 6, 200_000)] {
        files.session(&part(process, ino, size, 10));
    }
    let by: std::collections::HashMap<u64, OfProcess> = files.by_process().collect();
    assert_eq!((by[&1].sizes.all.count, by[&1].sizes.all.sum, by[&1].file_use.opens), (2, 201_000, 3));
    assert_eq!((by[&2].sizes.all.count, by[&2].sizes.read.count, by[&2].sizes.written.count), (1, 1, 0));
    let found = files.finish(&mut Plain, 0);
    assert_eq!((found.distinct, found.sessions.opened, found.sessions.whole_file), (2, 4, 4));
    assert_eq!((found.classes[0].files, found.classes[0].opens, found.classes[0].totals.reads), (1, 3, 6));
    assert_eq!((found.classes[4].files, found.classes[4].totals.read_bytes), (1, 200_000));
}

#[test]
fn the_longest_waits_are_listed_with_their_paths() {
    let mut files = Files::default();
    files.folder(8, 2, 2, b"/");
    files.folder(8, 100, 2, b"train");
    for ino in 0..1000 {
        files.name(&name(1000 + ino));
        files.session(&part(1, 1000 + ino, 100, ino));
    }
    let found = files.finish(&mut Plain, 0);
    assert_eq!(found.top.len(), 20);
    assert_eq!(found.top[0].path, b"/mnt/train/f1999.JPG");
    assert!(found.top.is_sorted_by_key(|file| std::cmp::Reverse(file.wait_ns)));
    assert_eq!((found.folders.len(), found.folders[0].files), (1, 1000));
    assert_eq!(found.folders[0].path, b"/mnt/train");
    assert_eq!((found.extensions[0].extension.as_slice(), found.extensions[0].files), (&b".jpg"[..], 1000));
    assert_eq!((found.file_systems[0].files, found.file_systems[0].opens), (1000, 1000));
}

#[test]
fn a_folder_that_was_not_told_of_is_marked() {
    let mut files = Files::default();
    files.name(&name(7));
    files.session(&part(1, 7, 100, 1));
    assert_eq!(files.finish(&mut Plain, 0).top[0].path, b"[...]/f7.JPG");
}

#[test]
fn a_million_files_take_less_than_150_mb() {
    let mut files = Files::default();
    for ino in 0..1_300_000u64 {
        files.name(&Named { name: format!("n{ino:08}.JPEG").into(), process: ino % 8, ..name(ino) });
        files.session(&part(ino % 8, ino, 100, 1));
    }
    let entries = files.chunks.len() * CHUNK * size_of::<Entry>();
    let total = entries + files.index.bytes() + files.names.capacity();
    assert!(size_of::<Entry>() == 72, "{}", size_of::<Entry>());
    assert!(total < 150 << 20, "{total}");
    assert_eq!(files.len(), 1_300_000);
}
