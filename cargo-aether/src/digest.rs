//! Short names of what is long.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Sixteen hexadecimal digits that stand for all parts, in their order.
pub(crate) fn short<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.finalize()[..8].iter().fold(String::new(), |mut text, byte| {
        let _writing_to_a_string = write!(text, "{byte:02x}");
        text
    })
}
