//! Names whose rows are in a few buckets.
//!
//! Promise: the bucket of a name is computed here as in the store, by a function that is frozen for ever.

use crate::BUCKETS;

/// The bucket of a run id or key.
pub(crate) fn bucket(name: &str) -> u16 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, fnv);
    ((hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 52) as u16
}

/// The first name with this beginning whose bucket is moved.
pub(crate) fn moving(start: &str) -> String {
    let mut names = (0..).map(|more| format!("{start}.{more}"));
    names.find(|name| bucket(name) < BUCKETS).unwrap()
}
