//! A new customer confirms an address, is greeted, and gets hints for a week
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SignUp {
    name: String,
    email: String,
    locale: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hint {
    Profile,
    Invite,
    Export,
}

impl Hint {
    const ALL: [Self; 3] = [Self::Profile, Self::Invite, Self::Export];

    fn text(self, locale: &str) -> &'static str {
        match (self, locale) {
            (Self::Profile, "de") => "Ergaenzen Sie Ihr Profil.",
            (Self::Profile, _) => "Complete your profile.",
            (Self::Invite, "de") => "Laden Sie Kollegen ein.",
            (Self::Invite, _) => "Invite your colleagues.",
            (Self::Export, "de") => "Exportieren Sie Ihre Daten.",
            (Self::Export, _) => "Export your data.",
        }
    }
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn customer_onboarding_mail(_cx: &mut StepCx, to: &str, text: &str) -> Result<()> {
    Ok(())
}

fn language(sign_up: &SignUp) -> &str {
    sign_up.locale.as_deref().and_then(|locale| locale.split(['-', '_']).next()).unwrap_or("en")
}

#[workflow]
pub async fn customer_onboarding(cx: &mut Cx, sign_up: SignUp) -> Result<bool> {
    let code = cx.random().await % 1_000_000;
    customer_onboarding_mail(cx, &sign_up.email, &format!("{}, your code is {code:06}", sign_up.name))
        .await?;
    for attempt in 0..3 {
        match cx.signal::<u64>("code").timeout(24 * HOUR).await {
            Ok(given) if given == code => break,
            Ok(_) if attempt < 2 => continue,
            Ok(_) => return Ok(false),
            Err(StepError::TimedOut(_)) => return Ok(false),
            Err(other) => return Err(other.into()),
        }
    }
    for hint in Hint::ALL {
        cx.sleep(48 * HOUR).await;
        customer_onboarding_mail(cx, &sign_up.email, hint.text(language(&sign_up))).await?;
    }
    Ok(true)
}
