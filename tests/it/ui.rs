//! What compiles and what does not, with the messages as people see them.
//!
//! `TRYBUILD=overwrite cargo test --test it ui` writes the messages anew.

#[test]
fn mistakes_do_not_compile_and_remedies_do() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/*/pass/*.rs");
    cases.compile_fail("tests/ui/*/fail/*.rs");
}
