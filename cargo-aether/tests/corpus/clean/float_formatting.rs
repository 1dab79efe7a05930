//! Numbers with a fraction that are parsed, ordered and written
//! how: clean

use aether::prelude::*;

fn parsed(text: &str) -> Vec<f64> {
    let mut numbers: Vec<f64> = text.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

fn statistics(numbers: &[f64]) -> Option<(f64, f64, f64)> {
    let count = numbers.len().checked_sub(1)? as f64 + 1.0;
    let mean = numbers.iter().sum::<f64>() / count;
    let spread = (numbers.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / count).sqrt();
    let median = (numbers[(numbers.len() - 1) / 2] + numbers[numbers.len() / 2]) / 2.0;
    Some((mean, spread, median))
}

#[workflow]
pub async fn float_formatting(cx: &mut Cx, _input: u64) -> Result<String> {
    let third = cx.random().await as f64 / 3.0;
    let numbers = parsed(&format!("1e3, -0, {third}, .5, nothing, 7.25"));
    let (mean, spread, median) = statistics(&numbers).ok_or("no numbers")?;
    Ok(format!("{numbers:?} {mean:.3} {spread:e} {median} {:x}", mean.to_bits()))
}
