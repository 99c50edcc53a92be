"""Finds rights of the database role that exceed SELECT and INSERT on the logs, and warns of them.

The triggers apply to every role, but an owner or a superuser can drop them. This is a finding about the installation,
not a fault of the running process, so it is a warning.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

from nhi.audit.append_only_triggers import FUNCTION, LOG_TABLES

#: The owner of a schema can drop its tables, and the owner of the function can replace it.
ROLE_RIGHTS_QUERY = """
SELECT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user),
       pg_catalog.pg_has_role(current_user, c.relowner, 'USAGE'),
       pg_catalog.pg_has_role(current_user, n.nspowner, 'USAGE'),
       EXISTS (SELECT 1 FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid AND p.proname = %s
               AND pg_catalog.pg_has_role(current_user, p.proowner, 'USAGE')),
       pg_catalog.has_table_privilege(c.oid, 'UPDATE, DELETE, TRUNCATE, TRIGGER')
           OR pg_catalog.has_any_column_privilege(c.oid, 'UPDATE')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s)
"""
EXPLANATIONS = (
    "is a superuser and can drop the guards of {table}",
    "owns {table} and can drop its guards",
    "owns the schema of {table} and can drop the table",
    "owns the function of the guards of {table} and can replace it",
    "may change {table} or set triggers on it, and needs only SELECT and INSERT",
)
REMEDY = "Run Gatehouse with a role of its own: see Database in docs/how-to/production.md."


def excess_right_warnings(connection: BaseDatabaseWrapper) -> list[str]:
    """Return a warning about the strongest excess right for each log table. SQLite has no roles."""
    if connection.vendor != "postgresql":
        return []
    messages = []
    with connection.cursor() as cursor:
        for table in LOG_TABLES:
            cursor.execute(ROLE_RIGHTS_QUERY, [FUNCTION, table])
            rights = cursor.fetchone() or ()
            explanation = next((text for text, has in zip(EXPLANATIONS, rights, strict=False) if has), "")
            if explanation:
                messages.append(f"The database role of Gatehouse {explanation.format(table=table)}. {REMEDY}")
    return messages
