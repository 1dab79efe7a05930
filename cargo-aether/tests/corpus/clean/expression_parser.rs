//! A parser and evaluator of conditions
//! how: clean

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

use aether::prelude::*;

#[derive(Debug)]
enum Expr {
    Name(String),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
}

struct Parser<'a> {
    chars: Peekable<Chars<'a>>,
}

impl Parser<'_> {
    fn eat(&mut self, wanted: char) -> bool {
        while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
        self.chars.next_if_eq(&wanted).is_some()
    }

    fn or(&mut self) -> Option<Expr> {
        let mut left = self.and()?;
        while self.eat('|') {
            left = Expr::Or(left.into(), self.and()?.into());
        }
        Some(left)
    }

    fn and(&mut self) -> Option<Expr> {
        let mut left = self.unary()?;
        while self.eat('&') {
            left = Expr::And(left.into(), self.unary()?.into());
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        if self.eat('!') {
            return Some(Expr::Not(self.unary()?.into()));
        }
        if self.eat('(') {
            return self.or().filter(|_| self.eat(')'));
        }
        let name: String = std::iter::from_fn(|| self.chars.next_if(|c| c.is_alphanumeric())).collect();
        (!name.is_empty()).then_some(Expr::Name(name))
    }
}

fn holds(expr: &Expr, facts: &BTreeMap<&str, bool>) -> bool {
    match expr {
        Expr::Name(name) => facts.get(name.as_str()).copied().unwrap_or_default(),
        Expr::Not(inner) => !holds(inner, facts),
        Expr::And(left, right) => holds(left, facts) && holds(right, facts),
        Expr::Or(left, right) => holds(left, facts) || holds(right, facts),
    }
}

#[workflow]
pub async fn expression_parser(cx: &mut Cx, _input: u64) -> Result<String> {
    let random = cx.random().await;
    let facts = BTreeMap::from([("vip", random & 1 == 1), ("late", random & 2 == 2), ("paid", true)]);
    let expr = Parser { chars: "paid & !(late | vip) | vip & !missing".chars().peekable() }.or();
    let expr = expr.ok_or_else(|| Failure::permanent("no condition"))?;
    Ok(format!("{} {expr:?}", holds(&expr, &facts)))
}
