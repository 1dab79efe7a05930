//! Which attribute it is.

use syn::Attribute;

/// Which attribute it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Step,
    Workflow,
}

impl Kind {
    /// Which of the two an attribute is, if it is one of them.
    pub(crate) fn of(attribute: &Attribute) -> Option<Self> {
        let last = attribute.path().segments.last()?;
        match last.ident.to_string().as_str() {
            "workflow" => Some(Self::Workflow),
            "step" => Some(Self::Step),
            _ => None,
        }
    }

    pub(crate) fn attribute(self) -> &'static str {
        match self {
            Self::Step => "#[step]",
            Self::Workflow => "#[workflow]",
        }
    }
}
