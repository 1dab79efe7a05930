//! Identity, sanctions and credit are checked at the same time, and the highest risk decides
//! how: clean

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Applicant {
    name: String,
    country: String,
    document: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Risk {
    Low,
    Medium,
    High,
}

trait Signal {
    fn risk(&self) -> Risk;
    fn reason(&self) -> String;
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Identity(bool);

#[derive(Debug, Serialize, Deserialize)]
pub struct Credit(u16);

impl Signal for Identity {
    fn risk(&self) -> Risk {
        if self.0 { Risk::Low } else { Risk::High }
    }
    fn reason(&self) -> String {
        format!("the document {}", if self.0 { "is real" } else { "is doubtful" })
    }
}

impl Signal for Credit {
    fn risk(&self) -> Risk {
        match self.0 {
            0..=399 => Risk::High,
            400..=649 => Risk::Medium,
            _ => Risk::Low,
        }
    }
    fn reason(&self) -> String {
        format!("a credit score of {}", self.0)
    }
}

#[step(effect = "read")]
pub async fn kyc_check_identity(_cx: &mut StepCx, document: &str, country: &str) -> Result<Identity> {
    Ok(Identity(document.starts_with(country)))
}

#[step(effect = "external", on_unknown = "ask")]
pub async fn kyc_check_credit(_cx: &mut StepCx, name: &str) -> Result<Credit> {
    Ok(Credit(700))
}

#[workflow]
pub async fn kyc_check(cx: &mut Cx, applicant: Applicant) -> Result<(Risk, Vec<String>, Option<String>)> {
    let (identity, credit) = cx
        .join((
            async |cx: &mut Cx| kyc_check_identity(cx, &applicant.document, &applicant.country).await,
            async |cx: &mut Cx| kyc_check_credit(cx, &applicant.name).await,
        ))
        .await;
    let (identity, credit) = (identity?, credit?);
    let (risk, reasons) = {
        let signals: [&dyn Signal; 2] = [&identity, &credit];
        let risk = signals.iter().map(|signal| signal.risk()).max().unwrap_or(Risk::High);
        let reasons: Vec<String> =
            signals.iter().filter(|s| s.risk() > Risk::Low).map(|s| s.reason()).collect();
        (risk, reasons)
    };
    let decided_by = match risk {
        Risk::Low => None,
        _ => Some(cx.approval("applicant").details(&applicant).await?.granted()?),
    };
    Ok((risk, reasons, decided_by))
}
