//! The type that a parameter of a step's statement is sent with.
//!
//! Promise: it follows from the value's Rust type alone, so that a statement needs no preparing: it takes one round trip,
//! and means the same behind a pooler.

use bytes::BytesMut;
use tokio_postgres::types::{ToSql, Type, WrongType};

/// A parameter of a step's statement.
pub(crate) type Param<'p> = &'p (dyn ToSql + Sync);

/// Postgres' own types, the first that a value is accepted as being its type: an `i64` is an `int8`, a text a `text`.
const TYPES: [Type; 40] = [
    Type::INT8,
    Type::TEXT,
    Type::INT4,
    Type::BOOL,
    Type::FLOAT8,
    Type::TIMESTAMPTZ,
    Type::BYTEA,
    Type::UUID,
    Type::JSONB,
    Type::NUMERIC,
    Type::INT2,
    Type::FLOAT4,
    Type::DATE,
    Type::TIMESTAMP,
    Type::TIME,
    Type::INTERVAL,
    Type::CHAR,
    Type::OID,
    Type::INET,
    Type::CIDR,
    Type::MACADDR,
    Type::VARBIT,
    Type::POINT,
    Type::BOX,
    Type::PATH,
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::INT4_ARRAY,
    Type::BOOL_ARRAY,
    Type::FLOAT8_ARRAY,
    Type::UUID_ARRAY,
    Type::TIMESTAMPTZ_ARRAY,
    Type::BYTEA_ARRAY,
    Type::JSONB_ARRAY,
    Type::NUMERIC_ARRAY,
    Type::INT2_ARRAY,
    Type::FLOAT4_ARRAY,
    Type::DATE_ARRAY,
    Type::TIMESTAMP_ARRAY,
    Type::INET_ARRAY,
];

/// The parameters with their types; `None` where one is of a type that is not Postgres' own, such as an enum, so that the
/// server must be asked.
pub(crate) fn typed<'p>(params: &[Param<'p>]) -> Option<Vec<(Param<'p>, Type)>> {
    params.iter().map(|param| type_of(*param).map(|kind| (*param, kind))).collect()
}

fn type_of(param: Param<'_>) -> Option<Type> {
    TYPES.into_iter().find(|kind| {
        // A value that cannot be encoded as its type has the type all the same; sending it gives the error.
        let encoded = param.to_sql_checked(kind, &mut BytesMut::new());
        encoded.map_or_else(|error| !error.is::<WrongType>(), |_| true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_follows_from_the_value() {
        let (text, bytes, none) = (String::from("a"), vec![1_u8], None::<i64>);
        let (numbers, texts) = (vec![1_i64], vec!["a"]);
        let params: Vec<Param<'_>> =
            vec![&1_i64, &1_i32, &"a", &text, &true, &1.5_f64, &bytes, &none, &numbers, &texts];
        let kinds: Vec<_> = typed(&params).unwrap().into_iter().map(|(_, kind)| kind).collect();
        let expected = [
            Type::INT8,
            Type::INT4,
            Type::TEXT,
            Type::TEXT,
            Type::BOOL,
            Type::FLOAT8,
            Type::BYTEA,
            Type::INT8,
            Type::INT8_ARRAY,
            Type::TEXT_ARRAY,
        ];
        assert_eq!(kinds, expected);
    }
}
