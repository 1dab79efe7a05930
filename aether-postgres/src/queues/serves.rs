//! Which runs a worker takes, in statements and in its row.
//!
//! Promise: what a statement finds is what [`Serves::takes`] allows.

use aether_core::id::WorkerId;
use aether_core::queue::{LimitPattern, Serves};
use aether_core::store::{Serving, StoreError};

use crate::database::{Database, ask};
use crate::error::OpError;
use crate::row::get;
use crate::workers::GONE;

/// The patterns of queues that a worker takes runs of; `None` for all.
pub(crate) fn patterns(serves: &Serves) -> Option<Vec<&str>> {
    serves.queues.as_ref().map(|patterns| patterns.iter().map(LimitPattern::as_str).collect())
}

/// The names of these queues.
pub(crate) fn names(serves: &Serves) -> Option<Vec<&str>> {
    serves.queues.as_ref().map(|patterns| patterns.iter().map(LimitPattern::queue).collect())
}

/// Whether a worker takes a run with this queue and key: `others` is a parameter that says whether it takes runs without a
/// queue, `patterns` one with what [`patterns`] gives. Each segment of a pattern stands for one of the key, `*` for any.
pub(crate) fn served(queue: &str, key: &str, others: &str, patterns: &str) -> String {
    let segment = |text: &str| format!("split_part({text}, '/', sg.i)");
    let (wanted, found) = (segment("sp.p"), segment(&format!("{queue} || '/' || {key}")));
    format!(
        "CASE WHEN {queue} IS NULL THEN {others}::bool ELSE {patterns}::text[] IS NULL OR EXISTS (
            SELECT 1 FROM unnest({patterns}::text[]) AS sp(p) WHERE split_part(sp.p, '/', 1) = {queue} AND NOT EXISTS (
                SELECT 1 FROM generate_series(2, length(sp.p) - length(replace(sp.p, '/', '')) + 1) AS sg(i)
                WHERE ({wanted} <> '*' AND {wanted} <> {found}) OR {found} = '')) END"
    )
}

/// What a worker serves, from its row.
pub(crate) fn read(text: Option<String>) -> Result<Serves, OpError> {
    let Some(text) = text else { return Ok(Serves::ALL) };
    serde_json::from_str(&text).map_err(|error| OpError::Row(format!("what a worker serves: {error}")))
}

impl Database {
    /// See [`Store::serve`](aether_core::store::Store::serve).
    pub(crate) async fn serve(&self, worker: &WorkerId, serves: &Serves) -> Result<(), StoreError> {
        let sql = "UPDATE workers SET serves = $2::text WHERE id = $1::text";
        let text = serde_json::to_string(serves)
            .map_err(|error| OpError::Row(error.to_string()).into_store_error(&self.name))?;
        self.present.serves(worker, text.clone());
        ask!(self, |conn| conn.execute(sql, &[&worker.as_str(), &text]).await.map(drop))
    }

    /// See [`Store::serving_elsewhere`](aether_core::store::Store::serving_elsewhere).
    pub(crate) async fn serving_elsewhere(&self, me: &WorkerId) -> Result<Vec<Serving>, StoreError> {
        let sql = format!(
            "SELECT ARRAY(SELECT c.code FROM worker_codes c WHERE c.worker = w.id), w.serves FROM workers w
             WHERE w.id <> $1::text AND w.seen_at > clock_timestamp() - {GONE}"
        );
        ask!(self, |conn| {
            let rows = conn.query(&sql, &[&me.as_str()]).await?;
            let serving = |row: &tokio_postgres::Row| {
                let codes: Vec<String> = get(row, 0)?;
                Ok(Serving {
                    codes: codes.into_iter().map(Into::into).collect(),
                    serves: read(get(row, 1)?)?,
                })
            };
            rows.iter().map(serving).collect()
        })
    }
}
