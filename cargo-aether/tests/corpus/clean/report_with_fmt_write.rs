//! A table for people, with widths and precisions
//! how: clean

use std::fmt::{self, Write as _};

use aether::prelude::*;

struct Bar(f64);

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = f.width().unwrap_or(10);
        let full = (self.0.clamp(0.0, 1.0) * width as f64).round() as usize;
        for at in 0..width {
            f.write_char(if at < full { '#' } else { '.' })?;
        }
        if f.alternate() { write!(f, " {:.1$}%", self.0 * 100.0, f.precision().unwrap_or(0)) } else { Ok(()) }
    }
}

fn report(rows: &[(&str, f64)]) -> std::result::Result<String, fmt::Error> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let mut out = String::new();
    for (name, share) in rows {
        writeln!(out, "{name:<width$} {:#12.1} {share:+e}", Bar(*share))?;
    }
    write!(out, "{:=^1$}", " end ", width + 20)?;
    Ok(out)
}

#[workflow]
pub async fn report_with_fmt_write(cx: &mut Cx, _input: u64) -> Result<String> {
    let share = (cx.random().await % 1000) as f64 / 1000.0;
    Ok(report(&[("disk", share), ("memory", 1.0 - share), ("idle", f64::EPSILON)])?)
}
