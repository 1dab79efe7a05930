//! Operators in a table of function pointers
//! how: clean

use aether::prelude::*;

type Operator = fn(f64, f64) -> f64;

const OPERATORS: [(char, u8, Operator); 5] = [
    ('+', 1, |a, b| a + b),
    ('-', 1, |a, b| a - b),
    ('*', 2, |a, b| a * b),
    ('/', 2, |a, b| a / b),
    ('^', 3, f64::powf),
];

fn value(text: &str) -> Option<f64> {
    let mut numbers = Vec::new();
    let mut pending: Vec<(u8, Operator)> = Vec::new();
    for part in text.split_whitespace() {
        let sign = part.chars().next().filter(|_| part.len() == 1);
        if let Some((_, rank, operator)) = OPERATORS.iter().find(|(name, ..)| Some(*name) == sign) {
            while let Some((_, earlier)) = pending.pop_if(|(earlier, _)| *earlier >= *rank) {
                let (b, a) = (numbers.pop()?, numbers.pop()?);
                numbers.push(earlier(a, b));
            }
            pending.push((*rank, *operator));
        } else {
            numbers.push(part.parse().ok()?);
        }
    }
    while let Some((_, operator)) = pending.pop() {
        let (b, a) = (numbers.pop()?, numbers.pop()?);
        numbers.push(operator(a, b));
    }
    numbers.pop().filter(|_| numbers.is_empty())
}

#[workflow]
pub async fn table_of_functions(cx: &mut Cx, _input: u64) -> Result<String> {
    let n = cx.random().await % 100;
    Ok(format!("{:?} {:?}", value(&format!("2 + {n} * 3 - 4 / 8")), value("1 +")))
}
