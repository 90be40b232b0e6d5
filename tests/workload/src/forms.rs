//! N calls of each form of read and write on a regular file, by one forked child named `forms`.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::json;

use crate::sys::{self, Form};
use crate::tally::Tally;
use crate::{child, truth};

/// Runs `calls` of each of `forms` (all when empty), `size` bytes a call.
pub fn run(dir: &Path, calls: u64, forms: &[Form], size: usize) -> Result<()> {
    let forms = if forms.is_empty() { Form::value_variants() } else { forms };
    let files = Files::create(dir, calls * size as u64)?;
    let told = child::run(b"forms", || {
        let mut tally = Tally::default();
        let before = proc_io()?;
        for &form in forms {
            for call in 0..calls {
                files.call(form, call, size, &mut tally).with_context(|| format!("{form:?}"))?;
            }
        }
        let after = proc_io()?;
        // The first look adds itself to the second.
        tally.extra.insert(
            "proc_io".into(),
            json!({
                "rchar": after.rchar - before.rchar - before.own, "wchar": after.wchar - before.wchar,
                "syscr": after.syscr - before.syscr - 1, "syscw": after.syscw - before.syscw,
            }),
        );
        tally.file_sizes = files.touched(forms)?;
        Ok(tally)
    })?;
    truth::print("forms", &[told], json!({"calls": calls, "size": size}))
}

/// Two files and what lies between them. Both are made by ftruncate alone: no write.
struct Files {
    input: File,
    output: File,
    null: File,
    pipe: (OwnedFd, OwnedFd),
}

impl Files {
    fn create(dir: &Path, bytes: u64) -> Result<Self> {
        let open = |name: &str| -> Result<File> {
            let path = dir.join(name);
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
            let file = file.with_context(|| path.display().to_string())?;
            file.set_len(bytes)?;
            Ok(file)
        };
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        Ok(Self { input: open("forms-in")?, output: open("forms-out")?, null, pipe: sys::pipe()? })
    }

    /// Makes one call and counts it. Reads and copies start over with each form.
    fn call(&self, form: Form, call: u64, size: usize, tally: &mut Tally) -> Result<()> {
        if call == 0 {
            rewind(&self.input)?;
            rewind(&self.output)?;
        }
        let mut buffer = vec![0x5a; size];
        let offset = call * size as u64;
        let (input, output) = (&self.input, &self.output);
        let ret = match form {
            Form::Read => sys::read(input, &mut buffer),
            Form::Pread64 => sys::pread64(input, &mut buffer, offset),
            Form::Readv | Form::Preadv | Form::Preadv2 => {
                sys::vector(form, input, &mut buffer, offset as i64)
            }
            Form::Write => sys::write(output, &buffer),
            Form::Pwrite64 => sys::pwrite64(output, &buffer, offset),
            Form::Writev | Form::Pwritev | Form::Pwritev2 => {
                sys::vector(form, output, &mut buffer, offset as i64)
            }
            Form::Sendfile => sys::sendfile(&self.null, input, offset, size),
            Form::SendfileFile => sys::sendfile(output, input, offset, size),
            Form::CopyFileRange => sys::copy_file_range(input, output, size),
            Form::Splice => sys::splice(input, &self.pipe.1, size),
            Form::SpliceOut => {
                ensure!(sys::write(&self.pipe.1, &buffer) == size as isize, "filling the pipe");
                sys::splice(&self.pipe.0, output, size)
            }
        };
        if form == Form::Splice {
            ensure!(sys::read(&self.pipe.0, &mut buffer) == ret, "draining the pipe");
        }
        ensure!(ret == size as isize, "call {call} returned {ret}, not {size}");
        let (reads, writes) = sides(form);
        if reads {
            tally.read.add(form.syscall(), size, ret);
        }
        if writes {
            tally.write.add(form.syscall(), size, ret);
        }
        Ok(())
    }

    /// Sizes of the files that `forms` touch.
    fn touched(&self, forms: &[Form]) -> Result<Vec<u64>> {
        let mut sizes = Vec::new();
        if forms.iter().any(|&form| sides(form).0) {
            sizes.push(self.input.metadata()?.size());
        }
        if forms.iter().any(|&form| sides(form).1) {
            sizes.push(self.output.metadata()?.size());
        }
        Ok(sizes)
    }
}

/// Whether a form reads the input file, and whether it writes the output file.
fn sides(form: Form) -> (bool, bool) {
    match form {
        Form::Read
        | Form::Pread64
        | Form::Readv
        | Form::Preadv
        | Form::Preadv2
        | Form::Sendfile
        | Form::Splice => (true, false),
        Form::Write | Form::Pwrite64 | Form::Writev | Form::Pwritev | Form::Pwritev2 | Form::SpliceOut => {
            (false, true)
        }
        Form::SendfileFile | Form::CopyFileRange => (true, true),
    }
}

fn rewind(file: &File) -> Result<()> {
    use std::io::Seek;
    let mut file = file;
    file.rewind()?;
    Ok(())
}

/// The kernel's own account of this process (/proc/self/io).
#[derive(Default)]
struct ProcIo {
    rchar: u64,
    wchar: u64,
    syscr: u64,
    syscw: u64,
    /// Bytes of this look itself, one read.
    own: u64,
}

fn proc_io() -> Result<ProcIo> {
    let file = File::open("/proc/self/io")?;
    let mut buffer = [0; 1024];
    let length = sys::read(&file, &mut buffer);
    ensure!(length >= 0, "/proc/self/io: error {}", -length);
    let text = std::str::from_utf8(&buffer[..length as usize])?;
    let mut io = ProcIo { own: length as u64, ..ProcIo::default() };
    for (key, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        let value = value.parse()?;
        match key {
            "rchar" => io.rchar = value,
            "wchar" => io.wchar = value,
            "syscr" => io.syscr = value,
            "syscw" => io.syscw = value,
            _ => {}
        }
    }
    Ok(io)
}
