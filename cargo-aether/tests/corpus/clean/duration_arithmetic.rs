//! Durations that are computed and written for people
//! how: clean

use std::time::Duration;

use aether::prelude::*;

fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let text =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n} {unit}")).collect::<Vec<_>>();
    if text.is_empty() { format!("{} ms", duration.subsec_millis()) } else { text.join(" ") }
}

fn plan(spent: Duration) -> String {
    let budget = Duration::from_secs(3 * 3600);
    let left = budget.saturating_sub(spent);
    let share = left.checked_div(7).unwrap_or_default();
    let longer = share.mul_f64(1.25);
    format!("{} left, {} each, {:?}, {}", human(left), human(share), longer, budget.abs_diff(spent) > left)
}

#[workflow]
pub async fn duration_arithmetic(cx: &mut Cx, _input: u64) -> Result<String> {
    let spent = Duration::from_millis(cx.random().await % 20_000_000);
    Ok(plan(spent))
}
