#![deny(warnings)]

use aether::definition::Recordable;
use aether::prelude::*;

trait Entity: Recordable + Sync {
    const TABLE: &'static str;
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Customer;

impl Entity for Customer {
    const TABLE: &'static str = "customers";
}

#[step(effect = "read")]
async fn load<T: Entity>(_cx: &mut StepCx, id: u64) -> Result<Option<T>> {
    let _ = (T::TABLE, id);
    Ok(None)
}

#[step(effect = "tool")]
async fn save<T: Entity>(_cx: &mut StepCx, entity: &T) -> Result<()> {
    let _ = entity;
    Ok(())
}

#[step(effect = "tool")]
async fn empty<T: Entity + Recordable>(_cx: &mut StepCx) -> Result<String> {
    Ok(T::TABLE.to_owned())
}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    if let Some(customer) = load::<Customer>(cx, 7).await? {
        save(cx, &customer).await?;
    }
    empty::<Customer>(cx).await?;
    Ok(())
}

fn main() {}
