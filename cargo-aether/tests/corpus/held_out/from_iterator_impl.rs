//! A collection that shuffles what is collected into it
//! how: random

use aether::prelude::*;

struct Deck(Vec<u8>);

impl FromIterator<u8> for Deck {
    fn from_iter<I: IntoIterator<Item = u8>>(cards: I) -> Self {
        let mut cards: Vec<u8> = cards.into_iter().collect();
        fastrand::shuffle(&mut cards);
        Deck(cards)
    }
}

#[workflow]
pub async fn from_iterator_impl(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let deck: Deck = (0..32).collect();
    Ok(format!("{:?}", deck.0))
}
