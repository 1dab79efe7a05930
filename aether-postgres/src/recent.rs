//! The prepared statements of a connection, of which it keeps those that were used last.
//!
//! Promise: what was used for the transaction that begins now is not forgotten before it ends: to prepare a statement once
//! more in the middle of a transaction whose statements are all sent at once would bring it behind its end.

use std::collections::HashMap;

/// So many are kept: lists make theirs from what they filter, and writers from what their batches need. A transaction has
/// a few.
const MOST: usize = 500;

/// Values by texts.
#[derive(Debug)]
pub(crate) struct Recent<V> {
    /// Each with the number of its last use.
    values: HashMap<String, (V, u64)>,
    uses: u64,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self { values: HashMap::new(), uses: 0 }
    }
}

impl<V: Clone> Recent<V> {
    pub(crate) fn get(&mut self, text: &str) -> Option<V> {
        let (value, used) = self.values.get_mut(text)?;
        self.uses += 1;
        *used = self.uses;
        Some(value.clone())
    }

    /// Keeps a value. Where there are too many, it takes the place of the half that was not used for longest.
    pub(crate) fn keep(&mut self, text: &str, value: V) {
        if self.values.len() >= MOST {
            let mut uses: Vec<u64> = self.values.values().map(|(_, used)| *used).collect();
            let (_, &mut median, _) = uses.select_nth_unstable(MOST / 2);
            self.values.retain(|_, (_, used)| *used > median);
        }
        self.uses += 1;
        self.values.insert(text.to_owned(), (value, self.uses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let mut recent = Recent::default();
        recent.keep("create", 0);
        for number in 0..10 * MOST {
            // A transaction: one that was there before, and one that is new.
            assert_eq!(recent.get("create"), Some(0), "{number}");
            recent.keep(&format!("append {number}"), number);
            assert_eq!((recent.get("create"), recent.values.len() <= MOST), (Some(0), true), "{number}");
        }
        assert_eq!(recent.get("append 0"), None);
        assert_eq!(recent.get(&format!("append {}", 10 * MOST - 100)), Some(10 * MOST - 100));
    }
}
