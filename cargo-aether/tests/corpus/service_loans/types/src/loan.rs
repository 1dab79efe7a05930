//! A loan, its plan and what was booked on it.

use jiff::civil::Date;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::{ApplicationId, Currency, Money, MoneyError};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instalment {
    pub number: u32,
    pub due: Date,
    pub interest: Money,
    pub repayment: Money,
}

impl Instalment {
    pub fn total(&self) -> Result<Money, MoneyError> {
        self.interest.plus(self.repayment)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BookingKind {
    PaidOut,
    Received,
    Fee,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booking {
    pub day: Date,
    pub kind: BookingKind,
    pub amount: Money,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoanStatus {
    Open,
    Late { days: i32 },
    Repaid,
    Collected,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loan {
    pub application: ApplicationId,
    pub currency: Currency,
    pub yearly_percent: Decimal,
    pub plan: Vec<Instalment>,
    #[serde(default)]
    pub bookings: Vec<Booking>,
    pub email: String,
}

impl Loan {
    pub fn received(&self) -> Result<Money, MoneyError> {
        let payments = self.bookings.iter().filter(|booking| booking.kind == BookingKind::Received);
        Money::sum(self.currency, payments.map(|booking| booking.amount))
    }

    pub fn owed_on(&self, day: Date) -> Result<Money, MoneyError> {
        let due = self.plan.iter().filter(|instalment| instalment.due <= day);
        let planned = due.map(Instalment::total).collect::<Result<Vec<_>, _>>()?;
        let fees = self.bookings.iter().filter(|booking| booking.kind == BookingKind::Fee);
        Money::sum(self.currency, planned.into_iter().chain(fees.map(|booking| booking.amount)))
    }

    pub fn book(&mut self, booking: Booking) {
        self.bookings.push(booking);
        self.bookings.sort_by_key(|booking| booking.day);
    }
}
