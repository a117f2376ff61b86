/** What the handlers of a run write: one record for each event, with how often it was applied, and what the process took the time for. */
export const CHAOS_TABLES = `
  CREATE TABLE IF NOT EXISTS chaos_run AS SELECT clock_timestamp() AS began;
  CREATE TABLE IF NOT EXISTS chaos_record (
    source        text    NOT NULL,
    event_id      text    NOT NULL,
    applied_count integer NOT NULL DEFAULT 1,
    process       text    NOT NULL,
    zone          text    NOT NULL,
    process_time  timestamptz NOT NULL,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (source, event_id)
  );
  CREATE TABLE IF NOT EXISTS chaos_completion (
    event_id text    PRIMARY KEY,
    count    integer NOT NULL DEFAULT 1
  );
  CREATE TABLE IF NOT EXISTS chaos_invoice (
    id    text    PRIMARY KEY,
    total integer NOT NULL
  );
  -- Rows that were leased before they were due, by the clock of the database: somebody took another one's word for the time.
  -- What waits for its provider is leased by a redelivery, whenever that comes.
  CREATE TABLE IF NOT EXISTS chaos_early (id uuid NOT NULL);
  CREATE OR REPLACE FUNCTION chaos_note_early() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO chaos_early VALUES (OLD.id); RETURN NULL; END $$;
  CREATE OR REPLACE TRIGGER chaos_early AFTER UPDATE ON webhook_outbox FOR EACH ROW
    WHEN (CASE WHEN OLD.leased_by IS NULL THEN OLD.due_at ELSE OLD.lease_until END > clock_timestamp() AND NEW.attempt + NEW.lost > OLD.attempt + OLD.lost
          AND (OLD.leased_by IS NOT NULL OR OLD.kind = 'effect' OR OLD.source NOT IN ('patient', 'routed')))
    EXECUTE FUNCTION chaos_note_early();
  -- Leases that another process has ended (a takeover), those whose holder was lost, and attempts.
  CREATE TABLE IF NOT EXISTS chaos_lease (id uuid NOT NULL, what text NOT NULL, owner uuid, at timestamptz NOT NULL);
  CREATE OR REPLACE FUNCTION chaos_note_lease() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.leased_by = OLD.leased_by AND NEW.lease_until < OLD.lease_until AND NEW.attempt = OLD.attempt THEN
      INSERT INTO chaos_lease VALUES (NEW.id, 'taken', OLD.leased_by, clock_timestamp());
    END IF;
    IF NEW.lost > OLD.lost THEN INSERT INTO chaos_lease VALUES (NEW.id, 'lost', OLD.leased_by, clock_timestamp()); END IF;
    IF NEW.attempt > OLD.attempt THEN INSERT INTO chaos_lease VALUES (NEW.id, 'attempt', NEW.leased_by, clock_timestamp()); END IF;
    RETURN NULL;
  END $$;
  CREATE OR REPLACE TRIGGER chaos_lease AFTER UPDATE ON webhook_outbox FOR EACH ROW
    WHEN (OLD.leased_by IS NOT NULL OR NEW.attempt > OLD.attempt)
    EXECUTE FUNCTION chaos_note_lease()`;

export const APPLY = `INSERT INTO chaos_record (source, event_id, process, zone, process_time) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (source, event_id) DO UPDATE SET applied_count = chaos_record.applied_count + 1`;

export const COMPLETE = `INSERT INTO chaos_completion (event_id) VALUES ($1)
  ON CONFLICT (event_id) DO UPDATE SET count = chaos_completion.count + 1`;

/** Not repeat-safe on purpose: a payment that is handled twice shows in the total. */
export const PAY = `INSERT INTO chaos_invoice (id, total) VALUES ($1, $2)
  ON CONFLICT (id) DO UPDATE SET total = chaos_invoice.total + EXCLUDED.total`;
