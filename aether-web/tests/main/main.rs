//! The console over real HTTP, on a real engine with a file of SQLite; and in a real browser.

#![allow(clippy::unwrap_used, clippy::expect_used)]

aether::allow_missing_deps!("each test runs a few of the workflows that are linked here");

mod actions;
mod attacks;
mod browser;
mod decisions;
mod doors;
mod kit;
mod lists;
mod live;
mod pages;
mod screens;
mod stories;
mod tabs;
