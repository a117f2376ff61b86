/** The business record that test handlers write: one row for each event, counting how often it was applied. */
export const RECEIVED_EVENT = `
  CREATE TABLE IF NOT EXISTS received_event (
    source        text    NOT NULL,
    event_id      text    NOT NULL,
    event_type    text    NOT NULL,
    applied_count integer NOT NULL DEFAULT 1,
    PRIMARY KEY (source, event_id)
  )`;
