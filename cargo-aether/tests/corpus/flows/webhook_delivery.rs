//! A webhook is signed, delivered with growing pauses, and given up after a day
//! how: clean

use std::time::Duration;

use aether::jiff::Timestamp;
use aether::prelude::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Webhook {
    url: String,
    event: String,
    data: Value,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum Delivery {
    Delivered { attempts: u32, at: Timestamp },
    Refused { status: u16 },
    GivenUp { attempts: u32 },
}

fn body(webhook: &Webhook, id: &str, at: Timestamp) -> String {
    serde_json::json!({ "id": id, "type": webhook.event, "created": at, "data": webhook.data }).to_string()
}

fn digest(body: &str) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)))
}

fn pause(attempt: u32) -> Duration {
    Duration::from_secs(30).saturating_mul(2u32.saturating_pow(attempt)).min(Duration::from_secs(4 * 3600))
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn webhook_delivery_post(cx: &mut StepCx, url: &str, body: &str, digest: &str) -> Result<u16> {
    let request = cx.http().post(url).header("content-digest", digest).json(body);
    Ok(request.send().await?.status)
}

#[workflow]
pub async fn webhook_delivery(cx: &mut Cx, webhook: Webhook) -> Result<Delivery> {
    let created = cx.now().await;
    let id = cx.uuid().await.to_string();
    let body = body(&webhook, &id, created);
    let digest = digest(&body);
    for attempt in 0.. {
        match webhook_delivery_post(cx, &webhook.url, &body, &digest).await {
            Ok(200..=299) => return Ok(Delivery::Delivered { attempts: attempt + 1, at: cx.now().await }),
            Ok(410) => return Ok(Delivery::Refused { status: 410 }),
            Ok(status) => tracing::info!(status, attempt, "not delivered"),
            Err(error) => tracing::info!(%error, attempt, "not delivered"),
        }
        if cx.now().await.duration_since(created).as_hours() >= 24 {
            return Ok(Delivery::GivenUp { attempts: attempt + 1 });
        }
        cx.sleep(pause(attempt)).await;
    }
    Err(Failure::permanent("attempts are over"))
}
