use super::*;
use crate::model::{
    Checkpoint, Device, Extension, Failure, File, FileSystem, Folder, Meta, Process, Targets,
};

fn by() -> Redactor {
    Redactor::with_key("a test")
}

fn path(path: &str) -> String {
    text(by().path(path.as_bytes()))
}

#[test]
fn components_have_their_hash_wherever_they_stand() {
    let redacted = path("/data/train/n01/n01_7.JPEG");
    let parts: Vec<_> = redacted.split('/').collect();
    assert_eq!((parts.len(), parts[0]), (5, ""));
    assert!(parts[4].ends_with(".JPEG") && parts[4].len() == 12 + 5, "{redacted}");
    assert_eq!(path("/x/train").rsplit('/').next(), Some(parts[2]));
    for name in ["data", "train", "n01"] {
        assert!(!redacted.contains(name), "{redacted}");
    }
}

#[test]
fn another_key_gives_other_hashes() {
    assert_ne!(Redactor::with_key("another").path(b"/data"), by().path(b"/data"));
    assert_ne!(Redactor::random([1; 32]).path(b"/data"), Redactor::random([2; 32]).path(b"/data"));
    assert_eq!(Redactor::with_key("a test").path(b"/data"), by().path(b"/data"));
}

#[test]
fn what_is_no_name_stays() {
    for kept in ["/", "", "..", "../..", "[unmounted]/", "[inode 12]", "[...]"] {
        assert_eq!(path(kept), kept);
    }
    assert!(!path("[inode 12]/[inode x]").contains('x'), "anyone can name a file like a mark");
    assert!(path("[unmounted]/a").starts_with("[unmounted]/"));
}

#[test]
fn only_what_looks_like_an_extension_is_kept() {
    let kept = |name: &str| path(name).contains('.');
    assert!(kept("a.safetensors") && kept("a.tmp") && kept("b.7z"));
    assert!(
        !kept("john.of-the-secret")
            && !kept(".netrc")
            && !kept("a.thisislongerthanextensions")
            && !kept("a.\u{e4}")
    );
    assert_eq!(path("a.tar.gz").matches('.').count(), 1, "the last alone");
}

#[test]
fn arguments_with_a_slash_are_paths() {
    let argument = |of: &str| text(by().argument(of.as_bytes()));
    assert_eq!(argument("--workers=4"), "--workers=4");
    assert_eq!(argument("train.py"), "train.py");
    assert_eq!(argument("--data=/secret/set"), format!("--data={}", path("/secret/set")));
    assert_eq!(argument("/usr/bin/python"), path("/usr/bin/python"));
    assert!(
        !argument("a=/secret").contains("a=") && !argument("import x; open('/secret/y')").contains("import")
    );
}

#[test]
fn the_key_is_not_in_the_report() {
    for argument in ["a test", "--redact-key=a test"] {
        assert_eq!(text(by().argument(argument.as_bytes())), "[redact key]");
    }
    assert_eq!(Redactor::random([0; 32]).argument(b""), b"", "no key was given");
}

/// Every place of a trace that holds a name holds the word "secret".
fn secrets() -> Trace {
    let secret = || b"/secret/secret.pt".to_vec();
    let files = Files {
        top: vec![File { path: secret(), ..File::default() }],
        folders: vec![Folder { path: secret(), ..Folder::default() }],
        extensions: vec![Extension { extension: b".pt".to_vec(), ..Extension::default() }],
        file_systems: vec![FileSystem {
            mount_point: secret(),
            fs_type: "nfs4".to_owned(),
            source: b"secret.host:/export/secret".to_vec(),
            ..FileSystem::default()
        }],
        checkpoints: vec![Checkpoint { path: secret(), temporary: Some(secret()), ..Checkpoint::default() }],
        failures: vec![Failure { pid: 1, op: "open", errno: 2, count: 1, path: secret() }],
        ..Files::default()
    };
    Trace {
        meta: Meta {
            command: vec![secret(), b"-v".to_vec()],
            targets: Targets { cgroups: vec!["/sys/fs/cgroup/secret".to_owned()], ..Targets::default() },
            filters: vec![
                ("path".to_owned(), "/secret".to_owned()),
                ("device".to_owned(), "/dev/sda".to_owned()),
            ],
            ..Meta::default()
        },
        processes: vec![Process {
            cmdline: vec![secret(), b"--to=/secret/x".to_vec()].into(),
            ..Process::default()
        }],
        devices: vec![Device { alias: Some("/secret/disk.img".to_owned()), ..Device::default() }],
        files,
        ..Trace::default()
    }
}

#[test]
fn no_name_is_left_anywhere() {
    // Debug prints bytes as numbers, so both forms are looked for.
    let debug = |trace: &Trace| format!("{trace:?}");
    let hidden = |text: &str| !text.contains("secret") && !text.contains("115, 101, 99, 114, 101, 116");
    let open = secrets();
    assert!(!hidden(&debug(&open)));
    let closed = redacted(open, &by());
    assert!(hidden(&debug(&closed)), "{closed:?}");
    assert!(closed.meta.redacted);
    assert_eq!(closed.meta.filters[1].1, "/dev/sda");
    assert_eq!(closed.files.extensions[0].extension, b".pt");
    assert!(closed.files.checkpoints[0].path.ends_with(b".pt"));
}

#[test]
fn numbers_stay() {
    let before = secrets();
    let after = redacted(before.clone(), &by());
    assert_eq!(after.files.failures[0].count, before.files.failures[0].count);
    assert_eq!(after.processes[0].cmdline.len(), 2);
}
