//! What an agent may call, and which calls of one answer are made side by side.

use aether_core::step::Tool;

/// Which tool calls of one answer an agent makes at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parallel {
    /// None: one after the other, in the order in which the model asks for them.
    #[default]
    Nothing,
    /// Calls that change nothing and stand beside each other. One that changes the world begins when all before it have
    /// ended, and ends before the next one begins.
    Reads,
    /// All of them. The model's order means nothing then, also for calls that change the world.
    Everything,
}

/// Tools for an agent: one, a list, or a tuple of up to twelve.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a set of tools",
    label = "give `step::tool()`, a `Vec<Tool>`, or a tuple of up to twelve tools"
)]
pub trait IntoTools {
    /// The tools as a list.
    fn into_tools(self) -> Vec<Tool>;
}

impl IntoTools for Tool {
    fn into_tools(self) -> Vec<Tool> {
        vec![self]
    }
}

impl IntoTools for Vec<Tool> {
    fn into_tools(self) -> Vec<Tool> {
        self
    }
}

impl<const N: usize> IntoTools for [Tool; N] {
    fn into_tools(self) -> Vec<Tool> {
        self.into()
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: Into<Tool>),+> IntoTools for ($($name,)+) {
            #[allow(non_snake_case)]
            fn into_tools(self) -> Vec<Tool> {
                let ($($name,)+) = self;
                vec![$($name.into()),+]
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);
