//! What a lender talks about: money, applicants, applications and loans.

mod application;
mod ids;
mod loan;
mod money;

pub use application::{Applicant, Application, Employment, Purpose};
pub use ids::{AccountNumber, ApplicationId, IdError};
pub use loan::{Booking, BookingKind, Instalment, Loan, LoanStatus};
pub use money::{Currency, Money, MoneyError};
