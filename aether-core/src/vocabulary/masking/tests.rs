//! What is found, and what is put in its place.

use super::*;

#[test]
fn redacting_finds_names_bearers_parameters_and_json_in_strings() {
    let masking = Masking::standard().key("x-internal");
    let cases = [
        (
            r#"{"X-Api-Key":"s","a":[{"refresh_token":"t"}]}"#,
            r#"{"X-Api-Key":"***","a":[{"refresh_token":"***"}]}"#,
        ),
        (r#"{"usage":{"input_tokens":5},"max_tokens":3}"#, r#"{"usage":{"input_tokens":5},"max_tokens":3}"#),
        (r#"{"t":"see https://h/?a=1&api_key=k1&b=2"}"#, r#"{"t":"see https://h/?a=1&api_key=***&b=2"}"#),
        (r#"{"t":"Authorization: Bearer abcdefghijklmnop, ok"}"#, r#"{"t":"Authorization: Bearer ***, ok"}"#),
        (r#"{"t":"a basic idea"}"#, r#"{"t":"a basic idea"}"#),
        (r#"{"text":"{\"password\":\"p\",\"n\":1}"}"#, r#"{"text":"{\"password\":\"***\",\"n\":1}"}"#),
        (r#"{"x_internal":{"deep":["v",7]}}"#, r#"{"x_internal":{"deep":["***",0]}}"#),
        ("token=abc&x=1", "token=***&x=1"),
        (
            "access_key=s&subscription-key=t&jwt=u&sort_key=v",
            "access_key=***&subscription-key=***&jwt=***&sort_key=v",
        ),
    ];
    for (before, after) in cases {
        assert_eq!(masking.redact(before), after);
        assert_eq!(masking.redact(after), after, "twice is once");
        assert_eq!(Masking::off().redact(before), before);
    }
}

#[test]
fn of_secrets_that_overlap_no_part_stays() {
    let password = Masking::standard().text("Tr0ub4dor&3xyz");
    let nested = Masking::only().text("correct").text("correct-horse").text("horse-battery");
    let found = Masking::only().find(|_| vec![6..9, 0..4, 2..7, 11..12]);
    let cases = [
        (&password, r#"{"t":"password=Tr0ub4dor&3xyz"}"#, r#"{"t":"password=***"}"#),
        (&password, "password=Tr0ub4dor&3xyz&b=2", "password=***&b=2"),
        (&nested, r#"["a correct-horse, correct"]"#, r#"["a ***, ***"]"#),
        (&nested, r#"["correct-horse-battery"]"#, r#"["***"]"#),
        (&nested, r#"{"of correct-horse":1}"#, r#"{"of ***":1}"#),
        (&found, "0123456789abcdef", "***9a***cdef"),
    ];
    for (masking, before, after) in cases {
        assert_eq!(masking.redact(before), after);
    }
    let (mut secrets, json) = (Secrets::default(), r#"["password=Tr0ub4dor&3xyz","Tr0ub4dor"]"#);
    secrets.search(&password, json, false);
    secrets.settle();
    let masked = secrets.replace(&password, json, false).unwrap();
    assert!(!masked.contains("Tr0ub4dor") && !masked.contains("3xyz"), "{masked}");
}

#[test]
fn a_known_text_is_found_as_a_number_and_in_names() {
    let masking = Masking::only()
        .text("48151623")
        .find(|text| text.match_indices("sk-").map(|(at, _)| at..text.len()).collect());
    let json = r#"{"pin":48151623,"n":4815162342,"of sk-1":[48151623,"48151623"]}"#;
    let redacted = masking.redact(json);
    assert_eq!(redacted, r#"{"pin":0,"n":4815162342,"of ***":[0,"***"]}"#);
    assert_eq!(masking.redact(&redacted), redacted, "twice is once");
}

#[test]
fn one_secret_has_one_stand_in_of_its_shape() {
    let mut secrets = Secrets::default();
    let masking = Masking::standard();
    let json = r#"{"token":"f47ac10b-58cc-4372-a567-0e02b2c3d479","pwd":"123456","secret":"hunter2!","password":"ab"}"#;
    secrets.search(&masking, json, false);
    secrets.settle();
    assert_eq!(secrets.len(), 4);
    let masked = secrets.replace(&masking, json, false).unwrap();
    assert_eq!(
        masked,
        r#"{"token":"00000000-0000-4000-8000-000000000001","pwd":"000002","secret":"masked-3","password":"masked-4"}"#
    );
    let numbers = secrets.replace(&masking, r#"{"token":12,"at":"10:00:00.123456Z"}"#, false);
    assert_eq!(numbers.as_deref(), Some(r#"{"token":0,"at":"10:00:00.123456Z"}"#));
    let elsewhere = r#"{"said":"it was hunter2! (ab)","login":"{\"pw\":\"hunter2!\"}"}"#;
    let masked = secrets.replace(&masking, elsewhere, false).unwrap();
    assert_eq!(masked, r#"{"said":"it was masked-3 (ab)","login":"{\"pw\":\"masked-3\"}"}"#);
}

#[test]
fn what_no_text_can_hold_hides_no_secret() {
    let masking = Masking::standard();
    let cases = [
        (r#"{"\ud800":1,"password":"hunter2"}"#, r#"{"\ud800":1,"password":"***"}"#),
        (r#"{"a":[{"password":"hunter2","x":"\udc00"}]}"#, r#"{"a":[{"password":"***","x":"\udc00"}]}"#),
        (r#"{"password":"hunter2\ud800"}"#, r#"{"password":"***"}"#),
        (r#"["{\"\\ud800\":1,\"password\":\"hunter2\"}"]"#, r#"["{\"\\ud800\":1,\"password\":\"***\"}"]"#),
    ];
    for (before, after) in cases {
        assert_eq!(masking.redact(before), after);
        assert_eq!(masking.redact(after), after, "twice is once");
    }
    let said = masking.redact(r#"["\ud800 token=hunter2"]"#);
    assert!(said.contains("token=***"), "{said}");
    let mut secrets = Secrets::default();
    cases.iter().for_each(|(json, _)| secrets.search(&masking, json, false));
    secrets.settle();
    let masked = secrets.replace(&masking, r#"{"\ud800":"it is hunter2"}"#, false).unwrap();
    assert_eq!(masked, r#"{"\ud800":"it is masked-1"}"#);
}

#[test]
fn a_text_full_of_names_of_secrets_takes_no_more_than_its_length() {
    let masking = Masking::standard();
    for piece in ["token=", "cb1.", "bearer=token=", "cb1.61.62.0.aa.token="] {
        let text = piece.repeat((1 << 20) / piece.len());
        let said = serde_json::json!([text]).to_string();
        let mut secrets = Secrets::default();
        secrets.search(&masking, &said, false);
        assert!(secrets.len() <= 2 * crate::vocabulary::spans::WITHIN + 1, "{piece}: {}", secrets.len());
        let redacted = masking.redact(&said);
        assert!(!redacted.contains("token=token="), "{piece}");
        assert_eq!(masking.redact(&redacted), redacted, "twice is once");
    }
}

#[test]
fn what_an_error_quotes_of_an_answer_is_searched() {
    let masking = Masking::standard().key("pin");
    let cases = [
        (
            r#"POST https://h/: status 401: "{\"password\":\"hunter2\",\"pin\":1234,\"n\":1"#,
            r#"POST https://h/: status 401: "{\"password\":\"***\",\"pin\":***,\"n\":1"#,
        ),
        (
            r#"{"message":"it said {\"client_secret\": \"hunt"}"#,
            r#"{"message":"it said {\"client_secret\": \"***"}"#,
        ),
    ];
    for (before, after) in cases {
        assert_eq!(masking.redact(before), after);
        assert_eq!(masking.redact(after), after, "twice is once");
    }
}

/// JSON in strings in JSON: in each of the levels so many arrays around the next one, and a secret in the innermost.
fn strings_in_strings(levels: usize, arrays: usize) -> String {
    (0..levels).fold(r#"{"password":"hunter2"}"#.to_owned(), |inner, _| {
        format!("{}{}{}", "[".repeat(arrays), quoted(&inner), "]".repeat(arrays))
    })
}

#[test]
fn json_in_strings_in_json_takes_no_more_of_the_stack_than_other_json() {
    let looked_into = || {
        let masking = Masking::standard();
        for (levels, arrays) in
            [(0, 0), (1, 98), (3, 33), (4, 24), (4, 25), (2, 99), (12, 99), (12, 1), (1, 50_000)]
        {
            let deep = strings_in_strings(levels, arrays);
            let redacted = masking.redact(&deep);
            assert!(!redacted.contains("hunter2") && redacted.contains(MASK), "{levels} levels of {arrays}");
            assert_eq!(redacted.contains("password"), levels * arrays < 100, "{levels} levels of {arrays}");
            assert_eq!(masking.redact(&redacted), redacted, "twice is once");
            let mut secrets = Secrets::default();
            secrets.search(&masking, &deep, false);
            secrets.settle();
            let replaced = secrets.replace(&masking, &deep, false).unwrap_or_default();
            assert!(!replaced.is_empty() && !replaced.contains("hunter2"), "{levels} levels of {arrays}");
        }
    };
    std::thread::Builder::new().stack_size(512 << 10).spawn(looked_into).unwrap().join().unwrap();
}
