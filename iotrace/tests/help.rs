//! Help texts against the files in `tests/golden/`. `UPDATE_GOLDEN=1 cargo test -p iotrace --test help` rewrites them.

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, Stdio},
};

fn help(subcommand: Option<&str>) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_iotrace"))
        .args(subcommand)
        .arg("--help")
        .env("COLUMNS", "80")
        .stdin(Stdio::null())
        .output()
        .expect("iotrace runs");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout).expect("help is UTF-8")
}

#[test]
fn help_is_as_written_down() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for subcommand in [None, Some("run"), Some("attach"), Some("check")] {
        let path = folder.join(format!("help-{}.txt", subcommand.unwrap_or("iotrace")));
        let got = help(subcommand);
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &got).expect("golden file written");
        }
        let want = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            want == got,
            "{} differs; UPDATE_GOLDEN=1 rewrites it. First difference: {:?}",
            path.display(),
            want.lines().zip(got.lines()).find(|(want, got)| want != got)
        );
    }
}
