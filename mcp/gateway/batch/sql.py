"""SQL statements of the hot path. One query loads the facts of a whole batch, on PostgreSQL and SQLite alike.

Written by hand, because the ORM needs more time to build this query than the database to run it.
"""

FACT_COLUMNS = (
    "n", "now",
    "credential_id", "public_id", "digest", "credential_expires", "credential_revoked", "networks", "run_chain",
    "agent_id", "agent_kind", "agent_name", "agent_state", "agent_expires", "epoch", "tokens_from", "owner_id",
    "tool_id", "tool_name", "tool_identity_state", "tool_expires", "capability",
    "tool_state", "wire_name", "asks", "definition_id", "definition_checkable",
    "server_id", "server_name", "enabled", "revision", "era", "timeout", "connection", "faults",
    "breaker_id", "breaker_state", "breaker_failures", "breaker_since", "breaker_recovery", "breaker_probe_until",
    "own_breaker_id", "own_breaker_state", "own_breaker_failures", "own_breaker_since", "own_breaker_recovery",
    "own_breaker_probe_until",
    "grant_id", "granted_by", "grant_expires", "grant_revoked", "limited", "per_hour", "grant_asks",
    "role",
    "approval_id", "approval_state", "approval_expires", "approval_terms",
    "budgeted", "recordable",
)  # fmt: skip

#: Columns of a principal of a delegation chain: its state and its own access.
PRINCIPAL_COLUMNS = (
    "n", "now", "agent_id", "agent_kind", "agent_name", "agent_state", "agent_expires",
    "grant_id", "granted_by", "grant_expires", "grant_revoked", "limited", "per_hour", "grant_asks",
    "role",
)  # fmt: skip

