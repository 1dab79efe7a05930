//! Counting: this program once more, under valgrind.

use std::process::Command;

use super::Result;
use super::parts::Part;

/// Instructions of one step.
pub(crate) fn per_step(part: Part) -> Result<u64> {
    let steps = part.steps();
    let (once, twice) = (instructions(part, steps)?, instructions(part, 2 * steps)?);
    Ok(twice.saturating_sub(once) / u64::from(steps))
}

/// Instructions of a process that performs so many steps, in all of its threads.
fn instructions(part: Part, steps: u32) -> Result<u64> {
    let output = Command::new("valgrind")
        // The caches that it could simulate are not asked for.
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["perform", part.name(), &steps.to_string()])
        .output()
        .map_err(|error| {
            format!("valgrind does not start (install it: scripts/instructions does): {error}")
        })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{} ended with {}:\n{said}", part.name(), output.status).into());
    }
    total(&said).ok_or_else(|| format!("valgrind told no count:\n{said}").into())
}

/// The count in a line such as `==7== I   refs:      1,234,567`.
fn total(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("refs:") && line.contains("== I"))?;
    let digits: String = line.rsplit(':').next()?.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}
