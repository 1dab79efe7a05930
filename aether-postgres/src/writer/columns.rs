//! The columns that the writer's statements get, one struct for each table.
//!
//! Promise: names, types and order of the parameters stand here alone; the statements are made from them.

use aether_core::journal::ChainHash;
use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::connection::Param;

/// A chain hash as a column has it, without a buffer of its own.
#[derive(Debug)]
pub(crate) struct Hash(pub(crate) ChainHash);

impl ToSql for Hash {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.as_slice().to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <&[u8] as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

/// How a statement gets the rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Given {
    /// An array for each column: any number of rows.
    Arrays,
    /// So many rows of single values. To begin to read an array costs the server about as much as a few rows do, and a
    /// statement has dozens of them.
    Rows(usize),
}

impl Given {
    /// The rows as something to select from: `(SELECT unnest($3::int2[]), ..) AS name(shard, ..)`. Numbers the parameters
    /// from `next`. In a list of what is selected, the elements of all arrays are read side by side; as a table,
    /// `unnest($3::int2[], ..)` would first copy each array into a store of its own.
    pub(crate) fn rows(self, name: &str, columns: &[(&str, &str)], next: &mut usize) -> String {
        let mut row = |begin: &str, end: &str| {
            let params =
                (*next..).zip(columns).map(|(number, (_, kind))| format!("{begin}${number}::{kind}{end}"));
            let params = params.collect::<Vec<_>>().join(", ");
            *next += columns.len();
            params
        };
        let given = match self {
            Self::Arrays => format!("(SELECT {})", row("unnest(", "[])")),
            Self::Rows(count) => {
                let rows: Vec<_> = (0..count).map(|_| format!("({})", row("", ""))).collect();
                format!("(VALUES {})", rows.join(", "))
            }
        };
        let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
        format!("{given} AS {name}({})", names.join(", "))
    }
}

/// A column's name as SQL has it.
const fn column_name(name: &'static str) -> &'static str {
    match name.as_bytes() {
        b"r#final" => "final",
        _ => name,
    }
}

/// Columns of one of the tables whose rows a statement gets.
macro_rules! columns {
    ($(#[$doc:meta])* $table:ident { $($column:ident: $rust:ty = $kind:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $table<'a> {
            $(pub(crate) $column: Vec<$rust>,)+
            /// The number of rows.
            pub(crate) rows: usize,
            lifetime: std::marker::PhantomData<&'a ()>,
        }

        impl<'a> $table<'a> {
            /// Names and types, in the order of the parameters.
            pub(crate) const COLUMNS: &'static [(&'static str, &'static str)] =
                &[$((column_name(stringify!($column)), $kind)),+];

            #[allow(clippy::too_many_arguments, reason = "one per column")]
            pub(crate) fn push(&mut self, $($column: $rust),+) {
                $(self.$column.push($column);)+
                self.rows += 1;
            }

            pub(crate) fn params<'p>(&'p self, given: Given, params: &mut Vec<Param<'p>>) {
                match given {
                    Given::Arrays => { $(params.push(&self.$column);)+ }
                    Given::Rows(_) => {
                        for row in 0..self.rows {
                            $(params.push(&self.$column[row]);)+
                        }
                    }
                }
            }
        }
    };
}

columns!(
    /// Runs to create.
    Creates {
        shard: i16 = "int2",
        run: &'a str = "text",
        place: i64 = "int8",
        workflow: &'a str = "text",
        version: i64 = "int8",
        code: &'a str = "text",
        status: i16 = "int2",
        digest: &'a str = "text",
        parent: Option<&'a str> = "text",
        created_at: i64 = "int8",
        labels: String = "text",
        traceparent: Option<&'a str> = "text",
        epoch: i64 = "int8",
        owner: Option<&'a str> = "text",
        count: i64 = "int8",
        events: &'a str = "text",
        chain: Hash = "bytea",
        parent_shard: Option<i16> = "int2",
        parent_epoch: Option<i64> = "int8",
        wake_at: i64 = "int8",
        terms: Option<String> = "text",
        queue: Option<&'a str> = "text",
        queue_key: Option<&'a str> = "text",
        rank: Option<i64> = "int8",
        lapses_at: Option<i64> = "int8",
        decided_key: Option<&'a str> = "text",
        decided_schedule: Option<&'a str> = "text",
        decided: Option<i64> = "int8",
    }
);

columns!(
    /// Labels of runs to create.
    Labels {
        key: &'a str = "text",
        value: &'a str = "text",
        place: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
    }
);

columns!(
    /// One row per run: where its appends begin.
    Groups {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        epoch: i64 = "int8",
        before: i64 = "int8",
        expected: i64 = "int8",
    }
);

columns!(
    /// Frames to append.
    Frames {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        frame: i64 = "int8",
        position: i64 = "int8",
        count: i64 = "int8",
        at: i64 = "int8",
        epoch: i64 = "int8",
        r#final: bool = "bool",
        events: &'a str = "text",
        chain: Hash = "bytea",
    }
);

columns!(
    /// Ledger rows to insert.
    Acquires {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        key: &'a str = "text",
        seq: i64 = "int8",
        command: &'a str = "text",
        invocation: &'a str = "text",
        tool: &'a str = "text",
        digest: &'a str = "text",
        business_key: Option<&'a str> = "text",
        store_wide: bool = "bool",
        status: i16 = "int2",
        result: Option<&'a str> = "text",
        error: Option<&'a str> = "text",
        committed: bool = "bool",
        epoch: i64 = "int8",
        started_at: i64 = "int8",
        finished_at: Option<i64> = "int8",
    }
);

columns!(
    /// Ledger rows to change.
    Settles {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        key: &'a str = "text",
        status: i16 = "int2",
        result: Option<&'a str> = "text",
        error: Option<&'a str> = "text",
        committed: bool = "bool",
        finished_at: Option<i64> = "int8",
        freed: bool = "bool",
    }
);

columns!(
    /// Changes of status and code.
    Changes {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        guarded: bool = "bool",
        status: Option<i16> = "int2",
        ended_at: Option<i64> = "int8",
        release: bool = "bool",
        code: Option<&'a str> = "text",
        parked: Option<bool> = "bool",
        due: i16 = "int2",
        wake_at: Option<i64> = "int8",
        seen: i64 = "int8",
        at: i64 = "int8",
        parent: Option<&'a str> = "text",
    }
);

columns!(
    /// Messages that are consumed.
    Consumes {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        seq: i64 = "int8",
        position: i64 = "int8",
    }
);

columns!(
    /// Waits that are open.
    Opens {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        command: &'a str = "text",
        place: i64 = "int8",
        kind: &'a str = "text",
        name: &'a str = "text",
        since: i64 = "int8",
        until: Option<i64> = "int8",
        site: Option<&'a str> = "text",
        detail: &'a str = "text",
    }
);

columns!(
    /// Waits that are closed.
    Closes {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        command: &'a str = "text",
    }
);

columns!(
    /// Commands that have ended, and what becomes of what they sent to streams.
    Ends {
        no: i64 = "int8",
        shard: i16 = "int2",
        run: &'a str = "text",
        frame: i64 = "int8",
        epoch: i64 = "int8",
        position: i64 = "int8",
        command: &'a str = "text",
        attempt: i64 = "int8",
        at: i64 = "int8",
        digest: Option<String> = "text",
        keeps: Option<String> = "text",
    }
);
