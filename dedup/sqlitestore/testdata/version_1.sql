CREATE TABLE retrysafe_schema (version INTEGER NOT NULL) STRICT;
INSERT INTO retrysafe_schema (version) VALUES (1);
CREATE TABLE retrysafe_outcome (
  seq                 INTEGER PRIMARY KEY,
  scope               TEXT    NOT NULL,
  method              TEXT    NOT NULL,
  id                  TEXT    NOT NULL,
  fingerprint_version INTEGER NOT NULL,
  fingerprint         BLOB    NOT NULL,
  fence               INTEGER NOT NULL,
  recorded_at         INTEGER NOT NULL,
  expires_at          INTEGER NOT NULL,
  record              BLOB    NOT NULL,
  UNIQUE (scope, method, id)
) STRICT;
CREATE INDEX retrysafe_outcome_expiry ON retrysafe_outcome (expires_at);
-- The key "a" of help_test.go, recorded in 2026 and kept for a century.
INSERT INTO retrysafe_outcome
  (scope, method, id, fingerprint_version, fingerprint, fence, recorded_at, expires_at, record)
VALUES
  ('tenant', '/test.v1.Test/Case', 'a', 1, x'1f58b9145b24d108d7ac38887338b3ea3229833b9c1e418250343f907bfd1047', 1767323045000000, 1767323045000000, 4922996645000000, CAST('paid' AS BLOB));
