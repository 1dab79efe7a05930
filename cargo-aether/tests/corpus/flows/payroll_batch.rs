//! Everybody is paid by a child run, and the sums are grouped by department
//! how: clean

use std::collections::BTreeMap;

use aether::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Employee {
    id: u32,
    department: String,
    gross: Decimal,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Payroll {
    month: String,
    employees: Vec<Employee>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    by_department: BTreeMap<String, Decimal>,
    failed: Vec<u32>,
}

fn net(gross: Decimal) -> Decimal {
    let brackets = [(0, 0), (1_000_00, 20), (3_000_00, 35)];
    let tax: Decimal = brackets
        .windows(2)
        .map(|pair| (pair[0], Some(pair[1].0)))
        .chain(std::iter::once((brackets[2], None)))
        .map(|((from, percent), to)| {
            let from = Decimal::new(from, 2);
            let upper = to.map_or(gross, |to| gross.min(Decimal::new(to, 2)));
            (upper - from).max(Decimal::ZERO) * Decimal::new(percent, 2)
        })
        .sum();
    (gross - tax).round_dp(2)
}

#[step(effect = "tool", irreversible, scope = "store", key = |employee, month| format!("{employee}-{month}"))]
pub async fn payroll_batch_transfer(
    _cx: &mut StepCx,
    employee: u32,
    month: &str,
    amount: Decimal,
) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn payroll_batch_one(cx: &mut Cx, employee: Employee, month: String) -> Result<Decimal> {
    let amount = net(employee.gross);
    payroll_batch_transfer(cx, employee.id, &month, amount).await?;
    Ok(amount)
}

#[workflow]
pub async fn payroll_batch(cx: &mut Cx, payroll: Payroll) -> Result<Summary> {
    let month = payroll.month.as_str();
    let paid = cx
        .each(payroll.employees, async |cx: &mut Cx, employee| {
            let (id, department) = (employee.id, employee.department.clone());
            let child = cx.child::<payroll_batch_one>((employee, month.to_owned()));
            (id, department, child.id(format!("payroll-{month}-{id}")).label("month", month).await)
        })
        .limit(20)
        .await;
    let mut summary = Summary::default();
    for (id, department, result) in paid {
        match result {
            Ok(amount) => *summary.by_department.entry(department).or_default() += amount,
            Err(_) => summary.failed.push(id),
        }
    }
    Ok(summary)
}
