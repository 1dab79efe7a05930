//! The wall clock as a default of a member that the recorded answer does not hold
//! how: indirect

use aether::prelude::*;

#[derive(serde::Serialize, serde::Deserialize)]
pub struct Parcel {
    weight: u64,
    #[serde(skip, default = "std::time::SystemTime::now")]
    packed: std::time::SystemTime,
}

#[workflow]
pub async fn pack_parcel(cx: &mut Cx, item: u64) -> Result<Parcel> {
    let weight = cx.random().await % 10 + item;
    Ok(Parcel { weight, packed: std::time::UNIX_EPOCH })
}

#[workflow]
pub async fn answer_default(cx: &mut Cx, _input: u64) -> Result<String> {
    let parcel = cx.child::<pack_parcel>(_input).await?;
    Ok(format!("{} {:?}", parcel.weight, parcel.packed))
}
