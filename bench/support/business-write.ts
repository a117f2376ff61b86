/** The business write of every contender. */
export const WRITE = `INSERT INTO business_record (source, event_id, kind) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
  ON CONFLICT DO NOTHING`;
