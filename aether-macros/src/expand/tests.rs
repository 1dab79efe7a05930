//! Expansions as text: what the attributes make of a few items is compared with `aether-macros/expanded/*.rs`.
//!
//! `AETHER_BLESS=1 cargo test -p aether-macros expand` writes the texts anew.

use std::fs;
use std::path::Path;

use proc_macro2::TokenStream;

use crate::parse::kind::Kind;

fn expanded(kind: Kind, options: &str, item: &str) -> String {
    let parse = |text: &str| -> TokenStream { text.parse().unwrap() };
    let tokens = crate::attribute::item::compile(kind, parse(options), parse(item));
    prettyplease::unparse(&syn::parse2(tokens).unwrap())
}

fn compare(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("expanded").join(name).with_extension("rs");
    if std::env::var_os("AETHER_BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(known, text, "`{}` differs; bless it if the new expansion is right", file.display());
}

#[test]
fn a_step() {
    let text = expanded(
        Kind::Step,
        r#"effect = "tool", key = |to| to, probe = was_sent, retry(max_retries = 2), allow(clock, reason = "measures")"#,
        r#"
        /// Send an e-mail.
        pub async fn send(cx: &mut StepCx, /** Address. */ to: &str, copies: Option<&str>) -> Result<Receipt> {
            post(cx, to).await
        }
        "#,
    );
    compare("step", &text);
}

#[test]
fn a_guarded_step() {
    let options = r#"
        effect = "external", irreversible, scope = "store", approval = |cents: &u64| *cents > 10_000,
        changes = ["http"], confirm = "ask", compensate = bank::Account::refund, heartbeat = "10s", limit = "bank",
        retry(max_retries = 1, jitter = 0.5), probe = Self::was_paid
    "#;
    let item = "async fn pay(cx: &mut StepCx, cents: u64) -> Result<Receipt> { send(cx, cents).await }";
    compare("guarded_step", &expanded(Kind::Step, options, item));
}

#[test]
fn a_step_that_was_moved() {
    let path = |of: &str| {
        let options = format!(r#"effect = "tool", irreversible, of = "{of}""#);
        let item = "async fn dispatch(cx: &mut StepCx, order: &str) -> Result<()> { send(cx, order).await }";
        let text = expanded(Kind::Step, &options, item);
        let line = |start: &str| {
            let line = text.lines().map(str::trim).find(|line| line.starts_with(start));
            line.map(str::to_owned).unwrap_or_default()
        };
        (line("name:"), line("path:"))
    };
    let told = |name: &str, path: &str| (format!("name: \"{name}\","), format!("path: {path},"));
    assert_eq!(path("shop::main::ship"), told("ship", "\"shop::main::ship\""));
    assert_eq!(path("shop::Depot::ship"), told("Depot_ship", "\"shop::Depot::ship\""));
    assert_eq!(path("ship"), told("ship", "::core::concat!(::core::module_path!(), \"::\", \"ship\")"));
}

#[test]
fn a_generic_pure_step() {
    let item = "async fn first<T: Clone>(items: &[T], otherwise: impl Into<T>) -> Result<T> { pick(items) }";
    compare("generic_step", &expanded(Kind::Step, r#"effect = "pure""#, item));
}

#[test]
fn a_workflow() {
    let text = expanded(
        Kind::Workflow,
        "version = 2, crate = \"durable\"",
        r#"
        /// Triage.
        async fn triage(cx: &mut Cx, ticket: Ticket, note: &str) -> Result<Verdict> {
            for hit in search(cx, &ticket.text).await? {
                if hit.spent.elapsed() > LIMIT {
                    break;
                }
            }
            let (a, b) = cx.join((
                async |cx: &mut Cx| cx.now().await,
                async |cx: &mut Cx| rank(cx, note).await,
            )).await;
            Ok(judge(a, b?))
        }
        "#,
    );
    compare("workflow", &text);
}

#[test]
fn what_is_taken_is_declared() {
    let step = expanded(
        Kind::Step,
        r#"effect = "tool", needs(Desk)"#,
        "async fn send(cx: &mut StepCx) -> Result<()> { cx.dep::<Mailer>()?; cx.dep::<Desk>()?; Ok(()) }",
    );
    assert!(
        step.contains("Need::provided::<Desk>()") && step.contains("Need::provided::<Mailer>()"),
        "{step}"
    );
    let flow = r"async fn flow(cx: &mut Cx) -> Result<()> {
        let rules: Rules = cx.config().await?;
        cx.join((async |cx: &mut Cx| cx.config::<Prices>().await?, async |other: &mut Cx| rules)).await;
        Ok(())
    }";
    let flow = expanded(Kind::Workflow, "", flow);
    assert!(
        flow.contains("Need::provided::<Rules>()") && flow.contains("Need::provided::<Prices>()"),
        "{flow}"
    );
}

#[test]
fn an_impl_block() {
    let text = expanded(
        Kind::Workflow,
        "",
        r#"
        impl Agent {
            /// Looks.
            #[step(effect = "read")]
            async fn look(cx: &mut StepCx, at: &Self) -> Result<u32> { Ok(at.0) }
            pub async fn run(cx: &mut Cx, agent: Self) -> Result<u32> { Ok(Self::look(cx, &agent).await?) }
            fn plain(&self) -> u32 { self.0 }
        }
        "#,
    );
    compare("impl_block", &text);
}

#[test]
fn a_mistake_keeps_the_shape() {
    let item = "async fn flow(cx: &mut Cx, id: u32) -> Result<u32> { std::thread::park(); Ok(id) }";
    compare("mistake", &expanded(Kind::Workflow, "", item));
}

#[test]
fn a_module_passes_on_what_names_mean() {
    let item = r#"
        mod agent {
            use std::time::SystemTime as Clock;
            type Watch = std::time::Instant;
            static STATE: Mutex<u32> = Mutex::new(0);
            fn helper() {}
            #[workflow(version = 2)]
            async fn flow(cx: &mut Cx) -> Result<()> { Ok(()) }
        }
    "#;
    let tokens = crate::attribute::module::compile(
        &"allow(env, reason = \"same\")".parse().unwrap(),
        item.parse().unwrap(),
    );
    compare("module", &prettyplease::unparse(&syn::parse2(tokens).unwrap()));
}