FACTS_INPUT_SQL = {
    "postgresql": """
    SELECT n, public_id, credential_id, identity_id, tool, args_hash
    FROM unnest(%s::int[], %s::text[], %s::uuid[], %s::uuid[], %s::text[], %s::text[])
        AS asked(n, public_id, credential_id, identity_id, tool, args_hash)
    """,
    "sqlite": "VALUES {rows}",
}
PRINCIPALS_INPUT_SQL = {
    "postgresql": """
    SELECT n, identity_id, tool FROM unnest(%s::int[], %s::uuid[], %s::text[]) AS asked(n, identity_id, tool)
    """,
    "sqlite": "VALUES {rows}",
}
DIALECTS = {
    "postgresql": {
        "now": "STATEMENT_TIMESTAMP()",
        "never": "'9999-01-01 00:00:00+00'::timestamptz",
        "least": "LEAST",
        "greatest": "GREATEST",
        "object": "json_build_object",
        # Without the right to insert log rows, no call may be made: it could not be logged afterwards.
        "recordable": "has_table_privilege('nhi_invocation_log', 'INSERT')",
    },
    "sqlite": {
        "now": "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')",
        "never": "'9999-01-01 00:00:00'",
        "least": "MIN",
        "greatest": "MAX",
        "object": "json_object",
        "recordable": "1",
    },
}
# A role covers a tool when assignment, pattern and tool existed at the same time, as in nhi.authorization.facts.
ACCESS_SQL = """
    g.id, g.granted_by_name, g.expires_at, g.revoked_at, g.allowed_parameters IS NOT NULL, g.max_calls_per_hour,
        g.requires_approval,
    CASE WHEN t.id IS NULL THEN NULL ELSE (
        SELECT {object}('id', ra.id, 'role_id', ra.role_id, 'name', r.name, 'expires_at', ra.expires_at, 'closed',
            NULLIF({least}(COALESCE(ra.revoked_at, {never}), COALESCE(rc.removed_at, {never})), {never}))
        FROM nhi_role_assignment ra
        JOIN nhi_role r ON r.id = ra.role_id
        JOIN nhi_role_capability rc ON rc.role_id = ra.role_id AND rc.approved_at IS NOT NULL
        WHERE ra.identity_id = i.id
            AND ((rc.prefix IS NULL AND rc.pattern = t.capability)
                OR SUBSTR(t.capability, 1, LENGTH(rc.prefix)) = rc.prefix)
            AND {greatest}(ra.created_at, rc.approved_at, t.created_at)
                < {least}(COALESCE(ra.revoked_at, {never}), COALESCE(rc.removed_at, {never}),
                    COALESCE(ra.expires_at, {never}))
        ORDER BY {least}(COALESCE(ra.revoked_at, {never}), COALESCE(rc.removed_at, {never})) DESC,
            ra.expires_at DESC NULLS FIRST
        LIMIT 1
    ) END
"""
LATEST_GRANT_SQL = """
LEFT JOIN nhi_tool_permission g ON g.id = (
    SELECT own.id FROM nhi_tool_permission own WHERE own.agent_id = i.id AND own.tool_id = t.id
    ORDER BY own.revoked_at DESC NULLS FIRST, own.created_at DESC LIMIT 1
)
"""
FACTS_SQL = """
WITH asked(n, public_id, credential_id, identity_id, tool, args_hash) AS ({asked})
SELECT asked.n, {now},
    c.id, c.public_id, c.digest, c.expires_at, c.revoked_at, c.allowed_networks, c.chain,
    i.id, i.kind, i.name, i.state, i.expires_at, i.access_epoch, i.tokens_from, i.owner_id,
    t.id, t.name, t.state, t.expires_at, t.capability,
    tool.state, tool.name, tool.requires_approval, tool.approved_id, d.checkable,
    s.id, s.name, s.enabled, s.revision, s.era, s.timeout, s.status, s.faults,
    b.id, b.state, b.failure_count, b.last_state_change, b.recovery_timeout, b.probe_until,
    ob.id, ob.state, ob.failure_count, ob.last_state_change, ob.recovery_timeout, ob.probe_until,
    {access},
    a.id, a.state, a.expires_at, a.terms,
    EXISTS (
        SELECT 1 FROM mcp_budget bu
        WHERE (bu.scope = 'server' AND bu.target_id = s.id) OR (bu.scope = 'tool' AND bu.target_id = t.id)
            OR (bu.scope = 'agent' AND bu.target_id = i.id) OR (bu.scope = 'grant' AND bu.target_id = g.id)
    ),
    {recordable}
FROM asked
LEFT JOIN nhi_credential c ON c.id = COALESCE(
    asked.credential_id, (SELECT known.id FROM nhi_credential known WHERE known.public_id = asked.public_id)
) AND (asked.identity_id IS NULL OR c.identity_id = asked.identity_id)
LEFT JOIN nhi_identity i ON i.id = c.identity_id
LEFT JOIN nhi_identity t ON t.kind = 'tool' AND t.name = asked.tool
LEFT JOIN mcp_tool tool ON tool.identity_id = t.id
LEFT JOIN mcp_server s ON s.id = tool.server_id
LEFT JOIN mcp_tool_definition d ON d.id = tool.approved_id
LEFT JOIN mcp_breaker b ON b.server_id = s.id AND b.agent_id IS NULL
LEFT JOIN mcp_breaker ob ON ob.server_id = s.id AND ob.agent_id = i.id
{latest_grant}
LEFT JOIN mcp_call_approval a ON a.agent_id = i.id AND a.tool_id = t.id AND a.args_hash = asked.args_hash
    AND a.state IN ('pending', 'approved')
ORDER BY asked.n
"""
# A principal without access to the tool cannot delegate it: this loads the same access for the chain's principals.
PRINCIPALS_SQL = """
WITH asked(n, identity_id, tool) AS ({asked})
SELECT asked.n, {now}, i.id, i.kind, i.name, i.state, i.expires_at,
    {access}
FROM asked
LEFT JOIN nhi_identity i ON i.id = asked.identity_id
LEFT JOIN nhi_identity t ON t.kind = 'tool' AND t.name = asked.tool
{latest_grant}
ORDER BY asked.n
"""
