//! A builder that fills in the date of creation
//! how: clock

use aether::prelude::*;

struct Invoice {
    customer: String,
    created: jiff::Timestamp,
}

#[derive(Default)]
struct InvoiceBuilder {
    customer: Option<String>,
    created: Option<jiff::Timestamp>,
}

impl InvoiceBuilder {
    fn customer(mut self, name: &str) -> Self {
        self.customer = Some(name.to_owned());
        self
    }

    fn build(self) -> Invoice {
        Invoice {
            customer: self.customer.unwrap_or_default(),
            created: self.created.unwrap_or_else(jiff::Timestamp::now),
        }
    }
}

#[workflow]
pub async fn builder_stamps_creation(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let invoice = InvoiceBuilder::default().customer("Ada").build();
    Ok(format!("{} {}", invoice.customer, invoice.created))
}
