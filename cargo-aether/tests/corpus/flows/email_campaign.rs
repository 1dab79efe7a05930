//! A campaign starts a labelled child for each recipient, in waves with a pause between them
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Recipient {
    email: String,
    name: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Campaign {
    id: String,
    subject: String,
    template: String,
    recipients: Vec<Recipient>,
    wave: usize,
}

fn render(template: &str, recipient: &Recipient) -> String {
    template.replace("{name}", &recipient.name).replace("{email}", &recipient.email)
}

fn valid(email: &str) -> bool {
    email.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.'))
}

#[step(effect = "tool", irreversible, scope = "store", key = |campaign, to| format!("{campaign}/{to}"))]
pub async fn email_campaign_send(_cx: &mut StepCx, campaign: &str, to: &str, text: &str) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn email_campaign_one(cx: &mut Cx, campaign: String, to: String, text: String) -> Result<bool> {
    match email_campaign_send(cx, &campaign, &to, &text).await {
        Ok(()) => Ok(true),
        Err(StepError::Taken(_)) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

#[workflow]
pub async fn email_campaign(cx: &mut Cx, campaign: Campaign) -> Result<(usize, usize)> {
    let recipients = campaign.recipients.iter().filter(|recipient| valid(&recipient.email));
    let unique: Vec<&Recipient> = recipients.unique_by(|recipient| recipient.email.to_lowercase()).collect();
    let (mut sent, mut repeated) = (0, 0);
    for wave in unique.chunks(campaign.wave.max(1)) {
        let mut started = Vec::new();
        for recipient in wave {
            let text = format!("{}\n\n{}", campaign.subject, render(&campaign.template, recipient));
            let input = (campaign.id.clone(), recipient.email.clone(), text);
            started.push(cx.start_child::<email_campaign_one>(input).await?);
        }
        for child in started {
            match child.result(cx).await {
                Ok(true) => sent += 1,
                Ok(false) => repeated += 1,
                Err(error) => tracing::warn!(%error, "not sent"),
            }
        }
        cx.sleep(Duration::from_secs(600)).await;
    }
    Ok((sent, repeated))
}
