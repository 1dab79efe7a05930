//! Deleting rows of a run, however many there are, in pieces.
//!
//! Promise: all pieces are in the caller's transaction, which is made as a whole or not at all, and each has the time of a
//! statement: what is too much for one would be so at every try. A piece begins behind the one before, and reads none of its
//! rows again.

use crate::connection::Transaction;
use crate::error::OpError;
use crate::row::get;

/// Rows of a run in one table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) table: &'static str,
    /// What the table's key has behind shard and run: a text, a number, or both in this order.
    pub(crate) text: Option<&'static str>,
    pub(crate) number: Option<&'static str>,
    /// Which of them, where it is not all: a condition on `x`, in which $5 is a number.
    pub(crate) only: Option<&'static str>,
    /// How many are one piece.
    pub(crate) piece: usize,
}

impl Rows {
    /// Deletes a piece behind the key ($3, $4). Gives the last key of it, and how many rows were looked at.
    fn sql(&self) -> String {
        let Self { table, piece, .. } = self;
        let (text, number) = (self.text.unwrap_or("''"), self.number.unwrap_or("0::int8"));
        let (order, behind) = match (self.text, self.number) {
            (Some(text), Some(number)) => {
                (format!("x.{text}, x.{number}"), format!("(x.{text}, x.{number}) > ($3::text, $4::int8)"))
            }
            (Some(text), None) => {
                (format!("x.{text}"), format!("x.{text} > $3::text AND $4::int8 IS NOT NULL"))
            }
            (None, number) => {
                let number = number.unwrap_or("shard");
                (format!("x.{number}"), format!("$3::text IS NOT NULL AND x.{number} > $4::int8"))
            }
        };
        let same = [self.text.map(|text| (text, "k")), self.number.map(|number| (number, "n"))];
        let same: String =
            same.iter().flatten().map(|(column, of)| format!(" AND x.{column} = p.{of}")).collect();
        let only = self.only.map(|only| format!(" AND {only}")).unwrap_or_default();
        format!(
            "WITH page AS MATERIALIZED (SELECT {text} AS k, {number} AS n FROM {table} x
                WHERE x.shard = $1::int2 AND x.run = $2::text AND {behind} ORDER BY {order} LIMIT {piece}),
            gone AS (DELETE FROM {table} x USING page p
                WHERE x.shard = $1 AND x.run = $2{same} AND $5::int8 IS NOT NULL{only})
            SELECT k, n, count(*) OVER () FROM page ORDER BY k COLLATE \"C\" DESC, n DESC LIMIT 1"
        )
    }

    /// Deletes them, in the transaction; `number` is that of the condition.
    pub(crate) async fn delete(
        &self,
        transaction: &Transaction<'_>,
        (shard, run): (i16, &str),
        number: i64,
    ) -> Result<(), OpError> {
        let sql = self.sql();
        let mut last = (String::new(), i64::MIN);
        loop {
            let rows = transaction.query(&sql, &[&shard, &run, &last.0, &last.1, &number]).await?;
            let Some(row) = rows.first() else { return Ok(()) };
            last = (get(row, 0)?, get(row, 1)?);
            if usize::try_from(get::<i64>(row, 2)?).is_ok_and(|seen| seen < self.piece) {
                return Ok(());
            }
        }
    }

    /// Whether a run ($1 shard, $2 id) has more than one piece of them.
    pub(crate) fn are_many(&self) -> String {
        let Self { table, piece, .. } = self;
        format!(
            "EXISTS (SELECT 1 FROM {table} x WHERE x.shard = $1::int2 AND x.run = $2::text OFFSET {piece})"
        )
    }
}
