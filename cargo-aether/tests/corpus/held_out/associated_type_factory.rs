//! An id made by the associated type of the type parameter's associated type
//! how: random

use aether::prelude::*;

trait Ident {
    fn make() -> String;
}

trait Table {
    type Key: Ident;
    const NAME: &'static str;
}

trait Database {
    type Orders: Table;
}

struct Random;
struct Orders;
struct Shop;

impl Ident for Random {
    fn make() -> String {
        hex::encode(rand::random::<[u8; 8]>())
    }
}

impl Table for Orders {
    type Key = Random;
    const NAME: &'static str = "orders";
}

impl Database for Shop {
    type Orders = Orders;
}

fn insert<T: Table>() -> String {
    format!("{}/{}", T::NAME, T::Key::make())
}

fn order<D: Database>() -> String {
    insert::<D::Orders>()
}

#[workflow]
pub async fn associated_type_factory(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(order::<Shop>())
}
