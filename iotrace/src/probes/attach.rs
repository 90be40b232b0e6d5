//! Trying a plan: load and attach, fall back, remember why.

use super::{
    kernel::Kernel,
    plan::{Metric, Place, Spec, Variant},
    tracefs,
};
use crate::{cli::AttachKind, kernel::layout, model::Probe};
use aya::{
    Btf, Ebpf,
    programs::{Program, ProgramError},
};

/// Why one program is not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The kernel object lacks it: a defect of the build.
    #[error("program {0} is not in the kernel object")]
    NoProgram(&'static str),
    /// Nothing to attach to.
    #[error("this kernel has no {0}")]
    NoPlace(String),
    /// By the user.
    #[error("switched off by --without")]
    SwitchedOff,
    /// The kernel refused.
    #[error("{place}: {error}")]
    Refused {
        /// Where.
        place: String,
        /// The kernel's answer.
        error: String,
    },
}

/// Attaches the first variant of `metric` that can be; says which, and why not the ones before.
pub fn attach_metric(ebpf: &mut Ebpf, metric: &Metric, kernel: &Kernel, btf: &Btf) -> Probe {
    let mut missing: Vec<_> =
        metric.needs.iter().flat_map(|&need| layout::missing(&kernel.offsets, need)).collect();
    missing.dedup();
    if !missing.is_empty() {
        let reason = format!("this kernel's BTF lacks {}", missing.join(", "));
        return Probe { metric: metric.name.into(), variant: None, reason };
    }
    let mut reasons = Vec::new();
    let useful = |variant: &&Variant| kernel.preempts_programs || !variant.against_preemption;
    for variant in metric.variants.iter().filter(useful) {
        match attach_all(ebpf, &variant.programs, kernel, btf) {
            Ok(()) => {
                for spec in &variant.programs {
                    let info = ebpf.program(spec.program).and_then(|program| program.info().ok());
                    let checked = info.and_then(|info| info.verified_instruction_count());
                    tracing::debug!("{}: {} instructions checked", spec.program, checked.unwrap_or(0));
                }
                tracing::debug!("{}: {} attached", metric.name, variant.name);
                let reason = reasons.join("; ");
                return Probe { metric: metric.name.into(), variant: Some(variant.name.clone()), reason };
            }
            Err(error) => {
                tracing::debug!("{}: no {}: {error}", metric.name, variant.name);
                reasons.push(format!("no {}: {error}", variant.name));
            }
        }
    }
    Probe { metric: metric.name.into(), variant: None, reason: reasons.join("; ") }
}

fn attach_all(ebpf: &mut Ebpf, specs: &[Spec], kernel: &Kernel, btf: &Btf) -> Result<(), AttachError> {
    for (index, spec) in specs.iter().enumerate() {
        if let Err(error) = attach_one(ebpf, spec, kernel, btf) {
            specs[..=index].iter().for_each(|done| detach(ebpf, done.program));
            return Err(error);
        }
    }
    Ok(())
}

/// Detaches and unloads a program; harmless when it is neither.
pub fn detach(ebpf: &mut Ebpf, program: &str) {
    // The only errors are "not loaded".
    let _ = match ebpf.program_mut(program) {
        Some(Program::BtfTracePoint(p)) => p.unload(),
        Some(Program::FEntry(p)) => p.unload(),
        Some(Program::FExit(p)) => p.unload(),
        Some(Program::KProbe(p)) => p.unload(),
        Some(Program::TracePoint(p)) => p.unload(),
        Some(Program::Iter(p)) => p.unload(),
        _ => Ok(()),
    };
}

fn attach_one(ebpf: &mut Ebpf, spec: &Spec, kernel: &Kernel, btf: &Btf) -> Result<(), AttachError> {
    let program = ebpf.program_mut(spec.program).ok_or(AttachError::NoProgram(spec.program))?;
    let kind = match &spec.place {
        Place::TpBtf(_) => None,
        Place::Fentry(_) | Place::Fexit(_) => Some(AttachKind::Fentry),
        Place::Kprobe(_) => Some(AttachKind::Kprobe),
        Place::Event(..) => Some(AttachKind::Tracepoint),
    };
    if kind.is_some_and(|kind| kernel.without.contains(&kind)) {
        return Err(AttachError::SwitchedOff);
    }
    let place = match &spec.place {
        Place::TpBtf(tracepoint) => {
            if !kernel.tracepoints.contains_key(tracepoint) {
                return Err(AttachError::NoPlace(format!("tracepoint {tracepoint}")));
            }
            (*tracepoint).to_owned()
        }
        Place::Event(category, name) => {
            return attach_event(program, category, name).map_err(|error| AttachError::Refused {
                place: format!("{category}:{name}"),
                error: describe(&error),
            });
        }
        Place::Fentry(functions) | Place::Fexit(functions) | Place::Kprobe(functions) => {
            let found = functions.iter().find(|f| kernel.functions.contains(f.as_str()));
            found
                .cloned()
                .ok_or_else(|| AttachError::NoPlace(format!("function {}", functions.join(" or "))))?
        }
    };
    load_and_attach(program, &place, btf)
        .map_err(|error| AttachError::Refused { place: place.clone(), error: describe(&error) })
}

fn attach_event(program: &mut Program, category: &str, name: &str) -> Result<(), ProgramError> {
    let Program::TracePoint(program) = program else { return Err(ProgramError::UnexpectedProgramType) };
    program.load()?;
    tracefs::with(|| program.attach(category, name)).map(drop)
}

fn load_and_attach(program: &mut Program, place: &str, btf: &Btf) -> Result<(), ProgramError> {
    match program {
        Program::BtfTracePoint(p) => {
            p.load(place, btf)?;
            p.attach()?;
        }
        Program::FEntry(p) => {
            p.load(place, btf)?;
            p.attach()?;
        }
        Program::FExit(p) => {
            p.load(place, btf)?;
            p.attach()?;
        }
        Program::KProbe(p) => {
            p.load()?;
            p.attach(place, 0)?;
        }
        _ => return Err(ProgramError::UnexpectedProgramType),
    }
    Ok(())
}

/// One line: the call that failed and the kernel's error; the verifier's last words when it has any.
pub fn describe(error: &ProgramError) -> String {
    match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            let log = verifier_log.to_string();
            if !log.trim().is_empty() {
                tracing::trace!("verifier: {log}");
            }
            let words = log.lines().rev().map(str::trim).find(|line| {
                !line.is_empty()
                    && !line.starts_with("processed ")
                    && !line.starts_with("verification time")
                    && !line.starts_with("stack depth")
            });
            match words {
                Some(words) => format!("load: {io_error} ({words})"),
                None => format!("load: {io_error}"),
            }
        }
        ProgramError::SyscallError(error) => format!("{}: {}", error.call, error.io_error),
        other => other.to_string(),
    }
}
