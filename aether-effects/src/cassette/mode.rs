//! Whether a cassette records or plays back.

use super::error::CassetteError;

/// What a cassette does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every call goes to the real endpoint and is recorded; what was on the cassette is replaced by the first of them.
    Record,
    /// No call goes anywhere: each is answered from the cassette or refused.
    Replay,
    /// A call that is on the cassette is answered from it; any other goes to the real endpoint and is recorded.
    Auto,
}

impl Mode {
    /// What the environment variable `AETHER_CASSETTE` says: `record`, `replay` or `auto`; `Replay` where it is not set.
    ///
    /// # Errors
    /// [`CassetteError::Mode`] when it says anything else.
    pub fn from_env() -> Result<Self, CassetteError> {
        match std::env::var("AETHER_CASSETTE").unwrap_or_default().as_str() {
            "record" => Ok(Self::Record),
            "replay" | "" => Ok(Self::Replay),
            "auto" => Ok(Self::Auto),
            other => Err(CassetteError::Mode(other.to_owned())),
        }
    }
}
