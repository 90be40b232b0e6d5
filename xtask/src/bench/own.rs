//! iotrace itself, as a user runs it, while its target does 100 000 cached reads a second: CPU time, memory, delays.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{
    Found, Plan, peers,
    pread::Reader,
    proc,
    rig::Rig,
    sample::Sample,
    table::{Limit, Row, Unit},
};

/// Reads a second.
const RATE: u64 = 100_000;

/// Limits: of one CPU; resident; from start until it traces; from Ctrl-C to the end of the report.
const CPU_PERCENT: f64 = 1.0;
const RESIDENT_MIB: f64 = 40.0;
const ATTACH_MS: f64 = 1000.0;
const REPORT_MS: f64 = 100.0;

/// Rounds of: attach, trace, report.
pub fn measure(rig: &Rig, plan: &Plan) -> Result<Found> {
    let time = Duration::from_secs(if plan.quick { 2 } else { 5 });
    let mut reader = Reader::start(rig, Some(RATE))?;
    let [mut cpu, mut resident, mut attach, mut report, mut gone] = [const { Sample::new() }; 5];
    let rounds = plan.rounds(5, 3);
    for round in 1..=rounds {
        eprintln!("own: round {round} of {rounds}");
        let tracer = peers::iotrace(rig, reader.pid(), &[])?;
        attach.push(millis(tracer.attach));
        reader.begin(time)?;
        let (before, start) = (proc::cpu_ns(tracer.pid())?, Instant::now());
        let spell = reader.finish()?;
        let used = proc::cpu_ns(tracer.pid())? - before;
        let elapsed = start.elapsed();
        let rate = spell.reads as f64 / elapsed.as_secs_f64();
        ensure!(
            rate > 0.8 * RATE as f64,
            "this machine is too busy: the reader did {rate:.0} reads a second"
        );
        cpu.push(100.0 * used as f64 / elapsed.as_nanos() as f64);

        let mut peak = 0;
        let ended = tracer.stop_watched(|pid| peak = peak.max(proc::peak_resident_kib(pid).unwrap_or(0)))?;
        ended.json()?;
        ensure!(peak > 0, "iotrace ended before its memory could be read");
        resident.push(peak as f64 / 1024.0);
        report.push(millis(ended.report));
        gone.push(millis(ended.end));
    }
    let row = |key, what, iotrace, unit, limit: Option<f64>| {
        let limit = limit.map(Limit::Cost);
        Row { key, what, untraced: None, iotrace, peer: None, unit, limit }
    };
    let rows = vec![
        row("own.cpu", "iotrace's CPU time at 100 k reads/s", cpu, Unit::Percent, Some(CPU_PERCENT)),
        row("own.resident", "iotrace's largest resident set", resident, Unit::MiB, Some(RESIDENT_MIB)),
        row("own.attach", "start until it traces", attach, Unit::Ms, Some(ATTACH_MS)),
        row("own.report", "Ctrl-C until the report is written", report, Unit::Ms, Some(REPORT_MS)),
        row("own.gone", "Ctrl-C until the process is gone", gone, Unit::Ms, None),
    ];
    Ok(Found { rows, ..Found::default() })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
