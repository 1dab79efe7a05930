//! What is told of functions.

/// What is told of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) krate: String,
    pub(crate) place: Place,
    pub(crate) oddity: Oddity,
}

/// A function of the workspace, as MIR names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The end of a path: MIR leaves modules out where a name is the only one.
    Path(String),
    /// A method: its name, where its `impl` begins, and where the next `impl` of the file begins that has a method of this name.
    Method { name: String, file: String, line: u32, next: Option<u32> },
}

/// What is told of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Oddity {
    /// It makes a number of an address.
    AddressAsNumber,
    /// It asks which of two addresses is the lower one.
    OrderOfAddresses,
    Assembly,
    /// A closure of two arguments that adds the second to the first, or the like.
    CommutativeFold,
    /// A closure that tells two arguments apart by this part: it compares it, or returns it as the key of a sort.
    Compares(Part),
    /// What a closure returns has the first field of its argument as this part.
    Keeps(Part),
    /// A closure that changes something that it captures.
    ChangesCaptured,
    /// An order of a struct that some of its fields are no part of.
    ComparesInPart,
    /// It goes through hash maps to change their entries, and each time it changes the entry alone.
    ChangesEach,
}

impl Oddity {
    /// The part that a closure compares.
    pub(crate) const fn compared(self) -> Option<Part> {
        if let Self::Compares(part) = self { Some(part) } else { None }
    }

    /// Where a closure keeps the first field of its argument.
    pub(crate) const fn kept(self) -> Option<Part> {
        if let Self::Keeps(part) = self { Some(part) } else { None }
    }
}

/// A part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Whole,
    Field(usize),
}

impl Part {
    /// The part that these fields lead to; of fields of fields, none is told.
    pub(super) fn of(fields: &[usize]) -> Option<Self> {
        match fields {
            [] => Some(Self::Whole),
            [field] => Some(Self::Field(*field)),
            _ => None,
        }
    }
}

impl Place {
    /// The last name in it, as symbols have it.
    pub(crate) fn last(&self) -> &str {
        let path = match self {
            Self::Path(path) => path,
            Self::Method { name, .. } => name,
        };
        path.rsplit("::").find(|name| !name.starts_with('{')).unwrap_or(path)
    }
}

impl Oddity {
    /// The kind of source that it is, and its name, where it is one.
    pub(crate) const fn source(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::AddressAsNumber => Some(("address", "an address as a number")),
            Self::OrderOfAddresses => Some(("address", "the order of addresses")),
            Self::Assembly => Some(("foreign", "assembly")),
            Self::CommutativeFold
            | Self::Compares(_)
            | Self::Keeps(_)
            | Self::ChangesCaptured
            | Self::ComparesInPart
            | Self::ChangesEach => None,
        }
    }
}
