//! What Linux says of a process.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// CPU time of the process so far.
///
/// `/proc/PID/stat` counts in ticks of 10 ms, coarse for slices of a second; `schedstat` counts nanoseconds
/// but forgets threads that have ended, so the larger of the two is the truer one.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = stat(pid).context("its CPU time needs a live process and Linux's /proc")?;
    let ticks = ticks(&stat).context("/proc/PID/stat has another form")?;
    let mut threads = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        if let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) {
            threads += parse_schedstat(&text).unwrap_or_default();
        }
    }
    Ok(threads.max(ticks))
}

/// What it has in memory now, in MiB.
pub(crate) fn resident_mib(pid: u32) -> Result<f64> {
    memory(pid, "VmRSS")
}

/// The most it ever had in memory, in MiB.
pub(crate) fn peak_mib(pid: u32) -> Result<f64> {
    memory(pid, "VmHWM")
}

/// The line that [`field`] reads.
pub(crate) fn stat(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// One field of `/proc/PID/stat`, by the number that proc(5) gives it, from the third on: the second is the
/// name, and may hold spaces and brackets.
pub(crate) fn field(stat: &str, number: usize) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(number.checked_sub(3)?)
}

/// User and system time.
fn ticks(stat: &str) -> Option<Duration> {
    let ticks = |number| field(stat, number)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(14)? + ticks(15)?)))
}

/// The first number is the time on a processor.
fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn memory(pid: u32, name: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse_memory(&status, name).with_context(|| format!("/proc/PID/status has no {name}"))
}

fn parse_memory(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<f64>().ok()? / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_name_with_brackets() {
        let stat = "7 (a ) b) S 1 1 1 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 1 0 4711 1 1";
        assert_eq!((field(stat, 3), field(stat, 22), field(stat, 2)), (Some("S"), Some("4711"), None));
        assert_eq!(ticks(stat), Some(Duration::from_secs(3)));
        assert_eq!(parse_schedstat("1500 20 3\n"), Some(Duration::from_nanos(1500)));
    }

    #[test]
    fn memory_is_read_by_its_whole_name() {
        let status = "Name:\tx\nVmHWM:\t   40960 kB\nVmRSS:\t   20480 kB\nThreads:\t3\n";
        assert_eq!((parse_memory(status, "VmRSS"), parse_memory(status, "Vm")), (Some(20.0), None));
        let us = std::process::id();
        let (resident, peak) = (resident_mib(us).unwrap(), peak_mib(us).unwrap());
        assert!(resident > 1.0 && peak >= resident, "{resident} {peak}");
        assert!(cpu_time(us).is_ok());
    }
}
