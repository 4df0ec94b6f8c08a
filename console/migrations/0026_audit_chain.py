"""The audit is a chain of hashes, and stays as it was written; what happens at other doors has its place in it."""

from django.db import migrations, models

#: one field of an entry as it goes into its hash: the length in bytes, the text, and where it ends
_FIELD = """
    CREATE FUNCTION console_audit_field(said text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE WHEN said IS NULL THEN '-,'
                    ELSE octet_length(convert_to(said, 'UTF8'))::text || ':' || said || ',' END
    $$
"""
_DIGEST = """
    CREATE FUNCTION console_audit_digest(entry console_auditentry) RETURNS text LANGUAGE sql STABLE AS $$
        SELECT encode(sha256(convert_to(
            console_audit_field(entry.previous)
            || console_audit_field(entry.number::text)
            || console_audit_field(to_char(entry.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
            || console_audit_field(entry.actor)
            || console_audit_field(entry.what)
            || console_audit_field(entry.kind)
            || console_audit_field(entry.operation::text)
            || console_audit_field(entry.reason)
            || console_audit_field(entry.result::text), 'UTF8')), 'hex')
    $$
"""
#: the row of the chain's end is locked until the entry is committed: who writes at the same time waits for it
_CHAIN = """
    CREATE FUNCTION console_audit_chain() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
    AS $$
    DECLARE
        last console_auditend;
    BEGIN
        SELECT * INTO last FROM console_auditend WHERE id = 1 FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO console_auditend (id, number, digest) VALUES (1, 0, '') ON CONFLICT DO NOTHING;
            SELECT * INTO STRICT last FROM console_auditend WHERE id = 1 FOR UPDATE;
        END IF;
        NEW.number := last.number + 1;
        NEW.previous := last.digest;
        NEW.digest := console_audit_digest(NEW);
        UPDATE console_auditend SET number = NEW.number, digest = NEW.digest WHERE id = 1;
        RETURN NEW;
    END
    $$
"""
#: all that changes in an entry is that its account is deleted: the name stays
_KEEP = """
    CREATE FUNCTION console_audit_keep() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            OLD.user_id := NULL;
            IF NEW IS NOT DISTINCT FROM OLD THEN
                RETURN NEW;
            END IF;
        END IF;
        RAISE EXCEPTION 'Entries of the audit are written once: they are neither changed nor deleted.';
    END
    $$
"""
#: what is there already, in the order in which it was written
_OLD = """
    DO $$
    DECLARE
        entry console_auditentry;
        count bigint := 0;
        last text := '';
    BEGIN
        FOR entry IN SELECT * FROM console_auditentry ORDER BY id LOOP
            count := count + 1;
            entry.number := count;
            entry.previous := last;
            last := console_audit_digest(entry);
            UPDATE console_auditentry SET number = count, previous = entry.previous, digest = last WHERE id = entry.id;
        END LOOP;
        INSERT INTO console_auditend (id, number, digest) SELECT 1, count, last WHERE count > 0;
    END
    $$
"""
_TRIGGERS = """
    CREATE TRIGGER audit_chain BEFORE INSERT ON console_auditentry
        FOR EACH ROW EXECUTE FUNCTION console_audit_chain();
    CREATE TRIGGER audit_keep BEFORE UPDATE OR DELETE ON console_auditentry
        FOR EACH ROW EXECUTE FUNCTION console_audit_keep();
"""
_NO_TRIGGERS = """
    DROP TRIGGER audit_keep ON console_auditentry;
    DROP TRIGGER audit_chain ON console_auditentry;
"""
_WHATS = [
    ("confirmed", "confirmed"),
    ("finished", "finished"),
    ("aborted", "asked to stop"),
    ("continued", "asked to go on"),
    ("denied", "was not allowed"),
    ("approved", "approved"),
    ("declined", "declined"),
    ("expired", "was not approved in time"),
    ("done", "done"),
    ("failed", "failed"),
]


class Migration(migrations.Migration):
    """The entries that there are are chained too: from here on a change in them is seen."""

    dependencies = [("console", "0025_dashboards_in_total")]

    operations = [
        migrations.CreateModel(
            "AuditEnd",
            [
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("number", models.BigIntegerField()),
                ("digest", models.CharField(max_length=64)),
            ],
            {"default_permissions": ()},
        ),
        migrations.CreateModel(
            "ReadAdministration",
            [
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("broker", models.CharField(max_length=255, unique=True)),
                ("log", models.CharField(max_length=64)),
                ("number", models.BigIntegerField()),
            ],
            {"default_permissions": ()},
        ),
        migrations.AddField("auditentry", "number", models.BigIntegerField(default=0, editable=False)),
        migrations.AddField("auditentry", "previous", models.CharField(max_length=64, default="", editable=False)),
        migrations.AddField("auditentry", "digest", models.CharField(max_length=64, default="", editable=False)),
        migrations.AlterField("auditentry", "what", models.CharField("what", max_length=16, choices=_WHATS)),
        migrations.RunSQL(_FIELD, "DROP FUNCTION console_audit_field(text)"),
        migrations.RunSQL(_DIGEST, "DROP FUNCTION console_audit_digest(console_auditentry)"),
        migrations.RunSQL(_CHAIN, "DROP FUNCTION console_audit_chain()"),
        migrations.RunSQL(_KEEP, "DROP FUNCTION console_audit_keep()"),
        migrations.RunSQL(_OLD, migrations.RunSQL.noop),
        migrations.AddConstraint("auditentry", models.UniqueConstraint(fields=["number"], name="audit_number")),
        migrations.RunSQL(_TRIGGERS, _NO_TRIGGERS),
    ]
