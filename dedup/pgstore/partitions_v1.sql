CREATE TABLE retrysafe_partitions (
    version integer NOT NULL
);

INSERT INTO retrysafe_partitions (version) VALUES (1);

-- What transactional stores with partitions have recorded. An operation may
-- have several rows here, of which one at most has not expired.
CREATE TABLE retrysafe_outcomes_by_time (
    id                  bytea NOT NULL,
    method              bytea NOT NULL,
    scope               bytea NOT NULL,
    fingerprint_version smallint NOT NULL,
    fingerprint         bytea NOT NULL,
    fence               bigint NOT NULL,
    record              bytea NOT NULL,
    completed_at        timestamptz NOT NULL,
    expires_at          timestamptz NOT NULL
) PARTITION BY RANGE (completed_at);

CREATE INDEX retrysafe_outcomes_by_time_key ON retrysafe_outcomes_by_time (id, method, scope);

CREATE INDEX retrysafe_outcomes_by_time_expires_at ON retrysafe_outcomes_by_time (expires_at);
