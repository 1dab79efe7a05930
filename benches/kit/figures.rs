//! Figures: how they are made of many, and how they are told.

use std::time::Duration;

use serde_json::Value;

/// The middle one, or what is between the two in the middle. NaN of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let (Some(low), Some(high)) =
        (values.get(values.len().wrapping_sub(1) / 2), values.get(values.len() / 2))
    else {
        return f64::NAN;
    };
    f64::midpoint(*low, *high)
}

/// Milliseconds that so many percent of these times do not exceed. They are sorted; 0 of none.
pub(crate) fn percentile_ms(sorted: &[Duration], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * percent / 100).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// Tells one outcome: as a line of JSON with the name of the bench and the cores of the machine, or as `text`.
pub(crate) fn tell(json: bool, bench: &str, mut figures: Value, text: &str) {
    if !json {
        println!("{text}");
        return;
    }
    if let Value::Object(figures) = &mut figures {
        figures.insert("bench".into(), bench.into());
        let cores = std::thread::available_parallelism().map_or(Value::Null, |cores| cores.get().into());
        figures.insert("cores".into(), cores);
    }
    println!("{figures}");
}
