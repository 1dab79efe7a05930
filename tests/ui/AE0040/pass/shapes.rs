#![deny(warnings)]

use serde::{Deserialize, Serialize};

/// A former type.
#[derive(Deserialize)]
pub struct Old {
    euros: u64,
}

/// A struct whose members have options of their own.
#[aether::accepts(Old, u64)]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Receipt {
    /// How much.
    pub total_cents: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl From<Old> for Receipt {
    fn from(old: Old) -> Self {
        Self { total_cents: old.euros * 100, note: None }
    }
}

impl From<u64> for Receipt {
    fn from(total_cents: u64) -> Self {
        Self { total_cents, note: None }
    }
}

#[aether::accepts(String)]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum State {
    Open,
    Closed { by: String },
}

impl From<String> for State {
    fn from(by: String) -> Self {
        Self::Closed { by }
    }
}

#[aether::accepts(String)]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Pair(u8, #[serde(default)] u8);

impl From<String> for Pair {
    fn from(text: String) -> Self {
        Self(text.len() as u8, 0)
    }
}

fn main() {
    let receipt = |text: &str| serde_json::from_str::<Receipt>(text).unwrap().total_cents;
    assert_eq!(receipt(r#"{"totalCents":7}"#), 7);
    assert_eq!(receipt(r#"{"euros":7}"#), 700);
    assert_eq!(receipt("7"), 7);
    let state = |text: &str| serde_json::from_str::<State>(text).unwrap();
    assert_eq!(state(r#"{"kind":"open"}"#), State::Open);
    assert_eq!(state(r#""ann""#), State::Closed { by: "ann".into() });
    assert_eq!(serde_json::from_str::<Pair>("[1,2]").unwrap(), Pair(1, 2));
    assert_eq!(serde_json::from_str::<Pair>(r#""abc""#).unwrap(), Pair(3, 0));
}
