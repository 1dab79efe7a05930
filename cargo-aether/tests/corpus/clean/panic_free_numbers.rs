//! Numbers of many forms, with a default for what cannot be read
//! how: clean

use std::num::{IntErrorKind, NonZeroU32, Wrapping};

use aether::prelude::*;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reading {
    Number(i64),
    TooLarge,
    Nothing,
}

fn read(text: &str) -> Reading {
    let text = text.trim().replace('_', "");
    let (negative, digits) = text.strip_prefix('-').map_or((false, text.as_str()), |rest| (true, rest));
    let (radix, digits) = match digits.get(..2) {
        Some("0x") => (16, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        _ => (10, digits),
    };
    match i64::from_str_radix(digits, radix) {
        Ok(number) => Reading::Number(if negative { -number } else { number }),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Reading::TooLarge,
        Err(_) => Reading::Nothing,
    }
}

fn folded(readings: &[Reading]) -> u32 {
    let sum = readings.iter().fold(Wrapping(0_u32), |sum, reading| match reading {
        Reading::Number(number) => sum + Wrapping(*number as u32),
        _ => sum * Wrapping(31),
    });
    NonZeroU32::new(sum.0).map_or(1, |sum| sum.get().leading_zeros())
}

#[workflow]
pub async fn panic_free_numbers(cx: &mut Cx, _input: u64) -> Result<String> {
    let random = cx.random().await;
    let texts = [
        format!("{random:#x}"),
        "-0b101".into(),
        "0o17".into(),
        " 1_000 ".into(),
        "9".repeat(30),
        "x".into(),
    ];
    let mut readings: Vec<Reading> = texts.iter().map(|text| read(text)).collect();
    readings.sort();
    Ok(format!("{readings:?} {}", folded(&readings)))
}
