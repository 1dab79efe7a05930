//! Who applies, and for what.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use crate::{AccountNumber, ApplicationId, Money};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Car,
    Home,
    Education,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Employment {
    Employed { since: Date, employer: String },
    SelfEmployed { since: Date },
    Retired,
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applicant {
    pub name: String,
    pub email: String,
    pub born: Date,
    pub employment: Employment,
    pub income: Money,
    /// What is to be paid each month, by what it is for.
    #[serde(default)]
    pub obligations: BTreeMap<String, Money>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    pub id: ApplicationId,
    pub applicant: Applicant,
    pub account: AccountNumber,
    pub amount: Money,
    pub months: u32,
    pub purpose: Purpose,
}
