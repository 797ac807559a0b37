//! The middle of many, and what is left of the rest.

use std::time::Duration;

use anyhow::{Context as _, Result};

/// So many in a second.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
#[must_use]
pub fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Milliseconds below which so many of a hundred lie.
///
/// # Errors
///
/// When there are no times.
pub fn percentile(times: &mut [Duration], hundredth: usize) -> Result<f64> {
    times.sort();
    let at = (times.len() * hundredth / 100).min(times.len().saturating_sub(1));
    Ok(times.get(at).context("nothing was measured")?.as_secs_f64() * 1e3)
}

/// The middle of all values.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Mebibytes of memory that this process has in use.
///
/// # Errors
///
/// When the system does not tell.
pub fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("this needs Linux's /proc")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS is no number")?;
    Ok(kibibytes / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let mut times: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        assert!((percentile(&mut times, 50).unwrap() - 51.0).abs() < 1e-9);
        assert!((percentile(&mut times, 99).unwrap() - 100.0).abs() < 1e-9);
        assert!(percentile(&mut [], 50).is_err());
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(resident().unwrap() > 1.0);
    }
}
