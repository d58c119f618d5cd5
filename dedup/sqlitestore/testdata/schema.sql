-- version 1
-- retrysafe_outcome
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
	) STRICT
-- retrysafe_outcome_expiry
CREATE INDEX retrysafe_outcome_expiry ON retrysafe_outcome (expires_at)
-- retrysafe_schema
CREATE TABLE retrysafe_schema (version INTEGER NOT NULL) STRICT
-- sqlite_autoindex_retrysafe_outcome_1
automatic
