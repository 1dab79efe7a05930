//! A version is rolled out region by region, watched, and rolled back where errors rise
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use semver::Version;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rollout {
    service: String,
    from: String,
    to: String,
    regions: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Rolled {
    Out { regions: usize },
    Back { region: String, errors_per_mille: u32 },
}

fn is_risky(rollout: &Rollout) -> Result<bool> {
    let from = Version::parse(&rollout.from).in_context("the present version")?;
    let to = Version::parse(&rollout.to).in_context("the new version")?;
    if to <= from {
        return Err(Failure::permanent(format!("{to} is not newer than {from}")));
    }
    Ok(to.major != from.major || !to.pre.is_empty())
}

#[step(effect = "tool", compensate = deployment_rollout_undo, timeout = "10m")]
pub async fn deployment_rollout_apply(
    _cx: &mut StepCx,
    service: &str,
    region: &str,
    version: &str,
) -> Result<String> {
    Ok(format!("{service} {version} in {region}"))
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn deployment_rollout_undo(
    _cx: &mut StepCx,
    service: &str,
    region: &str,
    version: &str,
    applied: Option<String>,
) -> Result<()> {
    Ok(())
}

#[step(effect = "read")]
pub async fn deployment_rollout_errors(_cx: &mut StepCx, service: &str, region: &str) -> Result<u32> {
    Ok(2)
}

#[workflow]
pub async fn deployment_rollout(cx: &mut Cx, rollout: Rollout) -> Result<Rolled> {
    if is_risky(&rollout)? {
        let by = cx.approval("risky rollout").details(&rollout).await?.granted()?;
        tracing::info!(by, to = rollout.to, "agreed");
    }
    for region in &rollout.regions {
        deployment_rollout_apply(cx, &rollout.service, region, &rollout.to).await?;
        let rounds = match cx.version("watch-longer", 1..=2).await {
            1 => 3,
            _ => 6,
        };
        for _ in 0..rounds {
            cx.sleep(Duration::from_secs(300)).await;
            let errors = deployment_rollout_errors(cx, &rollout.service, region).await?;
            if errors > 10 {
                cx.compensate().await;
                return Ok(Rolled::Back { region: region.clone(), errors_per_mille: errors });
            }
        }
    }
    Ok(Rolled::Out { regions: rollout.regions.len() })
}
