//! Every form of generated code under clippy's strictest groups: `cargo clippy` finds nothing in it.

use aether::prelude::*;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// An order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number.
    pub id: u64,
    /// What it is.
    pub name: String,
}

/// Looks at every kind of argument.
///
/// # Errors
/// When the path has no name.
#[step(
    effect = "read",
    retry(max_retries = 2, delay = "1s", factor = 1.5, max_delay = "10s"),
    timeout = "1m"
)]
pub async fn look(
    cx: &mut StepCx,
    order: &Order,
    names: &[String],
    path: &Path,
    note: Option<&str>,
    flag: bool,
) -> Result<Vec<String>> {
    let _ = (cx.attempt(), order.id, note, flag);
    let name = path.file_name().ok_or_else(|| Failure::permanent("no name"))?;
    Ok(names.iter().map(|known| format!("{known} {}", name.display())).collect())
}

/// Doubles.
///
/// # Errors
/// Never.
#[step(effect = "pure")]
pub async fn double(n: u64) -> Result<u64> {
    Ok(n.wrapping_mul(2))
}

/// Sends.
///
/// # Errors
/// Never.
#[step(effect = "tool", irreversible, idempotent, key = |order| order.id, probe = was_sent, name = "send.order")]
pub async fn send(cx: &mut StepCx, order: Order) -> Result<u64> {
    let _ = cx.idempotency_key();
    Ok(order.id)
}

#[allow(clippy::unused_async)]
async fn was_sent(_: &mut StepCx, order: Order) -> Result<Probe<u64>> {
    Ok(if order.id > 0 { Probe::Happened(order.id) } else { Probe::Unknown })
}

/// Keeps any value.
///
/// # Errors
/// Never.
#[step(effect = "read")]
pub async fn keep<T: Clone>(
    cx: &mut StepCx,
    value: T,
    text: impl ToString + aether::definition::Recordable,
) -> Result<T> {
    let _ = (cx.now(), text.to_string());
    Ok(value)
}

/// Every shape of control.
///
/// # Errors
/// When a step fails.
#[workflow(version = 3, name = "everything", allow(clock, reason = "shown in the definition"))]
pub async fn everything(cx: &mut Cx, order: Order, limit: u64) -> Result<u64> {
    let Some(first) = order.name.chars().next() else {
        return Ok(0);
    };
    let mut sum = double(cx, u64::from(u32::from(first))).await?;
    while sum < limit {
        sum += cx.random().await % 7;
        if sum.is_multiple_of(5) {
            break;
        }
    }
    let looked = look(cx, &order, &[], Path::new("a"), None, true).await?;
    let (sent, kept) = cx
        .join((
            async |cx: &mut Cx| send(cx, order.clone()).await,
            async |cx: &mut Cx| keep(cx, looked.len(), String::new()).await,
        ))
        .await;
    let counted = Agent::count(cx, u32::try_from(kept?)?).await?;
    Ok(sum + sent? + u64::from(counted))
}

/// An agent.
#[derive(Debug)]
pub struct Agent;

#[workflow]
impl Agent {
    /// Counts down.
    ///
    /// # Errors
    /// Never.
    pub async fn count(cx: &mut Cx, left: u32) -> Result<u32> {
        if left == 0 { Ok(0) } else { Self::count(cx, left - 1).await }
    }

    /// Reads.
    ///
    /// # Errors
    /// Never.
    #[step(effect = "read")]
    pub async fn read(cx: &mut StepCx, id: u64) -> Result<u64> {
        Ok(id + u64::from(cx.attempt()))
    }
}

/// A module with imports.
#[workflow_mod]
pub mod inner {
    use aether::prelude::*;
    use std::time::Duration;

    /// Waits.
    ///
    /// # Errors
    /// Never.
    #[workflow]
    pub async fn wait(cx: &mut Cx, seconds: u64) -> Result<()> {
        cx.sleep(Duration::from_secs(seconds)).await;
        Ok(())
    }
}
