//! Which runs a filter lets through, as a statement.
//!
//! Promise: one index finds the runs, and the other conditions are checked on what it finds. Where the index has the order
//! of the list, no more is read than the limit needs.

use tokio_postgres::types::ToSql;

use aether_core::contract::Status;
use aether_core::store::RunFilter;

use crate::connection::Param;
use crate::row;
use crate::runs::limit;

/// The values of a statement.
#[derive(Default)]
pub(crate) struct Values(Vec<Box<dyn ToSql + Sync + Send>>);

impl Values {
    /// Keeps a value and says how the statement names it.
    fn bind(&mut self, value: impl ToSql + Sync + Send + 'static, of: &str) -> String {
        self.0.push(Box::new(value));
        format!("${}::{of}", self.0.len())
    }

    /// What the statement is sent with.
    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        self.0.iter().map(|value| &**value as Param<'_>).collect()
    }
}

/// A statement and its values.
pub(crate) struct Query {
    /// Gives `shard`, `id` and `place` of each run, or their number.
    pub(crate) sql: String,
    pub(crate) values: Values,
}

/// What finds the runs: the narrowest that the filter has an index for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    /// The first label, in the order of places.
    Label,
    /// The keys of all shards, each searched for the prefix.
    Prefix,
    /// An index by time of creation; what it finds is sorted.
    Created,
    /// An index that ends in the place, after the column that is named here. By status, one search for each status.
    Place { led_by: &'static str },
}

fn source(filter: &RunFilter) -> Source {
    match filter {
        _ if !filter.labels.is_empty() => Source::Label,
        _ if filter.parent.is_none()
            && filter.id_prefix.as_ref().is_some_and(|prefix| !prefix.is_empty()) =>
        {
            Source::Prefix
        }
        _ if filter.parent.is_some() => Source::Place { led_by: "parent" },
        _ if filter.parked == Some(true) => NEWEST,
        _ if by_code(filter) => Source::Place { led_by: "code" },
        _ if filter.workflow.is_some() || !filter.statuses.is_empty() => BY_STATUS,
        _ if filter.created_after.is_some() => Source::Created,
        _ => NEWEST,
    }
}

/// An index of places alone.
const NEWEST: Source = Source::Place { led_by: "" };
const BY_STATUS: Source = Source::Place { led_by: "status" };

/// Whether the index of the codes of open runs serves the filter.
fn by_code(filter: &RunFilter) -> bool {
    filter.code.is_some()
        && !filter.statuses.is_empty()
        && !filter.statuses.iter().any(|status| status.is_terminal())
}

impl Query {
    /// One page, newest first, in no order yet where the source has none.
    pub(crate) fn list(filter: &RunFilter) -> Self {
        let mut values = Values::default();
        let (source, arms) = arms(filter, &mut values, true);
        let page = match limit(filter.limit) {
            Some(rows) => format!("LIMIT {}", values.bind(rows, "int8")),
            None => String::new(),
        };
        let columns =
            if source == Source::Label { "n.shard, n.run AS id, n.place" } else { "r.shard, r.id, r.place" };
        let order = match source {
            Source::Label => "n.place DESC".to_owned(),
            Source::Place { led_by: led_by @ ("parent" | "code" | "status") } => {
                format!("r.{led_by} DESC, r.place DESC")
            }
            _ => "r.place DESC".to_owned(),
        };
        let found: Vec<_> = match source {
            // Found first, and sorted then: the planner would walk through all places to save the sorting.
            Source::Prefix | Source::Created => {
                arms.iter().map(|arm| format!("(SELECT {columns} {arm} OFFSET 0)")).collect()
            }
            _ => arms.iter().map(|arm| format!("(SELECT {columns} {arm} ORDER BY {order} {page})")).collect(),
        };
        let sql = format!("SELECT * FROM ({}) f ORDER BY place DESC {page}", found.join(" UNION ALL "));
        Self { sql, values }
    }

    /// The number of runs.
    pub(crate) fn count(filter: &RunFilter) -> Self {
        let mut values = Values::default();
        let (_, arms) = arms(filter, &mut values, false);
        let counts: Vec<_> = arms.iter().map(|arm| format!("(SELECT count(*) {arm})")).collect();
        Self { sql: format!("SELECT ({})::int8", counts.join(" + ")), values }
    }
}

/// What stands behind `SELECT`, once for each status where the source is by status: several searches in the order of their
/// index, whose ends are merged.
fn arms(filter: &RunFilter, values: &mut Values, is_paged: bool) -> (Source, Vec<String>) {
    let source = source(filter);
    let mut conditions = conditions(filter, values, is_paged, source);
    let edge = edge(filter, is_paged);
    let from = match source {
        // Fenced off, as each further label is: the planner knows too little of labels to choose where it begins.
        Source::Label => {
            "labels n CROSS JOIN LATERAL (SELECT * FROM runs o WHERE o.shard = n.shard AND o.id = n.run OFFSET 0) r"
        }
        // Each shard is one search: keys begin with the shard.
        Source::Prefix => "generate_series(0, 4095) AS s(shard) JOIN runs r ON r.shard = s.shard::int2",
        Source::Created | Source::Place { .. } => "runs r",
    };
    let arm = |conditions: &[String]| match conditions {
        [] => format!("FROM {from}"),
        all => format!("FROM {from} WHERE {}", all.join(" AND ")),
    };
    if source != BY_STATUS {
        if !filter.statuses.is_empty() {
            let numbers: Vec<_> = filter.statuses.iter().map(|status| row::status_number(*status)).collect();
            conditions.push(format!("r.status = ANY({})", values.bind(numbers, "int2[]")));
        }
        return (source, vec![arm(&conditions)]);
    }
    let statuses = if filter.statuses.is_empty() { &Status::ALL[..] } else { &filter.statuses };
    let edge = values.bind(edge, "int8");
    let arms = statuses.iter().map(|status| {
        let status = up_to("status", &format!("{}::int2", row::status_number(*status)), &edge);
        arm(&conditions.iter().cloned().chain([status]).collect::<Vec<_>>())
    });
    (source, arms.collect())
}

