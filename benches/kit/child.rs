//! A second process of the same bench, whose memory nothing has used before.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::Result;

/// Starts this program with `args`. The JSON that it prints.
pub(crate) fn figures(args: &[&str]) -> Result<Value> {
    let output = Command::new(std::env::current_exe()?).args(args).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", args.join(" "), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// A number among the figures of a second process.
pub(crate) fn number(figures: &Value, name: &str) -> Result<f64> {
    figures[name].as_f64().ok_or_else(|| format!("no {name} in {figures}").into())
}

/// So many of this a second.
pub(crate) fn rate(figures: &Value, name: &str) -> Result<f64> {
    Ok(number(figures, name)? / number(figures, "seconds")?)
}
