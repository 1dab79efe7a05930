//! Codes of gift cards are drawn with a check digit, and are booked once
//! how: clean

use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

const ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GiftCard {
    code: String,
    value: Decimal,
}

fn letters(mut number: u64, count: usize) -> String {
    let mut code = String::with_capacity(count + 1);
    for _ in 0..count {
        code.push(char::from(ALPHABET[(number % 32) as usize]));
        number /= 32;
    }
    code
}

fn check_letter(code: &str) -> char {
    let sum: usize = code.bytes().enumerate().map(|(place, byte)| (place + 1) * usize::from(byte)).sum();
    char::from(ALPHABET[sum % 32])
}

fn grouped(code: &str) -> String {
    let mut text = String::new();
    for (place, letter) in code.chars().enumerate() {
        if place > 0 && place % 4 == 0 {
            text.push('-');
        }
        text.push(letter);
    }
    text
}

#[step(effect = "tool", irreversible, scope = "store", key = |card| card.code.clone())]
pub async fn gift_cards_book(_cx: &mut StepCx, card: &GiftCard) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn gift_cards(cx: &mut Cx, value: Decimal, count: u16) -> Result<Vec<GiftCard>> {
    if !(Decimal::TEN..=Decimal::ONE_HUNDRED).contains(&value) {
        return Err(Failure::permanent(format!("no gift card is worth {value}")));
    }
    let mut cards: Vec<GiftCard> = Vec::new();
    while cards.len() < usize::from(count) {
        let mut code = letters(cx.random().await, 11);
        code.push(check_letter(&code));
        let card = GiftCard { code: grouped(&code), value };
        match gift_cards_book(cx, &card).await {
            Ok(()) => cards.push(card),
            Err(StepError::Taken(holder)) => tracing::info!(run = %holder.run, "drawn before"),
            Err(other) => return Err(other.into()),
        }
    }
    Ok(cards)
}
