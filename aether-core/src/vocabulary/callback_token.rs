//! The token of a callback: the attempt that it names, and a proof that was made with the run's seed.
//!
//! Promise: a token names one attempt at one command and is the same whenever that attempt's body runs.

use sha2::{Digest as _, Sha256};

use crate::vocabulary::id::{CommandId, InvocationId, RunId};
use crate::vocabulary::payload::hex;

/// Prefix of every token.
const PREFIX: &str = "cb1";

/// The attempt that a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallbackToken {
    pub(crate) run: RunId,
    pub(crate) command: CommandId,
    pub(crate) attempt: u32,
}

impl CallbackToken {
    /// The token as text. `seed` is that of the run.
    pub(crate) fn signed(&self, seed: &str) -> String {
        let names = format!(
            "{PREFIX}.{}.{}.{}",
            hex(self.run.as_str().as_bytes()),
            hex(self.command.as_str().as_bytes()),
            self.attempt
        );
        let mut hash = Sha256::new();
        hash.update(b"aether callback\n");
        hash.update(seed.as_bytes());
        hash.update(names.as_bytes());
        let proof = hex(&hash.finalize());
        format!("{names}.{}", proof.get(..32).unwrap_or(&proof))
    }

    /// Reads the names in a token. Compare the token with [`CallbackToken::signed`] to find out whether it is genuine.
    pub(crate) fn parse(token: &str) -> Option<Self> {
        // No further than one part too many: texts are searched for tokens.
        let parts: Vec<_> = token.split('.').take(6).collect();
        let [PREFIX, run, command, attempt, _proof] = parts.as_slice() else { return None };
        Some(Self {
            run: RunId::new(text_of(run)?).ok()?,
            command: CommandId::from(text_of(command)?),
            attempt: attempt.parse().ok()?,
        })
    }

    pub(crate) fn invocation(&self) -> InvocationId {
        InvocationId::new(&self.command, self.attempt)
    }
}

/// Reads hexadecimal digits.
fn text_of(digits: &str) -> Option<String> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(pairs.map(byte).collect::<Option<_>>()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_attempt_and_nothing_else_reads_as_one() {
        let token = CallbackToken {
            run: RunId::new("ticket 42/ü").unwrap(),
            command: CommandId::new("3.b0.1", "render"),
            attempt: 2,
        };
        let text = token.signed("5eed");
        assert_eq!(CallbackToken::parse(&text), Some(token.clone()));
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.'), "{text}");
        assert_ne!(text, token.signed("another"));
        for wrong in
            ["", "cb1", "cb1.zz.zz.0.aa", "cb1.61.62.x.aa", "cb2.61.62.0.aa", "cb1.6.62.0.é", &text[1..]]
        {
            assert_eq!(CallbackToken::parse(wrong), None, "{wrong:?}");
        }
    }
}
