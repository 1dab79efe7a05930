//! The edits: what is changed in the source of the agent.

/// One edit of the agent.
pub(super) struct Edit {
    pub(super) name: &'static str,
    /// Texts of the source, each of which stands there once, and what replaces them.
    pub(super) changes: &'static [(&'static str, &'static str)],
    /// The edited code itself makes a call again that was made before.
    pub(super) repeats: bool,
}

const fn edit(name: &'static str, changes: &'static [(&'static str, &'static str)]) -> Edit {
    Edit { name, changes, repeats: false }
}

const fn repeating(name: &'static str, changes: &'static [(&'static str, &'static str)]) -> Edit {
    Edit { name, changes, repeats: true }
}

pub(super) const EDITS: &[Edit] = &[
    // Nothing that a run could notice.
    edit(
        "comment_in_workflow",
        &[("// Both are needed.", "// Both are needed, in any order.\n    // See there.")],
    ),
    edit(
        "comment_of_workflow",
        &[("/// Handles an order.", "/// Handles an order of a customer.\n///\n/// All of it.")],
    ),
    edit(
        "comment_in_step",
        &[("called(cx, \"pack\", item);", "// Carefully.\n    called(cx, \"pack\", item);")],
    ),
    edit(
        "blank_lines",
        &[("    let cents = price(&order.items);", "\n\n    let cents = price(&order.items);\n\n")],
    ),
    edit(
        "rename_variable",
        &[
            ("let receipt = charge", "let paid = charge"),
            ("&format!(\"{receipt}: {sent}\")", "&format!(\"{paid}: {sent}\")"),
            ("\"{receipt}, {stocks} in stock, {word}\"", "\"{paid}, {stocks} in stock, {word}\""),
        ],
    ),
    edit(
        "move_functions",
        &[
            (
                "/// What something costs.\nfn price(items: &[String]) -> u64 {\n    items.iter().map(|item| item.len() as u64 * 100).sum()\n}\n",
                "",
            ),
            (
                "fn main() {",
                "/// What something costs.\nfn price(items: &[String]) -> u64 {\n    items.iter().map(|item| item.len() as u64 * 100).sum()\n}\n\nfn main() {",
            ),
        ],
    ),
    edit(
        "extract_helper",
        &[
            ("let cents = price(&order.items);", "let cents = total(&order);"),
            ("fn main() {", "fn total(order: &Order) -> u64 {\n    price(&order.items)\n}\n\nfn main() {"),
        ],
    ),
    edit(
        "extract_async_helper",
        &[
            (
                "let receipt = charge(cx, &who.name, cents).await?;",
                "let receipt = pay(cx, &who.name, cents).await?;",
            ),
            (
                "fn main() {",
                "/// Pays.\n#[workflow]\nasync fn pay(cx: &mut Cx, who: String, cents: u64) -> Result<String> {\n    Ok(charge(cx, &who, cents).await?)\n}\n\nfn main() {",
            ),
            ("pay(cx, &who.name, cents)", "pay(cx, who.name.clone(), cents)"),
        ],
    ),
    // Bodies of steps.
    edit("body_of_read", &[("Ok(item.len() as u32)", "Ok(item.len() as u32 + 1)")]),
    edit("body_of_tool", &[("Ok(format!(\"box of {item}\"))", "Ok(format!(\"crate of {item}\"))")]),
    edit("body_refuses_others", &[("if who == \"eve\"", "if who == \"eve\" || who == \"mallory\"")]),
    edit("body_forgives", &[("if who == \"eve\"", "if who == \"mallory\"")]),
    // Options of steps.
    edit("more_retries", &[("retry(max_retries = 2)", "retry(max_retries = 5)")]),
    edit("no_retries", &[("effect = \"tool\", idempotent, retry(max_retries = 2)", "effect = \"tool\"")]),
    edit(
        "retry_of_read",
        &[(
            "#[step(effect = \"read\")]\nasync fn customer",
            "#[step(effect = \"read\", retry(max_retries = 3))]\nasync fn customer",
        )],
    ),
    edit(
        "timeout_of_tool",
        &[(
            "#[step(effect = \"tool\")]\nasync fn pack",
            "#[step(effect = \"tool\", timeout = \"30s\")]\nasync fn pack",
        )],
    ),
    edit(
        "idempotent_tool",
        &[(
            "#[step(effect = \"tool\")]\nasync fn tell",
            "#[step(effect = \"tool\", idempotent, on_unknown = \"retry\")]\nasync fn tell",
        )],
    ),
    edit(
        "irreversible_tool",
        &[("effect = \"tool\", idempotent, retry(max_retries = 2)", "effect = \"tool\", irreversible")],
    ),
    edit(
        "approval_of_tool",
        &[(
            "#[step(effect = \"tool\")]\nasync fn pack",
            "#[step(effect = \"tool\", approval = \"required\")]\nasync fn pack",
        )],
    ),
    edit("no_compensation", &[("effect = \"tool\", compensate = free", "effect = \"tool\"")]),
    edit(
        "other_compensation",
        &[
            ("effect = \"tool\", compensate = free", "effect = \"tool\", compensate = release"),
            (
                "/// Takes the money.",
                "/// Releases what was reserved.\n#[step(effect = \"tool\")]\nasync fn release(cx: &mut StepCx, item: &str, pieces: u32, reserved: Option<&str>) -> Result<()> {\n    called(cx, \"release\", (item, pieces, reserved));\n    Ok(())\n}\n\n/// Takes the money.",
            ),
        ],
    ),
    edit(
        "new_compensation",
        &[
            (
                "effect = \"tool\", idempotent, retry(max_retries = 2)",
                "effect = \"tool\", idempotent, retry(max_retries = 2), compensate = refund",
            ),
            (
                "/// Packs an item.",
                "/// Gives the money back.\n#[step(effect = \"tool\")]\nasync fn refund(cx: &mut StepCx, who: &str, cents: u64, receipt: Option<&str>) -> Result<()> {\n    called(cx, \"refund\", (who, cents, receipt));\n    Ok(())\n}\n\n/// Packs an item.",
            ),
        ],
    ),
    edit(
        "read_becomes_tool",
        &[("#[step(effect = \"read\")]\nasync fn stock", "#[step(effect = \"tool\")]\nasync fn stock")],
    ),
    edit(
        "tool_becomes_external",
        &[("#[step(effect = \"tool\")]\nasync fn pack", "#[step(effect = \"external\")]\nasync fn pack")],
    ),
    // Steps that are new, gone, moved or called otherwise.
    edit(
        "add_at_start",
        &[(
            "    let name = order.customer.clone();",
            "    let _known = stock(cx, \"all\").await?;\n    let name = order.customer.clone();",
        )],
    ),
    edit(
        "add_before_charge",
        &[(
            "    let receipt = charge",
            "    let _known = stock(cx, \"all\").await?;\n    let receipt = charge",
        )],
    ),
    edit(
        "add_at_end",
        &[(
            "    Ok(format!(\"{receipt}, {stocks}",
            "    tell(cx, \"good bye\").await?;\n    Ok(format!(\"{receipt}, {stocks}",
        )],
    ),
    edit(
        "add_tool_before_child",
        &[("    let sent = cx.child", "    tell(cx, \"it is packed now\").await?;\n    let sent = cx.child")],
    ),
    edit(
        "remove_last_tell",
        &[("    tell(cx, &format!(\"{receipt}: {sent}\")).await?;\n", "    drop(sent);\n")],
    ),
    edit(
        "remove_charge",
        &[("charge(cx, &who.name, cents).await?", "format!(\"{} pays {cents} later\", who.name)")],
    ),
    edit("remove_signal", &[("cx.signal(\"delivered\").await?", "\"sent\".to_owned()")]),
    edit("remove_sleep", &[("    cx.sleep(Duration::from_millis(5)).await;\n    tell", "    tell")]),
    edit(
        "remove_sleep_of_child",
        &[(
            "    cx.sleep(Duration::from_millis(5)).await;\n    Ok(format!(\"{boxed}",
            "    Ok(format!(\"{boxed}",
        )],
    ),
    edit(
        "swap_signal_and_child",
        &[(
            "    let sent = cx.child::<parcel>(order.items[0].clone()).await?;\n    let word: String = cx.signal(\"delivered\").await?;",
            "    let word: String = cx.signal(\"delivered\").await?;\n    let sent = cx.child::<parcel>(order.items[0].clone()).await?;",
        )],
    ),
    edit(
        "swap_charge_and_consent",
        &[
            ("    let receipt = charge(cx, &who.name, cents).await?;\n", ""),
            (
                "    let cents = price(&order.items);\n",
                "    let cents = price(&order.items);\n    let receipt = charge(cx, &who.name, cents).await?;\n",
            ),
        ],
    ),
    edit(
        "swap_tell_and_sleep",
        &[(
            "    cx.sleep(Duration::from_millis(5)).await;\n    tell(cx, &format!(\"{receipt}: {sent}\")).await?;",
            "    tell(cx, &format!(\"{receipt}: {sent}\")).await?;\n    cx.sleep(Duration::from_millis(5)).await;",
        )],
    ),
    edit(
        "rename_read",
        &[("async fn stock(", "async fn in_stock("), ("all += stock(cx", "all += in_stock(cx")],
    ),
    edit("rename_tool", &[("async fn pack(", "async fn wrap("), ("= pack(cx", "= wrap(cx")]),
    edit(
        "rename_tool_that_says_so",
        &[
            (
                "#[step(effect = \"tool\")]\nasync fn pack(",
                "#[step(effect = \"tool\", of = \"pack\")]\nasync fn wrap(",
            ),
            ("= pack(cx", "= wrap(cx"),
        ],
    ),
    // Another function of the same name.
    edit(
        "other_tool_of_one_name",
        &[
            (
                "    tell(cx, &format!(\"{receipt}: {sent}\")).await?;",
                "    phone::tell(cx, &format!(\"{receipt}: {sent}\")).await?;",
            ),
            (
                "fn main() {",
                "mod phone {\n    use super::*;\n\n    /// Tells the customer, by phone.\n    #[step(effect = \"tool\")]\n    pub async fn tell(cx: &mut StepCx, text: &str) -> Result<()> {\n        called(cx, \"tell\", text);\n        Ok(())\n    }\n}\n\nfn main() {",
            ),
        ],
    ),
    edit(
        "other_child_of_one_name",
        &[
            ("cx.child::<parcel>", "cx.child::<letters::parcel>"),
            (
                "fn main() {",
                "mod letters {\n    use super::*;\n\n    /// Sends one parcel, as a letter.\n    #[workflow]\n    pub async fn parcel(cx: &mut Cx, item: String) -> Result<String> {\n        let boxed = pack(cx, &item).await?;\n        cx.sleep(Duration::from_millis(5)).await;\n        Ok(format!(\"{boxed} is in the letter box\"))\n    }\n}\n\nfn main() {",
            ),
        ],
    ),
    edit("rename_signal", &[("cx.signal(\"delivered\")", "cx.signal(\"arrived\")")]),
    edit("rename_approval", &[("cx.approval(\"large order\")", "cx.approval(\"order\")")]),
    edit("other_approval", &[(".named(\"consent\")", ".named(\"budget\")")]),
    edit("nameless_approval", &[(".named(\"consent\")", "")]),
    edit("other_arguments", &[("reserve(cx, &item, 1)", "reserve(cx, &item, 2)")]),
    edit("other_text", &[("tell(cx, \"it took too long\")", "tell(cx, \"you were too slow\")")]),
    edit("other_price", &[("as u64 * 100)", "as u64 * 90)")]),
    edit(
        "longer_sleep",
        &[(
            "cx.sleep(Duration::from_millis(5)).await;\n    tell",
            "cx.sleep(Duration::from_millis(9)).await;\n    tell",
        )],
    ),
    edit("other_patience", &[("Duration::from_millis(patience)", "Duration::from_millis(patience + 1)")]),
    // Loops, branches and conditions.
    repeating(
        "wrap_in_loop",
        &[(
            "    tell(cx, &format!(\"{receipt}: {sent}\")).await?;",
            "    for _time in 0..2 {\n        tell(cx, &format!(\"{receipt}: {sent}\")).await?;\n    }",
        )],
    ),
    edit(
        "loop_once",
        &[(
            "    tell(cx, &format!(\"{receipt}: {sent}\")).await?;",
            "    for _time in 0..1 {\n        tell(cx, &format!(\"{receipt}: {sent}\")).await?;\n    }",
        )],
    ),
    edit(
        "under_a_condition",
        &[(
            "    tell(cx, &format!(\"{receipt}: {sent}\")).await?;",
            "    if stocks > 100 {\n        tell(cx, &format!(\"{receipt}: {sent}\")).await?;\n    }",
        )],
    ),
    edit(
        "under_a_true_condition",
        &[(
            "    let receipt = charge(cx, &who.name, cents).await?;",
            "    let receipt = if cents > 0 { charge(cx, &who.name, cents).await? } else { String::new() };",
        )],
    ),
    edit("other_condition", &[("    if !consent(cx", "    if cents > 1_000 && !consent(cx")]),
    edit(
        "into_a_branch",
        &[(
            "    let receipt = charge(cx, &who.name, cents).await?;",
            "    let name = who.name.clone();\n    let (receipt, _more) = cx\n        .join((async |cx: &mut Cx| charge(cx, &name, cents).await, async |cx: &mut Cx| stock(cx, \"all\").await))\n        .await;\n    let receipt = receipt?;",
        )],
    ),
    edit(
        "third_branch",
        &[
            ("let (who, stocks) = cx", "let (who, stocks, more) = cx"),
            (
                "                Ok(all)\n            },\n        ))\n        .await;\n    let (who, stocks) = (who?, stocks?);",
                "                Ok(all)\n            },\n            async |cx: &mut Cx| stock(cx, \"all\").await,\n        ))\n        .await;\n    let (who, stocks, _more) = (who?, stocks?, more?);",
            ),
        ],
    ),
    edit(
        "branches_swapped",
        &[
            ("            async |cx: &mut Cx| customer(cx, &name).await,\n", ""),
            (
                "                Ok(all)\n            },\n        ))\n        .await;\n    let (who, stocks) =",
                "                Ok(all)\n            },\n            async |cx: &mut Cx| customer(cx, &name).await,\n        ))\n        .await;\n    let (stocks, who) =",
            ),
        ],
    ),
    edit(
        "join_in_sequence",
        &[(
            "    let (who, stocks) = cx\n        .join((\n            async |cx: &mut Cx| customer(cx, &name).await,\n            async |cx: &mut Cx| -> Result<u32> {\n                let mut all = 0;\n                for item in &items {\n                    all += stock(cx, item).await?;\n                }\n                Ok(all)\n            },\n        ))\n        .await;\n    let (who, stocks) = (who?, stocks?);",
            "    let who = customer(cx, &name).await?;\n    let mut stocks = 0;\n    for item in &items {\n        stocks += stock(cx, item).await?;\n    }",
        )],
    ),
    edit("larger_limit", &[(".limit(2)", ".limit(3)")]),
    edit("smaller_limit", &[(".limit(2)", ".limit(1)")]),
    edit(
        "each_becomes_loop",
        &[(
            "    let reserved = cx\n        .each(order.items.clone(), async |cx: &mut Cx, item| reserve(cx, &item, 1).await)\n        .limit(2)\n        .await;\n    for piece in reserved {\n        let _piece = piece?;\n    }",
            "    for item in &order.items {\n        let _piece = reserve(cx, item, 1).await?;\n    }",
        )],
    ),
    edit(
        "each_in_other_order",
        &[(
            ".each(order.items.clone(), async",
            ".each(order.items.iter().rev().cloned().collect::<Vec<_>>(), async",
        )],
    ),
    edit(
        "each_of_fewer",
        &[(
            ".each(order.items.clone(), async",
            ".each(order.items.iter().take(1).cloned().collect::<Vec<_>>(), async",
        )],
    ),
    edit(
        "error_is_caught",
        &[(
            "    let receipt = charge(cx, &who.name, cents).await?;",
            "    let receipt = match charge(cx, &who.name, cents).await {\n        Ok(receipt) => receipt,\n        Err(StepError::App(_)) => return Ok(\"no money\".to_owned()),\n        Err(other) => return Err(other.into()),\n    };",
        )],
    ),
    // The workflows that it calls.
    edit("callee_asks_more", &[("    Ok(agreed)", "    let _seen = cx.now().await;\n    Ok(agreed)")]),
    edit(
        "callee_waits_no_more",
        &[(
            "async |cx: &mut Cx| -> Result<bool> {\n                cx.sleep(Duration::from_millis(patience)).await;\n                Ok(false)\n            },\n",
            "async |cx: &mut Cx| -> Result<bool> {\n                let _seen = cx.now().await;\n                cx.sleep(Duration::from_millis(patience)).await;\n                Ok(false)\n            },\n",
        )],
    ),
    edit(
        "callee_inlined",
        &[(
            "    if !consent(cx, cents, order.patience).await? {",
            "    let agreed = cx.approval(\"large order\").named(\"consent\").details(&cents).expires(Duration::from_millis(order.patience)).await?.is_approved();\n    if !agreed {",
        )],
    ),
    edit(
        "child_asks_more",
        &[("    let boxed = pack", "    let _seen = cx.now().await;\n    let boxed = pack")],
    ),
    edit(
        "child_becomes_inline",
        &[("cx.child::<parcel>(order.items[0].clone()).await?", "parcel(cx, order.items[0].clone()).await?")],
    ),
    edit(
        "child_is_only_started",
        &[(
            "cx.child::<parcel>(order.items[0].clone()).await?",
            "cx.start_child::<parcel>(order.items[0].clone()).await?.id().to_string()",
        )],
    ),
    edit(
        "child_of_other_item",
        &[(
            "cx.child::<parcel>(order.items[0].clone())",
            "cx.child::<parcel>(order.items[order.items.len() - 1].clone())",
        )],
    ),
    edit(
        "child_renamed",
        &[("async fn parcel(", "async fn packet("), ("cx.child::<parcel>", "cx.child::<packet>")],
    ),
    // Versions and shapes of data.
    edit(
        "version",
        &[("/// Handles an order.\n#[workflow]", "/// Handles an order.\n#[workflow(version = 2)]")],
    ),
    edit("another_result", &[("{stocks} in stock, {word}", "{word}, {stocks}")]),
    edit("no_compensate", &[("        let _undone = cx.compensate().await;\n", "")]),
    edit(
        "recorded_time",
        &[(
            "    let cents = price(&order.items);",
            "    let _begun = cx.now().await;\n    let cents = price(&order.items);",
        )],
    ),
];
