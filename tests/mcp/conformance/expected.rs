//! What passes of the conformance suite, and what does not, with the reason.

/// The scenarios of one run of the suite. Each is in one of the two lists.
pub(super) struct Expected {
    pub(super) passes: &'static [&'static str],
    /// Why, and which: those that fail, or check nothing that there is here. Behind a colon are the checks that fail where
    /// the others of the scenario pass.
    pub(super) apart: &'static [(&'static str, &'static [&'static str])],
}

impl Expected {
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        let apart = self.apart.iter().flat_map(|(_, scenarios)| scenarios.iter());
        let name = |scenario: &&'static str| scenario.split(':').next().unwrap_or_default();
        self.passes.iter().chain(apart).map(name)
    }
}

/// Its name, the arguments, and what is expected.
pub(super) type Run = (&'static str, &'static [&'static str], Expected);

const NO_OAUTH: &str =
    "a token is given by the program: this client makes no OAuth flow, and says `not authorized`";
const TOOLS_ALONE: &str = "this server has tools, and no resources, prompts, completions and skills";
const TEXT_AND_VALUES: &str = "the result of a workflow is its value: as text, and structured; not as media";
const NO_LOGS: &str = "logs and progress of a run are not sent to its caller";
const NO_MODEL_NO_ROOTS: &str = "a run asks people, and not the client's model, nor for its roots";
const OLDER_ARE_NOT_ASKED: &str =
    "clients of the older protocols are not asked within an open call: an answer may take days";
const NO_SESSIONS: &str =
    "runs outlive connections: there are no sessions, and no streams that could be taken up";
const NO_ORIGIN: &str = "every `Origin` is refused: no page of a browser calls this server";
const OWN_SCHEMAS: &str =
    "the schema of a tool follows from the arguments of a workflow: this one cannot be one's";
const NO_HEADERS_FROM_ARGUMENTS: &str = "no argument of a workflow is marked with `x-mcp-header`";
const OWN_KEYS: &str =
    "the scenario dictates the key of a request; the keys here tell whether a question has changed meanwhile";
const ONE_STATE: &str = "`requestState` is the id of the run, in all rounds; keys tell these apart";
const ANSWERED_ELSEWHERE: &str =
    "a client that cannot be asked waits for the run: its questions are answered elsewhere";
const NO_TASK_IS_NEEDED: &str = "no tool needs a client that can wait for tasks, or any other capability";
const NO_FAILED_TASK: &str = "a run that fails is a completed task with an error: none fails as a task";
const ASKS_IN_THE_TASK: &str = "a client that can wait for tasks gets one at once, and is asked by it";
const UNCHECKED: &str = "the suite itself does not check it yet";

/// Those of both protocols.
const OAUTH: &[&str] = &[
    "auth/basic-cimd",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/pre-registration",
    "auth/scope-from-scopes-supported",
    "auth/scope-from-www-authenticate",
    "auth/scope-omitted-when-undefined",
    "auth/scope-retry-limit",
    "auth/scope-step-up",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-none",
    "auth/token-endpoint-auth-post",
];

pub(super) const RUNS_OF_THE_SERVER: &[Run] = &[
    (
        "server, 2026-07-28",
        &["--suite", "all", "--spec-version", "2026-07-28"],
        Expected {
            passes: &[
                "http-header-validation",
                "input-required-result-missing-input-response",
                "input-required-result-request-state",
                "input-required-result-result-type",
                "input-required-result-tampered-state",
                "input-required-result-unsupported-methods",
                "input-required-result-validate-input",
                "server-sse-multiple-streams",
                "tools-call-error",
                "tools-call-simple-text",
                "tools-list",
            ],
            apart: &[
                (
                    TOOLS_ALONE,
                    &[
                        "caching: sep-2549-prompts-list-caching-hints sep-2549-resources-list-caching-hints \
                         sep-2549-resources-templates-list-caching-hints",
                        "completion-complete",
                        "input-required-result-non-tool-request",
                        "prompts-get-embedded-resource",
                        "prompts-get-simple",
                        "prompts-get-with-args",
                        "prompts-get-with-image",
                        "prompts-list",
                        "resources-list",
                        "resources-read-binary",
                        "resources-read-text",
                        "resources-templates-read",
                        "sep-2164-resource-not-found: sep-2164-data-uri sep-2164-error-code",
                    ],
                ),
                (
                    TEXT_AND_VALUES,
                    &[
                        "tools-call-audio",
                        "tools-call-embedded-resource",
                        "tools-call-image",
                        "tools-call-mixed-content",
                    ],
                ),
                (NO_LOGS, &["tools-call-with-progress"]),
                (
                    NO_MODEL_NO_ROOTS,
                    &[
                        "input-required-result-basic-list-roots",
                        "input-required-result-basic-sampling",
                        "input-required-result-multiple-input-requests",
                    ],
                ),
                (
                    OWN_KEYS,
                    &["input-required-result-basic-elicitation", "input-required-result-ignore-extra-params"],
                ),
                (ONE_STATE, &["input-required-result-multi-round: sep-2322-multi-round-r2"]),
                (ANSWERED_ELSEWHERE, &["input-required-result-capability-check"]),
                (NO_ORIGIN, &["dns-rebinding-protection: localhost-host-valid-accepted"]),
                (OWN_SCHEMAS, &["json-schema-2020-12"]),
                (NO_HEADERS_FROM_ARGUMENTS, &["http-custom-header-server-validation"]),
                (
                    NO_TASK_IS_NEEDED,
                    &["server-stateless: sep-2575-missing-capability-http-400 \
                       sep-2575-server-rejects-undeclared-capability"],
                ),
            ],
        },
    ),
    (
        "server, 2025-11-25",
        &["--suite", "all", "--spec-version", "2025-11-25"],
        Expected {
            passes: &[
                "ping",
                "server-initialize",
                "tools-call-error",
                "tools-call-simple-text",
                "tools-list",
            ],
            apart: &[
                (
                    TOOLS_ALONE,
                    &[
                        "completion-complete",
                        "prompts-get-embedded-resource",
                        "prompts-get-simple",
                        "prompts-get-with-args",
                        "prompts-get-with-image",
                        "prompts-list",
                        "resources-list",
                        "resources-read-binary",
                        "resources-read-text",
                        "resources-subscribe",
                        "resources-templates-read",
                        "resources-unsubscribe",
                    ],
                ),
                (
                    TEXT_AND_VALUES,
                    &[
                        "tools-call-audio",
                        "tools-call-embedded-resource",
                        "tools-call-image",
                        "tools-call-mixed-content",
                    ],
                ),
                (NO_LOGS, &["logging-set-level", "tools-call-with-logging", "tools-call-with-progress"]),
                (
                    OLDER_ARE_NOT_ASKED,
                    &[
                        "elicitation-sep1034-defaults",
                        "elicitation-sep1330-enums",
                        "tools-call-elicitation",
                        "tools-call-sampling",
                    ],
                ),
                (
                    NO_SESSIONS,
                    &["server-session-lifecycle", "server-sse-multiple-streams", "server-sse-polling"],
                ),
                (NO_ORIGIN, &["dns-rebinding-protection: localhost-host-valid-accepted"]),
                (OWN_SCHEMAS, &["json-schema-2020-12"]),
            ],
        },
    ),
    (
        "server, extensions",
        &["--suite", "pending"],
        Expected {
            passes: &[
                "http-header-validation",
                "tasks-capability-negotiation",
                "tasks-dispatch-and-envelope",
                "tasks-mrtr-input",
                "tasks-request-headers",
                "tasks-request-state-removal",
                "tasks-wire-fields",
            ],
            apart: &[
                (
                    TOOLS_ALONE,
                    &["sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest"],
                ),
                (NO_SESSIONS, &["server-sse-polling"]),
                (OWN_SCHEMAS, &["json-schema-2020-12"]),
                (NO_HEADERS_FROM_ARGUMENTS, &["http-custom-header-server-validation"]),
                (NO_FAILED_TASK, &["tasks-lifecycle: sep-2663-tasks-get-status-failed"]),
                (ASKS_IN_THE_TASK, &["tasks-mrtr-composition"]),
                (NO_TASK_IS_NEEDED, &["tasks-required-task-error"]),
                (UNCHECKED, &["tasks-status-notifications"]),
            ],
        },
    ),
];

pub(super) const RUNS_OF_THE_CLIENT: &[Run] = &[
    (
        "client, 2026-07-28",
        &["--suite", "all", "--spec-version", "2026-07-28"],
        Expected {
            passes: &[
                "http-custom-headers",
                "http-invalid-tool-headers",
                "http-standard-headers",
                "json-schema-2020-12-preservation",
                "json-schema-ref-no-deref",
                "request-metadata",
                "sep-2322-client-request-state",
                "tools_call",
            ],
            apart: &[
                (NO_OAUTH, OAUTH),
                (
                    NO_OAUTH,
                    &[
                        "auth/authorization-server-migration",
                        "auth/iss-normalized",
                        "auth/iss-not-advertised",
                        "auth/iss-supported",
                        "auth/iss-supported-missing",
                        "auth/iss-unexpected",
                        "auth/iss-wrong-issuer",
                        "auth/metadata-issuer-mismatch",
                        "auth/offline-access-not-supported",
                        "auth/offline-access-scope",
                        "auth/resource-mismatch",
                    ],
                ),
            ],
        },
    ),
    (
        "client, 2025-11-25",
        &["--suite", "all", "--spec-version", "2025-11-25"],
        Expected {
            passes: &["initialize", "json-schema-2020-12-preservation", "sse-retry", "tools_call"],
            apart: &[(NO_OAUTH, OAUTH), (OLDER_ARE_NOT_ASKED, &["elicitation-sep1034-client-defaults"])],
        },
    ),
    (
        "client, extensions",
        &["--suite", "extensions"],
        Expected {
            passes: &[],
            apart: &[(
                NO_OAUTH,
                &[
                    "auth/client-credentials-basic",
                    "auth/client-credentials-jwt",
                    "auth/dpop",
                    "auth/dpop-nonce",
                    "auth/enterprise-managed-authorization",
                    "auth/wif-jwt-bearer",
                ],
            )],
        },
    ),
    (
        "client, 2025-03-26",
        &["--suite", "backcompat"],
        Expected {
            passes: &[],
            apart: &[(
                NO_OAUTH,
                &["auth/2025-03-26-oauth-endpoint-fallback", "auth/2025-03-26-oauth-metadata-backcompat"],
            )],
        },
    ),
];

/// Scenarios that are in no suite that can be run with a client: it has no skills.
pub(super) const NOT_RUN: &[&str] = &[
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-frontmatter",
    "sep-2640-client-verify-size",
];
