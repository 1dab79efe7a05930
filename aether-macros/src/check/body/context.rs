//! What is known about a body besides its tokens, and what its kind makes of a finding.

use std::borrow::Cow;

use syn::{Item, Signature};

use crate::diagnostics::code::{self, Code};
use crate::plan::Allow;

/// What is known about a body besides its tokens.
pub(crate) struct BodyContext<'a> {
    pub(crate) signature: &'a Signature,
    pub(crate) allows: &'a [Allow],
    /// Macros that the user vouches for.
    pub(crate) macros: &'a [String],
    /// The items of the module, where `#[workflow_mod]` shows them.
    pub(crate) module: &'a [Item],
}

/// What a body is, as far as its rules go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Workflow,
    Pure,
    Step,
    Http,
    Transaction,
    /// `key` or `approval` of a step.
    OfArguments,
}

impl BodyKind {
    /// Whether a replay, or another try, computes the body again.
    pub(crate) fn is_replayed(self) -> bool {
        matches!(self, Self::Workflow | Self::Pure | Self::OfArguments)
    }

    /// What `code` is called here, if it is a mistake here.
    pub(crate) fn code_here(self, code: &'static Code, client: bool) -> Option<&'static Code> {
        match self {
            Self::Step if client => Some(code::RAW_HTTP),
            Self::Step | Self::Http => is_drawn(code).then_some(code),
            Self::Workflow | Self::Pure | Self::Transaction | Self::OfArguments => Some(code),
        }
    }

    /// What to do instead, where the catalogue's answer is made for workflows.
    pub(crate) fn help(self, code: &Code) -> Cow<'static, str> {
        match self {
            Self::Workflow => code.help.into(),
            Self::Pure => {
                "pass the value as an argument, or choose the effect class that says what the body does"
                    .into()
            }
            Self::OfArguments => {
                "it is asked again when the call is made again, and must say the same: pass the value as an argument of the step"
                    .into()
            }
            Self::Transaction if !is_drawn(code) => {
                "let the transaction change the store's own database only, and move this into a step of its own"
                    .into()
            }
            Self::Step | Self::Http | Self::Transaction => code.help.replace(".await", "").into(),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Workflow => "a workflow",
            Self::Pure => "a pure step",
            Self::Step | Self::Http => "a step",
            Self::Transaction => "a transaction",
            Self::OfArguments => "a function of the arguments",
        }
    }
}

/// Whether it is about a value that the context of a step draws.
fn is_drawn(code: &Code) -> bool {
    [code::CLOCK, code::RANDOM, code::UUID].iter().any(|drawn| drawn.id == code.id)
}
