"""What this version promises: each id, its sentence, and one way to break it that its tests must notice.

A mutation names an attribute and what becomes of it: `raise`, `return <literal>`, or `allow` for a decision. The tests
of an id run once more with its mutation applied in every process they start, and must fail.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Promise:
    sentence: str
    #: `package.module:attribute = what`.
    mutation: str
    #: Which of its files notices that soonest, where no name tells.
    noticed_in: str = ""


CAPABILITIES: dict[str, Promise] = {
    "NHI-01": Promise(
        "Identities of three kinds have a unique name per kind, an owner, a backup owner who is another, and "
        "what describes them.",
        "nhi.identities.identities:_check_identity = return None",
    ),
    "NHI-02": Promise(
        "One function moves an identity through its lifecycle, by compare-and-swap, on record; an illegal "
        "move changes nothing.",
        "nhi.identities.lifecycle:_swap_state = return True",
    ),
    "NHI-03": Promise(
        "Suspending or archiving ends access before the reply; what could not be stopped at once is named and swept.",
        "nhi.identities.lifecycle:_run_stop = raise",
    ),
    "NHI-04": Promise(
        "Credentials are shown once, kept as a fingerprint, end, rotate with an overlap, and are refused when "
        "malformed without a query; a personal token makes no other.",
        "nhi.credentials.credentials:refusal_reason = return ''",
    ),
    "NHI-05": Promise(
        "A credential is exchanged for a short-lived token, narrowed to a scope and an audience.",
        "nhi.authorization.facts:token_refusal_reason = raise",
    ),
    "NHI-06": Promise(
        "Agent to tool grants: a duplicate is refused, wrong kinds are refused, every stored constraint is "
        "enforced or denies, and one that constrains nothing is refused.",
        "nhi.decisions.engine:_check_arguments = allow",
    ),
    "NHI-07": Promise(
        "Grants between identities: call or delegate, to named actions, so often an hour, until they end; enforced on "
        "every send.",
        "nhi.decisions.engine:_check_action = allow",
    ),
    "NHI-08": Promise(
        "A person sees and uses only what is granted; strangers get the same answer as for an unknown id.",
        "nhi.models.identities:_granted_to = raise",
    ),
    "NHI-09": Promise(
        "Roles of capability patterns, matched on whole segments; the widest waits for a second admin.",
        "nhi.decisions.capabilities:prefix = return ''",
    ),
    "NHI-10": Promise(
        "One decision point: default deny, any error is a deny, always a reason and an id.",
        "nhi.decisions.engine:decide = allow",
    ),
    "NHI-12": Promise(
        "Many grants at once, each with its own result; access copied from one identity to another.",
        "nhi.access.bulk:give_tools = return []",
    ),
    "NHI-14": Promise(
        "A call that needs approval waits for a person who neither asked for it nor handles a member of its chain, "
        "goes nowhere meanwhile, and passes once when it was approved; the task that it is made in says so.",
        "mcp.gateway.batch.call_approvals:use_approval = return True",
    ),
    "NHI-20": Promise(
        "Every call carries its chain, which has an end and no circle; on another's behalf only what both may is done.",
        "nhi.decisions.delegation:_refusal_condition = return None",
    ),
    "AUD-01": Promise(
        "Every change is recorded in its own transaction, append-only down to the database's triggers.",
        "nhi.audit.append_only_triggers:install = return None",
    ),
    "AUD-02": Promise(
        "Every call of a tool leaves one row that nobody can change, whatever became of it; refusals of one identity "
        "past 600 in a minute are counted in rows.",
        "mcp.gateway.batch.result_writer:_build_row = raise",
        "tests/mcp/test_outcomes.py",
    ),
    "AUD-03": Promise(
        "A call in flight is a lease; what a dead process leaves becomes a row that says lost.",
        "mcp.gateway.batch.result_writer:reap_lost_calls = return 0",
        "tests/mcp/test_leases.py",
    ),
    "AUD-07": Promise(
        "Secrets are taken out before anything is stored, shown or returned, and the record says so.",
        "common.redaction.redactor:redact_by_policy = return ''",
    ),
    "MCP-01": Promise(
        "Servers are described as IDEs do; every problem of a description is said at once, with its place.",
        "mcp.servers.validation:check_server = return None",
    ),
    "MCP-03": Promise(
        "Servers are met over stdio, HTTP and HTTP with SSE in every era, and their status says how they are doing.",
        "mcp.servers.status_changes:move_status = return False",
    ),
    "MCP-04": Promise(
        "Every tool a server lists is registered; one that vanishes is marked and kept.",
        "mcp.tools.catalogue:_withdraw_tool = return None",
        "tests/mcp/test_pinning.py",
    ),
    "MCP-05": Promise(
        "A tool is called by the definition that a person approved; a changed one is refused until another approves.",
        "mcp.gateway.batch.facts:_definition_condition = return None",
    ),
    "MCP-06": Promise(
        "The gateway is an MCP server of protocol 2026-07-28 and, in sessions, of those from 2025-03-26 on, for what "
        "its caller was granted.",
        "mcp.server.request_parser:parse_request = raise",
        "tests/front/test_door.py",
    ),
    "MCP-07": Promise(
        "Tools are listed and called over REST with stable errors; what is not there and what is not yours look alike.",
        "mcp.server.rest_renderer:render_result = raise",
    ),
    "MCP-08": Promise(
        "Budgets of server, tool, agent and grant are exact over many processes; a refused call costs nothing.",
        "mcp.limits.budget_state:consume_all = return None",
    ),
    "MCP-09": Promise(
        "A service that fails is left alone by all processes, and tried by one call at a time; one that fails for a "
        "single identity is left alone for that one.",
        "mcp.gateway.batch.facts:breaker_condition = return None",
    ),
    "MCP-10": Promise(
        "Each check of a server leaves a report of how its handshake went.",
        "mcp.servers.health:_health_status = return 'Healthy'",
    ),
    "MCP-11": Promise(
        "Servers and tools show counts, latency of the last hundred calls and calls in flight.",
        "mcp.gateway.call_statistics:_load_statistics = raise",
    ),
    "MCP-12": Promise(
        "Each call is one line of the structured log, with its context and without its secrets.",
        "mcp.gateway.call_telemetry:log_call = return None",
    ),
    "MCP-15": Promise(
        "The bundled to-do server runs over stdio and HTTP, and the demo uses it.",
        "common.process.executable_allowlist:_check_example = raise",
        "tests/owner/test_executables.py",
    ),
    "SUP-01": Promise(
        "An agent that runs here is described whole: program, patterns, limits, access; programs come from a list that "
        "no page changes.",
        "supervisor.agent_checks:check = return None",
    ),
    "SUP-02": Promise(
        "Every input and output pattern runs a real process: a list of words, no shell, an environment of its own, a "
        "private directory, capped output.",
        "supervisor.runner.orders:_argv = return ('/bin/true',)",
        "tests/supervisor/test_patterns.py",
    ),
    "SUP-03": Promise(
        "A run moves through its states by compare-and-swap, each move on record.",
        "supervisor.lifecycle:_planned = raise",
    ),
    "SUP-04": Promise(
        "Timeout and cancel end the whole tree; a lost worker is noticed, and nothing it ran goes on or runs twice.",
        "supervisor.reaping:reap = return 0",
    ),
    "SUP-05": Promise(
        "Read-write agents run one at a time over all workers, read-only ones up to their limit; others wait in a "
        "queue that has a depth.",
        "supervisor.admission:require = raise",
    ),
    "SUP-06": Promise(
        "Only what may pass is tried again, after 1, 2 and 4 seconds, each try on record.",
        "supervisor.categories:of_exit = return 'AgentError'",
    ),
    "SUP-07": Promise(
        "A result with redacted text, its times and moves, and what the operating system counted.",
        "supervisor.runner.bookkeeping:_usage = return {}",
    ),
    "SUP-08": Promise(
        "A session keeps one process: messages in order both ways, idle and total time, a clean end.",
        "supervisor.sessions:say = raise",
    ),
    "SUP-09": Promise(
        "A schedule fires once for each due time, whoever looks; misses and overlaps follow its policies, clock "
        "changes neither skip nor double.",
        "supervisor.schedules.cron:_first_moment = raise",
    ),
    "SUP-10": Promise(
        "Agents, runs, schedules and sessions by API and console, with live output, for those who may.",
        "supervisor.access:require = return {}",
    ),
    "SUP-11": Promise(
        "Every run gets a token of its own, which ends with it; what it calls is governed, and logged under the run's "
        "id.",
        "nhi.credentials.run_tokens:close = return 0",
    ),
    "SUP-12": Promise(
        "No run is taken while memory, disk or load are past their limits; the same input within a minute may share "
        "one run.",
        "supervisor.admission:overload = return ''",
    ),
    "SUP-13": Promise(
        "A model is an agent too: it calls what its identity was granted through the gateway, its endpoint has a "
        "breaker, and its run is recorded like any other.",
        "supervisor.chat.faults:ChatFault.is_the_services = return False",
        "tests/supervisor/models/test_failing.py",
    ),
    "CON-01": Promise(
        "Sign-in with lockout and a second factor; four roles; auditors change nothing anywhere, and what "
        "they open is on record.",
        "nhi.actors:Actor.only_reads = return False",
    ),
    "CON-02": Promise(
        "Home says what needs this person, each card leading to exactly that, then charts of calls, runs and tasks "
        "over time: outcomes, latency, who drives it, budgets that burn, health, what piles up, who was told.",
        "nhi.console.attention_counts:all_items = return []",
        "tests/console/test_home.py",
    ),
    "CON-05": Promise(
        "Every list searches, filters, saves views, acts in bulk after a page that states count and effect, "
        "exports, and teaches when empty.",
        "nhi.models.people:SavedViewQuerySet.visible_to = raise",
    ),
    "CON-06": Promise(
        "The user's time zone, dark mode, keyboard, 360 px, no accessibility violation, no request to another "
        "host, a strict policy.",
        "common.middleware:security_headers = raise",
    ),
    "OPS-01": Promise(
        "One command from a fresh machine to a running house, and one that stops everything it started.",
        "config.launcher.launch:run = raise",
        "tests/house/test_up.py",
    ),
    "OPS-02": Promise(
        "Settings come from the environment; unsafe or odd values stop the start.",
        "common.installation_keys:parse_key_ring = return None",
        "tests/house/test_environment.py",
    ),
    "OPS-03": Promise(
        "Liveness, readiness that names what is down, metrics, and JSON logs with request ids.",
        "config.health:readyz = raise",
    ),
    "OPS-04": Promise(
        "OpenAPI 3.1 is served, committed and true, with examples and error responses for every operation.",
        "common.api.errors:handle = raise",
    ),
    "OPS-05": Promise(
        "Commands for what scripts need, with JSON output and exit codes.",
        "common.commands:GatehouseCommand.handle = return None",
    ),
    "A2A-01": Promise(
        "Tasks are sent, listed, read and cancelled by the REST contract; who sends follows from the credential.",
        "a2a.access:source_of = return None",
        "tests/a2a/test_contract.py",
    ),
    "A2A-02": Promise(
        "One task in eight states, every change a numbered event; what has ended stays as it ended.",
        "a2a.writer:_require_open = return None",
    ),
    "A2A-03": Promise(
        "The protocol's operations for every agent at its own address, whatever the version and the binding.",
        "a2a.showing:task = raise",
    ),
    "A2A-04": Promise(
        "Cards tell the truth in the form of each version, signed; strangers read those of discoverable agents and no "
        "others.",
        "a2a.cards:_knows = return True",
        "tests/a2a/cards/test_serving.py",
    ),
    "A2A-05": Promise(
        "Who follows a task hears each event once and in order, whichever process writes it, also after a break.",
        "a2a.operations.following:read = return []",
        "tests/a2a/bindings/test_reading_on.py",
    ),
    "A2A-06": Promise(
        "The end of a task is told to its callback: one signed event by outbox, tried for three days, delivered or "
        "accounted for.",
        "a2a.signatures:_signature = return 'v1,'",
        "tests/a2a/callbacks/test_delivering.py",
    ),
    "A2A-07": Promise(
        "Tasks reach what is behind an agent, each once, and are followed to the end: a run of a program or a model, "
        "another A2A server, or its own workers, lent to one at a time and offered again when the lease ends.",
        "a2a.dispatching:_begin = return 0",
        "tests/a2a/runtimes/test_runs.py",
    ),
    "A2A-08": Promise(
        "Every send is decided: caller, grant, actions, hourly limit, chain; unknown and forbidden look alike.",
        "a2a.access:_budget = raise",
        "tests/a2a/test_permission.py",
    ),
    "A2A-09": Promise(
        "How each agent is reached and how much it takes is set by people, enforced exactly and told in its card.",
        "a2a.endpoint_room:_require_room = return None",
    ),
    "A2A-10": Promise(
        "The envelope of seed 001 sends a task and asks after it, in the caller's own name and by the same rules.",
        "a2a.operations.letters:_require_own_name = return None",
    ),
    "A2A-11": Promise(
        "The same key and body lead to the same task; another body under the key is refused.",
        "a2a.sending:_sent = return None",
    ),
    "A2A-12": Promise(
        "Deadlines end tasks, a part has no more time than the whole and is cancelled with it, and so is its run; a "
        "whole chain is shown at once, with its runs and calls.",
        "a2a.cancelling:cancel_within = return None",
        "tests/a2a/test_permission.py",
    ),
}
