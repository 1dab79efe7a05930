//! Memory of this process, as Linux counts it. Other systems do not say: `None`.

const MB: f64 = 1024.0 * 1024.0;

/// Bytes that are in memory now.
pub(crate) fn resident() -> Option<u64> {
    status("VmRSS:")
}

/// The most bytes that were in memory so far.
pub(crate) fn peak() -> Option<u64> {
    status("VmHWM:")
}

/// The most memory so far, in MB.
pub(crate) fn peak_mb() -> Option<f64> {
    peak().map(mb)
}

/// Bytes as MB.
pub(crate) fn mb(bytes: u64) -> f64 {
    (bytes as f64 / MB * 10.0).round() / 10.0
}

/// How many MB of memory there are beyond `before`, at most so far.
pub(crate) fn peak_mb_beyond(before: Option<u64>) -> Option<f64> {
    Some(mb(peak()?.saturating_sub(before?)))
}

fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().split(' ').next()?.parse::<u64>().ok()? * 1024)
}
