//! The seed of a run: what stands for it where it must not be read, and which life of an id it tells.
//!
//! Promise: who knows what stands for a seed cannot make the callback tokens of the run, and finds the same life.

use sha2::{Digest as _, Sha256};

use crate::vocabulary::payload::hex;

/// Prefix of what stands for a seed.
const MASKED: &str = "masked-";

/// What stands for a seed in a recording; of a masked seed, itself.
pub(crate) fn masked(seed: &str) -> String {
    if seed.starts_with(MASKED) { seed.to_owned() } else { format!("{MASKED}{}", digest(seed)) }
}

/// Tells the run of this seed from all others that have had its id, or will. A masked seed tells the same.
pub(crate) fn life(seed: &str) -> Box<str> {
    let digest = seed.strip_prefix(MASKED).map_or_else(|| digest(seed), str::to_owned);
    digest.chars().take(32).collect::<String>().into()
}

fn digest(seed: &str) -> String {
    hex(&Sha256::digest(seed.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_seed_tells_the_same_life() {
        let seed = "000102030405060708090a0b0c0d0e0f";
        assert_eq!(life(&masked(seed)), life(seed));
        assert_eq!(masked(&masked(seed)), masked(seed));
        assert_ne!(life(seed), life("another"));
        assert!(!masked(seed).contains(seed) && life(seed).len() == 32);
    }
}
