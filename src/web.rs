//! The console: runs, their timelines, and an inbox where people decide, in a browser. For programs that serve it.

pub use aether_web::{
    Actions, Console, NoRandomness, Options, Role, ServeError, Server, User, bind, console, serve,
};
