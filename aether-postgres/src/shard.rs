//! The shard of a run: which of 4096 buckets its rows are in.
//!
//! Promise: the function is frozen for ever. Rows are found by it, so that another result for one id would lose the run.

/// How many shards there are.
pub(crate) const SHARDS: usize = 4096;

/// The shard of a run id, a business key, or whatever else is placed by its name: 0 to 4095.
///
/// FNV-1a with a mix at the end: without it, ids that differ only in their last digits share a shard.
pub(crate) fn shard(name: &str) -> i16 {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    ((hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd) >> 52) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_frozen() {
        let golden = [
            ("", 3787),
            ("a", 3800),
            ("run-1", 127),
            ("run-2", 3554),
            ("ticket-42", 3619),
            ("0198c5d2-7c3e-7a41-9d0e-2b8f6c1d4e5f", 1642),
            ("schedule:nightly:2026-11-22T03:00:00Z", 2238),
            ("store\tcharge:42", 274),
            ("Zürich/ß", 3288),
        ];
        for (name, expected) in golden {
            assert_eq!(shard(name), expected, "{name:?}");
        }
    }

    #[test]
    fn ids_that_differ_in_their_last_digits_are_spread() {
        let used: std::collections::HashSet<_> = (0..4096).map(|n| shard(&format!("run-{n:06}"))).collect();
        assert!(used.len() > 2400, "{} of 4096 shards are used", used.len());
        assert!(used.iter().all(|shard| (0..4096).contains(shard)));
    }
}
