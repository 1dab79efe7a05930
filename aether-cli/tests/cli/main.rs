//! The command line, as a program: on the files of programs that run, that were killed, and on files that are none.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod beside;
mod colour;
mod decisions;
mod desk;
mod development;
mod encrypted;
mod every_command;
mod exit_codes;
mod files;
mod hostile;
mod kit;
mod many;
mod pages;
mod untouched;
