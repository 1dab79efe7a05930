//! Ids that can be wrong are types of their own.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Why a text is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("`{0}` does not begin with `APP-`")]
    Prefix(String),
    #[error("`{0}` has no number")]
    Number(String),
    #[error("the check digits of `{0}` are wrong")]
    CheckDigits(String),
}

/// An application: `APP-4711`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApplicationId(pub u64);

impl fmt::Display for ApplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "APP-{}", self.0)
    }
}

impl FromStr for ApplicationId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let number = text.strip_prefix("APP-").ok_or_else(|| IdError::Prefix(text.to_owned()))?;
        number.parse().map(Self).map_err(|_| IdError::Number(text.to_owned()))
    }
}

/// An account number whose check digits were verified, as in an IBAN.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AccountNumber(String);

impl AccountNumber {
    pub fn country(&self) -> &str {
        &self.0[..2]
    }

    /// With all but the last four characters hidden.
    pub fn masked(&self) -> String {
        let visible = self.0.len().saturating_sub(4);
        self.0.char_indices().map(|(at, c)| if at < visible { '*' } else { c }).collect()
    }
}

impl FromStr for AccountNumber {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        if plain.len() < 8 || !plain.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(IdError::Number(text.to_owned()));
        }
        let (head, tail) = plain.split_at(4);
        let rest = tail.chars().chain(head.chars()).try_fold(0, |rest: u32, c| {
            let digit = c.to_digit(36)?;
            Some(if digit > 9 { (rest * 100 + digit) % 97 } else { (rest * 10 + digit) % 97 })
        });
        match rest {
            Some(1) => Ok(Self(plain.to_ascii_uppercase())),
            _ => Err(IdError::CheckDigits(text.to_owned())),
        }
    }
}

impl TryFrom<String> for AccountNumber {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        text.parse()
    }
}

impl From<AccountNumber> for String {
    fn from(account: AccountNumber) -> Self {
        account.0
    }
}
