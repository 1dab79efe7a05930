//! Two records of a customer are merged field by field, and a person settles what differs
//! how: clean

use aether::prelude::*;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Customer {
    id: u64,
    fields: IndexMap<String, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Conflict {
    field: String,
    ours: String,
    theirs: String,
}

trait Merge: Sized {
    type Conflict;
    fn merge(self, other: Self) -> (Self, Vec<Self::Conflict>);
}

impl Merge for IndexMap<String, String> {
    type Conflict = Conflict;

    fn merge(mut self, other: Self) -> (Self, Vec<Conflict>) {
        let mut conflicts = Vec::new();
        for (field, theirs) in other {
            match self.get(&field) {
                Some(ours) if ours.trim().eq_ignore_ascii_case(theirs.trim()) => {}
                Some(ours) if !ours.is_empty() && !theirs.is_empty() => {
                    conflicts.push(Conflict { field, ours: ours.clone(), theirs });
                }
                Some(ours) if theirs.is_empty() => {}
                _ => {
                    self.insert(field, theirs);
                }
            }
        }
        (self, conflicts)
    }
}

#[step(effect = "read")]
pub async fn customer_merge_load(_cx: &mut StepCx, id: u64) -> Result<Customer> {
    Ok(Customer { id, fields: IndexMap::new() })
}

#[step(effect = "tool", irreversible, key = |kept, dropped| format!("{}<{dropped}", kept.id))]
pub async fn customer_merge_store(_cx: &mut StepCx, kept: &Customer, dropped: u64) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn customer_merge(cx: &mut Cx, kept: u64, dropped: u64) -> Result<Customer> {
    if kept == dropped {
        return Err(Failure::permanent("a customer cannot be merged with itself"));
    }
    let ours = customer_merge_load(cx, kept).await?;
    let mut theirs = customer_merge_load(cx, dropped).await?;
    theirs.fields.sort_keys();
    let (mut fields, conflicts) = ours.fields.merge(theirs.fields);
    for conflict in conflicts {
        let name = format!("field {}", conflict.field);
        let value: String = cx.ask(&conflict).named(name).await?;
        fields.insert(conflict.field, value);
    }
    fields.sort_keys();
    let merged = Customer { id: kept, fields };
    customer_merge_store(cx, &merged, dropped).await?;
    Ok(merged)
}
