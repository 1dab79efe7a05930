//! A variant that is chosen by weight from a number that is given
//! how: clean

use std::fmt;

use aether::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Control,
    Short,
    Long,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::Short => "short text",
            Self::Long => "long text",
        })
    }
}

const WEIGHTS: [(Variant, u64); 3] = [(Variant::Control, 50), (Variant::Short, 30), (Variant::Long, 20)];

fn choose(random: u64) -> Variant {
    let total: u64 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    let mut left = random % total;
    for (variant, weight) in WEIGHTS {
        match left.checked_sub(weight) {
            Some(rest) => left = rest,
            None => return variant,
        }
    }
    Variant::Control
}

#[workflow]
pub async fn weighted_choice_of_variants(cx: &mut Cx, _input: u64) -> Result<String> {
    let variant = choose(cx.random().await);
    Ok(format!("{variant:>12}"))
}