/// Places from this one on are not wanted.
fn edge(filter: &RunFilter, is_paged: bool) -> i64 {
    filter.after.filter(|_| is_paged).map_or(i64::MAX, |after| row::int(after.number()))
}

/// The rows that an index of a column and the place has for one value, up to a place. With `column = value`, and a list in
/// the order of places, the planner would rather walk through the index of places alone, however rare the value is.
fn up_to(column: &str, value: &str, edge: &str) -> String {
    format!("r.{column} >= {value} AND (r.{column}, r.place) < ({value}, {edge})")
}

/// Everything but the statuses.
fn conditions(filter: &RunFilter, values: &mut Values, is_paged: bool, source: Source) -> Vec<String> {
    let mut found = Vec::new();
    for (n, (key, value)) in filter.labels.iter().enumerate() {
        let (key, value) = (values.bind(key.clone(), "text"), values.bind(value.clone(), "text"));
        found.push(match n {
            0 => format!("n.key = {key} AND n.value = {value}"),
            _ => format!(
                "(SELECT true FROM labels m WHERE m.key = {key} AND m.value = {value} AND m.place = n.place \
                 AND m.shard = n.shard AND m.run = n.run LIMIT 1)"
            ),
        });
    }
    if let Some(prefix) = filter.id_prefix.as_ref().filter(|prefix| !prefix.is_empty()) {
        let from = values.bind(prefix.clone(), "text");
        found.push(format!("r.id >= {from}"));
        if let Some(end) = behind(prefix) {
            found.push(format!("r.id < {}", values.bind(end, "text")));
        }
    }
    if let Source::Place { led_by: led_by @ ("parent" | "code") } = source {
        let value = match led_by {
            "parent" => filter.parent.as_ref().map(|parent| parent.as_str().to_owned()),
            _ => filter.code.as_ref().map(|code| code.as_str().to_owned()),
        };
        let (value, edge) = (values.bind(value, "text"), values.bind(edge(filter, is_paged), "int8"));
        found.push(up_to(led_by, &value, &edge));
    }
    let mut all = |condition: &str, value: Option<Box<dyn ToSql + Sync + Send>>, of: &str| {
        if let Some(value) = value {
            values.0.push(value);
            found.push(condition.replace('?', &format!("${}::{of}", values.0.len())));
        }
    };
    let text = |text: String| -> Box<dyn ToSql + Sync + Send> { Box::new(text) };
    let number = |number: i64| -> Box<dyn ToSql + Sync + Send> { Box::new(number) };
    all("strpos(r.id, ?) > 0", filter.id_contains.clone().map(text), "text");
    all("r.parent = ?", filter.parent.as_ref().map(|parent| text(parent.as_str().to_owned())), "text");
    all("r.workflow = ?", filter.workflow.clone().map(text), "text");
    all("r.version = ?", filter.version.map(|version| number(version.into())), "int8");
    all("r.code = ?", filter.code.as_ref().map(|code| text(code.as_str().to_owned())), "text");
    all("r.created_at >= ?", filter.created_after.map(|time| number(row::micros(time))), "int8");
    all("r.created_at < ?", filter.created_before.map(|time| number(row::micros(time))), "int8");
    let is_led = matches!(source, Source::Place { led_by } if !led_by.is_empty());
    let after = filter.after.filter(|_| is_paged && !is_led).map(|after| number(row::int(after.number())));
    all(if source == Source::Label { "n.place < ?" } else { "r.place < ?" }, after, "int8");
    // Written out, and not bound: only so the planner sees that a partial index serves it.
    found.extend(filter.parked.map(|parked| if parked { "r.parked" } else { "NOT r.parked" }.to_owned()));
    if by_code(filter) {
        found.push("r.status < 3".to_owned());
    }
    found
}

/// The first text, in the order of the bytes, behind all texts with this prefix; `None` where there is none.
fn behind(prefix: &str) -> Option<String> {
    let (at, next) = prefix.char_indices().rev().find_map(|(at, last)| {
        // The step over the surrogates included.
        Some((at, (last..=char::MAX).nth(1)?))
    })?;
    Some(format!("{}{next}", prefix.get(..at)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_behind_every_text_that_begins_with_it() {
        assert_eq!(behind("a-").as_deref(), Some("a."));
        assert_eq!(behind("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(behind("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(behind("\u{10ffff}"), None);
    }

    #[test]
    fn the_narrowest_index_finds_the_runs() {
        let all = RunFilter::new;
        let code = aether_core::id::CodeId::of("shop", "flow", 1, "0011223344556677");
        for (filter, expected) in [
            (all(), NEWEST),
            (all().label("a", "b").workflow("flow"), Source::Label),
            (all().id_prefix("a").workflow("flow"), Source::Prefix),
            (all().id_prefix("").created_after(jiff::Timestamp::UNIX_EPOCH), Source::Created),
            (all().code(code.clone()).open(), Source::Place { led_by: "code" }),
            (all().code(code), NEWEST),
            (all().workflow("flow"), BY_STATUS),
        ] {
            assert_eq!(source(&filter), expected, "{filter:?}");
        }
    }
}
